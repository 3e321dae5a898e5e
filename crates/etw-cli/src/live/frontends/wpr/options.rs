//! The options of `wpr`, a row each.

use super::Command;
use crate::frontends::table::{Effect, Row, action, help_row, option, refused};

pub const START: u16 = 1;
pub const STOP: u16 = 1 << 1;
pub const CANCEL: u16 = 1 << 2;
pub const STATUS: u16 = 1 << 3;
pub const PROFILES: u16 = 1 << 4;

pub const ACTIONS: &[(u16, &str)] = &[
    (START, "start"),
    (STOP, "stop"),
    (CANCEL, "cancel"),
    (STATUS, "status"),
    (PROFILES, "profiles"),
];

/// Words behind `-status`. Collectors are shown in any case.
const STATUS_WORDS: [&str; 3] = ["profiles", "collectors", "details"];

pub const ROWS: &[Row<Command>] = &[
    help_row(),
    action(
        START,
        "start",
        "PROFILE",
        "Record a profile: NAME, NAME.light, FILE.wprp or FILE.wprp!NAME; several can be started together",
        |command, words, option| {
            command.profiles.push(words.needed(option, "PROFILE")?.to_owned());
            Ok(())
        },
    ),
    action(
        STOP,
        "stop",
        "FILE [DESCRIPTION]",
        "Stop recording and write the trace; the description is not stored",
        |command, words, option| {
            command.output = Some(words.needed(option, "FILE.etl")?.into());
            let _ = words.value();
            Ok(())
        },
    ),
    action(CANCEL, "cancel", "", "Stop recording, without a trace", |_, _, _| Ok(())),
    action(
        STATUS,
        "status",
        "[profiles] [collectors [details]]",
        "Show the recording: the names of its profiles, and buffers and providers of its sessions",
        |command, words, option| {
            while let Some(word) = words.value() {
                match word.to_ascii_lowercase().as_str() {
                    "profiles" => command.shown.profiles = true,
                    "collectors" => {}
                    "details" => command.shown.details = true,
                    _ => {
                        let known = STATUS_WORDS.join(", ");
                        return Err(words.wrong(option, format!("{word}: known words are {known}")));
                    }
                }
            }
            Ok(())
        },
    ),
    option(
        STATUS,
        "details",
        "",
        "As the word details behind -status",
        Effect::Flag(|command| command.shown.details = true),
    ),
    action(PROFILES, "profiles", "[FILE.wprp]", "List profiles", |command, words, _| {
        command.file = words.value().map(str::to_owned);
        Ok(())
    }),
    option(
        START,
        "filemode",
        "",
        "Write a file while recording; otherwise the newest events are kept in memory until -stop",
        Effect::Flag(|command| command.is_file_mode = true),
    ),
    option(
        START,
        "recordtempto",
        "FOLDER",
        "The folder of files until -stop",
        Effect::Text(|command, text| command.folder = Some(text.into())),
    ),
    option(
        STOP,
        "compress skippdbgen pdbtimeout",
        "",
        "Accepted; nothing changes",
        Effect::Nothing,
    ),
    refused("profiledetails", "look at the .wprp file; -profiles lists the profiles"),
    refused("marker markerflush", "write an event with a provider of your own"),
    refused("flush", "use -stop; etw session flush writes the buffers of a session"),
    refused("instancename", "there is one recording at a time; use etw session start for others"),
    refused("boottrace onoffscenario onoffresultspath", "only Windows records while it starts"),
    refused("setprofint profint profiles-sources resetprofint", "use etw xperf -setprofint"),
    refused("heaptracingconfig snapshotconfig singlesnapshot", "only Windows has this"),
    refused("enableperiodicsnapshot disableperiodicsnapshot", "only Windows has this"),
    refused("disablepagingexecutive log merge capturestateondemand", "only Windows has this"),
];
