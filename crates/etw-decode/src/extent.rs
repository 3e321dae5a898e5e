//! The size of a schema's payloads, as far as it is known without a payload.

use std::sync::OnceLock;

/// The known bounds of the size of a schema's payloads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extent {
    /// Whether the size of a field depends on the width of pointers.
    pub has_pointers: bool,
    /// Fields at the start whose sizes do not depend on the payload, and their bytes; `None` if only a walk tells.
    pub fixed: Option<FixedFields>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedFields {
    pub count: usize,
    /// With pointers of 4 and of 8 bytes.
    pub sizes: [usize; 2],
}

/// The extent of a schema, computed when it is first needed. A clone starts without it, as its fields may change.
#[derive(Debug, Default)]
pub(crate) struct LazyExtent(pub OnceLock<Extent>);

impl Clone for LazyExtent {
    fn clone(&self) -> LazyExtent {
        LazyExtent::default()
    }
}

impl PartialEq for LazyExtent {
    fn eq(&self, _: &LazyExtent) -> bool {
        true
    }
}
