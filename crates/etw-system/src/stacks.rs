//! Call stacks of programs: those that the kernel found by frame pointers, and better ones if the program's state was copied.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::neutral::{Image, Stack};
use crate::perf::Parsed;
use crate::perf::bpf::Programs;
use crate::shaper::Shaper;

/// Completes the stacks of records.
#[derive(Debug)]
pub(crate) struct Stacks {
    /// Frames that the kernel finds by frame pointers at most.
    longest_chain: usize,
    /// Stacks that have as many, and perhaps more.
    pub cut: u64,
    #[cfg(feature = "unwind")]
    unwinder: crate::unwind::Unwinder,
    #[cfg(feature = "unwind")]
    files: crate::mapped_file::OpenFiles,
    /// Bytes that are copied with each sample.
    #[cfg(feature = "unwind")]
    sizes: crate::stack_sizes::StackSizes,
    /// The bases of stacks, for the program that copies them.
    #[cfg(feature = "unwind")]
    bases: Option<crate::perf::bpf::StackBases>,
}

impl Stacks {
    /// `sizes`: the bytes that can be copied with each sample. `programs`: those that may copy
    /// them.
    #[cfg_attr(not(feature = "unwind"), allow(unused_variables))]
    pub fn new(sizes: &'static [u32], programs: Option<&Programs>) -> Stacks {
        Stacks {
            longest_chain: longest_chain(),
            cut: 0,
            #[cfg(feature = "unwind")]
            unwinder: crate::unwind::Unwinder::default(),
            #[cfg(feature = "unwind")]
            files: crate::mapped_file::OpenFiles::default(),
            #[cfg(feature = "unwind")]
            sizes: crate::stack_sizes::StackSizes::new(sizes),
            #[cfg(feature = "unwind")]
            bases: programs.and_then(Programs::stack_bases),
        }
    }

    /// The record with its stack by the unwind tables of its process. Beyond the copied bytes, frame pointers are followed, from functions with
    /// frame pointers. The addresses are put into `frames`.
    #[cfg(feature = "unwind")]
    pub fn complete<'a>(
        &mut self,
        parsed: &Parsed<'a>,
        shaper: &Shaper,
        frames: &'a mut Vec<u64>,
    ) -> Parsed<'a> {
        use crate::neutral::Detail;
        use crate::perf::PerfDetail;
        use crate::unwind::End;
        let Some(user) = &parsed.user else { return self.checked(parsed, shaper) };
        let process = parsed.process;
        let Some(images) = shaper.images_of(process) else { return *parsed };
        frames.clear();
        let files = crate::mapped_file::FilesOf { process, open: &self.files };
        let end = self.unwinder.walk(parsed.thread, images, user, &files, frames);
        self.unwinder.add_callers_beyond(images, user, parsed.stack.user, &files, frames);
        if let PerfDetail::Neutral(Detail::Sample { .. }) = parsed.detail {
            self.sizes.note(self.unwinder.reach());
            match (&self.bases, end) {
                (Some(bases), End::Whole) => bases.set(parsed.thread, self.unwinder.stack_base()),
                (Some(bases), End::Cut) => bases.forget(parsed.thread),
                (None, _) => {}
            }
        }
        Parsed { stack: Stack { user: frames, ..parsed.stack }, ..*parsed }
    }

    /// The record with the frames that frame pointers lead to, as long as they lie in images of its process.
    fn checked<'a>(&mut self, parsed: &Parsed<'a>, shaper: &Shaper) -> Parsed<'a> {
        let Stack { kernel, user } = parsed.stack;
        self.cut += u64::from(kernel.len() + user.len() >= self.longest_chain);
        let Some(images) = shaper.images_of(parsed.process) else { return *parsed };
        let user = code_at_front(images.by_base, parsed.stack.user);
        Parsed { stack: Stack { user, ..parsed.stack }, ..*parsed }
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

    /// The record with its stack by frame pointers.
    #[cfg(not(feature = "unwind"))]
    pub fn complete<'a>(
        &mut self,
        parsed: &Parsed<'a>,
        shaper: &Shaper,
        _frames: &'a mut Vec<u64>,
    ) -> Parsed<'a> {
        self.checked(parsed, shaper)
    }
}

/// Frames of a call stack that the kernel gives at most.
pub(crate) fn longest_chain() -> usize {
    const USUAL: usize = 127;
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_stack");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(USUAL)
}

/// The first frames of a stack that lie in images, and always the innermost one. All of them if no image is known.
fn code_at_front<'a>(images: &BTreeMap<u64, Arc<Image>>, frames: &'a [u64]) -> &'a [u64] {
    if images.is_empty() {
        return frames;
    }
    let mut last = 0..0;
    let is_code = |address: &u64| {
        if !last.contains(address) {
            let Some((base, image)) = images.range(..=*address).next_back() else { return false };
            last = *base..base.saturating_add(image.size);
        }
        last.contains(address)
    };
    // A return address may lie just behind the last function of an image.
    let callers = frames.iter().skip(1).map(|address| address.wrapping_sub(1));
    let count = callers.take_while(is_code).count();
    &frames[..frames.len().min(1 + count)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_outside_of_code_end_a_stack() {
        let image = |base| Arc::new(Image { base, size: 0x1000, ..Image::default() });
        let images: BTreeMap<u64, Arc<Image>> =
            [0x1000, 0x5000].map(|base| (base, image(base))).into();
        let code = |frames: &[u64]| code_at_front(&images, frames).len();
        assert_eq!(code(&[0x1500, 0x5100, 0x2000, 0x2001, 0x1100]), 3);
        assert_eq!(code(&[0xdead_0000, 0x1100]), 2, "the sample's own address says what ran");
        assert_eq!((code(&[]), code(&[0x10])), (0, 1));
        assert_eq!(code_at_front(&BTreeMap::new(), &[1, 2]).len(), 2, "nothing is known");
    }
}
