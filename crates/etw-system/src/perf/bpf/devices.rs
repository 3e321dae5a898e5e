//! Records of programs for disks and sockets, whose words are the kernel's own numbers:
//!
//! ```text
//! disks    00 u32 major   04 u32 minor   08 u64 sector   10 u32 bytes   14 u32 operation and flags
//! state    00 u64 socket  08 u32 old     0C u32 new      10 addresses
//! bytes    00 u64 socket  08 i32 bytes or an error       0C u16 protocol, u16 0   10 addresses   44 u32 flags   48 u16 type of the socket, u16 0
//!          4C the destination of what is sent ([`destinations`]); absent before Linux 5.15
//! again    00 u64 socket  08 addresses   3C i32 error; absent: the kernel runs the tracepoint only for segments that were sent
//!
//! addresses
//! 00 u16 family, u16 0   04 be16 other port   06 u16 own port   08 be16 own port of a socket that may be closed, u16 0
//! 0C other address of version 4   10 own one   14 other address of version 6   24 own one
//! ```

use etw_types::le;

use super::super::Tracepoint;
use super::super::parse::{AF_INET, AF_INET6, PROTOCOL_UDP, transferred};
use super::destinations;
use crate::neutral::{Addresses, Detail, DiskOperation, DiskRequest};

/// Tracepoints whose records are read here.
const POINTS: [Tracepoint; 8] = [
    Tracepoint::DiskQueue,
    Tracepoint::DiskIssue,
    Tracepoint::DiskRequeue,
    Tracepoint::DiskComplete,
    Tracepoint::SocketState,
    Tracepoint::SocketSend,
    Tracepoint::SocketReceive,
    Tracepoint::Retransmit,
];

/// `SOCK_RAW`
const RAW: u16 = 3;

/// Whether the records of a tracepoint are read here.
pub fn is_device(point: Tracepoint) -> bool {
    POINTS.contains(&point)
}

/// Reads the words of a record. `point`: the tracepoint's number. `None`: another tracepoint, a socket of another kind, a call that
/// transferred nothing, or a record that is cut.
pub fn detail<'a>(point: u64, words: &[u8]) -> Option<Detail<'a>> {
    let point = POINTS.into_iter().find(|one| *one as u64 == point)?;
    let socket = le::u64(words, 0)?;
    Some(match point {
        Tracepoint::DiskQueue => Detail::DiskQueue(disk_request(words)?),
        Tracepoint::DiskIssue => Detail::DiskIssue(disk_request(words)?),
        Tracepoint::DiskRequeue => Detail::DiskRequeue(disk_request(words)?),
        Tracepoint::DiskComplete => Detail::DiskComplete(disk_request(words)?),
        Tracepoint::SocketState => Detail::SocketState {
            socket,
            old: le::u32(words, 8)?,
            new: le::u32(words, 12)?,
            addresses: addresses(words.get(16..)?)?,
        },
        Tracepoint::Retransmit => {
            let error = le::u32(words, 0x3c).unwrap_or(0);
            (error == 0).then_some(())?;
            Detail::Retransmit { socket, addresses: addresses(words.get(8..)?)? }
        }
        _ => {
            let is_send = point == Tracepoint::SocketSend;
            let (result, flags) = (le::u32(words, 8)? as i32, le::u32(words, 0x44)?);
            // A raw socket gets what others have sent or received, too.
            (le::u32(words, 0x48)? as u16 != RAW).then_some(())?;
            let (protocol, size) = transferred(le::u16(words, 12)?.into(), is_send, result, flags)?;
            let mut addresses = addresses(words.get(16..)?)?;
            if is_send && i64::from(protocol) == PROTOCOL_UDP {
                let destination = words.get(0x4c..).unwrap_or_default();
                addresses = destinations::of_datagram(addresses, destination);
            }
            Detail::Transfer { socket, protocol, is_send, size, addresses }
        }
    })
}

/// `linux/blk_types.h`: operations in the lowest byte since Linux 4.10, flags above.
fn disk_request(words: &[u8]) -> Option<DiskRequest> {
    /// `REQ_RAHEAD`
    const READ_AHEAD: u32 = 1 << 19;
    let (major, minor, flags) = (le::u32(words, 0)?, le::u32(words, 4)?, le::u32(words, 20)?);
    let operation = match flags & 0xff {
        0 => DiskOperation::Read,
        1 => DiskOperation::Write,
        2 => DiskOperation::Flush,
        _ => DiskOperation::Other,
    };
    let sector = le::u64(words, 8)?;
    Some(DiskRequest {
        device: major << 20 | minor & 0xf_ffff,
        // A flush has no sector.
        sector: if operation == DiskOperation::Flush { 0 } else { sector },
        size: le::u32(words, 16)?,
        operation,
        is_background: flags & READ_AHEAD != 0,
    })
}

fn addresses(bytes: &[u8]) -> Option<Addresses> {
    let bytes = bytes.get(..0x34)?;
    let family = i64::from(le::u16(bytes, 0)?);
    if ![AF_INET, AF_INET6].contains(&family) {
        return None;
    }
    let is_v6 = family == AF_INET6;
    let address = |at: usize| {
        let mut all = [0; 16];
        let size = if is_v6 { 16 } else { 4 };
        all[..size].copy_from_slice(bytes.get(at..at + size)?);
        Some(all)
    };
    let (remote, local) = if is_v6 { (0x14, 0x24) } else { (0x0c, 0x10) };
    let port = |at| le::u16(bytes, at).map(u16::swap_bytes);
    let own_port = le::u16(bytes, 6)?;
    Some(Addresses {
        is_v6,
        local: address(local)?,
        remote: address(remote)?,
        local_port: if own_port == 0 { port(8)? } else { own_port },
        remote_port: port(4)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn read<'a>(point: Tracepoint, words: &[u32]) -> Option<Detail<'a>> {
        let whole = bytes(words);
        let size = whole.len();
        assert!((0..size).all(|size| detail(point as u64, &whole[..size]).is_none()), "{point:?}");
        detail(point as u64, &whole)
    }

    #[test]
    fn requests_of_disks_are_read() {
        let write = [254, 16, 0x1000, 1, 4096, 1 | 1 << 11];
        let Some(Detail::DiskIssue(request)) = read(Tracepoint::DiskIssue, &write) else {
            panic!()
        };
        assert_eq!((request.device, request.sector), (254 << 20 | 16, 0x1_0000_1000));
        assert_eq!((request.size, request.operation), (4096, DiskOperation::Write));
        assert!(!request.is_background);
        let flush = [8, 0, u32::MAX, u32::MAX, 0, 2 | 1 << 18];
        let Some(Detail::DiskComplete(request)) = read(Tracepoint::DiskComplete, &flush) else {
            panic!()
        };
        assert_eq!((request.sector, request.operation), (0, DiskOperation::Flush));
        let ahead = [8, 0, 1, 0, 512, 1 << 19];
        let Some(Detail::DiskIssue(request)) = read(Tracepoint::DiskIssue, &ahead) else {
            panic!()
        };
        assert_eq!((request.operation, request.is_background), (DiskOperation::Read, true));
    }

    #[test]
    fn sockets_have_both_addresses() {
        // 10.0.0.1 port 5000 to 10.0.0.2 port 53.
        let ports = u32::from(53u16.swap_bytes()) | 5000 << 16;
        let ends = [2, ports, 0x8813, 0x0200_000a, 0x0100_000a, 1, 2, 3, 4, 5, 6, 7, 8];
        let transfer = [&[7, 9, 99, 17][..], &ends, &[0, 2]].concat();
        let Some(Detail::Transfer { socket, protocol, is_send, size, addresses }) =
            read(Tracepoint::SocketSend, &transfer)
        else {
            panic!()
        };
        assert_eq!((socket, protocol, is_send, size), (7 | 9 << 32, 17, true, 99));
        assert_eq!(addresses.local[..5], [10, 0, 0, 1, 0]);
        assert_eq!(addresses.remote[..5], [10, 0, 0, 2, 0]);
        assert_eq!((addresses.local_port, addresses.remote_port), (5000, 53));
        let mut closed = [&[7, 9, 1, 7][..], &ends].concat();
        (closed[4], closed[5]) = (10, ports & 0xffff);
        let Some(Detail::SocketState { old: 1, new: 7, addresses, .. }) =
            read(Tracepoint::SocketState, &closed)
        else {
            panic!()
        };
        assert_eq!((addresses.is_v6, addresses.local_port), (true, 5000));
        assert_eq!((addresses.remote[0], addresses.local[0]), (1, 5));
        let mut again = [&[7, 9][..], &ends].concat();
        let is_again = |words: &[u32]| {
            let found = detail(Tracepoint::Retransmit as u64, &bytes(words));
            matches!(found, Some(Detail::Retransmit { .. }))
        };
        assert!(is_again(&again));
        again.push(0);
        assert!(is_again(&again));
        again[15] = -11i32 as u32;
        assert!(!is_again(&again), "it was not sent");
        // Nothing was received, and other families, protocols and types.
        for (at, value) in [(2, -5i32 as u32), (3, 1), (4, 1), (17, 2), (18, 3)] {
            let mut other = transfer.clone();
            other[at] = value;
            assert!(detail(Tracepoint::SocketReceive as u64, &bytes(&other)).is_none(), "{at}");
        }
        assert!(detail(Tracepoint::Waking as u64, &bytes(&transfer)).is_none());
    }
}
