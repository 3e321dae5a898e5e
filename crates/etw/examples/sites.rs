//! 64 events of different shapes in one function: what `cargo xtask sites` counts the instructions of, while nobody wants
//! them.

use etw::{define_provider, write_event};

define_provider!(pub PROVIDER, "OpenEtw.Sites");

/// Four sites each time: a number, a string, a struct, an array.
macro_rules! sites {
    ($n:ident, $text:ident, $list:ident: $($name:literal)*) => {$(
        write_event!(PROVIDER, $name, level(Warning), keyword(0x1), u32("n", &$n));
        write_event!(PROVIDER, $name, level(Informational), keyword(0x2), i32("n", &($n as i32)), str8("s", $text));
        write_event!(PROVIDER, $name, keyword(0x4), struct("t", { u64("n", &$n.into()), str8("s", $text) }));
        write_event!(PROVIDER, $name, level(Error), u32_slice("l", $list), opt_str8("s", $text.get(1..)));
    )*};
}

#[inline(never)]
fn all_sites(n: u32, text: &str, list: &[u32]) {
    sites!(n, text, list: "a" "b" "c" "d" "e" "f" "g" "h" "i" "j" "k" "l" "m" "n" "o" "p");
}

fn main() {
    let _registration = PROVIDER.register();
    let list: Vec<u32> = (0..std::process::id() % 7).collect();
    all_sites(list.len() as u32, "text", &list);
}
