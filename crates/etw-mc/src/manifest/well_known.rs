//! Names that every manifest may use: those of Microsoft's `winmeta.xml`.
//!
//! Values: the documentation of the manifest's schema. Texts: seen in message tables that `mc` made for `win:Error`,
//! `win:Warning`, `win:Informational`, `win:Info`, `win:Start`, `win:Stop` and the imported channels; the others are
//! those that the Event Viewer shows (guess: that `mc` writes the same).

/// Levels: name, value, text.
pub const LEVELS: [(&str, u8, &str); 6] = [
    ("win:LogAlways", 0, "Log Always"),
    ("win:Critical", 1, "Critical"),
    ("win:Error", 2, "Error"),
    ("win:Warning", 3, "Warning"),
    ("win:Informational", 4, "Information"),
    ("win:Verbose", 5, "Verbose"),
];

/// Opcodes: name, value, text.
pub const OPCODES: [(&str, u8, &str); 11] = [
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

/// Tasks: name, value, text.
pub const TASKS: [(&str, u16, &str); 1] = [("win:None", 0, "None")];

/// Keywords: name, bit, text.
pub const KEYWORDS: [(&str, u8, &str); 8] = [
    ("win:ResponseTime", 48, "Response Time"),
    ("win:WDIContext", 49, "WDI Context"),
    ("win:WDIDiag", 50, "WDI Diag"),
    ("win:SQM", 51, "SQM"),
    ("win:AuditFailure", 52, "Audit Failure"),
    ("win:AuditSuccess", 53, "Audit Success"),
    ("win:CorrelationHint", 54, "Correlation Hint"),
    ("win:EventlogClassic", 55, "Classic"),
];

/// Channels that can be imported, and used without being imported: name, value. Their texts are their names.
pub const CHANNELS: [(&str, u8); 6] = [
    ("TraceClassic", 0),
    ("System", 8),
    ("Application", 9),
    ("Security", 10),
    ("TraceLogging", 11),
    ("ProviderMetadata", 12),
];
