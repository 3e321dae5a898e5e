//! Outputs in forms that other programs read: pcapng of PktMon's packets, and tracerpt's files.

use crate::corpus::corpus;
use crate::fixture::{PROVIDER, TempFile, etw, stdout};
use etw_etl::write::FileBuilder;
use etw_types::{EventRecord, HeaderType, Hook};
use serde_json::Value;
use std::path::Path;

/// PktMon's packets at two components, whose names stand behind them: cut, dropped, and without a link layer.
#[test]
fn packets_of_pktmon_have_their_size_direction_drop_and_component() {
    let wide =
        |text: &str| text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    // Ethernet, IPv4, UDP, 10 bytes of data; two of them are captured.
    let udp = [
        &[2u8, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 38, 0, 0, 0, 0, 64, 17, 0, 0][..],
        &[10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39, 0x30, 0x3a, 0, 18, 0, 0, b'h', b'i'],
    ]
    .concat();
    let seen = |number: u16, direction: u16, kind: u16, component: u16, drop: u32, bytes: &[u8]| {
        [
            &7u64.to_le_bytes()[..],
            &[number, 1, direction, kind, component, 1, 0].map(u16::to_le_bytes).concat(),
            &[drop, if drop == 0 { 0 } else { 0xe000_4107 }].map(u32::to_le_bytes).concat(),
            &52u16.to_le_bytes(),
            &(bytes.len() as u16).to_le_bytes(),
            bytes,
        ]
        .concat()
    };
    let named =
        [&[12u16, 1].map(u16::to_le_bytes).concat()[..], &wide("e1d.sys"), &wide("Intel(R) I219")];
    let mac =
        [&[12u16, 3].map(u16::to_le_bytes).concat()[..], &6u32.to_le_bytes(), &[2, 0, 0, 0, 0, 1]];
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    for (after, id, payload) in [
        (1, 160, seen(1, 4, 1, 12, 0, &udp)),
        (2, 160, seen(1, 2, 1, 31, 0, &udp)),
        (3, 170, seen(2, 3, 1, 12, 23, &udp)),
        (4, 160, seen(3, 0, 5, 31, 0, b"tcp")),
        (90, 20, named.concat()),
        (91, 70, mac.concat()),
    ] {
        let mut record = EventRecord::new(HeaderType::Event64, &payload);
        record.provider = "4d4f80d9-c8bd-4d73-bb5b-19c90402c5ac".parse().ok();
        record.descriptor.id = id;
        record.order_time = start + after;
        file.push(0, &record).unwrap();
    }
    let file = TempFile::new(&file.finish());
    let out = file.path().with_extension("pcapng");
    let arguments = ["convert", "--force", "--to", "pcapng", "-o", out.to_str().unwrap()];
    assert!(stdout(&arguments, &[file.path()], 0).contains("4 packets"));
    let bytes = std::fs::read(&out).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let (mut at, mut interfaces, mut packets) = (0, Vec::new(), Vec::new());
    while at < bytes.len() {
        let size = word(at + 4) as usize;
        let text = String::from_utf8_lossy(&bytes[at..at + size]).into_owned();
        match word(at) {
            1 => interfaces.push((bytes[at + 8], text)),
            6 => packets.push((word(at + 8), word(at + 20), word(at + 24), text)),
            _ => {}
        }
        at += size;
    }
    // Component 31 has packets with and without a link layer.
    assert_eq!(interfaces.iter().map(|interface| interface.0).collect::<Vec<_>>(), [1, 1, 147]);
    assert!(
        interfaces[0].1.contains("e1d.sys")
            && interfaces[0].1.contains("Intel(R) I219 (component 12)")
    );
    assert!(interfaces[0].1.contains("\u{6}\0\u{6}\0\u{2}\0\0\0\0\u{1}"), "its MAC address");
    assert!(interfaces[1].1.contains("component 31"));
    let sizes: Vec<_> = packets.iter().map(|packet| (packet.0, packet.1, packet.2)).collect();
    assert_eq!(sizes, [(0, 44, 52), (1, 44, 52), (0, 44, 52), (2, 3, 52)]);
    let comment = "dropped: reason 23 (MTUMismatch) at location 0xe0004107";
    assert!(packets[2].3.contains(comment), "{}", packets[2].3);
    assert!(packets[0].3.contains("\u{2}\0\u{4}\0\u{2}\0\0\0"), "sent");
    assert!(packets[2].3.contains("\u{2}\0\u{4}\0\u{1}\0\0\0"), "received");
    no_frame_is_malformed(&out, 4);
    let once = [&arguments[..], &["--once"]].concat();
    assert!(stdout(&once, &[file.path()], 0).contains("3 packets"));
    std::fs::remove_file(&out).unwrap();
    let wrong = etw(&["convert", "--to", "chrome", "--once", "-o", "x"], &[file.path()]);
    assert_eq!(wrong.status.code(), Some(2));
}

/// Asks Wireshark's command, where it is installed.
fn no_frame_is_malformed(path: &std::path::Path, frames: usize) {
    let tshark = |arguments: &[&str]| {
        let output =
            std::process::Command::new("tshark").arg("-r").arg(path).args(arguments).output();
        output.ok().map(|output| {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).lines().count()
        })
    };
    match tshark(&["-Y", "_ws.malformed"]) {
        Some(malformed) => assert_eq!((malformed, tshark(&[])), (0, Some(frames))),
        None => println!("skipped: tshark is not installed"),
    }
}

/// Scripts read these parts of tracerpt's files: tables of the summary, class and type of kernel events, numbers of events without a
/// process, and the header's row.
#[test]
fn tracerpt_writes_the_forms_that_scripts_parse() {
    let folder = std::env::temp_dir().join(format!("etw-tracerpt-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut file = FileBuilder::new();
    let sample = [&0x1234u64.to_le_bytes()[..], &20u32.to_le_bytes(), &[1, 0, 0, 0]].concat();
    let mut record = EventRecord::new(HeaderType::PerfInfo64, &sample);
    record.hook = Some(Hook(0x0f2e));
    record.descriptor.version = 2;
    record.order_time = file.header.start_raw + 10;
    file.push(0, &record).unwrap();
    // A class of the kernel under another header.
    let names: Vec<u8> = "a\0b\0".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut record = EventRecord::new(HeaderType::Full64, &names);
    record.provider = "9b79ee91-b5fd-41c0-a243-4248e266e9d0".parse().ok();
    record.descriptor.opcode.0 = 35;
    record.order_time = file.header.start_raw + 15;
    file.push(0, &record).unwrap();
    let payload = 3u32.to_le_bytes();
    let mut record = EventRecord::new(HeaderType::Event64, &payload);
    record.provider = Some(PROVIDER);
    (record.descriptor.id, record.descriptor.version) = (7, 1);
    (record.process_id, record.thread_id) = (Some(10), Some(20));
    record.order_time = file.header.start_raw + 20;
    file.push(0, &record).unwrap();
    std::fs::write(folder.join("t.etl"), file.finish()).unwrap();
    let manifest = r#"<m><provider name="Maker" guid="{aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee}"><maps><valueMap name="V">
        <map value="3" message="three"/></valueMap></maps><templates><template tid="T">
        <data name="m" inType="win:UInt32" map="V"/></template></templates>
        <events><event value="7" version="1" template="T"/></events></provider></m>"#;
    let catalog = folder.join("packs");
    std::fs::create_dir_all(&catalog).unwrap();
    std::fs::write(folder.join("m.man"), manifest).unwrap();
    let run = |arguments: &[&str]| {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_etw"))
            .args(arguments)
            .current_dir(&folder)
            .env("ETW_PACKS", &catalog)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run(&["pack", "create", "-o", "packs/m.etwpack", "m.man"]);
    run(&["tracerpt", "t.etl", "-o", "t.xml", "-summary", "s.txt"]);
    run(&["tracerpt", "t.etl", "-o", "t.csv", "-of", "CSV"]);
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let (xml, csv, summary) = (read("t.xml"), read("t.csv"), read("s.txt"));
    std::fs::remove_dir_all(&folder).unwrap();
    let sample = xml.lines().find(|line| line.contains("SampleProf")).unwrap();
    for part in [
        "<EventName>PerfInfo</EventName><Opcode>SampleProf</Opcode>",
        r#"Guid="{9e814aad-3204-11d2-9a82-006008a86939}""#,
        r#"ProcessID="4294967295" ThreadID="4294967295""#,
        "<EventGuid>{ce1dbfb4-137e-4da6-87b0-3f59aa102cbc}</EventGuid>",
    ] {
        assert!(sample.contains(part), "{part}: {sample}");
    }
    let row = |start: &str| csv.lines().find(|line| line.starts_with(start)).unwrap();
    let zeros = "00000000-0000-0000-0000-000000000000";
    let sample = format!("PerfInfo,SampleProf,0,2,0,0,46,0,0x0000000000000000,,,0,,,{zeros},,");
    assert!(row("PerfInfo").starts_with(&sample), "{csv}");
    assert!(row("SysConfigEx,VolumeMapping,0,0,0,0,35").ends_with(",\"a\",\"b\""), "{csv}");
    assert!(row("Maker").ends_with(",\"three \""), "{csv}");
    let header: Vec<&str> = row("EventTrace,Header").split(',').collect();
    // 19 columns, then BufferSize to LogFileName, without the time zone, then BootTime.
    assert!(header[19 + 15].parse::<i64>().is_ok(), "{header:?}");
    let table = |titles: &[&str]| {
        let line = summary.lines().find(|line| titles.iter().all(|title| line.contains(title)));
        assert!(line.is_some(), "{titles:?}: {summary}");
    };
    table(&["Event Name", "Task", "Opcode", "Version", "Guid"]);
    table(&["Event Name", "Event ID", "Version", "Guid"]);
    table(&["PerfInfo", "SampleProf", "{ce1dbfb4-137e-4da6-87b0-3f59aa102cbc}"]);
    table(&["Maker", " 7 ", "{aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee}"]);
}

/// Every record of the corpus' small traces, in the three forms, against what `dump` says of it.
#[test]
fn tracerpt_of_the_corpus_agrees_with_dump() {
    let Some(corpus) = corpus() else { return };
    let folder = std::env::temp_dir().join(format!("etw-tracerpt-all-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let run = |arguments: &[&str], file: &Path| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_etw"));
        command.args(arguments).arg(file).current_dir(&folder);
        let output = command.env("ETW_PACKS", &folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (mut classic, mut without_process) = (0, 0);
    for entry in std::fs::read_dir(corpus.join("etl")).unwrap() {
        let path = entry.unwrap().path();
        if std::fs::metadata(&path).unwrap().len() > 2 << 20 {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let lines: Vec<Value> = run(&["dump", "--two-pass", "--format", "json"], &path)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        run(&["tracerpt", "-y", "-o", "t.xml", "-summary", "s.txt"], &path);
        run(&["tracerpt", "-y", "-of", "CSV", "-o", "t.csv"], &path);
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        let (xml, csv, summary) = (read("t.xml"), read("t.csv"), read("s.txt"));
        let xml: Vec<&str> = xml.lines().filter(|line| line.starts_with("<Event ")).collect();
        let csv = rows(&csv);
        assert_eq!((xml.len(), csv.len()), (lines.len(), lines.len() + 1), "{name}");
        for ((line, xml), csv) in lines.iter().zip(xml).zip(&csv[1..]) {
            let has = |part: String| assert!(xml.contains(&part), "{name}: {part}: {xml}");
            let number = |key: &str| line[key].as_u64();
            has(format!("<EventID>{}</EventID>", number("id").unwrap_or(0)));
            let ids = [number("pid"), number("tid")].map(|id| id.unwrap_or(u64::from(u32::MAX)));
            has(format!(r#"ProcessID="{}" ThreadID="{}""#, ids[0], ids[1]));
            without_process += u32::from(ids[0] == u64::from(u32::MAX));
            let header = line["header"].as_str().unwrap();
            if header.starts_with("EVENT") || header == "MESSAGE" {
                continue;
            }
            let Some((class, kind)) = line["event"].as_str().and_then(|name| name.split_once('/'))
            else {
                continue;
            };
            classic += 1;
            has(format!("<EventName>{class}</EventName><Opcode>{kind}</Opcode>"));
            has(format!("<EventGuid>{{{}}}</EventGuid>", line["provider"].as_str().unwrap()));
            has("Guid=\"{9e814aad-3204-11d2-9a82-006008a86939}\"".to_owned());
            let start = format!("{class},{kind},0,{},0,", number("version").unwrap_or(0));
            assert!(csv.starts_with(&start), "{name}: {start}: {csv}");
            let columns: Vec<&str> = csv.splitn(20, ',').collect();
            assert_eq!((columns[7], columns[8]), ("0", "0x0000000000000000"), "{name}: {csv}");
            assert_eq!(columns[14], "00000000-0000-0000-0000-000000000000", "{name}: {csv}");
        }
        // Rows of both tables: a count first.
        let counts = summary.lines().filter_map(|line| {
            line.strip_prefix('|')?.split_whitespace().next()?.parse::<usize>().ok()
        });
        assert_eq!(counts.sum::<usize>(), lines.len(), "{name}: {summary}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(classic > 100 && without_process > 1, "{classic} {without_process}");
}

/// The rows of a CSV file, whose quoted texts may have line ends.
fn rows(csv: &str) -> Vec<String> {
    let mut rows = vec![String::new()];
    for line in csv.split_inclusive('\n') {
        match rows.last_mut() {
            Some(last) if last.is_empty() || last.matches('"').count() % 2 == 1 => *last += line,
            _ => rows.push(line.to_owned()),
        }
    }
    rows
}
