//! Folded stacks, the form of `flamegraph.pl` and inferno: `process;thread;caller;callee NANOSECONDS`.

use super::{Event, Target, Weight, Written};
use crate::join::Names;
use crate::profile::{Span, SpanKind, owner_names};
use std::collections::BTreeMap;
use std::io::{self, Write};

pub struct Folded<W: Write> {
    out: W,
    weight: Weight,
    stacks: BTreeMap<String, i64>,
}

impl<W: Write> Folded<W> {
    pub fn new(out: W, weight: Weight) -> Folded<W> {
        Folded { out, weight, stacks: BTreeMap::new() }
    }
}

/// A name without the separators of the format.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c == ';' || c.is_control() { ':' } else { c }).collect()
}

impl<W: Write> Target for Folded<W> {
    fn event(&mut self, _: &Event<'_>) -> io::Result<()> {
        Ok(())
    }

    fn span(&mut self, span: &Span, names: &Names) -> io::Result<()> {
        let is_wanted = matches!(
            (&span.kind, self.weight),
            (SpanKind::Sample, Weight::Cpu) | (SpanKind::OffCpu { .. }, Weight::OffCpu)
        );
        if !is_wanted {
            return Ok(());
        }
        let owner = owner_names(span, names);
        let mut line: Vec<String> = owner.iter().map(|name| plain(name)).collect();
        line.extend(span.frames.iter().rev().map(|frame| plain(&frame.text())));
        line.extend(span.kind.wait_frames(names).iter().map(|frame| plain(frame)));
        *self.stacks.entry(line.join(";")).or_default() += span.duration;
        Ok(())
    }

    fn finish(&mut self, _: &Names) -> io::Result<()> {
        for (stack, weight) in &self.stacks {
            writeln!(self.out, "{stack} {weight}")?;
        }
        self.out.flush()
    }

    fn written(&self) -> Option<Written> {
        Some(Written { count: self.stacks.len() as u64, unit: "stack" })
    }
}
