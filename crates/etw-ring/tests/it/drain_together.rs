//! Several pools drained together.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use etw_ring::*;

struct Pool {
    writer: Arc<Writer>,
    reader: Reader,
}

fn pools(count: usize) -> (Vec<Pool>, Bell, (RawClock, Barrier)) {
    let (clock, barrier) = (RawClock::best(), Barrier::best(false));
    let bell = Bell::new(Arc::new(Memory::heap(Bell::SIZE).unwrap())).unwrap();
    let make = |attachment| {
        let memory = Memory::heap(Control::SIZE).unwrap();
        let control = Control::create(memory, clock, barrier).unwrap();
        let open = Admission { open: true, largest_size: 65535, ..Admission::default() };
        control.set_admission(0, open);
        let options = PoolOptions { chunk_size: 256 << 10, prefault: 0 };
        let memory = Memory::heap(options.memory_size()).unwrap();
        let writer = Writer::new(memory, control.memory().clone(), options, attachment).unwrap();
        let writer = Arc::new(writer.with_bell(bell.clone()));
        let source = Source::Mapped(writer.segment(0).unwrap().clone());
        Pool { writer, reader: Reader::new(control, source).unwrap() }
    };
    ((0..count).map(make).collect(), bell.clone(), (clock, barrier))
}

fn write(writer: &Writer, value: u64) -> Result<(), Refused> {
    let request = Request { sessions: 1, payload_size: 8, event_size: 88, ..Request::default() };
    writer.write(&request, |event| event.put(&value.to_le_bytes()))
}

/// One drain of all, and what a host then does.
fn round(
    pools: &mut [Pool],
    clocks: (RawClock, Barrier),
    (floor, batch): (&mut u64, &mut u64),
    last: &LastBatch,
    mut sink: impl FnMut(usize, &Record<'_>) -> ControlFlow<()>,
) -> DrainedTogether {
    let mut all: Vec<_> = pools
        .iter_mut()
        .map(|pool| Participant::new(&mut pool.reader, DrainOptions::default()))
        .collect();
    let done = drain_together(
        &mut all,
        clocks,
        Bounds { floor: *floor, limit: u64::MAX },
        Duration::ZERO,
        &mut sink,
    );
    for one in &mut all {
        if one.drained.records == 0 {
            let (drained, in_flight) = (one.drained, one.is_in_flight);
            one.reader.be_quiet(&drained, in_flight);
        } else {
            one.reader.wake();
        }
    }
    *floor = done.watermark;
    *batch += 1;
    advance_together(pools.iter_mut().map(|pool| &mut pool.reader), last, *batch);
    done
}

#[test]
fn many_pools_drain_in_one_order_of_time_and_a_write_wakes_a_quiet_one() {
    const EACH: u64 = 40_000;
    let (mut pools, bell, clocks) = pools(6);
    /// Ends the writers, also when an assertion fails.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let done = AtomicBool::new(false);
    let last = LastBatch::new(Arc::new(Memory::heap(LastBatch::SIZE).unwrap())).unwrap();
    std::thread::scope(|scope| {
        let _end = End(&done);
        let done = &done;
        for (index, pool) in pools.iter().enumerate() {
            let writer = pool.writer.clone();
            scope.spawn(move || {
                for value in 0..EACH {
                    while write(&writer, value) == Err(Refused::NotEnoughMemory) {
                        if done.load(Ordering::Relaxed) {
                            return;
                        }
                        std::thread::sleep(Duration::from_micros(50));
                    }
                    // So that pools fall silent and are woken again, each at its own times.
                    if value % (5000 + 1000 * index as u64) == 0 {
                        std::thread::sleep(Duration::from_millis(30));
                    }
                }
            });
        }
        let (mut floor, mut batch) = (0, 0);
        let (mut next, mut came) = ([0; 6], 0);
        // A writer that gets no processor for 50 ms in the middle of a write is late: its record is counted, and does not come.
        let late = |pools: &[Pool]| pools.iter().map(|pool| pool.reader.late()[0]).sum::<u64>();
        let (mut last_time, mut stops, mut quiet, mut slept) = (0, 0, 0, 0u64);
        let end = Instant::now() + Duration::from_secs(300);
        while came + late(&pools) < 6 * EACH {
            assert!(Instant::now() < end, "{next:?}");
            let mut taken = 0;
            let one = round(&mut pools, clocks, (&mut floor, &mut batch), &last, |pool, record| {
                taken += 1;
                if taken == 3001 {
                    return ControlFlow::Break(());
                }
                assert!(record.time >= last_time, "the order of time, over all pools");
                last_time = record.time;
                let value = u64::from_le_bytes(record.payload.try_into().unwrap());
                assert!(value >= next[pool], "{value} after {}", next[pool]);
                next[pool] = value + 1;
                came += 1;
                ControlFlow::Continue(())
            });
            stops += u64::from(one.stopped);
            assert_eq!(last.get(), batch);
            quiet += pools.iter().filter(|pool| pool.reader.is_quiet()).count();
            if pools.iter().all(|pool| pool.reader.is_quiet()) {
                slept += 1;
                bell.sleep(Duration::from_secs(1), || pools.iter().any(|p| p.reader.is_rung()));
            }
        }
        assert!(stops > 0 && quiet > 0, "{stops} {quiet} {slept}");
    });
    for pool in &pools {
        assert_eq!(pool.reader.drained()[0] + pool.reader.late()[0], EACH);
        assert_eq!(pool.reader.ledger().attempted[0] - pool.reader.ledger().lost_total(0), EACH);
    }
}

/// A sink that takes some of the records of a run, and gets the others one by one.
#[derive(Default)]
struct Runs {
    values: Vec<u64>,
    in_runs: u64,
}

impl Runs {
    fn add(&mut self, record: &RecordBytes<'_>) {
        self.values.push(u64::from_le_bytes(record.payload().try_into().unwrap()));
    }
}

impl RecordSink for Runs {
    fn take(&mut self, _pool: usize, record: &RecordBytes<'_>) -> ControlFlow<()> {
        self.add(record);
        ControlFlow::Continue(())
    }

    fn take_run(&mut self, _pool: usize, run: &mut Run<'_>) {
        for _ in 0..self.values.len() % 4 {
            let Some(record) = run.peek() else { return };
            self.add(&record);
            run.take(&record);
            self.in_runs += 1;
        }
    }
}

/// OV-12: however many records of a run a sink takes, it gets each record once, in the order of all pools, and all are counted.
#[test]
fn a_run_ends_where_another_pool_comes_first() {
    let (mut pools, _, clocks) = pools(2);
    const COUNT: u64 = 2000;
    for value in 0..COUNT {
        write(&pools[usize::from(value % 7 > 2)].writer, value).unwrap();
    }
    let mut all: Vec<_> = pools
        .iter_mut()
        .map(|pool| Participant::new(&mut pool.reader, DrainOptions::default()))
        .collect();
    let mut sink = Runs::default();
    let bounds = Bounds { floor: 0, limit: u64::MAX };
    let done = drain_together(&mut all, clocks, bounds, Duration::ZERO, &mut sink);
    assert!(sink.values.iter().copied().eq(0..COUNT));
    assert!(sink.in_runs > COUNT / 4, "{}", sink.in_runs);
    assert_eq!((done.records, done.size), (COUNT, COUNT * 48));
    let drained = pools.iter().map(|pool| pool.reader.drained()[0]);
    assert_eq!(drained.sum::<u64>(), COUNT);
}
