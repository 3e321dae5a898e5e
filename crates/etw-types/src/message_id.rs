//! Numbers that `mc` gives the messages of a manifest: the kind in the upper four bits, the provider's place in the manifest in the next
//! four, and in the rest what the message belongs to.

/// A keyword: the number of its bit, from 1.
pub const KEYWORD: u32 = 0x1000_0000;
/// An opcode: its task (the low byte) above its value.
pub const OPCODE: u32 = 0x3000_0000;
/// A level: its value.
pub const LEVEL: u32 = 0x5000_0000;
/// A filter: its version above its value.
pub const FILTER: u32 = 0x5080_0000;
/// A task: its value.
pub const TASK: u32 = 0x7000_0000;
/// The provider, then its channels, from 1.
pub const CHANNEL: u32 = 0x9000_0000;
/// An event: its version above its id.
pub const EVENT: u32 = 0xb000_0000;
/// Items of value maps, from 1.
pub const VALUE_MAP: u32 = 0xd000_0000;
/// Items of bit maps, from 1.
pub const BIT_MAP: u32 = 0xf000_0000;
