//! `etw provider`

use super::host::{HostChoice, ask};
use super::options::resolve;
use super::session::{print_json, print_text};
use super::wanted::Named;
use crate::format::{TextOrJson, safe};
use crate::manifest;
use crate::output::{Failure, Outcome};
use crate::schemas::{self, Schemas};
use clap::{Args, Subcommand};
use etw_system::system_providers::{is_system_provider, name_of};
use etw_types::Guid;
use etw_wire::requests::{ProviderStatus, Request, Response};
use std::fmt::Write;

#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    format: TextOrJson,
    #[command(flatten)]
    host: HostChoice,
}

#[derive(Subcommand)]
enum Command {
    /// Show the providers that programs have registered, those that sessions have enabled, and those of installed manifests
    List,
    /// Print the GUID that a name hashes to (TraceLogging, EventSource)
    Guid {
        /// The provider's name
        name: String,
    },
    /// Show a provider: the programs that registered it, the sessions that enabled it, and the events of its manifest
    Show {
        /// GUID, registered or manifest name, or *Name
        name: Named,
        #[command(flatten)]
        schemas: Schemas,
    },
}

pub fn run(arguments: &Arguments) -> Result<Outcome, Failure> {
    match &arguments.command {
        Command::Guid { name } => {
            // `*Name` stands for a name's GUID wherever a provider is asked for.
            let name = name.strip_prefix('*').unwrap_or(name);
            if name.is_empty() {
                return Err(Failure::Usage("provider guid: the name is empty".to_owned()));
            }
            print_text(&format!("{}\n", Guid::from_name(name)))?;
        }
        Command::List => {
            let mut providers = registered(&arguments.host)?;
            add_installed(&mut providers);
            if arguments.format.is_json() {
                print_json(&providers)?;
                return Ok(Outcome::Done);
            }
            let mut text = String::new();
            for provider in &providers {
                let _ = writeln!(text, "{}", line(provider));
            }
            print_text(&text)?;
        }
        Command::Show { name, schemas } => show(arguments, name, schemas)?,
    }
    Ok(Outcome::Done)
}

fn registered(host: &HostChoice) -> Result<Vec<ProviderStatus>, Failure> {
    // Programs register with a running host only.
    let Some(client) = host.connect_if_any()? else { return Ok(Vec::new()) };
    match ask(&client, &Request::Providers)? {
        Response::Providers { providers } => Ok(providers),
        _ => Ok(Vec::new()),
    }
}

/// Adds the providers of installed manifests that no program has registered, and names where a provider has none.
pub fn add_installed(providers: &mut Vec<ProviderStatus>) {
    for (id, name) in manifest::installed_providers() {
        match providers.iter_mut().find(|known| known.id == id) {
            Some(known) if known.name.is_empty() => known.name = name,
            Some(_) => {}
            None => providers.push(ProviderStatus {
                id,
                name,
                group: None,
                pids: Vec::new(),
                sessions: Vec::new(),
            }),
        }
    }
}

fn line(provider: &ProviderStatus) -> String {
    // Names come from programs.
    let name = if provider.name.is_empty() { "-".into() } else { safe(&provider.name) };
    let pids = provider.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let pids = if pids.is_empty() { "-".to_owned() } else { pids };
    let mut text = format!("{}  {name:<32}  pids {pids}", provider.id);
    if !provider.sessions.is_empty() {
        let _ = write!(text, "  sessions {}", safe(&provider.sessions.join(",")));
    }
    text
}

fn show(arguments: &Arguments, name: &Named, schemas: &Schemas) -> Result<(), Failure> {
    let named = schemas.load()?;
    let id = match name {
        Named::Id(id) => *id,
        Named::Name(text) => match named.providers_named(text)[..] {
            [id] => id,
            _ => resolve(name, arguments.host.connect().ok().as_ref())?,
        },
    };
    let known = registered(&arguments.host)?.into_iter().find(|provider| provider.id == id);
    let mut events = named.events_of(&id);
    if events.is_empty() {
        events = schemas::own().events_of(&id);
    }
    if arguments.format.is_json() {
        let events: Vec<_> = events
            .iter()
            .map(|event| {
                serde_json::json!({
                    "id": event.id, "version": event.version, "name": event.name,
                    "level": event.level, "keywords": event.keywords, "fields": event.fields,
                })
            })
            .collect();
        return print_json(&serde_json::json!({
            "id": id, "registered": known, "events": events,
        }));
    }
    let mut text = match &known {
        Some(provider) => format!("{}\n", line(provider)),
        None => match name_of(&id) {
            Some(name) => {
                format!("{id}  {name}: no program registers it, the host has its events\n")
            }
            None => format!("{id}  not registered\n"),
        },
    };
    for event in &events {
        let _ = writeln!(
            text,
            "  {:>5} v{} {} {}({}){}{}",
            event.id,
            event.version,
            event.level.as_deref().unwrap_or("-"),
            event.name,
            event.fields.join(", "),
            if event.keywords.is_empty() { "" } else { " " },
            event.keywords.join(",")
        );
    }
    if events.is_empty() && is_system_provider(&id) {
        text.push_str("  etw record --system records classes of them; etw help and xperf -providers K list the classes\n");
    } else if events.is_empty() {
        text.push_str("  no manifest is known for it; TraceLogging events describe themselves, and --manifest FILE names one\n");
    }
    print_text(&text)
}
