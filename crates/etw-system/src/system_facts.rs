//! Facts about the machine as SystemConfig records.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::record::Payload;
use crate::shaper::{Configuration, Disk};

/// Architectures of Windows.
const X64: u16 = 9;
const ARM64: u16 = 12;
const HIGHEST_USER_ADDRESS: u64 = 0x7fff_fffe_ffff;
const GRANULARITY: u32 = 65536;
const SECTOR: u32 = 512;
/// Those of the kernel's own form of a device number.
const MINOR_BITS: u32 = 20;
/// The mounts that this process sees.
const MOUNTS: &str = "/proc/self/mountinfo";
/// The names of file systems that programs implement begin like this.
const FUSE: &str = "fuse";
/// ARPHRD_LOOPBACK
const LOOPBACK: &str = "772";
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
        let device = device_number(&read(format!("/sys/block/{name}/dev")))?;
        (size > 0).then_some(Disk { device, name })
    };
    names.into_iter().filter_map(disk).collect()
}

/// The kernel's own form of a device number, such as `8:16`.
fn device_number(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(':')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    Some(major << MINOR_BITS | minor)
}

/// The name of a disk that came later; its device number where it has gone already.
pub(crate) fn disk_name(device: u32) -> String {
    let number = format!("{}:{}", device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
    let folder = std::fs::canonicalize(format!("/sys/dev/block/{number}")).ok();
    let name = folder.and_then(|folder| folder.file_name()?.to_str().map(str::to_owned));
    name.unwrap_or(number)
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
    all.extend(logical_disks(disks));
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

/// The record of a disk with this number.
pub(crate) fn physical_disk(number: u32, disk: &Disk) -> Configuration {
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

/// A mounted file system.
#[derive(Debug, Default, PartialEq, Eq)]
struct Mount<'a> {
    device: (u32, u32),
    folder: &'a str,
    file_system: &'a str,
    source: &'a str,
}

/// `36 35 98:0 /root /folder rw,noatime master:1 - ext4 /dev/sda1 rw`
fn mount_of_line(line: &str) -> Option<Mount<'_>> {
    let (place, rest) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(2);
    let (major, minor) = place.next()?.split_once(':')?;
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let folder = place.nth(1)?;
    let mut rest = rest.split(' ');
    Some(Mount { device, folder, file_system: rest.next()?, source: rest.next()? })
}

/// A mounted file system of a disk.
#[derive(Debug)]
pub(crate) struct Volume {
    /// The kernel's device number of the whole disk.
    pub disk: u32,
    /// The facts of the partition, or of the whole disk.
    facts: PathBuf,
    folder: String,
    file_system: String,
}

/// The mounted file systems of disks, each once, without those that were seen before.
fn volumes(mounts: &str, seen: &mut Vec<(u32, u32)>) -> Vec<Volume> {
    let mut all = Vec::new();
    for mount in mounts.lines().filter_map(mount_of_line) {
        let device = match mount.device {
            // The source is any word that a user gave it.
            (0, _) if mount.file_system.starts_with(FUSE) => None,
            // File systems such as btrfs have devices of their own: that of the source counts.
            (0, _) => device_of(mount.source),
            device => Some(device),
        };
        let Some(device) = device.filter(|device| !seen.contains(device)) else { continue };
        if let Some(volume) = volume_of(device, &mount) {
            seen.push(device);
            all.push(volume);
        }
    }
    all
}

fn volume_of((major, minor): (u32, u32), mount: &Mount<'_>) -> Option<Volume> {
    let facts = std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // A partition lies in the folder of its disk.
    let disk = if facts.join("partition").exists() { facts.parent()? } else { &facts };
    let disk = device_number(&read(disk.join("dev")))?;
    let (folder, file_system) = (mount.folder.to_owned(), mount.file_system.to_owned());
    Some(Volume { disk, facts, folder, file_system })
}

fn logical_disks(disks: &[Disk]) -> Vec<Configuration> {
    let volumes = volumes(&read(MOUNTS), &mut Vec::new());
    volumes.iter().filter_map(|volume| logical_disk(disks, volume)).collect()
}

/// Finds the file systems of disks that are mounted later.
#[derive(Debug)]
pub(crate) struct Mounts {
    /// The kernel reports changes of its list here. `None`: nobody can read it.
    file: Option<File>,
    seen: Vec<(u32, u32)>,
}

impl Mounts {
    /// Those that are mounted now are no new ones.
    pub fn new() -> Mounts {
        let file = File::open(MOUNTS).ok();
        let mut seen = Vec::new();
        volumes(&read(MOUNTS), &mut seen);
        Mounts { file, seen }
    }

    /// The file systems that were mounted since the last time. It costs one system call if nothing was.
    pub fn take_new(&mut self) -> Vec<Volume> {
        let Some(file) = &self.file else { return Vec::new() };
        let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLPRI, revents: 0 };
        // SAFETY: a structure that outlives the call, which does not wait.
        let changed = unsafe { libc::poll(&raw mut poll, 1, 0) };
        match changed > 0 && poll.revents & (libc::POLLPRI | libc::POLLERR) != 0 {
            true => volumes(&read(MOUNTS), &mut self.seen),
            false => Vec::new(),
        }
    }
}

/// The numbers of the device with this path.
fn device_of(path: &str) -> Option<(u32, u32)> {
    path.starts_with("/dev/").then_some(())?;
    let device = std::fs::metadata(path).ok()?.rdev();
    Some((libc::major(device), libc::minor(device)))
}

/// The record of a file system. `None`: its disk has no number.
pub(crate) fn logical_disk(disks: &[Disk], volume: &Volume) -> Option<Configuration> {
    const PARTITION: u32 = 1;
    /// A file system on a whole disk. A guess: real traces have partitions only.
    const VOLUME: u32 = 2;
    /// Bytes of the record's first part, which the record says.
    const SIZE: u32 = 112;
    let Volume { facts, folder, file_system, .. } = volume;
    let number = |name: &str| read(facts.join(name)).parse::<u64>().unwrap_or(0);
    let partition = number("partition");
    let disk = disks.iter().position(|one| one.device == volume.disk)?;
    // A program answers for it, and may not answer.
    let space = match file_system.starts_with(FUSE) {
        true => None,
        false => space_of(folder),
    };
    let (size, free, blocks) =
        space.map_or((0, 0, 0), |space| (space.f_frsize, space.f_bfree, space.f_blocks));
    let sectors = (size / u64::from(SECTOR)).max(1) as u32;
    // Windows has room for a letter and a colon.
    let letter = if folder.len() <= 3 { folder } else { "" };
    let payload = Payload::new()
        .u64(number("start") * u64::from(SECTOR))
        .u64(number("size") * u64::from(SECTOR))
        .u32(disk as u32)
        .u32(SIZE)
        .u32(if partition > 0 { PARTITION } else { VOLUME })
        .fixed(letter.as_bytes(), 4)
        .u32(0)
        .u32(partition as u32)
        .u32(sectors)
        .u32(SECTOR)
        .u32(0)
        .u64(free)
        .u64(blocks)
        .fixed(file_system.as_bytes(), 16)
        .u32(0)
        .u32(0);
    Some(Configuration { hook: 0x0b0c, version: 2, payload })
}

/// The blocks of the file system with a folder. `None`: they are not known.
fn space_of(folder: &str) -> Option<libc::statvfs64> {
    // SAFETY: the structure consists of numbers.
    let mut space: libc::statvfs64 = unsafe { std::mem::zeroed() };
    // Spaces are written as `\040`.
    let folder = CString::new(folder.replace("\\040", " ")).ok()?;
    // SAFETY: a text with its NUL and a structure, which outlive the call.
    let result = unsafe { libc::statvfs64(folder.as_ptr(), &raw mut space) };
    (result == 0).then_some(space)
}

/// The addresses of network interfaces, with their names.
fn network_addresses() -> Vec<(String, IpAddr)> {
    let mut first = std::ptr::null_mut();
    // SAFETY: a pointer that outlives the call.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut next = first;
    // SAFETY: the list is whole until it is freed below.
    while let Some(one) = unsafe { next.as_ref() } {
        next = one.ifa_next;
        // SAFETY: names have their NUL.
        let name = unsafe { CStr::from_ptr(one.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: an address is that of its family, or null.
        let address = unsafe { one.ifa_addr.as_ref() }.and_then(|address| {
            match i32::from(address.sa_family) {
                libc::AF_INET => {
                    // SAFETY: as said above.
                    let address = unsafe { &*one.ifa_addr.cast::<libc::sockaddr_in>() };
                    Some(IpAddr::from(address.sin_addr.s_addr.to_ne_bytes()))
                }
                libc::AF_INET6 => {
                    // SAFETY: as said above.
                    let address = unsafe { &*one.ifa_addr.cast::<libc::sockaddr_in6>() };
                    Some(IpAddr::from(address.sin6_addr.s6_addr))
                }
                _ => None,
            }
        });
        all.extend(address.map(|address| (name, address)));
    }
    // SAFETY: the list that the system made.
    unsafe { libc::freeifaddrs(first) };
    all
}

fn networks() -> Vec<Configuration> {
    let addresses = network_addresses();
    let resolver = read("/etc/resolv.conf");
    let servers = resolver
        .lines()
        .filter_map(|line| line.strip_prefix("nameserver")?.split_ascii_whitespace().next());
    let servers = servers.collect::<Vec<_>>().join(";");
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
        let is_loopback = read(format!("/sys/class/net/{name}/type")) == LOOPBACK;
        let own = addresses.iter().filter(|(of, _)| *of == name).map(|(_, address)| address);
        let (newer, older): (Vec<IpAddr>, Vec<IpAddr>) = own.partition(|one| one.is_ipv6());
        let own: Vec<String> = newer.iter().chain(&older).map(ToString::to_string).collect();
        // Windows' lists have those of version 6 first.
        let own = own.join(";");
        let payload = Payload::new()
            .bytes(&address)
            .u32(length)
            .u32(index)
            .u32(index)
            .wide(name.as_bytes())
            .wide(own.as_bytes())
            .wide(if is_loopback { b"" } else { servers.as_bytes() });
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
        let list = std::fs::read(format!("/proc/irq/{line}/smp_affinity_list"));
        let affinity = list.map_or(u64::MAX, |list| first_cpus(&list));
        let payload = Payload::new().u64(affinity).u16(0).u16(0).u32(line).u32(units);
        let payload = payload.wide(actions.as_bytes());
        (!actions.is_empty()).then_some(Configuration { hook: 0x0b15, version: 3, payload })
    };
    lines.into_iter().filter_map(interrupt).collect()
}

/// A bit for each of the first 64 CPUs of a list.
fn first_cpus(list: &[u8]) -> u64 {
    cpus_of(list).into_iter().filter(|cpu| *cpu < 64).fold(0, |mask, cpu| mask | 1 << cpu)
}

const ONLINE_CPUS: &str = "/sys/devices/system/cpu/online";
const POSSIBLE_CPUS: &str = "/sys/devices/system/cpu/possible";
/// Has a line for each CPU that is online, and takes longer to read.
const STATISTICS: &str = "/proc/stat";

/// The CPUs that are online, also where a container hides `/sys`. Empty: `/proc` does not have them, either.
pub(crate) fn online_cpus() -> Vec<u16> {
    online_in(&std::fs::read(ONLINE_CPUS).unwrap_or_default(), STATISTICS)
}

/// The numbers of all CPUs that may come online are lower.
pub(crate) fn possible_cpus() -> u16 {
    let listed = cpus_of(&std::fs::read(POSSIBLE_CPUS).unwrap_or_default());
    listed.into_iter().chain(online_cpus()).max().unwrap_or(0).saturating_add(1)
}

/// The CPUs of the kernel's list; if it has none, those of a file of statistics.
fn online_in(list: &[u8], statistics: &str) -> Vec<u16> {
    let listed = cpus_of(list);
    if !listed.is_empty() {
        return listed;
    }
    // `cpu0 4705 356 584 …`, behind the line of all: `cpu  4705 356 584 …`
    let statistics = read(statistics);
    let names = statistics.lines().filter_map(|line| line.split_ascii_whitespace().next());
    names.filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect()
}

fn cpus_of(text: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(text);
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

/// The CPUs that are online, which are looked at again and again. The kernel's list stays open, since opening it takes most of the time of a
/// look.
#[derive(Debug, Default)]
pub(crate) struct OnlineCpus {
    file: Option<File>,
    text: Vec<u8>,
    cpus: Vec<u16>,
}

impl OnlineCpus {
    /// The CPUs that are online, if others were at the last look. `None`, too, if they cannot be listed now.
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
        if !text.is_empty() && text == self.text {
            return None;
        }
        let cpus = online_in(&text, STATISTICS);
        self.text = text;
        (!cpus.is_empty() && cpus != self.cpus).then(|| {
            self.cpus.clone_from(&cpus);
            cpus
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
        (online.text, online.cpus) = (b"0-77\n".to_vec(), (0..=77).collect());
        assert_eq!(online.changed(), Some(online_cpus()), "another list was known");
    }

    /// Regression: without a readable `/sys`, only the first CPU was recorded.
    #[test]
    #[cfg(target_os = "linux")]
    fn without_the_list_of_cpus_the_statistics_have_them() {
        assert_eq!(online_in(b"", STATISTICS), online_cpus());
        assert_eq!(online_in(b"1,3-4\n", STATISTICS), [1, 3, 4]);
        assert_eq!(online_in(b"", "/no/such/file"), [] as [u16; 0]);
    }

    #[test]
    fn an_affinity_has_a_bit_for_each_of_the_first_cpus() {
        let lists: [&[u8]; 4] = [b"1\n", b"0-2,5\n", b"63-70\n", b"64\n"];
        assert_eq!(lists.map(first_cpus), [2, 0b10_0111, 1 << 63, 0]);
    }

    #[test]
    fn a_mount_has_its_device_and_file_system() {
        let line = "36 35 98:1 /root /some\\040folder rw,noatime master:1 - ext4 /dev/sda1 rw,x=y";
        let mount = Mount {
            device: (98, 1),
            folder: "/some\\040folder",
            file_system: "ext4",
            source: "/dev/sda1",
        };
        assert_eq!(mount_of_line(line), Some(mount));
        for bad in ["", "36 35 98:1", "36 35 x:1 / / rw - ext4 /dev/sda1", "a - b"] {
            assert_eq!(mount_of_line(bad), None, "{bad}");
        }
    }

    /// The file systems of this machine's disks, against `statvfs` and the disk's size.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_logical_disk_lies_on_its_disk() {
        let disks = disks();
        let found = logical_disks(&disks);
        let mounts = read("/proc/self/mountinfo");
        let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
        let root = mounts.lines().filter_map(mount_of_line).find(|one| one.folder == "/");
        let Some(root) = root.filter(|root| root.device.0 != 0) else {
            return eprintln!("left out: the root has no disk: {names:?}");
        };
        let space = space_of("/").unwrap();
        let word = |payload: &Payload, at| etw_types::le::u64(&payload.0, at).unwrap();
        let is_root = |one: &&Configuration| word(&one.payload, 64) == space.f_blocks;
        let Some(record) = found.iter().find(is_root) else {
            return eprintln!("left out: no disk for {root:?}: {names:?}");
        };
        let sectors = u64::from(etw_types::le::u32(&record.payload.0, 44).unwrap());
        assert_eq!(sectors * u64::from(SECTOR), space.f_frsize);
        assert!(word(&record.payload, 8) >= space.f_blocks * space.f_frsize, "{record:?}");
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
        let text_of = |fields: &[(String, String)], name: &str| {
            let field = fields.iter().find(|(one, _)| one == name);
            field.map_or(String::new(), |(_, text)| text.clone())
        };
        let fields_of = |hook: u16, name: &str, text: &str| {
            let mut records = all.iter().filter(|(one, _)| *one == hook);
            records.find(|(_, fields)| text_of(fields, name) == text).map(|one| one.1.clone())
        };
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
        let loopback = fields_of(0x0b0d, "NICDescription", "lo").unwrap_or_default();
        let addresses = text_of(&loopback, "IpAddresses");
        assert!(addresses.is_empty() || addresses.ends_with("127.0.0.1"), "{addresses}");
        has(0x0b19, "SystemManufacturer", read("/sys/class/dmi/id/sys_vendor").trim());
    }
}
