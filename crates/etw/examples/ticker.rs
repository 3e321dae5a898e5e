//! A program to be watched: it has no session of its own, and does not know whether anybody listens.
//!
//! ```sh
//! etw record -o ticks.etl -p '*Ticker' -- ticker 1000     # this program alone
//! etw tail -p '*Ticker'                                   # or all that run, as they tick
//! ```
//!
//! `ticker [COUNT [MICROSECONDS]]`: so many ticks, so far apart; 10 and 100000 unless said otherwise.

etw::define_provider!(PROVIDER, "Ticker");

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |default| arguments.next().and_then(Result::ok).unwrap_or(default);
    let (count, pause) = (next(10), next(100_000));
    // From here on, sessions can enable the provider. A session that already enabled it by GUID records the first tick.
    let _registration = PROVIDER.register();
    for tick in 0..count {
        etw::write_event!(
            PROVIDER,
            "Tick",
            level(Informational),
            u64("tick", &tick),
            str8("text", "it ticks")
        );
        if pause > 0 {
            std::thread::sleep(std::time::Duration::from_micros(pause));
        }
    }
}
