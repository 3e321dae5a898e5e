//! Fuzz targets of `etw-etl`; its tests compile them, too.

use etw_etl::lzxpress;
use etw_etl::read::{
    BufferRecords, Item, Part, PartsOptions, Records, TraceFile, buffer, read_in_parts,
};
use etw_etl::record::RecordContext;
use etw_types::Position;

/// A whole file, read to its end.
pub fn file(data: &[u8]) {
    let Ok(file) = TraceFile::from_bytes("fuzz.etl", data.to_vec()) else { return };
    let mut positions = Vec::new();
    let mut records = Records::new(vec![file.clone()]);
    while let Some(record) = records.next() {
        positions.push(record.position);
        let items = record.extended.into_iter().count();
        assert!(items <= data.len().max(1) << 13, "more items than bytes");
        assert!(!records.stored_bytes().is_empty());
    }
    for damage in records.damage().kept() {
        assert!(damage.offset <= data.len() as u64, "damage is outside the file");
        assert!(!damage.kind.to_string().is_empty());
    }
    in_parts(file, &positions, &records);
}

/// The same in parts of one buffer.
fn in_parts(file: TraceFile, positions: &[Position], whole: &Records) {
    let mut options = PartsOptions::default();
    (options.threads, options.part_bytes) = (2, Some(1));
    let mut found = Vec::new();
    let read = |part: &mut Part<'_>| {
        let mut positions = Vec::new();
        while let Some(record) = part.next() {
            positions.push(record.position);
        }
        positions
    };
    let ended = read_in_parts(vec![file], options, read, |part| found.extend(part)).records;
    assert!(found == positions, "other records in parts");
    assert!(ended.damage().kept() == whole.damage().kept(), "other damage in parts");
    assert_eq!(ended.out_of_order(0), whole.out_of_order(0));
}

/// One buffer; the first byte chooses the context of its records.
pub fn buffer(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let context = RecordContext {
        pointer_size: if choice & 1 != 0 { 4 } else { 8 },
        old_instance: choice & 2 != 0,
    };
    let Ok((header, records)) = buffer::open(data, 1 << 20) else { return };
    assert!(records.len() <= 1 << 20);
    assert!(header.is_compressed() || records.len() <= data.len());
    let mut next = 0;
    for item in BufferRecords::new(&records, &context) {
        if let Item::Record { offset, record } = item {
            assert!(offset as usize >= next, "records overlap");
            next = offset as usize + record.payload.len();
            assert!(next <= records.len(), "a record passes the end");
            assert!(record.pointer_size == 4 || record.pointer_size == 8);
            assert!(record.extended.into_iter().all(|item| item.data.len() <= records.len()));
        }
    }
}

/// A stream; the first two bytes are its decompressed size. The same bytes are also compressed and decompressed.
pub fn lzxpress(data: &[u8]) {
    let Some((head, stream)) = data.split_first_chunk::<2>() else { return };
    let length = usize::from(u16::from_le_bytes(*head));
    let mut output = vec![0; length];
    match lzxpress::decompress(stream, &mut output) {
        Ok(taken) => assert!(taken <= stream.len()),
        Err(error) => {
            assert!(error.output_len < length || length == 0);
            assert!(error.input_offset <= stream.len());
            // The part before the damage decompresses alone.
            let mut front = vec![0; error.output_len];
            lzxpress::decompress(stream, &mut front).expect("the part before the damage");
            assert!(front == output[..error.output_len]);
        }
    }
    for level in [lzxpress::Level::Fast, lzxpress::Level::Small] {
        let mut compressed = Vec::new();
        lzxpress::compress(stream, &mut compressed, level);
        assert!(compressed.len() <= stream.len() * 9 / 8 + 4);
        let mut back = vec![0; stream.len()];
        lzxpress::decompress(&compressed, &mut back).expect("what was just compressed");
        assert!(back == stream);
    }
}
