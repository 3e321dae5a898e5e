//! WPR's words for classes of the system's events and for call stacks.

use super::super::kernel::Kernel;
use crate::frontends::answer::usage;
use crate::live::system_options::{meant, note_without_stacks};
use crate::output::Failure;
use etw_system::recording_profile::SystemCollector;
use etw_system::stack_names::{StackNameError, parse};

/// WPR's keywords, and xperf's flags.
const KEYWORDS: &[(&str, &str)] = &[
    ("ProcessThread", "PROC_THREAD"),
    ("Loader", "LOADER"),
    ("ProcessCounter", "PERF_COUNTER"),
    ("CSwitch", "CSWITCH"),
    ("CompactCSwitch", "CSWITCH"),
    ("ReadyThread", "DISPATCHER"),
    ("ThreadPriority", "PRIORITY"),
    ("DPC", "DPC"),
    ("Interrupt", "INTERRUPT"),
    ("SystemCall", "SYSCALL"),
    ("DiskIO", "DISK_IO"),
    ("DiskIOInit", "DISK_IO_INIT"),
    ("DiskIOInitialization", "DISK_IO_INIT"),
    ("Filename", "FILENAME"),
    ("FileIO", "FILE_IO"),
    ("FileIOInit", "FILE_IO_INIT"),
    ("AllFaults", "ALL_FAULTS"),
    ("HardFaults", "HARD_FAULTS"),
    ("VirtualAllocation", "VIRT_ALLOC"),
    ("VAMap", "VAMAP"),
    ("NetworkTrace", "NETWORKTRACE"),
    ("SampledProfile", "PROFILE"),
    ("Registry", "REGISTRY"),
    ("ALPC", "ALPC"),
    ("SplitIO", "SPLIT_IO"),
    ("Drivers", "DRIVERS"),
    ("MemoryInfo", "MEMINFO"),
    ("MemoryInfoWS", "MEMINFO_WS"),
    ("Power", "POWER"),
    ("Memory", "MEMORY"),
    ("MemoryFootprint", "FOOTPRINT"),
    ("Session", "SESSION"),
    ("Spinlock", "SPINLOCK"),
    ("KernelQueue", "KQUEUE"),
    ("Pool", "POOL"),
    ("CC", "CC"),
    ("Timer", "TIMER"),
    ("IdleStates", "IDLE_STATES"),
    ("IPI", "IPI"),
    ("InterProcessorInterrupt", "IPI"),
    ("OpticalIO", "OPTICAL_IO"),
    ("OpticalIOInit", "OPTICAL_IO_INIT"),
    ("FltIO", "FLT_IO"),
    ("FltIOInit", "FLT_IO_INIT"),
    ("HvProfile", "HV_PROFILE"),
    ("ClockInterrupt", "CLOCKINT"),
    ("ReferenceSet", "ReferenceSet"),
    ("WDFDPC", "WDF_DPC"),
    ("WDFInterrupt", "WDF_INTERRUPT"),
    ("InterruptSteer", "INTERRUPT_STEER"),
    ("RegistryHive", "REG_HIVE"),
    ("HiberRundown", "HIBERRUNDOWN"),
    ("Handle", "OB_HANDLE"),
    ("ObHandle", "OB_HANDLE"),
    ("Object", "OB_OBJECT"),
    ("ObObject", "OB_OBJECT"),
    ("ProcessFreeze", "PROCESS_FREEZE"),
    ("AntiStarvation", "ANTI_STARVATION"),
    ("IdealProcessor", "IDEAL_PROC"),
    ("NonTradeableMemory", "NONTRADEABLE_MEMORY"),
];

/// Keywords of Windows whose events Linux lacks, and that have no flag of xperf's.
const WINDOWS_KEYWORDS: &[&str] = &[
    "CacheFlush",
    "ClusterOff",
    "ContiguousMemorygeneration",
    "DPCQueue",
    "FilterIO",
    "FilterIOFailure",
    "FilterIOFastIO",
    "FilterIOInit",
    "HalClock",
    "KEClock",
    "PmcProfile",
    "ProcessInSwap",
    "RefSet",
    "SpinLockCounters",
    "SyncObjects",
    "ThreadAffinity",
    "WorkerThread",
    "WSDetail",
    "WSEntry",
    "FootPrint",
    "PoolTrace",
    "ShouldYield",
    "VamapFootprint",
    "UmsEvents",
    "DebugEvents",
    "ContMemGen",
    "SynchronizationObjects",
    "XSched",
    "HvHypercalls",
    "WakeCounter",
    "WakeDrop",
    "WakeEvent",
];

/// Keywords of configuration, which is always recorded.
const CONFIGURATION: &[&str] = &["CpuConfig", "SysConfig", "StorageConfig", "NetworkConfig"];

/// WPR's names of events with call stacks that differ from xperf's.
const STACKS: &[(&str, &str)] = &[
    ("SampledProfile", "Profile"),
    ("SystemCallEnter", "SyscallEnter"),
    ("SystemCallExit", "SyscallExit"),
    ("VirtualAllocation", "VirtualAlloc"),
];

/// The group masks of a custom keyword: the upper three bits are the word.
fn custom_masks(keyword: &str) -> Option<[u32; 8]> {
    let digits = keyword.strip_prefix("0x").or_else(|| keyword.strip_prefix("0X"))?;
    let keyword = u32::from_str_radix(digits, 16).ok()?;
    let mut masks = [0; 8];
    masks[(keyword >> 29) as usize] = keyword & 0x1fff_ffff;
    Some(masks)
}

fn translated(table: &[(&str, &'static str)], word: &str) -> Option<&'static str> {
    table.iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, other)| *other)
}

/// All keywords.
fn words() -> impl Iterator<Item = &'static str> {
    let flags = KEYWORDS.iter().map(|(keyword, _)| *keyword);
    flags.chain(WINDOWS_KEYWORDS.iter().chain(CONFIGURATION).copied())
}

/// Adds the classes and call stacks of a profile.
pub fn add(kernel: &mut Kernel, system: &SystemCollector) -> Result<(), Failure> {
    let wrong = |what: String| usage(format!("wpr: {what}"));
    for keyword in &system.keywords {
        if CONFIGURATION.iter().any(|one| one.eq_ignore_ascii_case(keyword)) {
            continue;
        }
        if let Some(flag) = translated(KEYWORDS, keyword) {
            kernel.add(flag).map_err(wrong)?;
        } else if let Some(masks) = custom_masks(keyword) {
            kernel.add_masks(&masks);
        } else if let Some(known) =
            WINDOWS_KEYWORDS.iter().find(|one| one.eq_ignore_ascii_case(keyword))
        {
            kernel.drop_class(known);
        } else {
            let what = format!("{keyword:?} is not a keyword of the system");
            return Err(wrong(match meant(keyword, words()) {
                Some(meant) => format!("{what}; did you mean {meant}?"),
                None => what,
            }));
        }
    }
    let mut dropped = Vec::new();
    for stack in &system.stacks {
        let name = translated(STACKS, stack).unwrap_or(stack);
        match parse(name) {
            // A profile records its classes also if Linux has none of its call stacks.
            Err(StackNameError::NotRecorded(names)) => dropped.extend(names),
            _ => kernel.add_stacks(name).map_err(wrong)?,
        }
    }
    note_without_stacks(&dropped);
    Ok(())
}
