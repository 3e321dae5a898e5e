//! [`Tree`]: a copied or mounted volume, whose names are found without regard to case.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Names of one folder that are kept; System32 has some five thousand.
const NAME_LIMIT: usize = 1 << 17;

/// The names in a folder, by their lower case.
type Listing = HashMap<String, OsString>;

/// Folders of a volume. Each is read once.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    listings: Mutex<HashMap<PathBuf, Arc<Listing>>>,
}

impl Tree {
    /// The names in a folder; none if it cannot be read.
    pub fn names(&self, folder: &Path) -> Arc<Listing> {
        let mut listings = self.listings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = listings.get(folder) {
            return known.clone();
        }
        let mut names = Listing::new();
        let mut found: Vec<OsString> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .take(NAME_LIMIT)
            .map(|entry| entry.file_name())
            .collect();
        // If two names differ in case alone, the same one wins each time.
        found.sort();
        for name in found {
            names.entry(name.to_string_lossy().to_lowercase()).or_insert(name);
        }
        let names = Arc::new(names);
        listings.insert(folder.to_owned(), names.clone());
        names
    }

    /// The file or folder of a path below a folder.
    pub fn find<'p>(
        &self,
        folder: &Path,
        path: impl IntoIterator<Item = &'p str>,
    ) -> Option<PathBuf> {
        let mut found = folder.to_owned();
        for name in path {
            let names = self.names(&found);
            found.push(names.get(&name.to_lowercase())?);
        }
        Some(found)
    }

    /// The `.mui` files of a program: `NAME.mui` beside it, and the one in the folder of the wanted language; then the English one; if
    /// there is none of these, the first of the others.
    pub fn muis(&self, program: &Path, wanted: Option<&str>) -> Vec<PathBuf> {
        let (Some(folder), Some(name)) = (program.parent(), program.file_name()) else {
            return Vec::new();
        };
        let name = format!("{}.mui", name.to_string_lossy());
        let names = self.names(folder);
        let mut languages: Vec<&String> = names.keys().filter(|name| is_language(name)).collect();
        let rank = |language: &str| match wanted {
            Some(wanted) if wanted.eq_ignore_ascii_case(language) => 0,
            _ if language == "en-us" => 1,
            _ if language.starts_with("en") => 2,
            _ => 3,
        };
        languages.sort_by_key(|language| (rank(language), language.as_str()));
        let mut found: Vec<PathBuf> = self.find(folder, [name.as_str()]).into_iter().collect();
        for language in languages {
            let is_suitable = rank(language) < 2 || found.is_empty();
            if is_suitable && found.len() < 3 {
                found.extend(self.find(folder, [language.as_str(), name.as_str()]));
            }
        }
        found.retain(|path| path.is_file());
        found
    }
}

/// Whether a folder has the name of a language, such as `de-de`.
fn is_language(name: &str) -> bool {
    let mut parts = name.split('-');
    let first = parts.next().unwrap_or_default();
    let is_code = (2..=3).contains(&first.len()) && first.bytes().all(|b| b.is_ascii_lowercase());
    let mut rest = parts.peekable();
    is_code
        && rest.peek().is_some()
        && rest.all(|part| {
            (2..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
        })
}
