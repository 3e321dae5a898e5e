//! The seeds of the fuzz targets, replayed on stable, and 400 mutants of them. `ETW_BLESS=1` rewrites them. P5

use etw_session::{
    Cause, Condition, EnableInfo, Enablement, EventKey, Filters, IdFilter, LogMode, Loss,
    PayloadFilter, PayloadOp, SessionConfig,
};
use etw_types::{
    Guid, Keyword, Level, LevelKeyword, LevelKeywordFilter, LoadedModule, NameFilter, StackFilter,
};
use etw_wire::message::{FromHost, FromProgram};
use etw_wire::requests::{RefusalStatus, Request, Response, SessionStatus, Update};

#[path = "../../../../fuzz/src/replay.rs"]
mod replaying;
#[path = "../../../../fuzz/src/wire.rs"]
mod targets;

#[test]
fn messages_cause_no_panic() {
    let wanted =
        LevelKeyword { level: Level(4), any: Keyword(7), all: Keyword(3), ignore_keyword_0: true };
    let id = Guid::from_u128(9);
    let level_keyword = LevelKeywordFilter { of: wanted, include: true };
    let ids = IdFilter { include: true, ids: vec![7] };
    let names =
        NameFilter { of: LevelKeyword::ALL, include: false, names: vec!["Tick".to_owned()] };
    let stacks = StackFilter {
        event_ids: Some(ids),
        event_names: Some(names),
        level_keyword: Some(level_keyword),
    };
    let (token, number, slot, source) = (1, 2, 7, id);
    let set = FromHost::Set {
        token,
        number,
        slot,
        wanted,
        source,
        filter_data: b"xy",
        stacks: Some(stacks),
        since: 9,
    };
    let mut modules = Vec::new();
    LoadedModule { path: "/lib/a.so".to_owned(), build_id: vec![7; 20], ..LoadedModule::default() }
        .put(&mut modules);
    // A flag that this version does not have; it was read as if it had not been there.
    let mut flags = set.to_bytes();
    flags[11] = 3;
    let seeds = [
        ("hello", FromProgram::Hello { version: 1, role: 2 }.to_bytes()),
        ("register", FromProgram::Register { number: 5, id, traits: b"\x06\0Doc\0" }.to_bytes()),
        ("done", FromProgram::Done { token: 8, status: 0 }.to_bytes()),
        ("done_refused", FromProgram::Done { token: 8, status: 1450 }.to_bytes()),
        ("welcome", FromHost::Welcome { version: 1, pool_size: 1 << 20 }.to_bytes()),
        ("set", set.to_bytes()),
        ("set_flags", flags),
        ("clear", FromHost::Clear { token: 1, number: 2, slot: 3, source: id }.to_bytes()),
        (
            "capture",
            FromHost::Capture {
                token: 1,
                number: 2,
                level: Level(3),
                any: Keyword(4),
                all: Keyword(5),
                source: id,
            }
            .to_bytes(),
        ),
        ("modules", FromProgram::Modules { modules: &modules }.to_bytes()),
        ("grow", FromHost::Grow { size: 6 }.to_bytes()),
    ];
    replaying::replay("wire_message", &seeds, 400, targets::message);
}

#[test]
fn requests_cause_no_panic() {
    let filters = Filters {
        process_ids: vec![1, 2],
        channels: vec![16],
        executables: vec!["sh".to_owned()],
        event_ids: Some(IdFilter { include: true, ids: vec![7] }),
        payload: vec![PayloadFilter {
            of: EventKey::Id { id: 7, version: None },
            conditions: vec![Condition::new("a.b", PayloadOp::Between, &["1", "0x20"]).unwrap()],
            any: true,
            match_all: false,
            metadata: None,
        }],
        ..Filters::default()
    };
    let info = EnableInfo { filters: Some(Box::new(filters)), ..EnableInfo::default() };
    let config = SessionConfig {
        name: "a".to_owned(),
        file: Some("/tmp/a%d.etl".into()),
        mode: LogMode::NewFile { max_size: 1 << 20 },
        enable: vec![Enablement::new(Guid::from_u128(3), info.clone())],
        ..SessionConfig::default()
    };
    let session = || "a".to_owned();
    let enable = Request::Enable {
        session: session(),
        provider: Guid::from_u128(3).into(),
        info,
        timeout_ms: 5,
    };
    let update = Update { buffers: Some(3), real_time: Some(false), ..Update::default() };
    let loss = Loss { cause: Cause::Late, count: 3, ..Loss::default() };
    let refusal = RefusalStatus {
        pid: 7,
        provider: Guid::from_u128(3),
        status: 1450,
        message: "process 7 has eight sessions".to_owned(),
    };
    let status = SessionStatus {
        name: session(),
        losses: vec![loss],
        refused: 1,
        refusals: vec![refusal],
        ..SessionStatus::default()
    };
    let of = |request: &Request| serde_json::to_vec(request).unwrap();
    let seeds = [
        ("start", of(&Request::start(config))),
        ("enable", of(&enable)),
        ("update", of(&Request::Update { session: session(), update })),
        ("list", of(&Request::List)),
        ("status", serde_json::to_vec(&Response::Session(Box::new(status))).unwrap()),
    ];
    replaying::replay("wire_request", &seeds, 400, targets::request);
}
