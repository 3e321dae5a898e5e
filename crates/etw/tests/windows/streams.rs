//! Consumers: records that `ProcessTrace` delivers become ours.

use etw::{Consumer, Controller, Guid, LiveItem, LiveStream, Status, StreamEnd};
use etw_types::{ExtType, HeaderType};
use windows_sys::Win32::System::Diagnostics::Etw::{EVENT_HEADER_EXTENDED_DATA_ITEM, EVENT_RECORD};

use crate::recorder::Recorder;
use crate::recorder::sessions::{self, Call, START_TIME};

const PROVIDER: u128 = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;

/// A record with these flags, items and data.
fn record(flags: u16, items: &mut [EVENT_HEADER_EXTENDED_DATA_ITEM], data: &[u8]) -> EVENT_RECORD {
    let mut record = EVENT_RECORD::default();
    let header = &mut record.EventHeader;
    header.ProviderId = windows_sys::core::GUID::from_u128(PROVIDER);
    header.Flags = flags;
    (header.ThreadId, header.ProcessId) = (11, 22);
    header.TimeStamp = START_TIME + 5;
    header.ActivityId = windows_sys::core::GUID::from_u128(0xac);
    let descriptor = &mut header.EventDescriptor;
    (descriptor.Id, descriptor.Version, descriptor.Channel, descriptor.Level) = (7, 1, 11, 4);
    (descriptor.Opcode, descriptor.Task, descriptor.Keyword) = (1, 9, 0x8000_0000_0000_0002);
    header.Anonymous.Anonymous.KernelTime = 3;
    header.Anonymous.Anonymous.UserTime = 4;
    record.BufferContext.Anonymous.ProcessorIndex = 0x0103;
    (record.ExtendedDataCount, record.UserDataLength) = (items.len() as u16, data.len() as u16);
    record.ExtendedData = items.as_mut_ptr();
    record.UserData = data.as_ptr().cast_mut().cast();
    record
}

fn item(kind: ExtType, data: &[u8]) -> EVENT_HEADER_EXTENDED_DATA_ITEM {
    let mut item = EVENT_HEADER_EXTENDED_DATA_ITEM::default();
    (item.ExtType, item.DataSize) = (kind.0, data.len() as u16);
    item.DataPtr = data.as_ptr().expose_provenance() as u64;
    item
}

/// 64-bit header, processor index.
const WIDE: u16 = 0x240;
const METADATA: &[u8] = b"\x0f\0\0Sold\0Count\0\x08";

#[test]
fn a_delivered_record_has_all_that_the_system_says_of_it() {
    let _recorder = Recorder::start();
    let host = Controller::connect().unwrap();
    let session = host.session("live").real_time().start().unwrap();
    sessions::play(|deliver, end_buffer| {
        let related = [9u8; 16];
        let mut items =
            [item(ExtType::RELATED_ACTIVITYID, &related), item(ExtType::TS_ID, &[1, 0, 0, 0])];
        deliver(&mut record(WIDE, &mut items, b"payload"));
        // Classic, without processor times, 32-bit, a narrow processor number.
        deliver(&mut record(0x0130, &mut [], b""));
        end_buffer(0);
        end_buffer(6);
    });
    let mut stream = LiveStream::open(&host, "live").unwrap();
    assert_eq!(stream.trace().header().unwrap().start_time.0, START_TIME);
    assert_eq!(stream.trace().header().unwrap().number_of_processors, 4);
    let Some(LiveItem::Record(first)) = stream.next().unwrap() else { panic!("no record") };
    assert_eq!(first.header, HeaderType::Event64);
    assert_eq!((first.pointer_size, first.cpu), (8, 0x0103));
    assert_eq!((first.process_id, first.thread_id), (Some(22), Some(11)));
    assert_eq!(first.provider, Some(Guid::from_u128(PROVIDER)));
    assert_eq!(first.activity_id, Guid::from_u128(0xac));
    assert_eq!(first.related_activity_id(), Some(Guid([9; 16])));
    assert_eq!(first.extended.find(ExtType::TS_ID), Some(&[1, 0, 0, 0][..]));
    let descriptor = first.descriptor;
    assert_eq!((descriptor.id, descriptor.version, descriptor.channel.0), (7, 1, 11));
    assert_eq!((descriptor.level.0, descriptor.opcode.0, descriptor.task), (4, 1, 9));
    assert_eq!(descriptor.keyword.0, 0x8000_0000_0000_0002);
    assert_eq!(first.cpu_times.map(|times| (times.kernel, times.user)), Some((3, 4)));
    assert_eq!(first.payload, b"payload");
    assert_eq!(first.order_time, START_TIME + 5);
    let (payload, time) = (first.payload.to_vec(), first.order_time);
    assert_eq!((payload.len(), time), (7, START_TIME + 5));
    let Some(LiveItem::Record(second)) = stream.next().unwrap() else { panic!("no record") };
    assert_eq!((second.header, second.pointer_size), (HeaderType::Full32, 4));
    assert_eq!((second.cpu, second.cpu_times), (3, None));
    assert!(second.payload.is_empty() && second.extended.is_empty());
    assert!(matches!(stream.next().unwrap(), Some(LiveItem::BufferEnd { filled: 4096 })));
    assert!(matches!(stream.next().unwrap(), Some(LiveItem::Lost { events: 6, .. })));
    assert!(stream.next().unwrap().is_none());
    assert_eq!(stream.end(), Some(StreamEnd::SessionEnded));
    assert_eq!((stream.ledger().received, stream.ledger().lost), (2, 6));
    let calls = sessions::take_calls();
    // Real time, event records.
    assert!(calls.contains(&Call::Open { name: "live".into(), mode: 0x1000_0100 }), "{calls:?}");
    assert_eq!(calls.iter().filter(|call| **call == Call::Close).count(), 1);
    drop(session);
}

#[test]
fn a_consumer_decodes_events_of_the_system() {
    let _recorder = Recorder::start();
    let host = Controller::connect().unwrap();
    let _session = host.session("shop").real_time().start().unwrap();
    sessions::play(|deliver, _| {
        let traits = b"\x07\0Shop\0";
        let mut items =
            [item(ExtType::EVENT_SCHEMA_TL, METADATA), item(ExtType::PROV_TRAITS, traits)];
        for count in [3u32, 4] {
            deliver(&mut record(WIDE, &mut items, &count.to_le_bytes()));
        }
    });
    let mut events = Consumer::open(&host, "shop").unwrap();
    let mut counts = Vec::new();
    while let Some(event) = events.next().unwrap() {
        assert_eq!(event.name(), Some("Sold"));
        assert_eq!(event.provider_name().as_deref(), Some("Shop"));
        counts.push(event.get::<u32>("Count").unwrap());
    }
    assert_eq!(counts, [3, 4]);
}

#[test]
fn a_closed_stream_stops_the_system_at_the_next_buffer() {
    let _recorder = Recorder::start();
    let host = Controller::connect().unwrap();
    let _session = host.session("endless").real_time().start().unwrap();
    sessions::play(|deliver, end_buffer| {
        while end_buffer(0) != 0 {
            deliver(&mut record(WIDE, &mut [], b"again"));
        }
        assert!(sessions::is_closed());
    });
    let mut stream = LiveStream::open(&host, "endless").unwrap();
    let mut seen = 0;
    while seen < 10 {
        seen += u32::from(matches!(stream.next().unwrap(), Some(LiveItem::Record(_))));
    }
    sessions::take_calls();
    stream.closer().detach();
    while stream.next().unwrap().is_some() {}
    assert_eq!(stream.end(), Some(StreamEnd::Disconnected));
    let calls = sessions::take_calls();
    assert!(
        matches!(&calls[..], [Call::Control { name, code: 3, .. }, Call::Close] if name == "endless"),
        "{calls:?}"
    );
}

#[test]
fn a_session_without_real_time_delivery_has_no_consumers() {
    let _recorder = Recorder::start();
    let host = Controller::connect().unwrap();
    let _session = host.session("memory").memory().start().unwrap();
    let error = LiveStream::open(&host, "memory").unwrap_err();
    assert_eq!(error.status(), Status::ERROR_NOT_SUPPORTED, "{error}");
    let error = LiveStream::open(&host, "nobody").unwrap_err();
    assert_eq!(error.status(), Status::ERROR_WMI_INSTANCE_NOT_FOUND, "{error}");
}
