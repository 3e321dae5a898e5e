//! The cost of recording a context switch: two threads on one processor hand a byte to each other, without a recording, with one by
//! programs in the kernel, with one by perf's rings, and with `perf record` beside it. One JSON object a figure. Needs root.
//!
//! `cargo run --release -p etw-system --example switch_cost`

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("switches are recorded on Linux only");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{Read, Write, pipe};
    use std::process::{Child, Command, Stdio};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{JoinHandle, sleep, spawn};
    use std::time::{Duration, Instant};

    use etw_system::flags::Masks;
    use etw_system::{Options, Recorder};

    const ROUNDS: usize = 7;
    const EXCHANGES: u32 = 50_000;
    /// The hook of switches, whose call stacks only perf records.
    const SWITCH: u16 = 0x0524;

    fn figure(name: &str, value: f64, unit: &str) {
        println!("{{\"name\":\"{name}\",\"value\":{value:.3},\"unit\":\"{unit}\"}}");
    }

    /// The first quartile: machines are shared, and what disturbs a round makes it slower, never faster.
    fn quartile(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 4]
    }

    /// Keeps this thread on one processor.
    fn stay_on(cpu: usize) {
        // SAFETY: a set of this call's own, of its own size.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
        }
    }

    fn thread_time() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a value that outlives the call.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Nanoseconds of one switch.
    fn exchange() -> std::io::Result<f64> {
        let ((mut from_other, mut to_this), (mut from_this, mut to_other)) = (pipe()?, pipe()?);
        let other = spawn(move || -> std::io::Result<()> {
            stay_on(0);
            let mut byte = [0];
            while from_this.read(&mut byte)? == 1 {
                to_this.write_all(&byte)?;
            }
            Ok(())
        });
        let this = spawn(move || -> std::io::Result<f64> {
            stay_on(0);
            let mut byte = [0];
            let start = Instant::now();
            for _ in 0..EXCHANGES {
                to_other.write_all(&byte)?;
                from_other.read_exact(&mut byte)?;
            }
            Ok(start.elapsed().as_nanos() as f64 / f64::from(2 * EXCHANGES))
        });
        let cost = this.join().map_err(|_| std::io::Error::other("the thread panicked"))?;
        other.join().map_err(|_| std::io::Error::other("the thread panicked"))??;
        cost
    }

    /// A recorder that another thread reads, on the second processor.
    struct Reading {
        is_ending: Arc<AtomicBool>,
        reader: JoinHandle<(u64, u64, Duration)>,
        mechanism: String,
    }

    impl Reading {
        fn start(stacks: &[u16]) -> Result<Reading, Box<dyn std::error::Error>> {
            let masks = Masks::parse("cswitch")?.masks;
            let options = Options {
                masks,
                stacks: stacks.to_vec(),
                sample_interval: 10_000,
                ..Options::default()
            };
            let mut recorder = Recorder::open(options, None)?;
            let mechanism = recorder.mechanism();
            recorder.begin()?;
            let is_ending = Arc::new(AtomicBool::new(false));
            let until = is_ending.clone();
            let reader = spawn(move || {
                stay_on(1);
                // The rundown at the beginning is not what is measured.
                recorder.poll();
                while recorder.peek().is_some() {
                    recorder.pop();
                }
                let (mut records, mut lost, start) = (0, 0, thread_time());
                while !until.load(Ordering::Relaxed) {
                    recorder.poll();
                    while recorder.peek().is_some() {
                        recorder.pop();
                        records += 1;
                    }
                    lost += recorder.take_losses().total();
                    sleep(Duration::from_millis(5));
                }
                (records, lost, thread_time() - start)
            });
            // Nothing of the beginning is left.
            sleep(Duration::from_millis(200));
            Ok(Reading { is_ending, reader, mechanism })
        }

        /// Records, lost records, and nanoseconds of the reader for a record.
        fn end(self) -> (u64, u64, f64) {
            // Records come within the recorder's delay.
            sleep(Duration::from_millis(50));
            self.is_ending.store(true, Ordering::Relaxed);
            let (records, lost, time) = self.reader.join().unwrap_or_default();
            (records, lost, time.as_nanos() as f64 / records.max(1) as f64)
        }
    }

    fn perf_record() -> Option<Child> {
        let mut command = Command::new("perf");
        command.args(["record", "-q", "-a", "-e", "sched:sched_switch", "-o", "/dev/null"]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = child.spawn().ok()?;
        sleep(Duration::from_millis(1000));
        Some(child)
    }

    fn end(mut child: Child) {
        // SAFETY: the arguments are numbers; the child has not been reaped, so its id is its own.
        unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
        let _ = child.wait();
    }

    pub fn main() -> Result<(), Box<dyn std::error::Error>> {
        let [mut alone, mut programs, mut rings, mut peer] = [const { Vec::new() }; 4];
        let [mut of_programs, mut of_rings] = [const { Vec::new() }; 2];
        let mut lost = 0;
        for _ in 0..ROUNDS {
            alone.push(exchange()?);
            for (stacks, costs, of_reader) in [
                (&[][..], &mut programs, &mut of_programs),
                (&[SWITCH][..], &mut rings, &mut of_rings),
            ] {
                let reading = Reading::start(stacks)?;
                if stacks.is_empty() && !reading.mechanism.contains("sched_switch") {
                    reading.end();
                    continue;
                }
                costs.push(exchange()?);
                let (_, missing, time) = reading.end();
                lost += missing;
                of_reader.push(time);
            }
            if let Some(child) = perf_record() {
                peer.push(exchange()?);
                end(child);
            }
        }
        let alone = quartile(alone);
        figure("a switch, not recorded", alone, "ns");
        let added = |costs: Vec<f64>| (!costs.is_empty()).then(|| quartile(costs) - alone);
        let (programs, rings, peer) = (added(programs), added(rings), added(peer));
        for (name, cost) in [
            ("BPF programs", programs),
            ("perf rings with call stacks", rings),
            ("perf record", peer),
        ] {
            if let Some(cost) = cost {
                figure(&format!("a switch, added by {name}"), cost, "ns");
            }
        }
        if let (Some(programs), Some(peer)) = (programs, peer) {
            figure("added by BPF programs / by perf record", programs / peer, "x");
        }
        for (name, times) in [("by programs", of_programs), ("by perf with call stacks", of_rings)]
        {
            if !times.is_empty() {
                figure(&format!("host's CPU, a switch {name}"), quartile(times), "ns");
            }
        }
        figure("lost while measuring", lost as f64, "events");
        Ok(())
    }
}
