//! The event that the measuring programs write, and the form of their figures.

use etw::{define_provider, write_event};

define_provider!(pub BENCH, "OpenEtw.Bench");

pub const TEXT: &str = "a text of thirty-two characters.";

/// Prints a figure as one JSON object.
pub fn figure(name: &str, value: f64, unit: &str) {
    println!("{{\"name\":\"{name}\",\"value\":{value:.3},\"unit\":\"{unit}\"}}");
}

#[inline(never)]
pub fn event(n: i32, text: &str) {
    write_event!(
        BENCH,
        "Event",
        level(Informational),
        keyword(2),
        i32("n", &n),
        str8("text", text)
    );
}
