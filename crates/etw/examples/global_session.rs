//! Records programs that run beside this one: `cargo run -p openetw --features control --example global_session -- FILE.etl PROVIDER`
//!
//! PROVIDER is a name whose hash is the provider's GUID, as `ticker`'s `Ticker`. A host of sessions is started where none runs:
//! `etw` has to be in `PATH`, or named by `ETW_DAEMON`.
#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use etw::{Controller, Guid, Keyword, Level};

    let mut words = std::env::args().skip(1);
    let (Some(file), Some(provider)) = (words.next(), words.next()) else {
        return Err("usage: global_session FILE.etl PROVIDER".into());
    };
    let host = Controller::connect_or_start()?;
    // It ends with this program, however that ends.
    let session = host.session("example").file(&file).leased().start()?;
    for warning in session.enable(&Guid::from_name(&provider), Level::VERBOSE, Keyword(0))? {
        eprintln!("{warning}");
    }
    for _ in 0..3 {
        std::thread::sleep(std::time::Duration::from_secs(1));
        println!("{} events so far", session.query()?.stored);
    }
    let status = session.stop()?;
    println!("{} events in {file}, {} lost", status.stored, status.lost);
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("global sessions are Linux's");
}
