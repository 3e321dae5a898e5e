//! The attacks of a round.

use etw_session::{Enablement, SessionConfig};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use etw_wire::frames;
use etw_wire::host_client::Client;
use etw_wire::message::{FromHost, FromProgram, Role};
use etw_wire::requests::{Request, Response, Update};

use super::{Recording, Round, check};
use crate::hostile_input::{babble, hello, scribble};
use crate::rig::*;

/// Attacks that [`Round::does`] knows.
pub const COUNT: u64 = 24;
const MOST_PROGRAMS: usize = 6;
const MOST_PASSING: usize = 3;

fn signal(process: u32, signal: i32) {
    // SAFETY: the arguments are numbers; a process of this test, which may have ended.
    unsafe { libc::kill(process as libc::pid_t, signal) };
}

impl Round {
    pub fn does(&mut self, deed: u64) {
        if self.is_told {
            eprintln!("torture: deed {deed}");
        }
        match deed {
            0..=4 => self.new_program(),
            5 | 6 => self.kill_program(),
            7 => self.freeze_program(),
            8 | 9 => self.kill_worker(),
            10 => self.freeze_worker(),
            11 | 12 => self.new_session(),
            13 => self.stop_session(),
            14 => self.kill_in_the_middle(),
            15 => self.flush_and_query(),
            16 => self.change(),
            17 => self.change_file(),
            18 => self.lease(),
            19 => self.consume(),
            20 => self.delete_file(),
            21 => self.fill_disk(),
            22 => self.be_hostile(),
            _ => self.register_many(),
        }
    }

    fn new_program(&mut self) {
        if self.programs.len() >= MOST_PROGRAMS {
            return self.end_one();
        }
        // Not at full speed: a round is to have many attacks, not one long drain.
        let pause = 200 + self.random.next(4) * 200;
        let (role, arguments) = match self.random.next(6) {
            0..=2 => ("endless", vec![pause]),
            3 => ("threads", vec![1 + self.random.next(6), 500]),
            4 => ("storm", vec![1 + self.random.next(12), 50]),
            _ => ("count", vec![300, pause]),
        };
        let mut program = self.daemon.rig.program(role, &arguments);
        if role == "endless" || role == "storm" {
            program.expect("ready");
        }
        self.programs.push((program, role));
    }

    fn end_one(&mut self) {
        let number = self.random.next(self.programs.len() as u64) as usize;
        self.end_program(number);
    }

    /// The numbers that it prints at its end must be in the files.
    pub fn end_program(&mut self, number: usize) {
        let (mut program, role) = self.programs.swap_remove(number);
        let id = program.id();
        match role {
            "endless" => {
                let said = program.kill();
                self.said.insert((id, 0), said);
            }
            "storm" => {
                while let Some(line) = program.line() {
                    let Some(words) = line.strip_prefix("child ") else { continue };
                    let (child, count) = words.split_once(' ').unwrap();
                    self.said.insert((child.parse().unwrap(), 1), count.parse().unwrap());
                }
                assert!(program.child.wait().unwrap().success());
            }
            _ => program.end(),
        }
    }

    fn kill_program(&mut self) {
        if self.programs.is_empty() {
            return;
        }
        let number = self.random.next(self.programs.len() as u64) as usize;
        if self.programs[number].1 == "endless" {
            return self.end_program(number);
        }
        let (program, _) = self.programs.swap_remove(number);
        // Children of a storm continue without it, and end by themselves.
        program.kill();
    }

    fn freeze_program(&mut self) {
        let Some((program, _)) = self.programs.last() else { return };
        let id = program.id();
        signal(id, libc::SIGSTOP);
        let length = self.random.next(120);
        std::thread::sleep(Duration::from_millis(length));
        signal(id, libc::SIGCONT);
    }

    fn kill_worker(&mut self) {
        self.daemon.kill_worker();
        self.kills += 1;
    }

    fn freeze_worker(&mut self) {
        let Some(worker) = self.daemon.worker() else { return };
        signal(worker, libc::SIGSTOP);
        let length = self.random.next(120);
        std::thread::sleep(Duration::from_millis(length));
        signal(worker, libc::SIGCONT);
    }

    fn new_session(&mut self) {
        if self.passing.len() >= MOST_PASSING {
            return self.stop_session();
        }
        let kind = self.random.next(6);
        let recording = self.begin(kind, true);
        self.passing.push(recording);
    }

    fn stop_session(&mut self) {
        if let Some(recording) = self.passing.pop() {
            self.stop(recording, false);
        }
    }

    /// Kills the worker during a controller's request.
    fn kill_in_the_middle(&mut self) {
        let delay = self.random.next(8_000);
        let what = self.random.next(4);
        let Some(worker) = self.daemon.worker() else { return };
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(delay));
            signal(worker, libc::SIGKILL);
        });
        match what {
            0 => self.new_session(),
            1 => self.stop_session(),
            2 => self.flush_and_query(),
            _ => self.change_file(),
        }
        killer.join().unwrap();
        self.kills += 1;
        self.daemon.rig.wait_until(|_| self.daemon.worker().is_some_and(|other| other != worker));
    }

    fn flush_and_query(&mut self) {
        for recording in self.steady.iter().chain(&self.passing) {
            let session = recording.name.clone();
            let answer = self.daemon.ask(&Request::Flush { session });
            assert!(matches!(answer, Response::Done { .. }), "{answer:?}");
            check::balanced(&self.query(&recording.name).unwrap());
        }
    }

    fn change(&mut self) {
        let buffers = 256 + self.random.next(2000) as u32;
        let timer = self.random.next(3) * 10;
        for recording in &self.steady {
            let update = Update {
                buffers: Some(buffers),
                flush_timer_ms: Some(timer as u32),
                ..Update::default()
            };
            let request = Request::Update { session: recording.name.clone(), update };
            match self.daemon.ask(&request) {
                // At most in sixteen steps.
                Response::Done { .. } | Response::Error { status: 87, .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Continues the first session in another file, if its mode allows it.
    fn change_file(&mut self) {
        let name = self.name("other");
        let file = self.daemon.rig.file(&format!("{name}.etl"));
        let Some(recording) = self.steady.first_mut() else { return };
        let update = Update { file: Some(file.clone()), ..Update::default() };
        let request = Request::Update { session: recording.name.clone(), update };
        match self.daemon.ask(&request) {
            Response::Done { .. } => recording.files.push(file),
            // The change was complete when the worker was killed.
            Response::Error { status: 161, .. } => recording.files.push(file),
            Response::Error { status: 50, .. } => {}
            other => panic!("{other:?}"),
        }
    }

    fn lease(&mut self) {
        if self.owner.is_some() {
            return self.end_owner();
        }
        let mut owner = self.daemon.rig.program("lease", &[]);
        owner.expect("ready");
        self.owner = Some(owner);
    }

    pub fn end_owner(&mut self) {
        let Some(owner) = self.owner.take() else { return };
        owner.kill();
        self.daemon.rig.wait_until(|_| self.query("leased").is_none());
        let file = self.daemon.rig.file("leased.etl");
        let is_whole = || etw_etl::read::TraceFile::open(&file).is_ok_and(|f| f.is_finalised());
        self.daemon.rig.wait_until(|_| is_whole());
        check::read("leased", &[file]);
    }

    fn consume(&mut self) {
        let recording = match self.passing.iter().find(|other| other.start.real_time) {
            Some(recording) => recording.name.clone(),
            None if self.passing.len() >= MOST_PASSING => return self.stop_session(),
            None => {
                let name = self.name("live");
                let start = SessionConfig {
                    flush_timer: Some(Duration::from_millis(5)),
                    independent: true,
                    ..SessionConfig::default()
                };
                let recording = self.start(&name, SessionConfig { real_time: true, ..start });
                self.passing.push(recording);
                name
            }
        };
        let kind = self.random.next(3);
        self.consumers.extend(Consumer::new(&self.daemon.rig, &recording, kind));
    }

    fn delete_file(&mut self) {
        if let Some(Recording { files, .. }) = self.passing.last_mut() {
            // A session in memory has no file. A worker that takes over later creates the file anew, with the remaining events.
            files.retain(|file| std::fs::remove_file(file).is_err());
        }
    }

    /// Starts a session whose disk is full soon; the others are not affected.
    fn fill_disk(&mut self) {
        if !self.has_small_disk || self.passing.len() >= MOST_PASSING {
            return;
        }
        let name = self.name("full");
        let file = self.daemon.rig.file("small").join(format!("{name}.etl"));
        let start =
            SessionConfig { buffer_size: 8192, buffer_count: 64, ..SessionConfig::default() };
        let start = SessionConfig { independent: true, file: Some(file), ..start };
        let start =
            SessionConfig { name, enable: vec![Enablement::new(provider(), all())], ..start };
        match self.daemon.ask(&Request::start(start.clone())) {
            Response::Session(_) | Response::Error { status: 183, .. } => {
                // Only the daemon sees its file.
                self.passing.push(Recording { name: start.name.clone(), start, files: Vec::new() });
            }
            // The disk was full before it started.
            Response::Error { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    fn be_hostile(&mut self) {
        for round in 0..20 {
            babble(&self.daemon.rig, &mut self.random, round);
        }
        for round in 0..3 {
            scribble(&self.daemon.rig, &mut self.random, round);
        }
    }

    /// Registers hundreds of providers at once, each of which is answered.
    fn register_many(&mut self) {
        let (channel, _) = hello(&self.daemon.rig, Role::Program);
        for number in 1..=500 {
            let id = etw::Guid::from_u128(u128::from(number));
            let message = FromProgram::Register { number, id, traits: b"\x06\0Doc\0" };
            channel.send(&message.to_bytes(), &[]).unwrap();
            let answer = channel.receive_within(LIMIT).unwrap();
            assert_eq!(FromHost::read(&answer.bytes), Some(FromHost::Registered { number }));
        }
    }
}

/// A reader of a session, or one that does not read.
pub enum Consumer {
    Reading(std::thread::JoinHandle<()>),
    Stalled(UnixStream),
}

impl Consumer {
    /// Kinds: 0 reads, 1 does not, 2 disconnects at once.
    fn new(rig: &Rig, session: &str, kind: u64) -> Option<Consumer> {
        let client = Client::connect(&rig.runtime()).unwrap();
        let request = Request::Consume { session: session.to_owned(), start_time: None };
        let mut descriptors = client.ask_for(&request).unwrap().descriptors;
        let stream = UnixStream::from(descriptors.pop().unwrap());
        match kind {
            0 => Some(Consumer::Reading(std::thread::spawn(|| read(stream)))),
            1 => Some(Consumer::Stalled(stream)),
            _ => None,
        }
    }

    pub fn end(self) {
        match self {
            Consumer::Reading(reading) => reading.join().unwrap(),
            Consumer::Stalled(stream) => drop(stream),
        }
    }
}

/// Reads whole frames up to the session's end, or the worker's.
fn read(mut from: UnixStream) {
    let (mut watermark, mut slices_watermark) = (i64::MIN, i64::MIN);
    loop {
        let mut head = [0; 8];
        if from.read_exact(&mut head).is_err() {
            return;
        }
        let kind = u32::from_le_bytes(head[..4].try_into().unwrap());
        let size = u32::from_le_bytes(head[4..].try_into().unwrap()) as usize;
        assert!(size <= frames::MAX_FRAME, "a frame of {size} bytes");
        let mut bytes = vec![0; size];
        if from.read_exact(&mut bytes).is_err() {
            return;
        }
        match kind {
            frames::WATERMARK | frames::SLICES_WATERMARK => {
                let time = i64::from_le_bytes(bytes.try_into().unwrap());
                let before = match kind {
                    frames::WATERMARK => &mut watermark,
                    _ => &mut slices_watermark,
                };
                assert!(time >= *before, "a watermark goes back");
                *before = time;
            }
            frames::END => return,
            frames::START | frames::POSITION | frames::BUFFER | frames::LOST | frames::SLICE => {}
            other => panic!("a frame of kind {other}"),
        }
    }
}
