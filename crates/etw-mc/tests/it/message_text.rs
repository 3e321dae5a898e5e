//! Message text files: headers, scripts and tables, and what is rejected where.

use etw_mc::message_text::{MessageText, Options};

const SHOP: &[u8] = include_bytes!("shop.mc");

fn entries(table: &[u8]) -> Vec<(u32, String)> {
    let word = |at: usize| u32::from_le_bytes(table[at..at + 4].try_into().unwrap());
    let mut found = Vec::new();
    for block in 0..word(0) as usize {
        let [low, high, mut at] = [0, 4, 8].map(|part| word(4 + 12 * block + part));
        for id in low..=high {
            let at_byte = at as usize;
            let size = u32::from(u16::from_le_bytes([table[at_byte], table[at_byte + 1]]));
            assert_eq!((&table[at_byte + 2..at_byte + 4], size % 4), (&[1u8, 0][..], 0));
            let text = &table[at_byte + 4..at_byte + size as usize];
            let units: Vec<u16> =
                text.chunks(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect();
            found.push((id, String::from_utf16(&units).unwrap().trim_end_matches('\0').to_owned()));
            at += size;
        }
    }
    found
}

#[test]
fn a_message_text_file_becomes_header_script_and_tables() {
    let file = MessageText::parse(SHOP).unwrap();
    let header = file.header(&Options::default());
    let lines: Vec<String> =
        header.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for expected in [
        "// The messages of the shop.",
        "#define FACILITY_SYSTEM 0x0",
        "#define FACILITY_SHOP 0x7",
        "#define STATUS_SEVERITY_ERROR 0x3",
        "// MessageId: MSG_BAD_COMMAND",
        "// You have chosen an incorrect command: %1",
        "#define MSG_BAD_COMMAND ((DWORD)0xC0070100L)",
        "#define BETWEEN 1",
        "#define MSG_NEXT ((DWORD)3221684481L)",
        "#define MSG_FAR ((DWORD)0x00000010L)",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}\n{header}");
    }
    let at = |text: &str| header.find(text).unwrap();
    assert!(at("MSG_BAD_COMMAND ") < at("BETWEEN") && at("BETWEEN") < at("MSG_NEXT "));
    let languages: Vec<_> = file.languages().collect();
    assert_eq!(languages.iter().map(|one| one.id).collect::<Vec<_>>(), [0x409, 0x407]);
    assert_eq!(
        file.script(|language| format!("{}.bin", language.file)),
        "LANGUAGE 0x9,0x1\r\n1 11 \"MSG00409.bin\"\r\nLANGUAGE 0x7,0x1\r\n1 11 \"MSG00407.bin\"\r\n"
    );
    let english = [
        (0x10, "Far\r\n".to_owned()),
        (
            0xc007_0100,
            "You have chosen an incorrect command: %1\r\nTry another one.\r\n".to_owned(),
        ),
        (0xc007_0101, "Next\r\n".to_owned()),
    ];
    assert_eq!(entries(&file.table(languages[0], &Options::default())), english);
    // The last message has no German text, which is a warning.
    assert_eq!(entries(&file.table(languages[1], &Options::default())).len(), 2);
    assert_eq!(file.warnings.len(), 1, "{:?}", file.warnings);
    assert!(
        file.warnings[0]
            .to_string()
            .starts_with("28:1: warning: the message has no text in German")
    );

    let mut options = Options::default();
    (options.is_customer, options.has_decimal_names, options.ends_with_nul) = (true, true, true);
    let header = file.header(&options);
    assert!(
        header.contains("0xE0070100L") && header.contains("FACILITY_SHOP                    7\r\n"),
        "{header}"
    );
    assert_eq!(entries(&file.table(languages[0], &options))[2], (0xe007_0101, "Next".to_owned()));

    // UTF-16 and Windows-1252 give the same.
    let text = std::str::from_utf8(SHOP).unwrap();
    let wide: Vec<u8> =
        [0xfeff].into_iter().chain(text.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    let narrow: Vec<u8> = text.chars().map(|one| one as u8).collect();
    for bytes in [wide, narrow] {
        let other = MessageText::parse(&bytes).unwrap();
        let table = other.table(languages[1], &Options::default());
        assert_eq!(table, file.table(languages[1], &Options::default()));
    }
}

/// Microsoft's default: English, and no facility.
#[test]
fn a_file_without_a_header_section_has_the_defaults() {
    let file =
        MessageText::parse(b"MessageId=0\nSymbolicName=EVENT_MSG\nLanguage=English\n%1\n.\n")
            .unwrap();
    assert!(file.header(&Options::default()).contains(" 0x00000000L\r\n"));
    let script = file.script(|language| language.file.clone());
    assert_eq!(script, "LANGUAGE 0x9,0x1\r\n1 11 \"MSG00001\"\r\n");
    let language = file.languages().next().unwrap();
    assert_eq!(entries(&file.table(language, &Options::default())), [(0, "%1\r\n".to_owned())]);
}

/// An entry of a message table states its size in 16 bits.
#[test]
fn the_longest_text_fits_and_longer_ones_are_reported() {
    let file = |length: usize| {
        let text = "x".repeat(length - 3);
        let text = format!("MessageId=1\nLanguage=English\na\n{text}\n.\n");
        MessageText::parse(text.as_bytes())
    };
    let longest = file(32_761).unwrap();
    let language = longest.languages().next().unwrap();
    let table = longest.table(language, &Options::default());
    assert_eq!(entries(&table)[0].1.len(), 32_763);
    let problems = file(32_762).unwrap_err();
    let expected = "2:1: error: the text has more than the 32761 characters of a message";
    assert_eq!(problems[0].to_string(), expected);
    assert_eq!(longest.longer_than(32_761), []);
    let warnings = longest.longer_than(32_760);
    let expected = "2:1: warning: the text has 32761 characters, more than 32760";
    assert_eq!(warnings[0].to_string(), expected);
    assert_eq!(warnings.len(), 1);
}

#[test]
fn mistakes_are_reported_at_their_line() {
    for (text, line, expected) in [
        ("MessageId=1\nLanguage=English\nno end", 2, "has no end"),
        ("MessageId=1\nLanguage=French\nx\n.\n", 2, "\"French\" is not in LanguageNames"),
        ("MessageId=1\n\nMessageId=2\nLanguage=English\nx\n.\n", 1, "has no text"),
        ("MessageId=70000\nLanguage=English\nx\n.\n", 1, "16 bits"),
        ("Severity=Fatal", 1, "not among Success, Informational, Warning, Error"),
        ("SeverityNames=(Fatal=4)", 1, "at most 0x3"),
        ("FacilityNames=(A=1", 1, "not closed"),
        ("LanguageNames=(X=1:../x)", 1, "not a file name"),
        ("MessageId=1 SymbolicName=a-b\nLanguage=English\nx\n.\n", 1, "not a name in C"),
        (
            "MessageId=1 SymbolicName=A\nLanguage=English\nx\n.\nMessageId=2 SymbolicName=A\nLanguage=English\nx\n.\n",
            5,
            "two messages have SymbolicName=A",
        ),
        (
            "MessageId=1\nLanguage=English\nx\n.\nMessageId=1\nLanguage=English\nx\n.\n",
            5,
            "two messages have id",
        ),
        ("some text", 1, "is not a statement"),
        ("Colour=red", 1, "is not a statement"),
    ] {
        let problems = MessageText::parse(text.as_bytes()).unwrap_err();
        let found = problems.iter().any(|one| one.line == line && one.message.contains(expected));
        assert!(found, "{text:?}: {problems:?}");
    }
}
