//! Connections and the processes that they belong to, from neutral events and from the machine. OV-23.

use etw_system::neutral::*;

use crate::shaper::{Machinery, of, switch};

#[test]
fn connections_belong_to_the_process_that_made_them() {
    let mut machine = Machinery::new();
    let mut addresses = Addresses { local_port: 80, remote_port: 5000, ..Addresses::default() };
    addresses.local[..4].copy_from_slice(&[127, 0, 0, 1]);
    let state = |socket, old, new| Detail::SocketState { socket, old, new, addresses };
    machine.at(10, 0, 1, state(7, 7, 10));
    machine.at(20, 0, 50, state(8, 7, 2));
    machine.at(30, 0, 0, state(8, 2, 1));
    machine.at(31, 0, 0, state(9, 3, 1));
    let transfer = Detail::Transfer {
        socket: 8,
        protocol: 6,
        is_send: true,
        size: 99,
        addresses: Addresses::default(),
    };
    machine.at(40, 0, 50, transfer);
    machine.at(50, 0, 0, state(8, 1, 7));
    let records = machine.end();
    assert_eq!(of(&records, 0x060c)[0].u32(0), 50);
    assert_eq!(of(&records, 0x060f)[0].u32(0), 1, "the listener of the port");
    let send = of(&records, 0x060a)[0];
    assert_eq!((send.u32(0), send.u32(4), send.payload.len()), (50, 99, 40));
    assert_eq!(send.payload[12..20], [127, 0, 0, 1, 0x13, 0x88, 0, 80]);
    assert_eq!(of(&records, 0x060d)[0].u32(0), 50);
}

/// OV-23: connections and listeners that are older than the recording belong to the processes that use or close them, or that listened.
#[test]
fn older_connections_belong_to_the_processes_that_use_them() {
    let mut machine = Machinery::new();
    let addresses = Addresses { local_port: 80, remote_port: 5000, ..Addresses::default() };
    let state = |socket, old, new| Detail::SocketState { socket, old, new, addresses };
    let transfer =
        |protocol| Detail::Transfer { socket: 8, protocol, is_send: false, size: 9, addresses };
    let at = Listening { port: 80, ..Listening::default() };
    machine.at(1, 0, 0, Detail::ListenerFound { process: 1, at });
    machine.at(10, 0, 0, state(9, 3, 1));
    machine.at(20, 0, 50, transfer(6));
    machine.at(30, 0, 0, state(8, 1, 7));
    // Closed by its own process, then by the other side.
    machine.at(40, 0, 50, state(10, 1, 4));
    machine.at(50, 0, 0, state(10, 4, 7));
    machine.at(60, 0, 50, state(11, 8, 9));
    machine.at(70, 0, 0, state(11, 9, 7));
    // Nobody knows whose this was; a datagram is no connection.
    machine.at(80, 0, 50, transfer(17));
    machine.at(90, 0, 0, state(8, 1, 7));
    let records = machine.end();
    assert_eq!(of(&records, 0x060f)[0].u32(0), 1);
    let owners: Vec<u32> = of(&records, 0x060d).iter().map(|one| one.u32(0)).collect();
    assert_eq!(owners, [50, 50, 50, 0]);
}

/// OV-23: the end of a connection is that of the process which used it last, or which closes it: servers leave connections to their children.
#[test]
fn a_connection_ends_with_the_process_that_uses_it() {
    let mut machine = Machinery::new();
    let addresses = Addresses { local_port: 80, remote_port: 5000, ..Addresses::default() };
    let state = |socket, old, new| Detail::SocketState { socket, old, new, addresses };
    let transfer = |socket| Detail::Transfer {
        socket,
        protocol: 6,
        is_send: false,
        size: 9,
        addresses: Addresses::default(),
    };
    machine.at(10, 0, 1, state(7, 7, 10));
    // The child receives, and the other side closes.
    machine.at(20, 0, 0, state(8, 3, 1));
    machine.at(30, 0, 50, transfer(8));
    machine.at(40, 0, 0, state(8, 1, 7));
    // The child closes without a byte.
    machine.at(50, 0, 0, state(9, 3, 1));
    machine.at(60, 0, 50, state(9, 1, 4));
    machine.at(70, 0, 0, state(9, 4, 7));
    let records = machine.end();
    let processes = |hook| of(&records, hook).iter().map(|one| one.u32(0)).collect::<Vec<_>>();
    assert_eq!(processes(0x060f), [1, 1], "the listener accepts");
    assert_eq!(processes(0x060d), [50, 50]);
    assert_eq!(of(&records, 0x060b)[0].payload[16..20], [0x13, 0x88, 0, 80]);
}

/// OV-23: two servers listen at one port of two addresses, and a server's parent, which made its socket, has ended.
#[test]
fn an_accept_is_that_of_a_living_process_that_listens_at_the_address() {
    let mut machine = Machinery::new();
    let at = |last: u8, local_port| {
        let mut all = Addresses { local_port, remote_port: 5000, ..Addresses::default() };
        all.local[..4].copy_from_slice(&[127, 0, 0, last]);
        all
    };
    let state = |socket, old, new, addresses| Detail::SocketState { socket, old, new, addresses };
    let any = Addresses { local_port: 80, ..Addresses::default() };
    machine.at(10, 0, 1, state(7, 7, 10, any));
    machine.at(11, 0, 50, state(8, 7, 10, at(2, 80)));
    let accepted = |socket, addresses| state(socket, 3, 1, addresses);
    machine.at(20, 0, 0, accepted(20, at(1, 80)));
    machine.at(21, 0, 0, accepted(21, at(2, 80)));
    machine.at(22, 0, 0, accepted(22, at(2, 81)));
    let fork =
        Detail::Fork { process: 60, parent_process: 50, thread: 60, parent_thread: 50, soon: None };
    machine.at(30, 0, 50, fork);
    machine.at(31, 0, 0, accepted(23, at(2, 80)));
    machine.at(40, 0, 50, Detail::Exit { process: 50, thread: 50 });
    machine.at(50, 0, 50, switch(50, ThreadState::Dead, 0));
    machine.at(60, 0, 0, accepted(24, at(2, 80)));
    // The child closes the socket that it has from its parent.
    machine.at(70, 0, 60, state(8, 10, 7, at(2, 80)));
    machine.at(80, 0, 0, accepted(25, at(2, 80)));
    let records = machine.end();
    let owners: Vec<u32> = of(&records, 0x060f).iter().map(|one| one.u32(0)).collect();
    assert_eq!(owners, [1, 50, 0, 50, 60, 1]);
}

/// OV-23: connections that their process closed lose it before the other side closes them.
#[test]
fn a_process_that_ends_is_disconnected_in_its_life() {
    let mut machine = Machinery::new();
    let addresses = Addresses { local_port: 80, remote_port: 5000, ..Addresses::default() };
    let state = |socket, old, new| Detail::SocketState { socket, old, new, addresses };
    machine.at(10, 0, 50, state(8, 7, 2));
    machine.at(11, 0, 0, state(8, 2, 1));
    machine.at(12, 0, 50, state(9, 7, 2));
    // It is connected to itself.
    machine.at(13, 0, 50, state(9, 2, 3));
    machine.at(14, 0, 50, state(9, 3, 1));
    machine.at(20, 0, 50, Detail::Exit { process: 50, thread: 50 });
    machine.at(21, 0, 50, state(8, 1, 4));
    machine.at(30, 0, 50, switch(50, ThreadState::Dead, 0));
    machine.at(35, 0, 0, Detail::Retransmit { socket: 8, addresses });
    machine.at(40, 0, 0, state(8, 4, 7));
    let records = machine.end();
    assert_eq!(of(&records, 0x060e)[0].u32(0), 0, "it has ended");
    assert_eq!(of(&records, 0x060c).len(), 2);
    assert!(of(&records, 0x060f).is_empty());
    let [disconnect] = of(&records, 0x060d)[..] else { panic!("one connection was closed") };
    assert_eq!(disconnect.u32(0), 50);
    let end = of(&records, 0x0302)[0];
    assert!(disconnect.time <= end.time);
    let place = |one| records.iter().position(|record| std::ptr::eq(record, one));
    assert!(place(disconnect) < place(end));
}

/// OV-23: a program that has ended its own sending still receives what the other side had sent before the connection was closed.
#[test]
fn a_receive_behind_the_end_of_a_connection_has_its_addresses() {
    let mut machine = Machinery::new();
    let state = |socket, old, new, remote_port| {
        let addresses = Addresses { local_port: 80, remote_port, ..Addresses::default() };
        Detail::SocketState { socket, old, new, addresses }
    };
    // perf does not know addresses.
    let receive = |socket| Detail::Transfer {
        socket,
        protocol: 6,
        is_send: false,
        size: 9,
        addresses: Addresses::default(),
    };
    // The other side answers, and closes, or had closed before.
    for (socket, changes) in [(8, &[(1, 4), (4, 5), (5, 7)][..]), (9, &[(1, 8), (8, 9), (9, 7)])] {
        machine.at(10, 0, 50, state(socket, 7, 2, 5000));
        machine.at(11, 0, 0, state(socket, 2, 1, 5000));
        changes
            .iter()
            .for_each(|(old, new)| machine.at(20, 0, 50, state(socket, *old, *new, 5000)));
        machine.at(30, 0, 50, receive(socket));
    }
    // Another connection has the socket.
    machine.at(40, 0, 50, state(8, 7, 2, 6000));
    machine.at(41, 0, 0, state(8, 2, 1, 6000));
    machine.at(42, 0, 50, receive(8));
    machine.at(43, 0, 0, state(8, 1, 7, 6000));
    // The process of the first two has ended.
    machine.at(50, 0, 50, Detail::Exit { process: 50, thread: 50 });
    machine.at(51, 0, 50, switch(50, ThreadState::Dead, 0));
    machine.at(60, 0, 51, receive(9));
    let records = machine.end();
    let number = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
    let ports: Vec<(u16, u16)> = of(&records, 0x060b)
        .iter()
        .map(|one| (number(&one.payload[16..18]), number(&one.payload[18..20])))
        .collect();
    assert_eq!(ports, [(5000, 80), (5000, 80), (6000, 80), (0, 0)]);
    assert_eq!(of(&records, 0x060d).len(), 3, "each connection has one end");
}

/// OV-23: a server that listened before the recording accepts its connections.
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_is_older_than_the_recording_accepts() {
    use std::net::{TcpListener, TcpStream};

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let recording = crate::live::record_and_count("process,net", None, |_| {
        let client = TcpStream::connect(address).unwrap();
        drop((listener.accept().unwrap(), client));
    });
    let Some(recording) = recording else { return };
    if recording.losses.total() > 0 || !crate::live::is_first_namespace() {
        return eprintln!("left out: the rings were full, or a namespace");
    }
    let port = address.port().to_be_bytes();
    let accepted = of(&recording.records, 0x060f);
    let owners = accepted.iter().filter(|one| one.payload[18..20] == port).map(|one| one.u32(0));
    assert_eq!(owners.collect::<Vec<_>>(), [std::process::id()]);
}

/// OV-23: a connected socket that sends to another address than its peer's says so.
#[cfg(target_os = "linux")]
#[test]
fn a_datagram_has_the_destination_that_its_program_names() {
    use std::net::UdpSocket;
    const SIZE: usize = 1237;
    let [from, peer, other] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = |socket: &UdpSocket| socket.local_addr().unwrap();
    let (to_peer, to_other) = (address(&peer), address(&other));
    let mut has_programs = false;
    let recording =
        crate::live::record_and_count("network", None, |live: &mut crate::live::Live| {
            has_programs = live.mechanism().contains("sock_send_length");
            from.connect(to_peer).unwrap();
            from.send(&[7; SIZE]).unwrap();
            let bytes = [7u8; SIZE + 1];
            let to = libc::sockaddr_in {
                sin_family: libc::AF_INET as u16,
                sin_port: to_other.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
                sin_zero: [0; 8],
            };
            let size = size_of_val(&to) as u32;
            let socket = std::os::fd::AsRawFd::as_raw_fd(&from);
            // SAFETY: bytes and an address that live, with their sizes.
            let sent = unsafe {
                let to = std::ptr::from_ref(&to).cast();
                libc::sendto(socket, bytes.as_ptr().cast(), bytes.len(), 0, to, size)
            };
            assert_eq!(sent as usize, SIZE + 1);
        });
    let Some(recording) = recording else { return };
    if !has_programs || recording.losses.total() > 0 {
        return eprintln!("left out: needs programs in the kernel, and no losses");
    }
    let port_of = |size: usize| {
        let all = of(&recording.records, 0x080a).into_iter();
        let of_size: Vec<u16> = all
            .filter(|one| one.u32(4) as usize == size && one.u32(0) == std::process::id())
            .map(|one| u16::from_be_bytes([one.payload[16], one.payload[17]]))
            .collect();
        of_size
    };
    assert_eq!(port_of(SIZE), [to_peer.port()]);
    // Before Linux 5.15, the kernel does not show it.
    assert_eq!(port_of(SIZE + 1), [to_other.port()]);
}

/// OV-23: messages that are sent together, as the C library asks for names, go to the peer, or where all of them say.
#[cfg(target_os = "linux")]
#[test]
fn datagrams_that_are_sent_together_have_their_destinations() {
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;
    const SIZE: usize = 1301;
    let [from, peer, other] = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
    let mut name_of = [&peer, &other].map(|socket| libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port(socket).to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    });
    // Each message has the number of its batch in its size. `None`: it has no name.
    let mut send_together = |batch: usize, names: &[Option<usize>]| {
        let mut bytes = [7u8; SIZE + 10];
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: SIZE + batch };
        let mut messages: Vec<libc::mmsghdr> = names
            .iter()
            .map(|name| {
                // SAFETY: zeros are a message without name and parts.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = &raw mut part;
                message.msg_hdr.msg_iovlen = 1;
                if let Some(name) = name {
                    message.msg_hdr.msg_name = (&raw mut name_of[*name]).cast();
                    message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
                }
                message
            })
            .collect();
        let count = messages.len() as u32;
        // SAFETY: messages whose parts and names live.
        let sent = unsafe { libc::sendmmsg(from.as_raw_fd(), messages.as_mut_ptr(), count, 0) };
        assert_eq!(sent, names.len() as i32);
    };
    let mut has_programs = false;
    let recording =
        crate::live::record_and_count("network", None, |live: &mut crate::live::Live| {
            has_programs = live.mechanism().contains("sock_send_length");
            from.connect(peer.local_addr().unwrap()).unwrap();
            send_together(0, &[None, None, None]);
            send_together(1, &[Some(1)]);
            send_together(2, &[Some(1), Some(1)]);
            send_together(3, &[Some(0), Some(1)]);
            send_together(4, &[Some(1), Some(0), Some(1)]);
        });
    let Some(recording) = recording else { return };
    if !has_programs || recording.losses.total() > 0 {
        return eprintln!("left out: needs programs in the kernel, and no losses");
    }
    let (peer, other) = (port(&peer), port(&other));
    let unknown = 0;
    for (batch, expected) in [
        (0, vec![peer; 3]),
        (1, vec![other]),
        (2, vec![other; 2]),
        (3, vec![unknown; 2]),
        (4, vec![unknown; 3]),
    ] {
        let all = of(&recording.records, 0x080a).into_iter();
        let own = all
            .filter(|one| one.u32(4) as usize == SIZE + batch && one.u32(0) == std::process::id());
        let ports = own.map(|one| u16::from_be_bytes([one.payload[16], one.payload[17]]));
        assert_eq!(ports.collect::<Vec<u16>>(), expected, "batch {batch}");
    }
}
