//! The kernel and its modules: addresses of symbols from `kallsyms`, build ids from `/sys`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use crate::elf::build_id;
use crate::neutral::Image;
use crate::shaper::KernelFunction;
use crate::shaper::interrupts::INTERRUPT_LINES;
use crate::system_call_routines::{PREFIX, number_of};

/// Routines of soft interrupts, in the order of their numbers, with older names.
const SOFT_INTERRUPTS: [&[&str]; 10] = [
    &["tasklet_hi_action"],
    &["run_timer_softirq"],
    &["net_tx_action"],
    &["net_rx_action"],
    &["blk_done_softirq"],
    &["irq_poll_softirq"],
    &["tasklet_action"],
    &["sched_balance_softirq", "run_rebalance_domains"],
    &["hrtimer_run_softirq"],
    &["rcu_core_si"],
];
/// The name of the kernel's image.
pub(crate) const KERNEL: &str = "vmlinux";
/// The remark on images without the kernel's.
pub(crate) const NO_KERNEL: &str = "functions of the kernel have no names: its addresses need CAP_SYSLOG and kernel.kptr_restrict below 2";
/// Interrupt lines that have addresses.
const LINES: u64 = 1 << 16;

/// The images and interrupt routines of the kernel, from its symbols.
#[derive(Debug, Default)]
pub(crate) struct KernelSymbols {
    /// The kernel and its modules.
    pub images: Vec<Arc<Image>>,
    /// The routine of each soft interrupt; 0: not known.
    pub soft_interrupts: Vec<u64>,
    /// The routine of each system call, by number; 0: not known.
    pub system_calls: Vec<u64>,
}

/// Whether the kernel itself is among its images.
pub(crate) fn has_kernel(images: &[Arc<Image>]) -> bool {
    images.iter().any(|image| image.path == KERNEL.as_bytes())
}

/// The functions of the running kernel at these addresses, which are in order.
pub(crate) fn functions_at(addresses: &[u64]) -> Vec<KernelFunction> {
    if addresses.is_empty() {
        return Vec::new();
    }
    let list = std::fs::read("/proc/kallsyms").unwrap_or_default();
    functions_in(&String::from_utf8_lossy(&list), addresses)
}

/// A line of the list of symbols: `ffffffff81000000 T name [module]`
struct Symbol<'a> {
    address: &'a str,
    kind: &'a str,
    name: &'a str,
    module: &'a str,
}

impl<'a> Symbol<'a> {
    fn of_line(line: &'a str) -> Option<Symbol<'a>> {
        let mut words = line.split_ascii_whitespace();
        let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
        Some(Symbol { address, kind, name, module: words.next().unwrap_or_default() })
    }

    /// 0: it is not shown.
    fn address(&self) -> u64 {
        u64::from_str_radix(self.address, 16).unwrap_or(0)
    }

    fn is_code(&self) -> bool {
        matches!(self.kind, "t" | "T" | "w" | "W") && self.address() != 0
    }
}

/// The functions at these addresses in a list of symbols.
fn functions_in(list: &str, addresses: &[u64]) -> Vec<KernelFunction> {
    let symbols = list.lines().filter_map(Symbol::of_line).filter(Symbol::is_code);
    let mut symbols: Vec<(u64, &str)> = symbols.map(|one| (one.address(), one.name)).collect();
    // If an address has several names, the first one stays.
    symbols.sort_by_key(|(start, _)| *start);
    symbols.dedup_by_key(|(start, _)| *start);
    let mut found: Vec<KernelFunction> = Vec::new();
    for address in addresses {
        let next = symbols.partition_point(|(start, _)| start <= address);
        let Some(&(start, name)) = next.checked_sub(1).and_then(|at| symbols.get(at)) else {
            continue;
        };
        if found.last().is_none_or(|last| last.start != start) {
            let end = symbols.get(next).map_or(u64::MAX, |(next, _)| *next);
            found.push(KernelFunction { start, end, name: name.into() });
        }
    }
    found
}

impl KernelSymbols {
    /// Reads the symbols of the kernel that runs. Without the right to see addresses they are all 0.
    pub fn read() -> KernelSymbols {
        let mut symbols = KernelSymbols {
            soft_interrupts: vec![0; SOFT_INTERRUPTS.len()],
            ..KernelSymbols::default()
        };
        let (mut start, mut end) = (0, 0);
        let mut programs: Option<(u64, u64)> = None;
        if let Ok(file) = File::open("/proc/kallsyms") {
            let mut lines = BufReader::with_capacity(1 << 16, file);
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|size| size > 0) {
                if let Some(symbol) = Symbol::of_line(&line) {
                    let address = || symbol.address();
                    match symbol.name {
                        _ if symbol.module == "[bpf]" && address() != 0 => {
                            let (first, last) = programs.unwrap_or((address(), address()));
                            programs = Some((first.min(address()), last.max(address())));
                        }
                        "_text" | "_stext" if start == 0 => start = address(),
                        // Code of the start lies behind all other sections; threads of idle CPUs were begun there.
                        "_etext" | "_einittext" => end = address().max(end),
                        name if name.starts_with(PREFIX) => {
                            symbols.add_call(&name[PREFIX.len()..], address());
                        }
                        name => {
                            let vector =
                                SOFT_INTERRUPTS.iter().position(|names| names.contains(&name));
                            if let Some(vector) = vector {
                                symbols.soft_interrupts[vector] = address();
                            }
                        }
                    }
                }
                line.clear();
            }
        }
        if start != 0 && end > start {
            let notes = std::fs::read("/sys/kernel/notes").unwrap_or_default();
            symbols.add(KERNEL, start, end - start, build_id(&notes).unwrap_or_default());
            symbols.add_modules();
            symbols.add_programs(programs);
        }
        symbols.add("irq", INTERRUPT_LINES, LINES, Vec::new());
        symbols
    }

    fn add_call(&mut self, routine: &str, address: u64) {
        let Some(number) = number_of(routine) else { return };
        if self.system_calls.len() <= number {
            self.system_calls.resize(number + 1, 0);
        }
        self.system_calls[number] = address;
    }

    fn add(&mut self, name: &str, base: u64, size: u64, build_id: Vec<u8>) {
        let path = name.as_bytes().to_vec();
        let image = Image { base, size, default_base: base, path, build_id, ..Image::default() };
        self.images.push(Arc::new(image));
    }

    /// Adds the kernel's programs, ours among them, as one image. Their names are known as long as they are loaded.
    fn add_programs(&mut self, range: Option<(u64, u64)>) {
        /// Bytes behind the start of the last one.
        const LAST: u64 = 4096;
        let Some((first, last)) = range else { return };
        let end = last.saturating_add(LAST);
        let overlaps = |image: &Arc<Image>| first < image.base + image.size && image.base < end;
        if !self.images.iter().any(overlaps) {
            self.add("[bpf]", first, end - first, Vec::new());
        }
    }

    /// `name size users names state address`
    fn add_modules(&mut self) {
        let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
        for line in modules.lines() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let (Some(name), Some(size), Some(address)) =
                (words.first(), words.get(1), words.get(5))
            else {
                continue;
            };
            let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).unwrap_or(0);
            let size = size.parse().unwrap_or(0);
            if address == 0 || size == 0 {
                continue;
            }
            let notes = std::fs::read(format!("/sys/module/{name}/notes/.note.gnu.build-id"));
            let id = build_id(&notes.unwrap_or_default()).unwrap_or_default();
            self.add(&format!("{name}.ko"), address, size, id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OV-23: the functions at addresses, each once, up to the next one.
    #[test]
    fn functions_end_where_the_next_one_begins() {
        let list = "1000 T first\n1000 t alias\n1040 d data\n1080 t second\n2000 t of_module\t[m]\n0 T hidden\nx\n";
        let function = |start, end, name: &str| KernelFunction { start, end, name: name.into() };
        let found = functions_in(list, &[0xfff, 0x1000, 0x1044, 0x1080, 0x2100]);
        assert_eq!(
            found,
            [
                function(0x1000, 0x1080, "first"),
                function(0x1080, 0x2000, "second"),
                function(0x2000, u64::MAX, "of_module"),
            ]
        );
        assert_eq!(functions_in("", &[1]), []);
    }
}
