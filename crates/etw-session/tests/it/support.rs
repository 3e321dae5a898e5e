//! Sessions without a host: events by hand, buffers read back.
use etw_session::*;
use etw_types::{BufferFlags, BufferHeader, BufferType, Guid, Level};

pub const PROVIDER: Guid = Guid::from_u128(0x1234);

/// Small buffers, and a file where the mode has one.
pub fn config(mode: LogMode) -> SessionConfig {
    let file = (!mode.policy().is_in_memory()).then(|| "x.etl".into());
    SessionConfig { file, buffer_size: 1024, mode, ..SessionConfig::default() }
}

/// Small buffers for consumers, without a file.
pub fn live() -> SessionConfig {
    SessionConfig { file: None, real_time: true, ..config(LogMode::default()) }
}

pub fn session(mode: LogMode, buffers: usize) -> Session<Vec<u8>> {
    with(&config(mode), buffers)
}

pub fn with(config: &SessionConfig, buffers: usize) -> Session<Vec<u8>> {
    with_host(config, HostFacts::default(), buffers)
}

pub fn with_host(config: &SessionConfig, host: HostFacts, buffers: usize) -> Session<Vec<u8>> {
    let memory = vec![vec![0xee; config.buffer_size as usize]; buffers];
    let mut session = Session::new(config, host, memory).unwrap();
    session.enable(PROVIDER, EnableInfo::default());
    session
}

/// 96 bytes on disk; the payload is the number.
pub fn event(number: &[u8; 8], time: i64, cpu: u16) -> Event<'_> {
    let mut event = Event {
        time,
        cpu,
        process_id: 7,
        thread_id: 8,
        provider: PROVIDER,
        payload: number,
        ..Event::default()
    };
    event.descriptor.level = Level::INFO;
    event
}

pub fn push(session: &mut Session<Vec<u8>>, number: u64, cpu: u16) -> Result<(), Cause> {
    let result = session.push(&event(&number.to_le_bytes(), number as i64, cpu));
    assert!(session.ledger().is_balanced());
    result
}

/// A buffer as it would be in its file.
pub fn on_disk<B: AsRef<[u8]> + AsMut<[u8]>>(full: &FullBuffer<B>) -> Vec<u8> {
    let mut bytes = full.bytes().to_vec();
    bytes[..BufferHeader::SIZE].copy_from_slice(&full.header());
    bytes
}

/// The numbers of a buffer's events, read by the container's own reader; whether it is sound comes with it.
pub fn numbers(bytes: &[u8]) -> Vec<u64> {
    let (header, records) = etw_etl::read::buffer::open(bytes, 1 << 24).unwrap();
    assert_eq!((header.state, header.buffer_type), (BufferHeader::STATE_FULL, BufferType::GENERIC));
    assert!(header.flags.contains(BufferFlags::PROC_INDEX));
    let mut found = Vec::new();
    let mut at = 0;
    let mut last = i64::MIN;
    while at < records.len() {
        let context = etw_etl::record::RecordContext::default();
        let frame = etw_etl::record::frame(&records[at..], &context).unwrap();
        let record = &records[at..at + frame.size as usize];
        if !is_mark(record) {
            found.push(u64::from_le_bytes(record[record.len() - 8..].try_into().unwrap()));
        }
        let time = i64::from_le_bytes(record[0x10..0x18].try_into().unwrap());
        assert!(time >= last && time <= header.time_stamp);
        last = time;
        at += (frame.size as usize).next_multiple_of(8);
    }
    found
}

/// Whether a record stands for lost events.
pub fn is_mark(record: &[u8]) -> bool {
    let time = i64::from_le_bytes(record[0x10..0x18].try_into().unwrap());
    record == LossMark::Events.record(time)
}

/// The numbers of a buffer's events and, as `Err`, the times of its marks.
pub fn numbers_and_marks(bytes: &[u8]) -> Vec<Result<u64, i64>> {
    let (_, records) = etw_etl::read::buffer::open(bytes, 1 << 24).unwrap();
    let context = etw_etl::record::RecordContext::default();
    let found = etw_etl::read::BufferRecords::new(&records, &context).map(|item| {
        let etw_etl::read::Item::Record { record, .. } = item else { panic!("{item:?}") };
        match etw_types::is_session_report(&record) {
            true => Err(record.raw_timestamp().unwrap()),
            false => Ok(u64::from_le_bytes(record.payload.try_into().unwrap())),
        }
    });
    found.collect()
}

/// Seals, takes all that is full, and gives it back as stored.
pub fn store(session: &mut Session<Vec<u8>>, batch: u64) -> Vec<(Place, Vec<u8>)> {
    session.seal(batch);
    let mut stored = Vec::new();
    while let Some(full) = session.take_full() {
        stored.push((full.place(), on_disk(&full)));
        session.stored(full);
    }
    assert!(session.ledger().is_balanced());
    stored
}
