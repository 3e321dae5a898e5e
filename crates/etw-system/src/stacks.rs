//! Call stacks of programs: those that the kernel found by frame pointers, and better ones if the program's state was copied.

use crate::perf::Parsed;
use crate::shaper::Shaper;

/// Completes the stacks of records.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    #[cfg(feature = "unwind")]
    unwinder: crate::unwind::Unwinder,
    #[cfg(feature = "unwind")]
    files: crate::process_files::OpenFiles,
    /// Bytes that are copied with each sample.
    #[cfg(feature = "unwind")]
    sizes: crate::stack_sizes::StackSizes,
}

impl Stacks {
    /// The record with the stack that the unwind tables of its process give, if it is whole or longer. `frames`: memory for it.
    #[cfg(feature = "unwind")]
    pub fn complete<'a>(
        &mut self,
        parsed: &Parsed<'a>,
        shaper: &Shaper,
        frames: &'a mut Vec<u64>,
    ) -> Parsed<'a> {
        use crate::neutral::{Detail, Stack};
        use crate::perf::PerfDetail;
        use crate::unwind::End;
        let Some(user) = &parsed.user else { return *parsed };
        let process = parsed.process;
        let Some(images) = shaper.images_of(process) else { return *parsed };
        frames.clear();
        let files = crate::process_files::FilesOf { process, open: &self.files };
        let end = self.unwinder.walk(parsed.thread, images, user, &files, frames);
        if let PerfDetail::Neutral(Detail::Sample { .. }) = parsed.detail {
            self.sizes.note(self.unwinder.reach());
        }
        match end {
            End::Cut if frames.len() < parsed.stack.user.len() => *parsed,
            _ => Parsed { stack: Stack { user: frames, ..parsed.stack }, ..*parsed },
        }
    }

    /// The number of bytes of programs' stacks that are to be copied with each sample from now on; `None`: as many as before.
    #[cfg(feature = "unwind")]
    pub fn next_size(&mut self) -> Option<u32> {
        self.sizes.next_size()
    }

    /// Nothing is copied.
    #[cfg(not(feature = "unwind"))]
    pub fn next_size(&mut self) -> Option<u32> {
        None
    }

    /// Ends a poll.
    pub fn close_files(&mut self) {
        #[cfg(feature = "unwind")]
        self.files.close();
    }

    /// The record as it is.
    #[cfg(not(feature = "unwind"))]
    pub fn complete<'a>(
        &mut self,
        parsed: &Parsed<'a>,
        _shaper: &Shaper,
        _frames: &'a mut Vec<u64>,
    ) -> Parsed<'a> {
        *parsed
    }
}
