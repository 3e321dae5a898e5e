//! What a session needs to know before it starts.

use std::io;
use std::path::Path;
use std::time::Duration;

use etw_ring::RawClock;
use etw_session::{LogMode, SessionOptions};
use etw_types::LogFileMode;

use crate::clock::Pair;
use crate::facts::SessionFacts;
use crate::private::{Output, StartError};

/// The `LogFileMode` and `MaximumFileSize` (KiB) of the header.
///
/// # Errors
/// What does not go together.
pub fn mode_bits(output: &Output, per_processor: bool) -> Result<(LogFileMode, u32), StartError> {
    let processors = LogFileMode::NO_PER_PROCESSOR_BUFFERING.when(!per_processor);
    let Output::File { path, mode, preallocate, compressed } = output else {
        let memory = matches!(output, Output::Memory);
        return Ok((
            processors | if memory { LogFileMode::BUFFERING } else { LogFileMode::REAL_TIME },
            0,
        ));
    };
    let (bits_of_mode, max) = match *mode {
        LogMode::Sequential { max_size } => (LogFileMode::SEQUENTIAL, max_size.unwrap_or(0)),
        LogMode::Append { .. } => (LogFileMode::APPEND, 0),
        LogMode::Circular { max_size } => (LogFileMode::CIRCULAR, max_size),
        LogMode::NewFile { max_size } => (LogFileMode::NEWFILE, max_size),
        _ => return Err(StartError::Options("this log mode has no file".to_owned())),
    };
    let has_number = path.to_string_lossy().matches("%d").count() == 1;
    if bits_of_mode == LogFileMode::NEWFILE && !has_number {
        return Err(StartError::Options("the name of a series of files needs one %d".to_owned()));
    }
    if *preallocate && max == 0 {
        return Err(StartError::Options("preallocation needs a maximum size".to_owned()));
    }
    if *compressed && !matches!(mode, LogMode::Sequential { max_size: None }) {
        let what = "only a sequential file without a maximum size can be compressed";
        return Err(StartError::Options(what.to_owned()));
    }
    let compressed = LogFileMode::COMPRESSED.when(*compressed);
    let sizes = LogFileMode::USE_KBYTES_FOR_SIZE.when(max > 0);
    let all = bits_of_mode
        | LogFileMode::PREALLOCATE.when(*preallocate)
        | compressed
        | processors
        | sizes;
    let kilobytes = u32::try_from(max >> 10)
        .map_err(|_| StartError::Options("the maximum size must be below 4 TiB".to_owned()))?;
    Ok((all, kilobytes))
}

/// The end of the file that a session appends to; `false` where there is none, and one is begun.
///
/// # Errors
/// A file that does not fit the session.
pub fn find_end(
    path: &Path,
    facts: &mut SessionFacts,
    options: &mut SessionOptions,
) -> Result<bool, StartError> {
    let file = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            options.mode = LogMode::Sequential { max_size: None };
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
        // Made by a session that was killed before it wrote anything.
        Ok(metadata) if metadata.len() == 0 => {
            options.mode = LogMode::Sequential { max_size: None };
            return Ok(false);
        }
        Ok(_) => etw_etl::read::TraceFile::open(path)
            .map_err(|error| StartError::Options(format!("cannot append: {error}")))?,
    };
    let Some(header) = file.header() else {
        return Err(StartError::Options("cannot append: the file has no header".to_owned()));
    };
    let size = std::fs::metadata(path)?.len();
    let fits = header.buffer_size == options.buffer_size
        && header.clock_type == facts.header.clock_type
        && header.clock_type == etw_types::ClockType::SYSTEM
        && header.pointer_size == 8
        && header.number_of_processors == facts.header.number_of_processors
        && size.is_multiple_of(u64::from(header.buffer_size));
    if !fits {
        return Err(StartError::Options(
            "cannot append: buffer size, processors and system time must be those of the file"
                .to_owned(),
        ));
    }
    facts.start_raw = file.clock().raw_start;
    facts.header = header.clone();
    let slots = size / u64::from(header.buffer_size);
    options.mode = LogMode::Append { first_slot: slots, last_sequence: slots as i64 - 1 };
    Ok(true)
}

/// A time in ticks of the session's clock.
pub fn ticks(facts: &SessionFacts, time: Duration) -> i64 {
    let frequency = facts.frequency();
    (time.as_nanos() * u128::from(frequency) / 1_000_000_000).min(i64::MAX as u128) as i64
}

/// The rate of the cycle counter; takes 20 ms.
pub fn cycles_mhz(raw: RawClock) -> u32 {
    let from = Pair::now(raw);
    std::thread::sleep(Duration::from_millis(20));
    let to = Pair::now(raw);
    let mhz = (to.raw - from.raw) as f64 * 1000.0 / (to.ns - from.ns).max(1) as f64;
    mhz.round() as u32
}
