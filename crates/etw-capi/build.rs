//! What Rust cannot say: variadic functions and `va_list`.

fn main() {
    println!("cargo::rerun-if-changed=csrc/log_sink.c");
    cc::Build::new().file("csrc/log_sink.c").std("c11").warnings(true).compile("etw_log_sink");
}
