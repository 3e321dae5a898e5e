//! Requests to callgrind, without its header: a sequence of instructions that does nothing outside of valgrind.

/// The first request number of callgrind: `CT` in the upper bytes.
const CALLGRIND: u64 = 0x4354_0000;
const TOGGLE_COLLECT: u64 = CALLGRIND + 2;
const DUMP_STATS_AT: u64 = CALLGRIND + 3;

/// Counts the instructions of `path` on this thread: callgrind writes them to a file with `name` in it, and a line on standard output
/// has the number of units.
pub fn measure(name: &str, events: u32, path: impl FnOnce(u32)) {
    println!("{name}\t{events}");
    let mut text = name.as_bytes().to_vec();
    text.push(0);
    request(TOGGLE_COLLECT, 0);
    path(events);
    request(TOGGLE_COLLECT, 0);
    request(DUMP_STATS_AT, text.as_ptr() as u64);
}

#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn request(number: u64, argument: u64) {
    let words = [number, argument, 0, 0, 0, 0];
    // SAFETY: the rotations add up to two whole turns, and the exchange is of a register with itself. Valgrind reads `words`.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") words.as_ptr(),
            inout("rdx") 0u64 => _,
            options(nostack),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_number: u64, _argument: u64) {}
