//! OV-22: the Event Log's calls from C, and the layout and constants of their header.

use std::collections::HashMap;
use std::fmt::Write;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use etw_evtx::tree::{Argument, Fragment, Instance, Node, Template};
use etw_evtx::value::{Value, ValueType};
use etw_evtx::write::{LogWriter, Retention};
use etw_types::{FileTime, Guid};
use windows_sys::Win32::System::EventLog as sdk;

use crate::support::*;

const PROGRAMS: [Compiler; 5] = [
    Compiler("gcc", &["-std=gnu11", "-fshort-wchar", WINDOWS]),
    Compiler("clang", &["-std=gnu11", "-fshort-wchar", "-O2", WINDOWS]),
    Compiler("gcc", &["-std=gnu11", "-g", "-fsanitize=address,undefined", WINDOWS]),
    Compiler("g++", &["-std=c++17", "-fshort-wchar", WINDOWS, "-Wno-unknown-pragmas", "-x", "c++"]),
    Compiler("clang++", &["-std=c++17", "-fshort-wchar", WINDOWS, "-x", "c++"]),
];

/// A log with 300 events of `OpenEtw.Shop`, each tenth one an error.
fn log(path: &Path) {
    log_of(path, 300, (u64::MAX, Retention::Keep));
}

/// A log of so many records, of which it keeps the last ones.
fn log_of(path: &Path, count: u64, (max_size, retention): (u64, Retention)) {
    let provider = Guid::from_name("OpenEtw.Shop");
    let system = vec![
        Node::element(
            "Provider",
            vec![("Name", Node::text("OpenEtw.Shop")), ("Guid", Node::value(0, ValueType::GUID))],
            vec![],
        ),
        Node::element("EventID", vec![], vec![Node::value(1, ValueType::UINT16)]),
        Node::element("Version", vec![], vec![Node::value(2, ValueType::UINT8)]),
        Node::element("Level", vec![], vec![Node::value(3, ValueType::UINT8)]),
        Node::element("Task", vec![], vec![Node::text("3")]),
        Node::element("Keywords", vec![], vec![Node::text("0x10")]),
        Node::element(
            "TimeCreated",
            vec![("SystemTime", Node::value(4, ValueType::FILETIME))],
            vec![],
        ),
        Node::element("EventRecordID", vec![], vec![Node::value(5, ValueType::UINT64)]),
        Node::element("Channel", vec![], vec![Node::text("Shop/Operational")]),
    ];
    let data = |name: &str, index, value_type| {
        Node::element(
            "Data",
            vec![("Name", Node::text(name))],
            vec![Node::value(index, value_type)],
        )
    };
    let data = vec![data("Number", 5, ValueType::UINT64), data("Text", 6, ValueType::STRING)];
    let event = Node::element(
        "Event",
        vec![],
        vec![Node::element("System", vec![], system), Node::element("EventData", vec![], data)],
    );
    let template = Arc::new(Template::new(Guid::from_name("winevt"), vec![event]));
    let mut writer = LogWriter::open(path, max_size, retention).unwrap();
    for id in 1..=count {
        let time = 133_000_000_000_000_000 + id as i64;
        let text: Vec<u8> =
            format!("text {id}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        let (time_bytes, id_bytes) = (time.to_le_bytes(), id.to_le_bytes());
        let level = [if id % 10 == 0 { 2 } else { 4 }];
        let values: [(ValueType, &[u8]); 7] = [
            (ValueType::GUID, &provider.0),
            (ValueType::UINT16, &[7, 0]),
            (ValueType::UINT8, &[0]),
            (ValueType::UINT8, &level),
            (ValueType::FILETIME, &time_bytes),
            (ValueType::UINT64, &id_bytes),
            (ValueType::STRING, &text),
        ];
        let arguments =
            values.map(|(value_type, bytes)| Argument::Value(Value { value_type, bytes }));
        let record =
            Instance { template: template.clone(), arguments: arguments.into(), has_header: true };
        writer.append(FileTime(time), &Fragment::Instance(record)).unwrap();
    }
    writer.close().unwrap();
}

fn manifest() -> String {
    format!(
        "<m><provider name='OpenEtw.Shop' guid='{{{}}}' message='$(string.shop)' resourceFileName='shop.dll'>\
         <channels><channel name='Shop/Quiet' type='Admin'/>\
         <channel name='Shop/Till' type='Operational' message='$(string.till)'/></channels>\
         <levels><level name='Shop:Loud' value='17' message='$(string.loud)'/></levels>\
         <keywords><keyword name='Sales' mask='0x10'/></keywords>\
         <tasks><task name='Selling' value='3' eventGUID='{{0a0b0c0d-0102-0304-0506-070809101112}}'>\
         <opcodes><opcode name='Ring' value='11'/></opcodes></task></tasks>\
         <templates><template tid='T'><data name='Number' inType='win:UInt64'/>\
         <data name='Text' inType='win:UnicodeString'/></template></templates>\
         <events><event value='7' version='0' symbol='Sold' level='win:Error' task='Selling' keywords='Sales' template='T' \
         message='$(string.sold)'/></events></provider>\
         <localization><resources culture='en-US'><stringTable><string id='sold' value='%1 was sold.'/>\
         <string id='shop' value='The shop'/><string id='loud' value='very loud'/><string id='till' value='At the till'/>\
         </stringTable></resources></localization></m>",
        Guid::from_name("OpenEtw.Shop")
    )
}

/// OV-22: queries, seeks, bookmarks, rendering, messages, publishers, exports and subscriptions with every compiler.
#[test]
fn the_event_log_from_c() {
    let mut ran = 0;
    for (number, compiler) in PROGRAMS.into_iter().enumerate() {
        let folder = Folder::new(&format!("winevt-{number}"));
        let Some(program) = compile(&folder, "winevt.c", compiler) else { continue };
        let path = |name: &str| folder.0.join(name);
        log(&path("log.evtx"));
        log(&path("watched.evtx"));
        log_of(&path("wrapped.evtx"), 3000, (4096 + 2 * 65536, Retention::Overwrite));
        std::fs::write(path("shop.man"), manifest()).unwrap();
        // The logs of root are the machine's.
        for logs in ["data/etw/logs", "machine/logs"] {
            std::fs::create_dir_all(path(logs)).unwrap();
            log(&path(logs).join("System.evtx"));
        }
        let output = Command::new(program)
            .args([path("log.evtx"), path("export.evtx"), path("shop.man"), path("backup.evtx")])
            .args([path("watched.evtx"), path("wrapped.evtx")])
            // Without the manifests of the user.
            .env("XDG_DATA_HOME", path("data"))
            .env("ETW_MACHINE_PACKS", path("machine/packs"))
            .env("ETW_RUNTIME_DIR", path("run"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// The names of `winevt.h` with the values of the Windows SDK, as `windows-sys` has them.
fn constants() -> Vec<(&'static str, u64)> {
    macro_rules! values {
        ($($name:ident)*) => { vec![$((stringify!($name), sdk::$name as u64)),*] };
    }
    values! {
        EvtVarTypeNull EvtVarTypeString EvtVarTypeAnsiString EvtVarTypeSByte EvtVarTypeByte
        EvtVarTypeInt16 EvtVarTypeUInt16 EvtVarTypeInt32 EvtVarTypeUInt32 EvtVarTypeInt64
        EvtVarTypeUInt64 EvtVarTypeSingle EvtVarTypeDouble EvtVarTypeBoolean EvtVarTypeBinary
        EvtVarTypeGuid EvtVarTypeSizeT EvtVarTypeFileTime EvtVarTypeSysTime EvtVarTypeSid
        EvtVarTypeHexInt32 EvtVarTypeHexInt64 EvtVarTypeEvtHandle EvtVarTypeEvtXml EvtRpcLogin
        EvtQueryChannelPath EvtQueryFilePath EvtQueryForwardDirection EvtQueryReverseDirection
        EvtQueryTolerateQueryErrors EvtSeekRelativeToFirst EvtSeekRelativeToLast
        EvtSeekRelativeToCurrent EvtSeekRelativeToBookmark EvtSeekOriginMask EvtSeekStrict
        EvtSubscribeToFutureEvents EvtSubscribeStartAtOldestRecord
        EvtSubscribeStartAfterBookmark EvtSubscribeOriginMask EvtSubscribeTolerateQueryErrors
        EvtSubscribeStrict EvtSubscribeActionError EvtSubscribeActionDeliver
        EvtSystemProviderName EvtSystemProviderGuid EvtSystemEventID EvtSystemQualifiers
        EvtSystemLevel EvtSystemTask EvtSystemOpcode EvtSystemKeywords EvtSystemTimeCreated
        EvtSystemEventRecordId EvtSystemActivityID EvtSystemRelatedActivityID EvtSystemProcessID
        EvtSystemThreadID EvtSystemChannel EvtSystemComputer EvtSystemUserID EvtSystemVersion
        EvtSystemPropertyIdEND EvtRenderContextValues EvtRenderContextSystem
        EvtRenderContextUser EvtRenderEventValues EvtRenderEventXml EvtRenderBookmark
        EvtFormatMessageEvent EvtFormatMessageLevel EvtFormatMessageTask EvtFormatMessageOpcode
        EvtFormatMessageKeyword EvtFormatMessageChannel EvtFormatMessageProvider
        EvtFormatMessageId EvtFormatMessageXml EvtOpenChannelPath EvtOpenFilePath
        EvtLogCreationTime EvtLogLastAccessTime EvtLogLastWriteTime EvtLogFileSize
        EvtLogAttributes EvtLogNumberOfLogRecords EvtLogOldestRecordNumber EvtLogFull
        EvtExportLogChannelPath EvtExportLogFilePath EvtExportLogTolerateQueryErrors
        EvtExportLogOverwrite EvtChannelConfigEnabled EvtChannelConfigIsolation
        EvtChannelConfigType EvtChannelConfigOwningPublisher EvtChannelConfigClassicEventlog
        EvtChannelConfigAccess EvtChannelLoggingConfigRetention
        EvtChannelLoggingConfigAutoBackup EvtChannelLoggingConfigMaxSize
        EvtChannelLoggingConfigLogFilePath EvtChannelPublishingConfigLevel
        EvtChannelPublishingConfigKeywords EvtChannelPublishingConfigControlGuid
        EvtChannelPublishingConfigBufferSize EvtChannelPublishingConfigMinBuffers
        EvtChannelPublishingConfigMaxBuffers EvtChannelPublishingConfigLatency
        EvtChannelPublishingConfigClockType EvtChannelPublishingConfigSidType
        EvtChannelPublisherList EvtChannelPublishingConfigFileMax EvtChannelConfigPropertyIdEND
        EvtChannelTypeAdmin EvtChannelTypeOperational EvtChannelTypeAnalytic EvtChannelTypeDebug
        EvtChannelIsolationTypeApplication EvtChannelIsolationTypeSystem
        EvtChannelIsolationTypeCustom EvtChannelClockTypeSystemTime EvtChannelClockTypeQPC
        EvtChannelSidTypeNone EvtChannelSidTypePublishing EvtChannelReferenceImported
        EvtPublisherMetadataPublisherGuid EvtPublisherMetadataResourceFilePath
        EvtPublisherMetadataParameterFilePath EvtPublisherMetadataMessageFilePath
        EvtPublisherMetadataHelpLink EvtPublisherMetadataPublisherMessageID
        EvtPublisherMetadataChannelReferences EvtPublisherMetadataChannelReferencePath
        EvtPublisherMetadataChannelReferenceIndex EvtPublisherMetadataChannelReferenceID
        EvtPublisherMetadataChannelReferenceFlags EvtPublisherMetadataChannelReferenceMessageID
        EvtPublisherMetadataLevels EvtPublisherMetadataLevelName EvtPublisherMetadataLevelValue
        EvtPublisherMetadataLevelMessageID EvtPublisherMetadataTasks
        EvtPublisherMetadataTaskName EvtPublisherMetadataTaskEventGuid
        EvtPublisherMetadataTaskValue EvtPublisherMetadataTaskMessageID
        EvtPublisherMetadataOpcodes EvtPublisherMetadataOpcodeName
        EvtPublisherMetadataOpcodeValue EvtPublisherMetadataOpcodeMessageID
        EvtPublisherMetadataKeywords EvtPublisherMetadataKeywordName
        EvtPublisherMetadataKeywordValue EvtPublisherMetadataKeywordMessageID
        EvtPublisherMetadataPropertyIdEND EventMetadataEventID EventMetadataEventVersion
        EventMetadataEventChannel EventMetadataEventLevel EventMetadataEventOpcode
        EventMetadataEventTask EventMetadataEventKeyword EventMetadataEventMessageID
        EventMetadataEventTemplate EvtEventMetadataPropertyIdEND EvtQueryNames EvtQueryStatuses
        EvtQueryPropertyIdEND EvtEventQueryIDs EvtEventPath EvtEventPropertyIdEND
    }
}

#[test]
fn winevt_agrees_with_windows_sys() {
    let mut facts: Vec<(String, u64)> =
        constants().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let offset =
        |field: &str, value: usize| (format!("offsetof(EVT_VARIANT, {field})"), value as u64);
    facts.push(("sizeof(EVT_VARIANT)".to_owned(), size_of::<sdk::EVT_VARIANT>() as u64));
    facts.push(offset("Count", offset_of!(sdk::EVT_VARIANT, Count)));
    facts.push(offset("Type", offset_of!(sdk::EVT_VARIANT, Type)));
    facts.push(("sizeof(EVT_RPC_LOGIN)".to_owned(), size_of::<sdk::EVT_RPC_LOGIN>() as u64));
    facts.push(("sizeof(EVENTLOGRECORD)".to_owned(), size_of::<sdk::EVENTLOGRECORD>() as u64));
    let information = size_of::<sdk::EVENTLOG_FULL_INFORMATION>() as u64;
    facts.push(("sizeof(EVENTLOG_FULL_INFORMATION)".to_owned(), information));
    macro_rules! offsets {
        ($($field:ident)*) => {
            $(facts.push((
                format!("offsetof(EVENTLOGRECORD, {})", stringify!($field)),
                offset_of!(sdk::EVENTLOGRECORD, $field) as u64,
            ));)*
        };
    }
    offsets!(Length Reserved RecordNumber TimeGenerated TimeWritten EventID EventType NumStrings);
    offsets!(EventCategory ReservedFlags ClosingRecordNumber StringOffset UserSidLength);
    offsets!(UserSidOffset DataLength DataOffset);
    let mut program = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include <windows.h>\n#include <winevt.h>\nint main(void)\n{\n",
    );
    for (number, (expression, _)) in facts.iter().enumerate() {
        let _ = writeln!(
            program,
            "    printf(\"{number} %llu\\n\", (unsigned long long)({expression}));"
        );
    }
    program += "    return 0;\n}\n";
    let folder = Folder::new("winevt-layout");
    let source = folder.0.join("layout.c");
    std::fs::write(&source, program).unwrap();
    let program = compile_file(&folder, &source, PROGRAMS[0]).expect("no C compiler is installed");
    let output = run(&program, PROGRAMS[0]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let found: HashMap<usize, u64> = text
        .lines()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(number, value)| (number.parse().unwrap(), value.parse().unwrap()))
        .collect();
    for (number, (expression, expected)) in facts.iter().enumerate() {
        assert_eq!(found[&number], *expected, "{expression}");
    }
}
