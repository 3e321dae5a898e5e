//! Losses that a pool's writers counted, mapped to the session of a slot.

use etw_ring::{Cause as RingCause, Reader};
use etw_session::{Cause, Ledger, Loss};

use super::pool::AttachedPool;
use super::slots::SlotCounters;

/// The largest count that one entry adds to a ledger: the sums of a hostile program's numbers must not overflow.
const LARGEST_COUNT: u64 = u64::MAX >> 16;

/// Events of one cause that were lost in a pool.
pub(super) struct RingLoss {
    cause: Cause,
    registration: Option<u32>,
    count: u64,
}

fn session_cause(cause: RingCause) -> Cause {
    match cause {
        RingCause::NoChunk => Cause::NoChunk,
        RingCause::SessionFull => Cause::SessionFull,
        RingCause::TooLarge => Cause::TooLarge,
        RingCause::TooLargeForSession => Cause::TooLargeForSession,
        RingCause::AllOrNone => Cause::AllOrNone,
        _ => Cause::Abandoned,
    }
}

/// Losses of a slot since `base`. `is_end`: no write is in flight any more, and attempts that did not arrive are late.
pub(super) fn losses_since(
    reader: &Reader,
    slot: usize,
    base: &SlotCounters,
    is_end: bool,
) -> Vec<RingLoss> {
    let now = SlotCounters::now(reader, slot);
    let mut losses = Vec::new();
    let mut counted = 0u64;
    for (index, cause) in RingCause::ALL.into_iter().enumerate() {
        let cause = session_cause(cause);
        // A program may write any numbers: one that falls counts as zero.
        let count = now.lost[index].saturating_sub(base.lost[index]);
        counted = counted.saturating_add(count);
        // The losses of registrations are part of `count`, whatever the program claims.
        let mut left = count;
        for (registration, lost) in &now.by_registration {
            let before = base.by_registration.iter().find(|(number, _)| number == registration);
            let before = before.map_or(0, |(_, lost)| lost[index]);
            let count = u64::from(lost[index].wrapping_sub(before)).min(left);
            left -= count;
            losses.push(RingLoss { cause, registration: Some(*registration), count });
        }
        losses.push(RingLoss { cause, registration: None, count: left });
    }
    let mut late = now.late - base.late;
    if is_end {
        let arrived = (now.drained - base.drained) + late;
        let attempted = now.attempted.saturating_sub(base.attempted);
        // An honest program leaves at most one write in flight for each of its threads.
        late += attempted.saturating_sub(arrived.saturating_add(counted));
    }
    losses.push(RingLoss { cause: Cause::Late, registration: None, count: late });
    losses
}

/// Counts losses of a pool in a ledger.
pub(super) fn count(ledger: &mut Ledger, losses: &[RingLoss], pool: &AttachedPool) {
    for RingLoss { cause, registration, count } in losses {
        let count = (*count).min(LARGEST_COUNT);
        ledger.attempted = ledger.attempted.saturating_add(count);
        let provider = registration.and_then(|number| pool.registrations.provider_of(number));
        ledger.count_lost(Loss {
            cause: *cause,
            provider: provider.map(|p| p.id),
            process_id: Some(pool.process_id),
            count,
        });
    }
}
