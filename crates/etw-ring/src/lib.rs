//! Event pools in shared memory: programs write events without locks or system calls, a host drains them in order of time, and
//! every event that does not arrive is counted.
//!
//! Layers, from the bottom:
//!
//! * `proto`: the atomic words and their transitions. Its documentation is the state diagram and the ordering argument;
//!   loom runs the same functions.
//! * [`layout`]: the memory layout, an ABI between processes; [`prefix`]: the parts of a record before the payload.
//! * [`Memory`], [`RawClock`], [`Barrier`]: the operating system.
//! * [`Writer`]: a provider's pool. [`Writer::write`], or [`Writer::reserve`] → stamp → put → commit; [`Writer::intern`].
//! * [`Control`]: the control page, in which the host publishes admission and consumed positions.
//! * [`Reader`]: the host's side of a pool. [`Reader::drain`], then, when the records are stored, [`Reader::advance`].
//!
//! Only the provider writes the pool, and only the host writes the control page, so neither can harm the other: the provider maps the
//! control page read-only; the host reads the pool with `pread` or atomic copies, and checks the copy.
//!
//! ```
//! use etw_ring::*;
//!
//! // The host makes the control, the provider the pool; here they are one process.
//! let control = Control::create(
//!     Memory::heap(Control::SIZE)?, RawClock::best(), Barrier::best(true))?;
//! control.set_admission(0, Admission { open: true, largest_size: 65535, ..Default::default() });
//!
//! let options = PoolOptions::default();
//! let pool = Memory::heap(options.memory_size())?;
//! let writer = Writer::new(pool, control.memory().clone(), options, 0)?;
//! let mut reader = Reader::new(control, Source::Mapped(writer.segment(0).unwrap().clone()))?;
//!
//! let request = Request { sessions: 1, payload_size: 5, event_size: 85, ..Default::default() };
//! writer.write(&request, |event| event.put(b"hello")).unwrap();
//!
//! let mut seen = Vec::new();
//! let options = DrainOptions { patience: PATIENCE, ..Default::default() };
//! reader.drain(&options, |record| seen.push(record.payload.to_vec()));
//! reader.advance();
//! assert_eq!(seen, [b"hello"]);
//! assert_eq!(reader.ledger().attempted[0], 1);
//! # std::io::Result::Ok(())
//! ```
//!
//! # Loss
//!
//! For each session slot, once everything is drained: attempted = drained + late + Σ lost(cause), where *attempted* and
//! *lost* are the writers' counters ([`Reader::ledger`]) and the rest the host's. Records carry sequence numbers, and the
//! gaps in them prove losses without the counters ([`Reader::gaps`]).
//!
//! # Limits
//!
//! * A pool has at most 16 segments of 16 MiB; 4096 threads own chunks, further ones share overflow chunks.
//! * The largest record is [`MAX_PAYLOAD_SIZE`](layout::MAX_PAYLOAD_SIZE); 65535 metadata sites, 4 MiB of metadata.
//! * If a handler leaves a write with `siglongjmp`, all further events of its thread go through overflow chunks, and the next drain
//!   waits up to [`PATIENCE`].
//! * A `vfork` child shares memory and thread-local storage with its parent, which waits meanwhile: its events count as the parent's.
//!   The pool refuses the writes of a child made by `fork`, or by `clone` without `CLONE_VM`; the child must attach anew. If a handler
//!   inside a write calls `clone` directly, which runs no fork handlers, the write faults when it continues in the child.
//! * In a library loaded with `dlopen`, a thread's first use of thread-local storage may allocate (glibc). Build such a library with
//!   the initial-exec model, or let its threads write once outside of handlers.
//! * Only 64-bit little-endian targets share memory between processes.
#![cfg_attr(loom, allow(dead_code, unused_imports))]
#![deny(unsafe_op_in_unsafe_fn)]

#[cfg(target_endian = "big")]
compile_error!("the pool's layout is little-endian");

#[cfg(not(loom))]
pub mod classic;
pub mod layout;
#[cfg(not(loom))]
pub mod prefix;
mod proto;
mod sync;

#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
mod drain_together;
#[cfg(not(loom))]
mod reader;
#[cfg(not(loom))]
mod room;
#[cfg(not(loom))]
mod site;
#[cfg(not(loom))]
mod sys;
#[cfg(not(loom))]
mod writer;

#[cfg(not(loom))]
pub use control::{Admission, Bell, Control, LARGEST_EVENT_SIZE};
#[cfg(not(loom))]
pub use drain_together::{
    Bounds, DrainedTogether, LastBatch, Participant, advance_together, drain_together,
};
pub use layout::Cause;
#[cfg(not(loom))]
pub use reader::{
    BUSY_PATIENCE, DrainOptions, Drained, Ledger, PATIENCE, Reader, Record, RecordBytes,
    RecordSink, RegistrationLosses, Run, SiteTable, Source,
};
#[cfg(not(loom))]
pub use room::{FillRoom, Piece, Room};
#[cfg(not(loom))]
pub use site::{MAX_SITE_SIZE, SiteCache};
#[cfg(not(loom))]
pub use sys::{Barrier, Memory, Pages, RawClock, Region, copy_past_caches, process_generation};
#[cfg(all(target_os = "linux", not(loom)))]
pub use sys::{check_pool_fd, is_thread_busy, process_thread_alive};
#[cfg(not(loom))]
pub use writer::{
    MAX_ATTACHMENTS, NotUsual, Payload, PoolOptions, Refused, Request, Reservation, Thread,
    ThreadState, Writer, abandon_begun, commit_begun, replace_thread_word, thread_word,
    try_begin_usual, try_this_thread, try_write_usual,
};
