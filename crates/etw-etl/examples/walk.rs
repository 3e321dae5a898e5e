//! Reads files to their end and tells how fast that was.

use etw_etl::read::{Records, RecordsOptions, TraceFile};
fn main() {
    for path in std::env::args().skip(1) {
        let t = std::time::Instant::now();
        let file = TraceFile::open(&path).unwrap();
        let mut o = RecordsOptions::default();
        o.read_ahead_threads = std::env::var("RA").ok().and_then(|v| v.parse().ok()).unwrap_or(0);
        let mut r = Records::with_options(vec![file], o);
        let mut n = 0u64;
        let mut bytes = 0;
        while let Some(rec) = r.next() {
            n += 1;
            bytes += rec.payload.len();
            std::hint::black_box(&rec);
        }
        let e = t.elapsed();
        println!(
            "{path} {n} records {bytes} damage {} ooo {} {:?} {:.1} M/s",
            r.damage().count(),
            r.out_of_order(0),
            e,
            n as f64 / e.as_secs_f64() / 1e6
        );
        for d in r.damage().kept().iter().take(5) {
            println!("  {:#x} {}", d.offset, d.kind);
        }
    }
}
