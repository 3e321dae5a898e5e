//! Real traces, read from `../shared/corpus`; skipped where it is absent.
//!
//! What values TraceEvent shows for the same events is compared by the tests of the command, which has the same table
//! of differences; here the numbers of events are, and that schemas fit their payloads.

use crate::support::Json;
use etw_decode::{Decoder, Reason, Source, Store, walk};
use etw_etl::read::{Records, TraceFile};
use etw_types::{EVENT_METADATA, EventRecord, ExtType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn corpus() -> Option<PathBuf> {
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

/// Its payload is longer than its description: that has two frames, and the CLR writes as many as there are.
const LONGER: &str = "Microsoft-Windows-DotNETRuntime/CLRStack/CLRStackWalk";

/// What the trace calls an event, and TraceEvent's own parsers call it. Both count it as often.
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

/// What TraceEvent does not count: it folds them into the events and methods that they belong to.
const FOLDED: [&str; 4] = [
    "Microsoft-Windows-DotNETRuntime/CLRStack/CLRStackWalk",
    "Microsoft-Windows-DotNETRuntime/CLRMethod/MethodILToNativeMap",
    "Microsoft-Windows-DotNETRuntimeRundown/CLRMethodRundown/MethodDCEndILToNativeMap",
    // Of these it also drops those of methods that were seen before.
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
    assert_eq!((descriptions, store.refused()), (85, 0));
    let mut decoder = Decoder::with_store(Arc::new(store));
    decoder.set_learning(false);
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    // EventSource providers, which describe themselves in their streams, and the CLR's private provider.
    let mut undescribed = 0;
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
            assert_eq!(decoded.reason(), Some(&Reason::NoManifest));
            undescribed += 1;
            continue;
        }
        assert_eq!(decoded.source(), Some(Source::EventInfo));
        let provider = decoded.provider_name().unwrap().into_owned();
        let name = format!("{provider}/{}", decoded.event_name().unwrap());
        let used = used(&mut decoder, &record);
        assert_eq!(used < record.payload.len(), name == LONGER, "{name}");
        *counts.entry(name).or_default() += 1;
    }
    assert_eq!(undescribed, 1749);
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
