//! A library that is unloaded with a registered provider.

use std::ffi::{CStr, c_void};
use std::os::windows::ffi::OsStrExt;

use etw::Guid;

use crate::recorder::{GetProcAddress, Recorder, patch_imports};

#[link(name = "kernel32")]
unsafe extern "system" {
    fn LoadLibraryW(path: *const u16) -> *mut c_void;
    fn FreeLibrary(module: *mut c_void) -> i32;
    fn GetModuleHandleW(path: *const u16) -> *mut c_void;
}

#[test]
fn a_library_that_is_unloaded_unregisters_its_providers() {
    let recorder = Recorder::start();
    let program = std::env::current_exe().unwrap();
    let folder = program.parent().and_then(|folder| folder.parent()).unwrap();
    let path = folder.join("examples").join("unloaded_library.dll");
    assert!(
        path.exists(),
        "{} is missing: cargo build -p openetw --example unloaded_library makes it",
        path.display()
    );
    let wide: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    let provider = Guid::from_name("Windows.UnloadedLibrary");
    // SAFETY: a path and names that end with NUL; functions of these types, called while the library is loaded.
    unsafe {
        let module = LoadLibraryW(wide.as_ptr());
        assert!(!module.is_null(), "{}", std::io::Error::last_os_error());
        patch_imports(module.cast());
        let function = |name: &CStr| {
            let address = GetProcAddress(module, name.as_ptr());
            assert_ne!(address, 0, "{name:?}");
            std::ptr::with_exposed_provenance::<c_void>(address)
        };
        let register =
            std::mem::transmute::<*const c_void, extern "C" fn()>(function(c"register_provider"));
        let write = std::mem::transmute::<*const c_void, extern "C" fn() -> u32>(function(
            c"write_one_event",
        ));
        register();
        recorder.enable(provider, 5, 0, 0);
        assert_eq!(write(), 0);
        let written = recorder.take_written();
        assert_eq!((written.len(), written[0].provider), (1, provider));
        assert_eq!(recorder.take_unregistered(), []);
        assert_ne!(FreeLibrary(module), 0);
        assert!(GetModuleHandleW(wide.as_ptr()).is_null(), "the library is still loaded");
    }
    assert_eq!(recorder.take_unregistered(), [provider]);
}
