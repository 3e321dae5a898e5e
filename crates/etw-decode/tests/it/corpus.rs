//! Real traces, read from `../shared/corpus`; skipped where it is absent.
//!
//! These tests compare numbers of events, and check that schemas fit their payloads. The tests of the command compare the values
//! that TraceEvent shows, with the same table of differences.

use crate::support::Json;
use etw_decode::{
    Catalog, Decoder, Field, Kind, Parsed, Reason, Schema, Source, Store, Style, mof, walk,
};
use etw_etl::read::{Records, TraceFile};
use etw_types::{EVENT_METADATA, EventRecord, ExtType, HeaderType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub fn corpus() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    if !path.is_dir() {
        println!("skipped: ../shared/corpus is absent");
        return None;
    }
    Some(path)
}

fn records(path: &Path) -> Records {
    Records::new(vec![TraceFile::open(path).unwrap()])
}

/// Payload bytes that the schema uses.
fn used(decoder: &mut Decoder, record: &EventRecord<'_>) -> usize {
    let decoded = decoder.decode(record);
    let schema = decoded.schema().unwrap_or_else(|| panic!("{:?}", decoded.reason()));
    walk(schema, record.payload, record.pointer_size, &mut Json::default()).unwrap()
}

#[test]
fn tracelogging_events_use_up_their_payloads() {
    let Some(corpus) = corpus() else { return };
    // The other files have none, as their records say.
    for (name, count) in [
        ("amsi-tracelogging", 19),
        ("eventsource-primitive-types", 5),
        ("windowsupdate-tracelogging-lost", 80),
    ] {
        let mut records = records(&corpus.join(format!("etl/{name}.etl")));
        let mut decoder = Decoder::new();
        let mut seen = 0;
        while let Some(record) = records.next() {
            if record.extended.find(ExtType::EVENT_SCHEMA_TL).is_none() {
                continue;
            }
            seen += 1;
            assert_eq!(decoder.decode(&record).source(), Some(Source::TraceLogging));
            assert_eq!(used(&mut decoder, &record), record.payload.len(), "{name}");
        }
        assert_eq!(seen, count, "{name}");
    }
}

/// Names of an event in the trace and in TraceEvent's own parsers. Both count it as often.
const NAMES: [(&str, &str); 49] = [
    ("Microsoft-Windows-DNS-Client/DnsServerForInterface", "="),
    ("Microsoft-Windows-DotNETRuntime/AppDomainResourceManagement/ThreadCreated", "="),
    ("Microsoft-Windows-DotNETRuntime/CLRLoader/AppDomainLoad", "Loader/AppDomainLoad"),
    ("Microsoft-Windows-DotNETRuntime/CLRLoader/AppDomainUnload", "Loader/AppDomainUnload"),
    ("Microsoft-Windows-DotNETRuntime/CLRLoader/AssemblyLoad", "Loader/AssemblyLoad"),
    ("Microsoft-Windows-DotNETRuntime/CLRLoader/AssemblyUnload", "Loader/AssemblyUnload"),
    ("Microsoft-Windows-DotNETRuntime/CLRLoader/DomainModuleLoad", "Loader/DomainModuleLoad"),
    ("Microsoft-Windows-DotNETRuntime/CLRLoader/ModuleLoad", "Loader/ModuleLoad"),
    ("Microsoft-Windows-DotNETRuntime/CLRLoader/ModuleUnload", "Loader/ModuleUnload"),
    ("Microsoft-Windows-DotNETRuntime/CLRMethod/MethodJittingStarted", "Method/JittingStarted"),
    ("Microsoft-Windows-DotNETRuntime/CLRMethod/MethodLoadVerbose", "Method/LoadVerbose"),
    ("Microsoft-Windows-DotNETRuntime/CLRMethod/MethodUnloadVerbose", "Method/UnloadVerbose"),
    ("Microsoft-Windows-DotNETRuntime/CLRRuntimeInformation/Start", "Runtime/Start"),
    ("Microsoft-Windows-DotNETRuntime/Exception/Start", "="),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/FinalizeObject", "GC/FinalizeObject"),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/GCAllocationTick", "GC/AllocationTick"),
    (
        "Microsoft-Windows-DotNETRuntime/GarbageCollection/GCBulkMovedObjectRanges",
        "GC/BulkMovedObjectRanges",
    ),
    (
        "Microsoft-Windows-DotNETRuntime/GarbageCollection/GCBulkSurvivingObjectRanges",
        "GC/BulkSurvivingObjectRanges",
    ),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/GCCreateSegment", "GC/CreateSegment"),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/GCFinalizersBegin", "GC/FinalizersStart"),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/GCFinalizersEnd", "GC/FinalizersStop"),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/GCGenerationRange", "GC/GenerationRange"),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/GCHeapStats", "GC/HeapStats"),
    (
        "Microsoft-Windows-DotNETRuntime/GarbageCollection/GCMarkFinalizeQueueRoots",
        "GC/MarkFinalizeQueueRoots",
    ),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/GCMarkHandles", "GC/MarkHandles"),
    (
        "Microsoft-Windows-DotNETRuntime/GarbageCollection/GCMarkOlderGenerationRoots",
        "GC/MarkCards",
    ),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/GCMarkStackRoots", "GC/MarkStackRoots"),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/GCRestartEEBegin", "GC/RestartEEStart"),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/GCRestartEEEnd", "GC/RestartEEStop"),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/GCSuspendEEBegin", "GC/SuspendEEStart"),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/GCSuspendEEEnd", "GC/SuspendEEStop"),
    (
        "Microsoft-Windows-DotNETRuntime/GarbageCollection/GCTerminateConcurrentThread",
        "GC/TerminateConcurrentThread",
    ),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/IncreaseMemoryPressure", "="),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/PinObjectAtGCTime", "GC/PinObjectAtGCTime"),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/Start", "GC/Start"),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/Stop", "GC/Stop"),
    ("Microsoft-Windows-DotNETRuntime/GarbageCollection/Triggered", "GC/Triggered"),
    ("Microsoft-Windows-DotNETRuntime/ThreadPoolWorkerThread/Start", "="),
    ("Microsoft-Windows-DotNETRuntime/Type/BulkType", "="),
    (
        "Microsoft-Windows-DotNETRuntimeRundown/CLRLoaderRundown/AppDomainDCEnd",
        "Loader/AppDomainDCStop",
    ),
    (
        "Microsoft-Windows-DotNETRuntimeRundown/CLRLoaderRundown/AssemblyDCEnd",
        "Loader/AssemblyDCStop",
    ),
    (
        "Microsoft-Windows-DotNETRuntimeRundown/CLRLoaderRundown/DomainModuleDCEnd",
        "Loader/DomainModuleDCStop",
    ),
    ("Microsoft-Windows-DotNETRuntimeRundown/CLRLoaderRundown/ModuleDCEnd", "Loader/ModuleDCStop"),
    (
        "Microsoft-Windows-DotNETRuntimeRundown/CLRMethodRundown/DCEndComplete",
        "Method/DCStopComplete",
    ),
    ("Microsoft-Windows-DotNETRuntimeRundown/CLRMethodRundown/DCEndInit", "Method/DCStopInit"),
    ("Microsoft-Windows-DotNETRuntimeRundown/CLRRuntimeInformationRundown/Start", "Runtime/Start"),
    ("Microsoft-Windows-Kernel-File/Create", "="),
    ("Microsoft-Windows-Kernel-Process/ProcessStart/Start", "="),
    ("Microsoft-Windows-Kernel-Process/ProcessStop/Stop", "="),
];

/// Events that TraceEvent does not count: it folds them into the events and methods that they belong to.
const FOLDED: [&str; 4] = [
    "Microsoft-Windows-DotNETRuntime/CLRStack/CLRStackWalk",
    "Microsoft-Windows-DotNETRuntime/CLRMethod/MethodILToNativeMap",
    "Microsoft-Windows-DotNETRuntimeRundown/CLRMethodRundown/MethodDCEndILToNativeMap",
    // TraceEvent counts the first of these for each method.
    "Microsoft-Windows-DotNETRuntimeRundown/CLRMethodRundown/MethodDCEndVerbose",
];

/// Events whose descriptions are in the trace; read once, since a debug build takes a few seconds.
#[test]
fn described_events_fit_their_payloads_and_are_as_many_as_traceevent_says() {
    let Some(corpus) = corpus() else { return };
    let path = corpus.join("etl/net452-x64-compressed.etl");
    let mut store = Store::default();
    let mut first_pass = records(&path);
    let mut descriptions = 0;
    while let Some(record) = first_pass.next() {
        descriptions += u32::from(Store::is_schema_record(&record));
        store.learn(&record);
    }
    // Four of them are parts of EventSource manifests.
    assert_eq!((descriptions, store.refused()), (89, 0));
    let mut decoder = Decoder::with_store(Arc::new(store));
    decoder.set_learning(false);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    // The CLR's private provider, and what EventSources tell of themselves.
    let (mut undescribed, mut sources) = (0, 0);
    let mut second_pass = records(&path);
    while let Some(record) = second_pass.next() {
        if record.provider == Some(EVENT_METADATA) {
            assert!(used(&mut decoder, &record) <= record.payload.len());
            continue;
        }
        if !record.header.is_event() {
            continue;
        }
        let decoded = decoder.decode(&record);
        if decoded.source().is_none() {
            let private = Reason::NoManifestOf("Microsoft-Windows-DotNETRuntimePrivate");
            assert_eq!(decoded.reason(), Some(&private));
            undescribed += 1;
            continue;
        }
        if decoded.source() == Some(Source::EventSource) {
            // One of PerfView's enumerations is written wider than its manifest says.
            let name = decoded.event_name().map(str::to_owned);
            let is_longer = used(&mut decoder, &record) < record.payload.len();
            assert_eq!(is_longer, name.as_deref() == Some("ClrEnableParameters"), "{name:?}");
            sources += 1;
            continue;
        }
        assert_eq!(decoded.source(), Some(Source::EventInfo));
        let provider = decoded.provider_name().unwrap().into_owned();
        let name = format!("{provider}/{}", decoded.event_name().unwrap());
        let used = used(&mut decoder, &record);
        assert_eq!(used, record.payload.len(), "{name}");
        *counts.entry(name).or_default() += 1;
    }
    assert_eq!((undescribed, sources), (1627, 122));
    compare(&corpus, counts);
}

fn compare(corpus: &Path, mut counts: BTreeMap<String, u64>) {
    let text = std::fs::read_to_string(corpus.join("decoded/net452-x64-compressed.traceevent.txt"));
    let text = text.unwrap();
    let theirs: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("COUNT ")?.rsplit_once(':'))
        .map(|(name, count)| (name, count.parse().unwrap()))
        .collect();
    for (ours, other) in NAMES {
        let (provider, _) = ours.split_once('/').unwrap();
        let other = if other == "=" { ours.to_string() } else { format!("{provider}/{other}") };
        assert_eq!(counts.remove(ours), theirs.get(&*other).copied(), "{ours}");
    }
    for folded in FOLDED {
        assert!(counts.remove(folded).unwrap() > 0);
        assert!(!theirs.contains_key(folded));
    }
    // The rest has one name in both.
    assert_eq!(counts.len(), 7);
    for (name, count) in counts {
        assert_eq!(theirs.get(&*name), Some(&count), "{name}");
    }
}

/// Counts the records of a trace by schema source, and the records that are longer or shorter than their schema.
fn sources(name: &str, catalog: Catalog) -> (BTreeMap<&'static str, u64>, BTreeMap<String, u64>) {
    let path = corpus().unwrap().join(format!("etl/{name}.etl"));
    let mut decoder = Decoder::new();
    decoder.set_catalog(Arc::new(catalog));
    let mut records = records(&path);
    let (mut counts, mut unfit) = (BTreeMap::new(), BTreeMap::new());
    while let Some(record) = records.next() {
        let decoded = decoder.decode(&record);
        let source = decoded.source().map_or("-", Source::name);
        *counts.entry(source).or_default() += 1;
        let Some(schema) = decoded.schema() else { continue };
        let name = format!("{source} {}", decoded.event_name().unwrap_or_default());
        match walk(schema, record.payload, record.pointer_size, &mut ()) {
            Ok(taken) if taken == record.payload.len() => {}
            Ok(_) => *unfit.entry(format!("{name} is longer")).or_default() += 1,
            Err(error) => *unfit.entry(format!("{name}: {error}")).or_default() += 1,
        }
    }
    (counts, unfit)
}

fn manifest(name: &str) -> Catalog {
    let text = std::fs::read(corpus().unwrap().join(format!("manifests/{name}"))).unwrap();
    let mut catalog = Catalog::default();
    let warnings = catalog.add_manifest(&text).unwrap();
    assert_eq!(warnings, [""; 0], "{name}");
    catalog
}

/// With their manifests nothing stays raw.
#[test]
fn manifests_decode_their_traces() {
    if corpus().is_none() {
        return;
    }
    for (trace, file, events) in [
        ("http-server-win7", "HTTP_Server.man", 2041),
        ("kernel-process-win7", "SystemEvents.man", 10343),
    ] {
        let (counts, unfit) = sources(trace, manifest(file));
        assert_eq!(counts, BTreeMap::from([("header", 1), ("manifest", events)]), "{trace}");
        assert!(unfit.is_empty(), "{trace}: {unfit:?}");
    }
    for file in ["AdvancedProvider.man", "SimpleProvider.man", "ClrEtwAll.man"] {
        assert!(manifest(file).len() > 4, "{file}");
    }
}

#[test]
fn event_sources_describe_themselves() {
    if corpus().is_none() {
        return;
    }
    let (counts, unfit) = sources("eventsource-bond", Catalog::default());
    assert_eq!(counts, BTreeMap::from([("eventsource", 12), ("header", 1)]));
    assert!(unfit.is_empty(), "{unfit:?}");
}

/// Every record of the kernel is decoded, and its fields are as long as its payload.
#[test]
fn kernel_records_fit_their_classes() {
    if corpus().is_none() {
        return;
    }
    for (trace, kernel) in [
        ("net452-x64-compressed", 111_237),
        ("kernel-classic-image-data-32-v0", 26),
        ("kernel-classic-image-data-32-v2", 26),
        ("kernel-classic-image-data-64-v1", 26),
        ("kernel-classic-process-data-32-v2", 8),
        ("kernel-classic-process-data-64-v3", 8),
    ] {
        let (counts, unfit) = sources(trace, Catalog::default());
        assert_eq!(counts["kernel"], kernel, "{trace}");
        let unfit: Vec<_> = unfit.iter().filter(|(name, _)| name.starts_with("kernel")).collect();
        // Data as a machine of the other width has it: what is decoded is asked below.
        assert!(unfit.is_empty() || trace.contains("-64-"), "{trace}: {unfit:?}");
    }
}

/// A 32-bit program that logs 64-bit pointers: its payload decides.
#[test]
fn a_payload_of_the_other_pointer_width_is_recognised() {
    let Some(corpus) = corpus() else { return };
    let mut records = records(&corpus.join("etl/kernel-classic-process-data-64-v3.etl"));
    let mut decoder = Decoder::new();
    let mut names = Vec::new();
    while let Some(record) = records.next() {
        let decoded = decoder.decode(&record);
        let fields = decoded.fields_text(&record, &Style::default()).unwrap();
        let text =
            |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, t)| t.clone());
        if let Some(name) = text("ImageFileName") {
            names.push((name, text("ProcessId").unwrap(), text("UserSID").unwrap()));
        }
    }
    assert_eq!(names[0], ("Idle".into(), "0".into(), "S-1-5-18".into()));
    assert_eq!(names[2], ("smss.exe".into(), "264".into(), "S-1-5-18".into()));
    assert_eq!(names[3].0, "notepad.exe");
}

/// Every message of every TMF file is understood.
#[test]
fn formats_of_real_drivers() {
    let Some(corpus) = corpus() else { return };
    let mut messages = 0;
    for entry in std::fs::read_dir(corpus.join("tmf")).unwrap() {
        let text = std::fs::read(entry.unwrap().path()).unwrap();
        let in_text = String::from_utf8_lossy(&text).matches("#typev").count();
        let Parsed { value: all, warnings } =
            etw_decode::wpp::parse_tmf(&String::from_utf8_lossy(&text));
        assert_eq!((all.len(), warnings.len()), (in_text, 0));
        let mut catalog = Catalog::default();
        assert_eq!(catalog.add_tmf(&text), [""; 0]);
        // Files repeat what several binaries share.
        assert!(catalog.message_count() > 0);
        messages += in_text;
    }
    assert!(messages > 1000, "{messages}");
}

/// The built-in table and the kernel's own MOF agree where they describe the same version.
#[test]
fn the_table_agrees_with_the_classes() {
    let Some(corpus) = corpus() else { return };
    let text = std::fs::read(corpus.join("manifests/kernel.mof")).unwrap();
    let Parsed { value: events, warnings } = mof::parse(&text);
    assert_eq!(warnings, [""; 0]);
    let (mut same, mut differ) = (0, Vec::new());
    for event in events.iter().filter(|event| event.version.is_some()) {
        let mut record = EventRecord::new(HeaderType::Full64, &[]);
        record.provider = Some(event.class);
        record.descriptor.opcode.0 = event.kind;
        record.descriptor.version = event.version.unwrap();
        let mut decoder = Decoder::new();
        let decoded = decoder.decode(&record);
        let Some(schema) = decoded.schema().filter(|_| decoded.source() == Some(Source::Kernel))
        else {
            continue;
        };
        let fields = |schema: &Schema| -> Vec<(String, Option<usize>)> {
            let size = |field: &Field| match field.kind {
                Kind::Scalar { wire, .. } => wire.fixed_size(8),
                _ => None,
            };
            schema.fields.iter().map(|field| (field.name.clone(), size(field))).collect()
        };
        // The table's versions may have grown at their ends.
        let (table, class) = (fields(schema), fields(&event.schema));
        match table.len() >= class.len() && table[..class.len()] == class[..] {
            true => same += 1,
            false => differ.push(event.schema.names.event.clone().unwrap()),
        }
    }
    // Number 53 was given anew; of the other two the last word was cut into smaller ones.
    assert_eq!(differ, ["Thread/ReserveDisjoinThread", "PerfInfo/SampleProf", "PerfInfo/ISR"]);
    assert!(same > 100, "{same}");
}

/// Classes of an older Windows do not hide those of the table that describe a record whole.
#[test]
fn named_classes_that_leave_a_rest_lose_to_the_table() {
    let Some(corpus) = corpus() else { return };
    let mut catalog = Catalog::default();
    catalog.add_mof(&std::fs::read(corpus.join("manifests/kernel.mof")).unwrap());
    let mut decoder = Decoder::new();
    decoder.set_catalog(Arc::new(catalog));
    let (mut of_mof, mut of_table) = (0, 0);
    let mut records = records(&corpus.join("etl/net452-x64-compressed.etl"));
    while let Some(record) = records.next() {
        if !record.header.is_kernel() {
            continue;
        }
        let decoded = decoder.decode(&record);
        let rest = decoded.visit_part(&record, &mut ()).map_or(0, |part| part.rest.len());
        assert_eq!(rest, 0, "{:?}", decoded.event_name());
        of_mof += u32::from(decoded.source() == Some(Source::Mof));
        of_table += u32::from(decoded.passed_over() > 0);
    }
    assert!(of_mof > 10_000 && of_table > 1000, "{of_mof} {of_table}");
}
