//! `cargo xtask sites`: instructions of an event that no session wants.
//!
//! `objdump` disassembles the example `sites` of `openetw`. On the path with the fewest instructions through its function no
//! event is wanted, because every other path calls a function.

use crate::{Result, build_executable};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// Events in the example's function.
const SITES: usize = 64;
/// Load, compare, branch.
const PER_SITE: usize = 3;
/// Instructions of the function itself, which saves and loads registers.
const OVERHEAD: usize = 40;

#[derive(Clone, Debug)]
struct Instruction {
    mnemonic: String,
    operands: String,
}

pub fn run() -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        println!("sites: only x86-64 is disassembled");
        return Ok(());
    }
    let selection = ["--package", "openetw", "--example", "sites"];
    let executable = build_executable("sites", &selection, "release")?;
    let listing = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn"])
        .arg(executable)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("objdump: {error}"))?;
    let (start, code) = function(&String::from_utf8_lossy(&listing.stdout), "all_sites")?;
    let end = code.keys().next_back().copied().unwrap_or(start);
    let path = shortest(start, &code)?;
    println!(
        "{SITES} disabled events: {path} instructions, {:.2} each; {} bytes of code, {} each",
        path as f64 / SITES as f64,
        end - start,
        (end - start) / SITES as u64
    );
    if path > SITES * PER_SITE + OVERHEAD {
        return Err(format!("more than {PER_SITE} instructions for each disabled event").into());
    }
    Ok(())
}

/// The code, by address, of the function whose symbol contains `name`.
fn function(listing: &str, name: &str) -> Result<(u64, BTreeMap<u64, Instruction>)> {
    let mut lines =
        listing.lines().skip_while(|line| !(line.ends_with(">:") && line.contains(name)));
    let head = lines.next().ok_or("no such function in the listing")?;
    let start = u64::from_str_radix(head.split(' ').next().unwrap_or_default(), 16)?;
    let mut code = BTreeMap::new();
    for line in lines.take_while(|line| !line.is_empty()) {
        let Some((address, text)) = line.trim_start().split_once(":\t") else { continue };
        let address = u64::from_str_radix(address, 16)?;
        // objdump appends the operand's address as a comment.
        let text = text.split('#').next().unwrap_or_default().trim();
        let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
        let operands = operands.trim().to_owned();
        code.insert(address, Instruction { mnemonic: mnemonic.to_owned(), operands });
    }
    Ok((start, code))
}

/// Instructions on the shortest path from `start` to a return without a call.
fn shortest(start: u64, code: &BTreeMap<u64, Instruction>) -> Result<usize> {
    let mut distances = BTreeMap::from([(start, 1)]);
    // Breadth first: the first visit is the shortest.
    let mut now = vec![start];
    while !now.is_empty() {
        let mut next = Vec::new();
        for address in now {
            let distance = distances[&address];
            let Some(instruction) = code.get(&address) else { continue };
            let target = || {
                let address = instruction.operands.split(' ').next().unwrap_or_default();
                u64::from_str_radix(address, 16).ok()
            };
            let following = code.range(address + 1..).next().map(|(&address, _)| address);
            let ways = match instruction.mnemonic.as_str() {
                "ret" | "retq" => return Ok(distance),
                "call" | "callq" | "ud2" | "int3" => vec![],
                "jmp" | "jmpq" => vec![target()],
                jump if jump.starts_with('j') => vec![target(), following],
                _ => vec![following],
            };
            for way in ways.into_iter().flatten() {
                distances.entry(way).or_insert_with(|| {
                    next.push(way);
                    distance + 1
                });
            }
        }
        now = next;
    }
    Err("no path through the function without a call".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
0000000000000100 <_ZN5sites9all_sites17h0E>:
 100:\tcmp    $0x4,0x10(%rip)        # 114 <G>
 104:\tjae    110 <_ZN5sites9all_sites17h0E+0x10>
 106:\tcmp    $0x5,0x10(%rip)
 10a:\tjae    118 <_ZN5sites9all_sites17h0E+0x18>
 10c:\tret
 110:\tcall   200 <send>
 114:\tjmp    106 <_ZN5sites9all_sites17h0E+0x6>
 118:\tcall   200 <send>

0000000000000200 <send>:
 200:\tret
";

    #[test]
    fn the_path_without_calls_is_counted() {
        let (start, code) = function(LISTING, "all_sites").unwrap();
        assert_eq!((start, code.len()), (0x100, 8));
        assert_eq!(shortest(start, &code).unwrap(), 5);
        assert!(shortest(0x110, &code).is_err());
        assert!(function(LISTING, "other").is_err());
    }
}
