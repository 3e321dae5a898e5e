//! Where a call sends a datagram: a connected socket, too, may send to another address than that of its peer. 32 bytes:
//!
//! ```text
//! 00 the address (`struct sockaddr`), or zeros   1C u32 number of the system call, and bit 30: it names an address
//! ```

use etw_types::le;

use super::super::parse::{AF_INET, AF_INET6};
use super::assembler::{Assembler, GET_CURRENT_TASK, RECORD, RESULT};
use super::btf::Btf;
use crate::neutral::Addresses;

/// Bytes of a destination.
pub const SIZE: usize = 32;
/// Bytes of the largest address, that of version 6.
const ADDRESS: i32 = 28;
const NAMES_ADDRESS: u32 = 1 << 30;

/// Where the registers of a program have a call's number and arguments.
#[derive(Clone, Copy)]
pub struct CallAt {
    number: i16,
    arguments: [i16; 6],
}

impl CallAt {
    pub fn of(btf: &Btf) -> Option<CallAt> {
        Some(CallAt { number: btf.call_number()?, arguments: btf.call_arguments()? })
    }
}

impl Assembler {
    /// Writes the destination of the call of the thread that runs, since Linux 5.15. Registers 8 and 9 are changed.
    pub fn store_destination(&mut self, at: i16, call: CallAt) {
        const TASK_PT_REGS: i32 = 175;
        const NUMBER: u8 = 9;
        const REGISTERS: u8 = 8;
        self.call(GET_CURRENT_TASK);
        self.copy(1, RESULT);
        self.call(TASK_PT_REGS);
        self.copy(REGISTERS, RESULT);
        self.load64(NUMBER, REGISTERS, call.number);
        self.set(3, 0);
        let other = self.jump_unless(NUMBER, libc::SYS_sendto);
        self.load64(3, REGISTERS, call.arguments[4]);
        self.land(other);
        let other = self.jump_unless(NUMBER, libc::SYS_sendmsg);
        // `struct msghdr` begins with the address of the name.
        self.load64(3, REGISTERS, call.arguments[1]);
        self.read_program(at, 8);
        self.load64(3, RECORD, at);
        self.land(other);
        let other = self.jump_unless(NUMBER, libc::SYS_sendmmsg);
        self.load_names_of_batch(at, REGISTERS, call);
        self.land(other);
        self.copy(1, NUMBER);
        let names_none = self.jump_if_zero(3);
        self.put(0x47, 1, 0, 0, NAMES_ADDRESS as i32);
        self.land(names_none);
        self.store32(at + ADDRESS as i16, 1);
        self.read_program(at, ADDRESS);
    }

    /// Puts the address of the name that all messages of `sendmmsg` have into register 3: 0 if they have none. Nothing tells which message the
    /// kernel sends just now. If the first one and the last one have different names, or there are names and more than two messages, it is
    /// an address that cannot be read.
    fn load_names_of_batch(&mut self, at: i16, registers: u8, call: CallAt) {
        // `struct mmsghdr` has 64 bytes, and begins with that of `sendmsg`.
        const MESSAGE_SHIFT: i32 = 6;
        const NOT_READABLE: i32 = 1;
        self.load64(3, registers, call.arguments[1]);
        self.read_program(at, 8);
        self.load64(3, registers, call.arguments[2]);
        self.put(0x07, 3, 0, 0, -1);
        self.put(0x67, 3, 0, 0, MESSAGE_SHIFT);
        self.load64(4, registers, call.arguments[1]);
        self.put(0x0f, 3, 4, 0, 0);
        self.read_program(at + 8, 8);
        self.load64(3, RECORD, at);
        self.load64(4, RECORD, at + 8);
        self.load64(5, registers, call.arguments[2]);
        // On to the end if both are equal and 0, or equal names of up to two messages.
        self.put(0x5d, 3, 4, 2, 0);
        self.put(0x15, 3, 0, 2, 0);
        self.put(0xb5, 5, 0, 1, 2);
        self.set(3, NOT_READABLE);
    }

    fn jump_unless(&mut self, register: u8, number: libc::c_long) -> usize {
        let jump = self.instructions.len();
        // Not equal.
        self.put(0x55, register, 0, 0, number as i32);
        jump
    }

    /// Reads the program's memory behind register 3 into the record. Memory that cannot be read gives zeros.
    fn read_program(&mut self, at: i16, size: i32) {
        const PROBE_READ_USER: i32 = 112;
        self.copy(1, RECORD);
        self.put(0x07, 1, 0, 0, at.into());
        self.set(2, size);
        self.call(PROBE_READ_USER);
    }
}

/// The addresses of a datagram that a socket with these sends. The destination is zeros where it is not known; `bytes`: empty, if the kernel
/// does not show it.
pub fn of_datagram(socket: Addresses, bytes: &[u8]) -> Addresses {
    const PEER: [libc::c_long; 9] = [
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwritev,
        libc::SYS_pwritev2,
        libc::SYS_sendfile,
        libc::SYS_splice,
    ];
    let Some(call) = le::u32(bytes, ADDRESS as usize) else { return socket };
    let number = (call & !NAMES_ADDRESS) as libc::c_long;
    if call & NAMES_ADDRESS == 0 && PEER.contains(&number) {
        return socket;
    }
    let mut to = Addresses { remote: [0; 16], remote_port: 0, ..socket };
    if call & NAMES_ADDRESS == 0 {
        return to;
    }
    let family = le::u16(bytes, 0).map(i64::from);
    let of_version_4 = bytes.get(4..8).filter(|_| family == Some(AF_INET));
    let port = le::u16(bytes, 2).map_or(0, u16::swap_bytes);
    match (socket.is_v6, of_version_4, bytes.get(8..24)) {
        (false, Some(address), _) => {
            to.remote[..4].copy_from_slice(address);
            to.remote_port = port;
        }
        (true, Some(address), _) => {
            // `::ffff:0:0`
            to.remote[10..12].fill(0xff);
            to.remote[12..].copy_from_slice(address);
            to.remote_port = port;
        }
        (true, None, Some(address)) if family == Some(AF_INET6) => {
            to.remote.copy_from_slice(address);
            to.remote_port = port;
        }
        _ => {}
    }
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-23: a datagram has the destination that its call names, or that of its socket; none, if it is not known.
    #[test]
    fn a_datagram_has_the_destination_of_its_call() {
        let socket = Addresses { remote: [9; 16], remote_port: 99, ..Addresses::default() };
        let of_v6 = Addresses { is_v6: true, ..socket };
        let bytes = |family: i64, call: libc::c_long, names: u32| {
            let mut all = (1..=28).collect::<Vec<u8>>();
            all[..2].copy_from_slice(&(family as u16).to_le_bytes());
            all.extend((call as u32 | names).to_le_bytes());
            all
        };
        let remote = |socket, bytes: &[u8]| {
            let Addresses { remote, remote_port, .. } = of_datagram(socket, bytes);
            (remote.to_vec(), remote_port)
        };
        let peer = (vec![9; 16], 99);
        assert_eq!(remote(socket, &[]), peer);
        assert_eq!(remote(socket, &bytes(0, libc::SYS_write, 0)), peer);
        assert_eq!(remote(socket, &bytes(0, libc::SYS_sendto, 0)), peer);
        let port = 0x0304;
        let v4 = [&[5, 6, 7, 8][..], &[0; 12]].concat();
        assert_eq!(remote(socket, &bytes(AF_INET, libc::SYS_sendto, NAMES_ADDRESS)), (v4, port));
        let mapped = [&[0; 10][..], &[255, 255, 5, 6, 7, 8]].concat();
        let named = bytes(AF_INET, libc::SYS_sendmsg, NAMES_ADDRESS);
        assert_eq!(remote(of_v6, &named), (mapped, port));
        let named = bytes(AF_INET6, libc::SYS_sendmsg, NAMES_ADDRESS);
        assert_eq!(remote(of_v6, &named), ((9..=24).collect(), port));
        let unknown = (vec![0; 16], 0);
        assert_eq!(remote(socket, &named), unknown);
        assert_eq!(remote(socket, &bytes(0, libc::SYS_sendto, NAMES_ADDRESS)), unknown);
        assert_eq!(remote(socket, &bytes(0, libc::SYS_sendmmsg, 0)), peer);
        assert_eq!(remote(socket, &bytes(0, libc::SYS_sendmmsg, NAMES_ADDRESS)), unknown);
        assert_eq!(remote(socket, &bytes(AF_INET, libc::SYS_io_uring_enter, 0)), unknown);
    }
}
