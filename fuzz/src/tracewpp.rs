//! Fuzz targets of `etw-tracewpp`.

use etw_tracewpp::{Options, run};
use std::io::{Error, ErrorKind};
use std::path::Path;

/// A configuration, a source and a template, each up to a NUL byte: rejected with a file, or made into outputs.
pub fn wpp_source(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == 0);
    let files = [("c.ini", parts.next()), ("s.c", parts.next()), ("t.tpl", parts.next())];
    let mut options = Options::default();
    for word in ["-ini:c.ini", "-scan:s.c", "-tmf:f", "-p:P", "-gen:{um-default.tpl}*.tmh", "s.c"] {
        assert!(options.apply(word).is_ok());
    }
    if files[2].1.is_some() {
        assert!(options.apply("-gen:{t.tpl}*.out").is_ok());
    }
    let read = |path: &Path| {
        let file = files.iter().find(|(name, _)| path == Path::new(name));
        let bytes = file.and_then(|(_, bytes)| *bytes);
        bytes.map(<[u8]>::to_vec).ok_or_else(|| Error::from(ErrorKind::NotFound))
    };
    match run(&options, &read) {
        Ok(outputs) => assert!(!outputs.files.is_empty()),
        Err(problem) => assert!(!problem.file.is_empty() && !problem.message.is_empty()),
    }
}
