//! [`Build`]: Rust from a manifest, in a build script.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::rust;
use crate::{Diagnostic, Manifest};

/// Makes Rust from a manifest, in a build script.
///
/// ```no_run
/// // build.rs
/// etw_mc::Build::new("shop.man").run().unwrap();
/// ```
///
/// ```text
/// // src/main.rs
/// include!(concat!(env!("OUT_DIR"), "/shop.rs"));
/// ```
#[derive(Clone, Debug)]
pub struct Build {
    manifest: PathBuf,
    folder: Option<PathBuf>,
    options: rust::Options,
}

/// Why a manifest gives no Rust.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A file cannot be read or written.
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The manifest has errors.
    Manifest {
        /// The file.
        path: PathBuf,
        /// The errors and warnings.
        diagnostics: Vec<Diagnostic>,
    },
    /// The environment has no `OUT_DIR`: this is no build script, and no folder was given.
    NoFolder,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            BuildError::Manifest { path, diagnostics } => {
                write!(f, "{}: not compiled", path.display())?;
                for one in diagnostics {
                    write!(f, "\n{}:{one}", path.display())?;
                }
                Ok(())
            }
            BuildError::NoFolder => {
                f.write_str("OUT_DIR is not set: call this from a build script, or name a folder")
            }
        }
    }
}

impl std::error::Error for BuildError {}

impl Build {
    /// For a manifest, relative to the package's folder.
    pub fn new(manifest: impl Into<PathBuf>) -> Build {
        Build { manifest: manifest.into(), folder: None, options: rust::Options::default() }
    }

    /// The folder of the output; default: `OUT_DIR`.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Build {
        self.folder = Some(folder.into());
        self
    }

    /// The options of the output.
    pub fn options(mut self, options: rust::Options) -> Build {
        self.options = options;
        self
    }

    /// Writes `NAME.rs`, prints the manifest's warnings and what Cargo has to watch, and returns the file's path.
    ///
    /// # Errors
    /// [`BuildError`]. A file of an earlier build then stays as it was.
    pub fn run(&self) -> Result<PathBuf, BuildError> {
        let path = &self.manifest;
        let io = |path: &Path| {
            let path = path.to_owned();
            move |error| BuildError::Io { path, error }
        };
        println!("cargo:rerun-if-changed={}", path.display());
        let text = std::fs::read(path).map_err(io(path))?;
        let manifest = Manifest::parse(&text)
            .map_err(|diagnostics| BuildError::Manifest { path: path.clone(), diagnostics })?;
        for warning in &manifest.warnings {
            println!("cargo:warning={}:{warning}", path.display());
        }
        let out = std::env::var_os("OUT_DIR").map(PathBuf::from);
        let folder = self.folder.clone().or(out).ok_or(BuildError::NoFolder)?;
        let stem = path.file_stem().unwrap_or_default();
        let out = folder.join(Path::new(stem).with_extension("rs"));
        let part = out.with_extension("rs.part");
        std::fs::write(&part, rust::write(&manifest, &self.options)).map_err(io(&part))?;
        std::fs::rename(&part, &out).map_err(io(&out))?;
        Ok(out)
    }
}
