//! Loads for measurements of system recordings. Each ends with one line of JSON that states what it did.
//!
//! ```text
//! system_load switches RATE SECONDS    threads on each processor hand a byte to each other, RATE switches a second in all
//! system_load forks RATE SECONDS       processes that end at once, RATE a second in all
//! system_load interrupted SECONDS      a thread on each processor that calls functions; which part of its time interrupts take
//! system_load rundown N                N sleeping processes while a recording begins, and how long that takes
//! ```
//!
//! `cargo run --release -p etw-system --example system_load -- switches 300000 60`

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("system events are recorded on Linux only");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::hint::black_box;
    use std::io::{Error, Read, Result, Write, pipe};
    use std::mem::MaybeUninit;
    use std::thread::{available_parallelism, scope, sleep};
    use std::time::{Duration, Instant};

    use etw_system::flags::Masks;
    use etw_system::{Options, Recorder};

    type AnyError = Box<dyn std::error::Error>;

    /// Work between two looks at the clock.
    const SLICE: Duration = Duration::from_millis(2);

    /// Keeps this thread on one processor.
    fn stay_on(cpu: usize) {
        // SAFETY: a set of this call's own, of its own size.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }

    /// Calls `turn` so often that there are `rate` calls a second. Returns the number of calls.
    fn paced(rate: f64, time: Duration, mut turn: impl FnMut() -> Result<()>) -> Result<u64> {
        let start = Instant::now();
        let mut done = 0;
        while start.elapsed() < time {
            let due = (start.elapsed().as_secs_f64() * rate) as u64;
            while done < due && start.elapsed() < time {
                for _ in 0..16 {
                    turn()?;
                    done += 1;
                }
            }
            sleep(SLICE);
        }
        Ok(done)
    }

    /// Two threads on one processor hand a byte to each other.
    fn exchange(cpu: usize, rate: f64, time: Duration) -> Result<u64> {
        let ((mut from_other, mut to_this), (mut from_this, mut to_other)) = (pipe()?, pipe()?);
        scope(|scope| {
            scope.spawn(move || -> Result<()> {
                stay_on(cpu);
                let mut byte = [0];
                while from_this.read(&mut byte)? == 1 {
                    to_this.write_all(&byte)?;
                }
                Ok(())
            });
            stay_on(cpu);
            let mut byte = [0];
            let done = paced(rate / 2.0, time, || {
                to_other.write_all(&byte)?;
                from_other.read_exact(&mut byte)
            });
            drop(to_other);
            done
        })
    }

    /// The resources that this process has used so far.
    fn usage() -> libc::rusage {
        // SAFETY: a value that outlives the call.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
            usage
        }
    }

    fn switches(rate: f64, time: Duration) -> Result<()> {
        let cpus = available_parallelism()?.get();
        let done: u64 = scope(|scope| {
            let all: Vec<_> = (0..cpus)
                .map(|cpu| scope.spawn(move || exchange(cpu, rate / cpus as f64, time)))
                .collect();
            all.into_iter().map(|one| one.join().map_or(Ok(0), |done| done)).sum::<Result<u64>>()
        })?;
        let usage = usage();
        let switches = usage.ru_nvcsw + usage.ru_nivcsw;
        println!("{{\"exchanges\":{done},\"switches\":{switches}}}");
        Ok(())
    }

    /// Ends at once: the C library makes the system call when this returns.
    extern "C" fn end(_: *mut libc::c_void) -> libc::c_int {
        0
    }

    const STACK: usize = 16 << 10;

    /// Memory in which a child runs until it ends.
    #[repr(align(16))]
    struct ChildStack([MaybeUninit<u8>; STACK]);

    /// A process that ends at once. It shares this one's memory, which is not copied, and has ended when this returns. Nobody waits for it:
    /// see [`forks`].
    fn fork(stack: &mut ChildStack) -> Result<()> {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let top = stack.0.as_mut_ptr_range().end.cast();
        // SAFETY: the memory belongs to the child alone until it has ended, which this thread waits for; the child does nothing but end.
        match unsafe { libc::clone(end, top, flags, std::ptr::null_mut()) } {
            ..0 => Err(Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn forks(rate: f64, time: Duration) -> Result<()> {
        // A parent sleeps while its child runs: with two on each processor, another one makes the next child meanwhile.
        const PARENTS: usize = 2;
        let parents = PARENTS * available_parallelism()?.get();
        // SAFETY: no handler. The kernel reaps children whose ends their parent ignores.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
        let start = Instant::now();
        let done: u64 = scope(|scope| {
            let one = || {
                let mut stack = Box::new(ChildStack([MaybeUninit::uninit(); STACK]));
                paced(rate / parents as f64, time, || fork(&mut stack))
            };
            let all: Vec<_> = (0..parents).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|one| one.join().map_or(Ok(0), |done| done)).sum::<Result<u64>>()
        })?;
        let seconds = start.elapsed().as_secs_f64();
        println!("{{\"forks\":{done},\"seconds\":{seconds:.3}}}");
        Ok(())
    }

    #[inline(never)]
    fn level(depth: u32, value: u64) -> u64 {
        match depth {
            0 => (0..200).fold(value, |all, one| black_box(all.rotate_left(5) ^ one)),
            _ => black_box(level(depth - 1, value + 1)) + 1,
        }
    }

    /// Nanoseconds of this thread's processor time. Interrupts of the thread are in it; other threads are not.
    fn thread_time() -> f64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a value that outlives the call.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    }

    /// Does equal pieces of work until `end`. Returns the time that they take without an interrupt, and what interrupts add.
    ///
    /// The pieces are shorter than the distance between two interrupts, so most have none: the median of those that lie together is what one
    /// takes by itself, however fast the machine is just then.
    fn interrupted(end: Instant) -> (f64, f64) {
        const PIECE: f64 = 12_000.0;
        const TOGETHER: usize = 255;
        let work = |calls| black_box((0..calls).map(|one| level(20, one)).sum::<u64>());
        let start = thread_time();
        work(2000);
        let calls = (PIECE / (thread_time() - start) * 2000.0).max(1.0) as u64;
        let (mut own, mut added) = (0.0, 0.0);
        let mut pieces = [0.0; TOGETHER];
        while Instant::now() < end {
            let mut before = thread_time();
            for piece in &mut pieces {
                work(calls);
                let now = thread_time();
                *piece = now - before;
                before = now;
            }
            let all: f64 = pieces.iter().sum();
            let (_, median, _) = pieces.select_nth_unstable_by(TOGETHER / 2, f64::total_cmp);
            own += *median * TOGETHER as f64;
            added += all - *median * TOGETHER as f64;
        }
        (own, added)
    }

    fn spin(time: Duration) -> Result<()> {
        let cpus = available_parallelism()?.get();
        let end = Instant::now() + time;
        let (own, added) = scope(|scope| {
            let one = |cpu| {
                move || {
                    stay_on(cpu);
                    interrupted(end)
                }
            };
            let all: Vec<_> = (0..cpus).map(|cpu| scope.spawn(one(cpu))).collect();
            let all = all.into_iter().map(|one| one.join().unwrap_or_default());
            all.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1))
        });
        println!("{{\"own_ns\":{own:.0},\"added_ns\":{added:.0}}}");
        Ok(())
    }

    fn rundown(count: u32) -> std::result::Result<(), AnyError> {
        const ROUNDS: usize = 5;
        let mut children = Vec::new();
        for _ in 0..count {
            // SAFETY: the child calls nothing but `prctl` and `pause`.
            match unsafe { libc::fork() } {
                0 => loop {
                    // SAFETY: these take numbers and return them.
                    unsafe {
                        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                        libc::pause();
                    }
                },
                ..0 => break,
                child => children.push(child),
            }
        }
        let mut best = f64::MAX;
        for _ in 0..ROUNDS {
            let options = Options {
                masks: Masks::parse("process,thread,img")?.masks,
                sample_interval: 10_000,
                ..Options::default()
            };
            let mut recorder = Recorder::open(options, None)?;
            let start = Instant::now();
            recorder.begin()?;
            best = best.min(start.elapsed().as_secs_f64() * 1e3);
        }
        for child in &children {
            // SAFETY: a child of ours that has not been reaped.
            unsafe {
                libc::kill(*child, libc::SIGKILL);
                libc::waitpid(*child, std::ptr::null_mut(), 0);
            }
        }
        let name = format!("rundown of {} processes and those of the machine", children.len());
        println!("{{\"name\":\"{name}\",\"value\":{best:.1},\"unit\":\"ms\"}}");
        Ok(())
    }

    pub fn main() -> std::result::Result<(), AnyError> {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words[..] {
            ["switches", rate, seconds] => {
                switches(rate.parse()?, Duration::from_secs_f64(seconds.parse()?))?;
            }
            ["forks", rate, seconds] => {
                forks(rate.parse()?, Duration::from_secs_f64(seconds.parse()?))?;
            }
            ["interrupted", seconds] => spin(Duration::from_secs_f64(seconds.parse()?))?,
            ["rundown", count] => rundown(count.parse()?)?,
            _ => {
                return Err(
                    "switches RATE SECONDS, forks RATE SECONDS, interrupted SECONDS or rundown N"
                        .into(),
                );
            }
        }
        Ok(())
    }
}
