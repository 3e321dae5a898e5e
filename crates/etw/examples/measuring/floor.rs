//! The floor that events are compared with, and how costs are taken from bursts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The first: machines are shared, and what disturbs a burst makes it slower, never faster.
pub fn quartile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 4]
}

pub fn nanoseconds(count: u64, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64 / count as f64
}

/// The floor: gate, clock, an 80-byte header, a number and a text copied into 16 MiB that nobody reads, one release store. It is written for
/// this one event: code for any values would be no floor.
pub struct Floor {
    memory: Vec<u64>,
    at: usize,
    head: AtomicU64,
    gate: AtomicU64,
}

impl Floor {
    pub fn new() -> Floor {
        Floor { memory: vec![1; 2 << 20], at: 0, head: AtomicU64::new(0), gate: AtomicU64::new(1) }
    }

    #[inline(never)]
    pub fn write(&mut self, n: i32, text: &str) {
        const NUMBER: usize = 80;
        const TEXT: usize = NUMBER + size_of::<i32>();
        if self.gate.load(Ordering::Relaxed) == 0 {
            return;
        }
        let size = TEXT + text.len();
        let room = size.next_multiple_of(8);
        if self.at + room > self.memory.len() * 8 {
            self.at = 0;
        }
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 has it.
        let time = unsafe { core::arch::x86_64::_rdtsc() };
        #[cfg(not(target_arch = "x86_64"))]
        let time = 0;
        // SAFETY: `at + room` lies in the memory.
        unsafe {
            let to = self.memory.as_mut_ptr().cast::<u8>().add(self.at);
            // Word by word: an array would be made on the stack and copied, at twice the cost.
            let words = to.cast::<u64>();
            words.write(size as u64);
            words.add(1).write(1);
            words.add(2).write(time);
            words.add(3).write(3);
            words.add(4).write(4);
            words.add(5).write(5);
            words.add(6).write(6);
            words.add(7).write(7);
            words.add(8).write(8);
            words.add(9).write(9);
            to.add(NUMBER).cast::<i32>().write_unaligned(n);
            std::ptr::copy_nonoverlapping(text.as_ptr(), to.add(TEXT), text.len());
        }
        self.at += room;
        self.head.store(self.at as u64, Ordering::Release);
    }
}

/// Runs it with this thread, and those that it starts, on one processor: memory that another processor has read costs more to write
/// to, which the floor, read by nobody, does not know.
pub fn pinned<T>(run: impl FnOnce() -> T) -> std::io::Result<T> {
    #[cfg(target_os = "linux")]
    // SAFETY: sets of this thread's own, of their own size.
    unsafe {
        let (mut before, mut one): (libc::cpu_set_t, libc::cpu_set_t) = std::mem::zeroed();
        let size = size_of::<libc::cpu_set_t>();
        if libc::sched_getaffinity(0, size, &raw mut before) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut one);
        if libc::sched_setaffinity(0, size, &raw const one) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let result = run();
        libc::sched_setaffinity(0, size, &raw const before);
        Ok(result)
    }
    #[cfg(not(target_os = "linux"))]
    Ok(run())
}
