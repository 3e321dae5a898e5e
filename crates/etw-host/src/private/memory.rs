//! Memory of a private session: in its `.part` file, or in this process alone.

use etw_ring::{Control, Memory, PoolOptions, RawClock};
use etw_session::SessionConfig;

use crate::facts::{SessionFacts, file_name};
use crate::part::{NewPart, Part, PartLayout, is_in_use, part_path};
use crate::start_error::StartError;
use crate::storage::BufferMemory;

/// The `.part` file of a session that is being started. It is removed unless the session starts.
pub(super) struct UnstartedPart(Option<Part>);

impl UnstartedPart {
    /// The session starts.
    pub fn keep(mut self) -> Option<Part> {
        self.0.take()
    }
}

impl Drop for UnstartedPart {
    fn drop(&mut self) {
        if let Some(part) = self.0.take() {
            part.remove();
        }
    }
}

/// The memories of a session.
pub(super) struct SessionMemory {
    pub part: UnstartedPart,
    pub control: Memory,
    pub segment: Memory,
    pub buffers: Vec<BufferMemory>,
}

impl SessionMemory {
    /// Allocates the memories: in a `.part` file if the session has a file.
    pub fn allocate(
        config: &SessionConfig,
        facts: &SessionFacts,
        raw_clock: RawClock,
        pool: &PoolOptions,
    ) -> Result<SessionMemory, StartError> {
        let (size, count) = (config.buffer_size as usize, config.buffer_count);
        if cfg!(target_os = "linux") {
            if let Some(path) = &config.file {
                let out = file_name(path, 1);
                let facts = facts.to_bytes();
                let (buffer_size, buffer_count) = (config.buffer_size, count);
                let layout =
                    PartLayout { facts: &facts, raw_clock, pool, buffer_size, buffer_count };
                let new = Part::create(&out, &layout).map_err(|error| match error.kind() {
                    std::io::ErrorKind::AlreadyExists => {
                        let part = part_path(&out);
                        match is_in_use(&part) {
                            true => StartError::InUse(out.clone()),
                            false => StartError::Unrepaired(part),
                        }
                    }
                    _ => StartError::File { path: path.clone(), source: error },
                })?;
                let NewPart { part, control, segment, buffers } = new;
                let buffers = buffers.into_regions(size);
                return Ok(SessionMemory {
                    part: UnstartedPart(Some(part)),
                    control,
                    segment,
                    buffers,
                });
            }
        }
        Ok(SessionMemory {
            part: UnstartedPart(None),
            control: process_memory(Control::SIZE)?,
            segment: process_memory(pool.memory_size())?,
            buffers: (0..count).map(|_| BufferMemory::heap(size)).collect::<Result<_, _>>()?,
        })
    }
}

/// Memory of this process alone.
pub(super) fn process_memory(len: usize) -> std::io::Result<Memory> {
    #[cfg(target_os = "linux")]
    return Memory::private(len);
    #[cfg(not(target_os = "linux"))]
    return Memory::heap(len);
}
