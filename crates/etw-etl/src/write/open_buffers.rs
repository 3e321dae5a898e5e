//! The open buffers of a file, one for each CPU.

use super::buffer_builder::BufferBuilder;

/// Buffers whose memory is kept for the next.
const SPARES: usize = 4;

/// The open buffers of a file: at most one a CPU, numbered in the order in which they are begun.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenBuffers {
    slots: Vec<Option<BufferBuilder>>,
    sequence: i64,
    spares: Vec<BufferBuilder>,
}

impl OpenBuffers {
    /// The open buffer of a CPU, begun with `buffer_size` if there is none.
    #[inline]
    pub(super) fn get(&mut self, cpu: u16, buffer_size: u32) -> &mut BufferBuilder {
        let slot = usize::from(cpu);
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        let OpenBuffers { slots, sequence, spares } = self;
        slots[slot].get_or_insert_with(|| {
            *sequence += 1;
            let mut buffer = match spares.pop() {
                Some(mut spare) => {
                    spare.clear(buffer_size, cpu);
                    spare
                }
                None => BufferBuilder::new(buffer_size, cpu),
            };
            buffer.header.sequence_number = *sequence;
            buffer
        })
    }

    /// Takes the open buffer of a CPU out.
    pub(super) fn take(&mut self, cpu: u16) -> Option<BufferBuilder> {
        self.slots.get_mut(usize::from(cpu)).and_then(Option::take)
    }

    /// Gives a buffer that was written back, for its memory.
    pub(super) fn recycle(&mut self, buffer: BufferBuilder) {
        if self.spares.len() < SPARES {
            self.spares.push(buffer);
        }
    }

    /// CPUs with an open buffer, in ascending order.
    pub(super) fn cpus(&self) -> Vec<u16> {
        let open = self.slots.iter().enumerate().filter(|(_, slot)| slot.is_some());
        open.map(|(cpu, _)| cpu as u16).collect()
    }

    /// One more than the highest CPU that ever had a buffer.
    pub(super) fn cpu_count(&self) -> usize {
        self.slots.len()
    }
}
