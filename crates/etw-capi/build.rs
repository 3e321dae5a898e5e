//! Builds the C sources: variadic functions and `va_list`, which Rust cannot express.

fn main() {
    for (file, name) in [("csrc/log_sink.c", "etw_log_sink"), ("csrc/classic.c", "etw_classic")] {
        println!("cargo::rerun-if-changed={file}");
        cc::Build::new().file(file).std("c11").warnings(true).compile(name);
    }
}
