//! The provider of a callsite's events.

use etw::{Guid, Keyword, Level, Provider, Registration, Status};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use tracing_core::{LevelFilter, Metadata};

thread_local! {
    /// A provider is being registered: who asks has not been answered yet, and need not be asked anew.
    static REGISTERING: Cell<bool> = const { Cell::new(false) };
}

#[derive(Debug)]
pub(crate) struct Providers {
    name: String,
    one: Option<Registered>,
    /// By target, where each has its own.
    targets: RwLock<HashMap<&'static str, Registered>>,
    keywords: Vec<(String, Keyword)>,
}

#[derive(Debug)]
struct Registered {
    provider: Arc<Provider>,
    _registration: Registration,
}

fn register(name: &str) -> Result<Registered, Status> {
    let provider = Provider::dynamic(name, Guid::from_name(name), None)?;
    REGISTERING.set(true);
    let registration = provider.register_shared(Some(Arc::new(|_: &etw::EnableChange<'_>| {
        if !REGISTERING.get() {
            tracing_core::callsite::rebuild_interest_cache();
        }
    })));
    REGISTERING.set(false);
    Ok(Registered { provider, _registration: registration })
}

impl Providers {
    pub fn new(
        name: &str,
        per_target: bool,
        keywords: Vec<(String, Keyword)>,
    ) -> Result<Providers, Status> {
        // An invalid name is rejected now, even if it is only the prefix of the names of targets.
        let one = register(name)?;
        Ok(Providers {
            name: name.to_owned(),
            one: (!per_target).then_some(one),
            targets: RwLock::default(),
            keywords,
        })
    }

    /// The provider of a callsite; `None` for a target that can name none.
    pub fn of(&self, metadata: &'static Metadata<'static>) -> Option<Arc<Provider>> {
        if let Some(one) = &self.one {
            return Some(one.provider.clone());
        }
        let target = metadata.target();
        let known = self.targets.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get(target) {
            return Some(known.provider.clone());
        }
        drop(known);
        let made = register(&format!("{}.{}", self.name, target.replace("::", "."))).ok()?;
        let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        Some(targets.entry(target).or_insert(made).provider.clone())
    }

    /// The one provider of all, if there is one.
    #[inline]
    pub fn one(&self) -> Option<&Provider> {
        self.one.as_ref().map(|one| &*one.provider)
    }

    /// Bits for the target, beside those of the level.
    pub fn keyword(&self, target: &str) -> Keyword {
        let bits = self.keywords.iter().filter(|(start, _)| target.starts_with(start.as_str()));
        bits.fold(Keyword(0), |all, (_, bits)| all | *bits)
    }

    /// The most verbose level that somebody wants.
    pub fn max_level(&self) -> LevelFilter {
        let of = |provider: &Provider| match provider {
            provider if provider.has_level(Level::VERBOSE) => LevelFilter::TRACE,
            provider if provider.has_level(Level::INFO) => LevelFilter::INFO,
            provider if provider.has_level(Level::WARNING) => LevelFilter::WARN,
            provider if provider.has_level(Level::CRITICAL) => LevelFilter::ERROR,
            _ => LevelFilter::OFF,
        };
        match &self.one {
            Some(one) => of(&one.provider),
            // Those of targets that are not known yet can be asked only if callsites come that far.
            None => LevelFilter::TRACE,
        }
    }
}
