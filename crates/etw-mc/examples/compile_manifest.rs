//! Compiles a manifest into the current folder: NAME.h, NAMETEMP.BIN and NAME_MSG00001.bin.
//!
//! `cargo run -p etw-mc --example compile_manifest -- shop.man`

use etw_mc::messages::{self, MessageIds};
use etw_mc::{Manifest, header, wevt};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: compile_manifest FILE.man")?;
    let path = std::path::PathBuf::from(path);
    let manifest = match Manifest::parse(&std::fs::read(&path)?) {
        Ok(manifest) => manifest,
        Err(problems) => {
            for problem in problems {
                eprintln!("{}:{problem}", path.display());
            }
            std::process::exit(1);
        }
    };
    for warning in &manifest.warnings {
        eprintln!("{}:{warning}", path.display());
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    std::fs::write(format!("{name}.h"), header::write(&manifest, &header::Options::default()))?;
    std::fs::write(format!("{name}TEMP.BIN"), wevt::write(&manifest, wevt::Version::V5))?;
    let table = messages::table(&MessageIds::new(&manifest), manifest.cultures.first());
    std::fs::write(format!("{name}_MSG00001.bin"), table)?;
    Ok(())
}
