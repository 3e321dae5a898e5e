//! `wpr`: the forms of Microsoft's documentation.

use super::*;

/// A file of profiles with a provider of programs, so that it needs no rights.
fn profiles() -> String {
    let profile = |mode: &str| {
        format!(
            r#"<Profile Id="P.Verbose.{mode}" Name="P" DetailLevel="Verbose" LoggingMode="{mode}"><Collectors>
            <EventCollectorId Value="EC"><EventProviders><EventProviderId Value="EP"/></EventProviders></EventCollectorId>
            </Collectors></Profile>"#
        )
    };
    format!(
        r#"<WindowsPerformanceRecorder Version="1.0"><Profiles>
        <EventCollector Id="EC" Name="Events"><BufferSize Value="64"/><Buffers Value="8"/></EventCollector>
        <EventProvider Id="EP" Name="{NAME}" Level="4"><Keywords><Keyword Value="0x1"/></Keywords></EventProvider>
        {}{}</Profiles></WindowsPerformanceRecorder>"#,
        profile("Memory"),
        profile("File")
    )
}

/// OV-24: a recording in files and one in memory, each stopped into one trace.
#[test]
fn wpr_records_profiles() {
    let place = Place::new("wpr");
    std::fs::write(place.file("p.wprp"), profiles()).unwrap();
    assert!(place.does("wpr -profiles").starts_with("GeneralProfile.Verbose"));
    assert!(place.does("wpr -profiles p.wprp").starts_with("P.Verbose"));
    assert_eq!(place.does("wpr -status"), "WPR is not recording\n");
    place.ends(3, "wpr -stop none.etl");
    place.ends(3, "wpr -cancel");
    for (line, why) in [
        ("wpr -start Colour", "GeneralProfile.Light"),
        ("wpr -start p.wprp!Q", "P.Verbose"),
        ("wpr -start", "PROFILE"),
        ("wpr -marker x", "provider"),
        ("wpr", "-start"),
    ] {
        let output = place.etw(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{line}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{line}: {}", stderr(&output));
    }
    // It begins with the first session.
    let mut program = None;
    for (start, mode, output) in [
        ("wpr -start p.wprp!P -filemode -recordtempto .", "File", "file.etl"),
        ("wpr -start p.wprp", "Memory", "memory.etl"),
    ] {
        assert_eq!(place.does(start), "");
        place.ends(3, start);
        let status = place.does("wpr -status");
        assert!(status.contains(&format!("Logging mode   : {mode} ")), "{status}");
        program.get_or_insert_with(|| place.program()).writes(10);
        // A place where no trace can be written does not end the recording.
        place.ends(3, "wpr -stop .");
        place.ends(3, "wpr -stop missing/x.etl");
        assert_eq!(place.does("wpr -status"), status);
        place.does(&format!("wpr -stop {output} Some"));
        assert_eq!(place.counts(output)[0], 10, "{output}");
        assert_eq!(place.does("wpr -status"), "WPR is not recording\n");
    }
    place.does("wpr -start p.wprp -filemode -recordtempto .");
    place.does("wpr -cancel");
    program.into_iter().for_each(|program| program.ends());
    let left = std::fs::read_dir(place.file("p.wprp").parent().unwrap()).unwrap();
    let left = left.map(|one| one.unwrap().file_name().into_string().unwrap());
    let left: Vec<String> =
        left.filter(|one| one.contains("wpr-") || one.contains(".etl.")).collect();
    assert!(left.is_empty(), "{left:?}");
}
