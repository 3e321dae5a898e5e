//! `--payload`: conditions on an event's fields, for TraceLogging events and for events of manifests.

use super::lookup::Lookup;
use crate::output::Failure;
use crate::where_filter::closest;
use etw_decode::{PayloadLayout, Schema};
use etw_host::{Condition, EventKey, PayloadFilter, PayloadOp};
use etw_types::Guid;

/// `EVENT:FIELD=VALUE,FIELD~VALUE`
#[derive(Clone, Debug, PartialEq)]
pub struct PayloadOption {
    /// The name of an event, or the id of one that a manifest describes.
    event: String,
    conditions: Vec<Condition>,
}

impl PayloadOption {
    pub fn parse(text: &str) -> Result<PayloadOption, String> {
        const OPERATORS: [(&str, PayloadOp); 9] = [
            ("==", PayloadOp::Eq),
            ("!=", PayloadOp::Ne),
            ("<=", PayloadOp::Le),
            (">=", PayloadOp::Ge),
            ("!~", PayloadOp::DoesntContain),
            ("=", PayloadOp::Eq),
            ("<", PayloadOp::Lt),
            (">", PayloadOp::Gt),
            ("~", PayloadOp::Contains),
        ];
        let (event, conditions) = text
            .split_once(':')
            .filter(|(event, _)| !event.is_empty())
            .ok_or("an event's name or id and a colon are missing: EVENT:FIELD=VALUE")?;
        let condition = |text: &str| {
            let found =
                OPERATORS.iter().filter_map(|(sign, op)| Some((text.find(sign)?, *sign, *op)));
            // The first in the text; if two start there, the longer, which is first in the table.
            let (at, sign, op) = found
                .min_by_key(|(at, ..)| *at)
                .ok_or_else(|| format!("{text:?}: one of = != < <= > >= ~ !~ is missing"))?;
            let (field, value) = (text[..at].trim(), text[at + sign.len()..].trim());
            if field.is_empty() {
                return Err(format!("{text:?}: the field is missing"));
            }
            Condition::new(field, op, &[value]).map_err(|error| format!("{text:?}: {error}"))
        };
        let conditions: Result<Vec<Condition>, String> =
            conditions.split(',').map(condition).collect();
        Ok(PayloadOption { event: event.to_owned(), conditions: conditions? })
    }

    /// The filters for one provider's events: one for each version of an event that a manifest describes, or one by name.
    pub fn filters(
        &self,
        provider: Guid,
        lookup: &Lookup<'_>,
    ) -> Result<Vec<PayloadFilter>, Failure> {
        let described = lookup.events(&provider);
        let number = self.event.parse::<u16>().ok();
        let is_wanted = |id: u16, schema: &Schema| match number {
            Some(number) => id == number,
            None => schema.names.event.as_deref() == Some(&*self.event),
        };
        let wanted: Vec<_> =
            described.iter().filter(|event| is_wanted(event.id, event.schema)).collect();
        if wanted.is_empty() {
            return match number {
                Some(number) => Err(no_such_event(number, provider, described.is_empty())),
                None => Ok(vec![self.filter(EventKey::Name(self.event.clone()), None)]),
            };
        }
        let mut known: Vec<String> = Vec::new();
        let mut filters = Vec::new();
        for event in wanted {
            let layout = PayloadLayout::of(event.schema);
            known.extend_from_slice(layout.fields());
            if let Some(metadata) = layout.metadata() {
                let key = EventKey::Id { id: event.id, version: Some(event.version) };
                filters.push(self.filter(key, Some(metadata)));
            }
        }
        known.sort();
        known.dedup();
        match self.conditions.iter().find(|condition| !known.contains(&condition.field())) {
            Some(condition) => Err(self.no_such_field(&condition.field(), &known)),
            None => Ok(filters),
        }
    }

    fn filter(&self, of: EventKey, metadata: Option<Vec<u8>>) -> PayloadFilter {
        let conditions = self.conditions.clone();
        PayloadFilter { of, conditions, any: false, match_all: false, metadata }
    }

    fn no_such_field(&self, field: &str, known: &[String]) -> Failure {
        let near = closest(field, known.iter().map(String::as_str))
            .map_or(String::new(), |near| format!("did you mean {near}? "));
        let all = known.join(", ");
        Failure::Usage(format!(
            "--payload: a session cannot compare {field:?} of event {}: {near}the fields that it can compare are {all}",
            self.event
        ))
    }
}

fn no_such_event(id: u16, provider: Guid, nothing_known: bool) -> Failure {
    Failure::Usage(match nothing_known {
        true => format!(
            "--payload {id}: no manifest of provider {provider} is known, so its events have no fields; name it with \
             --manifest FILE, or register it with etw manifest install"
        ),
        false => format!("--payload {id}: the manifest of provider {provider} has no event {id}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_on_fields() {
        let option = PayloadOption::parse("Request:status>=500, path!~/api").unwrap();
        assert_eq!(option.event, "Request");
        let of = |field, op, value| Condition::new(field, op, &[value]).unwrap();
        let expected =
            [of("status", PayloadOp::Ge, "500"), of("path", PayloadOp::DoesntContain, "/api")];
        assert_eq!(option.conditions, expected);
        for (text, op) in [("a==1", PayloadOp::Eq), ("a=1", PayloadOp::Eq), ("a<1", PayloadOp::Lt)]
        {
            let option = PayloadOption::parse(&format!("X:{text}")).unwrap();
            assert_eq!(option.conditions, [of("a", op, "1")]);
        }
        for bad in ["", "status=5", ":a=5", "X:", "X:a", "X:=5", "X:a>b", "X:a=1,"] {
            assert!(PayloadOption::parse(bad).is_err(), "{bad}");
        }
    }
}
