//! The pool of a private session.

use etw_host::{PoolSize, PrivateOptions, PrivateSession, SessionConfig};

/// A pool larger than one segment has its whole size from the start, in memory and in a `.part` file.
#[test]
fn a_large_pool_has_its_size_from_the_start() {
    let file = std::env::temp_dir().join(format!("etw-large-pool-{}.etl", std::process::id()));
    for output in [None, Some(file.clone())] {
        let mut options = PrivateOptions::default();
        options.config.name = "large".to_owned();
        options.pool = PoolSize { initial: 40 << 20, limit: 64 << 20 };
        if output.is_some() {
            let config = SessionConfig { file: output, ..SessionConfig::default() };
            options.config = SessionConfig { name: "large".to_owned(), ..config };
        }
        let session = PrivateSession::start(options, 0).unwrap();
        let writer = session.writer();
        let sizes: Vec<usize> =
            (0..writer.segment_count()).map(|n| writer.segment(n).unwrap().len()).collect();
        assert!(sizes.iter().sum::<usize>() >= 40 << 20, "{sizes:?}");
        assert_eq!(sizes[1..], [16 << 20, 8 << 20]);
        let stopped = session.stop();
        assert_eq!(stopped.statistics.pool_size, 40 << 20);
    }
    std::fs::remove_file(&file).unwrap();
}
