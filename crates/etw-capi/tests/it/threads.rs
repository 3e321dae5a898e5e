//! C programs with many threads, under sanitizers.

use etw_etl::read::{Records, TraceFile};
use etw_types::{Guid, le};

use crate::support::*;

/// WF-1, WF-2, OV-14: threads write through both entries of the C ABI while sessions and registrations come and go: each event once, in its
/// thread's order, whole; no data race that thread sanitizers see in the program and in what the headers put into it.
#[test]
fn threads_of_c_programs() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().chain(THREAD_SANITIZERS).enumerate() {
        let folder = Folder::new(&format!("threads-{number}"));
        let Some(program) = compile(&folder, "threads.c", compiler) else { continue };
        let out = folder.0.join("threads.etl");
        let output = run(&program, compiler).env("THREADS_OUT", &out).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{compiler:?}: {said}");
        check(&out, compiler);
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

const THREADS: usize = 4;
const ROUNDS: u32 = 300;

fn check(out: &std::path::Path, compiler: Compiler) {
    let ours: Guid = "5d1e5b6a-1c51-4f0e-9b1f-010203040506".parse().unwrap();
    let classic: Guid = "5d1e5b6a-1c51-4f0e-9b1f-010203040507".parse().unwrap();
    let mut records = Records::new(vec![TraceFile::open(out).unwrap()]);
    let mut next = [[0u32; THREADS]; 2];
    while let Some(record) = records.next() {
        let is_classic = record.provider == Some(classic);
        if !is_classic && record.provider != Some(ours) {
            continue;
        }
        let payload = &record.payload;
        let (n, thread, bytes) = if is_classic {
            let end = payload.len() - 4;
            (le::u32(payload, 0), le::u32(payload, end), &payload[4..end])
        } else {
            assert_eq!(le::u16(payload, 8).map(usize::from), Some(payload.len() - 10));
            (le::u32(payload, 4), le::u32(payload, 0), &payload[10..])
        };
        let (n, thread) = (n.unwrap(), thread.unwrap() as usize);
        let next = &mut next[usize::from(is_classic)][thread];
        assert_eq!(n, *next, "{compiler:?}, thread {thread}");
        *next += 1;
        assert!(bytes.len() == n as usize % 140 && bytes.iter().all(|byte| *byte == n as u8));
        let mut id = [0; 16];
        if n % 7 == 0 {
            id[0] = thread as u8 + 1;
            id[4..6].copy_from_slice(&(n as u16).to_le_bytes());
        }
        assert_eq!(record.activity_id, Guid(id));
        let related = (is_classic && n % 14 == 0).then_some(ours);
        assert_eq!(record.related_activity_id(), related);
        assert_eq!(record.descriptor.level.0, 4);
        assert_eq!(record.descriptor.id, if is_classic { thread as u16 + 1 } else { 0 });
    }
    assert_eq!(next, [[ROUNDS; THREADS]; 2], "{compiler:?}");
}
