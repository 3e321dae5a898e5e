//! The last walks of threads: the outer frames of a thread's next stack are mostly the same ones.
//!
//! A step follows from the address, stack pointer and frame pointer of its frame, and from the words of the stack that its rule reads. If
//! all of them are those of an earlier walk, so is the caller's frame, and no rule is needed. A walk that meets a known frame therefore
//! only compares words, from there to the thread's first frame.

use super::rule::{Frame, Word};

/// Threads whose last walk is kept.
const THREADS: usize = 256;

/// The part of a frame from which the next step of a walk follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub address: u64,
    pub stack_pointer: u64,
    pub frame_pointer: Option<u64>,
    /// The address is that of an instruction that runs, not one behind a call.
    pub is_exact: bool,
}

/// A step of a walk whose rule reads nothing but its state and these words: the caller's address and frame pointer. `None`: it reads none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub state: State,
    pub caller: Option<Word>,
    pub frame_pointer: Option<Word>,
}

impl Step {
    /// Whether the words are in a stack.
    fn is_in(&self, frame: &Frame<'_>) -> bool {
        let has = |word: Option<Word>| word.is_none_or(|one| frame.read(one.at) == Some(one.value));
        has(self.caller) && has(self.frame_pointer)
    }
}

/// A thread, and the images of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Walker {
    pub thread: u32,
    pub version: u64,
}

/// The last walk of a thread.
#[derive(Debug)]
struct LastWalk {
    walker: Walker,
    /// The outermost frame first, which ends the walk.
    steps: Vec<Step>,
}

/// The last walks of some threads.
#[derive(Debug, Default)]
pub(super) struct LastWalks(Vec<Option<LastWalk>>);

/// A search in the last walk of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Search {
    walker: Walker,
    /// Steps further in are those of frames that this walk has left.
    left: usize,
}

impl LastWalks {
    fn place(walker: Walker) -> usize {
        walker.thread as usize % THREADS
    }

    fn steps(&self, walker: Walker) -> &[Step] {
        match self.0.get(Self::place(walker)) {
            Some(Some(last)) if last.walker == walker => &last.steps,
            _ => &[],
        }
    }

    /// Begins a walk.
    pub fn search(&self, walker: Walker) -> Search {
        Search { walker, left: self.steps(walker).len() }
    }

    /// The step of the last walk with this state, as a number for [`follow`](LastWalks::follow).
    pub fn find(&self, search: &mut Search, state: &State) -> Option<usize> {
        let steps = self.steps(search.walker);
        while let Some(inner) = search.left.checked_sub(1)
            && steps[inner].state.stack_pointer < state.stack_pointer
        {
            search.left = inner;
        }
        let at = search.left.checked_sub(1)?;
        (steps[at].state == *state).then_some(at)
    }

    /// Adds the addresses from a step to the thread's first frame. `false`: they are not those of this stack.
    pub fn follow(
        &self,
        search: &Search,
        at: usize,
        frame: &Frame<'_>,
        out: &mut Vec<u64>,
    ) -> bool {
        let steps = &self.steps(search.walker)[..=at];
        let before = out.len();
        for step in steps.iter().rev() {
            out.push(step.state.address);
            if !step.is_in(frame) {
                out.truncate(before);
                return false;
            }
        }
        true
    }

    /// Keeps a walk that reached the thread's first frame: the steps that were made, innermost first, and behind them those of the last
    /// walk from `joined` on. `None` in place of a step: it cannot be compared, so that nothing further in is kept.
    pub fn keep(&mut self, walker: Walker, made: &[Option<Step>], joined: Option<usize>) {
        if self.0.is_empty() {
            self.0.resize_with(THREADS, || None);
        }
        let Some(place) = self.0.get_mut(Self::place(walker)) else { return };
        let mut steps = match place.take() {
            Some(last) => last.steps,
            None => Vec::new(),
        };
        steps.truncate(joined.map_or(0, |at| at + 1));
        steps.extend(made.iter().rev().map_while(|step| *step));
        *place = Some(LastWalk { walker, steps });
    }
}
