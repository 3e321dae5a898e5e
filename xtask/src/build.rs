//! Builds of the command and the library, and the paths of their files.

use crate::{Result, cargo, root};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The target of a build, and its options.
#[derive(Clone, Debug)]
pub struct Build {
    /// Cargo's profile.
    pub profile: String,
    /// The target triple; `None`: this machine's.
    pub target: Option<String>,
    /// The target folder; `None`: Cargo's own.
    pub folder: Option<PathBuf>,
    /// Environment variables of Cargo.
    pub environment: Vec<(String, String)>,
}

impl Build {
    /// For this machine, into Cargo's own folder.
    pub fn of_profile(profile: &str) -> Build {
        Build { profile: profile.to_owned(), target: None, folder: None, environment: Vec::new() }
    }

    /// The `etw` command.
    pub fn etw(&self) -> Result<PathBuf> {
        self.executable("etw", &["--package", "etw-cli", "--bin", "etw"])
    }

    /// An executable of this name.
    pub fn executable(&self, name: &str, selection: &[&str]) -> Result<PathBuf> {
        let mut command = self.cargo("build");
        command.args(selection);
        let messages = self.messages(command, name)?;
        // Cargo knows where its target folder is, whatever the environment or a configuration says.
        messages
            .iter()
            .filter(|message| message["target"]["name"] == name)
            .find_map(|message| message["executable"].as_str().map(PathBuf::from))
            .ok_or_else(|| format!("cargo does not name the executable of {name}").into())
    }

    /// `libetw.a` and `libetw.so`, in a target folder of their own: only this build gives the library its shared name.
    pub fn libraries(&self, shared_name: &str) -> Result<(PathBuf, PathBuf)> {
        let link = format!("link-arg=-Wl,-soname,{shared_name}");
        let folder = self.folder.clone().unwrap_or_else(|| root().join("target"));
        let own = Build { folder: Some(folder.join("install")), ..self.clone() };
        let mut command = own.cargo("rustc");
        command.args(["--package", "etw-capi"]);
        command.args(["--", "-C", &link]);
        let messages = own.messages(command, "libetw")?;
        let files: Vec<PathBuf> = messages
            .iter()
            .filter_map(|message| message["filenames"].as_array())
            .flatten()
            .filter_map(|name| name.as_str().map(PathBuf::from))
            .collect();
        let named = |name: &str| {
            let found = files.iter().find(|path| path.file_name().is_some_and(|file| file == name));
            found.cloned().ok_or_else(|| format!("cargo reports no path of {name}"))
        };
        Ok((named("libetw.a")?, named("libetw.so")?))
    }

    fn cargo(&self, what: &str) -> Command {
        let mut command = Command::new(cargo());
        command
            .args([what, "--locked", "--quiet", "--profile", &self.profile])
            .args(["--message-format", "json-render-diagnostics"])
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(root())
            .stderr(Stdio::inherit());
        if let Some(target) = &self.target {
            command.args(["--target", target]);
        }
        if let Some(folder) = &self.folder {
            command.arg("--target-dir").arg(folder);
        }
        command
    }

    /// Cargo's messages of a build.
    fn messages(&self, mut command: Command, name: &str) -> Result<Vec<serde_json::Value>> {
        let output = command.output()?;
        if !output.status.success() {
            return Err(format!("{name} does not build").into());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    }
}
