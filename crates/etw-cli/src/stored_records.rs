//! Records as they are stored, one after the other: one thread reads and copies them, others parse them again.

use etw_etl::read::{StoredRecord, TraceFile};
use etw_etl::record::{self, Extent};
use etw_types::{EventRecord, Position};

/// Copies of records.
#[derive(Default)]
pub struct StoredRecords {
    bytes: Vec<u8>,
    items: Vec<Item>,
}

/// Whatever of a record is not in its bytes.
struct Item {
    end: usize,
    extent: Extent,
    cpu: u16,
    order_time: i64,
    position: Position,
}

impl StoredRecords {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
    }

    /// Copies a record, which was made of `stored`.
    #[inline]
    pub fn push(&mut self, record: &EventRecord<'_>, stored: StoredRecord<'_>) {
        let EventRecord { cpu, order_time, position, .. } = *record;
        self.bytes.extend_from_slice(stored.bytes());
        self.items.push(Item {
            end: self.bytes.len(),
            extent: stored.extent(),
            cpu,
            order_time,
            position,
        });
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The bytes of all records.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Visits the records in their order. `files`: those that were read. It is compiled once, so that parsing is inlined.
    pub fn each(&self, files: &[TraceFile], visit: &mut dyn FnMut(&EventRecord<'_>)) {
        let mut start = 0;
        for item in &self.items {
            let bytes = &self.bytes[start..item.end];
            start = item.end;
            let context = files[item.position.file_index as usize].record_context();
            let mut place = None;
            let record = record::parse_checked(&mut place, bytes, item.extent, context);
            record.cpu = item.cpu;
            record.order_time = item.order_time;
            record.position = item.position;
            visit(record);
        }
    }
}
