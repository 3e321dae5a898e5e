//! `Hook` ids of kernel records and the class GUIDs of their groups.

use crate::Guid;

/// Class GUID of the EventTrace group (hook group 00): the logfile header and its companions.
pub const EVENT_TRACE: Guid = Guid::from_u128(0x68fdd900_4a3e_11d1_84f4_0000f80464e3);
/// Class GUID of the real-time lost-event records (types 32 event, 33 buffer, 34 backup file).
#[doc(alias = "RT_LostEvent")]
pub const LOST_EVENT: Guid = Guid::from_u128(0x6a399ae0_4bc6_4de9_870b_3657f8947e7e);
/// Class GUID of the schema records that merging adds (type 32 TRACE_EVENT_INFO, 33 EVENT_MAP_INFO).
pub const EVENT_METADATA: Guid = Guid::from_u128(0xbbccf6c1_6cd1_48c4_80ff_839482e37671);

/// The provider of the system's own events.
#[doc(alias = "SystemTraceControlGuid")]
pub const SYSTEM_TRACE: Guid = Guid::from_u128(0x9e814aad_3204_11d2_9a82_006008a86939);

/// Is it a class of the system's own events? Readers believe what these tell of the trace, of other events and of other programs, so no
/// program may write them.
pub fn is_system_class(guid: &Guid) -> bool {
    *guid == LOST_EVENT || *guid == EVENT_METADATA || Hook::name_of_class(*guid).is_some()
}

/// A kernel hook id: the event group in the high byte, the event type in the low byte.
///
/// Groups and class GUIDs are those published in Microsoft's kernel MOF and seen in trace files.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hook(pub u16);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hook({:04x})", self.0)
    }
}

impl Hook {
    /// The event group, the high byte.
    #[inline]
    pub const fn group(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// The event type, the low byte; consumers see it as the opcode.
    #[inline]
    pub const fn kind(self) -> u8 {
        self.0 as u8
    }

    /// The group's class GUID; hook 030A, logged by older kernels in the process group, is Image.
    #[inline]
    pub fn class_guid(self) -> Option<Guid> {
        self.row().map(|row| row.1)
    }

    /// The group's class name; hook 030A is Image.
    pub fn class_name(self) -> Option<&'static str> {
        self.row().map(|row| row.0)
    }

    #[inline]
    fn row(self) -> Option<&'static (&'static str, Guid)> {
        let group = if self.0 == 0x030a { 0x14 } else { self.group() };
        GROUPS.get(usize::from(group))
    }

    /// The hook of an event type of a class.
    pub fn of_class(guid: Guid, kind: u8) -> Option<Hook> {
        let group = GROUPS.iter().position(|row| row.1 == guid)?;
        Some(Hook((group as u16) << 8 | u16::from(kind)))
    }

    /// The class name of a group's GUID.
    pub fn name_of_class(guid: Guid) -> Option<&'static str> {
        GROUPS.iter().find(|row| row.1 == guid).map(|row| row.0)
    }
}

/// Indexed by group.
static GROUPS: [(&str, Guid); 31] = [
    ("EventTrace", Guid::from_u128(0x68fdd900_4a3e_11d1_84f4_0000f80464e3)),
    ("DiskIo", Guid::from_u128(0x3d6fa8d4_fe05_11d0_9dda_00c04fd7ba7c)),
    ("PageFault", Guid::from_u128(0x3d6fa8d3_fe05_11d0_9dda_00c04fd7ba7c)),
    ("Process", Guid::from_u128(0x3d6fa8d0_fe05_11d0_9dda_00c04fd7ba7c)),
    ("FileIo", Guid::from_u128(0x90cbdc39_4a3e_11d1_84f4_0000f80464e3)),
    ("Thread", Guid::from_u128(0x3d6fa8d1_fe05_11d0_9dda_00c04fd7ba7c)),
    ("TcpIp", Guid::from_u128(0x9a280ac0_c8e0_11d1_84e2_00c04fb998a2)),
    ("Job", Guid::from_u128(0x3282fc76_feed_498e_8aa7_e70f459d430e)),
    ("UdpIp", Guid::from_u128(0xbf3a50c5_a9c9_4988_a005_2df0b7c80f80)),
    ("Registry", Guid::from_u128(0xae53722e_c863_11d2_8659_00c04fa321a1)),
    ("DbgPrint", Guid::from_u128(0x13976d09_a327_438c_950b_7f03192815c7)),
    ("SystemConfig", Guid::from_u128(0x01853a65_418f_4f36_aefc_dc0f1d2fd235)),
    ("Spare1", Guid::from_u128(0x99134383_5248_43fc_834b_529454e75df3)),
    ("WNF", Guid::from_u128(0x42695762_ea50_497a_9068_5cbbb35e0b95)),
    ("Pool", Guid::from_u128(0x0268a8b6_74fd_4302_9dd0_6e8f1795c0cf)),
    ("PerfInfo", Guid::from_u128(0xce1dbfb4_137e_4da6_87b0_3f59aa102cbc)),
    ("Heap", Guid::from_u128(0x222962ab_6180_4b88_a825_346b75f2a24a)),
    ("Object", Guid::from_u128(0x89497f50_effe_4440_8cf2_ce6b1cdcaca7)),
    ("Power", Guid::from_u128(0xe43445e0_0903_48c3_b878_ff0fccebdd04)),
    ("ModBound", Guid::from_u128(0xa9152f00_3f58_4bee_92a1_70c7d079d5dd)),
    ("Image", Guid::from_u128(0x2cb15d1d_5fc1_11d2_abe1_00a0c911f518)),
    ("Dpc", Guid::from_u128(0xb2d14872_7c5b_463d_8419_ee9bf7d23e04)),
    ("Cc", Guid::from_u128(0x7687a439_f752_45b8_b741_321aec0f8df9)),
    ("CritSec", Guid::from_u128(0x3ac66736_cc59_4cff_8115_8df50e39816b)),
    ("StackWalk", Guid::from_u128(0xdef2fe46_7bd6_4b80_bd94_f57fe20d0ce3)),
    ("UMS", Guid::from_u128(0x9aec974b_5b8e_4118_9b92_3186d8002ce5)),
    ("ALPC", Guid::from_u128(0x45d8cccd_539f_4b72_a8b7_5c683142609a)),
    ("SplitIo", Guid::from_u128(0xd837ca92_12b9_44a5_ad6a_3a65b3578aa8)),
    ("ThreadPool", Guid::from_u128(0xc861d0e2_a2c1_4d36_9f9c_970bab943a12)),
    ("Hypervisor", Guid::from_u128(0x7f2a405c_69b5_4bf9_a1f5_30e8f1afab5e)),
    ("HypervisorX", Guid::from_u128(0x2ce9a149_effe_42f0_a635_a1d39e26c8f2)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_their_guids() {
        assert_eq!(Hook(0x0000).class_guid(), Some(EVENT_TRACE));
        assert_eq!(Hook(0x0301).class_name(), Some("Process"));
        assert_eq!(Hook(0x030a).class_name(), Some("Image"));
        assert_eq!(
            Hook(0x1820).class_guid().unwrap().to_string(),
            "def2fe46-7bd6-4b80-bd94-f57fe20d0ce3"
        );
        assert_eq!(Hook(0x1f00).class_guid(), None);
        assert_eq!(Hook(0xff00).class_name(), None);
        assert_eq!(Hook::name_of_class(EVENT_TRACE), Some("EventTrace"));
    }
}
