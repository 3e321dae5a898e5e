//! Messages between a program and a host. Numbers are little-endian; a `blob` is a `u16` size and that many bytes.
//!
//! | from the program | content | meaning |
//! |---|---|---|
//! | 1 Hello | u32 magic, u16 version, u8 role | |
//! | 2 Register | u32 number, GUID, blob traits | the host sends its sessions' enablements, then Registered |
//! | 3 Unregister | u32 number | |
//! | 4 Pool | + memory | the answer to NeedPool |
//! | 5 Segment | + memory | the answer to Grow; no memory: the program could not allocate any |
//! | 6 Done | u32 token, u32 Win32 status | the result of the message with that token. Set: 0, or 1450 (`ERROR_NO_SYSTEM_RESOURCES`) if eight sessions have the provider enabled already, those of other hosts and private ones included; then nothing has changed. Clear and Capture: 0 |
//! | 7 Modules | blob | the [`LoadedModule`](etw_types::LoadedModule)s that addresses of call stacks lie in; sent before Done and after each change |
//! | 8 Schemas | GUID, blob | schema records ([`etw_types::schema_records`]) of a provider's events, for the traces of sessions that enable it; sent before Register, to hosts with [`TAKES_SCHEMAS`] |
//!
//! | from the host | content | meaning |
//! |---|---|---|
//! | 65 Welcome | u16 version, u32 pool size + control, bell | |
//! | 66 Registered | u32 number | |
//! | 67 NeedPool | | |
//! | 68 Set | u32 token, u32 number, u8 slot, u8 level, u8 flags, u64 any, u64 all, GUID source, blob filter data, blob stacks, u64 since | flags: 1 ignore keyword 0, others are reserved. Stacks: empty, or a [`StackFilter`] that selects events for call stacks. Since: time of the request, in nanoseconds of `CLOCK_MONOTONIC`; a classic provider obeys the newest request |
//! | 69 Clear | u32 token, u32 number, u8 slot, GUID source | |
//! | 70 Capture | u32 token, u32 number, u8 level, u64 any, u64 all, GUID source | |
//! | 71 Grow | u32 size | |
//! | 72 Taken | | the host has mapped the segment |
//! | 73 Refused | u32 Win32 status | the host closes the connection |
//! | 74 Again | | a new host took over: register every provider again, with its old number |

use etw_types::{Guid, Keyword, Level, LevelKeyword, StackFilter, le};

/// `OETW`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"OETW");
/// The version of everything in this crate, and of the pools' layout.
pub const VERSION: u16 = 3;

/// A capability of a host, in its control page: it reads message 8. A host without it ends the connection of a program that sends
/// one.
pub const TAKES_SCHEMAS: u32 = 1;

/// The role of the process that connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Role {
    /// A program with providers.
    Program = 1,
    /// A program that starts, changes and reads sessions.
    Controller = 2,
}

/// A message from a program to its host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FromProgram<'a> {
    Hello { version: u16, role: u8 },
    Register { number: u32, id: Guid, traits: &'a [u8] },
    Unregister { number: u32 },
    Pool,
    Segment,
    Done { token: u32, status: u32 },
    Modules { modules: &'a [u8] },
    Schemas { id: Guid, records: &'a [u8] },
}

/// A message from a host to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FromHost<'a> {
    Welcome {
        version: u16,
        pool_size: u32,
    },
    Registered {
        number: u32,
    },
    NeedPool,
    Set {
        token: u32,
        number: u32,
        slot: u8,
        wanted: LevelKeyword,
        source: Guid,
        filter_data: &'a [u8],
        stacks: Option<StackFilter>,
        since: u64,
    },
    Clear {
        token: u32,
        number: u32,
        slot: u8,
        source: Guid,
    },
    Capture {
        token: u32,
        number: u32,
        level: Level,
        any: Keyword,
        all: Keyword,
        source: Guid,
    },
    Grow {
        size: u32,
    },
    Taken,
    Refused {
        status: u32,
    },
    Again,
}

struct Out(Vec<u8>);

impl Out {
    fn new(kind: u8) -> Out {
        Out(vec![kind])
    }
    fn u8(mut self, value: u8) -> Out {
        self.0.push(value);
        self
    }
    fn u16(mut self, value: u16) -> Out {
        self.0.extend(value.to_le_bytes());
        self
    }
    fn u32(mut self, value: u32) -> Out {
        self.0.extend(value.to_le_bytes());
        self
    }
    fn u64(mut self, value: u64) -> Out {
        self.0.extend(value.to_le_bytes());
        self
    }
    fn guid(mut self, value: &Guid) -> Out {
        self.0.extend(value.0);
        self
    }
    /// Writes a blob. A blob whose size exceeds a `u16` becomes empty; no message of this crate has one.
    fn blob(self, value: &[u8]) -> Out {
        match u16::try_from(value.len()) {
            Ok(size) => {
                let mut out = self.u16(size);
                out.0.extend(value);
                out
            }
            Err(_) => self.u16(0),
        }
    }
}

struct In<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> In<'a> {
    fn skip<T>(&mut self, size: usize, value: Option<T>) -> Option<T> {
        self.at += size;
        value
    }
    fn u8(&mut self) -> Option<u8> {
        self.skip(1, self.bytes.get(self.at).copied())
    }
    fn u16(&mut self) -> Option<u16> {
        self.skip(2, le::u16(self.bytes, self.at))
    }
    fn u32(&mut self) -> Option<u32> {
        self.skip(4, le::u32(self.bytes, self.at))
    }
    fn u64(&mut self) -> Option<u64> {
        self.skip(8, le::u64(self.bytes, self.at))
    }
    fn guid(&mut self) -> Option<Guid> {
        self.skip(16, Guid::read(self.bytes, self.at))
    }
    fn blob(&mut self) -> Option<&'a [u8]> {
        let size = usize::from(self.u16()?);
        self.skip(size, self.bytes.get(self.at..self.at + size))
    }
    fn end<T>(self, value: T) -> Option<T> {
        (self.at == self.bytes.len()).then_some(value)
    }
}

impl<'a> FromProgram<'a> {
    /// The message's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match *self {
            FromProgram::Hello { version, role } => Out::new(1).u32(MAGIC).u16(version).u8(role),
            FromProgram::Register { number, ref id, traits } => {
                Out::new(2).u32(number).guid(id).blob(traits)
            }
            FromProgram::Unregister { number } => Out::new(3).u32(number),
            FromProgram::Pool => Out::new(4),
            FromProgram::Segment => Out::new(5),
            FromProgram::Done { token, status } => Out::new(6).u32(token).u32(status),
            FromProgram::Modules { modules } => Out::new(7).blob(modules),
            FromProgram::Schemas { id, records } => Out::new(8).guid(&id).blob(records),
        }
        .0
    }

    /// Reads a message. `None` if the bytes are not exactly one message of this version.
    pub fn read(bytes: &'a [u8]) -> Option<FromProgram<'a>> {
        let mut from = In { bytes, at: 0 };
        let message = match from.u8()? {
            1 => {
                if from.u32()? != MAGIC {
                    return None;
                }
                FromProgram::Hello { version: from.u16()?, role: from.u8()? }
            }
            2 => FromProgram::Register {
                number: from.u32()?,
                id: from.guid()?,
                traits: from.blob()?,
            },
            3 => FromProgram::Unregister { number: from.u32()? },
            4 => FromProgram::Pool,
            5 => FromProgram::Segment,
            6 => FromProgram::Done { token: from.u32()?, status: from.u32()? },
            7 => FromProgram::Modules { modules: from.blob()? },
            8 => FromProgram::Schemas { id: from.guid()?, records: from.blob()? },
            _ => return None,
        };
        from.end(message)
    }
}

impl<'a> FromHost<'a> {
    /// The message's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        match *self {
            FromHost::Welcome { version, pool_size } => Out::new(65).u16(version).u32(pool_size),
            FromHost::Registered { number } => Out::new(66).u32(number),
            FromHost::NeedPool => Out::new(67),
            FromHost::Set {
                token,
                number,
                slot,
                ref wanted,
                ref source,
                filter_data,
                ref stacks,
                since,
            } => {
                let stacks = stacks.as_ref().map(StackFilter::to_bytes).unwrap_or_default();
                Out::new(68)
                    .u32(token)
                    .u32(number)
                    .u8(slot)
                    .u8(wanted.level.0)
                    .u8(u8::from(wanted.ignore_keyword_0))
                    .u64(wanted.any.0)
                    .u64(wanted.all.0)
                    .guid(source)
                    .blob(filter_data)
                    .blob(&stacks)
                    .u64(since)
            }
            FromHost::Clear { token, number, slot, ref source } => {
                Out::new(69).u32(token).u32(number).u8(slot).guid(source)
            }
            FromHost::Capture { token, number, level, any, all, ref source } => {
                Out::new(70).u32(token).u32(number).u8(level.0).u64(any.0).u64(all.0).guid(source)
            }
            FromHost::Grow { size } => Out::new(71).u32(size),
            FromHost::Taken => Out::new(72),
            FromHost::Refused { status } => Out::new(73).u32(status),
            FromHost::Again => Out::new(74),
        }
        .0
    }

    /// Reads a message. `None` if the bytes are not exactly one message of this version.
    pub fn read(bytes: &'a [u8]) -> Option<FromHost<'a>> {
        let mut from = In { bytes, at: 0 };
        let message = match from.u8()? {
            65 => FromHost::Welcome { version: from.u16()?, pool_size: from.u32()? },
            66 => FromHost::Registered { number: from.u32()? },
            67 => FromHost::NeedPool,
            68 => FromHost::Set {
                token: from.u32()?,
                number: from.u32()?,
                slot: from.u8().filter(|slot| *slot < 8)?,
                wanted: LevelKeyword {
                    level: Level(from.u8()?),
                    ignore_keyword_0: from.u8().filter(|flags| *flags <= 1)? == 1,
                    any: Keyword(from.u64()?),
                    all: Keyword(from.u64()?),
                },
                source: from.guid()?,
                filter_data: from.blob()?,
                stacks: match from.blob()? {
                    [] => None,
                    bytes => Some(StackFilter::read(bytes)?),
                },
                since: from.u64()?,
            },
            69 => FromHost::Clear {
                token: from.u32()?,
                number: from.u32()?,
                slot: from.u8().filter(|slot| *slot < 8)?,
                source: from.guid()?,
            },
            70 => FromHost::Capture {
                token: from.u32()?,
                number: from.u32()?,
                level: Level(from.u8()?),
                any: Keyword(from.u64()?),
                all: Keyword(from.u64()?),
                source: from.guid()?,
            },
            71 => FromHost::Grow { size: from.u32()? },
            72 => FromHost::Taken,
            73 => FromHost::Refused { status: from.u32()? },
            74 => FromHost::Again,
            _ => return None,
        };
        from.end(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_and_nothing_else_does() {
        let wanted = LevelKeyword {
            level: Level(4),
            any: Keyword(7),
            all: Keyword(3),
            ignore_keyword_0: true,
        };
        let id = Guid::from_u128(9);
        let programs = [
            FromProgram::Hello { version: 1, role: 2 },
            FromProgram::Register { number: 5, id, traits: b"\x06\0Doc\0" },
            FromProgram::Unregister { number: 5 },
            FromProgram::Pool,
            FromProgram::Segment,
            FromProgram::Done { token: 8, status: 1450 },
            FromProgram::Modules { modules: b"none of this crate's affair" },
            FromProgram::Schemas { id: Guid::from_u128(7), records: b"as little" },
        ];
        let hosts = [
            FromHost::Welcome { version: 1, pool_size: 1 << 20 },
            FromHost::Registered { number: 5 },
            FromHost::NeedPool,
            FromHost::Set {
                token: 1,
                number: 2,
                slot: 7,
                wanted,
                source: id,
                filter_data: b"x",
                stacks: None,
                since: 1 << 40,
            },
            FromHost::Set {
                token: 1,
                number: 2,
                slot: 7,
                wanted,
                source: id,
                filter_data: b"",
                stacks: Some(StackFilter::default()),
                since: 0,
            },
            FromHost::Clear { token: 1, number: 2, slot: 3, source: id },
            FromHost::Capture {
                token: 1,
                number: 2,
                level: Level(3),
                any: Keyword(4),
                all: Keyword(5),
                source: id,
            },
            FromHost::Grow { size: 6 },
            FromHost::Taken,
            FromHost::Refused { status: 5 },
            FromHost::Again,
        ];
        let mut all = Vec::new();
        for message in &programs {
            assert_eq!(FromProgram::read(&message.to_bytes()).as_ref(), Some(message));
            all.push(message.to_bytes());
        }
        for message in &hosts {
            assert_eq!(FromHost::read(&message.to_bytes()).as_ref(), Some(message));
            all.push(message.to_bytes());
        }
        // An unknown flag would be lost when the message is written again.
        let mut unknown = hosts[3].to_bytes();
        unknown[11] = 3;
        assert_eq!(FromHost::read(&unknown), None);
        for bytes in &mut all {
            assert!(FromProgram::read(bytes).is_none() || FromHost::read(bytes).is_none());
            bytes.push(0);
            assert!(FromProgram::read(bytes).is_none() && FromHost::read(bytes).is_none());
            bytes.truncate(bytes.len() - 2);
            assert!(FromProgram::read(bytes).is_none() && FromHost::read(bytes).is_none());
        }
    }
}
