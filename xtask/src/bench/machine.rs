//! The machine's state while a group of figures is measured: what a clock read and a copy cost, and who else uses the processors.

use std::hint::black_box;
use std::time::Instant;

/// Rounds of a measured cost; the best one counts.
const ROUNDS: usize = 20;
const PER_ROUND: u32 = 10_000;
/// Bytes of a measured copy, and of the memory it goes to.
const COPY: usize = 256;
const RING: usize = 4 << 20;

/// The state of the machine during a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    /// Reads of the processor's counter; of the system's clock where there is none.
    pub clock_ns: f64,
    /// A copy of 256 bytes into 4 MiB.
    pub copy_ns: f64,
    /// Processor time that the hypervisor gave to others; `None` if the system does not report it.
    pub steal_percent: Option<f64>,
    /// Processor time of other processes of this system.
    pub others_percent: Option<f64>,
    /// The system's average number of runnable threads in the last minute.
    pub load: Option<f64>,
}

/// Processor times since the system started, in ticks of all processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ticks {
    all: f64,
    busy: f64,
    steal: f64,
    /// The times of this process and of those that it waited for.
    own: f64,
}

impl Ticks {
    /// The times now; `None` where there is no `/proc`.
    pub fn now() -> Option<Ticks> {
        let system = std::fs::read_to_string("/proc/stat").ok()?;
        let own = std::fs::read_to_string("/proc/self/stat").ok()?;
        Ticks::parse(&system, &own)
    }

    fn parse(system: &str, own: &str) -> Option<Ticks> {
        let numbers = |text: &str| -> Vec<f64> {
            text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        let times = numbers(system.lines().next()?.strip_prefix("cpu ")?);
        // user, nice, system, idle, iowait, irq, softirq, steal; guest times are in user and nice.
        let [user, nice, kernel, idle, io_wait, irq, soft_irq, steal] = *times.get(..8)? else {
            return None;
        };
        let busy = user + nice + kernel + irq + soft_irq;
        // The name of the command ends with the last parenthesis and may have blanks; the times are the fields 14 to 17.
        let (_, fields) = own.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let own = fields.get(11..15)?.iter().filter_map(|field| field.parse::<f64>().ok()).sum();
        Some(Ticks { all: busy + idle + io_wait + steal, busy, steal, own })
    }
}

impl State {
    /// The state since `start`.
    pub fn since(start: Option<Ticks>) -> State {
        let shares = start.zip(Ticks::now()).map(|(start, end)| shares(&start, &end));
        State {
            clock_ns: cost(read_clock),
            copy_ns: copy_cost(),
            steal_percent: shares.map(|(steal, _)| steal),
            others_percent: shares.map(|(_, others)| others),
            load: load(),
        }
    }
}

fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().next()?.parse().ok()
}

/// Stolen time and that of others, in percent of all processors.
fn shares(start: &Ticks, end: &Ticks) -> (f64, f64) {
    let all = (end.all - start.all).max(1.0);
    let others = (end.busy - start.busy) - (end.own - start.own);
    ((end.steal - start.steal) / all * 100.0, (others / all * 100.0).max(0.0))
}

/// Nanoseconds of one call, in the best round.
fn cost(mut call: impl FnMut(usize)) -> f64 {
    let round = |_| {
        let start = Instant::now();
        (0..PER_ROUND as usize).for_each(&mut call);
        start.elapsed().as_nanos() as f64 / f64::from(PER_ROUND)
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

#[cfg(target_arch = "x86_64")]
fn read_clock(_: usize) {
    // SAFETY: every x86-64 processor has the instruction, and it has no other effect than its result.
    black_box(unsafe { std::arch::x86_64::_rdtsc() });
}

#[cfg(not(target_arch = "x86_64"))]
fn read_clock(_: usize) {
    black_box(Instant::now());
}

fn copy_cost() -> f64 {
    let mut ring = vec![1u8; RING];
    let text = [7u8; COPY];
    let mut at = 0;
    cost(|_| {
        ring[at..at + COPY].copy_from_slice(black_box(&text));
        at = (at + COPY) % RING;
        black_box(&ring);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_between_two_samples() {
        let own = |ticks: u64| format!("7 (a) b) R 1 2 3 4 5 6 7 8 9 10 {ticks} 5 3 2 20 0");
        let start = Ticks::parse("cpu  100 0 50 800 0 0 0 50 0 0\ncpu0 1", &own(10)).unwrap();
        let end = Ticks::parse("cpu  300 0 50 1480 0 10 10 150 0 0\ncpu0 1", &own(110)).unwrap();
        assert_eq!(start, Ticks { all: 1000.0, busy: 150.0, steal: 50.0, own: 20.0 });
        let (steal, others) = shares(&start, &end);
        assert_eq!((steal, others), (10.0, 12.0));
    }

    #[test]
    fn a_state_has_costs() {
        let state = State::since(Ticks::now());
        assert!(state.clock_ns > 0.0 && state.copy_ns > 0.0, "{state:?}");
        assert_eq!(state.steal_percent.is_some(), state.others_percent.is_some());
        assert_eq!(state.load.is_some(), cfg!(target_os = "linux"));
    }
}
