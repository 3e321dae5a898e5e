//! Which events of the system this process may record, and by which mechanism.

use crate::flags::Flag;
use crate::perf::{Attribute, Event, Target, TraceFiles, Tracepoint, bpf};
use crate::system_facts::online_cpus;
use crate::wanted_events::{TRACEPOINTS, paranoid};

/// Whether a class of events can be recorded, and by which mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// logman's word for the class, or xperf's.
    pub class: &'static str,
    /// The mechanism, or `None`: the class cannot be recorded.
    pub mechanism: Option<String>,
    /// The missing part, and the right that gives it.
    pub missing: Option<String>,
}

/// Looks at all classes that this crate records.
pub fn availability() -> Vec<Availability> {
    let cpu = online_cpus()[0];
    let side = Event::open(&Attribute::side(), Target::Machine, cpu);
    let own =
        Event::open(&Attribute::side().without_kernel(), Target::Tree(std::process::id()), cpu);
    let files = TraceFiles::open();
    let programs = bpf::permitted();
    let level = paranoid().map_or("unknown".to_owned(), |level| level.to_string());
    let recorded = Flag::ALL.iter().filter(|flag| flag.is_recorded);
    recorded
        .map(|flag| {
            let points = TRACEPOINTS.iter().find(|(of, _)| of == flag).map(|(_, points)| *points);
            let one = |mechanism: Option<String>, missing: Option<String>| Availability {
                class: flag.name(),
                mechanism,
                missing,
            };
            let right = format!(
                "other programs need root, CAP_PERFMON or kernel.perf_event_paranoid at most 0 (it is {level})"
            );
            const SWITCHES: &str = "perf switch records, whole machine, without priorities, wait reasons and call stacks";
            let switches = (*flag == Flag::SWITCH).then(|| SWITCHES.to_owned());
            match (&side, points) {
                (Ok(_), None) => one(Some("perf events, whole machine".to_owned()), None),
                (Ok(_), Some(points)) => match &files {
                    Ok(files) => {
                        let names = points.iter().map(|(point, _)| *point);
                        let absent: Vec<&str> = names
                            .filter(|point| files.tracepoint(*point).is_err())
                            .map(|point| point.name())
                            .collect();
                        let open = files.tracepoint(points[0].0).and_then(|(id, _)| {
                            Event::open(&Attribute::tracepoint(id), Target::Machine, cpu)
                        });
                        match open {
                            Ok(_) => one(
                                Some(tracepoint_mechanism(points, &programs).to_owned()),
                                (!absent.is_empty())
                                    .then(|| format!("this kernel has no {}", absent.join(", "))),
                            ),
                            Err(error) => {
                                one(switches, Some(format!("{}: {error}", points[0].0.name())))
                            }
                        }
                    }
                    Err(error) => one(
                        switches,
                        Some(format!(
                            "tracefs cannot be read ({error}); run as root, or mount it with your group (gid=)"
                        )),
                    ),
                },
                (Err(_), points) => match &own {
                    Ok(_) if points.is_none() || *flag == Flag::SWITCH => {
                        one(Some("perf events, your own command only".to_owned()), Some(right))
                    }
                    Ok(_) => one(None, Some(right)),
                    Err(error) => one(
                        None,
                        Some(format!(
                            "perf_event_open: {error} (kernel.perf_event_paranoid is {level}); run as root or with CAP_PERFMON"
                        )),
                    ),
                },
            }
        })
        .collect()
}

/// How tracepoints are recorded. `programs`: those that programs can record.
fn tracepoint_mechanism(points: &[(Tracepoint, u16)], programs: &[Tracepoint]) -> &'static str {
    match points.iter().all(|(point, _)| programs.contains(point)) {
        true => "BPF programs (with call stacks perf tracepoints), whole machine",
        false => "perf tracepoints, whole machine",
    }
}
