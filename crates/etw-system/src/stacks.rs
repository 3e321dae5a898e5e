//! Call stacks of programs: those that the kernel found by frame pointers, and better ones if the program's state was copied.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::neutral::{Image, Stack};
use crate::perf::Parsed;
use crate::perf::bpf::Programs;
#[cfg(feature = "unwind")]
use crate::perf::bpf::StackBases;
use crate::shaper::Shaper;
#[cfg(feature = "unwind")]
use crate::stack_sizes::StackSizes;
#[cfg(feature = "unwind")]
use crate::unwind::End;

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
    sizes: StackSizes,
    /// The bases of stacks, for the program that copies them.
    #[cfg(feature = "unwind")]
    bases: Option<StackBases>,
}

impl Stacks {
    /// `sizes`: the bytes that can be copied with each sample. `programs`: one of them may
    /// copy them.
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
            sizes: StackSizes::new(sizes),
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
        let Some(user) = &parsed.user else { return self.checked(parsed, shaper) };
        let process = parsed.process;
        let Some(images) = shaper.images_of(process) else { return *parsed };
        frames.clear();
        let files = crate::mapped_file::FilesOf { process, open: &self.files };
        let end = self.unwinder.walk(parsed.thread, images, user, &files, frames);
        self.unwinder.add_callers_beyond(images, user, parsed.stack.user, &files, frames);
        if let PerfDetail::Neutral(Detail::Sample { .. }) = parsed.detail {
            let walk = Walk {
                thread: parsed.thread,
                end,
                reach: self.unwinder.reach(),
                base: self.unwinder.stack_base(),
                copied_until: self.unwinder.copied_until(user),
            };
            walk.teach(&mut self.sizes, self.bases.as_ref());
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

/// The walk of a sample's stack.
#[cfg(feature = "unwind")]
#[derive(Clone, Copy, Debug)]
struct Walk {
    thread: u32,
    end: crate::unwind::End,
    /// Bytes that it needed, and their end.
    reach: usize,
    base: u64,
    /// The end of the copied bytes.
    copied_until: u64,
}

#[cfg(feature = "unwind")]
impl Walk {
    /// Notes what it says of the bytes that are to be copied. The size is that of stacks whose base is not known, or too far: only they say how
    /// large it has to be. A base is wrong if the bytes up to it are too few; if fewer were copied, they say nothing of it.
    fn teach(self, sizes: &mut StackSizes, bases: Option<&StackBases>) {
        let Walk { thread, end, reach, base, copied_until } = self;
        let is_to_base = bases.is_some_and(|bases| bases.is_at(thread, copied_until));
        if !is_to_base {
            sizes.note(reach);
        }
        match (bases, end) {
            (Some(bases), End::Whole) => bases.set(thread, base),
            (Some(bases), End::Cut) if is_to_base => bases.forget(thread),
            _ => {}
        }
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

    /// OV-24: a thread whose stack is small and larger than any copy in turn has whole stacks wherever the largest copy has room for them.
    #[cfg(feature = "unwind")]
    #[test]
    fn a_thread_with_small_and_large_stacks_has_whole_ones() {
        const SIZES: &[u32] = &[256, 512, 1024, 2048, 4096, 8192];
        const BASE: u64 = 0x7fff_0000_0000;
        let bases = StackBases::fake();
        let (mut sizes, mut chosen) = (StackSizes::new(SIZES), 8192);
        let mut cut = [0; 3];
        for turn in 0..30_000 {
            // Some milliseconds of each, at 10 kHz; the host looks at the samples from time to time.
            let kind = turn / 50 % 3;
            let needed = [2000, 5000, 21_000][kind];
            let to_base = needed <= 8192 && bases.is_at(7, BASE);
            let copied = if to_base { needed } else { chosen.min(8192) as usize };
            let is_whole = copied >= needed;
            cut[kind] += u32::from(!is_whole);
            let (end, reach) = match is_whole {
                true => (End::Whole, needed),
                false => (End::Cut, copied + 8),
            };
            let (pointer, base) = (BASE - needed as u64, BASE);
            let copied_until = pointer + copied as u64;
            Walk { thread: 7, end, reach, base, copied_until }.teach(&mut sizes, Some(&bases));
            if turn % 500 == 0
                && let Some(next) = sizes.next_size()
            {
                chosen = next;
            }
        }
        assert_eq!((cut[0], cut[1], chosen), (0, 0, 8192));
        assert!(bases.is_at(7, BASE));
        // The thread's id is that of another one now, whose stack begins further up.
        let walk = Walk { thread: 7, end: End::Cut, reach: 96, base: BASE, copied_until: BASE };
        walk.teach(&mut sizes, Some(&bases));
        assert!(!bases.is_at(7, BASE));
    }
}
