//! A service whose requests are activities: the guide finds the slowest of them (`docs/guide/slowest-request.md`).
//!
//! ```sh
//! etw record -o requests.etl -p '*Shop' -- requests
//! etw stat --by activity requests.etl
//! ```
use etw::{Activity, define_provider, write_event};
use std::time::Duration;

define_provider!(SHOP, "Shop");

fn main() {
    let _registration = SHOP.register();
    for number in 0..200 {
        let path = if number % 50 == 49 { "/report" } else { "/item" };
        serve(number, path);
    }
}

/// Each request is an activity: a start and a stop event with an id of their own.
fn serve(number: u32, path: &str) {
    let request = Activity::new();
    let _scope = request.enter();
    write_event!(
        SHOP,
        "Request",
        opcode(Start),
        level(Informational),
        str8("path", path),
        u32("number", &number)
    );
    query("goods", Duration::from_micros(200));
    if path == "/report" {
        query("sales", Duration::from_millis(20));
    }
    write_event!(SHOP, "Request", opcode(Stop), level(Informational), u32("status", &200));
}

/// A step of a request is an activity, too; `related_id` names the request.
fn query(table: &str, takes: Duration) {
    let step = Activity::new();
    let _scope = step.enter();
    write_event!(
        SHOP,
        "Query",
        opcode(Start),
        level(Informational),
        related_id(step.related_id()),
        str8("table", table)
    );
    std::thread::sleep(takes);
    write_event!(SHOP, "Query", opcode(Stop), level(Informational));
}
