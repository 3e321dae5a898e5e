//! The fuzz target's corpus, replayed.

#[path = "../../../../fuzz/src/replay.rs"]
mod replaying;
#[path = "../../../../fuzz/src/tracewpp.rs"]
mod targets;

const CONFIGURATION: &str = "FUNC Log{LEVEL=2}(FLAGS, MSG, ...);\nFUNC D((MSG,...)); FUNC M(L,(MSG,...));\n\
    USESUFFIX(Log, \" %!STATUS!\", FLAGS);\nCUSTOM_TYPE(X, ItemListLong(a,b=5));\nWPP_FLAGS(-DA(b)=c, reorder);\n";
const SOURCE: &str = "// begin_wpp config\n// FUNC Own(MSG, ...);\n// end_wpp\n#define WPP_CONTROL_GUIDS WPP_DEFINE_CONTROL_GUID(N, \
    (c1a551d0,1111,2222,3333,010203040506), WPP_DEFINE_BIT(B))\n#define TWO(x) Own(\"%d\", x)\nnamespace n { struct S { S() : a{1} {\n\
    Log(F, \"a %5.2f\" R\"(b %X)\", 1.0, (2, 3)); } }; }\nvoid f() {\nD((\"%!X! %%\", 5));\nM(1, (\"%s\",\n \"x\"));\nTWO(\n1);\nWPP_INIT_TRACING(L\"x\"); }\n";
const TEMPLATE: &str = "`* c *`\n`INCLUDE um-header.tpl`\n`FORALL m IN Messages WHERE !MsgArgs && !NoMsg`\n`m.Name``FORALL a IN m.Arguments`, \
    `a.No` `ENDFOR`\n`ENDFOR`\n`IF FOUND WPP_INIT_TRACING`\n`ENV HOME_OF_NOTHING`\n`ENDIF`\n";

/// P5
#[test]
fn configurations_sources_and_templates_of_any_text_are_processed_or_rejected() {
    let all = [CONFIGURATION, SOURCE, TEMPLATE].join("\0").into_bytes();
    let seeds = [
        ("all", all),
        ("source", format!("\0{SOURCE}").into_bytes()),
        ("call", b"\0F(a, \"%d\", 1);\nDoTraceMessage(A, \"%!STATUS! %s\", 1, x);".to_vec()),
    ];
    replaying::replay("wpp_source", &seeds, 600, targets::wpp_source);
}
