//! The site table as the host reads it.

use std::collections::HashMap;
use std::sync::Arc;

use super::Source;
use crate::layout::*;
use crate::site::SITE_COMMITTED;

/// The site table of a pool: the static metadata that records name by id.
#[derive(Debug)]
pub struct SiteTable {
    pub(super) source: Arc<Source>,
    pub(super) sites: HashMap<u32, Option<Box<[u8]>>>,
    pub(super) size: usize,
}

impl SiteTable {
    /// The metadata of a site. The first call copies and checks the entry, and keeps the copy, so later changes in the pool have no
    /// effect. `None`: there is no such entry, or it exceeds the table's limits.
    pub fn get(&mut self, id: u32) -> Option<&[u8]> {
        if id == 0 || id as usize >= MAX_SITES {
            return None;
        }
        if !self.sites.contains_key(&id) {
            let mut word = [0; 8];
            self.source.read(P_SITES + id as usize * 8, &mut word);
            let word = u64::from_le_bytes(word);
            let (offset, size) = (word as u32 as usize, (word >> 32) as usize & 0x7fff_ffff);
            if word & SITE_COMMITTED == 0 {
                // Not kept: the entry may be committed later, although no honest record names it now.
                return None;
            }
            let copied = size <= crate::MAX_SITE_SIZE
                && offset + size <= SITE_BLOB_SIZE
                && self.size + size <= SITE_BLOB_SIZE;
            let copy = copied.then(|| {
                let mut copy = vec![0; size].into_boxed_slice();
                self.source.read(P_SITE_BLOB + offset, &mut copy);
                copy
            });
            self.size += copy.as_ref().map_or(0, |c| c.len());
            self.sites.insert(id, copy);
        }
        self.sites.get(&id)?.as_deref()
    }
}
