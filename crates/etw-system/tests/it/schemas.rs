//! The fields of all kinds of records, by the decoder's schemas. OV-23.

use std::collections::{BTreeMap, BTreeSet};

use etw_decode::{Decoder, Field, Style, Value, Visitor};
use etw_system::neutral::*;
use etw_system::record::{ProviderEvent, RecordKind};
use etw_system::system_calls::{FileOperation, SystemCall};
use etw_system::{Disk, KernelFunction, Machine};
use etw_types::{
    Classic, ClassicHeader, EventRecord, HeaderType, Hook, LoadedModule, SYSTEM_EVENTS,
    UNIVERSAL_SYSTEM, le,
};

use crate::invariants::Taken;
use crate::shaper::{Machinery, fork, image, number, operation, some_file, switch, thread_of};

/// A record's name and its fields with their texts.
type Decoded = (String, Vec<(String, String)>);

/// Counts the outermost fields.
#[derive(Default)]
struct Count {
    fields: usize,
    depth: usize,
}

impl Visitor for Count {
    fn value(&mut self, _field: &Field, _value: Value<'_>) {
        self.fields += usize::from(self.depth == 0);
    }
    fn begin_array(&mut self, field: &Field, _count: usize) {
        self.begin_struct(field);
    }
    fn end_array(&mut self, field: &Field) {
        self.end_struct(field);
    }
    fn begin_struct(&mut self, _field: &Field) {
        self.fields += usize::from(self.depth == 0);
        self.depth += 1;
    }
    fn end_struct(&mut self, _field: &Field) {
        self.depth -= 1;
    }
}

/// Decodes a record: its schema is known, all of its fields are there, and no byte is left.
fn decode(decoder: &mut Decoder, taken: &Taken) -> Decoded {
    let mut record = EventRecord::new(HeaderType::PerfInfo64, &taken.payload);
    record.pointer_size = 8;
    match taken.kind {
        RecordKind::Kernel(class) => match class.header {
            ClassicHeader::System(class) | ClassicHeader::PerfInfo(class) => {
                record.hook = Some(Hook(class.hook.0));
                record.descriptor.version = class.version as _;
            }
            ClassicHeader::Trace(class) => {
                record.header = HeaderType::Full64;
                record.provider = Some(class.guid);
                record.descriptor.opcode.0 = class.kind;
                record.descriptor.version = class.version as _;
            }
            _ => panic!("another header: {taken:?}"),
        },
        RecordKind::Provider(ProviderEvent::Universal(id)) => {
            record.header = HeaderType::Event64;
            record.provider = Some(UNIVERSAL_SYSTEM);
            record.descriptor.id = id;
        }
        RecordKind::Provider(ProviderEvent::Module) => return decode_module(&taken.payload),
        RecordKind::Provider(ProviderEvent::Exec) => return decode_exec(&taken.payload),
        RecordKind::Provider(ProviderEvent::Resumed) => {
            let suspended = taken.u64(0).to_string();
            return ("Resumed".to_owned(), fields([("suspended_ns", suspended)]));
        }
        RecordKind::Provider(ProviderEvent::Waiting) => {
            let may_have_run = (taken.payload[8] != 0).to_string();
            let all = [("waited_ns", taken.u64(0).to_string()), ("may_have_run", may_have_run)];
            return ("Waiting".to_owned(), fields(all));
        }
    }
    let decoded = decoder.decode(&record);
    let name = decoded.event_name().unwrap_or_default().to_owned();
    let mut count = Count::default();
    let visited = decoded.visit_part(&record, &mut count);
    let visited = visited.unwrap_or_else(|| panic!("{name} without a schema: {taken:?}"));
    assert!(visited.rest.is_empty() && visited.reason.is_none(), "{name}: {visited:?} {taken:?}");
    let fields = decoded.fields_text(&record, &Style::default()).unwrap();
    // A stack has as many frames as there are.
    assert!(count.fields == fields.len() || taken.hook == 0x1820, "{name} is short: {taken:?}");
    (name, fields)
}

fn fields<const N: usize>(fields: [(&str, String); N]) -> Vec<(String, String)> {
    fields.map(|(name, text)| (name.to_owned(), text)).into()
}

fn decode_module(payload: &[u8]) -> Decoded {
    let (module, rest) = LoadedModule::read(&payload[4..]).unwrap();
    assert!(rest.is_empty());
    let id: String = module.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let all = fields([
        ("pid", le::u32(payload, 0).unwrap().to_string()),
        ("base", format!("{:#x}", module.base)),
        ("size", format!("{:#x}", module.size)),
        ("bias", format!("{:#x}", module.bias)),
        ("path", module.path),
        ("build_id", id),
    ]);
    ("Module".to_owned(), all)
}

/// The fields of an `Exec` event.
pub fn decode_exec(payload: &[u8]) -> Decoded {
    let text = |at: &mut usize| {
        let start = *at + 2;
        *at = start + usize::from(le::u16(payload, *at).unwrap());
        String::from_utf8_lossy(&payload[start..*at]).into_owned()
    };
    let mut at = 4;
    let path = text(&mut at);
    let count = le::u16(payload, at).unwrap();
    at += 2;
    let arguments: Vec<String> = (0..count).map(|_| text(&mut at)).collect();
    assert_eq!(at, payload.len());
    let all = fields([
        ("pid", le::u32(payload, 0).unwrap().to_string()),
        ("path", path),
        ("argv", arguments.join(",")),
    ]);
    ("Exec".to_owned(), all)
}

/// Records of each kind and size fit their schemas.
pub fn check_schemas(records: &[Taken]) {
    let mut decoder = Decoder::new();
    let mut seen = BTreeSet::new();
    let kinds = records.iter().filter(|one| {
        let provider = match one.kind {
            RecordKind::Kernel(Classic { header: ClassicHeader::Trace(class), .. }) => {
                Some((class.guid, u16::from(class.kind)))
            }
            RecordKind::Provider(ProviderEvent::Universal(id)) => Some((UNIVERSAL_SYSTEM, id)),
            RecordKind::Provider(event) => {
                use ProviderEvent::{Exec, Module, Resumed, Waiting};
                let all = [Module, Exec, Resumed, Waiting];
                let at = all.iter().position(|one| *one == event).unwrap();
                Some((SYSTEM_EVENTS, at as u16))
            }
            RecordKind::Kernel(_) => None,
        };
        seen.insert((one.hook, provider, one.payload.len()))
    });
    kinds.for_each(|one| drop(decode(&mut decoder, one)));
}

const KERNEL: u64 = 0xffff_ffff_8100_0010;

fn addresses(is_v6: bool) -> Addresses {
    let mut all = Addresses { is_v6, local_port: 80, remote_port: 5000, ..Addresses::default() };
    match is_v6 {
        true => {
            all.local[15] = 1;
            all.remote[..2].copy_from_slice(&[0x20, 1]);
        }
        false => {
            all.local[..4].copy_from_slice(&[127, 0, 0, 1]);
            all.remote[..4].copy_from_slice(&[10, 0, 0, 2]);
        }
    }
    all
}

/// A recording with each kind of record.
fn everything() -> Vec<Taken> {
    let machine = Machine {
        cpus: 2,
        images: vec![image(0xffff_ffff_8100_0000, "/boot/vmlinux")],
        system_calls: vec![0xffff_ffff_8200_0000; 512],
        soft_interrupts: (0..10).map(|vector| KERNEL + vector).collect(),
        disks: vec![Disk { device: 1, name: "a".into() }, Disk { device: 2, name: "b".into() }],
        product: ["6.1".into(), "Linux".into()],
        ..Machine::default()
    };
    let mut machine = Machinery::on(machine, &[0x0524]);
    let stack = Stack { kernel: &[KERNEL], user: &[0x4010, 0x4020] };
    let facts = ExecFacts {
        path: b"/usr/bin/ls".to_vec(),
        name: b"ls".to_vec(),
        arguments: b"ls\0-l\0".to_vec(),
        user: Some(1000),
        unit: Some(b"cron.service".to_vec()),
    };
    let found = image(0x40_0000, "/bin/some");
    machine.at(10, 0, 50, fork(60, 50));
    machine.at(11, 0, 60, Detail::Exec { process: 60, facts: &facts });
    machine.at(12, 0, 60, Detail::Map { process: 60, image: &image(0x5000, "/lib/a.so") });
    machine.at(12, 0, 50, Detail::Map { process: 50, image: &found });
    machine.at(13, 0, 60, thread_of(60, 61));
    machine.at(14, 0, 61, Detail::Rename { process: 60, thread: 61, name: b"worker" });
    machine.with_stack(20, 0, 50, stack, switch(50, ThreadState::Sleeping, 0));
    machine.at(30, 1, 1, Detail::Wake { thread: 50, is_interrupt: true });
    machine.at(32_000, 0, 0, switch(0, ThreadState::Ready, 50));
    machine.at(32_010, 0, 50, Detail::Priority { thread: 50, old: 120, new: 98 });
    machine.at(32_020, 0, 50, Detail::Sample { address: 0x4010 });
    machine.at(32_030, 0, 50, Detail::InterruptEnter { line: 300 });
    machine.at(32_031, 0, 50, Detail::InterruptExit { line: 300, is_handled: true });
    for vector in [1, 3] {
        machine.at(32_032, 0, 50, Detail::SoftInterruptEnter { vector });
        machine.at(32_033, 0, 50, Detail::SoftInterruptExit { vector });
    }
    add_devices(&mut machine);
    add_files(&mut machine);
    machine.at(36_000, 0, 60, Detail::Exit { process: 60, thread: 61 });
    machine.at(36_010, 0, 0, Detail::ExitStatus { process: 60, thread: 60, status: 7 });
    machine.at(36_011, 0, 60, Detail::Exit { process: 60, thread: 60 });
    machine.at(400_000, 1, 1, Detail::Lost { count: 3 });
    machine.at(400_001, 1, 1, Detail::Resumed { suspended: 7_000_000_000 });
    let counters = ProcessCounters {
        faults: 7,
        descriptors: 9,
        peak_virtual: 0x9000,
        peak_resident: 0x8000,
        virtual_size: 0x7000,
        resident: 0x6000,
        swapped: 0x5000,
        private: 0x4000,
    };
    let program = ExecFacts {
        path: b"/bin/some".to_vec(),
        unit: Some(b"some.service".to_vec()),
        ..ExecFacts::default()
    };
    machine.at(400_005, 0, 0, Detail::ProgramFound { process: 50, facts: &program });
    machine.at(400_010, 0, 0, Detail::Counters { process: 50, counters: &counters });
    assert!(machine.shaper.kernel_addresses().contains(&KERNEL));
    let function =
        KernelFunction { start: KERNEL & !0xff, end: KERNEL | 0xff, name: b"do_it".into() };
    machine.shaper.name_kernel_functions(vec![function]);
    machine.end()
}

/// Requests of a disk, and what sockets do.
fn add_devices(machine: &mut Machinery) {
    let mut time = 32_100;
    for (operation, sector, size) in [
        (DiskOperation::Read, 8, 4096),
        (DiskOperation::Write, 16, 512),
        (DiskOperation::Flush, 0, 0),
    ] {
        let is_background = operation == DiskOperation::Read;
        let request = DiskRequest { device: 2, sector, size, operation, is_background };
        machine.at(time, 0, 50, Detail::DiskIssue(request));
        machine.at(time + 7, 0, 0, Detail::DiskComplete(request));
        time += 10;
    }
    for is_v6 in [false, true] {
        let addresses = addresses(is_v6);
        let socket = if is_v6 { 6 } else { 4 };
        let state = |socket, old, new| Detail::SocketState { socket, old, new, addresses };
        machine.at(time, 0, 50, state(socket, 7, 2));
        machine.at(time + 1, 0, 0, state(socket, 2, 1));
        machine.at(time + 2, 0, 1, state(socket + 10, 7, 10));
        machine.at(time + 3, 0, 0, state(socket + 20, 3, 1));
        for (protocol, is_send, size) in
            [(6, true, 99), (6, false, 98), (17, true, 97), (17, false, 96)]
        {
            let transfer = Detail::Transfer { socket, protocol, is_send, size, addresses };
            machine.at(time + 4, 0, 50, transfer);
        }
        machine.at(time + 5, 0, 0, Detail::Retransmit { socket, addresses });
        machine.at(time + 6, 0, 0, state(socket, 1, 7));
        machine.at(time + 7, 0, 50, state(socket + 30, 7, 2));
        machine.at(time + 8, 0, 50, state(socket + 30, 2, 7));
        time += 10;
    }
}

/// Calls on files and memory, and page faults.
fn add_files(machine: &mut Machinery) {
    let file = some_file();
    let open = number(
        |call| matches!(call, SystemCall::File(FileOperation::Open, one) if one.flags.is_some()),
    );
    machine.call_with(33_000, (open, &[0, 0o1101, 0o1101]), Some(&file.clone().into()), 5);
    let by_descriptor = [
        (operation(FileOperation::Write), &[5, 0x1000, 100][..], 60),
        (operation(FileOperation::Read), &[5, 0x1000, 10], -5),
        (operation(FileOperation::Flush), &[5], 0),
        (operation(FileOperation::List), &[5, 0, 4096], 0),
        (operation(FileOperation::Control), &[5, 0x5401, 0], 0),
    ];
    let mut time = 33_010;
    for (number, arguments, result) in by_descriptor {
        machine.call(time, number, arguments, result);
        time += 10;
    }
    for kind in
        [FileOperation::Delete, FileOperation::Rename, FileOperation::Query, FileOperation::Set]
    {
        let by_path = number(
            |call| matches!(call, SystemCall::File(one, meaning) if one == kind && meaning.descriptor.is_none()),
        );
        machine.call(time, by_path, &[], -2);
        time += 10;
    }
    let map = number(|call| call == SystemCall::Map);
    let unmap = number(|call| call == SystemCall::Unmap);
    machine.call(34_000, map, &[0, 0x3000, 1, 2, 5, 0], 0x7000_0000);
    machine.call(34_010, unmap, &[0x7000_0000, 0x3000], 0);
    machine.call(34_020, map, &[0, 0x2000, 3, 0x22, u64::MAX, 0], 0x7100_0000);
    machine.call(34_030, unmap, &[0x7100_0000, 0x2000], 0);
    machine.call(34_040, operation(FileOperation::Close), &[5], 0);
    let page = Detail::FileFault { file: file.id, offset: 0x2000, is_around: false };
    let fault = |is_hard| Detail::Fault { address: 0x1234, program_counter: 0x4010, is_hard };
    for (begins, of_file, is_hard) in [
        (Some(true), false, false),
        (None, false, false),
        (Some(false), true, false),
        (Some(false), true, true),
    ] {
        time = time.max(35_000) + 10;
        begins.into_iter().for_each(|is_protection| {
            machine.at(time, 0, 50, Detail::FaultBegin { is_protection });
        });
        if of_file {
            machine.at(time + 1, 0, 50, page);
        }
        machine.at(time + 2, 0, 50, fault(is_hard));
    }
}

/// Each kind of record: its hook (0: a classic record), its name, and fields that one record of the kind has together.
const KINDS: &[(u16, &str, &str)] = &[
    (
        0x0000,
        "ImageID/DbgID_RSDS",
        "ImageBase=0x5000 ProcessId=60 GuidSig=01010101-0101-0101-0101-010101010101 PdbFileName=a.so.debug",
    ),
    (0x0000, "LostEvent/RTLostEvent", ""),
    (0x0000, "Resumed", "suspended_ns=7000000000"),
    (0x0000, "Exec", "pid=60 path=/usr/bin/ls argv=ls,-l"),
    (
        0x0000,
        "Module",
        "pid=60 base=0x5000 size=0x1000 bias=0x5000 path=/lib/a.so build_id=0101010101010101010101010101010101010101",
    ),
    (
        0x0000,
        "ProcessMapping",
        "Id=3 StartAddress=0x5000 EndAddress=0x6000 FileOffset=0x0 FileName=/lib/a.so MetadataId=1",
    ),
    (
        0x0000,
        "ProcessMappingMetadata",
        r#"Id=1 SymbolMetadata={"type":"ELF","build_id":"0101010101010101010101010101010101010101","p_vaddr":"0x0","p_offset":"0x0"} VersionMetadata={}"#,
    ),
    (
        0x0000,
        "ProcessSymbol",
        "StartAddress=0xffffffff81000000 EndAddress=0xffffffff810000fe Name=do_it",
    ),
    (0x0000, "SysConfigEx/BuildInfo", "BuildLab=6.1 ProductName=Linux"),
    (0x0005, "EventTrace/Extension", "GroupMask3=0x40 KernelEventVersion=0x46"),
    (0x0008, "EventTrace/RDComplete", ""),
    (0x0020, "EventTrace/EndExtension", "GroupMask3=0x40 KernelEventVersion=0x46"),
    // Bytes, sectors of 512 bytes, and 100 ns.
    (
        0x010a,
        "DiskIo/Read",
        "DiskNumber=1 IrpFlags=393218 TransferSize=4096 ByteOffset=4096 HighResResponseTime=70 IssuingThreadId=50",
    ),
    (
        0x010b,
        "DiskIo/Write",
        "DiskNumber=1 IrpFlags=393216 TransferSize=512 ByteOffset=8192 HighResResponseTime=70 IssuingThreadId=50",
    ),
    (0x010c, "DiskIo/ReadInit", "Irp=0xffff000000000001 IssuingThreadId=50"),
    (0x010d, "DiskIo/WriteInit", "Irp=0xffff000000000002 IssuingThreadId=50"),
    (
        0x010e,
        "DiskIo/FlushBuffers",
        "DiskNumber=1 IrpFlags=393216 HighResResponseTime=70 Irp=0xffff000000000003 IssuingThreadId=50",
    ),
    (0x010f, "DiskIo/FlushInit", "Irp=0xffff000000000003 IssuingThreadId=50"),
    (0x020a, "PageFault/TransitionFault", "VirtualAddress=0x1234 ProgramCounter=0x4010"),
    (0x020b, "PageFault/DemandZeroFault", "VirtualAddress=0x1234 ProgramCounter=0x4010"),
    (0x020c, "PageFault/CopyOnWrite", "VirtualAddress=0x1234 ProgramCounter=0x4010"),
    (
        0x0220,
        "PageFault/HardFault",
        "InitialTime=10350400 ReadOffset=8192 VirtualAddress=0x1234 FileObject=0xffff6a4d59620f72 TThreadId=50 ByteCount=4096",
    ),
    (
        0x0262,
        "PageFault/VirtualAlloc",
        "BaseAddress=0x71000000 RegionSize=0x2000 ProcessId=50 Flags=12288",
    ),
    (
        0x0263,
        "PageFault/VirtualFree",
        "BaseAddress=0x71000000 RegionSize=0x2000 ProcessId=50 Flags=32768",
    ),
    (
        0x0301,
        "Process/Start",
        "ProcessId=60 ParentId=50 ExitStatus=259 UserSID= ImageFileName=some CommandLine=",
    ),
    (
        0x0302,
        "Process/End",
        "ProcessId=60 ParentId=50 ExitStatus=7 UserSID=S-1-22-1-1000 ImageFileName=ls PackageFullName=cron.service",
    ),
    (
        0x0303,
        "Process/DCStart",
        "UniqueProcessKey=0xffff000000000004 ProcessId=4 ParentId=0 SessionId=4294967295 ExitStatus=259 Flags=4 ImageFileName=System",
    ),
    (
        0x0304,
        "Process/DCEnd",
        "UniqueProcessKey=0xffff000000000032 ProcessId=50 ExitStatus=259 UserSID= ImageFileName=some",
    ),
    (
        0x030a,
        "Image/Load",
        "ImageBase=0x5000 ImageSize=0x1000 ProcessId=60 TimeDateStamp=16843009 DefaultBase=0x0 FileName=/lib/a.so",
    ),
    (
        0x0321,
        "Process/PerfCtrRundown",
        "ProcessId=50 PageFaultCount=7 HandleCount=9 PeakVirtualSize=0x9000 PeakWorkingSetSize=0x8000 VirtualSize=0x7000 WorkingSetSize=0x6000 PagefileUsage=0x5000 PrivatePageCount=0x4000",
    ),
    (0x0400, "FileIo/Name", "FileObject=0xffff6a4d59620f72 FileName=/data/x"),
    (0x0424, "FileIo/FileRundown", "FileObject=0xffff6a4d59620f72 FileName=/data/x"),
    (
        0x0425,
        "FileIo/MapFile",
        "ViewBase=0x70000000 FileObject=0xffff6a4d59620f72 ViewSize=0x3000 ProcessId=50",
    ),
    (
        0x0426,
        "FileIo/UnmapFile",
        "ViewBase=0x70000000 FileObject=0xffff6a4d59620f72 ViewSize=0x3000 ProcessId=50",
    ),
    // OVERWRITE_IF is 5, in the top byte.
    (
        0x0440,
        "FileIo/Create",
        "IrpPtr=0xffff800000000001 FileObject=0xffff000000000001 TTID=50 CreateOptions=83886080 ShareAccess=7 OpenPath=/data/x",
    ),
    (0x0441, "FileIo/Cleanup", "FileObject=0xffff000000000001 FileKey=0xffff6a4d59620f72 TTID=50"),
    (0x0442, "FileIo/Close", "FileObject=0xffff000000000001 FileKey=0xffff6a4d59620f72 TTID=50"),
    (
        0x0443,
        "FileIo/Read",
        "Offset=60 FileObject=0xffff000000000001 FileKey=0xffff6a4d59620f72 TTID=50 IoSize=10",
    ),
    (
        0x0444,
        "FileIo/Write",
        "Offset=0 FileObject=0xffff000000000001 FileKey=0xffff6a4d59620f72 TTID=50 IoSize=100",
    ),
    (0x0445, "FileIo/SetInfo", "FileObject=0x0 FileKey=0x0 TTID=50"),
    (0x0446, "FileIo/Delete", "FileObject=0x0 FileKey=0x0 TTID=50"),
    (0x0447, "FileIo/Rename", "FileObject=0x0 FileKey=0x0 TTID=50"),
    (
        0x0448,
        "FileIo/DirEnum",
        "FileObject=0xffff000000000001 FileKey=0xffff6a4d59620f72 TTID=50 Length=4096",
    ),
    (0x0449, "FileIo/Flush", "FileObject=0xffff000000000001 FileKey=0xffff6a4d59620f72 TTID=50"),
    (0x044a, "FileIo/QueryInfo", "FileObject=0x0 FileKey=0x0 TTID=50"),
    // TCGETS
    (0x044b, "FileIo/FSControl", "FileObject=0xffff000000000001 TTID=50 InfoClass=21505"),
    // -5, of the read.
    (0x044c, "FileIo/OperationEnd", "ExtraInfo=0xfffffffffffffffb NtStatus=4294967291"),
    (
        0x0501,
        "Thread/Start",
        "ProcessId=60 TThreadId=61 Affinity=0x3 BasePriority=8 PagePriority=5 IoPriority=2",
    ),
    (0x0502, "Thread/End", "ProcessId=60 TThreadId=61 ThreadName=worker"),
    (0x0503, "Thread/DCStart", "ProcessId=0 TThreadId=0 Affinity=0x2"),
    (0x0504, "Thread/DCEnd", "ProcessId=50 TThreadId=50 BasePriority=17"),
    (
        0x0524,
        "Thread/CSwitch",
        "NewThreadId=50 OldThreadId=0 NewThreadPriority=8 OldThreadPriority=0 OldThreadWaitReason=33 OldThreadState=1 NewThreadWaitTime=2",
    ),
    (0x0530, "Thread/SetPriority", "ThreadId=50 OldPriority=8 NewPriority=17"),
    (0x0532, "Thread/ReadyThread", "TThreadId=50 AdjustReason=1 Flag=1"),
    (0x0548, "Thread/SetName", "ProcessId=60 ThreadId=61 ThreadName=worker"),
    (
        0x060a,
        "TcpIp/SendIPV4",
        "PID=50 size=99 daddr=10.0.0.2 saddr=127.0.0.1 dport=5000 sport=80 startime=1032 endtime=1032 connid=0x4",
    ),
    (
        0x060b,
        "TcpIp/RecvIPV4",
        "PID=50 size=98 daddr=10.0.0.2 saddr=127.0.0.1 dport=5000 sport=80 connid=0x4",
    ),
    (
        0x060c,
        "TcpIp/ConnectIPV4",
        "PID=50 size=0 daddr=10.0.0.2 saddr=127.0.0.1 dport=5000 sport=80 connid=0x4",
    ),
    (
        0x060d,
        "TcpIp/DisconnectIPV4",
        "PID=50 daddr=10.0.0.2 saddr=127.0.0.1 dport=5000 sport=80 connid=0x4",
    ),
    (
        0x060e,
        "TcpIp/RetransmitIPV4",
        "PID=50 daddr=10.0.0.2 saddr=127.0.0.1 dport=5000 sport=80 connid=0x4",
    ),
    (
        0x060f,
        "TcpIp/AcceptIPV4",
        "PID=1 daddr=10.0.0.2 saddr=127.0.0.1 dport=5000 sport=80 connid=0x18",
    ),
    (0x0611, "TcpIp/Fail", "Proto=2 FailureCode=5"),
    (
        0x061a,
        "TcpIp/SendIPV6",
        "PID=50 size=99 daddr=2001:: saddr=::1 dport=5000 sport=80 startime=1032 endtime=1032 connid=0x6",
    ),
    (
        0x061b,
        "TcpIp/RecvIPV6",
        "PID=50 size=98 daddr=2001:: saddr=::1 dport=5000 sport=80 connid=0x6",
    ),
    (
        0x061c,
        "TcpIp/ConnectIPV6",
        "PID=50 size=0 daddr=2001:: saddr=::1 dport=5000 sport=80 connid=0x6",
    ),
    (
        0x061d,
        "TcpIp/DisconnectIPV6",
        "PID=50 daddr=2001:: saddr=::1 dport=5000 sport=80 connid=0x6",
    ),
    (
        0x061e,
        "TcpIp/RetransmitIPV6",
        "PID=50 daddr=2001:: saddr=::1 dport=5000 sport=80 connid=0x6",
    ),
    (0x061f, "TcpIp/AcceptIPV6", "PID=1 daddr=2001:: saddr=::1 dport=5000 sport=80 connid=0x1a"),
    (
        0x080a,
        "UdpIp/SendIPV4",
        "PID=50 size=97 daddr=10.0.0.2 saddr=127.0.0.1 dport=5000 sport=80 connid=0x4",
    ),
    (
        0x080b,
        "UdpIp/RecvIPV4",
        "PID=50 size=96 daddr=10.0.0.2 saddr=127.0.0.1 dport=5000 sport=80 connid=0x4",
    ),
    (
        0x081a,
        "UdpIp/SendIPV6",
        "PID=50 size=97 daddr=2001:: saddr=::1 dport=5000 sport=80 connid=0x6",
    ),
    (
        0x081b,
        "UdpIp/RecvIPV6",
        "PID=50 size=96 daddr=2001:: saddr=::1 dport=5000 sport=80 connid=0x6",
    ),
    (0x0f2e, "PerfInfo/SampleProf", "InstructionPointer=0x4010 ThreadId=50 Count=1 Reserved=136"),
    (0x0f33, "PerfInfo/SysClEnter", "SysCallAddress=0xffffffff82000000"),
    (0x0f34, "PerfInfo/SysClExit", "SysCallNtStatus=4294967291"),
    (
        0x0f43,
        "PerfInfo/ISR",
        "InitialTime=10320300 Routine=0xfffffffe0000012c ReturnValue=1 Vector=300",
    ),
    (0x0f44, "PerfInfo/DPC", "InitialTime=10320320 Routine=0xffffffff81000013"),
    (0x0f45, "PerfInfo/TimerDPC", "InitialTime=10320320 Routine=0xffffffff81000011"),
    (
        0x0b0f,
        "SystemConfig/Services",
        "ProcessId=50 ServiceState=4 SubProcessTag=0 ServiceName=some.service DisplayName=some.service ProcessName=some",
    ),
    (
        0x0f49,
        "PerfInfo/CollectionStart",
        "Source=0 NewInterval=10000 OldInterval=10000 SourceName=Timer",
    ),
    (
        0x0f4a,
        "PerfInfo/CollectionEnd",
        "Source=0 NewInterval=10000 OldInterval=10000 SourceName=Timer",
    ),
    (0x1402, "Image/UnLoad", "ImageBase=0x5000 ImageSize=0x1000 ProcessId=60 FileName=/lib/a.so"),
    (
        0x1403,
        "Image/DCStart",
        "ImageBase=0xffffffff81000000 ImageSize=0x1000 ProcessId=0 FileName=/boot/vmlinux",
    ),
    (0x1404, "Image/DCEnd", "ImageBase=0x400000 ImageSize=0x1000 ProcessId=50 FileName=/bin/some"),
    (
        0x1820,
        "StackWalk/Stack",
        "EventTimeStamp=10320000 StackProcess=50 StackThread=50 Stack1=0xffffffff81000010 Stack2=0x4010 Stack3=0x4020",
    ),
];

/// OV-23: a file's metadata has one number, and is written again now and then, as a buffer of the newest events may have lost it.
#[test]
fn metadata_of_files_is_written_again() {
    let mut machine = Machinery::new();
    let one = |base| image(base, "/lib/a.so");
    for (time, base) in [(10, 0x10_0000), (60_000, 0x20_0000), (200_000, 0x30_0000)] {
        machine.at(time, 0, 50, Detail::Map { process: 50, image: &one(base) });
    }
    let mut decoder = Decoder::new();
    let universal = |id| RecordKind::Provider(ProviderEvent::Universal(id));
    let mut numbers = |records: &[Taken], id| -> Vec<String> {
        let all = records.iter().filter(|one| one.kind == universal(id));
        all.map(|one| {
            let (_, fields) = decode(&mut decoder, one);
            let name = if id == 5 { "Id" } else { "MetadataId" };
            fields.iter().find(|(one, _)| one == name).unwrap().1.clone()
        })
        .collect()
    };
    let records = machine.end();
    // The end has the metadata and the mappings again.
    let of_file = |all: Vec<String>| all.into_iter().filter(|number| number == "1").count();
    let (metadata, mappings) = (numbers(&records, 5), numbers(&records, 3));
    assert_eq!((of_file(metadata), of_file(mappings)), (3, 6));
}

/// OV-23: each kind of record that the shaper makes is decoded to its last byte, and its fields are those of the events: sizes, ids, addresses and
/// units. A new kind needs a row.
#[test]
fn each_kind_of_record_has_the_fields_of_its_schema() {
    let mut decoder = Decoder::new();
    let mut found: BTreeMap<(u16, String), Vec<String>> = BTreeMap::new();
    for one in everything() {
        let (name, fields) = decode(&mut decoder, &one);
        let texts = fields.iter().map(|(name, text)| format!("{name}={text} "));
        found.entry((one.hook, name)).or_default().push(texts.collect());
    }
    for (hook, name, wanted) in KINDS {
        let records = found.remove(&(*hook, (*name).to_owned()));
        let records = records.unwrap_or_else(|| panic!("no record: {hook:04x} {name}"));
        let has_all = |texts: &&String| {
            wanted
                .split(' ')
                .filter(|field| !field.is_empty())
                .all(|field| format!(" {texts}").contains(&format!(" {field} ")))
        };
        assert!(records.iter().any(|texts| has_all(&texts)), "{name}: {wanted} in {records:#?}");
    }
    assert!(found.is_empty(), "without a row: {found:#?}");
}
