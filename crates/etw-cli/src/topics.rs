//! `etw help TOPIC`: pages about what several commands have in common.

use crate::column::HEADER_COLUMNS;
use crate::output::{Failure, Outcome, print_paged};
use crate::where_filter;

/// Names of topics, and what each is about.
const TOPICS: &[(&str, &str)] = &[
    ("expressions", "the language of --where (also: etw help where)"),
    ("columns", "names for --columns, --by and --sum"),
    ("providers", "how -p names providers, levels and keywords"),
    #[cfg(any(target_os = "linux", windows))]
    ("system", "words for --system: events of the system, alone and in groups"),
    #[cfg(any(target_os = "linux", windows))]
    ("stack", "words for --stack: events with call stacks"),
    ("environment", "variables that the command reads"),
    ("exit-status", "what the numbers mean"),
];

const PROVIDERS: &str = "\
Providers on the command line: PROVIDER[:LEVEL[:ANY[:ALL]]]

PROVIDER  a GUID; a name; *Name, the GUID that a name hashes to (TraceLogging, EventSource)
          A name is looked up in schemas (--manifest, --pack, etw pack) and among the providers of
          Windows and .NET. If it is in none, the host keeps it, and enables every provider that a
          program registers under it, now or later.
LEVEL     0 to 255, or critical error warning informational verbose; default: verbose
ANY, ALL  keyword masks in hex, or names of keywords where the schema is known: Sales,Net
          An event passes if it has no keyword, or one bit of ANY (0: any) and all bits of ALL.

Examples
  etw record -o shop.etl -p Shop -- ./shop
  etw session start web -o web.etl -p '*Web:warning' -p 'Shop:verbose:Sales,Net' --manifest shop.man
";

const ENVIRONMENT: &str = "\
Environment variables

ETW_RUNTIME_DIR  directory of the host of sessions, for programs and for this command
ETW_DIAGNOSE=1   programs report on stderr why their events arrive or do not arrive
ETW_LISTENER=off programs do not wait for a host that does not run
ETW_SYSTEM_UNWIND=0
                 call stacks of the system's events follow frame pointers only
ETW_SYSTEM_BPF=0 the system's events are recorded without BPF programs
ETW_PACKS        schema packs that are used without being named
ETW_MACHINE_PACKS
                 folder of the packs for all users
XDG_DATA_HOME    base of the user's packs: .../etw/packs
XDG_CONFIG_HOME  etw daemon: base of openetw/sessions.json
LISTEN_FDS, LISTEN_PID
                 etw daemon: the socket of a service manager
TRACE_FORMAT_SEARCH_PATH
                 folders of TMF files
TRACE_FORMAT_PREFIX
                 etw tracefmt: the prefix of a message
DEBUGINFOD_URLS  servers of debug files, for names of functions
DEBUGINFOD_TIMEOUT
                 seconds after which a server that sends less than 100 KiB is given up: 90
DEBUGINFOD_MAXTIME, DEBUGINFOD_MAXSIZE
                 seconds and bytes that a file of such a server may take: no limit
DEBUGINFOD_CACHE_PATH, XDG_CACHE_HOME
                 where debuginfod-find keeps files
NO_COLOR         no colours on terminals (see --color)
PAGER            the program that shows long output on terminals; empty or cat: none (see --no-pager)
";

const EXIT_STATUS: &str = "\
Exit status

0    done
1    done, but bytes were damaged, or this run itself lost something; etw doctor: something is wrong
2    wrong usage
3    could not do it
etw record -- COMMAND ends with the command's own status, 128 + N after signal N, and with 125 to 127
if the recording or the start of the command failed; with 2 if its own options are wrong.
";

/// The list of topics, for the end of `etw help`.
pub fn list() -> String {
    let mut text = "Topics (etw help TOPIC):\n".to_owned();
    for (name, about) in TOPICS {
        text += &format!("  {name:<12} {about}\n");
    }
    text + "\netw FILE.etl prints a trace: it is short for etw dump FILE.etl"
}

/// Prints a topic; `None`: there is none of this name.
pub fn print(topic: &str) -> Option<Result<Outcome, Failure>> {
    Some(match topic {
        "where" | "expressions" => where_filter::help(),
        "columns" => print_paged(&columns()),
        "providers" => print_paged(PROVIDERS),
        #[cfg(any(target_os = "linux", windows))]
        "system" => print_paged(&system::classes()),
        #[cfg(any(target_os = "linux", windows))]
        "stack" => print_paged(&system::stacks()),
        "environment" => print_paged(ENVIRONMENT),
        "exit-status" => print_paged(EXIT_STATUS),
        "topics" => print_paged(&format!("{}\n", list())),
        _ => return None,
    })
}

/// The topic that a misspelt word may mean.
pub fn closest(topic: &str) -> Option<&'static str> {
    let names = TOPICS.iter().map(|(name, _)| *name).chain(["where", "topics"]);
    where_filter::closest(topic, names)
}

fn columns() -> String {
    let mut text = "Columns of every record\n".to_owned();
    for (name, about) in HEADER_COLUMNS {
        text += &format!("  {name:<20} {about}\n");
    }
    text += "\
Every other name is a field of the event, at any depth: Status; Process.Id, a member of a struct; Id#2, the
second of two fields of a name; fields.pid, a field with the name of a column.
Arrays and structs are shown whole. A field in an array of structs has the values of all of them.
In text, a value with control characters stands in quotes, with the escapes of JSON.
";
    text + "\nExample\n  etw dump t.etl --columns time,process,event,Status --relative\n"
}

#[cfg(any(target_os = "linux", windows))]
mod system {
    //! Events of the system, from the tables by which sessions are asked for them.

    use etw_system::flags::{ALIASES, Flag, GROUPS};
    use etw_system::stack_names::STACK_NAMES;

    pub fn classes() -> String {
        let mut text = "Words for --system, joined by commas or +, in any case\n\n".to_owned();
        text += "Classes, by logman's name and by xperf's flag\n";
        for flag in Flag::recorded() {
            text += &format!("  {:<18} {:<14} {}\n", flag.logman, flag.xperf, flag.description);
        }
        text += "\nGroups of xperf's flags, such as Latency (fileio is a class, FileIO a group)\n";
        for (name, members) in GROUPS {
            text += &format!("  {name:<18} {members}\n");
        }
        text += "\nShort words\n";
        for (alias, name) in ALIASES {
            text += &format!("  {alias:<18} {name}\n");
        }
        text + "\nAnd a number of EnableFlags. process, thread and img are always recorded.\n\
            \nExample\n  etw record -o t.etl --system profile,cswitch,fileio -- ./shop\n"
    }

    pub fn stacks() -> String {
        let mut text =
            "Words for --stack, joined by commas or +, in any case: events with call stacks, and\n\
            the class of --system that has them\n\n"
                .to_owned();
        for row in STACK_NAMES {
            text += &format!("  {:<20} {}\n", row.name, row.class.name());
        }
        text + "\nnone: no call stacks. Default: Profile and CSwitch, if they are recorded.\n\
            \nExample\n  etw record -o t.etl --system syscall --stack SyscallEnter -- ./shop\n"
    }
}

#[cfg(test)]
mod tests {
    /// Every word in the pages of the system's events is one that --system and --stack take.
    #[cfg(any(target_os = "linux", windows))]
    #[test]
    fn words_of_the_systems_events_are_those_that_are_taken() {
        let rows = |page: &str| -> Vec<String> {
            let rows = page.lines().filter_map(|line| line.strip_prefix("  "));
            let rows = rows.filter(|row| !row.starts_with("etw "));
            rows.filter_map(|row| Some(row.split_whitespace().next()?.to_owned())).collect()
        };
        let words = rows(&super::system::classes());
        for word in &words {
            assert!(etw_system::flags::Masks::parse_any(word).is_ok(), "{word}");
        }
        for word in ["profile", "syscall", "PRIORITY", "Latency", "DiagEasy", "loader"] {
            assert!(words.iter().any(|known| known == word), "{word}");
        }
        let stacks = rows(&super::system::stacks());
        assert_eq!(
            etw_system::stack_names::parse(&stacks.join(",")).unwrap().hooks.len(),
            stacks.len()
        );
        assert!(stacks.iter().any(|name| name == "SyscallEnter"));
    }

    /// The variables that the book lists for the command.
    #[test]
    fn every_variable_of_the_command_is_explained() {
        let book = include_str!("../../../docs/reference/environment.md");
        let rows = book.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
        let mut count = 0;
        for (names, rest) in rows {
            let readers = rest.split(" | ").next().unwrap();
            let is_ours = |reader: &str| readers.contains(reader);
            if ["`etw`", "`etw ", "decodes", "hosts", "the same"].into_iter().any(is_ours) {
                for name in names.split(", ") {
                    let name = name.trim_matches('`');
                    assert!(super::ENVIRONMENT.contains(name), "{name}");
                    count += 1;
                }
            }
        }
        assert!(count > 10, "{count}");
    }

    #[test]
    fn every_listed_topic_is_there() {
        let list = super::list();
        for (name, _) in super::TOPICS {
            assert!(list.contains(name) && super::print(name).is_some(), "{name}");
        }
        assert!(super::print("nothing").is_none());
        assert_eq!((super::closest("wher"), super::closest("dmp")), (Some("where"), None));
    }
}
