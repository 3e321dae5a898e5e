//! [`FieldCells`]: the fields of an event that are columns.

use super::cell::{into_text, scalar};
use super::{Cell, Column, Form, Row};
use crate::format::{put_value, safe};
use etw_decode::{Field, Integers, Style, Value, Visitor};

/// Collects the first field of each column: its value, or all of them if it, or a struct around it, is an array.
pub struct FieldCells<'c> {
    columns: &'c [Column],
    cells: &'c mut [Option<Cell>],
    style: &'c Style,
    form: Form,
    gathers_numbers: bool,
    /// Whether a column is a path.
    has_paths: bool,
    /// If there are paths, the names of the open structs.
    structs: Vec<String>,
    /// Open arrays.
    arrays: usize,
    /// Columns whose values are not complete.
    open: Vec<Open>,
}

/// A column of which more values may come.
struct Open {
    column: usize,
    /// The address of its field; other fields may have the same name.
    field: *const Field,
    /// Its arrays and structs that are open.
    depth: usize,
    /// Arrays around the field make a list of its values.
    is_list: bool,
    whole: Whole,
}

impl Open {
    /// Whether a value, array or struct of a field belongs to the column.
    fn takes(&self, field: &Field) -> bool {
        self.depth > 0 || std::ptr::eq(self.field, field)
    }
}

impl<'c> FieldCells<'c> {
    pub fn new(
        columns: &'c [Column],
        cells: &'c mut [Option<Cell>],
        row: &Row<'c>,
    ) -> FieldCells<'c> {
        FieldCells {
            columns,
            cells,
            style: row.style,
            form: row.form,
            gathers_numbers: row.gathers_numbers,
            has_paths: columns.iter().any(Column::is_path),
            structs: Vec::new(),
            arrays: 0,
            open: Vec::new(),
        }
    }

    /// The columns that a field is the first one of.
    fn newly_meant<'s>(&'s self, field: &'s Field) -> impl Iterator<Item = usize> + 's {
        let columns = self.columns.iter().enumerate();
        columns.filter_map(move |(number, column)| {
            let is_asked = self.cells[number].is_none() && column.may_be_field();
            (is_asked
                && column.means(field, &self.structs)
                && self.open.iter().all(|open| open.column != number))
            .then_some(number)
        })
    }

    /// Opens the columns that begin with a field. In arrays they are lists.
    fn open_columns(&mut self, field: &Field) {
        let is_list = self.arrays > 0;
        let new: Vec<usize> = self.newly_meant(field).collect();
        for column in new {
            let mut whole = Whole::new(self.form);
            if is_list {
                whole.begin(field, true);
            }
            self.open.push(Open { column, field, depth: 0, is_list, whole });
        }
    }

    /// An array or a struct begins.
    fn begin(&mut self, field: &Field, is_array: bool) {
        self.open_columns(field);
        for open in &mut self.open {
            if open.takes(field) {
                open.whole.begin(field, is_array);
                open.depth += 1;
            }
        }
    }

    /// The array or struct begun last ends.
    fn end(&mut self, is_array: bool) {
        let arrays = self.arrays;
        let mut at = 0;
        while let Some(open) = self.open.get_mut(at) {
            if open.depth > 0 {
                open.depth -= 1;
                open.whole.end(is_array);
            }
            match open.depth == 0 && (!open.is_list || arrays == 0) {
                true => {
                    let mut open = self.open.swap_remove(at);
                    if open.is_list {
                        open.whole.end(true);
                    }
                    self.cells[open.column] = Some(open.whole.into_cell());
                }
                false => at += 1,
            }
        }
    }
}

impl Visitor for FieldCells<'_> {
    fn value(&mut self, field: &Field, value: Value<'_>) {
        if self.arrays > 0 {
            self.open_columns(field);
        } else {
            for number in 0..self.columns.len() {
                let column = &self.columns[number];
                let is_asked = self.cells[number].is_none() && column.may_be_field();
                if is_asked
                    && column.means(field, &self.structs)
                    && self.open.iter().all(|open| open.column != number)
                {
                    self.cells[number] = Some(Cell::of(value, self.form, self.style));
                }
            }
        }
        for open in &mut self.open {
            if open.takes(field) {
                open.whole.put(field, value, self.style);
                open.whole.numbers.extend(scalar(value).filter(|_| self.gathers_numbers));
            }
        }
    }

    fn begin_array(&mut self, field: &Field, _: usize) {
        self.begin(field, true);
        self.arrays += 1;
    }

    fn integers(&mut self, field: &Field, integers: &mut Integers<'_>) {
        // Their array has opened the columns that they belong to.
        match self.open.is_empty() {
            true => integers.for_each(drop),
            false => integers.for_each(|(value, _)| self.value(field, value)),
        }
    }

    fn end_array(&mut self, _: &Field) {
        self.arrays -= 1;
        self.end(true);
    }

    fn begin_struct(&mut self, field: &Field) {
        self.begin(field, false);
        if self.has_paths {
            self.structs.push(field.unique_name().to_owned());
        }
    }

    fn end_struct(&mut self, _: &Field) {
        self.structs.pop();
        self.end(false);
    }

    fn is_done(&self) -> bool {
        let mut cells = self.columns.iter().zip(self.cells.iter());
        cells.all(|(column, cell)| cell.is_some() || !column.may_be_field())
    }
}

/// An array or a struct as it is visited, in the form of the usual output.
struct Whole {
    out: Vec<u8>,
    form: Form,
    /// For each open bracket, whether it is an array, whose values have no names.
    brackets: Vec<bool>,
    /// Nothing stands yet behind the innermost bracket.
    is_first: bool,
    numbers: Vec<Value<'static>>,
}

impl Whole {
    fn new(form: Form) -> Whole {
        Whole { out: Vec::new(), form, brackets: Vec::new(), is_first: true, numbers: Vec::new() }
    }

    /// Appends the separator and the name before a value.
    fn name(&mut self, field: &Field) {
        let is_first = std::mem::replace(&mut self.is_first, false);
        let in_struct = self.brackets.last() == Some(&false);
        match self.form {
            Form::Json if in_struct => field.put_json_key(&mut self.out, is_first),
            Form::Json if is_first => {}
            Form::Json => self.out.push(b','),
            Form::Text => {
                if !is_first {
                    self.out.push(b' ');
                }
                if in_struct {
                    self.out.extend_from_slice(safe(&field.name).as_bytes());
                    self.out.push(b'=');
                }
            }
        }
    }

    fn put(&mut self, field: &Field, value: Value<'_>, style: &Style) {
        // JSON and text show it with the field behind it as one.
        if field.is_custom_length {
            return;
        }
        self.name(field);
        match self.form {
            Form::Json => value.write_json(&mut self.out, style),
            Form::Text => {
                put_value(&mut self.out, value, style);
            }
        }
    }

    fn begin(&mut self, field: &Field, is_array: bool) {
        self.name(field);
        self.out.push(if is_array { b'[' } else { b'{' });
        self.brackets.push(is_array);
        self.is_first = true;
    }

    fn end(&mut self, is_array: bool) {
        self.out.push(if is_array { b']' } else { b'}' });
        self.brackets.pop();
        self.is_first = false;
    }

    fn into_cell(self) -> Cell {
        Cell::Many { shown: into_text(self.out), numbers: self.numbers }
    }
}
