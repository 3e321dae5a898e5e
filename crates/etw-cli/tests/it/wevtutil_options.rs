//! `wevtutil`: each option of each action, by its short and its long name, in any case, with the output that it changes.

use crate::event_log;
use crate::log_settings::Home;

/// A command, its status, and texts that its output has; a text with `!` in front must be missing.
struct Row(&'static str, i32, &'static [&'static str]);

/// Options of queries, on a log with two records.
const QUERIES: &[Row] = &[
    Row("qe Shop/Operational", 0, &["<Data>drawer open</Data>", "<Data>drawer closed</Data>"]),
    Row("query-events Shop/Operational /c:1", 0, &["drawer open", "!drawer closed"]),
    Row("qe Shop/Operational /Count:1", 0, &["drawer open", "!drawer closed"]),
    Row("qe Shop/Operational /c:1 /rd:true", 0, &["drawer closed", "!drawer open"]),
    Row("qe Shop/Operational /c:1 /ReverseDirection:TRUE", 0, &["drawer closed", "!drawer open"]),
    Row("qe Shop/Operational /c:1 /rd:false", 0, &["drawer open", "!drawer closed"]),
    Row(
        "qe Shop/Operational /f:text",
        0,
        &["Event[0]:\n  Log Name: ", "Event[1]:\n", "  Description:\n"],
    ),
    Row("qe Shop/Operational /Format:Text /c:1", 0, &["Event[0]:\n", "!Event[1]:"]),
    Row("qe Shop/Operational /f:XML", 0, &["<Event xmlns=", "!RenderingInfo"]),
    Row("qe Shop/Operational /f:RenderedXml", 0, &["<RenderingInfo Culture="]),
    Row("qe Shop/Operational /f:json", 2, &[]),
    Row("qe Shop/Operational /q:*[System[EventRecordID=2]]", 0, &["drawer closed", "!drawer open"]),
    Row(
        "qe Shop/Operational /query:*[System[EventRecordID=1]]",
        0,
        &["drawer open", "!drawer closed"],
    ),
    Row("qe Shop/Operational /q:*[System[EventRecordID=]]", 2, &[]),
    Row("qe Shop/Operational /e:Root", 0, &["<Root>\n<Event", "</Event>\n</Root>\n"]),
    Row("qe Shop/Operational /Element:Root /c:1", 0, &["<Root>\n<Event", "</Root>\n"]),
    Row("qe copy.evtx /lf:true", 0, &["drawer open", "drawer closed"]),
    Row("qe copy.evtx /LogFile:true /c:1", 0, &["drawer open", "!drawer closed"]),
    // A name that is a file is one, without the option, too.
    Row("qe copy.evtx /lf:false", 0, &["drawer open", "drawer closed"]),
    Row("qe missing.evtx /lf:true", 3, &[]),
    Row("qe list.xml /sq:true", 0, &["drawer closed", "!drawer open"]),
    Row("qe list.xml /StructuredQuery:true", 0, &["drawer closed", "!drawer open"]),
    Row("qe Shop/Operational /c:1 /sbm:mark.xml", 0, &["drawer open"]),
    Row("qe Shop/Operational /bm:mark.xml", 0, &["drawer closed", "!drawer open"]),
    Row("qe Shop/Operational /c:1 /SaveBookmark:second.xml", 0, &["drawer open"]),
    Row("qe Shop/Operational /Bookmark:second.xml", 0, &["drawer closed", "!drawer open"]),
    Row("qe Shop/Operational /l:en-US /c:1", 0, &["drawer open"]),
    Row("qe Shop/Operational /Locale:en-US /c:1", 0, &["drawer open"]),
    Row("qe Shop/Operational /uni:true /c:1", 0, &["drawer open"]),
    Row("qe Shop/Operational /Unicode:true /c:1", 0, &["drawer open"]),
    Row("qe Shop/Operational -c:1", 0, &["drawer open", "!drawer closed"]),
    Row("qe", 2, &[]),
    Row("qe Nobody", 3, &[]),
    Row(
        "gli Shop/Operational",
        0,
        &[
            "creationTime: 2",
            "lastAccessTime: 2",
            "lastWriteTime: 2",
            "fileSize: ",
            "attributes: 32\n",
            "numberOfLogRecords: 2\noldestRecordNumber: 1\n",
        ],
    ),
    Row("get-loginfo copy.evtx /lf:true", 0, &["numberOfLogRecords: 2\n"]),
    Row("epl Shop/Operational out.evtx", 0, &["!Event"]),
    Row("epl Shop/Operational out.evtx", 3, &[]),
    Row("export-log Shop/Operational out.evtx /ow:true /q:*[System[EventRecordID=2]]", 0, &[]),
    Row("gli out.evtx /lf:true", 0, &["numberOfLogRecords: 1\n"]),
    Row("epl copy.evtx out.evtx /lf:true /Overwrite:true", 0, &[]),
    Row("gli out.evtx /lf:true", 0, &["numberOfLogRecords: 2\n"]),
    Row("epl list.xml out.evtx /sq:true", 3, &[]),
    Row("epl list.xml out.evtx /sq:true /ow:true", 0, &[]),
    Row("qe out.evtx /lf:true", 0, &["drawer closed", "!drawer open"]),
    Row("epl several.xml out.evtx /StructuredQuery:true /ow:true", 0, &[]),
    Row("qe out.evtx /lf:true", 0, &["drawer open", "drawer closed"]),
    Row("gli out.evtx /lf:true", 0, &["numberOfLogRecords: 3\n"]),
    // Nothing was written to Application yet.
    Row(
        "gli Application",
        0,
        &[
            "creationTime: \nlastAccessTime: \nlastWriteTime: \nfileSize: 0\nattributes: 32\nnumberOfLogRecords: 0\noldestRecordNumber: 0\n",
        ],
    ),
    Row("gli Nobody", 3, &[]),
    Row("cl Application", 0, &["!Event"]),
    Row("cl Application /bu:cleared.evtx", 0, &["!Event"]),
    Row("gli cleared.evtx /lf:true", 0, &["numberOfLogRecords: 0\n"]),
    Row("cl Application /bu:cleared.evtx", 3, &[]),
    Row("cl Nobody", 3, &[]),
    Row("epl Application empty.evtx", 0, &[]),
    Row("gli empty.evtx /lf:true", 0, &["numberOfLogRecords: 0\n"]),
    Row("epl broken.xml out.evtx /sq:true /ow:true", 2, &[]),
    Row("gli list.xml /sq:true", 2, &[]),
    Row("al copy.evtx", 0, &[]),
    Row("archive-log copy.evtx /l:de-DE", 0, &[]),
    Row("al copy.evtx /Locale:../x", 2, &[]),
    Row("al missing.evtx", 3, &[]),
    Row("al", 2, &[]),
    Row("qe Shop/Operational /r:other", 2, &[]),
    Row("qe Shop/Operational /Remote:localhost /c:1", 0, &["drawer open"]),
    Row("qe Shop/Operational /u:somebody", 2, &[]),
    Row("qe Shop/Operational /UserName:somebody", 2, &[]),
    Row("qe Shop/Operational /p:secret", 2, &[]),
    Row("qe Shop/Operational /Password:secret", 2, &[]),
    Row("qe Shop/Operational /a:Kerberos /c:1", 0, &["drawer open"]),
    Row("qe Shop/Operational /Authentication:Basic", 2, &[]),
    Row("qe Shop/Operational /nonsense:1", 2, &[]),
];

/// Options of the registry of logs.
const SETTINGS: &[Row] = &[
    Row("el", 0, &["Application\nShop/Debug\nShop/Operational\nSystem\n"]),
    Row("enum-logs", 0, &["Shop/Debug\n"]),
    Row("el Application", 2, &[]),
    Row(
        "gl Shop/Operational",
        0,
        &[
            "name: Shop/Operational\nenabled: true\ntype: Operational\nowningPublisher: Shop\nisolation: Application\nchannelAccess: O:",
        ],
    ),
    Row("get-log Shop/Operational /f:xml", 0, &["<channel ", "<maxSize>1052672</maxSize>"]),
    Row(
        "gl Shop/Operational /Format:text",
        0,
        &["logging:\n  logFileName: ", "  retention: false\n  autoBackup: false\n"],
    ),
    Row("gl Shop/Operational /f:json", 2, &[]),
    Row("sl Shop/Operational /e:false", 0, &[]),
    Row("gl Shop/Operational", 0, &["enabled: false\n"]),
    Row("set-log Shop/Operational /Enabled:true", 0, &[]),
    Row("gl Shop/Operational", 0, &["enabled: true\n"]),
    Row("sl Shop/Operational /ms:4194304", 0, &[]),
    Row("gl Shop/Operational", 0, &["  maxSize: 4194304\n"]),
    Row("sl Shop/Operational /MaxSize:2097152", 0, &[]),
    Row("gl Shop/Operational", 0, &["  maxSize: 2097152\n"]),
    Row("sl Shop/Operational /ms:many", 2, &[]),
    Row("sl Shop/Operational /ab:true", 2, &[]),
    Row("sl Shop/Operational /rt:true /ab:true", 0, &[]),
    Row("gl Shop/Operational", 0, &["  retention: true\n  autoBackup: true\n"]),
    Row("sl Shop/Operational /AutoBackup:false", 0, &[]),
    Row("sl Shop/Operational /Retention:false", 0, &[]),
    Row("gl Shop/Operational", 0, &["  retention: false\n  autoBackup: false\n"]),
    Row("sl Shop/Operational /l:3", 0, &[]),
    Row("gl Shop/Operational", 0, &["  level: 3\n"]),
    Row("sl Shop/Operational /Level:2 /Keywords:0x10", 0, &[]),
    Row("gl Shop/Operational", 0, &["  level: 2\n", "  keywords: 0x10\n"]),
    Row("sl Shop/Operational /k:0 /l:0", 0, &[]),
    Row("sl Shop/Operational /l:256", 2, &[]),
    Row("sl Shop/Operational /ca:O:BAG:SYD:(A;;0x7;;;BA)", 0, &[]),
    Row("gl Shop/Operational", 0, &["channelAccess: O:BAG:SYD:(A;;0x7;;;BA)\n"]),
    Row("sl Shop/Operational /ChannelAccess:O:BAG:SYD:(A;;0x1;;;BA)", 0, &[]),
    Row("gl Shop/Operational", 0, &["channelAccess: O:BAG:SYD:(A;;0x1;;;BA)\n"]),
    Row("sl Shop/Operational /ca:everybody", 2, &[]),
    Row("sl Shop/Operational /i:System", 0, &[]),
    Row("gl Shop/Operational", 0, &["isolation: System\n", "(A;;0x1;;;IU)"]),
    Row("sl Shop/Operational /Isolation:Custom", 2, &[]),
    Row("sl Shop/Operational /i:custom /ca:O:BAG:SYD:(A;;0x7;;;BA)", 0, &[]),
    Row(
        "gl Shop/Operational",
        0,
        &["isolation: Custom\n", "channelAccess: O:BAG:SYD:(A;;0x7;;;BA)\n"],
    ),
    Row("sl Shop/Operational /i:nobody", 2, &[]),
    Row("sl Shop/Operational /i:Application /r:other", 2, &[]),
    Row("sl Shop/Operational /i:Application /r:.", 0, &[]),
    Row("gl Shop/Operational", 0, &["isolation: Application\n", "(A;;0x3;;;IU)"]),
    Row("sl Shop/Operational /lfn:relative.evtx", 2, &[]),
    Row("sl Shop/Operational", 2, &[]),
    Row("sl Nobody /e:true", 3, &[]),
    Row("ep", 0, &["Shop\n"]),
    Row("enum-publishers", 0, &["Shop\n"]),
    Row("gp Shop", 0, &["name: Shop\n", "!    value: 1\n"]),
    Row("gp Shop /ge:true", 0, &["    value: 1\n"]),
    Row("get-publisher Shop /GetEvents:true /GetMessage:true", 0, &["    value: 1\n"]),
    Row("gp Shop /ge:true /gm:true", 0, &["    value: 1\n"]),
    Row("gp Nobody", 3, &[]),
    Row("cl Shop/Operational /bu:backup.evtx", 0, &[]),
    Row("gli backup.evtx /lf:true", 0, &["numberOfLogRecords: 2\n"]),
    Row("gli Shop/Operational", 0, &["numberOfLogRecords: 0\n"]),
    Row("clear-log Shop/Operational /Backup:backup.evtx", 3, &[]),
    Row("um shop.man", 0, &[]),
    Row("el", 0, &["Application\nSystem\n", "!Shop"]),
    Row(
        "install-manifest shop.man /ResourceFilePath:x /MessageFilePath:x /ParameterFilePath:x",
        0,
        &[],
    ),
    Row("el", 0, &["Shop/Operational\n"]),
    Row("uninstall-manifest shop.man", 0, &[]),
];

fn check(home: &Home, rows: &[Row]) {
    let mut problems = Vec::new();
    for Row(command, status, texts) in rows {
        let words: Vec<&str> = ["wevtutil"].into_iter().chain(command.split(' ')).collect();
        let output = home.run(&words);
        let text = String::from_utf8_lossy(&output.stdout);
        let is_right = |wanted: &&str| match wanted.strip_prefix('!') {
            Some(unwanted) => !text.contains(unwanted),
            None => text.contains(*wanted),
        };
        if output.status.code() != Some(*status) || !texts.iter().all(is_right) {
            let said = String::from_utf8_lossy(&output.stderr);
            problems.push(format!("{command}: {:?}\n{text}{said}", output.status.code()));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// OV-22
#[test]
fn each_option_of_wevtutil_has_its_effect() {
    let home = Home::new("options");
    home.does(&["wevtutil", "im", "shop.man", "/rf:x.dll", "/mf:x.dll", "/pf:x.dll"]);
    let lines = "<3>Nov 22 10:00:00 till shop[12]: drawer open\n<6>Nov 22 10:00:01 till shop[12]: drawer closed\n";
    std::fs::write(home.file("lines"), lines).unwrap();
    let file = home.log("Shop/Operational")["file"].as_str().unwrap().to_owned();
    std::fs::create_dir_all(std::path::Path::new(&file).parent().unwrap()).unwrap();
    home.does(&["log", "import", "syslog", "lines", "-o", &file]);
    std::fs::copy(&file, home.file("copy.evtx")).unwrap();
    let list = "<QueryList><Query Path='file://copy.evtx'><Select>*[System[EventRecordID=2]]</Select></Query></QueryList>";
    std::fs::write(home.file("list.xml"), list).unwrap();
    let several = "<QueryList><Query Id='0'><Select Path='file://copy.evtx'>*</Select>\
                   <Select Path='file://second.evtx'>*[System[EventRecordID=1]]</Select></Query></QueryList>";
    std::fs::write(home.file("several.xml"), several).unwrap();
    std::fs::write(home.file("broken.xml"), "<QueryList><Query>").unwrap();
    std::fs::copy(&file, home.file("second.evtx")).unwrap();
    check(&home, QUERIES);
    check(&home, SETTINGS);
    // A file of settings is read as gl prints it, and a log's file may be anywhere.
    home.does(&["wevtutil", "im", "shop.man"]);
    let other = home.file("other.evtx").display().to_string();
    home.does(&["wevtutil", "sl", "Shop/Operational", &format!("/lfn:{other}"), "/ms:3145728"]);
    let xml = home.does(&["wevtutil", "gl", "Shop/Operational", "/f:xml"]);
    assert!(xml.contains(&other), "{xml}");
    std::fs::write(home.file("settings.xml"), &xml).unwrap();
    home.does(&["log", "set", "Shop/Operational", "--reset"]);
    home.does(&["wevtutil", "sl", "/Config:settings.xml"]);
    assert_eq!(home.does(&["wevtutil", "gl", "Shop/Operational", "/f:xml"]), xml);
}

/// OV-22: a log that was archived shows its messages where its publisher is not installed.
#[test]
fn an_archived_log_has_the_texts_of_its_publishers() {
    let home = Home::new("archive");
    let manifest = event_log::manifest_with_messages();
    std::fs::write(home.file("sold.man"), manifest).unwrap();
    home.does(&["wevtutil", "im", "sold.man"]);
    event_log::log_with_messages(&home.file("sold.evtx"));
    home.does(&["wevtutil", "al", "sold.evtx"]);
    home.does(&["wevtutil", "um", "sold.man"]);
    let text = || home.does(&["wevtutil", "qe", "sold.evtx", "/lf:true", "/f:text"]);
    assert!(text().contains("tea was sold."), "{}", text());
    std::fs::remove_dir_all(home.file("LocaleMetaData")).unwrap();
    assert!(!text().contains("tea was sold."), "{}", text());
}
