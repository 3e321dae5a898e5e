//! The ledger in the trace itself: TraceLogging events at the end of each session.

use etw_session::{Event, Ledger};
use etw_tracelogging::{Count, InType, MetadataBuilder, OutType, PayloadBuilder, provider_traits};
use etw_types::{EventDescriptor, ExtType, Guid, Level};

/// The provider that tells of sessions.
pub const LEDGER_PROVIDER_NAME: &str = "OpenEtw.Session";
/// The GUID that its name hashes to.
pub const LEDGER_PROVIDER: Guid = Guid::from_u128(0xc426bcf2_cd6c_5679_c416_2f87e1f372d4);

/// One event of the report: extended items and payload.
pub(crate) struct Report {
    chain: Vec<u8>,
    payload: Vec<u8>,
    level: Level,
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
            ..Event::default()
        }
    }
}

/// `Ledger` with the totals, then `Loss` for each cause, provider and process.
pub(crate) fn reports(ledger: &Ledger) -> Vec<Report> {
    let u64_field = |builder: MetadataBuilder, name| {
        builder.field(name, InType::UINT64, OutType::NULL, Count::Scalar, 0)
    };
    let mut metadata = MetadataBuilder::new("Ledger", 0);
    let mut payload = PayloadBuilder::new();
    for (name, value) in [
        ("attempted", ledger.attempted),
        ("stored", ledger.stored),
        ("overwritten", ledger.overwritten),
        ("filtered", ledger.filtered),
        ("lost", ledger.lost_total()),
    ] {
        metadata = u64_field(metadata, name);
        payload = payload.u64(value);
    }
    let mut reports = Vec::new();
    reports.extend(report(metadata, payload, Level::INFO));
    for (cause, provider, process, count) in ledger.losses() {
        let metadata = MetadataBuilder::new("Loss", 0)
            .field("cause", InType::COUNTEDANSISTRING, OutType::UTF8, Count::Scalar, 0)
            .field("provider", InType::GUID, OutType::NULL, Count::Scalar, 0)
            .field("pid", InType::UINT32, OutType::PID, Count::Scalar, 0);
        let payload = PayloadBuilder::new()
            .counted_ansi(cause.name().as_bytes())
            .guid(provider.unwrap_or(Guid::ZERO))
            .u32(process.unwrap_or(u32::MAX))
            .u64(count);
        reports.extend(report(u64_field(metadata, "count"), payload, Level::WARNING));
    }
    reports
}

/// Names and values are ours and short, so nothing here can be refused; an event less would be a count less, not a wrong one.
fn report(metadata: MetadataBuilder, payload: PayloadBuilder, level: Level) -> Option<Report> {
    let traits = provider_traits(LEDGER_PROVIDER_NAME, None).ok()?;
    let metadata = metadata.finish().ok()?;
    let items = [(ExtType::PROV_TRAITS, &traits[..]), (ExtType::EVENT_SCHEMA_TL, &metadata[..])];
    let chain = etw_etl::write::extended_chain(&items).ok()?;
    Some(Report { chain, payload: payload.finish().ok()?, level })
}
