//! Which events of the system this process may record, and by which mechanism.

use std::io;

use crate::exit_statuses::ExitStatuses;
use crate::flags::Flag;
use crate::kernel_image::{KernelSymbols, NO_KERNEL, has_kernel};
use crate::own_rights::{OwnRights, Refusal, check_proc, hidden_processes, paranoid};
use crate::perf::{Attribute, Event, Target, TraceFiles, Tracepoint, bpf};
use crate::system_facts::online_cpus;
use crate::wanted_events::{ADDITIONS, StartError, TRACEPOINTS, is_optional, needs_of};

/// Whether a class of events can be recorded, and by which mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// logman's word for the class, or xperf's.
    pub class: &'static str,
    /// The mechanism, or `None`: the class cannot be recorded.
    pub mechanism: Option<String>,
    /// The missing part, and the right that gives it.
    pub missing: Option<String>,
    /// The remedy if it cannot be recorded.
    pub remedy: String,
}

/// The rights of this process, as far as classes need them.
struct Rights {
    /// Side records of the whole machine.
    machine: io::Result<Event>,
    /// Those of own programs.
    own: io::Result<Event>,
    files: io::Result<TraceFiles>,
    /// Tracepoints that programs can record.
    programs: Vec<Tracepoint>,
    /// The condition on which programs could record more.
    condition: Option<String>,
    cpu: u16,
}

/// Looks at all classes that this crate records.
pub fn availability() -> Vec<Availability> {
    let recorded = Flag::recorded().copied();
    let none = |missing: String, remedy: &str| {
        let row = |flag: Flag| {
            let (missing, remedy) = (Some(missing.clone()), remedy.to_owned());
            Availability { class: flag.name(), mechanism: None, missing, remedy }
        };
        recorded.clone().map(row).collect()
    };
    if let Err(error) = check_proc() {
        return none(error.reason().to_owned(), error.remedy());
    }
    let Some(cpu) = online_cpus().first().copied() else {
        return none(StartError::Cpus.to_string(), "mount /sys or /proc");
    };
    let own = Attribute::side().without_kernel();
    let rights = Rights {
        machine: Event::open(&Attribute::side(), Target::Machine, cpu),
        own: Event::open(&own, Target::Tree(std::process::id()), cpu),
        files: TraceFiles::open(),
        programs: bpf::permitted(),
        condition: bpf::unmet_condition(),
        cpu,
    };
    recorded.map(|flag| rights.class(flag)).collect()
}

impl Rights {
    fn class(&self, flag: Flag) -> Availability {
        let points = TRACEPOINTS.iter().find(|(of, _)| *of == flag).map(|(_, points)| *points);
        let (mechanism, missing) = match (&self.machine, points) {
            (Ok(_), None) => {
                let missing = has_additions(flag).then(|| self.refused(Tracepoint::FileFault));
                let missing = missing.flatten().map(|why| format!("files and kinds: {why}"));
                let missing = match flag {
                    Flag::IMAGE => missing_images(),
                    Flag::PROCESS => missing_facts(&self.programs),
                    _ => missing,
                };
                let by_program =
                    flag == Flag::PROFILE && self.programs.contains(&Tracepoint::CpuSample);
                let mechanism = match by_program {
                    true => {
                        "BPF program at perf's timer (without call stacks perf events), whole machine"
                    }
                    false => "perf events, whole machine",
                };
                (Some(mechanism.to_owned()), missing)
            }
            (Ok(_), Some(points)) => self.tracepoints(flag, points),
            (Err(error), points) => self.own(flag, points.is_none(), &Refusal::of(error)),
        };
        let remedy = match &self.machine {
            Ok(_) => self.remedy(flag),
            Err(error) => match Refusal::of(error) {
                Refusal::Rights { .. } if points.is_some() => self.remedy(flag),
                refusal => refusal.remedy().to_owned(),
            },
        };
        Availability { class: flag.name(), mechanism, missing, remedy }
    }

    /// The remedy for a class of tracepoints.
    fn remedy(&self, flag: Flag) -> String {
        format!("run as root, or give the host {}", needs_of(flag, self.condition.as_deref()))
    }

    /// Why perf does not record a tracepoint.
    fn refused(&self, point: Tracepoint) -> Option<String> {
        let files = match &self.files {
            Ok(files) => files,
            Err(error) => {
                let right = match OwnRights::read().may_record_tracepoints(paranoid()) {
                    true => "",
                    false => " and give CAP_PERFMON",
                };
                return Some(format!(
                    "tracefs cannot be read ({error}); run as root, or mount it with your group (gid=){right}"
                ));
            }
        };
        let event = files
            .tracepoint(point)
            .and_then(|(id, _)| Event::open(&Attribute::tracepoint(id), Target::Machine, self.cpu));
        event.err().map(|error| format!("{}: {error}", point.name()))
    }

    /// The mechanism of a class of tracepoints, and what it lacks.
    fn tracepoints(
        &self,
        flag: Flag,
        points: &[(Tracepoint, u16)],
    ) -> (Option<String>, Option<String>) {
        const SWITCHES: &str =
            "perf switch records, whole machine, without priorities, wait reasons and call stacks";
        const PROGRAMS: &str = "BPF programs, whole machine, without call stacks";
        let first = points[0].0;
        if let Some(why) = self.refused(first) {
            return match flag {
                _ if self.programs.contains(&first) => {
                    (Some(format!("{PROGRAMS}{}", uncounted(points, &|_| false))), Some(why))
                }
                Flag::SWITCH => (Some(SWITCHES.to_owned()), Some(why)),
                _ => (None, Some(why)),
            };
        }
        let is_absent = |point: &Tracepoint| {
            self.files.as_ref().is_ok_and(|files| files.tracepoint(*point).is_err())
        };
        let absent = points.iter().map(|(point, _)| *point).filter(is_absent);
        let absent: Vec<&str> = absent.map(Tracepoint::name).collect();
        let missing = format!("this kernel has no {}", absent.join(", "));
        let mechanism = tracepoint_mechanism(points, &self.programs);
        (Some(mechanism), (!absent.is_empty()).then_some(missing))
    }

    /// The mechanism of a class without the right to record the machine.
    fn own(
        &self,
        flag: Flag,
        is_plain: bool,
        refusal: &Refusal,
    ) -> (Option<String>, Option<String>) {
        let right = match refusal {
            Refusal::Rights { paranoid } => {
                let level = paranoid.map_or("unknown".to_owned(), |level| level.to_string());
                format!(
                    "other programs need root, CAP_PERFMON or kernel.perf_event_paranoid at most 0 (it is {level})"
                )
            }
            refusal => format!("other programs cannot be recorded: {refusal}"),
        };
        match &self.own {
            Ok(_) if flag == Flag::COUNTERS => {
                let mechanism = "/proc, of your own command those processes that outlive it";
                (Some(mechanism.to_owned()), Some(right))
            }
            Ok(_) if is_plain || flag == Flag::SWITCH => {
                let has_kernel = paranoid().is_some_and(|level| level <= 1);
                let lacks = own_lacks(flag, has_kernel);
                (Some(format!("perf events, your own command only{lacks}")), Some(right))
            }
            Ok(_) => (None, Some(format!("it needs the whole machine: {}", refusal.reason()))),
            Err(_) => (None, Some(refusal.reason())),
        }
    }
}

/// The facts that events of one command lack. `has_kernel`: it may see frames in the kernel.
fn own_lacks(flag: Flag, has_kernel: bool) -> &'static str {
    match (flag, has_kernel) {
        (Flag::SWITCH, true) => ", without the other thread, priorities and wait reasons",
        (Flag::SWITCH, false) => {
            ", without the other thread, priorities, wait reasons and call stacks"
        }
        (Flag::PROFILE, false) => ", without what happens in the kernel",
        (flag, _) if has_additions(flag) => ", without the files and kinds of faults",
        _ => "",
    }
}

/// Facts about processes that the kernel does not say to this user. `programs`: tracepoints that programs can record.
fn missing_facts(programs: &[Tracepoint]) -> Option<String> {
    let statuses = match programs.contains(&Tracepoint::ExitStatus) {
        true => None,
        false => ExitStatuses::open(false).err(),
    };
    let missing: Vec<String> = hidden_processes().into_iter().chain(statuses).collect();
    (!missing.is_empty()).then(|| missing.join("; "))
}

/// Images that this user may not see.
fn missing_images() -> Option<String> {
    let kernel = (!has_kernel(&KernelSymbols::read().images)).then(|| NO_KERNEL.to_owned());
    let (all, hidden) = running_programs();
    let others = hidden_images(all, &hidden, OwnRights::read().has_ptrace());
    let missing: Vec<String> = kernel.into_iter().chain(others).collect();
    (!missing.is_empty()).then(|| missing.join("; "))
}

/// The number of processes, and those whose images the kernel does not show.
fn running_programs() -> (usize, Vec<u32>) {
    let folders = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = folders.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let processes: Vec<u32> = processes.collect();
    let is_refused = |process: &u32| {
        let opened = std::fs::File::open(format!("/proc/{process}/maps"));
        opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
    };
    (processes.len(), processes.iter().copied().filter(is_refused).collect())
}

/// A remark on the processes that run already and have no images. With the right to see them, something else hides them, such as the user
/// namespace of a container.
fn hidden_images(all: usize, hidden: &[u32], has_right: bool) -> Option<String> {
    let first = hidden.first()?;
    let count = hidden.len();
    let why = match has_right {
        true => format!("in spite of CAP_SYS_PTRACE, /proc/{first}/maps cannot be read"),
        false => "they need CAP_SYS_PTRACE".to_owned(),
    };
    Some(format!("{count} of {all} processes that run already have no images: {why}"))
}

/// Whether tracepoints add facts to the events of a class.
fn has_additions(flag: Flag) -> bool {
    ADDITIONS.iter().any(|(of, _)| *of == flag)
}

/// How tracepoints are recorded. `programs`: those that programs can record.
fn tracepoint_mechanism(points: &[(Tracepoint, u16)], programs: &[Tracepoint]) -> String {
    let mut needed = points.iter().map(|(point, _)| *point).filter(|point| !is_optional(*point));
    let confused = confused_calls(points);
    match needed.all(|point| programs.contains(&point)) {
        true => {
            let uncounted = uncounted(points, &bpf::is_counted);
            format!(
                "BPF programs (with call stacks perf tracepoints{confused}), whole machine{uncounted}"
            )
        }
        false => format!("perf tracepoints{confused}, whole machine"),
    }
}

/// A remark on system calls that perf records. Their records do not say how a call was made. Registers would not show it either: processors
/// with FRED keep `rcx` and `r11` in all calls.
fn confused_calls(points: &[(Tracepoint, u16)]) -> &'static str {
    let has_calls = points.iter().any(|(point, _)| *point == Tracepoint::SyscallEnter);
    match has_calls && cfg!(target_arch = "x86_64") {
        true => ", which take calls by int 0x80 in programs of 64 bits for others",
        false => "",
    }
}

/// A remark on the tracepoints of programs whose events may be missing without being counted. Those of switches are known by the chain of
/// each CPU's threads. `is_counted`: the kernel counts the tracepoint beside its program.
fn uncounted(points: &[(Tracepoint, u16)], is_counted: &dyn Fn(Tracepoint) -> bool) -> String {
    let points = points.iter().map(|(point, _)| *point);
    let is_known = |point| point == Tracepoint::Switch || is_optional(point) || is_counted(point);
    let points = points.filter(|point| !is_known(*point));
    let names: Vec<&str> = points.map(Tracepoint::name).collect();
    match &names[..] {
        [] => String::new(),
        names => format!("; not counted if the kernel leaves them out: {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_images_are_counted_and_explained() {
        assert_eq!(hidden_images(9, &[], false), None);
        let text = hidden_images(9, &[1, 7], false).unwrap();
        assert_eq!(
            text,
            "2 of 9 processes that run already have no images: they need CAP_SYS_PTRACE"
        );
        // A right that is there is not missing.
        let text = hidden_images(9, &[1], true).unwrap();
        assert!(text.starts_with("1 of 9 ") && text.contains("/proc/1/maps"), "{text}");
        assert!(!text.contains("need"), "{text}");
        let (all, hidden) = running_programs();
        assert!(all > hidden.len() && !hidden.contains(&std::process::id()), "{all} {hidden:?}");
    }

    /// OV-24: the check names the facts that events of one command lack, as a recording does.
    #[test]
    fn events_of_one_command_lack_facts() {
        assert_eq!(own_lacks(Flag::PROFILE, true), "");
        assert!(own_lacks(Flag::PROFILE, false).contains("in the kernel"));
        assert!(own_lacks(Flag::SWITCH, true).ends_with("priorities and wait reasons"));
        assert!(own_lacks(Flag::SWITCH, false).ends_with("and call stacks"));
        for (flag, _) in ADDITIONS {
            assert!(own_lacks(*flag, true).contains("files and kinds"));
        }
        assert_eq!(own_lacks(Flag::PROCESS, false), "");
    }

    #[test]
    fn tracepoints_without_a_counter_are_named() {
        let remark = |flag: Flag| {
            let (_, points) = TRACEPOINTS.iter().find(|(of, _)| *of == flag).unwrap();
            let all: Vec<Tracepoint> = points.iter().map(|(point, _)| *point).collect();
            let by_perf = tracepoint_mechanism(points, &[]);
            assert!(by_perf.starts_with("perf tracepoints"), "{by_perf}");
            let all = tracepoint_mechanism(points, &all);
            assert_eq!(by_perf.contains("int 0x80"), all.contains("int 0x80"));
            all
        };
        for counted in [Flag::SWITCH, Flag::INTERRUPT, Flag::DPC, Flag::DISK] {
            assert!(!remark(counted).contains("not counted"), "{counted:?}");
        }
        let sends = "not counted if the kernel leaves them out: sock/sock_send_length, sock/sock_recv_length";
        assert!(remark(Flag::NETWORK).ends_with(sends), "{}", remark(Flag::NETWORK));
        assert!(remark(Flag::READY).contains("sched_waking"));
        assert!(remark(Flag::FILE_IO).contains("raw_syscalls/sys_enter"));
        let is_confused = |flag| remark(flag).contains("int 0x80");
        assert_eq!(
            [Flag::FILE_IO, Flag::SYSCALL].map(is_confused),
            [cfg!(target_arch = "x86_64"); 2]
        );
        assert!(!is_confused(Flag::DISK));
        // Without tracefs, perf counts nothing beside the programs.
        let (_, points) = TRACEPOINTS.iter().find(|(of, _)| *of == Flag::DISK).unwrap();
        assert!(uncounted(points, &|_| false).contains("block/block_rq_issue"));
    }
}
