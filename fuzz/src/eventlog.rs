//! Fuzz targets of `etw-eventlog`.

use etw_decode::Decoder;
use etw_etl::record::RecordContext;
use etw_eventlog::access::{Access, Rights, User};
use etw_eventlog::channel::ChannelKind;
use etw_eventlog::config_file::{self, ConfigFile};
use etw_eventlog::import::{journal::Journal, syslog};
use etw_eventlog::record::{RecordBuilder, RecordFacts};
use etw_eventlog::registry::{Registry, Scope};
use etw_eventlog::translate::Translator;
use etw_evtx::chunk::{Chunk, Options};
use etw_evtx::write::ChunkWriter;
use etw_types::{FileTime, LogItem};

/// A chunk's records as events, and these events as records of another chunk.
pub fn eventlog_chunk(data: &[u8]) {
    if let Some(item) = LogItem::read(data) {
        let bytes = item.to_bytes();
        assert!(LogItem::read(&bytes).is_some());
    }
    let mut chunk = Chunk::new(data.to_vec(), 4096, Options::default());
    let mut translator = Translator::new();
    let mut decoder = Decoder::new();
    let mut builder = RecordBuilder::new();
    let mut written = ChunkWriter::new();
    while let Some(record) = chunk.next() {
        let Ok((bytes, time)) = translator.stored(&record) else { continue };
        let Ok(event) = etw_etl::record::parse(bytes, &RecordContext::default()) else {
            panic!("an event that cannot be parsed");
        };
        let decoded = decoder.decode(&event);
        let facts = RecordFacts { id: 1, time: FileTime(time), channel: "", computer: "" };
        builder.build(&event, &decoded, facts, |fragment| {
            let _ = written.push(1, FileTime(time), fragment);
        });
        builder.build_cut(&event, &decoded, facts, |fragment| {
            let _ = written.push(1, FileTime(time), fragment);
        });
    }
    let mut again = Chunk::new(written.to_bytes(), 4096, Options::default());
    while again.next().is_some() {}
    assert_eq!(again.take_damage(), []);
}

/// The rights of a log, as SDDL. Root's owner is never locked out by a text that grants nothing.
pub fn sddl(data: &[u8]) {
    let Ok(access) = Access::parse(&String::from_utf8_lossy(data)) else { return };
    let user = User { uid: 1000, groups: vec![4], is_reader: true, is_owner: false };
    let all = Rights::READ | Rights::WRITE | Rights::CLEAR;
    let each = [Rights::READ, Rights::WRITE, Rights::CLEAR];
    let allowed = each.iter().all(|right| access.allows(&user, *right));
    assert!(allowed || !access.allows(&user, all), "all rights without one of them");
    let _ = access.named_readers();
}

/// The settings of a channel as XML, applied to a channel.
pub fn channel_settings(data: &[u8]) {
    let Ok(ConfigFile { name, change }) = config_file::parse(data) else { return };
    assert!(!name.is_empty());
    let registry = Registry::of(&[Scope::machine()], &mut |_| ());
    let Some(channel) = registry.channels().first() else { return };
    let mut settings = channel.settings.clone();
    if settings.change(&change, ChannelKind::Admin).is_ok() {
        assert!(settings.max_size >= 1 << 20);
        let again = settings.difference(&channel.settings);
        let mut same = channel.settings.clone();
        same.change(&again, ChannelKind::Admin).unwrap();
        assert_eq!(same, settings);
    }
}

/// Entries of systemd's journal, in either form.
pub fn journal(data: &[u8]) {
    let mut journal = Journal::new(data);
    while journal.read().unwrap().is_some() {}
}

/// Lines of syslog.
pub fn syslog_lines(data: &[u8]) {
    for line in String::from_utf8_lossy(data).lines() {
        if let Some(entry) = syslog::parse(line, 2026) {
            assert!(entry.severity < 8 && !entry.source.is_empty());
        }
    }
}

/// The file of changes of a registry: whatever it says, each channel has settings that a log can have.
pub fn channel_changes(data: &[u8]) {
    use etw_eventlog::channel::{MAX_MAX_SIZE, MIN_MAX_SIZE};
    let nowhere = std::path::PathBuf::from("/nonexistent");
    let scope = Scope { packs: nowhere.clone(), logs: nowhere.join("logs"), is_machine: false };
    let mut registry = Registry::of(&[scope], &mut |_| {});
    registry.apply_changes(data, &mut |note| assert!(!note.is_empty()));
    assert_eq!(registry.channels().len(), 2);
    for channel in registry.channels() {
        let settings = &channel.settings;
        assert!((MIN_MAX_SIZE..=MAX_MAX_SIZE).contains(&settings.max_size), "{settings:?}");
        assert!(settings.retention || !settings.auto_backup, "{settings:?}");
        assert!(settings.file.is_absolute(), "{settings:?}");
        assert!(Access::parse(&settings.access).is_ok(), "{settings:?}");
        // The changes make the same settings again.
        let mut again = channel.defaults.clone();
        again.change(&settings.difference(&channel.defaults), channel.kind).unwrap();
        assert_eq!(again, *settings);
    }
}
