//! Writes twenty numbered events, for a session that somebody else started: on Windows one of `logman`, on Linux one of `etw session`.
//!
//! `numbered_events --guid` prints the provider's GUID instead.
use etw::{define_provider, write_event};

define_provider!(NUMBERS, "OpenEtw.Numbers");

fn main() {
    if std::env::args().any(|argument| argument == "--guid") {
        println!("{}", NUMBERS.id());
        return;
    }
    let _registration = NUMBERS.register();
    for number in 0..20 {
        let status = write_event!(
            NUMBERS,
            "Numbered",
            level(Informational),
            keyword(1),
            u32("Number", &number)
        );
        if !status.is_success() {
            eprintln!("event {number}: {status}");
        }
    }
}
