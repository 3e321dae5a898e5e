//! The end of a host that nobody needs any more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use etw_wire::Channel;
use etw_wire::host_client::{Client, ClientError};
use etw_wire::requests::{Request, Response};
use etw_wire::runtime_directory::Directory;
use etwd::{Host, HostOptions};

use crate::rig::*;

/// Regression: a controller that came while an idle host ended lost its request, or got no greeting, and failed.
#[test]
fn an_idle_host_ends_without_losing_a_request() {
    let rig = Rig::without_host();
    let directory = rig.runtime();
    let is_done = AtomicBool::new(false);
    let asks = &|start: u64| {
        let mut answers = 0u32;
        // Pauses around the host's idle time, so that some requests come at its end.
        for number in start.. {
            if is_done.load(Ordering::Acquire) {
                break;
            }
            let answer = Client::connect(&directory).and_then(|client| client.ask(&Request::List));
            match answer {
                Ok(Response::Sessions { .. }) => answers += 1,
                Err(ClientError::NoHost(_)) => {}
                other => panic!("{other:?}"),
            }
            std::thread::sleep(Duration::from_micros(500 + number * 137 % 3000));
        }
        answers
    };
    let answers = std::thread::scope(|scope| {
        let askers = [0, 7].map(|start| scope.spawn(move || asks(start)));
        for _ in 0..200 {
            let idle_exit = Some(Duration::from_millis(2));
            let options = HostOptions { idle_exit, ..HostOptions::new(rig.runtime()) };
            let host = Host::start(options).unwrap();
            host.wait();
        }
        is_done.store(true, Ordering::Release);
        askers.map(|asker| asker.join().unwrap())
    });
    assert!(answers.iter().all(|answers| *answers > 0), "{answers:?}");
}

/// A request is sent after the greeting alone, so a client may look for a host until one greets or none listens.
#[test]
fn a_client_looks_again_if_a_connection_ends_before_the_greeting() {
    let rig = Rig::without_host();
    let directory = rig.runtime();
    Directory::open_or_make(&directory).unwrap();
    let socket = directory.join("socket");
    let listener = Channel::listen(&socket).unwrap();
    let client = std::thread::spawn(move || Client::connect(&directory).map(drop));
    for _ in 0..3 {
        // The socket's backlog has the next one of the same client.
        rig.wait_until(|_| Channel::accept(std::os::fd::AsFd::as_fd(&listener)).is_ok());
    }
    std::fs::remove_file(&socket).unwrap();
    drop(listener);
    assert!(matches!(client.join().unwrap(), Err(ClientError::NoHost(_))));
}
