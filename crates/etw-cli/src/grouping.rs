//! `etw stat --by COLUMNS`: counts, sums and percentiles by any columns.

use crate::asked_names::AskedNames;
use crate::column::{self, Cell, Column, Form, Row};
use crate::distribution::{Distribution, SHOWN, shown};
use crate::event_kinds::EventKinds;
use crate::files;
use crate::join::Names;
use crate::output::{Failure, Progress, counted};
use crate::times::Times;
use crate::where_filter::{Filter, TraceNames};
use etw_decode::expr::Owned;
use etw_decode::{Catalog, Decoded, Decoder, Style, Value as FieldValue, write_json_string};
use etw_etl::read::{Records, TraceFile};
use etw_types::{EventRecord, FileTime};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

/// Words of `--by` that are tables of their own.
const TABLES: [&str; 4] = ["thread", "module", "function", "activity"];
/// Groups past this many are counted together.
const LIMIT: usize = 1 << 16;
/// So are those past this many bytes of their columns: values of a field can be as large as an event.
const SIZE_LIMIT: usize = 256 << 20;

/// The columns that group events, and the figures of each group.
pub struct Grouping {
    pub columns: Vec<Column>,
    /// The column that is summed.
    pub sum: Option<Column>,
    /// Percentiles of that column.
    pub percentiles: bool,
    /// Rows that are shown.
    pub top: Option<usize>,
    /// The form of the rows.
    pub form: Form,
}

/// The records of one trace.
pub struct Scan {
    pub trace: TraceFile,
    pub catalog: Arc<Catalog>,
    pub filter: Option<Filter>,
}

/// A record that a scan hands out.
pub struct Scanned<'r> {
    pub record: &'r EventRecord<'r>,
    pub decoded: &'r Decoded<'r>,
    pub time: Option<FileTime>,
    pub names: Option<&'r Names>,
}

/// A record of a scan, whether or not the filter selects it.
pub struct Passed<'r> {
    pub stored: &'r EventRecord<'r>,
    pub time: Option<FileTime>,
    pub names: Option<&'r Names>,
    /// The record with its owner's ids, if it is selected.
    pub selected: Option<(&'r EventRecord<'r>, &'r Decoded<'r>)>,
}

impl Scan {
    fn records(&self) -> Records {
        Records::new(vec![self.trace.clone()])
    }

    fn decoder(&self) -> Decoder {
        let mut decoder = Decoder::new();
        decoder.set_catalog(self.catalog.clone());
        decoder.set_own_catalog(crate::schemas::own_for(std::slice::from_ref(&self.trace)));
        decoder
    }

    /// Calls `visit` with each record that the filter selects, with all schemas of the trace known; how many there were.
    /// `with_names`: processes have their names.
    pub fn run(&self, with_names: bool, mut visit: impl FnMut(&Scanned<'_>)) -> Scanning {
        let with_names = with_names || self.filter.as_ref().is_some_and(Filter::needs_join);
        let names = with_names.then(|| Names::gather(self.records(), self.decoder()));
        self.run_with(names, |passed| {
            let Passed { time, names, selected, .. } = *passed;
            if let Some((record, decoded)) = selected {
                visit(&Scanned { record, decoded, time, names });
            }
        })
    }

    /// Calls `visit` with each record of the trace, with names, which `prepare` completes.
    pub fn run_through(
        &self,
        prepare: impl FnOnce(&mut Names) -> Result<(), Failure>,
        visit: impl FnMut(&Passed<'_>),
    ) -> Result<Scanning, Failure> {
        let mut names = Names::gather(self.records(), self.decoder());
        prepare(&mut names)?;
        Ok(self.run_with(Some(names), visit))
    }

    fn run_with(&self, names: Option<Names>, mut visit: impl FnMut(&Passed<'_>)) -> Scanning {
        let mut decoder = self.decoder();
        // Records may be described behind them.
        decoder.set_store(crate::dump::gather(vec![self.trace.clone()]));
        decoder.set_learning(false);
        let (clock, style) = (*self.trace.clock(), Style::default());
        let mut records = self.records();
        let mut progress = Progress::of(records.files());
        let (mut seen, mut shown) = (0, 0);
        let mut kinds = EventKinds::default();
        while let Some(stored) = records.next() {
            seen += 1;
            if seen % 65_536 == 0 {
                progress.update_at(seen, Some(stored.position));
            }
            if self.filter.as_ref().is_some_and(Filter::needs_names) {
                kinds.number(&stored);
            }
            let (time, names) = (stored.timestamp(&clock), names.as_ref());
            let attributed = names.map(|names| names.attributed(&stored));
            let record = attributed.as_ref().unwrap_or(&stored);
            let filter = self.filter.as_ref();
            let owned = match names {
                Some(names) => names.owned(&stored, record),
                None => Owned::stored(record),
            };
            let by_header = filter.and_then(|filter| filter.by_owned_header(owned, time));
            let passed = Passed { stored: &stored, time, names, selected: None };
            if by_header == Some(false) {
                visit(&passed);
                continue;
            }
            let decoded = decoder.decode(record);
            if let Some(filter) = filter {
                let is_selected = by_header.is_some()
                    || filter.matches_joined(owned, names, &decoded, time, &style);
                if !is_selected {
                    visit(&passed);
                    continue;
                }
                filter.check_shown(&decoded);
            }
            shown += 1;
            visit(&Passed { selected: Some((record, &decoded)), ..passed });
        }
        drop(progress);
        if let Some(names) = &names {
            names.report_symbols();
        }
        if let Some(filter) = &self.filter {
            filter.report(shown, || TraceNames::of(kinds, decoder));
        }
        Scanning { outcome: files::report(&records), records: shown }
    }
}

/// The end of a scan.
pub struct Scanning {
    pub outcome: crate::output::Outcome,
    /// Records that were selected.
    pub records: u64,
}

struct Group {
    cells: Vec<Option<Cell>>,
    count: u64,
    sum: Distribution,
}

/// Groups of one trace, the largest first.
pub struct Groups<'g> {
    grouping: &'g Grouping,
    trace: &'g TraceFile,
    records: u64,
    rows: Vec<Group>,
    /// Records of groups without a row, and the number of those groups that is known.
    others: u64,
    cut: usize,
    pub outcome: crate::output::Outcome,
}

impl Grouping {
    /// Counts a trace.
    pub fn count<'g>(&'g self, scan: &'g Scan) -> Groups<'g> {
        let mut columns = self.columns.clone();
        columns.extend(self.sum.clone());
        let with_names = columns.iter().any(Column::needs_names);
        let (style, times) = (Style::default(), Times::Utc);
        let mut groups: HashMap<Vec<Option<String>>, Group> = HashMap::new();
        let mut size_left = SIZE_LIMIT;
        let mut others = 0;
        let by = AskedNames::of_columns("--by", &self.columns).or_words(&TABLES);
        let sum = AskedNames::of_columns("--sum", self.sum.as_slice());
        let mut has_text = false;
        let mut not_finite = 0;
        let scanned = scan.run(with_names, |scanned| {
            let Scanned { record, decoded, time, names } = *scanned;
            let (form, gathers_numbers) = (self.form, self.sum.is_some());
            let (style, times) = (&style, &times);
            let row = Row { record, decoded, time, names, style, times, form, gathers_numbers };
            let mut cells = column::cells(&columns, &row);
            let summed = self.sum.as_ref().and_then(|_| cells.pop()).flatten();
            if summed.is_some() {
                sum.mark_found(0);
            }
            let has_cell =
                |(number, cell): (usize, &Option<Cell>)| cell.is_some().then_some(number);
            cells.iter().enumerate().filter_map(has_cell).for_each(|number| by.mark_found(number));
            let key: Vec<Option<String>> =
                cells.iter().map(|cell| Some(cell.as_ref()?.to_text())).collect();
            if !groups.contains_key(&key) {
                let size: usize = key.iter().flatten().map(String::len).sum();
                if groups.len() >= LIMIT || size > size_left {
                    others += 1;
                    return;
                }
                size_left -= size;
            }
            let group = groups.entry(key).or_insert_with(|| Group {
                cells: cells.into_iter().map(|cell| cell.map(Cell::without_numbers)).collect(),
                count: 0,
                sum: Distribution::default(),
            });
            group.count += 1;
            match &summed {
                Some(Cell::Scalar(number)) => not_finite += add(&mut group.sum, number),
                Some(Cell::Many { numbers, .. }) => {
                    let added = numbers.iter().map(|number| add(&mut group.sum, number));
                    not_finite += added.sum::<u64>();
                }
                Some(Cell::Text(_) | Cell::Json(_)) => has_text = true,
                None => {}
            }
        });
        for asked in [by, sum] {
            asked.report(scanned.records, || vec![scan.trace.clone()], &scan.catalog);
        }
        if has_text && groups.values().all(|group| group.sum.count == 0) {
            let name = self.sum.as_ref().map_or("", |column| &column.name);
            eprintln!("etw: note: --sum: {name} has texts and no numbers, so every sum is 0");
        }
        if not_finite > 0 {
            let left_out = counted(not_finite, "value");
            eprintln!("etw: note: --sum: left out, as NaN or infinite: {left_out}");
        }
        let mut rows: Vec<(Vec<Option<String>>, Group)> = groups.into_iter().collect();
        let size = |group: &Group| match self.sum {
            Some(_) => group.sum.sum(),
            None => group.count as f64,
        };
        rows.sort_by(|(a_key, a), (b_key, b)| {
            size(b).total_cmp(&size(a)).then_with(|| a_key.cmp(b_key))
        });
        let mut rows: Vec<Group> = rows.into_iter().map(|(_, group)| group).collect();
        let cut = self.top.map_or(0, |top| rows.len().saturating_sub(top));
        if let Some(top) = self.top {
            others += rows.drain(top.min(rows.len())..).map(|group| group.count).sum::<u64>();
        }
        Groups {
            grouping: self,
            trace: &scan.trace,
            records: scanned.records,
            rows,
            others,
            cut,
            outcome: scanned.outcome,
        }
    }
}

impl Groups<'_> {
    pub fn to_json(&self) -> String {
        let rows: Vec<String> = self.rows.iter().map(|group| self.json_row(group)).collect();
        let (file, rows) = (json!(self.trace.path().to_string_lossy()), rows.join(","));
        let (others, records) = (self.others, self.records);
        format!("{{\"file\":{file},\"groups\":[{rows}],\"others\":{others},\"records\":{records}}}")
    }

    fn json_row(&self, group: &Group) -> String {
        let by = json_columns(&self.grouping.columns, &group.cells);
        let mut row = format!("{{\"by\":{by},\"count\":{}", group.count);
        let mut put = |name: &str, value: Value| {
            // Writing to a String cannot fail.
            let _ = write!(row, ",\"{name}\":{value}");
        };
        if self.grouping.percentiles {
            let number = |number: f64| match group.sum.count {
                0 => Value::Null,
                _ => number.into(),
            };
            put("max", number(group.sum.max));
            put("min", number(group.sum.min));
            SHOWN.iter().for_each(|(name, part)| put(name, number(group.sum.quantile(*part))));
        }
        if self.grouping.sum.is_some() {
            let sum = group.sum.sum_json();
            let _ = write!(row, ",\"sum\":{sum},\"values\":{}", group.sum.count);
        }
        row + "}"
    }

    pub fn to_text(&self) -> String {
        let mut text = format!(
            "{}\n  {} in {}\n\n",
            self.trace.path().display(),
            counted(self.records, "record"),
            counted(self.rows.len() + self.cut, "group")
        );
        let mut table = vec![self.heading()];
        table.extend(self.rows.iter().map(|group| self.cells(group)));
        put_table(&mut text, table, self.number_count());
        if self.others > 0 {
            // Writing to a String cannot fail.
            let others = counted(self.others, "record");
            let _ = writeln!(text, "  {others} in {}", counted(self.cut, "further group"));
        }
        text
    }

    /// Columns with numbers, which come first.
    fn number_count(&self) -> usize {
        let sum = usize::from(self.grouping.sum.is_some());
        let percentiles = if self.grouping.percentiles { SHOWN.len() + 1 } else { 0 };
        1 + sum + percentiles
    }

    fn heading(&self) -> Vec<String> {
        let mut heading = vec!["records".to_owned()];
        heading.extend(self.grouping.sum.as_ref().map(|column| format!("sum of {}", column.name)));
        if self.grouping.percentiles {
            heading.extend(SHOWN.iter().map(|(name, _)| (*name).to_owned()));
            heading.push("max".to_owned());
        }
        heading.extend(self.grouping.columns.iter().map(|column| column.name.clone()));
        heading
    }

    fn cells(&self, group: &Group) -> Vec<String> {
        let mut cells = vec![group.count.to_string()];
        if self.grouping.sum.is_some() {
            cells.push(group.sum.sum_text());
        }
        if self.grouping.percentiles {
            let number = |number: f64| match group.sum.count {
                0 => "-".to_owned(),
                _ => shown(number),
            };
            cells.extend(SHOWN.iter().map(|(_, part)| number(group.sum.quantile(*part))));
            cells.push(number(group.sum.max));
        }
        let text =
            |cell: &Option<Cell>| cell.as_ref().map_or("-".to_owned(), |cell| cell.to_text());
        cells.extend(group.cells.iter().map(text));
        cells
    }
}

/// Adds a number to a sum, or returns 1 if it is no finite number.
fn add(sum: &mut Distribution, number: &FieldValue<'_>) -> u64 {
    let double = match *number {
        FieldValue::F64(number) => number,
        // The double that is shown like it.
        FieldValue::F32(number) => number.to_string().parse().unwrap_or(number.into()),
        number => {
            number.as_integer().into_iter().for_each(|number| sum.add_integer(number));
            return 0;
        }
    };
    sum.add(double);
    u64::from(!double.is_finite())
}

/// The columns of a row as an object. Of a name that was given twice, there is one.
fn json_columns(columns: &[Column], cells: &[Option<Cell>]) -> String {
    let cells: BTreeMap<&str, &Option<Cell>> =
        columns.iter().map(|column| column.name.as_str()).zip(cells).collect();
    let mut out = vec![b'{'];
    for (number, (name, cell)) in cells.into_iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        write_json_string(&mut out, name);
        out.push(b':');
        match cell {
            Some(cell) => cell.put_json(&mut out, &Style::default()),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
    String::from_utf8_lossy(&out).into_owned()
}

/// Characters of a table's cell. Names of functions may have many thousands.
const MAX_CELL: usize = 400;

/// A cell of a table for people: a long text without its middle.
pub fn shortened(text: String) -> String {
    let count = text.chars().count();
    if count <= MAX_CELL {
        return text;
    }
    let half = MAX_CELL / 2;
    let first = text.chars().take(half);
    first.chain(['…']).chain(text.chars().skip(count - half + 1)).collect()
}

/// Rows of equal width; the first `numbers` columns are aligned to the right.
pub fn put_table(text: &mut String, rows: Vec<Vec<String>>, numbers: usize) {
    let columns = rows.first().map_or(0, Vec::len);
    let short = |row: Vec<String>| row.into_iter().map(shortened).collect::<Vec<_>>();
    let rows: Vec<_> = rows.into_iter().map(short).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns).filter_map(width).collect();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a String cannot fail.
            let _ = match column < numbers {
                true => write!(line, "  {cell:>width$}"),
                false => write!(line, "  {cell:<width$}"),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
}
