//! Layouts and constants of the provider headers, compared with `windows-sys`.

use std::collections::HashMap;
use std::mem::offset_of;
use std::process::Command;

use windows_sys::Win32::Foundation as win32;
use windows_sys::Win32::System::Diagnostics::Etw as sdk;

use crate::support::*;

/// Sizes, offsets and constants of the headers are those of the Windows SDK, as `windows-sys` has them.
#[test]
fn headers_agree_with_windows_sys() {
    macro_rules! sizes {
        ($($of:ident: $($field:ident)*;)*) => {
            vec![$(
                (stringify!($of).to_owned(), size_of::<sdk::$of>() as u64),
                $((concat!(stringify!($of), ".", stringify!($field)).to_owned(),
                    offset_of!(sdk::$of, $field) as u64),)*
            )*]
        };
    }
    let mut expected = sizes! {
        EVENT_DESCRIPTOR: Version Channel Level Opcode Task Keyword;
        EVENT_DATA_DESCRIPTOR: Size;
        EVENT_FILTER_DESCRIPTOR: Size Type;
        EVENT_FILTER_HEADER: InstanceId NextOffset;
    };
    macro_rules! values {
        ($($from:ident::$name:ident)*) => {
            expected.extend([$((stringify!($name).to_owned(), $from::$name as u64)),*])
        };
    }
    values! {
        sdk::EVENT_ACTIVITY_CTRL_CREATE_SET_ID
        sdk::EVENT_FILTER_TYPE_SCHEMATIZED
        sdk::EVENT_FILTER_TYPE_PAYLOAD
        sdk::EVENT_FILTER_TYPE_EVENT_NAME
        sdk::EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW
        sdk::EVENT_DATA_DESCRIPTOR_TYPE_TIMESTAMP_OVERRIDE
        sdk::EVENT_WRITE_FLAG_INPRIVATE
        sdk::EVENT_HEADER_PROPERTY_RELOGGABLE
        sdk::EventProviderUseDescriptorType
        sdk::MAX_EVENT_DATA_DESCRIPTORS
        sdk::MAX_EVENT_FILTERS_COUNT
        sdk::MAX_EVENT_FILTER_PID_COUNT
        win32::ERROR_ARITHMETIC_OVERFLOW
        win32::ERROR_MORE_DATA
        win32::ERROR_NO_SYSTEM_RESOURCES
    }
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("layouts-{number}"));
        let Some(program) = compile(&folder, "layouts.c", compiler) else { continue };
        let output = Command::new(program).output().unwrap();
        let found: HashMap<String, u64> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
            .collect();
        assert_eq!(found["GUID"], 16);
        assert_eq!(found.len(), expected.len() + 1);
        for (name, value) in &expected {
            assert_eq!(found[name], *value, "{name} {compiler:?}");
        }
    }
}
