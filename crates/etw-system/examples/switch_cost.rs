//! The cost of recording a context switch: two threads on one processor hand a byte to each other, without a recording, with one by
//! programs in the kernel, with one by perf's rings, with and without call stacks, and with `perf record` beside it. One JSON object a
//! figure: the median of rounds in which all take their turn, with the value of each round. Needs root.
//!
//! The cost is the processor time of the two threads: other threads of the machine are not in it.
//!
//! `cargo run --release -p etw-system --example switch_cost`
//!
//! With the name of a way (`BPF programs`, `perf rings`) and a number of rounds it prints how many records it read in them: what its
//! reader executes for a switch is the difference of two such runs under `callgrind --toggle-collect=etw_system::recorder::Recorder::poll`.

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
    use std::time::Duration;

    use etw_system::flags::Masks;
    use etw_system::{Options, Recorder};

    const ROUNDS: usize = 15;
    /// Few of a turn's bursts have what disturbs for a while.
    const BURSTS: usize = 10;
    const EXCHANGES: u32 = 5000;
    /// The hook of switches, whose call stacks only perf records.
    const SWITCH: u16 = 0x0524;

    fn figure(name: &str, value: f64, unit: &str) {
        println!("{{\"name\":\"{name}\",\"value\":{value:.3},\"unit\":\"{unit}\"}}");
    }

    /// The median of rounds, and each of them.
    fn figure_of(name: &str, rounds: impl IntoIterator<Item = f64>, unit: &str) {
        let rounds: Vec<f64> = rounds.into_iter().collect();
        let all: Vec<String> = rounds.iter().map(|one| format!("{one:.3}")).collect();
        let (value, all) = (median(rounds), all.join(","));
        println!(
            "{{\"name\":\"{name}\",\"value\":{value:.3},\"unit\":\"{unit}\",\"rounds\":[{all}]}}"
        );
    }

    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
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

    /// Lets this thread run before ordinary ones, if it may: on a busy machine, another thread would run between the two that switch, and
    /// leave them cold caches.
    fn hurry() {
        let priority: libc::c_int = 1;
        // Some C libraries refuse their own function. The kernel's structure is this one number.
        // SAFETY: a number that outlives the call.
        unsafe {
            libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority)
        };
    }

    fn thread_time() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a value that outlives the call.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Nanoseconds of one switch.
    fn switch_cost() -> std::io::Result<f64> {
        let bursts: std::io::Result<Vec<f64>> = (0..BURSTS).map(|_| exchange()).collect();
        Ok(median(bursts?))
    }

    /// Nanoseconds of one switch of a burst: the processor time of both threads, between which all of it is divided.
    fn exchange() -> std::io::Result<f64> {
        let ((mut from_other, mut to_this), (mut from_this, mut to_other)) = (pipe()?, pipe()?);
        let other = spawn(move || -> std::io::Result<Duration> {
            stay_on(0);
            hurry();
            let mut byte = [0];
            let start = thread_time();
            while from_this.read(&mut byte)? == 1 {
                to_this.write_all(&byte)?;
            }
            Ok(thread_time() - start)
        });
        let this = spawn(move || -> std::io::Result<Duration> {
            stay_on(0);
            hurry();
            let mut byte = [0];
            let start = thread_time();
            for _ in 0..EXCHANGES {
                to_other.write_all(&byte)?;
                from_other.read_exact(&mut byte)?;
            }
            Ok(thread_time() - start)
        });
        let end = |thread: JoinHandle<std::io::Result<Duration>>| {
            thread.join().map_err(|_| std::io::Error::other("the thread panicked"))?
        };
        let all = end(this)? + end(other)?;
        Ok(all.as_nanos() as f64 / f64::from(2 * EXCHANGES))
    }

    /// How switches are recorded.
    #[derive(Clone, Copy)]
    struct Way {
        name: &'static str,
        has_programs: bool,
        stacks: &'static [u16],
    }

    const WAYS: [Way; 3] = [
        Way { name: "BPF programs", has_programs: true, stacks: &[] },
        Way { name: "perf rings", has_programs: false, stacks: &[] },
        Way { name: "perf rings with call stacks", has_programs: false, stacks: &[SWITCH] },
    ];

    /// A recorder that another thread reads, on the second processor.
    struct Reading {
        is_ending: Arc<AtomicBool>,
        reader: JoinHandle<(u64, u64, Duration)>,
        mechanism: String,
    }

    impl Reading {
        fn start(way: Way) -> Result<Reading, Box<dyn std::error::Error>> {
            // SAFETY: no other thread of this program uses the environment.
            unsafe {
                std::env::set_var("ETW_SYSTEM_BPF", if way.has_programs { "1" } else { "0" })
            };
            let masks = Masks::parse("cswitch")?.masks;
            let options = Options {
                masks,
                stacks: way.stacks.to_vec(),
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
                    sleep(Duration::from_millis(10));
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
        // A record that does not fit into a small ring would cost less.
        command.args(["record", "-q", "-a", "-m", "32M", "-e", "sched:sched_switch"]);
        command.args(["-o", "/dev/null"]);
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

    /// The cost that one way adds to a switch in each round, and its reader's for a record.
    #[derive(Default)]
    struct Costs {
        added: Vec<f64>,
        reader: Vec<f64>,
        lost: u64,
    }

    impl Costs {
        /// The cost of a switch that is recorded in a way; `None` if it is not possible here.
        fn take_turn(&mut self, way: Way) -> Result<Option<f64>, Box<dyn std::error::Error>> {
            let reading = Reading::start(way)?;
            if way.has_programs && !reading.mechanism.contains("sched_switch") {
                reading.end();
                return Ok(None);
            }
            let cost = switch_cost()?;
            let (_, lost, time) = reading.end();
            self.lost += lost;
            self.reader.push(time);
            Ok(Some(cost))
        }
    }

    /// The cost of a switch beside `perf record`; `None` if it is not there.
    fn turn_of_peer() -> Result<Option<f64>, Box<dyn std::error::Error>> {
        let Some(child) = perf_record() else { return Ok(None) };
        let cost = switch_cost();
        end(child);
        Ok(Some(cost?))
    }

    /// Records of this many rounds by one way.
    fn records(name: &str, rounds: &str) -> Result<u64, Box<dyn std::error::Error>> {
        let way = WAYS.into_iter().find(|way| way.name == name).ok_or("no such way")?;
        let reading = Reading::start(way)?;
        for _ in 0..rounds.parse()? {
            switch_cost()?;
        }
        Ok(reading.end().0)
    }

    pub fn main() -> Result<(), Box<dyn std::error::Error>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        if let [name, rounds] = &arguments[..] {
            figure("records", records(name, rounds)? as f64, "events");
            return Ok(());
        }
        // The last one has what `perf record` adds.
        const TURNS: usize = WAYS.len() + 1;
        let mut costs = [(); TURNS].map(|()| Costs::default());
        let mut alone = vec![switch_cost()?];
        for round in 0..ROUNDS {
            // Each one is first in some round.
            for turn in (0..TURNS).map(|turn| (turn + round) % TURNS) {
                let before = alone[alone.len() - 1];
                let with = match WAYS.get(turn) {
                    Some(way) => costs[turn].take_turn(*way)?,
                    None => turn_of_peer()?,
                };
                let after = switch_cost()?;
                alone.push(after);
                // The machine changes within a round by more than a recording adds.
                costs[turn].added.extend(with.map(|with| with - (before + after) / 2.0));
            }
        }
        figure_of("a switch, not recorded", alone, "ns");
        let [ways @ .., Costs { added: peer, .. }] = costs;
        if !peer.is_empty() {
            figure_of("a switch, added by perf record", peer.clone(), "ns");
        }
        for (Way { name, .. }, Costs { added, reader, lost }) in WAYS.into_iter().zip(ways) {
            if added.is_empty() {
                continue;
            }
            figure_of(&format!("a switch, added by {name}"), added.clone(), "ns");
            if !peer.is_empty() {
                let ratios = added.iter().zip(&peer).map(|(added, peer)| added / peer);
                figure_of(&format!("added by {name} / by perf record"), ratios, "x");
            }
            figure_of(&format!("reader's CPU, a switch by {name}"), reader, "ns");
            figure(&format!("lost by {name}"), lost as f64, "events");
        }
        Ok(())
    }
}
