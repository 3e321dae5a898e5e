//! The report of a session in its trace: TraceLogging events with the ledger.

use etw_session::{Cause, Event, Ledger, Loss};
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder, provider_traits};
use etw_types::{
    Classic, ClassicHeader, EVENT_METADATA, EventClass, EventDescriptor, EventRecord, ExtType,
    ExtendedItemsBuf, Guid, Level, LoadedModule, SYSTEM_EVENTS, SYSTEM_EVENTS_NAME, SchemaRecord,
    is_session_report, le,
};

/// The provider of reports about sessions.
pub const LEDGER_PROVIDER_NAME: &str = "OpenEtw.Session";
pub use etw_types::SESSION_REPORTS as LEDGER_PROVIDER;

/// One event of the report: extended items and payload.
#[derive(Debug)]
pub struct Report {
    chain: Vec<u8>,
    payload: Vec<u8>,
    level: Level,
    /// The header of a schema record; every other report is an event of [`LEDGER_PROVIDER`].
    classic: Option<Classic>,
}

impl Report {
    /// The event, at a time of the session's clock.
    pub fn event(&self, time: i64, process_id: u32, thread_id: u32) -> Event<'_> {
        Event {
            time,
            process_id,
            thread_id,
            provider: LEDGER_PROVIDER,
            descriptor: EventDescriptor {
                channel: etw_types::Channel::TRACE_LOGGING,
                level: self.level,
                ..EventDescriptor::default()
            },
            chain: &self.chain,
            payload: &self.payload,
            classic: self.classic.as_ref(),
            ..Event::default()
        }
    }
}

/// Reads a `Loss` event of [`LEDGER_PROVIDER`]; `None` for every other record.
///
/// ```text
/// u16 n, cause (n bytes)   GUID provider, zero: unknown   u32 process, all ones: unknown   u64 count
/// u32 origins, if it is a sum
/// ```
pub fn read_loss(record: &EventRecord<'_>) -> Option<Loss> {
    let payload = record.payload;
    let end = end_of_cause(record)?;
    Some(Loss {
        cause: Cause::of_name(&String::from_utf8_lossy(&payload[2..end])),
        provider: Guid::read(payload, end).filter(|guid| !guid.is_zero()),
        process_id: le::u32(payload, end + 16).filter(|id| *id != u32::MAX),
        count: le::u64(payload, end + 20)?,
    })
}

/// Reads of how many providers and processes a `Loss` event is the sum: a file that is full has no room for each. 1: it has its own.
pub fn read_loss_origins(record: &EventRecord<'_>) -> Option<u32> {
    let end = end_of_cause(record)?;
    Some(le::u32(record.payload, end + 28).unwrap_or(1))
}

/// The offset behind the cause of a `Loss` event.
fn end_of_cause(record: &EventRecord<'_>) -> Option<usize> {
    let payload = record.payload;
    let end = 2 + usize::from(le::u16(payload, 0)?);
    let is_whole = [end + 28, end + 32].contains(&payload.len());
    (name_of(record)? == b"Loss" && is_whole).then_some(end)
}

/// Totals of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    /// Events that newer ones replaced.
    pub overwritten: u64,
    /// Events that were lost.
    pub lost: u64,
    /// Files of the session before this one, which the totals and all losses count, too.
    pub files_before: u32,
}

/// Reads a `Ledger` event of [`LEDGER_PROVIDER`]; `None` for every other record.
///
/// ```text
/// u64 attempted, stored, overwritten, filtered, lost   u32 files before, if there are any
/// ```
pub fn read_totals(record: &EventRecord<'_>) -> Option<Totals> {
    let payload = record.payload;
    let is_ledger = name_of(record)? == b"Ledger" && [5 * 8, 5 * 8 + 4].contains(&payload.len());
    let totals = Totals {
        overwritten: le::u64(payload, 16)?,
        lost: le::u64(payload, 32)?,
        files_before: le::u32(payload, 40).unwrap_or(0),
    };
    is_ledger.then_some(totals)
}

/// Reads a `Note` event of [`LEDGER_PROVIDER`], a sentence that says what the trace lacks; `None` for every other record.
///
/// ```text
/// u16 size, UTF-8 text
/// ```
pub fn read_note(record: &EventRecord<'_>) -> Option<String> {
    let (size, text) = record.payload.split_first_chunk()?;
    let is_note =
        name_of(record)? == b"Note" && usize::from(u16::from_le_bytes(*size)) == text.len();
    is_note.then(|| String::from_utf8_lossy(text).into_owned())
}

/// A module of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessModule {
    /// The process.
    pub process_id: u32,
    /// The module.
    pub module: LoadedModule,
}

/// Reads a `Module` event of [`LEDGER_PROVIDER`] or [`SYSTEM_EVENTS`]; `None` for every other record.
pub fn read_module(record: &EventRecord<'_>) -> Option<ProcessModule> {
    if !is_of_system(record) && !is_session_report(record) || described_name(record)? != b"Module" {
        return None;
    }
    let (module, rest) = LoadedModule::read(record.payload.get(4..)?)?;
    let process_id = le::u32(record.payload, 0)?;
    rest.is_empty().then_some(ProcessModule { process_id, module })
}

/// Reads for how many nanoseconds the thread of a `Waiting` event of [`SYSTEM_EVENTS`] is off its CPU; `None` for every other record.
pub fn read_waiting(record: &EventRecord<'_>) -> Option<u64> {
    (is_of_system(record) && described_name(record)? == b"Waiting").then_some(())?;
    le::u64(record.payload, 0)
}

fn is_of_system(record: &EventRecord<'_>) -> bool {
    record.header.is_event() && record.provider == Some(SYSTEM_EVENTS)
}

/// The name of an event of [`LEDGER_PROVIDER`].
fn name_of<'a>(record: &EventRecord<'a>) -> Option<&'a [u8]> {
    is_session_report(record).then(|| described_name(record))?
}

/// The name of an event that describes itself.
fn described_name<'a>(record: &EventRecord<'a>) -> Option<&'a [u8]> {
    let metadata = record.extended.find(ExtType::EVENT_SCHEMA_TL)?;
    Some(etw_tracelogging::EventMetadata::parse(metadata).ok()?.name())
}

/// `Ledger`: the totals.
pub(crate) fn totals_report(ledger: &Ledger, files_before: u32) -> Option<Report> {
    let mut metadata = MetadataBuilder::new("Ledger", 0);
    let mut payload = PayloadBuilder::new();
    for (name, value) in [
        ("attempted", ledger.attempted),
        ("stored", ledger.stored),
        ("overwritten", ledger.overwritten),
        ("filtered", ledger.filtered),
        ("lost", ledger.lost_total()),
    ] {
        metadata = metadata.field(name, InType::UINT64, OutType::NULL, Count::Scalar, 0);
        payload = payload.u64(value);
    }
    if files_before > 0 {
        metadata = metadata.field("files_before", InType::UINT32, OutType::NULL, Count::Scalar, 0);
        payload = payload.u32(files_before);
    }
    report(metadata, payload, Level::INFO)
}

/// `Note`: what the trace lacks.
pub(crate) fn note_report(text: &str) -> Option<Report> {
    let (in_type, out_type) = (InType::COUNTEDANSISTRING, OutType::UTF8);
    let metadata =
        MetadataBuilder::new("Note", 0).field("text", in_type, out_type, Count::Scalar, 0);
    report(metadata, PayloadBuilder::new().counted_ansi(text.as_bytes()), Level::WARNING)
}

/// `Loss`: losses with one cause, of a provider and process, or of so many `origins` together.
pub(crate) fn loss_report(loss: &Loss, origins: u32) -> Option<Report> {
    let Loss { cause, provider, process_id, count } = *loss;
    let mut metadata = MetadataBuilder::new("Loss", 0)
        .field("cause", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0)
        .field("provider", InType::GUID, OutType::NULL, Count::Scalar, 0)
        .field("pid", InType::UINT32, OutType::PID, Count::Scalar, 0)
        .field("count", InType::UINT64, OutType::NULL, Count::Scalar, 0);
    let mut payload = PayloadBuilder::new()
        .counted_ansi(cause.name().as_bytes())
        .guid(provider.unwrap_or(Guid::ZERO))
        .u32(process_id.unwrap_or(u32::MAX))
        .u64(count);
    if origins > 1 {
        metadata = metadata.field("origins", InType::UINT32, OutType::NULL, Count::Scalar, 0);
        payload = payload.u32(origins);
    }
    report(metadata, payload, Level::WARNING)
}

/// A `Module` event: a module of a process, for the addresses in its call stacks.
///
/// ```text
/// u32 process    [`LoadedModule`]
/// ```
///
/// `None` if the path or build id is too long.
pub(crate) fn module_report(process_id: u32, module: &LoadedModule) -> Option<Report> {
    let mut payload = process_id.to_le_bytes().to_vec();
    module.put(&mut payload);
    report_of(module_metadata(), payload, Level::INFO)
}

fn module_metadata() -> MetadataBuilder {
    let mut metadata = MetadataBuilder::new("Module", 0).field(
        "pid",
        InType::UINT32,
        OutType::PID,
        Count::Scalar,
        0,
    );
    for name in ["base", "size", "file_offset", "bias"] {
        metadata = metadata.field(name, InType::UINT64, OutType::HEX, Count::Scalar, 0);
    }
    metadata.field("path", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0).field(
        "build_id",
        InType::COUNTEDBINARY,
        OutType::NULL,
        Count::Scalar,
        0,
    )
}

/// The extended items of a `Module` event of [`SYSTEM_EVENTS`]; empty: they cannot be built.
pub fn module_chain() -> Vec<u8> {
    chain_of(SYSTEM_EVENTS_NAME, module_metadata()).unwrap_or_default()
}

/// The extended items of a `Resumed` event of [`SYSTEM_EVENTS`], which has eight bytes: for how many nanoseconds the machine was
/// suspended. Empty: they cannot be built.
pub fn resumed_chain() -> Vec<u8> {
    let metadata = MetadataBuilder::new("Resumed", 0);
    let metadata = metadata.field("suspended_ns", InType::UINT64, OutType::NULL, Count::Scalar, 0);
    chain_of(SYSTEM_EVENTS_NAME, metadata).unwrap_or_default()
}

/// The extended items of a `Waiting` event of [`SYSTEM_EVENTS`]: for how many nanoseconds its thread is off its CPU, as eight bytes, and whether
/// events were lost since, so that it may have run, as one. Empty: they cannot be built.
pub fn waiting_chain() -> Vec<u8> {
    let metadata = MetadataBuilder::new("Waiting", 0)
        .field("waited_ns", InType::UINT64, OutType::NULL, Count::Scalar, 0)
        .field("may_have_run", InType::UINT8, OutType::BOOLEAN, Count::Scalar, 0);
    chain_of(SYSTEM_EVENTS_NAME, metadata).unwrap_or_default()
}

/// The extended items of an `Exec` event of [`SYSTEM_EVENTS`]; empty: they cannot be built.
///
/// ```text
/// u32 process   u16 n, path (n bytes)   u16 arguments, each: u16 n, text (n bytes)
/// ```
pub fn exec_chain() -> Vec<u8> {
    let text = (InType::COUNTEDANSISTRING, OutType::UTF8);
    let metadata = MetadataBuilder::new("Exec", 0)
        .field("pid", InType::UINT32, OutType::PID, Count::Scalar, 0)
        .field("path", text.0, text.1, Count::Scalar, 0)
        .field("argv", text.0, text.1, Count::Variable, 0);
    chain_of(SYSTEM_EVENTS_NAME, metadata).unwrap_or_default()
}

/// How a session's system events were recorded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SystemSource {
    /// Mechanisms of the kernel.
    pub mechanism: String,
    /// Whether with what happens in the kernel, such as its CPU time.
    pub has_kernel: bool,
    /// The system that they are about.
    pub origin: SystemOrigin,
}

/// The system that a session's system events are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SystemOrigin {
    /// The number of the PID namespace whose ids the events have.
    pub pid_namespace: Option<u64>,
    /// The id that the kernel took when it started.
    pub boot_id: Option<Guid>,
}

/// A `SystemSource` event. Those of older hosts end before the boot id, or before the namespace.
///
/// ```text
/// u16 size, UTF-8 mechanism   u8 has_kernel   u64 PID namespace, 0: not known   GUID boot id, zero: not known
/// ```
pub(crate) fn source_report(source: &SystemSource) -> Option<Report> {
    let payload = PayloadBuilder::new()
        .counted_ansi(source.mechanism.as_bytes())
        .u8(source.has_kernel.into())
        .u64(source.origin.pid_namespace.unwrap_or(0))
        .guid(source.origin.boot_id.unwrap_or(Guid::ZERO));
    report(source_metadata(), payload, Level::INFO)
}

fn source_metadata() -> MetadataBuilder {
    let text = (InType::COUNTEDANSISTRING, OutType::UTF8);
    MetadataBuilder::new("SystemSource", 0)
        .field("mechanism", text.0, text.1, Count::Scalar, 0)
        .field("has_kernel", InType::UINT8, OutType::BOOLEAN, Count::Scalar, 0)
        .field("pid_namespace", InType::UINT64, OutType::NULL, Count::Scalar, 0)
        .field("boot_id", InType::GUID, OutType::NULL, Count::Scalar, 0)
}

/// The extended items of a `SystemSource` event; empty: they cannot be built.
pub fn source_chain() -> Vec<u8> {
    chain_of(LEDGER_PROVIDER_NAME, source_metadata()).unwrap_or_default()
}

/// Whether a record is a `SystemSource` event that says that nothing in the kernel was recorded.
pub fn lacks_kernel(record: &EventRecord<'_>) -> bool {
    let has_kernel = end_of_text(record).and_then(|end| record.payload.get(end));
    // Most records end here.
    has_kernel == Some(&0) && is_source(record)
}

/// Reads a `SystemSource` event of [`LEDGER_PROVIDER`]; `None` for every other record.
pub fn read_system_origin(record: &EventRecord<'_>) -> Option<SystemOrigin> {
    if !is_source(record) {
        return None;
    }
    let behind = end_of_text(record)? + 1;
    let pid_namespace = le::u64(record.payload, behind).filter(|number| *number != 0);
    let boot_id = Guid::read(record.payload, behind + 8).filter(|id| !id.is_zero());
    Some(SystemOrigin { pid_namespace, boot_id })
}

fn is_source(record: &EventRecord<'_>) -> bool {
    name_of(record) == Some(b"SystemSource")
}

/// The offset behind a text with which a payload begins.
fn end_of_text(record: &EventRecord<'_>) -> Option<usize> {
    le::u16(record.payload, 0).map(|size| 2 + usize::from(size))
}

/// Names and values are short, so building a report cannot fail. If it did, the report would be left out.
fn report(metadata: MetadataBuilder, payload: PayloadBuilder, level: Level) -> Option<Report> {
    report_of(metadata, payload.finish().ok()?, level)
}

fn report_of(metadata: MetadataBuilder, payload: Vec<u8>, level: Level) -> Option<Report> {
    let chain = chain_of(LEDGER_PROVIDER_NAME, metadata)?;
    Some(Report { chain, payload, level, classic: None })
}

fn chain_of(provider: &str, metadata: MetadataBuilder) -> Option<Vec<u8>> {
    let traits = provider_traits(provider, None).ok()?;
    let metadata = metadata.finish().ok()?;
    let items = [(ExtType::PROV_TRAITS, &traits[..]), (ExtType::EVENT_SCHEMA_TL, &metadata[..])];
    Some(ExtendedItemsBuf::from_items(&items).ok()?.into_bytes())
}

/// A schema record, which describes events of programs or a map of their values.
pub(crate) fn schema_report(schema: SchemaRecord) -> Report {
    let class = EventClass { guid: EVENT_METADATA, kind: schema.kind, ..EventClass::default() };
    let classic = Classic { header: ClassicHeader::Trace(class), is_32_bit: false };
    let (chain, payload) = (Vec::new(), schema.payload);
    Report { chain, payload, level: Level::default(), classic: Some(classic) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etw_types::{ExtendedItems, HeaderType};

    #[test]
    fn a_source_says_whether_it_records_the_kernel_and_of_which_system() {
        let boot_id = Guid::from_name("a start");
        let known = SystemOrigin { pid_namespace: Some(0xefff_fffc), boot_id: Some(boot_id) };
        let read = |has_kernel: bool, origin: SystemOrigin, size: usize| {
            let mechanism = "perf; bpf: sched_switch".to_owned();
            let report = source_report(&SystemSource { mechanism, has_kernel, origin }).unwrap();
            let size = size.min(report.payload.len());
            let mut record = EventRecord::new(HeaderType::Event64, &report.payload[..size]);
            record.provider = Some(LEDGER_PROVIDER);
            record.extended = ExtendedItems::parse_chain(&report.chain).unwrap().0;
            (lacks_kernel(&record), read_system_origin(&record).unwrap_or_default())
        };
        let unknown = SystemOrigin::default();
        assert_eq!(read(false, unknown, usize::MAX), (true, unknown));
        assert_eq!(read(true, known, usize::MAX), (false, known));
        // As earlier versions wrote it, or cut.
        assert!((0..26).all(|size| read(false, known, size) == (false, unknown)));
        assert!((26..34).all(|size| read(false, known, size) == (true, unknown)));
        let without_id = SystemOrigin { boot_id: None, ..known };
        assert!((34..50).all(|size| read(true, known, size) == (false, without_id)));
        assert_eq!(read(true, known, 50), (false, known));
    }
}
