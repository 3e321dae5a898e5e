//! The fuzz target's corpus, replayed.

#[path = "../../../../fuzz/src/replay.rs"]
mod replaying;
#[path = "../../../../fuzz/src/mc.rs"]
mod targets;

/// P5
#[test]
fn programs_with_schemas_are_read_or_rejected() {
    let manifest = etw_mc::Manifest::parse(include_bytes!("all_types.man")).unwrap();
    let object = etw_mc::elf::write(&manifest, etw_mc::elf::Machine::X86_64);
    replaying::replay("carried_schemas", &[("all_types.o", object)], 400, targets::carried_schemas);
}

/// P5
#[test]
fn manifests_of_any_text_are_compiled_or_rejected() {
    let seeds = [("all_types", include_bytes!("all_types.man").to_vec())];
    replaying::replay("mc_manifest", &seeds, 400, targets::mc_manifest);
}

/// P5
#[test]
fn message_texts_of_any_text_are_compiled_or_rejected() {
    let seeds = [("shop", include_bytes!("shop.mc").to_vec())];
    replaying::replay("mc_message_text", &seeds, 400, targets::mc_message_text);
}
