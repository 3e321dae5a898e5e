//! System providers: GUIDs under which Windows 11 lets sessions enable classes of kernel events by keyword, and the kernel's own.

use etw_types::{Guid, SYSTEM_TRACE};

use crate::flags::{Flag, Parsed};

/// The name of the kernel as a provider, whose keywords are the bits of `EnableFlags`. Its GUID is [`SYSTEM_TRACE`].
pub const KERNEL_PROVIDER: &str = "Windows Kernel Trace";

/// The kernel's name in `evntrace.h`.
const KERNEL_IN_C: &str = "SystemTraceControlGuid";

/// A system provider and the flags of its keywords. Keywords that are missing have no events on Linux.
struct SystemProvider {
    /// Its name in `evntrace.h`.
    name: &'static str,
    guid: Guid,
    keywords: &'static [(u64, Flag)],
}

const fn row(name: &'static str, guid: u128, keywords: &'static [(u64, Flag)]) -> SystemProvider {
    SystemProvider { name, guid: Guid::from_u128(guid), keywords }
}

static PROVIDERS: &[SystemProvider] = &[
    row(
        "SystemProcessProviderGuid",
        0x151f55dc_467d_471f_83b5_5f889d46ff66,
        &[
            (0x1, Flag::PROCESS),
            (0x8, Flag::COUNTERS),
            (0x100, Flag::DEBUG_PRINT),
            (0x800, Flag::THREAD),
            (0x1000, Flag::IMAGE),
        ],
    ),
    row(
        "SystemSchedulerProviderGuid",
        0x599a2a76_4d91_4910_9ac7_7d33f2e97a6c,
        &[(0x2, Flag::READY), (0x80, Flag::PRIORITY), (0x200, Flag::SWITCH)],
    ),
    row(
        "SystemInterruptProviderGuid",
        0xd4bbee17_b545_4888_858b_744169015b25,
        &[(0x1, Flag::INTERRUPT), (0x4, Flag::DPC)],
    ),
    row(
        "SystemSyscallProviderGuid",
        0x434286f7_6f1b_45bb_b37e_95f623046c7c,
        &[(0x1, Flag::SYSCALL)],
    ),
    row(
        "SystemIoProviderGuid",
        0x3d5c43e3_0f1c_4202_b817_174c0070dc79,
        &[
            (0x1, Flag::DISK),
            (0x2, Flag::DISK_INIT),
            (0x4, Flag::FILE_NAME),
            (0x8, Flag::SPLIT_IO),
            (0x10, Flag::FILE_IO),
            (0x80, Flag::DRIVERS),
            (0x200, Flag::NETWORK),
            (0x400, Flag::FILE_IO_INIT),
        ],
    ),
    row(
        "SystemMemoryProviderGuid",
        0x82958ca9_b6cd_47f8_a3a8_03ae85a4bc24,
        &[
            (0x2, Flag::HARD_FAULTS),
            (0x4, Flag::ALL_FAULTS),
            (0x10, Flag::MEMORY_INFO),
            (0x40, Flag::WORKING_SETS),
            (0x400, Flag::VIRTUAL_ALLOC),
            (0x4000, Flag::MAP_FILE),
        ],
    ),
    row(
        "SystemProfileProviderGuid",
        0xbfeb0324_1cee_496f_a409_2ac2b48a6322,
        &[(0x1, Flag::PROFILE)],
    ),
    row("SystemPowerProviderGuid", 0xc134884a_32d5_4488_80e5_14ed7abb8269, &[(0x1, Flag::POWER)]),
    row(
        "SystemConfigProviderGuid",
        0xfef3a8b6_318d_4b67_a96a_3b0f6b8f18fe,
        &[
            (0x1, Flag::CONFIGURED_SYSTEM),
            (0x4, Flag::CONFIGURED_STORAGE),
            (0x8, Flag::CONFIGURED_NETWORK),
            (0x10, Flag::CONFIGURED_SERVICES),
        ],
    ),
    row(
        "SystemRegistryProviderGuid",
        0x16156bd9_fab4_4cfa_a232_89d1099058e3,
        &[(0x1, Flag::REGISTRY)],
    ),
    row("SystemAlpcProviderGuid", 0xfcb9baaf_e529_4980_92e9_ced1a6aadfdf, &[(0x1, Flag::ALPC)]),
    row("SystemCpuProviderGuid", 0xc6c5265f_eae8_4650_aae4_9d48603d8510, &[]),
    row("SystemObjectProviderGuid", 0xfebd7460_3d1d_47eb_af49_c9eeb1e146f2, &[]),
    row("SystemLockProviderGuid", 0x721ddfd3_dacc_4e1e_b26a_a2cb31d4705a, &[]),
    row("SystemTimerProviderGuid", 0x4f061568_e215_499f_ab2e_eda0ae890a5b, &[]),
    row("SystemHypervisorProviderGuid", 0xbafa072a_918a_4bed_b622_bc152097098f, &[]),
    row("SystemIoFilterProviderGuid", 0xfbd09363_9e22_4661_b8bf_e7a34b535b8c, &[]),
];

/// The flags of a system provider's keywords, and those keywords that have no events on Linux, as names or a number; no keyword means all that have
/// some. `None`: the GUID is no system provider's.
pub fn flags_of(provider: &Guid, keywords: u64) -> Option<Parsed> {
    let mut parsed = Parsed::default();
    let mut unknown = keywords;
    if *provider == SYSTEM_TRACE {
        // `EnableFlags` has 32 bits.
        let flags = if keywords == 0 { u32::MAX } else { keywords as u32 };
        parsed = Parsed::of_enable_flags(flags);
        unknown &= !u64::from(u32::MAX);
    } else {
        let provider = PROVIDERS.iter().find(|one| one.guid == *provider)?;
        for (keyword, flag) in provider.keywords {
            if keywords == 0 || keyword & keywords != 0 {
                parsed.add(*flag);
            }
            unknown &= !keyword;
        }
    }
    if unknown != 0 {
        parsed.dropped.push(format!("{unknown:#x}"));
    }
    if keywords == 0 {
        // Nobody named them.
        parsed.dropped.clear();
    }
    Some(parsed)
}

/// Whether a GUID is that of a system provider.
pub fn is_system_provider(id: &Guid) -> bool {
    *id == SYSTEM_TRACE || PROVIDERS.iter().any(|one| one.guid == *id)
}

/// The GUID of the system provider with a name, in any case: [`KERNEL_PROVIDER`] or a name of `evntrace.h`, such as
/// `SystemSchedulerProviderGuid`.
pub fn named(name: &str) -> Option<Guid> {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    if is(KERNEL_PROVIDER) || is(KERNEL_IN_C) {
        return Some(SYSTEM_TRACE);
    }
    PROVIDERS.iter().find(|one| is(one.name)).map(|one| one.guid)
}

/// The names by which system providers are enabled.
pub fn names() -> impl Iterator<Item = &'static str> {
    [KERNEL_PROVIDER, KERNEL_IN_C].into_iter().chain(PROVIDERS.iter().map(|one| one.name))
}

/// The name of the system provider with a GUID.
pub fn name_of(id: &Guid) -> Option<&'static str> {
    if *id == SYSTEM_TRACE {
        return Some(KERNEL_PROVIDER);
    }
    PROVIDERS.iter().find(|one| one.guid == *id).map(|one| one.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-24
    ///
    /// Regression: keywords without events on Linux were left out without a word.
    #[test]
    fn keywords_of_system_providers_are_flags_of_the_kernel() {
        let names = |provider: &Guid, keywords| {
            let parsed = flags_of(provider, keywords).unwrap();
            (parsed.masks.names(), parsed.dropped)
        };
        let scheduler = Guid::from_u128(0x599a2a76_4d91_4910_9ac7_7d33f2e97a6c);
        assert_eq!(names(&scheduler, 0x202), (vec!["cswitch", "dispatcher"], vec![]));
        assert_eq!(names(&scheduler, 0).0.len(), 3);
        let registry = Guid::from_u128(0x16156bd9_fab4_4cfa_a232_89d1099058e3);
        assert_eq!(names(&registry, 5), (vec![], vec!["REGISTRY".to_owned(), "0x4".to_owned()]));
        assert_eq!(names(&registry, 0), (vec![], vec![]));
        assert_eq!(flags_of(&Guid::ZERO, 1), None);
        let kernel = named("windows kernel trace").unwrap();
        assert_eq!(names(&kernel, 0x11), (vec!["process", "cswitch"], vec![]));
        let beyond = vec!["0x80000000".to_owned(), "0x100000000".to_owned()];
        assert_eq!(names(&kernel, 0x1_8000_0001), (vec!["process"], beyond));
        assert!(is_system_provider(&kernel) && is_system_provider(&registry));
        assert!(!is_system_provider(&Guid::ZERO) && named("Windows").is_none());
    }

    /// OV-24: the names and GUIDs are those of the header for C.
    #[test]
    fn names_of_system_providers_are_those_of_evntrace_h() {
        let header = include_str!("../../etw-capi/include/etw_system_providers.h");
        let defined = |line: &str| {
            let (name, digits) =
                line.strip_prefix("DEFINE_GUID(")?.strip_suffix(");")?.split_once(", ")?;
            let digits: String =
                digits.split(", ").map(|part| part.strip_prefix("0x").unwrap()).collect();
            let id = Guid::from_u128(u128::from_str_radix(&digits, 16).unwrap());
            Some((name.to_owned(), id))
        };
        let of_header: Vec<(String, Guid)> = header.lines().filter_map(defined).collect();
        assert_eq!(of_header.len(), PROVIDERS.len());
        for (name, id) in of_header {
            assert_eq!((named(&name), named(&name.to_lowercase())), (Some(id), Some(id)), "{name}");
            assert_eq!(name_of(&id), Some(&name[..]));
        }
        assert_eq!(named("SystemTraceControlGuid"), Some(SYSTEM_TRACE));
        assert_eq!(name_of(&SYSTEM_TRACE).and_then(named), Some(SYSTEM_TRACE));
        assert_eq!(name_of(&Guid::ZERO), None);
    }
}
