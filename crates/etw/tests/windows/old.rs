//! A system without the functions that came after Windows Vista.
#![cfg(windows)]

#[expect(dead_code, reason = "the other tests use the rest")]
mod recorder;

use etw::evntprov::{
    EventDataDescriptor, WriteOptions, etw_event_write_full, event_register, event_write_ex,
};
use etw::{EventDescriptor, Guid, Status, define_provider, write_event};

define_provider!(SHOP, "Windows.Old", group_id("5ed8bb3e-7b4c-4d5a-8c2f-0d3f9a6c1b11"));

#[test]
fn functions_that_the_system_lacks_are_done_without() {
    let recorder = recorder::Recorder::start();
    recorder.lack_optional_functions();
    let _registration = SHOP.register();
    assert_eq!(recorder.traits_of(SHOP.id()), Some(Vec::new()), "no EventSetInformation");
    recorder.enable(SHOP.id(), 5, 0, 0);
    assert_eq!(write_event!(SHOP, "Sold", u8("Count", &1)), Status::ERROR_SUCCESS);
    assert_eq!(recorder.take_written()[0].traits, SHOP.traits(), "the event has them");

    let id = Guid::from_u128(0x01d);
    let handle = event_register(&id, None).unwrap();
    recorder.enable(id, 5, 0, 0);
    let descriptor = EventDescriptor { id: 1, ..EventDescriptor::default() };
    let data = [EventDataDescriptor::new(b"data")];
    let write = |filter, flags| {
        event_write_ex(handle, Some(&descriptor), WriteOptions { filter, flags }, None, None, &data)
    };
    assert_eq!(write(0, 2), Status::ERROR_SUCCESS);
    assert_eq!(write(1 << 32, 0), Status::ERROR_NOT_SUPPORTED, "nobody can be left out");
    let property = etw_event_write_full(handle, Some(&descriptor), 4, None, None, &data);
    assert_eq!(property, Status::ERROR_SUCCESS);
    let functions: Vec<_> = recorder.take_written().iter().map(|it| it.function).collect();
    assert_eq!(functions, ["transfer", "transfer"]);

    // Sessions run, providers have no list, and what needs a newer function is refused by name.
    let host = etw::Controller::connect().unwrap();
    let session = host.session("old").memory().start().unwrap();
    session.enable(&id, etw::Level::VERBOSE, etw::Keyword(0)).unwrap();
    assert!(host.providers().unwrap().is_empty());
    let condition = etw::Condition::new("Size", etw::PayloadOp::Eq, &["1"]).unwrap();
    let payload = etw::PayloadFilter {
        of: etw::EventKey::Id { id: 1, version: None },
        conditions: vec![condition],
        any: false,
        match_all: false,
        metadata: None,
    };
    let filters = etw::Filters { payload: vec![payload], ..etw::Filters::default() };
    let info = etw::EnableInfo { filters: Some(Box::new(filters)), ..etw::EnableInfo::default() };
    let error = session.enable_with(&id, info).unwrap_err();
    assert_eq!(error.status(), Status::ERROR_NOT_SUPPORTED);
    assert!(error.to_string().contains("Windows 8.1"), "{error}");
    session.stop().unwrap();
}
