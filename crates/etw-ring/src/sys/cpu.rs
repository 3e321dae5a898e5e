//! The CPU that a thread runs on.

#[cfg(target_os = "linux")]
pub(crate) use linux::Cpu;
#[cfg(not(target_os = "linux"))]
pub(crate) use other::Cpu;

/// When and where a write began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Raw time.
    pub time: u64,
    pub cpu: u16,
}

#[cfg(target_os = "linux")]
mod linux {
    use super::Moment;

    /// Reads the CPU number, from glibc's rseq area if there is one.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Cpu {
        /// Offset of `cpu_id` from the thread pointer; 0: none.
        rseq_cpu_id: isize,
    }

    impl Cpu {
        /// Before [`find`](Cpu::find).
        pub const UNKNOWN: Cpu = Cpu { rseq_cpu_id: 0 };

        pub fn find() -> Cpu {
            #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut))]
            let mut rseq_cpu_id = 0;
            #[cfg(target_arch = "x86_64")]
            // SAFETY: dlsym with C strings; glibc (2.35 and later) documents the types of the two variables.
            unsafe {
                let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr());
                let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr());
                // The size is 0 when registration was turned off (glibc.pthread.rseq=0).
                if !size.is_null() && !offset.is_null() && *size.cast::<u32>() >= 8 {
                    rseq_cpu_id = *offset.cast::<isize>() + 4;
                }
            }
            Cpu { rseq_cpu_id }
        }

        /// Whether [`stamp`](Cpu::stamp) works here.
        pub fn has_stamp(self) -> bool {
            cfg!(all(target_arch = "x86_64", not(loom))) && self.rseq_cpu_id != 0
        }

        /// TSC and CPU number.
        #[inline(always)]
        pub fn stamp(self) -> Moment {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 has RDTSC.
            let time = unsafe { core::arch::x86_64::_rdtsc() };
            #[cfg(target_arch = "x86_64")]
            let cpu = self.rseq_processor();
            #[cfg(not(target_arch = "x86_64"))]
            let time = crate::sys::RawClock::Tsc.now();
            #[cfg(not(target_arch = "x86_64"))]
            let cpu = self.current();
            Moment { time, cpu }
        }

        /// The CPU number from the rseq area; only with an offset.
        #[cfg(target_arch = "x86_64")]
        #[inline(always)]
        fn rseq_processor(self) -> u16 {
            let cpu: u32;
            // SAFETY: glibc keeps `struct rseq` at this offset from the thread pointer in every thread; `cpu_id` is its second u32
            // (linux/rseq.h). Offset 0 would read another word that every thread has.
            unsafe {
                core::arch::asm!("mov {0:e}, dword ptr fs:[{1}]", out(reg) cpu,
                    in(reg) self.rseq_cpu_id, options(nostack, readonly, preserves_flags));
            }
            cpu as u16
        }

        #[inline(always)]
        pub fn current(self) -> u16 {
            #[cfg(target_arch = "x86_64")]
            if self.rseq_cpu_id != 0 {
                return self.rseq_processor();
            }
            let _ = self.rseq_cpu_id;
            // SAFETY: takes nothing; -1 becomes 65535, "unknown".
            unsafe { libc::sched_getcpu() as u16 }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod other {
    use super::Moment;

    #[derive(Clone, Copy, Debug)]
    pub(crate) struct Cpu;

    impl Cpu {
        pub const UNKNOWN: Cpu = Cpu;

        pub fn find() -> Cpu {
            Cpu
        }
        #[inline(always)]
        pub fn current(self) -> u16 {
            0
        }
        pub fn has_stamp(self) -> bool {
            false
        }
        #[inline(always)]
        pub fn stamp(self) -> Moment {
            Moment { time: 0, cpu: 0 }
        }
    }
}
