//! A value in CBOR as a field of an event: its bytes travel as they are, and whoever knows the protocol shows them.
//!
//! `cargo run -p openetw --features session --example custom_fields -- custom.etl`, then
//! `etw dump --custom 5=cbor custom.etl` and, not knowing it, `etw dump custom.etl`.
use etw::{Keyword, Level, Session, define_provider, write_event};

define_provider!(SHOP, "OpenEtw.Example.Custom");

/// Protocols 5 to 31 are anyone's; what this number means is between writer and reader.
const CBOR: u8 = 5;

/// `{"sku": sku, "counts": [..]}`: small numbers and short texts, so one byte tells each length.
fn order(sku: &str, counts: &[u8]) -> Vec<u8> {
    let text = |text: &str| [&[0x60 | text.len() as u8][..], text.as_bytes()].concat();
    let mut bytes = vec![0xa2];
    bytes.extend(text("sku"));
    bytes.extend(text(sku));
    bytes.extend(text("counts"));
    bytes.push(0x80 | counts.len() as u8);
    bytes.extend(counts);
    bytes
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "custom.etl".to_owned());
    let _registration = SHOP.register();
    let session = Session::builder("custom").file(&path).start()?;
    session.enable(&SHOP, Level::VERBOSE, Keyword(0))?;
    for (number, sku) in ["tea", "advice"].into_iter().enumerate() {
        let order = order(sku, &[number as u8, 7]);
        write_event!(
            SHOP,
            "Order",
            level(Informational),
            custom("Order", &order, protocol(CBOR), schema([1, 0])),
            u32("Number", &(number as u32)),
        );
    }
    session.stop()?;
    println!("recorded 2 events in {path}");
    Ok(())
}
