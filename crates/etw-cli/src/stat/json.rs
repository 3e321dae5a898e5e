//! The counts of a trace as JSON.

use super::counter::Counted;
use crate::files;
use etw_types::FileTime;
use serde_json::{Map, Value, json};

impl Counted {
    pub(super) fn to_json(&self) -> Value {
        let trace = self.trace();
        // The header of a log that was translated says nothing of the log but its channel.
        let session = trace.header();
        let header = session.filter(|_| !trace.is_translated());
        let time = |time: Option<FileTime>| {
            let shown = time.filter(|time| time.0 != 0 && time.to_ascii().is_some());
            shown.map(|time| time.to_string())
        };
        let by_header: Map<String, Value> = self
            .by_header
            .iter()
            .map(|((_, name), count)| (name.to_string(), json!(count)))
            .collect();
        let by_cause = self.losses.by_cause().into_iter().map(
            |(cause, count)| json!({"cause": cause, "provider": null, "pid": null, "count": count}),
        );
        let reported = self.losses.reported().map(|(origin, count)| {
            let provider = origin.provider.map(|guid| guid.to_string());
            let (cause, pid) = (&origin.cause, origin.process);
            let mut row = json!({"cause": cause, "provider": provider, "pid": pid, "count": count});
            if origin.origins > 1 {
                row["origins"] = json!(origin.origins);
            }
            row
        });
        let unlisted = Some(self.losses.unlisted())
            .filter(|count| *count > 0)
            .map(|count| json!({"cause": null, "provider": null, "pid": null, "count": count}));
        let losses: Vec<Value> = by_cause.chain(reported).chain(unlisted).collect();
        let damage: Vec<Value> = self
            .records
            .damage()
            .kept()
            .iter()
            .map(|place| json!({"offset": place.offset, "what": place.kind.to_string()}))
            .collect();
        let totals = trace.totals();
        json!({
            "file": trace.path().to_string_lossy(),
            "session": session.map(|h| h.logger_name.as_str()),
            "os_build": header.map(|h| h.provider_version),
            "pointer_size": header.map(|h| h.pointer_size),
            "cpus": header.map(|h| h.number_of_processors),
            "clock": header.and_then(|h| h.clock_type.name()),
            "start": time(header.map(|h| h.start_time)),
            "end": time(header.map(|h| h.end_time)),
            "first_event": time(self.span.map(|(first, _)| first)),
            "last_event": time(self.span.map(|(_, last)| last)),
            "buffers": header.map(|_| totals.buffers),
            "buffer_size": header.map(|h| h.buffer_size),
            "compressed": totals.compressed_buffers > 0,
            "compressed_buffers": header.map(|_| totals.compressed_buffers),
            "finalised": trace.is_finalised(),
            "records": self.total,
            "events_lost": header.map(|h| h.events_lost),
            "buffers_lost": header.map(|h| h.buffers_lost),
            "overwritten": self.losses.overwritten(),
            "out_of_order": self.records.out_of_order(0),
            "losses": losses,
            "by_header": by_header,
            "by_event": self.json_rows(),
            "by_provider": self.providers().iter().take(self.top).map(|row| json!({
                "provider": row.guid.map(|guid| guid.to_string()),
                "provider_name": row.name, "count": row.count, "bytes": row.bytes,
            })).collect::<Vec<_>>(),
            "by_process": self.views.processes().iter().take(self.top).map(|row| json!({
                "pid": row.process, "name": row.name, "count": row.count, "bytes": row.bytes,
            })).collect::<Vec<_>>(),
            "rate": self.views.rate().map(|rate| json!({
                "start": rate.start.to_string(), "seconds": rate.seconds, "counts": rate.counts,
            })),
            "damage": damage,
            "damage_count": self.records.damage().count(),
            "notes": files::notes(trace).iter().chain(self.losses.notes()).collect::<Vec<_>>(),
        })
    }

    fn json_rows(&self) -> Vec<Value> {
        let (shown, more) = self.shown_rows();
        let mut rows: Vec<Value> = shown
            .iter()
            .map(|row| {
                json!({
                    "provider": row.provider.map(|guid| guid.to_string()),
                    "provider_name": row.provider_name,
                    "event": row.event,
                    "id": row.id,
                    "version": row.version,
                    "opcode": row.opcode,
                    "count": row.count,
                    "bytes": row.bytes,
                    "rests": row.fit.rests,
                    "cut": row.fit.cut,
                    "other_schema": row.fit.other_schema,
                    "schemas": row.fit.schema_names(),
                })
            })
            .collect();
        if more.count > 0 {
            rows.push(json!({
                "provider": null, "provider_name": null, "event": null, "id": null, "version": null,
                "opcode": null, "count": more.count, "bytes": more.bytes,
                "rests": more.fit.rests, "cut": more.fit.cut,
                "other_schema": more.fit.other_schema,
                "schemas": more.fit.schema_names(),
            }));
        }
        rows
    }
}
