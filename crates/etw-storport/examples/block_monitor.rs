//! Records what the machine's disks do as storage events: each request from the kernel's block tracepoints, where this user may
//! have them (root, as a rule), else the counters of `/sys/block` four times a second.
//!
//! `cargo run -p etw-storport --example block_monitor -- [--seconds N] OUT.etl`; ends after N seconds (default 10).
//! Exit status 3: neither can be read.
use etw::{Keyword, Level, Session};
use etw_storport::{
    Address, Device, EventChannel, EventLevel, EventOpcode, MiniportEvent, PROVIDER_ID, Parameter,
    keyword, log_byte_stream, log_event,
};
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A tracing instance of our own, removed in the end.
struct Instance(PathBuf);

impl Instance {
    fn new() -> std::io::Result<Instance> {
        let name = format!("openetw-{}", std::process::id());
        let path = Path::new("/sys/kernel/tracing/instances").join(name);
        std::fs::create_dir(&path)?;
        let instance = Instance(path);
        for event in ["block_rq_issue", "block_rq_complete"] {
            std::fs::write(instance.0.join("events/block").join(event).join("enable"), "1")?;
        }
        Ok(instance)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        for event in ["block_rq_issue", "block_rq_complete"] {
            let _ = std::fs::write(self.0.join("events/block").join(event).join("enable"), "0");
        }
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// One request, as a line of the trace describes it:
/// `… block_rq_complete: 254,0 WS () 123 + 8 none,0,0 [0]`, `… block_rq_issue: 254,0 WS 4096 () 123 + 8 none,0,0 [dd]`.
#[derive(Debug, PartialEq)]
struct Request {
    is_issue: bool,
    major: u8,
    minor: u8,
    flags: String,
    sector: u64,
    sectors: u32,
    error: i32,
}

fn parse(line: &str) -> Option<Request> {
    let (is_issue, rest) = match line.split_once("block_rq_issue: ") {
        Some((_, rest)) => (true, rest),
        None => (false, line.split_once("block_rq_complete: ")?.1),
    };
    let mut words = rest.split_ascii_whitespace();
    let (major, minor) = words.next()?.split_once(',')?;
    let flags = words.next()?.to_owned();
    let (before, range) = rest.split_once(") ")?;
    let _ = before;
    let (sector, range) = range.split_once(" + ")?;
    let sectors = range.split(' ').next()?;
    let error = rest.rsplit_once('[')?.1.trim_end().trim_end_matches(']');
    Some(Request {
        is_issue,
        major: major.parse::<u32>().ok()? as u8,
        minor: minor.parse::<u32>().ok()? as u8,
        flags,
        sector: sector.parse().ok()?,
        sectors: sectors.parse().ok()?,
        error: if is_issue { 0 } else { error.parse().ok()? },
    })
}

/// `u64 sector, u32 sectors, i32 error, 8 bytes of flags`
fn bytes_of(request: &Request) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(24);
    bytes.extend(request.sector.to_le_bytes());
    bytes.extend(request.sectors.to_le_bytes());
    bytes.extend(request.error.to_le_bytes());
    let mut flags = [0; 8];
    let count = request.flags.len().min(8);
    flags[..count].copy_from_slice(&request.flags.as_bytes()[..count]);
    bytes.extend(flags);
    bytes
}

fn event_of(request: &Request) -> MiniportEvent<'static> {
    let event = match request.is_issue {
        true => {
            MiniportEvent { opcode: EventOpcode::START, ..MiniportEvent::new(1, "request issued") }
        }
        false => MiniportEvent {
            opcode: EventOpcode::STOP,
            ..MiniportEvent::new(2, "request completed")
        },
    };
    let (channel, level) = match request.error {
        0 => (EventChannel::DIAGNOSTIC, EventLevel::VERBOSE),
        _ => (EventChannel::OPERATIONAL, EventLevel::ERROR),
    };
    MiniportEvent { channel, level, keywords: keyword::IO, ..event }
}

fn trace(instance: &Instance, end: Instant) -> std::io::Result<u64> {
    let mut pipe = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(0o4000) // O_NONBLOCK
        .open(instance.0.join("trace_pipe"))?;
    let device = Device::new(0, "block");
    let (mut logged, mut line) = (0, String::new());
    let mut chunk = vec![0; 64 << 10];
    while Instant::now() < end {
        let count = match pipe.read(&mut chunk) {
            Ok(0) => 0,
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        if count == 0 {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        line.push_str(&String::from_utf8_lossy(&chunk[..count]));
        while let Some((first, rest)) = line.split_once('\n') {
            if let Some(request) = parse(first) {
                let unit = Address { path: request.major, target: request.minor, lun: 0 };
                let event = event_of(&request);
                let bytes = bytes_of(&request);
                let status = log_byte_stream(Some(&device), Some(&unit), event, &bytes);
                logged += u64::from(status.0 == 0);
            }
            line = rest.to_owned();
        }
    }
    Ok(logged)
}

/// Requests and sectors read, requests and sectors written, requests in flight, ms of work; of each disk.
fn counters() -> std::io::Result<HashMap<String, Vec<u64>>> {
    let mut all = HashMap::new();
    for entry in std::fs::read_dir("/sys/block")? {
        let entry = entry?;
        let Ok(text) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let numbers: Vec<u64> =
            text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect();
        if numbers.len() >= 10 {
            let of = [0, 2, 4, 6, 8, 9].map(|index| numbers[index]);
            all.insert(entry.file_name().to_string_lossy().into_owned(), of.to_vec());
        }
    }
    Ok(all)
}

fn count(end: Instant) -> std::io::Result<u64> {
    let mut before = counters()?;
    let mut logged = 0;
    while Instant::now() < end {
        std::thread::sleep(Duration::from_millis(250));
        let now = counters()?;
        for (number, (name, new)) in now.iter().enumerate() {
            let Some(old) = before.get(name).filter(|old| *old != new) else { continue };
            let since = |index: usize| new[index].wrapping_sub(old[index]);
            let parameters = [
                Parameter::new("Reads", since(0)),
                Parameter::new("SectorsRead", since(1)),
                Parameter::new("Writes", since(2)),
                Parameter::new("SectorsWritten", since(3)),
                Parameter::new("InFlight", new[4]),
                Parameter::new("BusyMs", since(5)),
                Parameter::default(),
                Parameter::default(),
            ];
            let event = MiniportEvent {
                keywords: keyword::IO | keyword::PERFORMANCE,
                ..MiniportEvent::new(3, "disk counters")
            };
            let device = Device::new(number as u32, name);
            let status = log_event(Some(&device), None, event, None, &parameters);
            logged += u64::from(status.0 == 0);
        }
        before = now;
    }
    Ok(logged)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut seconds, mut out) = (10.0, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => seconds = arguments.next().ok_or("--seconds needs a number")?.parse()?,
            _ => out = Some(argument),
        }
    }
    let out = out.ok_or("usage: block_monitor [--seconds N] OUT.etl")?;
    let session = Session::builder("block").file(&out).start()?;
    session.enable(&PROVIDER_ID, Level::VERBOSE, Keyword(0))?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    let (how, logged) = match Instance::new() {
        Ok(instance) => ("tracepoints", trace(&instance, end)),
        Err(error) => {
            eprintln!("block tracepoints: {error}; counters instead");
            ("counters", count(end))
        }
    };
    let logged = match logged {
        Ok(logged) => logged,
        Err(error) => {
            eprintln!("{how}: {error}");
            std::process::exit(3);
        }
    };
    let ledger = session.stop()?.ledger;
    println!("{logged} events by {how}, {} lost, in {out}", ledger.lost_total());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_trace() {
        let line =
            "  dd-12 [001] d..1. 5.6: block_rq_complete: 254,0 WS () 123456 + 8 none,0,0 [-5]";
        let request = parse(line).unwrap();
        assert_eq!((request.sector, request.sectors, request.error), (123456, 8, -5));
        assert_eq!((request.major, request.minor, request.is_issue), (254, 0, false));
        let line =
            "dd-12 [001] d..1. 5.6: block_rq_issue: 254,16 RA 4096 () 7 + 8 none,0,0 [dd (x)]";
        let request = parse(line).unwrap();
        assert_eq!((request.sector, request.is_issue, request.minor), (7, true, 16));
        assert_eq!(parse("nothing"), None);
        assert_eq!(bytes_of(&request).len(), 24);
    }
}
