//! speedscope's JSON: a profile of CPU samples and one of time off the CPU for each thread.
//!
//! Source: the file format's schema as published with the speedscope project.

use super::stack_table::Table;
use super::{Event, Target, Written};
use crate::join::Names;
use crate::profile::{Span, SpanKind, owner_names};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The profile of a span: CPU time before time off the CPU, then by process and thread.
type Key = (bool, Option<u32>, u32);

#[derive(Default)]
struct Profile {
    name: String,
    /// Numbers of stacks.
    samples: Vec<usize>,
    weights: Vec<i64>,
    end: i64,
}

pub struct Speedscope<W: Write> {
    out: W,
    frames: Table<(String, Option<String>, u32)>,
    /// Numbers of frames, the outermost first.
    stacks: Table<Box<[usize]>>,
    profiles: BTreeMap<Key, Profile>,
    count: u64,
}

impl<W: Write> Speedscope<W> {
    pub fn new(out: W) -> Speedscope<W> {
        let (frames, stacks) = (Table::default(), Table::default());
        Speedscope { out, frames, stacks, profiles: BTreeMap::new(), count: 0 }
    }
}

impl<W: Write> Target for Speedscope<W> {
    fn event(&mut self, _: &Event<'_>) -> io::Result<()> {
        Ok(())
    }

    fn span(&mut self, span: &Span, names: &Names) -> io::Result<()> {
        let is_off = matches!(span.kind, SpanKind::OffCpu { .. });
        let mut stack: Vec<usize> = Vec::new();
        for frame in span.frames.iter().rev() {
            let file = frame.file.as_deref().map(str::to_owned);
            stack.push(self.frames.number((frame.text(), file, frame.line)));
        }
        for text in span.kind.wait_frames(names) {
            stack.push(self.frames.number((text, None, 0)));
        }
        let profile = self.profiles.entry((is_off, span.process, span.thread)).or_default();
        if profile.name.is_empty() {
            let [process, thread] = owner_names(span, names);
            let kind = if is_off { "off CPU" } else { "CPU" };
            profile.name = format!("{kind}: {process} {thread}");
        }
        profile.samples.push(self.stacks.number(stack.into()));
        profile.weights.push(span.duration);
        profile.end += span.duration;
        self.count += 1;
        Ok(())
    }

    fn finish(&mut self, _: &Names) -> io::Result<()> {
        let frames: Vec<Value> = self
            .frames
            .values()
            .iter()
            .map(|(name, file, line)| match (file, line) {
                (Some(file), 0) => json!({"name": name, "file": file}),
                (Some(file), line) => json!({"name": name, "file": file, "line": line}),
                (None, _) => json!({"name": name}),
            })
            .collect();
        // One value of the whole file would take many times its size.
        let out = &mut self.out;
        let schema = "https://www.speedscope.app/file-format-schema.json";
        write!(out, r#"{{"$schema":"{schema}","exporter":"etw","shared":{{"frames":"#)?;
        serde_json::to_writer(&mut *out, &frames)?;
        out.write_all(br#"},"profiles":["#)?;
        for (number, profile) in self.profiles.values().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            let (name, end) = (json!(profile.name), profile.end);
            write!(out, r#"{comma}{{"type":"sampled","name":{name},"unit":"nanoseconds","#)?;
            write!(out, r#""startValue":0,"endValue":{end},"samples":["#)?;
            for (number, stack) in profile.samples.iter().enumerate() {
                out.write_all(if number == 0 { b"" } else { b"," })?;
                serde_json::to_writer(&mut *out, &self.stacks.values()[*stack])?;
            }
            out.write_all(br#"],"weights":"#)?;
            serde_json::to_writer(&mut *out, &profile.weights)?;
            out.write_all(b"}")?;
        }
        out.write_all(b"]}")?;
        self.out.flush()
    }

    fn written(&self) -> Option<Written> {
        Some(Written { count: self.count, unit: "sample" })
    }
}
