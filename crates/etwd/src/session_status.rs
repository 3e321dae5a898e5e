//! The status of a session, as controllers receive it.

use etw_host::engine::BufferedSession;
use etw_session::{Cause, EnableInfo, Ledger, Loss, State};
use etw_types::{Guid, LogFileMode, SYSTEM_EVENTS, UNIVERSAL_SYSTEM};
use etw_wire::requests::{MAX_LOSSES, SessionStatus, milliseconds};

use crate::global_session::{GlobalSession, Hosted};

/// The status of the session with number `slot`. `ledger` includes the losses of pools. `with_losses`: also losses by cause,
/// provider and process, and refusals.
pub(crate) fn status(
    slot: usize,
    hosted: &Hosted,
    session: &BufferedSession,
    ledger: &Ledger,
    with_losses: bool,
) -> SessionStatus {
    let (global, header) = (&hosted.host, &hosted.facts.header);
    let state = match session.state() {
        State::Running => match hosted.failing() {
            Some(failing) => &format!("failing: {failing}"),
            None if hosted.is_full() && session.is_unread() => "full: no reader",
            None if hosted.is_full() && !session.is_independent() => {
                "full: other sessions lose events, too"
            }
            None if hosted.is_full() => "full",
            None => "running",
        },
        State::FileFull if !session.is_independent() => {
            "file-full: other sessions lose events, too"
        }
        State::FileFull => "file-full",
        State::Stopped => "stopped",
    };
    SessionStatus {
        name: global.config.name.clone(),
        guid: global.config.guid,
        id: slot as u32 + 1,
        state: state.to_owned(),
        file: global.config.file.clone(),
        // The file's header has the mode of the session's start.
        mode: match global.is_real_time {
            true => header.log_file_mode | LogFileMode::REAL_TIME,
            false => header.log_file_mode.without(LogFileMode::REAL_TIME),
        },
        compressed: hosted.facts.compression(),
        max_size: global.config.mode.policy().max_size.unwrap_or(0),
        file_full: session.is_file_full(),
        buffer_size: session.buffer_size(),
        buffers: hosted.buffer_count(),
        free_buffers: session.free_buffers() as u32,
        flush_timer_ms: global.config.flush_timer.map_or(0, milliseconds),
        clock: global.config.clock,
        owner: global.owner,
        leased: global.lease.is_some(),
        consumers: global.consumers.len() as u32,
        buffers_written: session.facts().buffers,
        buffers_lost: session.facts().buffers_lost,
        real_time_buffers_lost: session.unread_buffers(),
        attempted: ledger.attempted,
        stored: ledger.stored,
        overwritten: ledger.overwritten,
        filtered: ledger.filtered,
        lost: ledger.lost_total(),
        without_stack: session.facts().without_stack,
        losses: if with_losses { losses(ledger) } else { Vec::new() },
        refused: global.refusals.count,
        refusals: if with_losses { global.refusals.rows.clone() } else { Vec::new() },
        enabled: asked_for(hosted, session)
            .map(|(id, info)| (id.to_string(), info.clone()))
            .collect(),
        names: global.names.iter().map(|of| (of.name.clone(), of.ids.clone())).collect(),
        error: hosted.error.clone().or_else(|| hosted.cut.clone()),
        system: global.config.system.clone(),
        notes: hosted.notes.iter().cloned().chain(gap_note(global, ledger)).collect(),
    }
}

/// A note for a session that lost events of the system behind their source: their source takes them for stored.
fn gap_note(global: &GlobalSession, ledger: &Ledger) -> Option<String> {
    global.config.system.as_ref()?;
    let causes = [Cause::Disk, Cause::SessionFull, Cause::AllOrNone];
    let what = "processes, threads and images that began or ended in a gap of the trace have no record of it, also where an id has come to another \
                process; lost events (RT_LostEvent) mark the gaps";
    let rundowns = match global.rundowns.any() {
        true => ", and rundowns behind those of the disk have what lived then",
        false => "",
    };
    causes.iter().any(|cause| ledger.lost(*cause) > 0).then(|| format!("{what}{rundowns}"))
}

/// The enablements that controllers asked for. Each session of the system's events also has providers of this software's own, which
/// its sources enable.
pub(crate) fn asked_for<'s>(
    hosted: &'s Hosted,
    session: &'s BufferedSession,
) -> impl Iterator<Item = (&'s Guid, &'s EnableInfo)> {
    let is_system = hosted.host.config.system.is_some();
    session.enablements().filter(move |(id, info)| {
        let is_own = [SYSTEM_EVENTS, UNIVERSAL_SYSTEM].contains(*id);
        !(is_system && is_own && **info == EnableInfo::default())
    })
}

/// The largest losses; the others are added up by cause, so that the status fits in a message.
fn losses(ledger: &Ledger) -> Vec<Loss> {
    let mut losses: Vec<Loss> = ledger.losses().collect();
    losses.sort_by_key(|loss| std::cmp::Reverse(loss.count));
    for rest in losses.split_off(losses.len().min(MAX_LOSSES)) {
        let sum = Loss { provider: None, process_id: None, ..rest };
        let is_sum = |loss: &&mut Loss| Loss { count: sum.count, ..**loss } == sum;
        match losses.iter_mut().find(is_sum) {
            Some(loss) => loss.count += sum.count,
            None => losses.push(sum),
        }
    }
    losses
}
