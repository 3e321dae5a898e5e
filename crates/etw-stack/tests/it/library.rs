//! Libraries compiled for the tests, of `chain.c`.

use std::ffi::{CString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

pub type Callback = extern "C" fn(*mut c_void);
pub type Chain = unsafe extern "C" fn(c_int, Callback, *mut c_void) -> c_int;

pub const CHAINS: [&str; 5] =
    ["chain_plain", "chain_registers", "chain_alloca", "chain_aligned", "chain_aligned_alloca"];

/// Those that have right unwind information at every instruction. In the last one's epilogue GCC 12 still says, after `pop
/// rbp`, that the caller's `rbp` is where `rbp` points.
pub const EXACT_CHAINS: [&str; 4] = [CHAINS[0], CHAINS[1], CHAINS[2], CHAINS[3]];

/// A compiled library that was not loaded yet.
pub fn compile(name: &str, flags: &[&str]) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap();
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("lib{name}-{}.so", std::process::id()));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/chain.c");
    let status = Command::new("cc")
        .args(["-O2", "-fno-optimize-sibling-calls", "-fPIC", "-shared", "-Wl,--build-id", "-o"])
        .arg(&path)
        .arg(source)
        .args(flags)
        .status()
        .expect("a C compiler called cc");
    assert!(status.success());
    path
}

/// A loaded library (its handle); its file is gone.
pub struct Library(usize);

impl Library {
    pub fn load(path: &Path) -> Library {
        let name = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: loads a library without constructors.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null());
        std::fs::remove_file(path).unwrap();
        Library(handle as usize)
    }

    /// Compiled with these flags.
    pub fn new(name: &str, flags: &[&str]) -> Library {
        Library::load(&compile(name, flags))
    }

    pub fn with_frame_pointers() -> Library {
        Library::new("with", &["-fno-omit-frame-pointer"])
    }

    pub fn without_frame_pointers() -> Library {
        Library::new("without", &["-fomit-frame-pointer"])
    }

    pub fn chain(&self, name: &str) -> Chain {
        let name = CString::new(name).unwrap();
        // SAFETY: the library is loaded; all its functions that are asked for have this type.
        unsafe {
            let function = libc::dlsym(self.0 as *mut c_void, name.as_ptr());
            assert!(!function.is_null());
            std::mem::transmute::<*mut c_void, Chain>(function)
        }
    }

    /// Calls `f` at the bottom of a chain of `depth + 1` frames.
    #[inline(never)]
    pub fn call<F: FnMut()>(&self, name: &str, depth: c_int, mut f: F) {
        extern "C" fn at_the_bottom<F: FnMut()>(f: *mut c_void) {
            // SAFETY: the closure given below, used by nobody else meanwhile.
            unsafe { (*f.cast::<F>())() };
        }
        // SAFETY: follows the C ABI; no panic gets here without ending the process.
        unsafe { self.chain(name)(depth, at_the_bottom::<F>, (&raw mut f).cast()) };
    }

    /// Do the addresses lie in it?
    pub fn range(&self, name: &str) -> std::ops::Range<u64> {
        let address = self.chain(name) as usize as u64;
        let modules = etw_stack::modules();
        modules.into_iter().map(|m| m.range).find(|range| range.contains(&address)).unwrap()
    }

    pub fn unload(self) {
        // SAFETY: nothing of it is used any more.
        assert_eq!(unsafe { libc::dlclose(self.0 as *mut c_void) }, 0);
    }
}
