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
    AlpcUnwait AlpcWaitForNewMessage AlpcWaitForReply CcCanIWriteFail CcFlushCache CcFlushSection CcLazyWriteScan CcReadAhead \
    CcWorkitemComplete CcWorkitemDequeue CcWorkitemEnqueue CcWriteBehind ContiguousMemoryGeneration CritSecCollision \
    ExecutiveResource FileCleanup FileDirEnum FileDirNotify FileFSCTL FileOpEnd FileQueryInformation FileSetInformation \
    HeapAlloc HeapAllocation HeapCreate HeapDestroy HeapFree HeapRangeCreate HeapRangeDestroy HeapRangeRelease \
    HeapRangeReserve HeapRealloc HeapReallocation KernelQueueDequeue KernelQueueEnqueue KernelSignal KernelSignalInit \
    KernelSync KernelSyncAll KernelWaitSync KernelWaitSyncAll Mark MiniFilterPostOpInit MiniFilterPreOpInit PageAccess \
    PagefaultAV PagefaultGuard PagefaultHard PagefileBackedImageMapping PagefileMappedSectionCreate \
    PagefileMappedSectionDelete PageRangeAccess PageRangeRelease PageRelease PoolAlloc PoolAllocation PoolAllocSession \
    PoolAllocationSession PoolFree PoolFreeSession PowerDeviceNotify PowerDeviceNotifyComplete PowerIdleStateChange \
    PowerPerfStateChange PowerPostSleep PowerPreSleep PowerSessionCallout PowerSessionCalloutReturn PowerSetDevicesState \
    PowerSetDevicesStateReturn PowerSetPowerAction PowerSetPowerActionReturn PowerThermalConstraint ProfileSetInterval \
    RegCloseKey RegCreateKey RegDeleteKey RegDeleteValue RegEnumerateKey RegEnumerateValueKey RegFlush RegKcbCreate \
    RegKcbDelete RegOpenKey RegQueryKey RegQueryMultipleValue RegQueryValue RegSetInformation RegSetValue RegVirtualize \
    RegistryCloseKey RegistryCreateKey RegistryDeleteKey RegistryDeleteValue RegistryEnumerateKey \
    RegistryEnumerateValueKey RegistryFlush RegistryKcbCreate RegistryKcbDelete RegistryOpenKey RegistryQueryKey \
    RegistryQueryMultipleValue RegistryQuerySecurity RegistryQueryValue RegistrySetInformation RegistrySetSecurity \
    RegistrySetValue RegistryVirtualize SampledProfileSetInterval SplitIO ThreadDCEnd ThreadDCStart \
    ThreadPoolCallbackCancel ThreadPoolCallbackDequeue ThreadPoolCallbackEnqueue ThreadPoolCallbackStart \
    ThreadPoolCallbackStop ThreadPoolClose ThreadPoolCreate ThreadPoolSetMaxThreads ThreadPoolSetMinThreads \
    ThreadSetBasePriority TimerOnShot TimerPeriodic TimerSetOneShot TimerSetPeriodic";

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
                let known: Vec<&str> = STACK_NAMES.iter().map(|row| row.name).collect();
                write!(f, "{name}: no event with call stacks; use {}", known.join(", "))
            }
            StackNameError::NotRecorded(name) => {
                write!(f, "{name}: openetw records no call stacks of this event on Linux")
            }
        }
    }
}

impl std::error::Error for StackNameError {}

/// The hooks of names that are joined by `+` or commas. Case does not matter. `0x0501` is the event of that hook.
///
/// # Errors
/// [`StackNameError`].
pub fn parse(text: &str) -> Result<Vec<u16>, StackNameError> {
    let words = text.split(['+', ',']).map(str::trim).filter(|word| !word.is_empty());
    words.map(hook_of).collect()
}

/// Events with call stacks whose class these masks do not record, with the classes.
pub fn unrecorded(stacks: &[u16], masks: &Masks) -> Vec<(&'static str, Flag)> {
    let rows = STACK_NAMES.iter().filter(|row| stacks.contains(&row.hook));
    rows.filter(|row| !masks.has(row.class)).map(|row| (row.name, row.class)).collect()
}

fn hook_of(word: &str) -> Result<u16, StackNameError> {
    let digits = word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"));
    let hook = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let is_row = |row: &&StackName| row.name.eq_ignore_ascii_case(word) || hook == Some(row.hook);
    match STACK_NAMES.iter().find(is_row) {
        Some(row) => Ok(row.hook),
        None if hook.is_some() => Err(StackNameError::NotRecorded(word.to_owned())),
        None => {
            let known =
                WINDOWS_NAMES.split_whitespace().find(|name| name.eq_ignore_ascii_case(word));
            Err(match known {
                Some(name) => StackNameError::NotRecorded(name.to_owned()),
                None => StackNameError::Unknown(word.to_owned()),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_hooks_and_others_are_refused_by_name() {
        assert_eq!(parse("Profile+cswitch"), Ok(vec![0x0f2e, 0x0524]));
        assert_eq!(parse("0x0501+0X0f2e"), Ok(vec![0x0501, 0x0f2e]));
        for (word, name) in [("regquerykey", "RegQueryKey"), ("0x1234", "0x1234")] {
            assert_eq!(parse(word), Err(StackNameError::NotRecorded(name.to_owned())));
        }
        assert!(parse("Nothing").unwrap_err().to_string().contains("ReadyThread"));
    }
}
