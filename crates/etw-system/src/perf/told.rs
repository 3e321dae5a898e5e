//! The losses that the ledger has, by class, what the trace lacks for other reasons, and the numbers of disks, in memory that outlives a killed
//! process: the next one counts only other losses, and gives disks the same numbers.
//!
//! ```text
//! u64 losses of the first class, u64 of the second one, …
//! 512: u64 of what is missing for the first reason, u64 for the second one, …
//! 1024: u64 number of disks, then u64 device number of disk 0, of disk 1, …
//! ```

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use etw_types::{Guid, Hook, SYSTEM_TRACE};

use super::{ClassLosses, Missing};

/// A hook of each class that has losses. A worker of another version may have written the words: new classes come last.
const HOOKS: [u16; 8] = [0x0301, 0x0524, 0x0f2e, 0x020a, 0x010a, 0x060a, 0x0440, 0x030a];
/// Losses of other classes are in one word behind those.
const WORDS: usize = HOOKS.len() + 1;
const SIZE: usize = 4096;
/// The index of the first word for a reason.
const REASONS: usize = 64;
/// The index of the word with the number of disks.
const DISKS: usize = 128;

fn classes() -> [Guid; WORDS] {
    let class = |at: &u16| Hook(*at).class_guid().unwrap_or(SYSTEM_TRACE);
    std::array::from_fn(|index| HOOKS.get(index).map_or(SYSTEM_TRACE, class))
}

/// The memory, mapped.
#[derive(Debug)]
pub(crate) struct Told {
    file: OwnedFd,
    memory: NonNull<AtomicU64>,
}

// SAFETY: the mapping belongs to this value, and is only read and written by atomic operations.
unsafe impl Send for Told {}

impl Told {
    /// New memory: nothing was lost.
    ///
    /// # Errors
    /// The system has no memory.
    pub fn new() -> io::Result<Told> {
        // SAFETY: a text with a NUL, and a number.
        let file = unsafe { libc::memfd_create(c"etw-told".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor, which nobody else has.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        // SAFETY: a descriptor of ours, and a number.
        if unsafe { libc::ftruncate(file.as_raw_fd(), SIZE as libc::off_t) } < 0 {
            return Err(io::Error::last_os_error());
        }
        Told::map(file)
    }

    /// The memory of an earlier process.
    ///
    /// # Errors
    /// The descriptor is that of something else.
    pub fn map(file: OwnedFd) -> io::Result<Told> {
        // SAFETY: all zeros are a value of this type.
        let mut facts: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: a descriptor of ours, and memory that outlives the call.
        let result = unsafe { libc::fstat(file.as_raw_fd(), &raw mut facts) };
        if result < 0 || facts.st_size < SIZE as libc::off_t {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let (access, file_number) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping at an address that the kernel chooses.
        let memory = unsafe {
            libc::mmap(std::ptr::null_mut(), SIZE, access, libc::MAP_SHARED, file_number, 0)
        };
        match NonNull::new(memory.cast::<AtomicU64>()) {
            Some(memory) if memory.as_ptr().cast() != libc::MAP_FAILED => Ok(Told { file, memory }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has more bytes, and lives as long as this value.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), SIZE / size_of::<u64>()) }
    }

    /// The losses that the ledger has.
    pub fn get(&self) -> ClassLosses {
        let mut losses = ClassLosses::default();
        for (class, word) in classes().into_iter().zip(self.words()) {
            losses.add(class, word.load(Ordering::Acquire));
        }
        losses
    }

    /// The ledger has these losses.
    pub fn set(&self, losses: &ClassLosses) {
        let classes = classes();
        let word_of = |class: Guid| classes.iter().position(|one| *one == class);
        let mut words = [0u64; WORDS];
        for (class, count) in losses.iter() {
            let word = &mut words[word_of(class).unwrap_or(WORDS - 1)];
            *word = word.saturating_add(count);
        }
        let all = self.words().iter().zip(words);
        all.for_each(|(word, count)| word.store(count, Ordering::Release));
    }
}

impl Told {
    /// The facts that are missing in the records that are stored.
    pub fn missing(&self) -> Missing {
        let words = &self.words()[REASONS..];
        std::array::from_fn(|reason| words[reason].load(Ordering::Acquire))
    }

    /// So much is missing in the records that are stored.
    pub fn set_missing(&self, missing: &Missing) {
        let words = self.words()[REASONS..].iter().zip(missing);
        words.for_each(|(word, count)| word.store(*count, Ordering::Release));
    }
}

impl Told {
    /// The kernel's device numbers of the disks, in the order of their numbers in the trace.
    pub fn disks(&self) -> Vec<u32> {
        let words = &self.words()[DISKS..];
        // The memory is checked like that of another process.
        let count = words[0].load(Ordering::Acquire).min(words.len() as u64 - 1) as usize;
        words[1..=count].iter().map(|word| word.load(Ordering::Acquire) as u32).collect()
    }

    /// The disks have these device numbers. There is room for 383; the others get new numbers if this process is killed.
    pub fn set_disks(&self, devices: impl Iterator<Item = u32>) {
        let words = &self.words()[DISKS..];
        let mut count = 0;
        for (word, device) in words[1..].iter().zip(devices) {
            word.store(u64::from(device), Ordering::Release);
            count += 1;
        }
        words[0].store(count, Ordering::Release);
    }
}

impl AsFd for Told {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which nothing refers to any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-23: losses that a killed process told are known to the next one, and only those.
    #[test]
    fn the_next_process_knows_the_losses_by_class() {
        let told = Told::new().unwrap();
        assert_eq!(told.get(), ClassLosses::default());
        let mut losses = ClassLosses::default();
        let disk = Hook(0x010a).class_guid().unwrap();
        losses.add(disk, 7);
        losses.add(SYSTEM_TRACE, 2);
        told.set(&losses);
        let next = Told::map(told.as_fd().try_clone_to_owned().unwrap()).unwrap();
        drop(told);
        assert_eq!(next.get(), losses);
        losses.add(disk, 1);
        assert_eq!(losses.since(&next.get()).iter().collect::<Vec<_>>(), [(disk, 1)]);
    }

    /// Each word holds the losses of one class, the last one those of all other classes; new losses replace the old ones.
    #[test]
    fn each_class_has_its_word_and_others_share_one() {
        let told = Told::new().unwrap();
        let others = [Guid::from_u128(1), Guid::from_u128(2), SYSTEM_TRACE];
        let mut losses = ClassLosses::default();
        for (at, class) in classes().into_iter().take(HOOKS.len()).chain(others).enumerate() {
            losses.add(class, 1 << at);
        }
        told.set(&losses);
        let words: Vec<u64> =
            told.words()[..WORDS].iter().map(|word| word.load(Ordering::Acquire)).collect();
        let shared: u64 = (HOOKS.len()..HOOKS.len() + others.len()).map(|at| 1 << at).sum();
        let own = (0..HOOKS.len()).map(|at| 1 << at);
        assert_eq!(words, own.chain([shared]).collect::<Vec<u64>>());
        assert_eq!(told.get().total(), losses.total());
        // No class has two words.
        assert_eq!(classes().iter().collect::<std::collections::BTreeSet<_>>().len(), WORDS);
        told.set(&ClassLosses::default());
        assert_eq!(told.get(), ClassLosses::default());
    }

    /// OV-23: what is missing for other reasons is no loss, and outlives its process, too.
    #[test]
    fn the_next_process_knows_what_is_missing() {
        let told = Told::new().unwrap();
        let missing: Missing = std::array::from_fn(|reason| 1 + reason as u64);
        told.set_missing(&missing);
        assert_eq!(told.get(), ClassLosses::default());
        let mut losses = ClassLosses::default();
        losses.add(SYSTEM_TRACE, 9);
        told.set(&losses);
        let next = Told::map(told.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!((next.missing(), next.get()), (missing, losses));
    }

    /// The numbers of disks outlive their process, as far as there is room, and whatever the memory says.
    #[test]
    fn the_next_process_knows_the_numbers_of_disks() {
        let told = Told::new().unwrap();
        assert_eq!(told.disks(), []);
        told.set_missing(&std::array::from_fn(|_| u64::MAX));
        for count in [3, 1000, 2] {
            told.set_disks((0..count).map(|disk| 7 << 20 | disk));
            let kept = count.min(383);
            assert_eq!(told.disks(), (0..kept).map(|disk| 7 << 20 | disk).collect::<Vec<_>>());
        }
        told.words()[DISKS].store(u64::MAX, Ordering::Release);
        assert_eq!(told.disks().len(), 383);
    }

    #[test]
    fn another_file_is_refused() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(Told::map(file.into()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
