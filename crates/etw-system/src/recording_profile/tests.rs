//! Files of profiles.

use super::*;

const FILE: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<WindowsPerformanceRecorder Version="1.0">
  <Profiles>
    <SystemCollector Id="SC" Name="NT Kernel Logger"><BufferSize Value="512"/><Buffers Value="20"/></SystemCollector>
    <EventCollector Id="EC" Name="Events"><BufferSize Value="128"/><Buffers Value="3" PercentageOfTotalMemory="true"/></EventCollector>
    <SystemProvider Id="SP">
      <Keywords><Keyword Value="ProcessThread"/><Keyword Value="CSwitch"/></Keywords>
      <Stacks><Stack Value="CSwitch"/></Stacks>
    </SystemProvider>
    <EventProvider Id="EP" Name="*Some" Level="4" Stack="true"><Keywords><Keyword Value="0x10"/><Keyword Value="2"/></Keywords></EventProvider>
    <Profile Id="P.Light.File" Name="P" DetailLevel="Light" LoggingMode="File" Description="Some">
      <Collectors>
        <SystemCollectorId Value="SC"><SystemProviderId Value="SP"/></SystemCollectorId>
        <EventCollectorId Value="EC"><EventProviders><EventProviderId Value="EP"/><EventProvider Id="Q" Name="Other"/></EventProviders></EventCollectorId>
      </Collectors>
    </Profile>
  </Profiles>
</WindowsPerformanceRecorder>"#;

#[test]
fn collectors_and_providers_are_found_by_their_ids() {
    let profiles = read_profiles(FILE.as_bytes()).unwrap();
    let [profile] = &profiles[..] else { panic!("{profiles:?}") };
    assert_eq!((profile.name.as_str(), profile.level.as_str()), ("P", "Light"));
    assert!(profile.is_file);
    let system = profile.system.as_ref().unwrap();
    assert_eq!(system.keywords, ["ProcessThread", "CSwitch"]);
    assert_eq!(system.stacks, ["CSwitch"]);
    assert_eq!(
        system.buffers,
        Buffers { size_kb: Some(512), count: Some(BufferCount::Number(20)) }
    );
    let [collector] = &profile.collectors[..] else { panic!("{profile:?}") };
    let count = Some(BufferCount::PercentOfMemory(3));
    assert_eq!(collector.buffers, Buffers { size_kb: Some(128), count });
    assert_eq!(collector.name, "Events");
    let some = EventProvider {
        id: "EP".to_owned(),
        name: "*Some".to_owned(),
        level: Level(4),
        keywords: Keyword(0x12),
        has_stacks: true,
        ..EventProvider::default()
    };
    let other =
        EventProvider { id: "Q".to_owned(), name: "Other".to_owned(), ..EventProvider::default() };
    assert_eq!(collector.providers, [some, other]);
}

/// OV-24: files of Windows Performance Recorder, which may be in UTF-16.
#[test]
fn a_file_may_be_in_utf_16() {
    let profiles = read_profiles(FILE.as_bytes()).unwrap();
    let text = FILE.replace("utf-8", "utf-16");
    let units: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = [&[0xff, 0xfe][..], &units].concat();
    assert_eq!(read_profiles(&marked).unwrap(), profiles);
    assert_eq!(read_profiles(&units).unwrap(), profiles);
    assert!(read_profiles(b"<\xff").is_err());
    assert!(read_profiles(&[0xff, 0xfe, 0]).is_err());
}

/// OV-24: a profile in memory that is based on one in a file, as most files of profiles have it; and parts that add or replace.
#[test]
fn profiles_inherit_from_their_bases() {
    let more = r#"
    <SystemCollector Id="SC2" Base="SC" Name="Other"><Buffers Value="40"/></SystemCollector>
    <SystemProvider Id="SP2" Base="SP">
      <Keywords Operation="Add"><Keyword Value="Loader"/><CustomKeyword Value="0x20000002"/></Keywords>
      <Stacks><Stack Value="ReadyThread"/></Stacks>
    </SystemProvider>
    <EventProvider Id="EP2" Base="EP" Level="5"/>
    <Profile Id="P.Light.Memory" Name="P" DetailLevel="Light" LoggingMode="Memory" Base="P.Light.File"/>
    <Profile Id="P.Verbose.File" Base="P.Light.File" DetailLevel="Verbose">
      <Collectors Operation="Add">
        <SystemCollectorId Value="SC2"><SystemProviderId Value="SP2"/></SystemCollectorId>
        <EventCollectorId Value="EC"><BufferSize Value="256"/><EventProviders><EventProviderId Value="EP2"/></EventProviders></EventCollectorId>
      </Collectors>
    </Profile>
    <Profile Id="Q.Light.File" Base="P.Light.File" Name="Q">
      <Collectors><SystemCollectorId Value="SC2"><SystemProviderId Value="SP2"/></SystemCollectorId></Collectors>
    </Profile>
    <Profile Id="Heap.Light.File" Name="Heap" LoggingMode="File"><Collectors><HeapEventCollectorId Value="H"/></Collectors></Profile>
  </Profiles>"#;
    let profiles = read_profiles(FILE.replace("</Profiles>", more).as_bytes()).unwrap();
    let [file, memory, verbose, other, heap] = &profiles[..] else { panic!("{profiles:?}") };
    assert_eq!(*memory, RecordingProfile { is_file: false, ..file.clone() });
    let system = verbose.system.as_ref().unwrap();
    assert_eq!(system.keywords, ["ProcessThread", "CSwitch", "Loader", "0x20000002"]);
    assert_eq!(system.stacks, ["CSwitch", "ReadyThread"]);
    assert_eq!(
        system.buffers,
        Buffers { size_kb: Some(512), count: Some(BufferCount::Number(40)) }
    );
    let [collector] = &verbose.collectors[..] else { panic!("{verbose:?}") };
    assert_eq!(collector.buffers.size_kb, Some(256));
    assert_eq!((verbose.name.as_str(), verbose.level.as_str()), ("P", "Verbose"));
    let [.., last] = &collector.providers[..] else { panic!("{verbose:?}") };
    let first = file.collectors[0].providers[0].clone();
    assert_eq!(*last, EventProvider { id: "EP2".to_owned(), level: Level(5), ..first });
    assert_eq!(collector.providers.len(), 3);
    let system = other.system.as_ref().unwrap();
    assert_eq!(system.stacks, ["ReadyThread"]);
    assert!(other.collectors.is_empty() && other.is_file);
    assert!(heap.system.is_none() && heap.collectors.is_empty());
    assert_eq!(heap.left_out, ["HeapEventCollectorId"]);
}

#[test]
fn an_error_has_the_line_of_its_element() {
    for (from, to, line) in [
        (r#"<SystemProviderId Value="SP"/>"#, r#"<SystemProviderId Value="X"/>"#, 13),
        (r#"LoggingMode="File""#, r#"LoggingMode="Tape""#, 11),
        (r#"DetailLevel="Light""#, r#"DetailLevel="Heavy""#, 11),
        (r#"Value="0x10""#, r#"Value="0xzz""#, 10),
        (r#"Level="4""#, r#"Level="256""#, 10),
        (r#"<Buffers Value="20"/>"#, r#"<Buffers/>"#, 4),
        (r#"<Keywords><Keyword Value="P"#, r#"<Keywords Operation="Drop"><Keyword Value="P"#, 7),
        (r#"Value="3" Perc"#, r#"Value="300" Perc"#, 5),
        (r#"Id="SP""#, r#"Id="SC""#, 6),
        (r#"Id="P.Light.File""#, r#"Id="P" Base="Q""#, 11),
        (r#"Id="P.Light.File""#, r#"Id="P" Base="P""#, 11),
        ("</Profiles>", "", 18),
    ] {
        assert!(FILE.contains(from), "{from}");
        let error = read_profiles(FILE.replace(from, to).as_bytes()).unwrap_err();
        assert_eq!(error.line, line, "{to}: {error}");
    }
    assert!(read_profiles(b"<!DOCTYPE x [<!ENTITY a \"b\">]><x>&a;</x>").is_err());
    assert!(read_profiles(&vec![b' '; MAX_SIZE + 1]).is_err());
    let many = FILE.replace("<Profiles>", &format!("<Profiles>{}", "<a/>".repeat(1 << 17)));
    assert!(read_profiles(many.as_bytes()).is_err());
}

/// OV-24: the three operations of Microsoft's schema, and what a profile leaves out.
#[test]
fn lists_set_add_and_remove() {
    let more = r#"
    <SystemProvider Id="SP2" Base="SP">
      <Keywords Operation="Remove"><Keyword Value="cswitch"/><Keyword Value="Absent"/></Keywords>
      <Stacks Operation="Remove"><Stack Value="CSwitch"/></Stacks>
    </SystemProvider>
    <EventProvider Id="EP2" Base="EP" Stack="false" SID="true" ProcessExeFilter="a; b" EventKey="1">
      <Keywords Operation="Remove"><Keyword Value="2"/></Keywords>
      <EventFilters FilterIn="false"><EventId Value="5"/><EventId Value="0x6"/></EventFilters>
      <StackFilters FilterIn="true"><EventId Value="7"/></StackFilters>
      <CaptureStateOnSave><Keyword Value="0x1"/></CaptureStateOnSave>
    </EventProvider>
    <EventCollector Id="EC2" Name="More"><BufferSize Value="64"/></EventCollector>
    <Profile Id="P.Verbose.File" Base="P.Light.File" DetailLevel="Verbose" Default="true">
      <Collectors Operation="Remove"><SystemCollectorId Value="SC"/></Collectors>
      <Collectors Operation="Add">
        <SystemCollectorId Value="SC"><SystemProviderId Value="SP2"/></SystemCollectorId>
        <EventCollectorId Value="EC"><EventProviders Operation="Remove"><EventProviderId Value="EP"/></EventProviders></EventCollectorId>
        <EventCollectorId Value="EC2"><EventProviders><EventProviderId Value="EP2"/></EventProviders></EventCollectorId>
      </Collectors>
    </Profile>
    <Profile Id="R" Base="P.Verbose.File" Name="R">
      <Collectors Operation="Add">
        <EventCollectorId Value="EC2"><EventProviders Operation="Set"><EventProviderId Value="EP"/></EventProviders></EventCollectorId>
      </Collectors>
    </Profile>
  </Profiles>"#;
    let file = FILE.replace("</Profiles>", more);
    let profiles = read_profiles(file.as_bytes()).unwrap();
    let [light, verbose, set] = &profiles[..] else { panic!("{profiles:?}") };
    assert!(!light.is_default && verbose.is_default);
    let system = verbose.system.as_ref().unwrap();
    assert_eq!((&system.keywords[..], system.stacks.len()), (&["ProcessThread".to_owned()][..], 0));
    let [events, more] = &verbose.collectors[..] else { panic!("{verbose:?}") };
    let ids = |one: &EventCollector| {
        one.providers.iter().map(|provider| provider.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!((ids(events), ids(more)), (vec!["Q".to_owned()], vec!["EP2".to_owned()]));
    assert_eq!((more.name.as_str(), more.buffers.size_kb), ("More", Some(64)));
    let provider = &more.providers[0];
    assert_eq!(
        (provider.keywords, provider.has_stacks, provider.has_sid),
        (Keyword(0x10), false, true)
    );
    assert_eq!(provider.executables, ["a", "b"]);
    let of = |are_included, ids: &[u16]| Some(EventIds { are_included, ids: ids.to_vec() });
    assert_eq!(provider.events, of(false, &[5, 6]));
    assert_eq!(provider.stack_events, of(true, &[7]));
    assert_eq!(verbose.left_out, ["CaptureStateOnSave", "EventKey"]);
    assert_eq!(ids(&set.collectors[1]), ["EP"]);
    let none = file.replace(
        r#"<Keyword Value="2"/></Keywords>
      <EventFilters"#,
        r#"<Keyword Value="0xff"/></Keywords>
      <EventFilters"#,
    );
    let error = read_profiles(none.as_bytes()).unwrap_err();
    assert!(error.message.contains("no keyword left"), "{error}");
}

/// Few bytes that refer to each other often, or have long texts, make no unbounded work.
#[test]
fn the_work_of_a_file_is_bounded() {
    let references = r#"<SystemProviderId Value="SP"/>"#.repeat(8_000);
    let collectors =
        r#"<SystemCollectorId Value="SC"><SystemProviderId Value="SP"/></SystemCollectorId>"#;
    let file = FILE.replace(r#"<SystemProviderId Value="SP"/>"#, &references);
    let keywords: String = (0..8_000).map(|n| format!("<Keyword Value=\"{n}\"/>")).collect();
    let file = file.replace(r#"<Keyword Value="ProcessThread"/>"#, &keywords);
    let error = read_profiles(file.as_bytes()).unwrap_err();
    assert!(error.message.contains("too many parts"), "{error}");
    let profiles: String =
        (0..8_000).map(|n| format!("<Profile Id=\"{n}\" Base=\"P.Light.File\"/>")).collect();
    let many = collectors.repeat(1_000);
    let file =
        FILE.replace(collectors, &many).replace("</Profiles>", &format!("{profiles}</Profiles>"));
    assert!(read_profiles(file.as_bytes()).is_err());
    let file = FILE.replace("*Some", &"a".repeat(MAX_TEXT + 1));
    assert!(read_profiles(file.as_bytes()).unwrap_err().message.contains("Name is longer than"));
}

/// Regression: an element with tens of thousands of attributes took half a minute, and namespaces of nested elements filled the memory.
#[test]
fn attributes_and_namespaces_are_bounded() {
    let attributes =
        |count: usize| -> String { (0..count).map(|n| format!(" a{n}=\"\"")).collect() };
    let with = |text: String| FILE.replace("<Profiles>", &format!("<Profiles>\n{text}"));
    let least = with(format!("<a{}/>", attributes(MAX_ATTRIBUTES)));
    assert!(read_profiles(least.as_bytes()).is_ok());
    let banner = with(format!("<!-- {} -->", "=".repeat(MAX_ATTRIBUTES + 1)));
    assert!(read_profiles(banner.as_bytes()).is_ok());
    let line = FILE.lines().position(|line| line.contains("<Profiles>")).unwrap() as u32 + 2;
    let spaces: String = (0..20_000).map(|n| format!("<a xmlns:a{n}=\"b\">")).collect();
    for (text, message) in [
        (format!("<a{}/>", attributes(90_000)), "an element has more than 256 attributes"),
        (format!("{spaces}{}", "</a>".repeat(20_000)), "more than 64 namespaces are declared"),
    ] {
        let begin = std::time::Instant::now();
        let error = read_profiles(with(text).as_bytes()).unwrap_err();
        assert_eq!((error.line, error.message.as_str()), (line, message));
        assert!(begin.elapsed() < std::time::Duration::from_secs(2), "{:?}", begin.elapsed());
    }
}

/// Regression: `TRUE` was false, without a word.
#[test]
fn boolean_attributes_are_true_or_false() {
    let read = |value: &str| {
        let file = FILE.replace(r#"Memory="true""#, &format!("Memory=\"{value}\""));
        read_profiles(file.replace(r#"Stack="true""#, &format!("Stack=\"{value}\"")).as_bytes())
    };
    for (value, is_true) in [("TRUE", true), ("1", true), ("False", false), ("0", false)] {
        let profiles = read(value).unwrap();
        let collector = &profiles[0].collectors[0];
        let is_part = matches!(collector.buffers.count, Some(BufferCount::PercentOfMemory(3)));
        assert_eq!((is_part, collector.providers[0].has_stacks), (is_true, is_true), "{value}");
    }
    let error = read("yes").unwrap_err();
    assert!(error.message.contains("=\"yes\" is neither true nor false"), "{error}");
}
