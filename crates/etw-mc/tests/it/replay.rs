//! The fuzz target's corpus, replayed.

#[path = "../../../../fuzz/src/replay.rs"]
mod replaying;
#[path = "../../../../fuzz/src/mc.rs"]
mod targets;

/// P5
#[test]
fn manifests_of_any_text_are_compiled_or_rejected() {
    let seeds = [("all_types", include_bytes!("all_types.man").to_vec())];
    replaying::replay("mc_manifest", &seeds, 400, targets::mc_manifest);
}
