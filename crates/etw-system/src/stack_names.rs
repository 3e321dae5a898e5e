//! The names by which xperf asks for call stacks, and the kernel events that they name.

use std::fmt;

use crate::flags::{Flag, Masks};

/// A name and its hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackName {
    /// xperf's name.
    pub name: &'static str,
    /// The kernel event.
    pub hook: u16,
    /// The class that records that event.
    pub class: Flag,
}

const fn row(name: &'static str, hook: u16, class: Flag) -> StackName {
    StackName { name, hook, class }
}

/// All names.
pub const STACK_NAMES: &[StackName] = &[
    row("Profile", 0x0f2e, Flag::PROFILE),
    row("CSwitch", 0x0524, Flag::SWITCH),
    row("ReadyThread", 0x0532, Flag::READY),
    row("SyscallEnter", 0x0f33, Flag::SYSCALL),
    row("SyscallExit", 0x0f34, Flag::SYSCALL),
    row("HardFault", 0x0220, Flag::HARD_FAULTS),
    row("PagefaultDemandZero", 0x020b, Flag::ALL_FAULTS),
    row("PagefaultCopyOnWrite", 0x020c, Flag::ALL_FAULTS),
    row("PagefaultTransition", 0x020a, Flag::ALL_FAULTS),
    row("DiskReadInit", 0x010c, Flag::DISK_INIT),
    row("DiskWriteInit", 0x010d, Flag::DISK_INIT),
    row("DiskFlushInit", 0x010f, Flag::DISK_INIT),
    row("VirtualAlloc", 0x0262, Flag::VIRTUAL_ALLOC),
    row("VirtualFree", 0x0263, Flag::VIRTUAL_ALLOC),
    row("ProcessCreate", 0x0301, Flag::PROCESS),
    row("ProcessDelete", 0x0302, Flag::PROCESS),
    row("ThreadCreate", 0x0501, Flag::THREAD),
    row("ThreadDelete", 0x0502, Flag::THREAD),
    row("ImageLoad", 0x030a, Flag::IMAGE),
    row("ImageUnload", 0x1402, Flag::IMAGE),
    row("ThreadSetPriority", 0x0530, Flag::PRIORITY),
    row("FileCreate", 0x0440, Flag::FILE_IO_INIT),
    row("FileRead", 0x0443, Flag::FILE_IO_INIT),
    row("FileWrite", 0x0444, Flag::FILE_IO_INIT),
    row("FileClose", 0x0442, Flag::FILE_IO_INIT),
    row("FileDelete", 0x0446, Flag::FILE_IO_INIT),
    row("FileRename", 0x0447, Flag::FILE_IO_INIT),
    row("FileFlush", 0x0449, Flag::FILE_IO_INIT),
    row("MapFile", 0x0425, Flag::MAP_FILE),
    row("UnMapFile", 0x0426, Flag::MAP_FILE),
];

/// Names of xperf and of recording profiles whose events have no call stacks here.
const WINDOWS_NAMES: &str = "AlpcClosePort AlpcConnectFail AlpcConnectRequest AlpcConnectSuccess AlpcReceiveMessage AlpcSendMessage \
    AlpcUnwait AlpcWaitForNewMessage AlpcWaitForReply CacheFlush CcCanIWriteFail CcFlushCache CcFlushSection \
    CcLazyWriteScan CcReadAhead CcWorkitemComplete CcWorkitemDequeue CcWorkitemEnqueue CcWriteBehind \
    ContiguousMemoryGeneration CritSecCollision DpcEnqueue DpcExecute ExecutiveResource FileCleanup FileDirEnum \
    FileDirNotify FileFSCTL FileOpEnd FileQueryInformation FileSetInformation HandleClose HandleCreate \
    HandleDuplicate HeapAlloc HeapAllocation HeapCreate HeapDestroy HeapFree HeapRangeCreate HeapRangeDestroy \
    HeapRangeRelease HeapRangeReserve HeapRealloc HeapReallocation KernelQueueDequeue KernelQueueEnqueue \
    KernelSignal KernelSignalInit KernelSync KernelSyncAll KernelWaitSync KernelWaitSyncAll Mark \
    MiniFilterPostOpInit MiniFilterPreOpInit ObjectCreate ObjectDelete ObjectDeReference ObjectReference \
    PageAccess PageAccessEx PagefaultAV PagefaultGuard PagefaultHard PagefileBackedImageMapping \
    PagefileMappedSectionCreate PagefileMappedSectionDelete PagefileMappedSectionObjectCreate \
    PagefileMappedSectionObjectDelete PageRangeAccess PageRangeRelease PageRelease PageRemovedfromWorkingSet \
    PmcInterrupt PoolAlloc PoolAllocation PoolAllocationSession PoolAllocSession PoolFree PoolFreeSession \
    PowerDeviceNotify PowerDeviceNotifyComplete PowerIdleStateChange PowerPerfStateChange PowerPostSleep \
    PowerPreSleep PowerSessionCallout PowerSessionCalloutReturn PowerSetDevicesState PowerSetDevicesStateReturn \
    PowerSetPowerAction PowerSetPowerActionReturn PowerThermalConstraint ProfileSetInterval RegCloseKey \
    RegCreateKey RegDeleteKey RegDeleteValue RegEnumerateKey RegEnumerateValueKey RegFlush RegHiveDestroy \
    RegHiveDirty RegHiveInit RegHiveLink RegistryCloseKey RegistryCreateKey RegistryDeleteKey RegistryDeleteValue \
    RegistryEnumerateKey RegistryEnumerateValueKey RegistryFlush RegistryHiveDestroy RegistryHiveDirty \
    RegistryHiveInit RegistryHiveLink RegistryKcbCreate RegistryKcbDelete RegistryOpenKey RegistryQueryKey \
    RegistryQueryMultipleValue RegistryQuerySecurity RegistryQueryValue RegistrySetInformation RegistrySetSecurity \
    RegistrySetValue RegistryVirtualize RegKcbCreate RegKcbDelete RegOpenKey RegQueryKey RegQueryMultipleValue \
    RegQueryValue RegSetInformation RegSetValue RegVirtualize SampledProfileSetInterval ShouldYield SplitIO \
    ThreadDCEnd ThreadDCStart ThreadPoolCallbackCancel ThreadPoolCallbackDequeue ThreadPoolCallbackEnqueue \
    ThreadPoolCallbackStart ThreadPoolCallbackStop ThreadPoolClose ThreadPoolCreate ThreadPoolSetMaxThreads \
    ThreadPoolSetMinThreads ThreadSetBasePriority ThreadSetIdealProcessor ThreadSetUserIdealProcessor TimerOnShot \
    TimerPeriodic TimerSetOneShot TimerSetPeriodic";

/// Events from names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParsedStacks {
    /// The events with call stacks.
    pub hooks: Vec<u16>,
    /// Names of events whose call stacks are not recorded on Linux.
    pub dropped: Vec<String>,
}

/// Names of which none has call stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackNameError {
    /// The list has no name.
    Unnamed,
    /// The name is not known.
    Unknown(String),
    /// None of the events has call stacks that are recorded on Linux.
    NotRecorded(Vec<String>),
}

impl fmt::Display for StackNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StackNameError::Unnamed | StackNameError::Unknown(_) => {
                match self {
                    StackNameError::Unknown(name) => {
                        write!(f, "{name}: no event with call stacks")?
                    }
                    _ => f.write_str("no event with call stacks is named")?,
                }
                let known: Vec<&str> = STACK_NAMES.iter().map(|row| row.name).collect();
                write!(f, "; use {}", known.join(", "))
            }
            StackNameError::NotRecorded(names) => {
                let events = if names.len() == 1 { "this event" } else { "these events" };
                let names = names.join(", ");
                write!(f, "{names}: openetw records no call stacks of {events} on Linux")
            }
        }
    }
}

impl std::error::Error for StackNameError {}

/// The names of events: those that have call stacks, and the others of Windows.
pub fn words() -> impl Iterator<Item = &'static str> {
    STACK_NAMES.iter().map(|row| row.name).chain(WINDOWS_NAMES.split_whitespace())
}

/// The events of names that are joined by `+` or commas. Case does not matter. `0x0501` is the event of that hook.
///
/// # Errors
/// [`StackNameError`].
pub fn parse(text: &str) -> Result<ParsedStacks, StackNameError> {
    let mut parsed = ParsedStacks::default();
    for word in text.split(['+', ',']).map(str::trim).filter(|word| !word.is_empty()) {
        let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
        let hook = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let is_row =
            |row: &&StackName| row.name.eq_ignore_ascii_case(word) || hook == Some(row.hook);
        let other = WINDOWS_NAMES.split_whitespace().find(|name| name.eq_ignore_ascii_case(word));
        match (STACK_NAMES.iter().find(is_row), other) {
            (Some(row), _) => parsed.hooks.push(row.hook),
            (None, Some(name)) => parsed.dropped.push(name.to_owned()),
            (None, None) if hook.is_some() => parsed.dropped.push(word.to_owned()),
            (None, None) => return Err(StackNameError::Unknown(word.to_owned())),
        }
    }
    match (parsed.hooks.is_empty(), parsed.dropped.is_empty()) {
        (true, true) => Err(StackNameError::Unnamed),
        (true, false) => Err(StackNameError::NotRecorded(parsed.dropped)),
        (false, _) => Ok(parsed),
    }
}

/// Events with call stacks whose class these masks do not record, with the classes.
pub fn unrecorded(stacks: &[u16], masks: &Masks) -> Vec<(&'static str, Flag)> {
    let rows = STACK_NAMES.iter().filter(|row| stacks.contains(&row.hook));
    rows.filter(|row| !masks.has(row.class)).map(|row| (row.name, row.class)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_hooks_and_the_others_are_named() {
        let hooks = |text: &str| parse(text).unwrap().hooks;
        assert_eq!(hooks("Profile+cswitch"), [0x0f2e, 0x0524]);
        assert_eq!(hooks("0x0501+0X0f2e"), [0x0501, 0x0f2e]);
        for (word, name) in [("regquerykey", "RegQueryKey"), ("0x1234", "0x1234")] {
            assert_eq!(parse(word), Err(StackNameError::NotRecorded(vec![name.to_owned()])));
        }
        for empty in ["", " ", "+,"] {
            assert_eq!(parse(empty), Err(StackNameError::Unnamed));
        }
        assert!(parse("Nothing").unwrap_err().to_string().contains("ReadyThread"));
        assert!(parse("Profile+HandleCreate+Nothing").is_err());
    }

    /// Regression: a command was refused because of a name of xperf's own list of events with call stacks.
    #[test]
    fn all_names_of_the_published_lists_are_known() {
        let published = "HandleCreate HandleClose HandleDuplicate ObjectCreate ObjectDelete ObjectReference ObjectDeReference \
            RegHiveInit RegHiveDestroy RegHiveLink RegHiveDirty DpcEnqueue DpcExecute ShouldYield PmcInterrupt CacheFlush \
            PageAccessEx PageRemovedfromWorkingSet PagefileMappedSectionObjectCreate PagefileMappedSectionObjectDelete \
            ThreadSetIdealProcessor ThreadSetUserIdealProcessor";
        let names: Vec<&str> = published.split_whitespace().collect();
        let parsed = parse(&format!("Profile+{}", names.join("+"))).unwrap();
        assert_eq!(
            (parsed.hooks, parsed.dropped),
            (vec![0x0f2e], names.iter().map(|name| name.to_string()).collect())
        );
    }
}
