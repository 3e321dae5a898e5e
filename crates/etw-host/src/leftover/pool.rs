//! The committed records of a killed program's pool, drained into further buffers.
//!
//! The loop is not the engine's round. Nobody writes the pool any more, so there is no admission, no watermark and no timer; and the session's
//! enablements are gone, so each record is stored.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use etw_ring::{Cause as RingCause, Control, DrainOptions, Reader, SiteTable, Source};
use etw_session::{
    EnableInfo, EnableProperties, FileEnd, HostFacts, LogMode, Session, SessionConfig,
};
use etw_types::{BufferHeader, LogFileMode};

use super::places::{Places, Position};
use super::{Leftover, copy};
use crate::clock::ClockMap;
use crate::facts::{SessionFacts, SessionTime};
use crate::part::{PartHeader, SegmentSpan};
use crate::registrations::{Origin, Registrations};

/// A pool to be drained, and the session that takes its records.
pub(super) struct PoolDrain {
    reader: Reader,
    sites: SiteTable,
    registrations: Registrations,
    clock: ClockMap,
    time: SessionTime,
    process_id: u32,
    session: Session<Vec<u8>>,
    batch: u64,
    /// The last buffer before the pool's.
    last: Position,
}

impl PoolDrain {
    /// Opens the pool of a `.part` file; `None` if it has no segment. `last`: the last buffer of the session so far.
    pub fn open(
        file: &File,
        header: &PartHeader,
        control: Control,
        facts: &SessionFacts,
        last: Position,
    ) -> io::Result<Option<PoolDrain>> {
        let mut registrations = Registrations::default();
        for (number, provider) in &header.registrations {
            registrations.set(*number, provider.clone());
        }
        let mut segments = header.segments.iter().map(|&SegmentSpan { offset, size }| {
            Ok::<_, io::Error>(Source::Mapped(Arc::new(copy(file, offset, size as usize)?)))
        });
        let Some(first) = segments.next() else { return Ok(None) };
        let mut reader = Reader::new(control, first?)?;
        for source in segments {
            reader.add_segment(source?)?;
        }
        let mut session = session_of(facts, header.buffer_size, last.sequence)?;
        // Above all message numbers that the program gave: the last one is not known.
        session.number_messages_after(reader.ledger().attempted[0] as u32);
        Ok(Some(PoolDrain {
            sites: reader.site_table(),
            reader,
            registrations,
            clock: ClockMap::between(header.first_pair, header.last_pair, header.raw_clock),
            time: SessionTime::of(facts),
            process_id: facts.process_id,
            session,
            batch: 0,
            last,
        }))
    }

    /// Drains the pool into buffers behind the last one.
    pub fn run(mut self, places: &Places, leftover: &mut Leftover) -> io::Result<()> {
        let ended =
            DrainOptions { ended: true, until: Some(u64::MAX - 1), ..DrainOptions::default() };
        let (time, process_id) = (self.time, self.process_id);
        loop {
            let PoolDrain { reader, sites, registrations, clock, session, .. } = &mut self;
            let mut lookup = |id: u32| sites.get(id).map(<[u8]>::to_vec);
            let damaged = &mut leftover.damaged;
            let drained = reader.drain_while(&ended, |record| {
                let time = time.time(clock, record.time);
                let origin =
                    Origin { time, process_id, thread_id: record.tid, ..Origin::default() };
                let Some(event) = registrations.event(record, &origin, &mut lookup) else {
                    *damaged += 1;
                    return ControlFlow::Continue(());
                };
                let size = event.size(&[event.stack]);
                if session.has_room(event.cpu, size) == Err(etw_session::Cause::SessionFull) {
                    return ControlFlow::Break(());
                }
                if session.enabled(&event.provider).is_none() {
                    // The program captured stacks only if its session wanted them.
                    let properties = EnableProperties::STACK_TRACE;
                    let info = EnableInfo { properties, ..EnableInfo::default() };
                    session.enable(event.provider, info);
                }
                // An event that is larger than any can be is invalid.
                *damaged += u64::from(session.push(&event).is_err());
                ControlFlow::Continue(())
            });
            reader.advance();
            leftover.damaged += drained.hostile;
            if !drained.stopped {
                self.session.stop(0);
                self.take_buffers(places, leftover);
                break;
            }
            // Full buffers make space; if none is full, all are taken.
            self.take_buffers(places, leftover);
            if drained.records == 0 {
                self.session.flush(0);
                self.take_buffers(places, leftover);
            }
        }
        let ledger = self.reader.ledger();
        leftover.lost += RingCause::ALL.into_iter().map(|cause| ledger.lost(cause, 0)).sum::<u64>();
        Ok(())
    }

    fn take_buffers(&mut self, places: &Places, leftover: &mut Leftover) {
        self.batch += 1;
        self.session.seal(self.batch);
        while let Some(full) = self.session.take_full() {
            let mut bytes = full.bytes().to_vec();
            bytes[..BufferHeader::SIZE].copy_from_slice(&full.header());
            match places.next(self.last.place) {
                Some(place) => {
                    self.last.place = place;
                    leftover.buffers.insert(place, bytes);
                }
                None => leftover.lost += full.events(),
            }
            self.session.stored(full);
        }
    }
}

/// A session with buffers enough for any pool: they are taken as they are filled.
fn session_of(
    facts: &SessionFacts,
    buffer_size: u32,
    last_sequence: i64,
) -> io::Result<Session<Vec<u8>>> {
    let header = &facts.header;
    let config = SessionConfig {
        buffer_size,
        mode: LogMode::Append,
        per_processor: !header.log_file_mode.contains(LogFileMode::NO_PER_PROCESSOR_BUFFERING),
        ..SessionConfig::default()
    };
    let append_to = Some(FileEnd { slots: 1, last_sequence });
    let host = HostFacts { append_to, ..HostFacts::default() };
    let cpus = header.number_of_processors.clamp(1, 4096) as usize;
    let buffers = (0..cpus + 2).map(|_| vec![0; buffer_size as usize]).collect();
    Session::new(&config, host, buffers)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}
