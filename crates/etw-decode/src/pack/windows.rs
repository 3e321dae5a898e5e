//! [`WindowsVersion`]: which Windows a pack describes.

use super::{Pack, PackBuilder, SourceKind};
use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write;

/// The Windows whose schemas a pack holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowsVersion {
    /// 10 for Windows 10 and 11.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
    /// The build, which is also in the header of each trace.
    pub build: u32,
    /// The update of the build.
    pub revision: u32,
    /// Its name, such as `Windows 10 Pro`.
    pub product: String,
    /// The name of the build, such as `19041.1.amd64fre.vb_release.191206-1406`.
    pub lab: String,
}

impl fmt::Display for WindowsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WindowsVersion { major, minor, build, revision, product, lab } = self;
        let product = if product.is_empty() { "Windows" } else { product };
        write!(f, "{product} {major}.{minor}.{build}.{revision}")?;
        if lab.is_empty() { Ok(()) } else { write!(f, " ({lab})") }
    }
}

impl WindowsVersion {
    /// Lines of a name, `=` and a value.
    fn to_source(&self) -> String {
        let WindowsVersion { major, minor, build, revision, product, lab } = self;
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = write!(text, "major={major}\nminor={minor}\nbuild={build}\nrevision={revision}\n");
        let _ = write!(text, "product={}\nlab={}\n", one_line(product), one_line(lab));
        text
    }

    fn of_source(text: &str) -> WindowsVersion {
        let mut version = WindowsVersion::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
            let number = value.parse().unwrap_or(0);
            match name {
                "major" => version.major = number,
                "minor" => version.minor = number,
                "build" => version.build = number,
                "revision" => version.revision = number,
                "product" => value.clone_into(&mut version.product),
                "lab" => value.clone_into(&mut version.lab),
                _ => {}
            }
        }
        version
    }
}

fn one_line(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).take(200).collect()
}

impl PackBuilder {
    /// Records which Windows the sources are of.
    pub fn set_windows(&mut self, version: &WindowsVersion) {
        let source = version.to_source().into_bytes();
        self.put(SourceKind::Windows, &version.to_string(), source, BTreeSet::new());
    }
}

impl Pack {
    /// The Windows that it describes; `None` if it was not made of one, or of several.
    pub fn windows(&self) -> Option<&WindowsVersion> {
        let read = || {
            let mut found = self.entries.iter().filter(|entry| entry.kind == SourceKind::Windows);
            let (first, None) = (found.next()?, found.next()) else { return None };
            Some(WindowsVersion::of_source(&String::from_utf8_lossy(&self.source(first)?)))
        };
        self.windows.get_or_init(read).as_ref()
    }
}
