//! Levels, opcodes, tasks, keywords and channels that every manifest can use without declaring them: `winmeta.xml`.
//!
//! Values: Microsoft's documentation of the manifest's schema. Texts: seen in message tables that `mc` made for `win:Error`,
//! `win:Warning`, `win:Informational`, `win:Info`, `win:Start`, `win:Stop` and the imported channels; the others are
//! those that the Event Viewer shows (guess: that `mc` writes the same).

use crate::{Channel, Keyword, Level, Opcode};

/// A name that every manifest can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predefined<T> {
    /// As manifests write it: `win:Error`.
    pub name: &'static str,
    /// The value in descriptors.
    pub value: T,
    /// The text that tools show.
    pub text: &'static str,
}

const fn row<T: Copy>(name: &'static str, value: T, text: &'static str) -> Predefined<T> {
    Predefined { name, value, text }
}

/// The levels.
pub const LEVELS: [Predefined<Level>; 6] = [
    row("win:LogAlways", Level(0), "Log Always"),
    row("win:Critical", Level(1), "Critical"),
    row("win:Error", Level(2), "Error"),
    row("win:Warning", Level(3), "Warning"),
    row("win:Informational", Level(4), "Information"),
    row("win:Verbose", Level(5), "Verbose"),
];

/// The opcodes.
pub const OPCODES: [Predefined<Opcode>; 11] = [
    row("win:Info", Opcode(0), "Info"),
    row("win:Start", Opcode(1), "Start"),
    row("win:Stop", Opcode(2), "Stop"),
    row("win:DC_Start", Opcode(3), "DCStart"),
    row("win:DC_Stop", Opcode(4), "DCStop"),
    row("win:Extension", Opcode(5), "Extension"),
    row("win:Reply", Opcode(6), "Reply"),
    row("win:Resume", Opcode(7), "Resume"),
    row("win:Suspend", Opcode(8), "Suspend"),
    row("win:Send", Opcode(9), "Send"),
    row("win:Receive", Opcode(240), "Receive"),
];

/// The tasks.
pub const TASKS: [Predefined<u16>; 1] = [row("win:None", 0, "None")];

/// The keywords.
pub const KEYWORDS: [Predefined<Keyword>; 8] = [
    row("win:ResponseTime", Keyword(1 << 48), "Response Time"),
    row("win:WDIContext", Keyword(1 << 49), "WDI Context"),
    row("win:WDIDiag", Keyword(1 << 50), "WDI Diag"),
    row("win:SQM", Keyword(1 << 51), "SQM"),
    row("win:AuditFailure", Keyword(1 << 52), "Audit Failure"),
    row("win:AuditSuccess", Keyword(1 << 53), "Audit Success"),
    row("win:CorrelationHint", Keyword(1 << 54), "Correlation Hint"),
    row("win:EventlogClassic", Keyword(1 << 55), "Classic"),
];

/// Channels that a manifest can import, or use without importing them.
pub const CHANNELS: [Predefined<Channel>; 6] = [
    row("TraceClassic", Channel(0), "TraceClassic"),
    row("System", Channel(8), "System"),
    row("Application", Channel(9), "Application"),
    row("Security", Channel(10), "Security"),
    row("TraceLogging", Channel(11), "TraceLogging"),
    row("ProviderMetadata", Channel(12), "ProviderMetadata"),
];

/// The row of a name.
pub fn find<T: Copy>(table: &[Predefined<T>], name: &str) -> Option<Predefined<T>> {
    table.iter().copied().find(|row| row.name == name)
}
