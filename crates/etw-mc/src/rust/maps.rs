//! Value maps as enumerations, bit maps as sets of constants.

use super::names::{Used, pascal, upper};
use super::{doc, line};
use crate::manifest::{Map, Provider};

/// The name of a map's type.
pub fn type_name(provider: &Provider, index: usize) -> String {
    let mut used = Used::default();
    let names = provider.maps.iter().map(|map| used.unique(own_name(map)));
    names.take(index + 1).last().unwrap_or_default()
}

fn own_name(map: &Map) -> String {
    pascal(map.symbol.as_deref().unwrap_or(&map.name))
}

/// The types of all maps.
pub fn write(out: &mut String, provider: &Provider) {
    for (index, map) in provider.maps.iter().enumerate() {
        let name = type_name(provider, index);
        line(out, 1, &format!("/// Map `{}`.", doc(&map.name)));
        match map.is_bitmap {
            true => bits(out, map, &name),
            false => values(out, map, &name),
        }
    }
}

fn bits(out: &mut String, map: &Map, name: &str) {
    line(out, 1, "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]");
    line(out, 1, &format!("pub struct {name}(pub u32);"));
    line(out, 1, &format!("impl {name} {{"));
    let mut used = Used::default();
    for item in &map.items {
        let plain = match &item.symbol {
            Some(symbol) => upper(symbol),
            None => format!("BIT_{:X}", item.value),
        };
        let constant = used.unique(plain);
        line(out, 2, &format!("/// {:#x}", item.value));
        line(out, 2, &format!("pub const {constant}: {name} = {name}({:#x});", item.value));
    }
    line(out, 2, "/// The bits.");
    line(out, 2, "pub const fn value(self) -> u32 {\n            self.0\n        }\n    }");
    line(out, 1, &format!("impl ::core::ops::BitOr for {name} {{"));
    line(out, 2, &format!("type Output = {name};"));
    line(out, 2, &format!("fn bitor(self, other: {name}) -> {name} {{"));
    line(out, 3, &format!("{name}(self.0 | other.0)\n        }}\n    }}"));
}

fn values(out: &mut String, map: &Map, name: &str) {
    let mut used = Used::default();
    used.unique("Other".to_owned());
    let variants: Vec<(String, u32)> = map
        .items
        .iter()
        .map(|item| {
            let plain = match &item.symbol {
                Some(symbol) => pascal(symbol),
                None => format!("Value{}", item.value),
            };
            (used.unique(plain), item.value)
        })
        .collect();
    line(out, 1, "#[derive(Clone, Copy, Debug, PartialEq, Eq)]");
    line(out, 1, &format!("pub enum {name} {{"));
    for (variant, value) in &variants {
        line(out, 2, &format!("/// {value}"));
        line(out, 2, &format!("{variant},"));
    }
    line(out, 2, "/// A value without a name.\n        Other(u32),\n    }");
    line(out, 1, &format!("impl {name} {{"));
    line(out, 2, "/// The number.");
    line(out, 2, "pub const fn value(self) -> u32 {\n            match self {");
    for (variant, value) in &variants {
        line(out, 4, &format!("{name}::{variant} => {value},"));
    }
    line(out, 4, &format!("{name}::Other(value) => value,\n            }}\n        }}\n    }}"));
    line(out, 1, &format!("impl From<u32> for {name} {{"));
    line(out, 2, &format!("fn from(value: u32) -> {name} {{\n            match value {{"));
    let mut known = Vec::new();
    for (variant, value) in &variants {
        // If a value has two names, the first counts.
        if !known.contains(value) {
            known.push(*value);
            line(out, 4, &format!("{value} => {name}::{variant},"));
        }
    }
    line(out, 4, &format!("other => {name}::Other(other),\n            }}\n        }}\n    }}"));
}
