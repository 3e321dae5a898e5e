//! `etw dump --join`, and `etw stat --by process`: processes, files and code by what other records say.

use crate::fixture::{TempFile, etw, json_lines, stderr, stdout};
use etw_etl::write::FileBuilder;
use etw_types::{EventRecord, Guid, HeaderType, Hook};
use serde_json::{Value, json};

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes).collect()
}

fn push_kernel(file: &mut FileBuilder, after: i64, (version, hook): (u8, u16), payload: &[u8]) {
    let mut record = EventRecord::new(HeaderType::PerfInfo64, payload);
    record.hook = Some(Hook(hook));
    record.descriptor.version = version;
    record.order_time = file.header.start_raw + after;
    file.push(0, &record).unwrap();
}

fn push_event(file: &mut FileBuilder, after: i64, (provider, id): (Guid, u16), payload: &[u8]) {
    let mut record = EventRecord::new(HeaderType::Event64, payload);
    record.provider = Some(provider);
    record.descriptor.id = id;
    (record.process_id, record.thread_id) = (Some(10), Some(20));
    record.order_time = file.header.start_raw + after;
    file.push(0, &record).unwrap();
}

fn thread() -> Vec<u8> {
    [&10u32.to_le_bytes()[..], &20u32.to_le_bytes(), &[0; 64]].concat()
}

fn sample() -> Vec<u8> {
    [&0x1234u64.to_le_bytes()[..], &20u32.to_le_bytes(), &[0; 4]].concat()
}

fn dumped(file: &TempFile, arguments: &[&str]) -> Vec<Value> {
    let json = [&["dump", "--join", "--format", "json"][..], arguments].concat();
    json_lines(&stdout(&json, &[file.path()], 0))
}

/// A stack of a sample by its key, whose frames come at the end; its code is a method that .NET compiled, as rundown says.
#[test]
fn frames_of_compiled_code_have_the_names_of_methods() {
    let rundown: Guid = "a669021c-c450-4609-a035-5af59af4df18".parse().unwrap();
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    let ids = [10u32, 20].map(u32::to_le_bytes).concat();
    let by_key = [&(start + 5).to_le_bytes()[..], &ids, &0xabcu64.to_le_bytes()].concat();
    let key = [0xabcu64, 0x7000_0010, 0x7000_0200].map(u64::to_le_bytes).concat();
    let method = [
        &1u64.to_le_bytes()[..],
        &2u64.to_le_bytes(),
        &0x7000_0000u64.to_le_bytes(),
        &0x100u32.to_le_bytes(),
        &[0; 8],
        &wide("Shop.Cart"),
        &wide("Add"),
        &wide("void ()"),
        &[0; 2],
    ]
    .concat();
    push_kernel(&mut file, 5, (2, 0x0f2e), &sample());
    push_kernel(&mut file, 6, (2, 0x1826), &by_key);
    push_event(&mut file, 80, (rundown, 144), &method);
    push_kernel(&mut file, 90, (2, 0x1824), &key);
    push_kernel(&mut file, 91, (3, 0x0504), &thread());
    let file = TempFile::new(&file.finish());
    let lines = dumped(&file, &["--where", "event == \"PerfInfo/SampleProf\""]);
    assert_eq!(lines[0]["stack"], json!(["0x0000000070000010", "0x0000000070000200"]));
    assert_eq!(lines[0]["frames"], json!(["Shop.Cart.Add+0x10", null]));
}

#[test]
fn frames_have_the_names_of_a_given_perf_map() {
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    let ids = [10u32, 20].map(u32::to_le_bytes).concat();
    // A function that does not return is called by its caller's last instruction.
    let frames = [0x7f04u64, 0x7f20, 0x7f40].map(u64::to_le_bytes).concat();
    let stack = [&(start + 5).to_le_bytes()[..], &ids, &frames].concat();
    push_kernel(&mut file, 5, (2, 0x0f2e), &sample());
    push_kernel(&mut file, 6, (2, 0x1820), &stack);
    push_kernel(&mut file, 9, (3, 0x0504), &thread());
    let file = TempFile::new(&file.finish());
    let folder = std::env::temp_dir().join(format!("etw-perf-maps-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let map = "7f00 20 LazyCompile:add\n7f20 8 never\n";
    std::fs::write(folder.join("perf-10.map"), map).unwrap();
    let lines = dumped(&file, &["--perf-map", folder.to_str().unwrap()]);
    let sample = lines.iter().find(|line| line["event"] == "PerfInfo/SampleProf").unwrap();
    assert_eq!(sample["frames"], json!(["LazyCompile:add+0x4", "LazyCompile:add+0x20", null]));
    std::fs::write(folder.join("other.txt"), "").unwrap();
    let other = folder.join("other.txt");
    let refused = etw(&["dump", "--join", "--perf-map", other.to_str().unwrap()], &[file.path()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("perf-PID.map"), "{}", stderr(&refused));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A 64-bit kernel gives some records a header of 32 bits: samples, stacks and images have 64-bit pointers behind it.
#[test]
fn wide_payloads_behind_narrow_headers_are_attributed() {
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    let mut push_narrow = |after: i64, (version, hook): (u8, u16), payload: &[u8]| {
        let mut record = EventRecord::new(HeaderType::PerfInfo32, payload);
        record.hook = Some(Hook(hook));
        record.descriptor.version = version;
        record.order_time = start + after;
        file.push(0, &record).unwrap();
    };
    let ids = [10u32, 20].map(u32::to_le_bytes).concat();
    let base = 0x7ff6_1234_0000u64;
    let frame = (base + 0x50).to_le_bytes();
    let sample = [&frame[..], &20u32.to_le_bytes(), &[1, 0, 0, 0]].concat();
    let stack = [&(start + 5).to_le_bytes()[..], &ids, &frame].concat();
    let image = image_load(10, base, r"C:\x.exe");
    let thread = [&ids[..], &[0; 56], &[0; 8]].concat();
    push_narrow(1, (3, 0x1403), &image);
    push_narrow(2, (3, 0x0503), &thread);
    push_narrow(5, (2, 0x0f2e), &sample);
    push_narrow(6, (2, 0x1820), &stack);
    let file = TempFile::new(&file.finish());
    let lines = dumped(&file, &["--where", "event == \"PerfInfo/SampleProf\""]);
    assert_eq!(lines[0]["process"]["pid"], 10, "{lines:?}");
    assert_eq!(lines[0]["frames"], json!(["x.exe+0x50"]), "{lines:?}");
}

#[test]
fn nt_paths_are_dos_paths_where_the_trace_names_the_volume() {
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    let path = r"\Device\HarddiskVolume3\Windows\x.dll";
    let image = [&[0; 16][..], &77u32.to_le_bytes(), &[0; 36], &wide(path)].concat();
    push_kernel(&mut file, 1, (3, 0x140a), &image);
    let near = [&[0; 16][..], &77u32.to_le_bytes(), &[0; 36], &wide(r"\Device\HarddiskVolume30\y")];
    push_kernel(&mut file, 2, (3, 0x140a), &near.concat());
    let volume = [wide(r"\Device\HarddiskVolume3\"), wide(r"C:\")].concat();
    let mut record = EventRecord::new(HeaderType::Full64, &volume);
    record.provider = "9b79ee91-b5fd-41c0-a243-4248e266e9d0".parse().ok();
    record.descriptor.opcode.0 = 35;
    record.order_time = start + 90;
    file.push(0, &record).unwrap();
    let file = TempFile::new(&file.finish());
    let lines = dumped(&file, &["--where", "event == \"Image/Load\""]);
    assert_eq!(lines[0]["file_name"], r"C:\Windows\x.dll");
    assert_eq!(lines[0]["fields"]["FileName"], path, "the field stays as it is stored");
    assert_eq!(lines[0]["process"]["pid"], 77);
    assert_eq!(lines[1]["file_name"], Value::Null);
}

#[test]
fn header_pid_is_the_stored_id_and_pid_the_owners() {
    let mut file = FileBuilder::new();
    push_kernel(&mut file, 5, (2, 0x0f2e), &sample());
    push_kernel(&mut file, 9, (3, 0x0504), &thread());
    let file = TempFile::new(&file.finish());
    let count = |expression: &str| dumped(&file, &["--where", expression]).len();
    assert_eq!(count("pid == 10 and event like \"*/SampleProf\""), 1);
    assert_eq!(count("header.pid == 10"), 0);
}

/// The payload of Image/Load, version 3: an image of 4 KiB.
fn image_load(process: u32, base: u64, path: &str) -> Vec<u8> {
    let (base, size, process) =
        (base.to_le_bytes(), 0x1000u64.to_le_bytes(), process.to_le_bytes());
    [&base[..], &size, &process, &[0; 12], &base, &[0; 16], &wide(path)].concat()
}

/// A folder in the temporary one, removed in the end.
#[cfg(target_os = "linux")]
struct Folder(std::path::PathBuf);

#[cfg(target_os = "linux")]
impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("etw-join-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

#[cfg(target_os = "linux")]
impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program whose function `known` has an inlined call of `inlined`; `None`: there is no compiler.
#[cfg(target_os = "linux")]
fn program_with_inlined_code(program: &std::path::Path) -> Option<etw_symbols::SymbolFile> {
    const SOURCE: &str = "static inline __attribute__((always_inline)) int inlined(volatile int *n) \
        { return *n * 3; } int known(volatile int *n) { return inlined(n); } \
        int main(void) { int n = 2; return known(&n); }\n";
    let source = program.with_extension("c");
    std::fs::write(&source, SOURCE).unwrap();
    let mut command = std::process::Command::new("cc");
    command.args(["-g", "-O1", "-Wl,--build-id=sha1", "-o"]).arg(program).arg(&source);
    let Ok(status) = command.status() else {
        eprintln!("left out: there is no compiler");
        return None;
    };
    assert!(status.success());
    etw_symbols::SymbolFile::parse(&std::fs::read(program).unwrap())
}

/// The payload of Image/Load: an image of 64 KiB with the first bytes of a build id.
#[cfg(target_os = "linux")]
fn image_with_id(process: u32, base: u64, path: &str, id: &[u8]) -> Vec<u8> {
    let mut payload = image_load(process, base, path);
    payload[8..16].copy_from_slice(&0x1_0000u64.to_le_bytes());
    payload[24..28].copy_from_slice(&id[..4]);
    // The addresses of the file's headers begin at 0.
    payload[32..40].fill(0);
    payload
}

/// A trace of a process with a sample, whose stack has these addresses of its program.
#[cfg(target_os = "linux")]
fn trace_in_program(process: u32, program: &str, id: &[u8], addresses: &[u64]) -> TempFile {
    let base = 0x7ff6_1234_0000u64;
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    push_kernel(&mut file, 1, (3, 0x1403), &image_with_id(process, base, program, id));
    let ids = [process, 20].map(u32::to_le_bytes).concat();
    let frames: Vec<u8> =
        addresses.iter().flat_map(|address| (base + address).to_le_bytes()).collect();
    push_kernel(&mut file, 5, (2, 0x0f2e), &sample());
    let stack = [&(start + 5).to_le_bytes()[..], &ids, &frames].concat();
    push_kernel(&mut file, 6, (2, 0x1820), &stack);
    push_kernel(&mut file, 9, (3, 0x0504), &[&ids[..], &[0; 64]].concat());
    TempFile::new(&file.finish())
}

/// OV-23: the path of a program may be that of a file in another mount namespace, which its process shows while it lives.
#[cfg(target_os = "linux")]
#[test]
fn a_program_of_another_mount_namespace_has_names_while_its_process_lives() {
    let folder = Folder::new("namespace");
    let (program, inner) = (folder.0.join("shop"), folder.0.join("inner"));
    std::fs::create_dir(&inner).unwrap();
    let Some(symbols) = program_with_inlined_code(&program) else { return };
    let [shown, own] = [&inner, &program].map(|path| path.display().to_string());
    let script = format!("mount -t tmpfs none {shown} && cp {own} {shown}/shop");
    let Some(contained) = Contained::start(&script) else {
        return eprintln!("left out: this user may not make mount namespaces");
    };
    let is_known =
        |address: &u64| symbols.function(*address).is_some_and(|one| &*one.name == "known");
    let address = (0..0x1_0000).find(is_known).unwrap();
    let frames = |process: u32, id: &[u8]| {
        let file = trace_in_program(process, &format!("{shown}/shop"), id, &[address]);
        let lines = dumped(&file, &["--where", "event == \"PerfInfo/SampleProf\""]);
        lines[0]["frames"].as_array().unwrap().last().unwrap().clone()
    };
    let process = contained.0.id();
    assert_eq!(frames(process, &symbols.build_id), "shop!known+0x0");
    let unknown = format!("shop+{address:#x}");
    assert_eq!(frames(process, &[0xaa; 20]), *unknown, "another file");
    drop(contained);
    assert_eq!(frames(process, &symbols.build_id), *unknown, "it is gone");
}

/// OV-23: a program that was replaced while it ran has its name.
#[cfg(target_os = "linux")]
#[test]
fn a_module_whose_file_was_replaced_has_its_name() {
    let file = trace_in_program(10, "/nowhere/shop (deleted)", &[1, 2, 3, 4], &[0x20]);
    let output = etw(&["dump", "--join", "--json"], &[file.path()]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(r#""frames":["shop+0x20"]"#), "{text}");
    assert!(stderr(&output).contains("/nowhere/shop (no file)"), "{}", stderr(&output));
}

/// OV-23: `dump` names functions as `convert` and `stat` do, inlined ones, too.
#[cfg(target_os = "linux")]
#[test]
fn dump_and_convert_have_one_name_for_a_function() {
    let folder = Folder::new("inlined");
    let program = folder.0.join("shop");
    let Some(symbols) = program_with_inlined_code(&program) else { return };
    let has_inlined = |address: &u64| symbols.frames(*address).len() == 2;
    let address = (0..0x1_0000).find(has_inlined).unwrap();
    let offset = symbols.frames(address)[1].offset.unwrap();
    let file = trace_in_program(10, program.to_str().unwrap(), &symbols.build_id, &[address]);
    let lines = dumped(&file, &["--where", "event == \"PerfInfo/SampleProf\""]);
    let known = format!("shop!known+{offset:#x}");
    let shown = (&lines[0]["frames"], &lines[0]["inlined"]);
    assert_eq!(shown, (&json!([known]), &json!([["shop!inlined"]])));
    let out = folder.0.join("folded");
    stdout(&["convert", "--to", "folded", "-o", out.to_str().unwrap()], &[file.path()], 0);
    let folded = std::fs::read_to_string(out).unwrap();
    assert!(folded.contains("shop!known;shop!inlined "), "{folded}");
    let stat = stdout(&["stat", "--by", "function"], &[file.path()], 0);
    assert!(stat.contains("shop!inlined"), "{stat}");
}

/// The bytes of memory from the start of a program's file to its last segment's end.
#[cfg(target_os = "linux")]
fn loaded_size(program: &[u8]) -> u64 {
    const LOAD: u32 = 1;
    const PAGE: u64 = 4096;
    let word = |at: usize| u64::from_le_bytes(program[at..at + 8].try_into().unwrap());
    let half = |at: usize| usize::from(u16::from_le_bytes([program[at], program[at + 1]]));
    let headers = (0..half(56)).map(|number| word(32) as usize + number * half(54));
    let loads = headers.filter(|at| program[*at..*at + 4] == LOAD.to_le_bytes());
    loads.map(|at| (word(at + 16) + word(at + 40)).next_multiple_of(PAGE)).max().unwrap()
}

/// An event of an image: time, hook (0: it was lost), path, build id.
#[cfg(target_os = "linux")]
type ImageEvent<'a> = (i64, u16, &'a str, &'a [u8]);

/// A trace of process 10 with two samples at an address of the image at a base, and these events of images of a size there. Those of images that are there
/// have the build id in front of them.
#[cfg(target_os = "linux")]
fn trace_of_images(address: u64, size: u64, images: &[ImageEvent<'_>]) -> TempFile {
    let base = 0x7ff6_1234_0000u64;
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    let ids = [10u32, 20].map(u32::to_le_bytes).concat();
    push_kernel(&mut file, 0, (3, 0x0503), &[&ids[..], &[0; 64]].concat());
    for time in 1..100 {
        for (_, hook, path, id) in images.iter().filter(|one| one.0 == time) {
            if *hook != 0x1402 && !id.is_empty() {
                let payload =
                    [&base.to_le_bytes()[..], &ids[..4], &id[..16], &[0; 4], b"x.debug\0"].concat();
                let mut record = EventRecord::new(HeaderType::Full64, &payload);
                record.provider = "b3e675d7-2554-4f18-830b-2762732560de".parse().ok();
                record.descriptor.opcode.0 = 36;
                record.order_time = start + time;
                file.push(0, &record).unwrap();
            }
            if *hook != 0 {
                let stamp = if id.is_empty() { &[0; 4] } else { *id };
                let mut payload = image_with_id(10, base, path, stamp);
                payload[8..16].copy_from_slice(&size.to_le_bytes());
                push_kernel(&mut file, time, (3, *hook), &payload);
            }
        }
        if matches!(time, 20 | 40) {
            push_kernel(&mut file, time, (2, 0x0f2e), &sample());
            let frame = (base + address).to_le_bytes();
            let stack = [&(start + time).to_le_bytes()[..], &ids, &frame].concat();
            push_kernel(&mut file, time, (2, 0x1820), &stack);
        }
    }
    TempFile::new(&file.finish())
}

/// OV-23: where a file was unloaded or replaced, its build id is not that of the next file.
#[cfg(target_os = "linux")]
#[test]
fn a_build_id_is_that_of_the_image_whose_event_follows_it() {
    const LOAD: u16 = 0x140a;
    const UNLOAD: u16 = 0x1402;
    const RUNDOWN: u16 = 0x1404;
    const LOST: u16 = 0;
    let folder = Folder::new("build-ids");
    let [first, second] = ["first", "second"].map(|name| folder.0.join(name));
    let Some(symbols) = program_with_inlined_code(&first) else { return };
    let mut command = std::process::Command::new("cc");
    command.args(["-g", "-O1", "-Wl,--build-id=none", "-o"]).arg(&second);
    assert!(command.arg(first.with_extension("c")).status().unwrap().success());
    // It has not been written since the trace.
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1 << 20);
    let file = std::fs::File::options().write(true).open(&second).unwrap();
    file.set_modified(long_ago).unwrap();
    let is_known = |symbols: &etw_symbols::SymbolFile, address: u64| {
        symbols.function(address).is_some_and(|one| &*one.name == "known")
    };
    let bytes = std::fs::read(&second).unwrap();
    let (size, other) = (loaded_size(&bytes), etw_symbols::SymbolFile::parse(&bytes).unwrap());
    let is_in_both = |address: &u64| is_known(&symbols, *address) && is_known(&other, *address);
    let address = (0..0x1_0000).find(is_in_both).unwrap();
    let [first, second] = [&first, &second].map(|path| path.to_str().unwrap());
    let id = &symbols.build_id[..];
    let loads: [ImageEvent<'_>; 2] = [(10, LOAD, first, id), (30, LOAD, second, &[])];
    let named = |images: &[ImageEvent<'_>]| {
        let file = trace_of_images(address, size, images);
        let words = ["dump", "--join", "--json", "--where", "event == \"PerfInfo/SampleProf\""];
        let output = etw(&words, &[file.path()]);
        let lines = json_lines(&String::from_utf8_lossy(&output.stdout));
        let names: Vec<String> =
            lines.iter().map(|line| line["frames"][0].as_str().unwrap().to_owned()).collect();
        (names, stderr(&output))
    };
    let both = named(&[loads[0], (25, UNLOAD, first, id), loads[1]]);
    assert!(both.0[0].starts_with("first!known"), "{both:?}");
    assert!(both.0[1].starts_with("second!known"), "{both:?}");
    assert!(!both.1.contains("another build id"), "{}", both.1);
    for events in [
        &[loads[0], (30, UNLOAD, first, id), loads[1]][..],
        &[loads[0], loads[1]],
        &[(10, LOST, first, id), loads[1]],
        &[(10, LOST, first, id), (90, RUNDOWN, second, &[])],
    ] {
        let found = named(events);
        assert!(found.0[1].starts_with("second!known"), "{events:?}: {found:?}");
    }
    // The id of the file that was there first is known from its rundown, too.
    let late = named(&[(90, RUNDOWN, first, id)]);
    assert!(late.0[0].starts_with("first!known"), "{late:?}");
    let copy = [&id[..4], &[0xaa; 16]].concat();
    let replaced = named(&[(10, LOAD, first, &copy)]);
    assert!(replaced.1.contains("first (another build id)"), "{replaced:?}");
}

/// OV-23: the instruction that a signal interrupted may be the first one of its function, and no call is in front of it.
#[cfg(target_os = "linux")]
#[test]
fn a_function_that_a_signal_interrupts_at_its_start_has_its_name() {
    const FUNCTIONS: &str = ".text\n\
        .macro function name\n.type \\name,%function\n\\name: nop\nnop\n.size \\name,.-\\name\n.endm\n\
        function innocent\nfunction faulter\nfunction handler\n\
        .cfi_startproc\n.cfi_signal_frame\nfunction back\n.cfi_endproc\n\
        function after\nfunction __restore_rt\n";
    let folder = Folder::new("signal");
    let (program, source) = (folder.0.join("shop"), folder.0.join("shop.S"));
    std::fs::write(&source, FUNCTIONS).unwrap();
    let mut command = std::process::Command::new("cc");
    command.args(["-shared", "-Wl,--build-id=sha1", "-o"]).arg(&program).arg(&source);
    match command.status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return eprintln!("left out: cc: {error}"),
    }
    let symbols = etw_symbols::SymbolFile::parse(&std::fs::read(&program).unwrap()).unwrap();
    let address = |name: &str| {
        let is_it = |at: &u64| symbols.function(*at).is_some_and(|one| &*one.name == name);
        (0..0x1_0000).find(is_it).unwrap()
    };
    let start = address("faulter");
    for (trampoline, interrupted) in
        [("back", "faulter+0x0"), ("__restore_rt", "faulter+0x0"), ("handler", "innocent+0x2")]
    {
        let stack = [address("handler"), address(trampoline), start, start];
        let file = trace_in_program(10, program.to_str().unwrap(), &symbols.build_id, &stack);
        let lines = dumped(&file, &["--where", "event == \"PerfInfo/SampleProf\""]);
        let frames: Vec<&str> =
            lines[0]["frames"].as_array().unwrap().iter().flat_map(Value::as_str).collect();
        assert_eq!(frames[2..], [&*format!("shop!{interrupted}"), "shop!innocent+0x2"]);
        if trampoline != "handler" {
            assert_eq!(frames[1], format!("shop!{trampoline}+0x0"));
        }
    }
}

/// OV-23: code in memory that has a name, but no file that can be read any more, is code without names of functions.
#[test]
fn a_note_names_files_of_memory() {
    for (path, is_noted) in
        [("/memfd:shop (deleted)", true), ("//anon", false), ("/dev/zero (deleted)", false)]
    {
        let file = sampled_images([path, "/nowhere/shop"]);
        let output = etw(&["stat", "--by", "function"], &[file.path()]);
        let text = stderr(&output);
        assert!(text.contains("/nowhere/shop (no file)"), "{text}");
        assert_eq!(text.contains(&format!("{path} (no file)")), is_noted, "{text}");
    }
}

/// OV-23: a system gives the id of a process that has ended to another one.
#[test]
fn a_reused_process_id_has_the_name_of_its_time() {
    let process = |name: &str| {
        let head = [&[0; 8][..], &10u32.to_le_bytes(), &[0; 28]].concat();
        [&head[..], name.as_bytes(), &[0; 7]].concat()
    };
    let mut file = FileBuilder::new();
    for (after, hook, name) in
        [(1, 0x0301, "early"), (3, 0x0302, "first"), (4, 0x0301, "second"), (9, 0x0304, "last")]
    {
        push_kernel(&mut file, after, (4, hook), &process(name));
    }
    for after in [2, 5, 6] {
        push_kernel(&mut file, after, (2, 0x0f2e), &sample());
    }
    push_kernel(&mut file, 9, (3, 0x0504), &thread());
    let file = TempFile::new(&file.finish());
    let stat = stdout(&["stat", "--by", "process", "--json"], &[file.path()], 0);
    let stat: Value = serde_json::from_str(&stat).unwrap();
    let row = |row: &Value| (row["process"].clone(), row["samples"].clone());
    let rows: Vec<_> = stat["profile"].as_array().unwrap().iter().map(row).collect();
    assert_eq!(rows, [(json!("last (10)"), json!(2)), (json!("first (10)"), json!(1))]);
    let names = dumped(&file, &["--where", "event == \"PerfInfo/SampleProf\""]);
    let names: Vec<&Value> = names.iter().map(|line| &line["process"]["name"]).collect();
    assert_eq!(names, ["first", "last", "last"]);
    let count = |filter: &str| dumped(&file, &["--where", filter]).len();
    let sampled = "event == \"PerfInfo/SampleProf\" and process ==";
    assert_eq!(
        (count(&format!("{sampled} \"first\"")), count(&format!("{sampled} \"last\""))),
        (1, 2)
    );
    let out = file.path().with_extension("folded");
    stdout(&["convert", "--to", "folded", "-o", out.to_str().unwrap()], &[file.path()], 0);
    let folded = std::fs::read_to_string(&out).unwrap();
    std::fs::remove_file(&out).unwrap();
    assert!(folded.starts_with("first (10);") && folded.contains("\nlast (10);"), "{folded}");
}

/// A table has cells of one width; a name may be longer than any screen, and than a width of Rust's formatter.
#[test]
fn tables_shorten_long_names() {
    let mut file = FileBuilder::new();
    push_kernel(&mut file, 5, (2, 0x0f2e), &sample());
    push_kernel(&mut file, 9, (3, 0x0504), &thread());
    let file = TempFile::new(&file.finish());
    let map = std::env::temp_dir().join(format!("etw-long-{}", std::process::id()));
    std::fs::create_dir_all(&map).unwrap();
    let name = format!("begin{}end", "x".repeat(70_000));
    std::fs::write(map.join("perf-10.map"), format!("1200 100 {name}\n")).unwrap();
    let stat = |options: &[&str]| {
        let words = ["stat", "--by", "function", "--perf-map", map.to_str().unwrap()];
        stdout(&[&words[..], options].concat(), &[file.path()], 0)
    };
    let text = stat(&[]);
    let row = text.lines().find(|line| line.contains("begin")).unwrap();
    assert!(row.len() < 1000 && row.contains("xx…xx") && row.ends_with("xend"), "{}", row.len());
    assert!(stat(&["--json"]).contains(&name), "it is whole for programs");
    std::fs::remove_dir_all(&map).unwrap();
}

/// A sample in each of two images, by their paths, of one process.
fn sampled_images(paths: [&str; 2]) -> TempFile {
    let mut file = FileBuilder::new();
    let bases = [0x7ff6_1234_0000u64, 0x7ff6_1244_0000];
    for (number, base) in (0..).zip(bases) {
        let image = image_load(10, base, paths[number as usize]);
        let sample = [&(base + 3).to_le_bytes()[..], &20u32.to_le_bytes(), &[1, 0, 0, 0]].concat();
        push_kernel(&mut file, 1 + number, (3, 0x1403), &image);
        let ids = [10u32, 20].map(u32::to_le_bytes).concat();
        let time = file.header.start_raw + 10 + number;
        let stack = [&time.to_le_bytes()[..], &ids, &(base + 3).to_le_bytes()].concat();
        push_kernel(&mut file, 10 + number, (2, 0x0f2e), &sample);
        push_kernel(&mut file, 20 + number, (2, 0x1820), &stack);
    }
    push_kernel(&mut file, 9, (3, 0x0504), &thread());
    TempFile::new(&file.finish())
}

/// OV-23: its region or file is part of the name of code without names of functions.
#[test]
fn regions_and_files_of_one_name_are_different_modules() {
    let anonymous = ["anon@0x7ff612340000", "anon@0x7ff612440000"];
    for (paths, modules) in [
        (["//anon", "//anon"], anonymous),
        (["/x/A/app", "/x/B/app"], ["A/app", "B/app"]),
        (["/x/A/app", "/x/A/q\"\\app"], ["app", "q\"\\app"]),
    ] {
        let file = sampled_images(paths);
        let lines = dumped(&file, &["--where", "event == \"PerfInfo/SampleProf\""]);
        let functions = modules.map(|module| format!("{module}+0x3"));
        let stat = |by: &str| stdout(&["stat", "--by", by, "--json"], &[file.path()], 0);
        for (number, (module, function)) in modules.iter().zip(&functions).enumerate() {
            assert_eq!(lines[number]["frames"], json!([function]), "{lines:?}");
            assert!(stat("module").contains(&json!(module).to_string()), "{}", stat("module"));
            assert!(stat("function").contains(&json!(function).to_string()));
        }
    }
}

/// Idle time is process 0; samples in DPCs and interrupts are counted apart.
#[test]
fn idle_dpc_and_interrupt_time_are_rows_of_their_own() {
    let mut file = FileBuilder::new();
    let start = file.header.start_raw;
    let run = |after: i64| [&(start + after).to_le_bytes()[..], &[0; 8]].concat();
    let idle = [&0x1234u64.to_le_bytes()[..], &[0; 8]].concat();
    push_kernel(&mut file, 5, (2, 0x0f2e), &sample());
    push_kernel(&mut file, 12, (2, 0x0f2e), &sample());
    push_kernel(&mut file, 14, (2, 0x0f2e), &sample());
    push_kernel(&mut file, 20, (2, 0x0f44), &run(10));
    push_kernel(&mut file, 30, (2, 0x0f2e), &idle);
    push_kernel(&mut file, 40, (2, 0x0f43), &run(39));
    push_kernel(&mut file, 91, (3, 0x0504), &thread());
    let file = TempFile::new(&file.finish());
    let stat = stdout(&["stat", "--format", "json"], &[file.path()], 0);
    let stat: Value = serde_json::from_str(&stat).unwrap();
    let rows = stat["by_process"].as_array().unwrap();
    let count = |pid: Value, name: &str| {
        let row = rows.iter().find(|row| row["pid"] == pid && row["name"] == name);
        row.map_or(0, |row| row["count"].as_u64().unwrap())
    };
    assert_eq!(count(Value::Null, "DPC"), 3, "the DPC and two samples: {rows:?}");
    assert_eq!(count(Value::Null, "ISR"), 1);
    assert_eq!(count(json!(0), "Idle"), 1);
    let lines = dumped(&file, &["--where", "event like \"*/SampleProf\" and pid == 10"]);
    let interrupts: Vec<&Value> = lines.iter().map(|line| &line["interrupt"]).collect();
    assert_eq!(interrupts, [&Value::Null, &json!("DPC"), &json!("DPC")]);
    let text = stdout(&["dump", "--join"], &[file.path()], 0);
    assert!(text.contains("10.20[DPC] "), "{text}");
}

/// A process with a `/tmp` of its own, in which it has written its perf map.
#[cfg(target_os = "linux")]
struct Contained(std::process::Child);

#[cfg(target_os = "linux")]
impl Drop for Contained {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(target_os = "linux")]
impl Contained {
    /// One that ran a script. `None`: this user may not make mount namespaces.
    fn start(script: &str) -> Option<Contained> {
        use std::io::BufRead;
        let script = format!("{script} && echo ready && read line");
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).stderr(std::process::Stdio::null());
        let pipes =
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut contained = Contained(pipes.spawn().ok()?);
        let mut line = String::new();
        std::io::BufReader::new(contained.0.stdout.take()?).read_line(&mut line).ok()?;
        (line == "ready\n").then_some(contained)
    }

    /// The address and the path of the first file that it has mapped.
    fn first_image(&self) -> Option<(u64, String)> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.0.id())).ok()?;
        let first = maps.lines().find(|line| line.contains('/'))?;
        let base = u64::from_str_radix(first.split('-').next()?, 16).ok()?;
        Some((base, first[first.find('/')?..].to_owned()))
    }
}

/// A trace of a process that began to record now, with a sample at 0x7f04.
#[cfg(target_os = "linux")]
fn trace_of(process: u32, base: u64, path: &str) -> TempFile {
    let mut file = FileBuilder::new();
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = etw_types::FileTime::UNIX_EPOCH.0 + (elapsed.as_nanos() / 100) as i64;
    // Later than the map by more than the clocks of files and processes differ.
    file.header.logfile.start_time = etw_types::FileTime(now + 600 * 10_000_000);
    let start = file.header.start_raw;
    let ids = [process, 20].map(u32::to_le_bytes).concat();
    let stack = [&(start + 5).to_le_bytes()[..], &ids, &0x7f04u64.to_le_bytes()].concat();
    let image = image_load(process, base, path);
    push_kernel(&mut file, 1, (3, 0x1403), &image);
    push_kernel(&mut file, 5, (2, 0x0f2e), &sample());
    push_kernel(&mut file, 6, (2, 0x1820), &stack);
    push_kernel(&mut file, 9, (3, 0x0504), &[&ids[..], &[0; 64]].concat());
    TempFile::new(&file.finish())
}

/// OV-23: a process that was there before the recording may have written its perf map before, in a mount namespace of its own.
#[cfg(target_os = "linux")]
#[test]
fn frames_have_the_names_of_an_older_perf_map_of_a_process_that_lives() {
    let script = "mount -t tmpfs none /tmp && echo 7f00 20 Compiled:add >/tmp/perf-$$.map";
    let Some(contained) = Contained::start(script) else {
        return eprintln!("left out: this user may not make mount namespaces");
    };
    let process = contained.0.id();
    let (base, path) = contained.first_image().unwrap();
    let frames = |base| {
        let lines = dumped(&trace_of(process, base, &path), &[]);
        let sample = lines.iter().find(|line| line["event"] == "PerfInfo/SampleProf").unwrap();
        sample["frames"].clone()
    };
    assert_eq!(frames(base), json!(["Compiled:add+0x4"]));
    // Another process that had this id.
    assert_eq!(frames(base + 0x1000), json!([null]));
}

/// The payload of Process/Start and Process/End, version 4, of a user of Linux.
#[cfg(target_os = "linux")]
fn process_of_user(process: u32, user: u32) -> Vec<u8> {
    let head = [&[0; 8][..], &process.to_le_bytes(), &[0; 24]].concat();
    // TOKEN_USER, then the SID.
    let token = [&1u64.to_le_bytes()[..], &[0; 8], &[1, 2, 0, 0, 0, 0, 0, 22]].concat();
    let sid = [1u32, user].map(u32::to_le_bytes).concat();
    [&head[..], &token, &sid, b"shop\0", &[0; 6]].concat()
}

/// OV-23: any user may write a perf map of any process in a folder of all.
#[cfg(target_os = "linux")]
#[test]
fn a_perf_map_is_that_of_the_processs_user_and_of_its_time() {
    use std::os::unix::fs::{MetadataExt, chown};
    // No process has such a number.
    let process = 0x4000_0000 + std::process::id();
    let map = std::path::PathBuf::from(format!("/tmp/perf-{process}.map"));
    std::fs::write(&map, "0 7fffffffffff Compiled:add\n").unwrap();
    // All files of root are believed.
    let _ = chown(&map, Some(1234), None);
    let owner = std::fs::metadata(&map).unwrap().uid();
    let frames = |user: u32, end: Option<i64>| {
        let mut file = FileBuilder::new();
        let start = file.header.start_raw;
        let ids = [process, 20].map(u32::to_le_bytes).concat();
        push_kernel(&mut file, 1, (4, 0x0301), &process_of_user(process, user));
        let image = image_load(process, 0x7ff6_1234_0000, "/nowhere/shop");
        push_kernel(&mut file, 2, (3, 0x1403), &image);
        let frames = [0x7f04u64, 0x7ff6_1234_0008].map(u64::to_le_bytes).concat();
        push_kernel(&mut file, 5, (2, 0x0f2e), &sample());
        let stack = [&(start + 5).to_le_bytes()[..], &ids, &frames].concat();
        push_kernel(&mut file, 6, (2, 0x1820), &stack);
        push_kernel(&mut file, 9, (3, 0x0504), &[&ids[..], &[0; 64]].concat());
        if let Some(end) = end {
            push_kernel(&mut file, end, (4, 0x0302), &process_of_user(process, user));
        }
        let file = TempFile::new(&file.finish());
        let words = ["dump", "--join", "--json", "--where", "event == \"PerfInfo/SampleProf\""];
        let output = etw(&words, &[file.path()]);
        let lines = json_lines(&String::from_utf8_lossy(&output.stdout));
        (lines[0]["frames"].clone(), stderr(&output))
    };
    let (own, late, other) =
        (frames(owner, None), frames(owner, Some(90)), frames(owner + 1, None));
    std::fs::remove_file(&map).unwrap();
    assert_eq!(own.0, json!(["Compiled:add+0x7f04", "shop+0x8"]), "{}", own.1);
    for (found, why) in [(late, "after the process ended"), (other, "another user")] {
        assert!(found.0 == json!([null, "shop+0x8"]) && found.1.contains(why), "{found:?}");
    }
}

/// Reads and page allocations name a thread or a process in their payload, and no header names one.
#[test]
fn file_and_memory_events_belong_to_the_process_that_they_name() {
    let mut file = FileBuilder::new();
    let read = [&[0; 32][..], &20u32.to_le_bytes(), &512u32.to_le_bytes(), &[0; 8]].concat();
    let allocation = [&[0; 16][..], &10u32.to_le_bytes(), &[0; 4]].concat();
    // Key, ids, status, directory, flags and no user; the name of the image; three empty texts.
    let process = [&[0; 8][..], &10u32.to_le_bytes(), &[0; 28], b"q\"\\shop\0", &[0; 6]].concat();
    push_kernel(&mut file, 1, (4, 0x0304), &process);
    push_kernel(&mut file, 5, (3, 0x0443), &read);
    push_kernel(&mut file, 6, (2, 0x0262), &allocation);
    push_kernel(&mut file, 7, (3, 0x044c), &[0; 20]);
    push_kernel(&mut file, 9, (3, 0x0504), &thread());
    let file = TempFile::new(&file.finish());
    let named = |event: &str| format!("event == \"{event}\" and pid == 10");
    for event in ["FileIo/Read", "FileIo/OperationEnd", "PageFault/VirtualAlloc"] {
        let lines = dumped(&file, &["--where", &named(event)]);
        assert_eq!(lines[0]["process"], json!({"pid": 10, "name": "q\"\\shop"}), "{event}");
        let stat =
            stdout(&["stat", "--by", "process,cpu", "--where", &named(event)], &[file.path()], 0);
        assert!(stat.contains("\\shop (10)"), "{stat}");
    }
    for filter in ["process like \"*shop\"", "process == 10", "pid == 10"] {
        let filter = format!("{filter} and event == \"FileIo/Read\"");
        for by in ["event", "cpu"] {
            let output = etw(&["stat", "--by", by, "--where", &filter], &[file.path()]);
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("1 record"), "{by} {filter}: {text}");
            assert!(!stderr(&output).contains("header's"), "{}", stderr(&output));
        }
    }
    let processes = stdout(&["stat", "--by", "process", "--json"], &[file.path()], 0);
    let processes: Value = serde_json::from_str(&processes).unwrap();
    let own = processes["by_process"].as_array().unwrap().iter().find(|row| row["pid"] == 10);
    assert_eq!(own.unwrap()["count"], 4, "{processes}");
    let filter = "process like \"*shop\" and event == \"FileIo/Read\"";
    assert_eq!(stdout(&["dump", "--where", filter], &[file.path()], 0).lines().count(), 1);
}
