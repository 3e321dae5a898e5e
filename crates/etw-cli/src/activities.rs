//! `etw stat --by activity`: durations of activities by name, and related activities as a tree.

use crate::column::{self, Form, Row};
use crate::distribution::{Distribution, shown};
use crate::format::safe;
use crate::grouping::{Scan, Scanned, put_table};
use crate::output::{Outcome, counted};
use crate::times::Times;
use etw_decode::{Style, activity_path};
use etw_etl::read::TraceFile;
use etw_types::{FileTime, Guid, Opcode};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;

/// Activities past this many are left out: only a hostile trace has more.
const LIMIT: usize = 1 << 16;
/// Trees that are shown without --top.
const SHOWN_TREES: usize = 20;
/// Lines of one tree.
const TREE_LINES: usize = 200;
/// Levels of a tree that are indented.
const INDENTED: usize = 16;
/// Fields of a start event that are kept, and characters of each.
const FIELDS: usize = 8;
const FIELD_LENGTH: usize = 80;

/// One activity.
struct Activity {
    first: FileTime,
    last: FileTime,
    count: u64,
    /// The name of its start event, or of its first event.
    name: String,
    fields: Vec<(String, String)>,
    has_start: bool,
    related: Option<Guid>,
    path: String,
}

/// The activities of a trace.
pub struct Activities<'a> {
    trace: &'a TraceFile,
    top: Option<usize>,
    all: HashMap<Guid, Activity>,
    /// Children by parent; roots are under the zero GUID.
    children: HashMap<Guid, Vec<Guid>>,
    pub outcome: Outcome,
}

impl Activity {
    fn seconds(&self) -> f64 {
        self.last.0.saturating_sub(self.first.0) as f64 / 1e7
    }
}

/// Reads the activities of a trace.
pub fn read(scan: &Scan, top: Option<usize>) -> Activities<'_> {
    let mut all: HashMap<Guid, Activity> = HashMap::new();
    let scanned = scan.run(false, |scanned| {
        let (record, Some(time)) = (scanned.record, scanned.time) else { return };
        let id = record.activity_id;
        if id.is_zero() || all.len() >= LIMIT && !all.contains_key(&id) {
            return;
        }
        let is_start = record.descriptor.opcode == Opcode::START;
        let activity = all.entry(id).or_insert_with(|| {
            let mut new = Activity {
                first: time,
                last: time,
                count: 0,
                name: String::new(),
                fields: Vec::new(),
                has_start: false,
                related: None,
                path: activity_path(id, record.process_id),
            };
            describe(&mut new, scanned);
            new
        });
        if is_start && !activity.has_start {
            describe(activity, scanned);
            activity.has_start = true;
        }
        activity.first = activity.first.min(time);
        activity.last = activity.last.max(time);
        activity.count += 1;
        activity.related = activity.related.or(record.related_activity_id()).filter(|to| *to != id);
    });
    let mut activities = Activities {
        trace: &scan.trace,
        top,
        all,
        children: HashMap::new(),
        outcome: scanned.outcome,
    };
    if scan.filter.is_some() {
        eprintln!(
            "etw: note: --where selects records, not activities: each lasts from its first to its last selected record"
        );
    }
    activities.relate();
    activities
}

/// Takes name and fields of an activity from an event.
fn describe(activity: &mut Activity, scanned: &Scanned<'_>) {
    let Scanned { record, decoded, time, names } = *scanned;
    let style = Style::default();
    let (form, gathers_numbers) = (Form::Text, false);
    let times = &Times::Utc;
    let row = Row { record, decoded, time, names, style: &style, times, form, gathers_numbers };
    let event = column::event(&row);
    let name = event.strip_suffix("Start").map(|name| name.trim_end_matches(['/', '_', '.']));
    activity.name = name.filter(|name| !name.is_empty()).unwrap_or(&event).to_owned();
    let fields = decoded.fields_text(record, &style).unwrap_or_default();
    let short = |text: String| text.chars().take(FIELD_LENGTH).collect::<String>();
    activity.fields =
        fields.into_iter().take(FIELDS).map(|(name, text)| (name, short(text))).collect();
}

/// Activities that no root leads to, since they are related in circles: one of each circle.
fn in_circles(all: &HashMap<Guid, Activity>, children: &HashMap<Guid, Vec<Guid>>) -> Vec<Guid> {
    let mut reached = HashSet::from([Guid::ZERO]);
    let mut ids: Vec<Guid> = all.keys().copied().collect();
    ids.sort_by_key(|id| (all[id].first.0, id.0));
    let mut circles = Vec::new();
    for id in std::iter::once(Guid::ZERO).chain(ids) {
        if !id.is_zero() && !reached.insert(id) {
            continue;
        }
        circles.extend((!id.is_zero()).then_some(id));
        let mut stack = vec![id];
        while let Some(id) = stack.pop() {
            let below = children.get(&id).map_or(&[][..], Vec::as_slice);
            stack.extend(below.iter().filter(|child| reached.insert(**child)));
        }
    }
    circles
}

impl Activities<'_> {
    /// Finds each activity's parent: the related activity, or the one whose path an EventSource continued.
    fn relate(&mut self) {
        let by_path: HashMap<&str, Guid> =
            self.all.iter().map(|(id, activity)| (activity.path.as_str(), *id)).collect();
        let mut children: HashMap<Guid, Vec<Guid>> = HashMap::new();
        for (id, activity) in &self.all {
            let related = activity.related.filter(|related| self.all.contains_key(related));
            let parent = related.or_else(|| {
                let path = activity.path.strip_suffix('/').filter(|path| path.starts_with("//"))?;
                by_path.get(&path[..=path.rfind('/')?]).copied().filter(|parent| parent != id)
            });
            children.entry(parent.unwrap_or(Guid::ZERO)).or_default().push(*id);
        }
        let circles = in_circles(&self.all, &children);
        children.entry(Guid::ZERO).or_default().extend(circles);
        for (parent, of) in &mut children {
            let key = |id: &Guid| {
                let activity = &self.all[id];
                let longest = std::cmp::Reverse(activity.last.0 - activity.first.0);
                // The longest trees first; in a tree in order of time.
                (if parent.is_zero() { longest.0 } else { activity.first.0 }, id.0)
            };
            of.sort_by_key(key);
            if parent.is_zero() {
                of.sort_by_key(|id| std::cmp::Reverse(key(id).0));
            }
        }
        self.children = children;
    }

    /// Durations by name, the largest sum first.
    fn by_name(&self) -> Vec<(&str, Distribution)> {
        let mut names: BTreeMap<&str, Distribution> = BTreeMap::new();
        for activity in self.all.values() {
            names.entry(&activity.name).or_default().add(activity.seconds());
        }
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by(|(_, a), (_, b)| b.sum().total_cmp(&a.sum()));
        names
    }

    /// An activity and those below it, each with its depth and each once, at most `limit`.
    fn tree(&self, root: Guid, limit: usize) -> Vec<(usize, Guid)> {
        let mut lines = Vec::new();
        let mut seen = HashSet::new();
        let mut stack = vec![(0, root)];
        while let Some((depth, id)) = stack.pop() {
            if !seen.insert(id) || lines.len() >= limit {
                continue;
            }
            lines.push((depth, id));
            let children = self.children.get(&id).map_or(&[][..], Vec::as_slice);
            stack.extend(children.iter().rev().map(|child| (depth + 1, *child)));
        }
        lines
    }

    fn roots(&self) -> &[Guid] {
        self.children.get(&Guid::ZERO).map_or(&[], Vec::as_slice)
    }

    pub fn to_text(&self) -> String {
        let count = counted(self.all.len(), "activity");
        let mut text = format!("{}\n  {count}\n\n", self.trace.path().display());
        let heading = ["activities", "p50 s", "p99 s", "max s", "sum s", "name"];
        let mut table = vec![heading.map(str::to_owned).to_vec()];
        let names = self.by_name();
        for (name, of) in names.iter().take(self.top.unwrap_or(usize::MAX)) {
            let seconds = |seconds: f64| format!("{seconds:.6}");
            table.push(vec![
                shown(of.count as f64),
                seconds(of.quantile(0.5)),
                seconds(of.quantile(0.99)),
                seconds(of.max),
                seconds(of.sum()),
                safe(name).into_owned(),
            ]);
        }
        put_table(&mut text, table, 5);
        text.push_str("\n       seconds  records  activity, its id and the fields of its start\n");
        let shown = self.top.unwrap_or(SHOWN_TREES);
        for root in self.roots().iter().take(shown) {
            for (depth, id) in self.tree(*root, TREE_LINES) {
                self.put_line(&mut text, depth, id);
            }
        }
        let more = self.roots().len().saturating_sub(shown);
        if more > 0 {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {}; --top N shows more", counted(more, "further tree"));
        }
        text
    }

    fn put_line(&self, text: &mut String, depth: usize, id: Guid) {
        let activity = &self.all[&id];
        let indent = "  ".repeat(depth.min(INDENTED));
        let _ = write!(
            text,
            "  {:>12.6} {:>8}  {indent}{} {}",
            activity.seconds(),
            activity.count,
            safe(&activity.name),
            activity.path
        );
        for (name, value) in &activity.fields {
            let _ = write!(text, " {}={}", safe(name), safe(value));
        }
        text.push('\n');
    }

    pub fn to_json(&self) -> Value {
        let top = self.top.unwrap_or(usize::MAX);
        let names: Vec<Value> = self
            .by_name()
            .iter()
            .take(top)
            .map(|(name, of)| {
                json!({
                    "name": name, "count": of.count, "p50": of.quantile(0.5),
                    "p99": of.quantile(0.99), "max": of.max, "sum": of.sum(),
                })
            })
            .collect();
        let mut parents: HashMap<Guid, Guid> = HashMap::new();
        for (parent, children) in self.children.iter().filter(|(parent, _)| !parent.is_zero()) {
            parents.extend(children.iter().map(|child| (*child, *parent)));
        }
        // The activities of the longest trees.
        let trees = self.roots().iter().take(top).map(|root| self.tree(*root, usize::MAX));
        let kept: HashSet<Guid> = trees.flatten().map(|(_, id)| id).collect();
        let mut ids: Vec<(&Guid, &Activity)> =
            self.all.iter().filter(|(id, _)| kept.contains(id)).collect();
        ids.sort_by_key(|(id, activity)| (activity.first.0, id.0));
        let activities: Vec<Value> = ids
            .into_iter()
            .map(|(id, activity)| {
                let fields: Map<String, Value> = activity
                    .fields
                    .iter()
                    .map(|(name, value)| (name.clone(), value.as_str().into()))
                    .collect();
                json!({
                    "id": id.to_string(), "path": activity.path, "name": activity.name,
                    "parent": parents.get(id).map(Guid::to_string),
                    "start": activity.first.to_string(), "seconds": activity.seconds(),
                    "records": activity.count, "fields": fields,
                })
            })
            .collect();
        json!({
            "file": self.trace.path().to_string_lossy(),
            "names": names, "activities": activities,
            "further_trees": self.roots().len().saturating_sub(top),
        })
    }
}
