//! Structures as they lie in memory.

use etw_api::{Channel, EventDescriptor, Guid, Keyword, Level, Opcode, Status};

/// `EVENT_DESCRIPTOR`, 16 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawDescriptor {
    pub id: u16,
    pub version: u8,
    pub channel: u8,
    pub level: u8,
    pub opcode: u8,
    pub task: u16,
    pub keyword: u64,
}

impl RawDescriptor {
    pub fn descriptor(self) -> EventDescriptor {
        EventDescriptor {
            id: self.id,
            version: self.version,
            channel: Channel(self.channel),
            level: Level(self.level),
            opcode: Opcode(self.opcode),
            task: self.task,
            keyword: Keyword(self.keyword),
        }
    }
}

/// `EVENT_DATA_DESCRIPTOR`, 16 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawData {
    pub address: u64,
    pub size: u32,
    pub kind: u8,
    pub reserved: [u8; 3],
}

/// `GUID`: in memory as on disk, on machines that store the low byte first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawGuid {
    pub data1: u32,
    pub data2: u16,
    pub data3: u16,
    pub data4: [u8; 8],
}

impl RawGuid {
    pub fn guid(self) -> Guid {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.data1.to_le_bytes());
        bytes[4..6].copy_from_slice(&self.data2.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.data3.to_le_bytes());
        bytes[8..].copy_from_slice(&self.data4);
        Guid(bytes)
    }

    pub fn from_guid(guid: &Guid) -> RawGuid {
        let b = &guid.0;
        RawGuid {
            data1: u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
            data2: u16::from_le_bytes([b[4], b[5]]),
            data3: u16::from_le_bytes([b[6], b[7]]),
            data4: [b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]],
        }
    }
}

/// Text in UTF-16 up to its NUL; `None` for NULL.
///
/// # Safety
/// NULL, or units up to a zero one.
pub unsafe fn utf16_of(text: *const u16) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let units = unsafe {
        let length = (0..).take_while(|n| text.add(*n).read_unaligned() != 0).count();
        (0..length).map(|n| text.add(n).read_unaligned()).collect::<Vec<u16>>()
    };
    Some(String::from_utf16_lossy(&units))
}

/// Text in UTF-32, as `wchar_t` has it outside of Windows; what is no scalar value becomes U+FFFD.
///
/// # Safety
/// NULL, or units up to a zero one.
pub unsafe fn utf32_of(text: *const u32) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let text = unsafe {
        let length = (0..).take_while(|n| text.add(*n).read_unaligned() != 0).count();
        (0..length)
            .map(|n| text.add(n).read_unaligned())
            .map(|unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    };
    Some(text)
}

/// A Rust panic must not run through C.
pub fn guarded(call: impl FnOnce() -> Status) -> u32 {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
    // The panic has been printed.
    result.unwrap_or(Status::ERROR_NOT_ENOUGH_MEMORY).0
}

const _: () = {
    assert!(size_of::<RawDescriptor>() == 16 && size_of::<RawData>() == 16);
    assert!(size_of::<RawGuid>() == 16);
};
