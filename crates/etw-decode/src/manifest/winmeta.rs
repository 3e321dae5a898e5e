//! Levels, opcodes, keywords and channels that every manifest can use without declaring them: the values and texts of `winmeta.xml`, as Microsoft documents them.

/// Levels: name, value, text.
const LEVELS: &[(&str, u8, &str)] = &[
    ("win:LogAlways", 0, "Log Always"),
    // PerfView's regenerated manifests have this name.
    ("win:Always", 0, "Log Always"),
    ("win:Critical", 1, "Critical"),
    ("win:Error", 2, "Error"),
    ("win:Warning", 3, "Warning"),
    ("win:Informational", 4, "Information"),
    ("win:Verbose", 5, "Verbose"),
];

/// Opcodes: name, value, text.
const OPCODES: &[(&str, u8, &str)] = &[
    ("win:Info", 0, "Info"),
    ("win:Start", 1, "Start"),
    ("win:Stop", 2, "Stop"),
    ("win:DC_Start", 3, "DCStart"),
    ("win:DC_Stop", 4, "DCStop"),
    ("win:Extension", 5, "Extension"),
    ("win:Reply", 6, "Reply"),
    ("win:Resume", 7, "Resume"),
    ("win:Suspend", 8, "Suspend"),
    ("win:Send", 9, "Send"),
    ("win:Receive", 240, "Receive"),
];

const KEYWORDS: &[(&str, u64)] = &[
    ("win:AnyKeyword", 0),
    ("win:ResponseTime", 0x0001_0000_0000_0000),
    ("win:WDIContext", 0x0002_0000_0000_0000),
    ("win:WDIDiag", 0x0004_0000_0000_0000),
    ("win:SQM", 0x0008_0000_0000_0000),
    ("win:AuditFailure", 0x0010_0000_0000_0000),
    ("win:AuditSuccess", 0x0020_0000_0000_0000),
    ("win:CorrelationHint", 0x0040_0000_0000_0000),
    ("win:EventlogClassic", 0x0080_0000_0000_0000),
];

const CHANNELS: &[(&str, u8)] = &[
    ("TraceClassic", 0),
    ("System", 8),
    ("Application", 9),
    ("Security", 10),
    ("TraceLogging", 11),
    ("ProviderMetadata", 12),
];

fn find<'t>(table: &'t [(&str, u8, &str)], name: &str) -> Option<(u8, &'t str)> {
    table.iter().find(|(known, ..)| *known == name).map(|(_, value, text)| (*value, *text))
}

/// Value and text of a level.
pub(super) fn level(name: &str) -> Option<(u8, &'static str)> {
    find(LEVELS, name)
}

/// Value and text of an opcode.
pub(super) fn opcode(name: &str) -> Option<(u8, &'static str)> {
    find(OPCODES, name)
}

pub(super) fn keyword(name: &str) -> Option<u64> {
    KEYWORDS.iter().find(|(known, _)| *known == name).map(|(_, mask)| *mask)
}

pub(super) fn channel(name: &str) -> Option<u8> {
    CHANNELS.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}
