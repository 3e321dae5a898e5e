//! The program that records the paths which system calls name, at the end of each call: the kernel has read them by then, so that they are in
//! memory. Words of its records behind the common ones, one record for each path:
//!
//! ```text
//! 34 u32 number of the call   38 u32 0, or 1 for the call's second path   3C u32 device of the file that the call opened, or 0
//! 40 u64 inode of that file   48 u64 address of the path                  50 u64 address of that inode   58 the path with its NUL; nothing: it could not be read
//! ```
//!
//! A call such as `readv` has a record of its list of buffers (`struct iovec`):
//!
//! ```text
//! 38 u32 number of buffers   48 u64 address of the list   58 the first 256 buffers at most, each u64 address, u64 bytes
//! ```
//!
//! `openat2` has a record of its flags, as if they were a second path:
//!
//! ```text
//! 38 u32 1   48 u64 address of the `struct open_how`   50 u64 flags; nothing: they could not be read
//! ```
//!
//! and of a call that copies from one file to another, for which programs ask for more bytes than there are:
//!
//! ```text
//! 40 i64 copied bytes, or an error   48 u64 the call's first argument
//! ```

use etw_types::le;

use super::assembler::{
    Assembler, CONTEXT, CPU, EVENT, GET_CURRENT_TASK, Maps, RECORD, RESULT, SIZE, THREAD, TIME,
    Target, WORDS,
};
use super::btf::Btf;
use super::points::PATHS;
use crate::neutral::FileId;
use crate::system_calls::SystemCall;

/// Bytes of the memory in which the program puts a record together.
pub const SCRATCH_SIZE: u32 = (PATH + MAX_PATH) as u32;
/// PATH_MAX
const MAX_PATH: i32 = 4096;

const INDEX: i16 = WORDS + 4;
const DEVICE: i16 = WORDS + 8;
const INODE: i16 = WORDS + 12;
const ADDRESS: i16 = WORDS + 20;
const INODE_ADDRESS: i16 = WORDS + 28;
const PATH: i32 = (WORDS + 36) as i32;

/// In a call's byte of the table at [`PATHS`]: it opens a file. The three bits below are 1 and the argument with the first path, the
/// upper four the same for the second one; 0: it has none.
pub const OPENS: u8 = 8;
/// A path is one of the first arguments.
pub const MAX_ARGUMENT: usize = 4;
/// In that byte: the call lists buffers.
pub const LISTS_BUFFERS: u8 = 7;
/// In that byte: the call copies bytes, and its result is recorded.
pub const COPIES: u8 = 6;
/// In that byte, in place of a second path: another argument is the address of flags.
pub const HAS_FLAGS: u8 = 0xf0;
/// The number of this argument.
pub const FLAGS_ARGUMENT: usize = 2;
/// The argument with the address of the list; the next one is the number of buffers.
pub const BUFFERS_ARGUMENT: usize = 1;
/// Buffers of a call that are recorded, each as 16 bytes.
const MAX_BUFFERS: i32 = MAX_PATH / 16;

/// Where the kernel has what the program reads.
pub struct Offsets {
    /// The call's arguments among the registers of the caller.
    arguments: [i16; 6],
    /// The descriptors of a task, three structures further.
    files: i16,
    table: i16,
    descriptors: i16,
    /// The mode of an open file.
    mode: i16,
    /// Its inode, and its number, file system and device.
    inode: i16,
    number: i16,
    file_system: i16,
    device: i16,
}

impl Offsets {
    /// `arguments`: those of the caller's registers.
    pub fn of(btf: &Btf, arguments: [i16; 6]) -> Option<Offsets> {
        Some(Offsets {
            arguments,
            files: btf.offset("task_struct", "files")?,
            table: btf.offset("files_struct", "fdt")?,
            descriptors: btf.offset("fdtable", "fd")?,
            mode: btf.offset("file", "f_mode")?,
            inode: btf.offset("file", "f_inode")?,
            number: btf.offset("inode", "i_ino")?,
            file_system: btf.offset("inode", "i_sb")?,
            device: btf.offset("super_block", "s_dev")?,
        })
    }
}

/// A path of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPath {
    /// The thread.
    pub thread: u32,
    /// Just before the call returned, in nanoseconds.
    pub time: u64,
    /// The number of the call.
    pub call: u64,
    /// It is the call's second path.
    pub is_second: bool,
    /// The file that the call opened.
    pub file: Option<FileId>,
    /// Where the program has the path.
    pub address: u64,
    /// The path as the program gave it.
    pub path: Vec<u8>,
    /// Bytes of the buffers that the call lists, or those that it copied.
    pub buffer_bytes: Option<u64>,
    /// The flags of a call that has them in memory.
    pub flags: Option<u64>,
    /// The call made the file that it opened.
    pub is_made: bool,
}

/// A bit of the word with the call's number: it made the file that it opened.
const MADE: u32 = 1 << 31;

impl CallPath {
    /// Reads a record; `None`: it is cut.
    pub fn parse(record: &[u8]) -> Option<CallPath> {
        let word = |at: i16| le::u32(record, at as usize);
        let wide = |at: i16| le::u64(record, at as usize);
        let (device, inode) = (word(DEVICE)?, wide(INODE)?);
        let is_made = word(WORDS)? & MADE != 0;
        let call = (word(WORDS)? & !MADE).into();
        let rest = record.get(PATH as usize..)?;
        let mut file =
            (inode != 0).then_some(FileId { device, inode, address: wide(INODE_ADDRESS)? });
        let (is_index, mut flags) = (word(INDEX)? != 0, None);
        let (is_second, path, buffer_bytes) = match SystemCall::of_number(call) {
            Some(SystemCall::Copy { .. }) => {
                file = None;
                (false, &[][..], Some(inode).filter(|copied| *copied <= i64::MAX as u64))
            }
            Some(SystemCall::File(_, arguments)) if arguments.buffers.is_some() => {
                (false, &[][..], buffer_bytes(word(INDEX)?, rest))
            }
            Some(SystemCall::File(_, arguments))
                if is_index && arguments.flags_address.is_some() =>
            {
                flags = le::u64(rest, 0);
                (true, &[][..], None)
            }
            _ => {
                let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
                (is_index, &rest[..end], None)
            }
        };
        Some(CallPath {
            thread: word(THREAD)?,
            time: wide(TIME)?,
            call,
            is_second,
            file,
            address: wide(ADDRESS)?,
            path: path.to_vec(),
            buffer_bytes,
            flags,
            is_made,
        })
    }
}

/// The sizes of so many buffers; `None`: the list is not whole.
fn buffer_bytes(count: u32, list: &[u8]) -> Option<u64> {
    let list = list.get(..(count as usize).checked_mul(16)?)?;
    let sizes = list.chunks_exact(16).map(|buffer| le::u64(buffer, 8).unwrap_or(0));
    Some(sizes.fold(0, u64::saturating_add))
}

/// The flags of the call, from the table.
const FLAGS: u8 = 8;
/// The number of the call; then an address on the way to the opened file.
const NUMBER: u8 = 9;
/// The stack of the program.
const FRAME: u8 = 10;
const KEY_AT: i16 = -4;
const POINTER_AT: i16 = -16;

/// Facts for the program, besides the maps.
pub struct Paths {
    /// The numbers of its records.
    pub target: Target,
    pub offsets: Offsets,
}

impl Assembler {
    /// Writes a record for each path of the call whose number is in register 9. Registers 7 to 9 are changed.
    pub fn record_paths(&mut self, maps: Maps, paths: &Paths) {
        const MAP_LOOKUP: i32 = 1;
        // The number is below 512: it is an offset in the table.
        self.load_shared(1, maps, PATHS);
        self.put(0x0f, 1, NUMBER, 0, 0);
        self.put(0x71, FLAGS, 1, 0, 0);
        let has_none = self.jump_if_zero(FLAGS);
        self.put(0x62, FRAME, 0, KEY_AT, 0);
        self.load_wide(1, 1, maps.scratch, 0);
        self.copy(2, FRAME);
        self.put(0x07, 2, 0, 0, KEY_AT.into());
        self.call(MAP_LOOKUP);
        let has_no_memory = self.jump_if_zero(RESULT);
        self.copy(RECORD, RESULT);
        self.store32(WORDS, NUMBER);
        self.store_common(paths.target.number);
        self.store_opened_file(&paths.offsets);
        let copies = self.record_copied(maps, paths);
        let lists_buffers = self.record_buffers(maps, paths);
        self.record_path(maps, paths, 0);
        let has_flags = self.record_flags(maps, paths);
        self.record_path(maps, paths, 1);
        self.land(has_flags);
        self.land(lists_buffers);
        self.land(copies);
        self.land(has_none);
        self.land(has_no_memory);
    }

    /// Writes what all records begin with, but for their size.
    fn store_common(&mut self, number: u64) {
        const KTIME_GET_NS: i32 = 5;
        const GET_SMP_PROCESSOR_ID: i32 = 8;
        self.call(KTIME_GET_NS);
        self.store64(TIME, RESULT);
        self.call(GET_SMP_PROCESSOR_ID);
        self.store64(CPU, RESULT);
        self.store_current();
        self.load_wide(1, 0, number as i32, (number >> 32) as i32);
        self.store64(EVENT, 1);
    }

    /// Writes device, inode and the address of the inode of the file that the call opened, or zeros; and whether the call made it.
    fn store_opened_file(&mut self, at: &Offsets) {
        self.set(1, 0);
        self.store32(DEVICE, 1);
        self.store32(INODE, 1);
        self.store32(INODE + 4, 1);
        self.store64(INODE_ADDRESS, 1);
        self.copy(1, FLAGS);
        self.put(0x57, 1, 0, 0, OPENS.into());
        let opens_none = self.jump_if_zero(1);
        // The result of the call.
        self.load64(NUMBER, CONTEXT, 8);
        // Signed, 64 bits: less than 0.
        let failed = self.instructions.len();
        self.put(0xc5, NUMBER, 0, 0, 0);
        self.call(GET_CURRENT_TASK);
        self.load64(1, RESULT, at.files);
        self.load64(1, 1, at.table);
        self.load64(3, 1, at.descriptors);
        // Eight bytes for each descriptor.
        self.put(0x67, NUMBER, 0, 0, 3);
        self.put(0x0f, 3, NUMBER, 0, 0);
        self.read_pointer(0);
        self.copy(NUMBER, 3);
        self.mark_made(at.mode);
        self.copy(3, NUMBER);
        self.read_pointer(at.inode);
        self.store64(INODE_ADDRESS, 3);
        self.copy(NUMBER, 3);
        self.put(0x07, 3, 0, 0, at.number.into());
        self.read_kernel(RECORD, INODE, 8);
        self.copy(3, NUMBER);
        self.read_pointer(at.file_system);
        self.put(0x07, 3, 0, 0, at.device.into());
        self.read_kernel(RECORD, DEVICE, 4);
        self.land(opens_none);
        self.land(failed);
    }

    /// Marks the call if it made the file in register 3.
    fn mark_made(&mut self, mode: i16) {
        /// `FMODE_CREATED` of the kernel's `linux/fs.h`.
        const IS_CREATED: i32 = 1 << 20;
        self.put(0x07, 3, 0, 0, mode.into());
        self.read_kernel(FRAME, POINTER_AT, 4);
        self.load32(1, FRAME, POINTER_AT);
        self.put(0x57, 1, 0, 0, IS_CREATED);
        // To the place of `MADE`.
        self.put(0x67, 1, 0, 0, 31 - 20);
        self.load32(2, RECORD, WORDS);
        self.put(0x4f, 2, 1, 0, 0);
        self.store32(WORDS, 2);
    }

    /// Replaces an address in register 3 by the pointer that lies so far behind it.
    fn read_pointer(&mut self, offset: i16) {
        self.put(0x07, 3, 0, 0, offset.into());
        self.read_kernel(FRAME, POINTER_AT, 8);
        self.load64(3, FRAME, POINTER_AT);
    }

    /// Reads the kernel's memory behind register 3. Memory that cannot be read gives zeros.
    fn read_kernel(&mut self, target: u8, at: i16, size: i32) {
        const PROBE_READ_KERNEL: i32 = 113;
        self.copy(1, target);
        self.put(0x07, 1, 0, 0, at.into());
        self.set(2, size);
        self.call(PROBE_READ_KERNEL);
    }

    /// Records the result of a call that copies. Returns the jump that is taken behind that.
    fn record_copied(&mut self, maps: Maps, Paths { target, offsets }: &Paths) -> usize {
        self.copy(2, FLAGS);
        self.put(0x57, 2, 0, 0, 7);
        let other = self.instructions.len();
        // Not equal.
        self.put(0x55, 2, 0, 0, COPIES.into());
        self.load64(1, CONTEXT, 8);
        self.store64(INODE, 1);
        self.load64(1, CONTEXT, 0);
        self.load64(3, 1, offsets.arguments[0]);
        self.store_address();
        self.set(3, 0);
        self.store32(INDEX, 3);
        self.output(maps, *target);
        self.jump_over(other)
    }

    /// Ends the part of a program that a jump skips. Returns the jump that is taken behind it.
    fn jump_over(&mut self, skips: usize) -> usize {
        let jump = self.jump();
        self.land(skips);
        jump
    }

    /// Records the buffers of a call that lists them. Returns the jump that is taken behind that.
    fn record_buffers(&mut self, maps: Maps, Paths { target, offsets }: &Paths) -> usize {
        const PROBE_READ_USER: i32 = 112;
        const SIZE: u8 = NUMBER;
        self.copy(2, FLAGS);
        self.put(0x57, 2, 0, 0, 7);
        let other = self.instructions.len();
        // Not equal.
        self.put(0x55, 2, 0, 0, LISTS_BUFFERS.into());
        // The registers of the caller.
        self.load64(1, CONTEXT, 0);
        self.load64(3, 1, offsets.arguments[BUFFERS_ARGUMENT]);
        self.load64(SIZE, 1, offsets.arguments[BUFFERS_ARGUMENT + 1]);
        self.store32(INDEX, SIZE);
        self.store_address();
        // Not above.
        let is_small = self.instructions.len();
        self.put(0xb5, SIZE, 0, 0, MAX_BUFFERS);
        self.set(SIZE, MAX_BUFFERS);
        self.land(is_small);
        // 16 bytes for each buffer.
        self.put(0x67, SIZE, 0, 0, 4);
        self.copy(1, RECORD);
        self.put(0x07, 1, 0, 0, PATH);
        self.copy(2, SIZE);
        self.call(PROBE_READ_USER);
        let is_read = self.jump_if_zero(RESULT);
        self.set(SIZE, 0);
        self.land(is_read);
        self.copy(3, SIZE);
        self.output(maps, *target);
        self.jump_over(other)
    }

    /// Records the flags of a call that has them in memory. Returns the jump that is taken behind that.
    fn record_flags(&mut self, maps: Maps, Paths { target, offsets }: &Paths) -> usize {
        const PROBE_READ_USER: i32 = 112;
        const SIZE: i32 = 8;
        self.copy(2, FLAGS);
        self.put(0x57, 2, 0, 0, HAS_FLAGS.into());
        let other = self.instructions.len();
        // Not equal.
        self.put(0x55, 2, 0, 0, HAS_FLAGS.into());
        // The registers of the caller.
        self.load64(1, CONTEXT, 0);
        self.load64(3, 1, offsets.arguments[FLAGS_ARGUMENT]);
        self.store_address();
        self.set(1, 1);
        self.store32(INDEX, 1);
        self.copy(1, RECORD);
        self.put(0x07, 1, 0, 0, PATH);
        self.set(2, SIZE);
        self.call(PROBE_READ_USER);
        self.set(3, SIZE);
        let is_read = self.jump_if_zero(RESULT);
        self.set(3, 0);
        self.land(is_read);
        self.output(maps, *target);
        self.jump_over(other)
    }

    /// Stores the address in register 3, which is not aligned in the record.
    fn store_address(&mut self) {
        self.store32(ADDRESS, 3);
        self.copy(1, 3);
        self.put(0x77, 1, 0, 0, 32);
        self.store32(ADDRESS + 4, 1);
    }

    /// Writes the record with as many bytes behind its words as register 3 says.
    fn output(&mut self, maps: Maps, target: Target) {
        const RINGBUF_OUTPUT: i32 = 130;
        const NO_WAKEUP: i32 = 1;
        self.put(0x07, 3, 0, 0, PATH);
        // The record's size, in the upper half of a word.
        self.copy(1, 3);
        self.put(0x67, 1, 0, 0, 48);
        self.put(0x47, 1, 0, 0, 9);
        self.store64(0, 1);
        self.copy(1, 3);
        self.put(0x07, 1, 0, 0, -i32::from(WORDS));
        self.store32(SIZE, 1);
        self.load_wide(1, 1, maps.ring, 0);
        self.copy(2, RECORD);
        self.set(4, NO_WAKEUP);
        self.call(RINGBUF_OUTPUT);
        let stored = self.jump_if_zero(RESULT);
        self.count(maps, target.lost);
        self.land(stored);
    }

    fn record_path(&mut self, maps: Maps, Paths { target, offsets }: &Paths, index: i32) {
        const PROBE_READ_USER_STR: i32 = 114;
        let argument = if index == 0 { 7 } else { 0xf0 };
        self.copy(2, FLAGS);
        self.put(0x57, 2, 0, 0, argument);
        let none = self.jump_if_zero(2);
        // The registers of the caller.
        self.load64(1, CONTEXT, 0);
        self.set(3, 0);
        for number in 0..MAX_ARGUMENT {
            let code = (number as i32 + 1) << (4 * index);
            let other = self.instructions.len();
            // Not equal.
            self.put(0x55, 2, 0, 0, code);
            self.load64(3, 1, offsets.arguments[number]);
            self.land(other);
        }
        self.store_address();
        self.set(1, index);
        self.store32(INDEX, 1);
        self.copy(1, RECORD);
        self.put(0x07, 1, 0, 0, PATH);
        self.set(2, MAX_PATH);
        self.call(PROBE_READ_USER_STR);
        // An error is a large unsigned number.
        let is_read = self.instructions.len();
        self.put(0xb5, RESULT, 0, 0, MAX_PATH);
        self.set(RESULT, 0);
        self.land(is_read);
        self.copy(3, RESULT);
        self.output(maps, *target);
        self.land(none);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_and_a_cut_one_is_refused() {
        let mut record = vec![0; PATH as usize];
        let mut put = |at: usize, bytes: &[u8]| record[at..at + bytes.len()].copy_from_slice(bytes);
        put(THREAD as usize, &7u32.to_le_bytes());
        put(TIME as usize, &99u64.to_le_bytes());
        put(WORDS as usize, &(MADE | 257).to_le_bytes());
        put(DEVICE as usize, &5u32.to_le_bytes());
        put(INODE as usize, &77u64.to_le_bytes());
        put(ADDRESS as usize, &0x1000u64.to_le_bytes());
        put(INODE_ADDRESS as usize, &0x9000u64.to_le_bytes());
        record.extend(b"/etc/hosts\0rest");
        let path = CallPath::parse(&record).unwrap();
        assert_eq!((path.thread, path.time, path.call, path.address), (7, 99, 257, 0x1000));
        assert_eq!(path.file, Some(FileId { device: 5, inode: 77, address: 0x9000 }));
        assert_eq!(
            (&path.path[..], path.is_second, path.is_made),
            (&b"/etc/hosts"[..], false, true)
        );
        assert!((0..PATH as usize).all(|size| CallPath::parse(&record[..size]).is_none()));
        assert_eq!(path.flags, None);
        // `O_CREAT` and `O_EXCL` of `openat2`
        let mut put = |at: i16, value: u32| {
            record[at as usize..][..4].copy_from_slice(&value.to_le_bytes());
        };
        put(WORDS, 437);
        put(INDEX, 1);
        record.truncate(PATH as usize);
        let unread = CallPath::parse(&record).unwrap();
        assert_eq!((unread.flags, unread.is_second, unread.is_made), (None, true, false));
        record.extend(0o300u64.to_le_bytes());
        let flags = CallPath::parse(&record).unwrap();
        assert_eq!((flags.flags, &flags.path[..]), (Some(0o300), &b""[..]));
        let unread = CallPath::parse(&record[..PATH as usize]).unwrap();
        assert_eq!(unread.path, b"");
    }
}
