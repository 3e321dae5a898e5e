//! A manifest of many events, for tests and for `cargo xtask bench --only providers`.

use std::fmt::Write;

/// A manifest of so many events, each with a template, a task and messages of its own.
pub fn large(events: usize) -> String {
    let (mut tasks, mut templates, mut list, mut strings) =
        (String::new(), String::new(), String::new(), String::new());
    for number in 1..=events {
        let _ = writeln!(tasks, "<task name=\"Task{number}\" value=\"{number}\"/>");
        let _ = writeln!(
            templates,
            "<template tid=\"Template{number}\"><data name=\"Count{number}\" inType=\"win:UInt32\"/>\
             <data name=\"Text\" inType=\"win:UnicodeString\"/></template>"
        );
        let _ = writeln!(
            list,
            "<event value=\"{number}\" symbol=\"Event{number}\" level=\"win:Informational\" task=\"Task{number}\" \
             template=\"Template{number}\" message=\"$(string.m{number})\"/>"
        );
        let _ = writeln!(strings, "<string id=\"m{number}\" value=\"Message {number}: %1 %2\"/>");
    }
    format!(
        "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\" \
         xmlns:win=\"http://manifests.microsoft.com/win/2004/08/windows/events\"><instrumentation><events>\
         <provider name=\"Large\" guid=\"{{00000001-0002-0003-0004-000000000005}}\" symbol=\"LARGE\" \
         resourceFileName=\"a\" messageFileName=\"a\"><tasks>{tasks}</tasks><templates>{templates}</templates>\
         <events>{list}</events></provider></events></instrumentation><localization><resources culture=\"en-US\">\
         <stringTable>{strings}</stringTable></resources></localization></instrumentationManifest>"
    )
}
