//! Facts about the machine as SystemConfig records.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::record::Payload;
use crate::shaper::{Configuration, Disk};

/// Architectures of Windows.
const X64: u16 = 9;
const ARM64: u16 = 12;
const HIGHEST_USER_ADDRESS: u64 = 0x7fff_fffe_ffff;
const GRANULARITY: u32 = 65536;
const SECTOR: u32 = 512;
/// Sectors of a track and tracks of a cylinder of disks that have none.
const TRACK: u32 = 63;
const CYLINDER: u32 = 255;

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The disks, in the order of their numbers.
pub(crate) fn disks() -> Vec<Disk> {
    let entries = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let disk = |name: String| {
        let size: u64 = read(format!("/sys/block/{name}/size")).parse().ok()?;
        let device = read(format!("/sys/block/{name}/dev"));
        let (major, minor) = device.split_once(':')?;
        let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        // The kernel's own form of a device number.
        (size > 0).then_some(Disk { device: major << 20 | minor, name })
    };
    names.into_iter().filter_map(disk).collect()
}

/// Release and version of the kernel, and the name of the distribution.
pub(crate) fn product() -> [String; 2] {
    let release = read("/proc/sys/kernel/osrelease");
    let version = read("/proc/sys/kernel/version");
    let system = read("/etc/os-release");
    let pretty = system.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let product = pretty.map_or("Linux", |name| name.trim_matches('"')).to_owned();
    [format!("{release} {version}"), product]
}

/// All records, in Windows' order.
pub(crate) fn configuration(cpus: u16, disks: &[Disk]) -> Vec<Configuration> {
    let mut all = vec![cpu(cpus)];
    all.extend(disks.iter().enumerate().map(|(number, disk)| physical_disk(number as u32, disk)));
    all.extend(networks());
    all.push(platform());
    all.extend(interrupts());
    all
}

fn cpu(cpus: u16) -> Configuration {
    let info = read("/proc/cpuinfo");
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let number = |name: &str| field(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    let memory = read("/proc/meminfo");
    let kilobytes: u64 = memory
        .lines()
        .find_map(|line| {
            line.strip_prefix("MemTotal:")?.split_ascii_whitespace().next()?.parse().ok()
        })
        .unwrap_or(0);
    // SAFETY: takes and returns a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u32;
    let architecture = if cfg!(target_arch = "aarch64") { ARM64 } else { X64 };
    let revision = (number("model") as u16) << 8 | number("stepping") as u16 & 0xff;
    let payload = Payload::new()
        .u32(number("cpu MHz") as u32)
        .u32(u32::from(cpus))
        .u32((kilobytes >> 10) as u32)
        .u32(page)
        .u32(GRANULARITY)
        .fixed(read("/proc/sys/kernel/hostname").as_bytes(), 256)
        .fixed(b"", 134)
        .u64(0)
        .u64(HIGHEST_USER_ADDRESS)
        .u16(architecture)
        .u16(number("cpu family") as u16)
        .u16(revision)
        .bytes(&[1, 1])
        .u32(0);
    Configuration { hook: 0x0b0a, version: 3, payload }
}

fn physical_disk(number: u32, disk: &Disk) -> Configuration {
    let folder = format!("/sys/block/{}", disk.name);
    let sectors: u64 = read(format!("{folder}/size")).parse().unwrap_or(0);
    let model = read(format!("{folder}/device/model"));
    let name = if model.is_empty() { disk.name.clone() } else { format!("{} {model}", disk.name) };
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let partitions = entries.filter(|entry| entry.path().join("partition").exists()).count();
    let has_cache = read(format!("{folder}/queue/write_cache")) == "write back";
    let payload = Payload::new()
        .u32(number)
        .u32(SECTOR)
        .u32(TRACK)
        .u32(CYLINDER)
        .u64(sectors / u64::from(TRACK * CYLINDER))
        .bytes(&[0; 16])
        .fixed(name.as_bytes(), 256)
        .u32(partitions as u32)
        .bytes(&[u8::from(has_cache), 0])
        .bytes(&[0; 10]);
    Configuration { hook: 0x0b0b, version: 2, payload }
}

fn networks() -> Vec<Configuration> {
    let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let network = |name: String| {
        let text = read(format!("/sys/class/net/{name}/address"));
        let mut address = [0; 8];
        let bytes = text.split(':').filter_map(|byte| u8::from_str_radix(byte, 16).ok());
        let mut length = 0;
        for (to, byte) in address.iter_mut().zip(bytes) {
            *to = byte;
            length += 1;
        }
        let index = read(format!("/sys/class/net/{name}/ifindex")).parse().unwrap_or(0);
        let payload = Payload::new()
            .bytes(&address)
            .u32(length)
            .u32(index)
            .u32(index)
            .wide(name.as_bytes())
            .wide(b"")
            .wide(b"");
        Configuration { hook: 0x0b0d, version: 2, payload }
    };
    names.into_iter().map(network).collect()
}

fn platform() -> Configuration {
    let of = |name: &str| read(format!("/sys/class/dmi/id/{name}"));
    let payload = Payload::new()
        .wide(of("sys_vendor").as_bytes())
        .wide(of("product_name").as_bytes())
        .wide(of("bios_date").as_bytes())
        .wide(of("bios_version").as_bytes());
    Configuration { hook: 0x0b19, version: 2, payload }
}

fn interrupts() -> Vec<Configuration> {
    let mut lines = crate::process_files::numbered("/sys/kernel/irq");
    lines.truncate(4096);
    let interrupt = |line: u32| {
        let actions = read(format!("/sys/kernel/irq/{line}/actions"));
        let units = actions.encode_utf16().count() as u32 + 1;
        let payload = Payload::new()
            .u64(u64::MAX)
            .u16(0)
            .u16(0)
            .u32(line)
            .u32(units)
            .wide(actions.as_bytes());
        (!actions.is_empty()).then_some(Configuration { hook: 0x0b15, version: 3, payload })
    };
    lines.into_iter().filter_map(interrupt).collect()
}

/// The CPUs that are online.
pub(crate) fn online_cpus() -> Vec<u16> {
    cpus_of(&std::fs::read(ONLINE_CPUS).unwrap_or_default())
}

const ONLINE_CPUS: &str = "/sys/devices/system/cpu/online";

fn cpus_of(text: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(text);
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) {
            cpus.extend(first..=last);
        }
    }
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// The kernel's list of the CPUs that are online, which is looked at again and again. The file stays open, since opening it takes most of
/// the time of a look.
#[derive(Debug, Default)]
pub(crate) struct OnlineCpus {
    file: Option<File>,
    text: Vec<u8>,
}

impl OnlineCpus {
    /// The CPUs that are online, if the list has changed since the last look.
    pub fn changed(&mut self) -> Option<Vec<u16>> {
        /// A list that is longer is read by its name.
        const SIZE: usize = 4096;
        if self.file.is_none() {
            self.file = File::open(ONLINE_CPUS).ok();
        }
        let mut text = vec![0; SIZE];
        let size = self.file.as_ref().and_then(|file| file.read_at(&mut text, 0).ok());
        match size {
            Some(size @ 1..SIZE) => text.truncate(size),
            _ => text = std::fs::read(ONLINE_CPUS).unwrap_or_default(),
        }
        (text != self.text).then(|| {
            self.text = text;
            cpus_of(&self.text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_decode::{Decoder, Style};
    use etw_types::{EventRecord, HeaderType, Hook};

    /// Each look reads the kernel's list anew.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_online_cpus_change_once() {
        let mut online = OnlineCpus::default();
        assert_eq!(online.changed(), Some(online_cpus()));
        assert_eq!(online.changed(), None);
        online.text = b"0-77\n".to_vec();
        assert_eq!(online.changed(), Some(online_cpus()), "another list was known");
    }

    /// OV-23: the records of the machine fill their schemas; the fields of the CPUs and disks are those of the machine.
    #[test]
    fn each_record_of_the_machine_has_the_fields_of_its_schema() {
        let disk = Disk { device: 1, name: "no such disk".to_owned() };
        let mut decoder = Decoder::new();
        let mut all = Vec::new();
        for one in configuration(3, &[disk]) {
            let mut record = EventRecord::new(HeaderType::System64, &one.payload.0);
            record.hook = Some(Hook(one.hook));
            record.descriptor.version = one.version;
            record.pointer_size = 8;
            let decoded = decoder.decode(&record);
            let visited = decoded.visit_part(&record, &mut ()).expect("the schema is known");
            assert!(visited.rest.is_empty() && visited.reason.is_none(), "{one:?} {visited:?}");
            let fields = decoded.fields_text(&record, &Style::default()).unwrap();
            all.push((one.hook, fields));
        }
        let has = |hook: u16, name: &str, text: &str| {
            let (_, fields) = all.iter().find(|(one, _)| *one == hook).expect("a record");
            assert!(fields.contains(&(name.to_owned(), text.to_owned())), "{name} in {fields:?}");
        };
        // SAFETY: takes and returns a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        has(0x0b0a, "NumberOfProcessors", "3");
        has(0x0b0a, "PageSize", &page.to_string());
        has(0x0b0a, "AllocationGranularity", "65536");
        has(0x0b0a, "ComputerName", read("/proc/sys/kernel/hostname").trim());
        has(0x0b0a, "NxEnabled", "1");
        has(0x0b0b, "DiskNumber", "0");
        has(0x0b0b, "BytesPerSector", "512");
        has(0x0b0b, "Manufacturer", "no such disk");
        has(0x0b0b, "PartitionCount", "0");
        has(0x0b19, "SystemManufacturer", read("/sys/class/dmi/id/sys_vendor").trim());
    }
}
