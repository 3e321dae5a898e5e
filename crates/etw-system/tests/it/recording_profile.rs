//! The seeds of the fuzz target for recording profiles, replayed on stable, and 400 mutants of them.
#![cfg(target_os = "linux")]

use crate::replay::replaying;

#[path = "../../../../fuzz/src/recording_profile.rs"]
mod target;

const FILE: &str = concat!(
    r#"<WindowsPerformanceRecorder Version="1.0"><Profiles>"#,
    r#"<SystemCollector Id="SC" Name="NT Kernel Logger"><BufferSize Value="512"/><Buffers Value="20"/></SystemCollector>"#,
    r#"<EventCollector Id="EC" Name="Events"/>"#,
    r#"<SystemProvider Id="SP"><Keywords><Keyword Value="CSwitch"/></Keywords><Keywords Operation="Add"><Keyword Value="Loader"/></Keywords><Stacks><Stack Value="CSwitch"/></Stacks></SystemProvider>"#,
    r#"<Profile Id="P.Light.File" Name="P" DetailLevel="Light" LoggingMode="File"><Collectors>"#,
    r#"<SystemCollectorId Value="SC"><SystemProviderId Value="SP"/></SystemCollectorId>"#,
    r#"<EventCollectorId Value="EC"><EventProviders><EventProvider Id="Q" Name="*A" Level="4"><Keywords><Keyword Value="0x1"/></Keywords><EventFilters FilterIn="true" Operation="Set"><EventId Value="1"/></EventFilters></EventProvider></EventProviders></EventCollectorId>"#,
    r#"</Collectors></Profile></Profiles></WindowsPerformanceRecorder>"#
);

#[test]
fn files_of_profiles_give_profiles_or_errors() {
    replaying::replay(
        "recording_profile",
        &[("profile", FILE.as_bytes().to_vec())],
        400,
        target::profiles,
    );
}
