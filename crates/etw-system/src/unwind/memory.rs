//! The last walks of threads: the outer frames of a thread's next stack are mostly the same ones.
//!
//! A step follows from the address, stack pointer and frame pointer of its frame, and from the words of the stack that its rule reads. If
//! all of them are those of an earlier walk, so is the caller's frame, and no rule is needed. A walk that meets a known frame therefore
//! only compares words, from there to the thread's first frame.
//!
//! Most code uses the register of the frame pointer for values, which differ at each walk. They are compared only if a rule further out
//! finds its frame by them.

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
    /// The frame is found by the frame pointer.
    pub is_by_frame_pointer: bool,
}

/// A step as the next walks compare it.
#[derive(Clone, Copy, Debug)]
struct KnownStep {
    step: Step,
    /// This step or one further out reads the frame pointer that this frame has.
    needs_frame_pointer: bool,
}

impl KnownStep {
    /// `outer`: the next step further out; `None`: the walk ends with this one.
    fn new(step: Step, outer: Option<&KnownStep>) -> KnownStep {
        let is_needed = outer.is_some_and(|outer| outer.needs_frame_pointer);
        let restored = step.frame_pointer.filter(|_| is_needed);
        let needs_frame_pointer = step.is_by_frame_pointer || is_needed && restored.is_none();
        KnownStep { step: Step { frame_pointer: restored, ..step }, needs_frame_pointer }
    }

    fn has(&self, state: &State) -> bool {
        let own = &self.step.state;
        let is_same = (own.address, own.stack_pointer, own.is_exact)
            == (state.address, state.stack_pointer, state.is_exact);
        is_same && (!self.needs_frame_pointer || own.frame_pointer == state.frame_pointer)
    }
}

/// The words of a stack at the places of those of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Same,
    /// Another caller or frame pointer.
    Other,
    /// The copied bytes end before the caller. The frame pointer, if it leads there.
    End(Option<u64>),
}

impl Step {
    fn found_in(&self, frame: &Frame<'_>) -> Found {
        let value = |word: Word| frame.read(word.at);
        let is_same = |word: Option<Word>| word.is_none_or(|one| value(one) == Some(one.value));
        match self.caller {
            Some(caller) if value(caller).is_none() => {
                Found::End(self.state.frame_pointer.filter(|_| self.is_by_frame_pointer))
            }
            caller if is_same(caller) && is_same(self.frame_pointer) => Found::Same,
            _ => Found::Other,
        }
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
    steps: Vec<KnownStep>,
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

    fn steps(&self, walker: Walker) -> &[KnownStep] {
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
            && steps[inner].step.state.stack_pointer < state.stack_pointer
        {
            search.left = inner;
        }
        let at = search.left.checked_sub(1)?;
        steps[at].has(state).then_some(at)
    }

    /// Adds the addresses from a step to the thread's first frame, or as far as the bytes of the stack reach. [`Found::Other`]: they are not
    /// those of this stack, and none is added.
    pub fn follow(
        &self,
        search: &Search,
        at: usize,
        frame: &Frame<'_>,
        out: &mut Vec<u64>,
    ) -> Found {
        let steps = &self.steps(search.walker)[..=at];
        let before = out.len();
        for KnownStep { step, .. } in steps.iter().rev() {
            out.push(step.state.address);
            match step.found_in(frame) {
                Found::Same => {}
                Found::End(frame_pointer) => return Found::End(frame_pointer),
                Found::Other => {
                    out.truncate(before);
                    return Found::Other;
                }
            }
        }
        Found::Same
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
        for step in made.iter().rev().map_while(|step| *step) {
            steps.push(KnownStep::new(step, steps.last()));
        }
        *place = Some(LastWalk { walker, steps });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALKER: Walker = Walker { thread: 1, version: 1 };

    fn state(stack_pointer: u64, frame_pointer: u64) -> State {
        State { address: 1, stack_pointer, frame_pointer: Some(frame_pointer), is_exact: false }
    }

    /// A step to a caller. `restored`: the caller's frame pointer is a word of the stack.
    fn step(stack_pointer: u64, restored: bool, is_by_frame_pointer: bool) -> Option<Step> {
        let word = Word { at: stack_pointer, value: 7 };
        let frame_pointer = restored.then_some(word);
        let state = state(stack_pointer, 100);
        Some(Step { state, caller: Some(word), frame_pointer, is_by_frame_pointer })
    }

    /// The frames of a kept walk, innermost first, that are found with another frame pointer.
    fn found_with_another_pointer(made: &[Option<Step>]) -> Vec<bool> {
        let mut walks = LastWalks::default();
        walks.keep(WALKER, made, None);
        let is_found = |step: &Option<Step>| {
            let at = step.unwrap().state.stack_pointer;
            let same = walks.find(&mut walks.search(WALKER), &state(at, 100));
            assert!(same.is_some(), "{at}");
            walks.find(&mut walks.search(WALKER), &state(at, 5)) == same
        };
        made.iter().map(is_found).collect()
    }

    #[test]
    fn the_frame_pointer_is_compared_as_far_as_a_rule_reads_it() {
        let plain = |at| step(at, false, false);
        let all = [plain(10), step(20, true, false), plain(30)];
        assert_eq!(found_with_another_pointer(&all), [true; 3], "no rule reads it");
        // The frame at 40 is found by it. The one at 20 restores it from the stack.
        let all = [plain(10), step(20, true, false), plain(30), step(40, true, true), plain(50)];
        assert_eq!(found_with_another_pointer(&all), [true, true, false, false, true]);
    }

    #[test]
    fn a_word_that_restores_a_frame_pointer_is_compared_if_a_rule_reads_it() {
        let outer = KnownStep::new(step(40, true, true).unwrap(), None);
        let inner = KnownStep::new(step(20, true, false).unwrap(), Some(&outer));
        assert!(inner.step.frame_pointer.is_some() && !inner.needs_frame_pointer);
        let outer = KnownStep::new(step(40, true, false).unwrap(), None);
        let inner = KnownStep::new(step(20, true, false).unwrap(), Some(&outer));
        assert!(inner.step.frame_pointer.is_none());
    }
}
