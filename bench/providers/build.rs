//! Makes Rust from the manifest.

fn main() {
    etw_mc::Build::new("bench.man").run().unwrap();
}
