//! The names by which xperf asks for call stacks, and the kernel events that they name.

use std::fmt;

/// A name and its hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackName {
    /// xperf's name.
    pub name: &'static str,
    /// The kernel event.
    pub hook: u16,
    /// Whether this crate records stacks of that event.
    pub is_recorded: bool,
}

const fn row(name: &'static str, hook: u16, is_recorded: bool) -> StackName {
    StackName { name, hook, is_recorded }
}

/// All names.
pub const STACK_NAMES: &[StackName] = &[
    row("Profile", 0x0f2e, true),
    row("CSwitch", 0x0524, true),
    row("ReadyThread", 0x0532, true),
    row("SyscallEnter", 0x0f33, true),
    row("SyscallExit", 0x0f34, true),
    row("HardFault", 0x0220, true),
    row("PagefaultDemandZero", 0x020b, true),
    row("PagefaultCopyOnWrite", 0x020c, true),
    row("PagefaultTransition", 0x020a, true),
    row("DiskReadInit", 0x010c, true),
    row("DiskWriteInit", 0x010d, true),
    row("DiskFlushInit", 0x010f, true),
    row("VirtualAlloc", 0x0262, true),
    row("VirtualFree", 0x0263, true),
    row("ProcessCreate", 0x0301, false),
    row("ProcessDelete", 0x0302, false),
    row("ThreadCreate", 0x0501, false),
    row("ThreadDelete", 0x0502, false),
    row("ImageLoad", 0x030a, false),
    row("ImageUnload", 0x1402, false),
    row("ThreadSetPriority", 0x0530, true),
    row("FileCreate", 0x0440, true),
    row("FileRead", 0x0443, true),
    row("FileWrite", 0x0444, true),
    row("FileClose", 0x0442, true),
    row("FileDelete", 0x0446, true),
    row("FileRename", 0x0447, true),
    row("FileFlush", 0x0449, true),
    row("MapFile", 0x0425, true),
    row("UnMapFile", 0x0426, true),
];

/// A name that has no stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackNameError {
    /// The name is not known.
    Unknown(String),
    /// The stacks of that event are not recorded on Linux.
    NotRecorded(String),
}

impl fmt::Display for StackNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StackNameError::Unknown(name) => {
                let known = STACK_NAMES.iter().filter(|row| row.is_recorded);
                let known: Vec<&str> = known.map(|row| row.name).collect();
                write!(f, "{name}: no event with call stacks; use {}", known.join(", "))
            }
            StackNameError::NotRecorded(name) => {
                write!(f, "{name}: openetw records no call stacks of this event on Linux")
            }
        }
    }
}

impl std::error::Error for StackNameError {}

/// The hooks of names that are joined by `+` or commas. Case does not matter.
///
/// # Errors
/// [`StackNameError`].
pub fn parse(text: &str) -> Result<Vec<u16>, StackNameError> {
    let words = text.split(['+', ',']).map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| match STACK_NAMES.iter().find(|row| row.name.eq_ignore_ascii_case(word)) {
            None => Err(StackNameError::Unknown(word.to_owned())),
            Some(row) if !row.is_recorded => Err(StackNameError::NotRecorded(row.name.to_owned())),
            Some(row) => Ok(row.hook),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_hooks_and_others_are_refused_by_name() {
        assert_eq!(parse("Profile+cswitch"), Ok(vec![0x0f2e, 0x0524]));
        let refused = StackNameError::NotRecorded("ImageLoad".to_owned());
        assert_eq!(parse("ImageLoad"), Err(refused));
        assert!(parse("Nothing").unwrap_err().to_string().contains("ReadyThread"));
    }
}
