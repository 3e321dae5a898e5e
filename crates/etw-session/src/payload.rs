//! Filters on the fields of an event.

use etw_tracelogging::{Count, EventMetadata, Field, InType};
use etw_types::{Guid, fold_case, le};

use crate::event::Event;
use crate::filter_error::FilterError;

/// `MAX_PAYLOAD_PREDICATES`
pub(crate) const MAX_CONDITIONS: usize = 8;
/// Fields and values that a filter reads of one event, since metadata can claim arrays of arrays without bytes. Later fields count as
/// absent.
const MAX_VALUES: usize = 1 << 16;
const MAX_DEPTH: usize = 16;

/// Conditions on the fields of one event.
#[doc(alias = "TdhCreatePayloadFilter")]
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct PayloadFilter {
    /// The event that the filter is for.
    pub of: EventKey,
    /// 1 to 8.
    pub conditions: Vec<Condition>,
    /// True if one condition suffices (`EventMatchANY`); otherwise all must match.
    pub any: bool,
    /// True if this filter has to hold (`EventMatchALLFlags`). Among the event's other filters, one suffices.
    #[cfg_attr(feature = "serde", serde(default))]
    pub match_all: bool,
    /// TraceLogging metadata that describes the payload, for events of manifests, which contain none.
    pub metadata: Option<Vec<u8>>,
}

/// The event that a filter is for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(from = "EventKeyForm", into = "EventKeyForm"))]
pub enum EventKey {
    /// A TraceLogging event of this name.
    Name(String),
    /// An event with a number; none of TraceLogging's.
    Id {
        /// The event's id.
        id: u16,
        /// Its version; `None`: every version.
        version: Option<u8>,
    },
}

/// The form of an [`EventKey`] in messages.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
enum EventKeyForm {
    Name(String),
    Id(u16, Option<u8>),
}

#[cfg(feature = "serde")]
impl From<EventKeyForm> for EventKey {
    fn from(form: EventKeyForm) -> EventKey {
        match form {
            EventKeyForm::Name(name) => EventKey::Name(name),
            EventKeyForm::Id(id, version) => EventKey::Id { id, version },
        }
    }
}

#[cfg(feature = "serde")]
impl From<EventKey> for EventKeyForm {
    fn from(key: EventKey) -> EventKeyForm {
        match key {
            EventKey::Name(name) => EventKeyForm::Name(name),
            EventKey::Id { id, version } => EventKeyForm::Id(id, version),
        }
    }
}

/// A condition on a field: `field op values`.
///
/// One value of an array has to fulfil the condition; all have to, if the operator is a negation. An absent field does not fulfil a
/// condition, and neither does a field whose type the operator cannot compare.
#[doc(alias = "PAYLOAD_FILTER_PREDICATE")]
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Text", into = "Text"))]
pub struct Condition {
    /// Names from the outermost struct inward.
    path: Vec<String>,
    op: PayloadOp,
    values: Vec<Value>,
}

/// A condition as it was given.
#[cfg(feature = "serde")]
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    field: String,
    op: PayloadOp,
    values: Vec<String>,
}

#[cfg(feature = "serde")]
impl TryFrom<Text> for Condition {
    type Error = FilterError;
    fn try_from(text: Text) -> Result<Condition, FilterError> {
        let values: Vec<&str> = text.values.iter().map(String::as_str).collect();
        Condition::new(&text.field, text.op, &values)
    }
}

#[cfg(feature = "serde")]
impl From<Condition> for Text {
    fn from(condition: Condition) -> Text {
        let field = condition.field();
        let values = condition.values.into_iter().map(|value| value.text).collect();
        Text { field, op: condition.op, values }
    }
}

/// A text and the values of other types that it can stand for.
#[derive(Clone, Debug, PartialEq)]
struct Value {
    text: String,
    folded: String,
    integer: Option<i128>,
    float: Option<f64>,
    /// The nearest single, if one is near.
    single: Option<f32>,
    guid: Option<Guid>,
}

/// `PAYLOAD_OPERATOR`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum PayloadOp {
    /// Equal; of texts with case.
    Eq = 0,
    /// Not equal; of texts with case.
    Ne = 1,
    /// At most.
    Le = 2,
    /// More than.
    Gt = 3,
    /// Less than.
    Lt = 4,
    /// At least.
    Ge = 5,
    /// In a range, its ends included.
    Between = 6,
    /// Outside of a range.
    NotBetween = 7,
    /// A multiple.
    Modulo = 8,
    /// Holds a text, without case.
    Contains = 20,
    /// Does not hold a text, without case.
    DoesntContain = 21,
    /// Is a text, without case, or a GUID.
    Is = 30,
    /// Is not a text, without case, or a GUID.
    IsNot = 31,
}

impl PayloadOp {
    /// The opposite operator, for an operator that negates another one.
    fn negated(self) -> Option<PayloadOp> {
        Some(match self {
            PayloadOp::Ne => PayloadOp::Eq,
            PayloadOp::NotBetween => PayloadOp::Between,
            PayloadOp::DoesntContain => PayloadOp::Contains,
            PayloadOp::IsNot => PayloadOp::Is,
            _ => return None,
        })
    }
}

impl Condition {
    /// A condition on a field; `Outer.Inner` names a member of a struct. Numbers are decimal, or hexadecimal after `0x`.
    ///
    /// # Errors
    /// [`FilterError::Condition`]: two values are needed for a range and one elsewhere, numbers for what only numbers have.
    pub fn new(field: &str, op: PayloadOp, values: &[&str]) -> Result<Condition, FilterError> {
        use PayloadOp::*;
        let values: Vec<Value> = values.iter().map(|text| Value::new(text)).collect();
        let are_numbers = values.iter().all(|value| value.float.is_some());
        let fits = match op {
            Eq | Ne | Is | IsNot | Contains | DoesntContain => values.len() == 1,
            Le | Gt | Lt | Ge => values.len() == 1 && are_numbers,
            Between | NotBetween => values.len() == 2 && are_numbers,
            Modulo => values.len() == 1 && values[0].integer.is_some_and(|value| value != 0),
        };
        if !fits {
            return Err(FilterError::Condition(field.to_owned()));
        }
        Ok(Condition { path: field.split('.').map(str::to_owned).collect(), op, values })
    }

    /// The name of the field; `Outer.Inner` for a member of a struct.
    pub fn field(&self) -> String {
        self.path.join(".")
    }

    /// The operator.
    pub fn op(&self) -> PayloadOp {
        self.op
    }

    /// The values, as they were given.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.values.iter().map(|value| value.text.as_str())
    }

    fn holds(&self, fields: &[Field<'_>], payload: &[u8]) -> bool {
        let op = self.op.negated().unwrap_or(self.op);
        let mut search = Search { op, values: &self.values, found: None, left: MAX_VALUES };
        // Fields behind a value that is cut off, or whose type has no size, count as absent.
        let _ = search.fields(fields, payload, Some(&self.path), 0);
        search.found.is_some_and(|found| found != self.op.negated().is_some())
    }
}

impl Value {
    fn new(text: &str) -> Value {
        let (sign, digits) = match text.strip_prefix('-') {
            Some(digits) => (-1, digits),
            None => (1, text),
        };
        let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
        // Wider than any field, so that a value beyond all of them is not rounded to a double.
        let magnitude = match hex {
            Some(digits) => i128::from_str_radix(digits, 16).ok(),
            None => digits.parse::<i128>().ok(),
        };
        let magnitude = magnitude.filter(|magnitude| *magnitude >= 0);
        let boolean = match text {
            "true" => Some(1),
            "false" => Some(0),
            _ => None,
        };
        let integer = boolean.or(magnitude.map(|magnitude| sign * magnitude));
        let float = integer.map(|value| value as f64).or_else(|| text.parse().ok());
        let single = integer.map(|value| value as f32).or_else(|| text.parse().ok());
        let is_near = |single: &f32| {
            (single.is_finite() || float.is_none_or(|float| !float.is_finite()))
                && (*single != 0.0 || float == Some(0.0))
        };
        Value {
            text: text.to_owned(),
            folded: folded(text),
            integer,
            float,
            single: single.filter(is_near),
            guid: text.trim_matches(['{', '}']).parse().ok(),
        }
    }
}

/// The form of a text that compares without case.
fn folded(text: &str) -> String {
    text.chars().map(fold_case).collect()
}

/// Whether an event passes. `name`: the name of a TraceLogging event.
pub(crate) fn pass(filters: &[PayloadFilter], event: &Event<'_>, name: Option<&[u8]>) -> bool {
    let descriptor = &event.descriptor;
    let is_for_it = |filter: &&PayloadFilter| match (&filter.of, name) {
        (EventKey::Name(wanted), Some(name)) => wanted.as_bytes() == name,
        (EventKey::Id { id, version }, None) => {
            *id == descriptor.id && version.is_none_or(|version| version == descriptor.version)
        }
        _ => false,
    };
    let holds = |filter: &PayloadFilter| {
        let metadata = event.metadata().or(filter.metadata.as_deref());
        let Some(metadata) = metadata.and_then(|blob| EventMetadata::parse(blob).ok()) else {
            return false;
        };
        let fields: Vec<Field<'_>> = metadata.fields().map_while(Result::ok).collect();
        let holds = |condition: &Condition| condition.holds(&fields, event.payload);
        match filter.any {
            true => filter.conditions.iter().any(holds),
            false => filter.conditions.iter().all(holds),
        }
    };
    // Whether one of the filters without `match_all` holds; `None` if there is no such filter.
    let mut of_any = None;
    for filter in filters.iter().filter(is_for_it) {
        match filter.match_all {
            true if !holds(filter) => return false,
            true => {}
            false => of_any = Some(of_any == Some(true) || holds(filter)),
        }
    }
    of_any.unwrap_or(true)
}

/// Looks for the values of a field.
struct Search<'a> {
    op: PayloadOp,
    values: &'a [Value],
    /// Whether a value fulfilled the condition; `None` if no value was found.
    found: Option<bool>,
    left: usize,
}

impl Search<'_> {
    /// Walks fields and their payload, and returns the bytes behind it. `path` names the wanted field, if it can be among these.
    fn fields<'p>(
        &mut self,
        fields: &[Field<'_>],
        mut payload: &'p [u8],
        path: Option<&[String]>,
        depth: usize,
    ) -> Option<&'p [u8]> {
        let mut at = 0;
        while let Some(field) = fields.get(at) {
            let end = end_of(fields, at, depth)?;
            // Also for arrays of nothing, whose members cost time to count.
            self.left = self.left.checked_sub(end - at)?;
            let path =
                path.filter(|path| path.first().is_some_and(|name| name.as_bytes() == field.name));
            let count = match field.count {
                Count::Scalar => 1,
                Count::Fixed(count) => count,
                Count::Variable => {
                    let count = le::u16(payload, 0)?;
                    payload = &payload[2..];
                    count
                }
            };
            for _ in 0..count {
                self.left = self.left.checked_sub(1)?;
                if field.in_type == InType::STRUCT {
                    let path = path.map(|path| &path[1..]);
                    payload = self.fields(&fields[at + 1..end], payload, path, depth + 1)?;
                } else {
                    let (value, rest) = field.in_type.split(payload)?;
                    payload = rest;
                    if path.is_some_and(|path| path.len() == 1) {
                        if let Some(holds) = self.compare(field.in_type, value) {
                            self.found = Some(self.found.unwrap_or(false) | holds);
                        }
                    }
                }
            }
            at = end;
        }
        Some(payload)
    }

    /// Whether a value fulfils the condition. `None`: the operator cannot compare the type.
    fn compare(&self, in_type: InType, value: &[u8]) -> Option<bool> {
        match in_type {
            InType::INT8 | InType::INT16 | InType::INT32 | InType::INT64 => {
                let shift = 128 - 8 * value.len() as u32;
                self.integer((unsigned(value) << shift) as i128 >> shift)
            }
            InType::UINT8
            | InType::UINT16
            | InType::UINT32
            | InType::UINT64
            | InType::HEXINT32
            | InType::HEXINT64
            | InType::FILETIME => self.integer(unsigned(value) as i128),
            InType::BOOL32 => self.integer(i128::from(value.iter().any(|byte| *byte != 0))),
            InType::FLOAT => self.single(f32::from_le_bytes(value.try_into().ok()?)),
            InType::DOUBLE => self.float(f64::from_le_bytes(value.try_into().ok()?)),
            InType::GUID => self.guid(Guid(value.try_into().ok()?)),
            InType::UNICODESTRING | InType::COUNTEDSTRING => {
                let units =
                    value.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
                let text =
                    char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER));
                self.text(&text.collect::<String>())
            }
            InType::ANSISTRING | InType::COUNTEDANSISTRING => {
                self.text(&String::from_utf8_lossy(value))
            }
            _ => None,
        }
    }

    fn integer(&self, value: i128) -> Option<bool> {
        let Some(integers) = self.values.iter().map(|value| value.integer).collect() else {
            return self.float(value as f64);
        };
        let integers: Vec<i128> = integers;
        match self.op {
            PayloadOp::Modulo => Some(value % integers[0] == 0),
            _ => self.ordered(&value, &integers),
        }
    }

    /// Compares as singles: 0.1 is the field's number that is shown so.
    fn single(&self, value: f32) -> Option<bool> {
        let singles: Option<Vec<f32>> = self.values.iter().map(|value| value.single).collect();
        match singles {
            Some(singles) => self.ordered(&value, &singles),
            None => self.float(value.into()),
        }
    }

    fn float(&self, value: f64) -> Option<bool> {
        let floats: Vec<f64> =
            self.values.iter().map(|value| value.float).collect::<Option<_>>()?;
        self.ordered(&value, &floats)
    }

    fn ordered<T: PartialOrd>(&self, value: &T, values: &[T]) -> Option<bool> {
        let first = &values[0];
        Some(match self.op {
            PayloadOp::Eq | PayloadOp::Is => value == first,
            PayloadOp::Le => value <= first,
            PayloadOp::Gt => value > first,
            PayloadOp::Lt => value < first,
            PayloadOp::Ge => value >= first,
            PayloadOp::Between => value >= first && value <= &values[1],
            _ => return None,
        })
    }

    fn guid(&self, value: Guid) -> Option<bool> {
        match self.op {
            PayloadOp::Eq | PayloadOp::Is => Some(self.values[0].guid? == value),
            _ => None,
        }
    }

    fn text(&self, text: &str) -> Option<bool> {
        let wanted = &self.values[0];
        match self.op {
            PayloadOp::Eq => Some(text == wanted.text),
            PayloadOp::Is => Some(folded(text) == wanted.folded),
            PayloadOp::Contains => Some(folded(text).contains(&wanted.folded)),
            _ => None,
        }
    }
}

fn unsigned(value: &[u8]) -> u128 {
    value.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// The field behind field `at` and, of a struct, all of its members.
fn end_of(fields: &[Field<'_>], at: usize, depth: usize) -> Option<usize> {
    if depth > MAX_DEPTH {
        return None;
    }
    let mut end = at + 1;
    for _ in 0..fields.get(at)?.struct_field_count {
        end = end_of(fields, end, depth + 1)?;
    }
    Some(end)
}
