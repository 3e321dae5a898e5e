//! A table of the forms in which users of Windows ask for the kernel's events, and the events that they get.

use super::{logman, tracelog, wpr, xperf};
use crate::output::Failure;
use etw_host::SystemConfig;

/// Words 0 and 1 of the group masks, and the call stacks; processes, threads and images are always among them.
type Asked = ([u32; 2], &'static [u16]);

const PROCESSES: u32 = 7;
const SWITCH: u32 = 4;
const PROFILE: u32 = 2;
const READY: u32 = 0x200;
const INTERRUPTS: u32 = 0x4080;

/// Spaces in quoted names are written as underscores.
fn words(line: &str) -> Vec<String> {
    let named = |word: &str| match word.split('_').next() {
        Some("NT" | "Windows") => word.replace('_', " "),
        _ => word.to_owned(),
    };
    line.split_whitespace().map(named).collect()
}

fn config_of(line: &str) -> Result<Option<SystemConfig>, String> {
    let words = words(line);
    let parse = match words[0].as_str() {
        "xperf" => xperf::kernel_of,
        "tracelog" => tracelog::kernel_of,
        "logman" => logman::kernel_of,
        _ => wpr::kernel_of,
    };
    parse(&words[1..]).map_err(|failure| match failure {
        Failure::Usage(text) => text,
        _ => String::new(),
    })
}

fn check(table: &[(&str, Asked)]) {
    for (line, (masks, stacks)) in table {
        let config = config_of(line).unwrap_or_else(|text| panic!("{line}: {text}"));
        let config = config.unwrap_or_else(|| panic!("{line}: nothing"));
        assert_eq!(
            (config.masks[..2].to_vec(), &config.stacks[..]),
            (masks.to_vec(), *stacks),
            "{line}"
        );
    }
}

/// OV-24: forms of Microsoft's documentation, of its support and of blogs.
#[test]
fn forms_of_windows_give_their_events() {
    let table: &[(&str, Asked)] = &[
        ("xperf -on Base", ([0x2107, PROFILE], &[])),
        ("xperf -on Diag", ([0x210f, SWITCH | INTERRUPTS], &[])),
        ("xperf -on DiagEasy", ([0x210f, SWITCH | INTERRUPTS], &[])),
        ("xperf -on Latency", ([0x2107, PROFILE | SWITCH | INTERRUPTS], &[])),
        ("xperf -on FileIO", ([0x600_2107, 0], &[])),
        ("xperf -on IOTrace", ([0x2107, SWITCH], &[])),
        ("xperf -on ResumeTrace", ([0x2107, PROFILE], &[])),
        ("xperf -on SysProf", ([PROCESSES, PROFILE], &[])),
        ("xperf -on ResidentSet", ([0xa107, 0x8000], &[])),
        ("xperf -on ReferenceSet", ([0xa007, 0x8000], &[])),
        ("xperf -on Network", ([0x1_0007, 0], &[])),
        ("xperf -on base+cswitch+dispatcher", ([0x2107, PROFILE | SWITCH | READY], &[])),
        ("xperf -on PROC_THREAD+LOADER+REGISTRY+PROFILE", ([PROCESSES, PROFILE], &[])),
        ("xperf -on 0x10005", ([0x1_0007, 0], &[])),
        (
            "xperf -on Latency -stackwalk Profile+CSwitch+ReadyThread -BufferSize 1024 -MinBuffers 128 -MaxBuffers 320 \
             -MaxFile 1024 -FileMode Circular -f k.etl",
            ([0x2107, PROFILE | SWITCH | INTERRUPTS], &[0x0f2e, 0x0524, 0x0532]),
        ),
        (
            "xperf -on base -stackwalk ThreadCreate -stackwalk ProcessCreate",
            ([0x2107, PROFILE], &[0x0501, 0x0301]),
        ),
        ("xperf -on Latency+WDF_DPC", ([0x2107, PROFILE | SWITCH | INTERRUPTS], &[])),
        ("xperf -on Base -stackwalk Profile+HandleCreate", ([0x2107, PROFILE], &[0x0f2e])),
        (
            "xperf -on Base -stackwalk HandleCreate -stackwalk Profile",
            ([0x2107, PROFILE], &[0x0f2e]),
        ),
        ("xperf -on base -stackwalk 0x0501", ([0x2107, PROFILE], &[0x0501])),
        ("xperf -start NT_Kernel_Logger -on SysProf", ([PROCESSES, PROFILE], &[])),
        ("xperf -on SysProf -setprofint 1221 cached", ([PROCESSES, PROFILE], &[])),
        ("tracelog -start", ([0x1_0107, 0], &[])),
        (
            "tracelog -start NT_Kernel_Logger -f k.etl -dpcisr",
            ([0x1_0107, SWITCH | INTERRUPTS], &[]),
        ),
        (
            "tracelog -start NT_Kernel_Logger -dpcisr -nodisk -nonet -UsePerfCounter -b 64",
            ([PROCESSES, SWITCH | INTERRUPTS], &[]),
        ),
        ("tracelog -start -noprocess -nothread -nodisk -nonet -img", ([PROCESSES, 0], &[])),
        ("tracelog -start -pf -hf -img -fio", ([0x601_3107, 0], &[])),
        ("tracelog -start -eflag 1 0x10005", ([0x1_0107, 0], &[])),
        ("tracelog -start -eflag 2 PROC_THREAD CSWITCH", ([0x1_0107, SWITCH], &[])),
        (
            "tracelog -start s -systemlogger -eflag 8 0x7 0x2 0 0 0 0 0 0",
            ([PROCESSES, PROFILE], &[]),
        ),
        (
            "tracelog -start -eflag 2 0x7 0x2 -stackwalk Profile -SetProfInt 10000 0",
            ([0x1_0107, PROFILE], &[0x0f2e]),
        ),
        (
            "logman start NT_Kernel_Logger -p Windows_Kernel_Trace (process,thread,img,disk) -o k -ets",
            ([0x107, 0], &[]),
        ),
        (
            "logman create trace NT_Kernel_Logger -p Windows_Kernel_Trace \
             (process,thread,cswitch,dpc,isr,pf,hf,net,fileio,fileiocompletion,profile,syscall) -o k -nb 16 256 -bs 1024 \
             -mode Circular -f bincirc -max 4096 -ow -ets",
            ([0x601_3007, SWITCH | INTERRUPTS | PROFILE], &[]),
        ),
        ("logman start s -p Windows_Kernel_Trace 0x10005 -ets", ([0x1_0007, 0], &[])),
        ("logman start s -p Windows_Kernel_Trace 65541 0xff -ets", ([0x1_0007, 0], &[])),
        (
            "logman start s -p {9E814AAD-3204-11D2-9A82-006008A86939} (process,registry) -ets",
            ([PROCESSES, 0], &[]),
        ),
        ("wpr -start CPU.light -filemode", ([PROCESSES, PROFILE | SWITCH | READY], &[0x0f2e])),
        ("wpr -start network.Light", ([0x1_0007, 0], &[])),
    ];
    check(table);
    let interval = |line: &str| config_of(line).unwrap().unwrap().sample_interval;
    assert_eq!(interval("xperf -on SysProf -setprofint 1221 cached"), 1221);
    assert_eq!(interval("tracelog -start -eflag 2 7 2 -SetProfInt 20000 timer"), 20_000);
}

/// OV-24: system providers, whose classes the host adds to the lives of processes.
#[test]
fn the_kernels_session_has_system_providers() {
    check(&[
        ("xperf -on SystemSchedulerProviderGuid", ([PROCESSES, 0], &[])),
        (
            "xperf -on 599a2a76-4d91-4910-9ac7-7d33f2e97a6c:0x200+Network -stackwalk CSwitch",
            ([0x1_0007, 0], &[0x0524]),
        ),
        (
            "xperf -on SystemProfileProviderGuid -stackwalk Profile -setprofint 1221",
            ([PROCESSES, 0], &[0x0f2e]),
        ),
        ("tracelog -start -guid SystemSchedulerProviderGuid", ([0x1_0107, 0], &[])),
        (
            "tracelog -start -nodisk -nonet -guid #{599a2a76-4d91-4910-9ac7-7d33f2e97a6c}",
            ([PROCESSES, 0], &[]),
        ),
        ("tracelog -start s -guid SystemIoProviderGuid -flag 1", ([PROCESSES, 0], &[])),
        (
            "logman start NT_Kernel_Logger -p SystemSchedulerProviderGuid 0x200 -ets",
            ([PROCESSES, 0], &[]),
        ),
        ("logman start s -p SystemTraceControlGuid (process,disk) -ets", ([0x107, 0], &[])),
    ]);
}

/// OV-24: Linux lacks them, or Windows refuses them, too.
#[test]
fn forms_without_events_are_refused_by_name() {
    for (line, text) in [
        (
            "xperf -on REGISTRY+ALPC",
            "REGISTRY, ALPC: openetw does not record these events on Linux",
        ),
        ("xperf -on spinlock", "SPINLOCK: openetw does not record"),
        ("xperf -on Base+colour", "colour is no flag or group of the kernel"),
        ("xperf -on SystemIoProviderGuid+My-Provider", "My-Provider is no flag or group"),
        ("xperf -on Latancy", "Latancy is no flag or group of the kernel; did you mean Latency?"),
        ("xperf -on Base -stackwalk profil", "profil is not known; did you mean Profile?"),
        ("logman start s -p Windows_Kernel_Trace (proces) -ets", "did you mean process?"),
        ("tracelog -start -eflag 1 CSWICH", "did you mean CSWITCH?"),
        ("xperf -on Base -stackwalk RegQueryKey", "RegQueryKey: openetw records no call stacks"),
        ("xperf -on Base -stackwalk 0x0b20", "0x0b20: openetw records no call stacks"),
        ("xperf -on Base -stackwalk Colour", "Colour: no event with call stacks; use Profile"),
        ("xperf -on Base -stackwalk @/nowhere/f", "/nowhere/f: No such file"),
        ("xperf -on Base -setprofint 1", "the shortest interval is 500"),
        ("xperf -on Base -setprofint abc", "\"abc\" is not a number; give it as 10 or 0x10"),
        ("xperf -setprofint 1221 cached", "flags of the kernel with -on"),
        (
            "xperf -on Base -FileMode NewFile -MaxFile 10 -f k%d.etl",
            "cannot write a series of files",
        ),
        (
            "tracelog -start -eflag 0x10005",
            "65541 values are announced, and 0 follow; the form is a number of values",
        ),
        (
            "tracelog -start -guid #{11111111-3204-11d2-9a82-006008a86939}",
            "records the kernel only",
        ),
        ("tracelog -start -UseSystemTime", "performance counter (qpc); use -UsePerfCounter"),
        ("xperf -on Base -ClockType SystemTime", "(qpc); use -ClockType PerfCounter"),
        (
            "xperf -on Base -FileMode Append",
            "a file that is appended to is in system time, and events",
        ),
        ("tracelog -start -gs", "no sequence numbers"),
        ("tracelog -start -ls", "no sequence numbers"),
        ("tracelog -start -newfile 10 -f k%d.etl", "cannot write a series of files"),
        ("tracelog -start -cm", "only the kernel of Windows"),
        ("tracelog -start -ProfileSource 1", "only the kernel of Windows"),
        ("logman start s -p Windows_Kernel_Trace -ets", "needs its flags"),
        ("logman start s -p Windows_Kernel_Trace (process,colour) -ets", "colour: no class"),
        (
            "logman start s -p Windows_Kernel_Trace (registry,alpc) -ets",
            "REGISTRY, ALPC: openetw does",
        ),
        ("wpr -start Power", "there is no profile Power"),
        ("wpr -start CPU.heavy", "there is no profile CPU.heavy"),
    ] {
        match config_of(line) {
            Err(message) => assert!(message.contains(text), "{line}: {message}"),
            Ok(config) => panic!("{line}: {config:?}"),
        }
    }
}

/// OV-24: a file of call stacks, a file of providers, and files of profiles as Microsoft's tools and documentation have them.
#[test]
fn files_name_events_of_the_kernel() {
    let place = std::env::temp_dir().join(format!("etw-kernel-forms-{}", std::process::id()));
    std::fs::create_dir(&place).unwrap();
    let file = |name: &str, text: &str| {
        let path = place.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let stacks = file(
        "stack.txt",
        "\u{feff}ThreadCreate ProcessCreate\r\n\r\n! all\r\nDiskReadInit+CSwitch\r\n",
    );
    let providers = file("k.pf", "\"Windows Kernel Trace\" (process, cswitch) 0xff\n");
    let profiles = file(
        "p.wprp",
        r#"<?xml version="1.0" encoding="utf-8" standalone='yes'?>
<WindowsPerformanceRecorder Version="1.0" Author="Some" Team="x" Comments="y" Company="z" Copyright="z" Tag="t">
  <Profiles>
    <SystemCollector Id="SystemCollector_Wpr" Name="NT Kernel Logger" FileName="k.etl">
      <BufferSize Value="1024"/><Buffers Value="3" PercentageOfTotalMemory="true"/><StackCaching BucketCount="2048" CacheSize="20480"/>
    </SystemCollector>
    <EventCollector Id="EventCollector_Wpr" Name="Events" Private="false" Secure="false" Realtime="false">
      <BufferSize Value="256"/><Buffers Value="64"/>
    </EventCollector>
    <SystemProvider Id="SystemProvider_Base" Base="">
      <Keywords Operation="Add">
        <Keyword Value="CpuConfig"/><Keyword Value="ProcessThread"/><Keyword Value="Loader"/><Keyword Value="CSwitch"/>
        <Keyword Value="Registry"/><Keyword Value="IdleStates"/><Keyword Value="SpinLock"/><Keyword Value="WSDetail"/>
        <Keyword Value="WDFDPC"/><Keyword Value="WDFInterrupt"/><Keyword Value="Handle"/><Keyword Value="RegistryHive"/>
        <CustomKeyword Value="0x20000002"/>
      </Keywords>
      <Stacks>
        <Stack Value="CSwitch"/><Stack Value="ImageLoad"/><Stack Value="RegistryQueryKey"/><Stack Value="PoolAllocation"/>
        <Stack Value="HandleCreate"/><Stack Value="HandleClose"/><Stack Value="HandleDuplicate"/>
      </Stacks>
      <PoolTags><PoolTag Value="*"/></PoolTags>
    </SystemProvider>
    <Profile Id="Some.Verbose.File" Name="Some" Description="Some" DetailLevel="Verbose" LoggingMode="File" Default="true">
      <ProblemCategories><ProblemCategory Value="First Level Triage"/></ProblemCategories>
      <Collectors Operation="Add">
        <SystemCollectorId Value="SystemCollector_Wpr"><SystemProviderId Value="SystemProvider_Base"/></SystemCollectorId>
      </Collectors>
      <TraceMergeProperties><TraceMergeProperty Id="T" Name="m"/></TraceMergeProperties>
    </Profile>
    <Profile Id="Some.Verbose.Memory" Base="Some.Verbose.File" Name="Some" DetailLevel="Verbose" LoggingMode="Memory"/>
    <Profile Id="Heap.Verbose.File" Name="Heap" DetailLevel="Verbose" LoggingMode="File">
      <Collectors><HeapEventCollectorId Value="H"/></Collectors>
    </Profile>
  </Profiles>
</WindowsPerformanceRecorder>"#,
    );
    let asked = |line: &str| {
        let config = config_of(line).unwrap_or_else(|text| panic!("{line}: {text}")).unwrap();
        (config.masks[..2].to_vec(), config.stacks)
    };
    let (_, hooks) = asked(&format!("xperf -on Base -stackwalk @{stacks}"));
    assert_eq!(hooks, [0x0501, 0x0301, 0x010c, 0x0524]);
    let (masks, _) = asked(&format!("logman start s -pf {providers} -ets"));
    assert_eq!(masks, [PROCESSES, SWITCH]);
    for form in ["", " -filemode", "!Some", "!Some.Verbose", "!Some -filemode"] {
        let (masks, hooks) = asked(&format!("wpr -start {profiles}{form}"));
        assert_eq!((masks, &hooks[..]), (vec![PROCESSES, SWITCH | PROFILE], &[0x0524, 0x030a][..]));
    }
    let text = std::fs::read_to_string(&profiles).unwrap();
    let wrong = file("q.wprp", &text.replace("WDFDPC", "WDFDCP"));
    let error = config_of(&format!("wpr -start {wrong}")).unwrap_err();
    assert!(error.contains("is not a keyword of the system; did you mean WDFDPC?"), "{error}");
    let heap = config_of(&format!("wpr -start {profiles}!Heap"));
    assert!(heap.is_err_and(|text| text.contains("Heap.Verbose is for files")));
    let heap = config_of(&format!("wpr -start {profiles}!Heap -filemode"));
    assert!(heap.is_err_and(|text| text.contains("records nothing")));
    std::fs::remove_dir_all(&place).unwrap();
}
