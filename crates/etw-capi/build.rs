//! What Rust cannot say: variadic functions and `va_list`.

fn main() {
    println!("cargo::rerun-if-changed=csrc");
    cc::Build::new().file("csrc/log_sink.c").std("c11").warnings(true).compile("etw_log_sink");
    // Each an object of its own, which is taken only by programs that need it.
    cc::Build::new().file("csrc/wmain.c").std("gnu11").warnings(true).compile("etw_wmain");
}
