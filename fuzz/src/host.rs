//! Memory of crashed or hostile programs: `.part` headers, session buffers, records of a pool.

use etw_etl::record::{self, RecordContext};
use etw_host::registrations::{Given, Origin, Provider, Recipients, Registrations};
use etw_ring::Record;
use etw_session::{EnableInfo, Event, HostFacts, Router, Session, SessionConfig, recover};
use etw_types::{BufferHeader, Guid};

/// The first bytes of a `.part` file; missing ones are zero.
pub fn part_header(data: &[u8]) {
    let _ = etw_host::part::check_header(data, 1 << 30);
}

/// Eight bytes of batch number, then buffers of 1 KiB.
pub fn recover(data: &[u8]) {
    let Some((batch, rest)) = data.split_first_chunk() else { return };
    let batch = u64::from_le_bytes(*batch);
    let found = recover::recover(rest.chunks(1024), batch);
    for buffer in found.buffers {
        assert_eq!(buffer.bytes.len(), 1024);
        let filled = BufferHeader::OFFSET.get(&buffer.bytes).expect("a whole header") as usize;
        assert!((BufferHeader::SIZE..=1024).contains(&filled));
    }
}

/// A record's kind, flags and size of its prefix, then its payload.
pub fn record(data: &[u8]) {
    let Some((head, payload)) = data.split_first_chunk::<4>() else { return };
    let record = Record {
        time: 1,
        kind: head[0],
        sessions: 1,
        cpu: u16::from(head[1]),
        tid: 2,
        registration: u32::from(head[1] & 3),
        site: u32::from(head[1] >> 6),
        seq: 0,
        user: 0,
        epoch: 0,
        metadata_size: u16::from_le_bytes([head[2], head[3]]).min(payload.len() as u16),
        overflow: false,
        payload,
    };
    let mut registrations = Registrations::default();
    for number in 1..3 {
        let traits = if number == 1 { b"\x06\0Abc\0".to_vec() } else { payload.to_vec() };
        registrations.set(number, Provider { id: Guid::from_u128(u128::from(number)), traits });
    }
    let mut sites =
        |id: u32| (id != 3).then(|| payload[..payload.len().min(id as usize * 20)].to_vec());
    let origin = Origin { time: 5, process_id: 6, thread_id: 2, ..Origin::default() };
    let provider = Guid::from_u128(u128::from(record.registration));
    let mut router = Router::default();
    router.insert(0, session(provider));
    let to = Recipients { sessions: 1, patient: 0 };
    let given = registrations.route(&record, &origin, &mut sites, &mut router, to);
    let event = registrations.event(&record, &origin, &mut sites);
    assert_eq!(given == Given::Hostile, event.is_none());
    if let (Some(event), Some(mut routed)) = (&event, router.remove(0)) {
        let mut alone = session(provider);
        let _ = alone.push(event);
        assert_eq!(taken(&mut routed), taken(&mut alone));
    }
    if let Some(event) = event {
        let size = event.size(&[]);
        let (least, most) = match event.classic {
            None => (80, 80 + 3 * payload.len() + 200),
            Some(_) => (8 + event.payload.len(), 0x48 + event.payload.len()),
        };
        assert!(size >= least && size <= most, "{size}");
        assert!(event.chain.len() % 8 == 0);
        stored(&event);
    }
}

fn session(provider: Guid) -> Session<Vec<u8>> {
    let config =
        SessionConfig { buffer_size: 4096, per_processor: false, ..SessionConfig::default() };
    let mut session = Session::new(&config, HostFacts::default(), vec![vec![0; 4096]; 2])
        .expect("options that can be");
    session.enable(provider, EnableInfo::default());
    session
}

/// The records that the session stored.
fn taken(session: &mut Session<Vec<u8>>) -> Option<Vec<u8>> {
    session.stop(i64::MAX);
    session.seal(1);
    Some(session.take_full()?.bytes().to_vec())
}

/// Any record of a program becomes one sound record of the announced size.
fn stored(event: &Event<'_>) {
    let config = SessionConfig { buffer_size: 4096, ..SessionConfig::default() };
    let mut session = Session::new(&config, HostFacts::default(), vec![vec![0; 4096]; 2])
        .expect("options that can be");
    session.enable(event.provider, EnableInfo::default());
    if session.push(&Event { cpu: 0, ..*event }).is_err() {
        return;
    }
    session.stop(i64::MAX);
    session.seal(1);
    let full = session.take_full().expect("a sealed buffer");
    let record = &full.bytes()[BufferHeader::SIZE..full.filled()];
    let context = RecordContext::default();
    let frame = record::frame(record, &context).expect("a record");
    assert_eq!(frame.size as usize, event.size(&[]));
    assert_eq!(record.len(), (frame.size as usize).next_multiple_of(8));
    let parsed = record::parse(&record[..frame.size as usize], &context).expect("a sound record");
    assert_eq!(parsed.payload, event.payload);
    session.stored(full);
}
