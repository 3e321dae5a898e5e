//! Holes in files: slots in which nothing was written are taken out, and their space is given back.

#[cfg(unix)]
use std::collections::BTreeSet;
use std::fs::File;
#[cfg(unix)]
use std::io;

#[cfg(unix)]
use etw_types::BufferHeader;

/// Removes slots in which nothing was written from a file of `slots` slots: readers would treat them as damage.
///
/// # Errors
/// Those of the system; every buffer is in the file then, and some of the slots still are.
#[cfg(unix)]
pub(crate) fn take_out(
    file: &File,
    size: u64,
    holes: &BTreeSet<u64>,
    slots: &mut u64,
) -> io::Result<()> {
    let mut left = holes.clone();
    // A write that failed may have written a part. The buffers that are moved need the space.
    for slot in holes {
        let _ = give_back(file, slot * size, size);
    }
    // From the last one on, so that the others keep their offsets.
    while let Some(slot) = left.last().copied() {
        if !collapse(file, slot * size, size) {
            break;
        }
        left.remove(&slot);
        *slots -= 1;
    }
    move_down(file, size, &left, *slots)?;
    *slots -= left.len() as u64;
    Ok(())
}

/// Removes a range of a file in one step, if the file system can.
#[cfg(target_os = "linux")]
fn collapse(file: &File, at: u64, size: u64) -> bool {
    use std::os::fd::AsRawFd;
    let (at, size) = (at as libc::off_t, size as libc::off_t);
    // SAFETY: plain numbers, an open descriptor.
    unsafe { libc::fallocate(file.as_raw_fd(), libc::FALLOC_FL_COLLAPSE_RANGE, at, size) == 0 }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn collapse(_: &File, _: u64, _: u64) -> bool {
    false
}

/// Gives the space of a range back to the file system, if that can: zeros are read there.
#[cfg(target_os = "linux")]
pub(crate) fn give_back(file: &File, at: u64, size: u64) -> bool {
    use std::os::fd::AsRawFd;
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let (at, size) = (at as libc::off_t, size as libc::off_t);
    // SAFETY: plain numbers, an open descriptor.
    unsafe { libc::fallocate(file.as_raw_fd(), mode, at, size) == 0 }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn give_back(_: &File, _: u64, _: u64) -> bool {
    false
}

/// Removes slots by copying the buffers behind them. A process that is killed between copying a buffer and clearing its old
/// slot leaves the buffer twice. On a full disk the old slot's space is that of the new one, so the buffer is in this process alone
/// meanwhile.
#[cfg(unix)]
fn move_down(file: &File, size: u64, holes: &BTreeSet<u64>, slots: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let Some(mut to) = holes.first().copied() else { return Ok(()) };
    let mut buffer = vec![0; usize::try_from(size).unwrap_or(0)];
    for from in (to + 1..slots).filter(|slot| !holes.contains(slot)) {
        file.read_exact_at(&mut buffer, from * size)?;
        let is_given_back = match file.write_all_at(&buffer, to * size) {
            Ok(()) => give_back(file, from * size, size),
            Err(error) if error.kind() != io::ErrorKind::StorageFull => return Err(error),
            Err(error) if !give_back(file, from * size, size) => return Err(error),
            Err(_) => {
                // A mark takes less space than its slot, whose rest is zeros: a slot that was given back has them.
                give_back(file, to * size, size);
                let filled = buffer.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
                file.write_all_at(&buffer[..filled], to * size)?;
                true
            }
        };
        if !is_given_back {
            file.write_all_at(&[0; BufferHeader::SIZE], from * size)?;
        }
        to += 1;
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// Both ways, in place and by copying, remove the same slots.
    #[test]
    fn holes_are_taken_out() {
        const SIZE: u64 = 8192;
        type TakeOut = fn(&File, u64, &BTreeSet<u64>, &mut u64) -> io::Result<()>;
        let by_hand: TakeOut = |file, size, holes, slots| {
            move_down(file, size, holes, *slots)?;
            *slots -= holes.len() as u64;
            Ok(())
        };
        let path = std::env::temp_dir().join(format!("etw-holes-{}", std::process::id()));
        for (number, take_out) in [take_out, by_hand].into_iter().enumerate() {
            for holes in [&[1][..], &[3], &[8], &[1, 2, 3], &[2, 4, 5, 7], &[1, 3, 5, 7, 8]] {
                let holes: BTreeSet<u64> = holes.iter().copied().collect();
                // A write that failed may have written something.
                let of = |slot: u64| match holes.contains(&slot) {
                    true => vec![if slot == 3 { 0xee } else { 0 }; SIZE as usize],
                    false => vec![slot as u8 + 1; SIZE as usize],
                };
                std::fs::write(&path, (0..10).flat_map(of).collect::<Vec<u8>>()).unwrap();
                let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
                let mut slots = 10;
                take_out(&file, SIZE, &holes, &mut slots).unwrap();
                let expected: Vec<u8> =
                    (0..10).filter(|slot| !holes.contains(slot)).flat_map(of).collect();
                let found = std::fs::read(&path).unwrap();
                assert_eq!(slots * SIZE, expected.len() as u64, "{number} {holes:?}");
                assert!(found[..expected.len()] == expected[..], "{number} {holes:?}");
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
