//! Prints the events of a trace: `cargo run -p openetw --features consumer --example read_trace -- FILE.etl`
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: read_trace FILE.etl")?;
    let mut trace = etw::open(path)?;
    while let Some(event) = trace.next()? {
        match event.get::<u32>("Count") {
            Ok(count) => println!("{} {count}", event.name().unwrap_or("?")),
            Err(_) => println!("{}", event.name().unwrap_or("?")),
        }
    }
    Ok(())
}
