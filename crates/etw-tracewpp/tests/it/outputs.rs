//! Headers, options and users' own templates.

use etw_tracewpp::{Diagnostic, Options, Outputs, run};
use std::collections::HashMap;
use std::path::Path;

/// Runs the preprocessor on files in memory.
fn preprocess(words: &[&str], files: &[(&str, &str)]) -> Result<Outputs, Diagnostic> {
    let files: HashMap<&Path, &str> =
        files.iter().map(|(path, text)| (Path::new(*path), *text)).collect();
    let mut options = Options::default();
    for word in words {
        options.apply(word).unwrap();
    }
    run(&options, &|path| match files.get(path) {
        Some(text) => Ok(text.as_bytes().to_vec()),
        None => Err(std::io::ErrorKind::NotFound.into()),
    })
}

const SOURCE: &str = "void f(void) {\n  DoTraceMessage(Start, \"%d of %s\", n, g(a, b));\n}\n";

#[test]
fn a_header_has_the_names_of_windows() {
    let outputs = preprocess(&["-p:Shop", "-tmf:formats", "src/a-b.c"], &[("src/a-b.c", SOURCE)]);
    let outputs = outputs.unwrap();
    let header = &outputs.files[0];
    assert_eq!(header.path, Path::new("a-b.tmh"));
    let checksum = header.text.lines().next().unwrap().split(' ').nth(1).unwrap();
    assert!(checksum.len() == 32 && checksum.bytes().all(|byte| byte.is_ascii_hexdigit()));
    for line in [
        "#define WPP_THIS_FILE a_b_c",
        "#define WPP_CALL_a_b_c2(LEVEL, MSG, _a1, _a2) \\",
        "#define DoTraceMessage WPP_(CALL)",
        "WPP_INLINE void WPP_SF_ds(WPP_LOGGER_ARG unsigned short id, LPCGUID TraceGuid, signed int _a1, LPCSTR _a2)",
        "    WPP_TRACE(WPP_GET_LOGGER, WPP_TRACE_OPTIONS, TraceGuid, id, WPP_LOGTYPEVAL(signed int, _a1) WPP_LOGASTR(_a2) (void *)0);",
    ] {
        assert!(header.text.lines().any(|found| found == line), "{line}\n{}", header.text);
    }
    let formats = &outputs.files[1];
    let guid = formats.path.file_stem().unwrap().to_str().unwrap();
    // Windows' message GUIDs are of version 3.
    assert_eq!(guid.as_bytes()[14], b'3');
    let wanted = format!(
        "{guid} Shop // SRC=a-b.c MJ= MN=\n#typev a-b_c2 10 \"%0%10!d! of %11!s!\" //   LEVEL=Start FUNC=f\n{{\n\
         n, ItemLong -- 10\ng(a. b), ItemString -- 11\n}}\n"
    );
    assert_eq!(formats.text, wanted);
}

#[test]
fn the_message_guid_follows_the_messages_alone() {
    let guid = |source: &str| {
        let outputs = preprocess(&["-p:Shop", "-tmf:f", "a.c"], &[("a.c", source)]).unwrap();
        outputs.files[1].path.clone()
    };
    assert_eq!(guid(SOURCE), guid(&SOURCE.replace("g(a, b)", "h()")));
    assert_ne!(guid(SOURCE), guid(&SOURCE.replace("of", "from")));
    assert_ne!(guid(SOURCE), guid(&format!("\n{SOURCE}")));
}

#[test]
fn templates_of_users_run_with_our_parts() {
    let template = "`* mine *`\n`INCLUDE um-header.tpl`\n`FORALL m IN Messages`\n`m.Name` = `m.MsgNo``FORALL a IN m.Arguments` `a.Name`:`a.MofType`:`a.No``ENDFOR a`\n`ENDFOR`\n";
    let words = ["-cfgdir:mine", "-gen:{my.tpl}*.lst", "-preserveext:.c", "-odir:out", "a.c"];
    let files = [("mine/my.tpl", template), ("a.c", SOURCE)];
    let outputs = preprocess(&words, &files).unwrap();
    assert_eq!(outputs.files[0].path, Path::new("out/a.c.lst"));
    let text = &outputs.files[0].text;
    assert!(text.ends_with("a_c2 = 10 n:ItemLong:10 g(a. b):ItemString:11\n"), "{text}");
    assert!(text.contains("#define WPP_THIS_FILE a_c"));
}

/// The sets and fields that Microsoft's published templates (`simple.tpl`, `mof.tpl`) use besides those of its default ones.
#[test]
fn templates_list_functions_and_the_messages_of_a_guid() {
    let template = "`FORALL f IN Funcs`\n`f.Name`: WPP`f.GooId`_LOGGER(`f.GooArgs`) `f.GooVals`\n`ENDFOR`\n\
                    `FORALL Guid IN TraceGuids`\n`Guid.Comment`\n`FORALL Msg in Guid.Messages`\n\
                    #typev `Msg.Name` `Msg.MsgNo` \"`Msg.Text`\"\n`FORALL Arg IN Msg.Arguments`\n`Arg.Name`, `Arg.MofType`\n\
                    `ENDFOR Arg`\n`ENDFOR Msg`\n`ENDFOR Guid`\n";
    let words = ["-gen:{my.tpl}*.lst", "-func:Log{LEVEL=2}(FLAGS, MSG, ...)", "-p:Shop", "a.c"];
    let outputs = preprocess(&words, &[("my.tpl", template), ("a.c", SOURCE)]).unwrap();
    let wanted = "DoTraceMessage: WPP_LEVEL_LOGGER(LEVEL) LEVEL\n\
                  DoDebugTrace: WPP_TRACELEVEL_LOGGER(TRACELEVEL) TRACELEVEL\n\
                  Log: WPP_LEVEL_FLAGS_LOGGER(LEVEL, FLAGS) 2, FLAGS\n\
                  Shop // SRC=a.c MJ= MN=\n#typev a_c2 10 \"%0%10!d! of %11!s!\"\n\
                  n, ItemLong\ng(a. b), ItemString\n";
    assert_eq!(outputs.files[0].text, wanted);
}

#[test]
fn configurations_come_from_files_scanned_comments_and_options() {
    let ini =
        "INCLUDE(more.ini);\nNOPREFIX(A);\nTRACERANGE(100,200);\nSEPARATE_TRACE_GUID_PER_FILE(0);";
    let header = "// begin_wpp config\n// FUNC B{L=2}(F, MSG, ...);\n// WPP_FLAGS(-DX(a,b)=y(a,b), lookfor:HERE);\n// end_wpp\n";
    let files = [
        ("ini/a.ini", ini),
        ("ini/more.ini", "FUNC A(MSG, ...);"),
        ("t.h", header),
        ("a.c", "void f(void) { A(\"a\");\nB(Z, \"b %X\", 1); }"),
        (
            "b.c",
            "/* begin_wpp config\n FUNC D(MSG);\n end_wpp */\nvoid g(void) { C(1, (\"%5.2f\", 2.)); \nD(\"d\"); }",
        ),
    ];
    let words =
        ["-ini:ini/a.ini", "-scan:t.h", "-func:C(L,(MSG,...))", "-p:P", "-tmf:o", "a.c", "b.c"];
    let outputs = preprocess(&words, &files).unwrap();
    let formats = &outputs.files[2].text;
    assert_eq!(outputs.files.len(), 3);
    for line in [
        "#typev a_c1 100 \"a\" //   FUNC=f",
        "#typev a_c2 101 \"%0b %10!X!\" //   L=2 F=Z FUNC=f",
        "#typev b_c4 102 \"%0%10!5.2s!\" //   L=1 FUNC=g",
        "#typev b_c5 103 \"%0d\" //   FUNC=g",
    ] {
        assert!(formats.lines().any(|found| found == line), "{line}\n{formats}");
    }
    assert!(outputs.files[0].text.contains("#define X(a,b) y(a,b)"));
}

#[test]
fn control_guids_become_a_tmc_file() {
    let header = "#define WPP_CONTROL_GUIDS \\\n WPP_DEFINE_CONTROL_GUID(Shop, (C1A551D0,1111,2222,3333,010203040506), \\\n  WPP_DEFINE_BIT(One) WPP_DEFINE_BIT(Two))\n";
    let files = [("t.h", header), ("a.c", SOURCE)];
    let outputs = preprocess(&["-scan:t.h", "-tmf:o", "a.c"], &files).unwrap();
    let control = &outputs.files[2];
    assert_eq!(control.path, Path::new("o/c1a551d0-1111-2222-3333-010203040506.tmc"));
    assert_eq!(control.text, "c1a551d0-1111-2222-3333-010203040506 Shop\nOne\nTwo\n");
}

#[test]
fn a_guid_of_the_command_line_has_a_tmc_file() {
    let words = ["-ctl:{C1A551D0-1111-2222-3333-010203040506}", "-tmf:o", "a.c"];
    let outputs = preprocess(&words, &[("a.c", SOURCE)]).unwrap();
    let text = "c1a551d0-1111-2222-3333-010203040506 Default\nError\nUnusual\nNoise\n";
    assert_eq!(outputs.files[2].text, text);
    assert!(outputs.files[0].text.contains("WPP_DEFAULT_CONTROL_GUID C1A551D0,1111,2222,3333,"));
}

#[test]
fn public_formats_name_no_file_and_no_expression() {
    let header = "// begin_wpp config\n// FUNC Open(MSG, ...);\n// PUBLIC_FILTER(Open, EVERYBODY);\n// end_wpp\n";
    let source = "void f(void) {\n Open(\"%d of it\", secret);\n DoTraceMessage(A, \"mine\"); }";
    let files = [("t.h", header), ("a.c", source)];
    let outputs = preprocess(&["-scan:t.h", "-p:P", "-tmf:o", "a.c"], &files).unwrap();
    let text = &outputs.files[0].text;
    let (before, public) = text.split_once("#ifdef WPP_PUBLIC_EVERYBODY\n").unwrap();
    let (public, private) = public.split_once("#else\n").unwrap();
    assert!(before.contains("a_c3 11 \\\"%0mine\\\""), "{before}");
    assert!(public.contains("SRC=Unknown_cxx00") && public.contains("Arg, ItemLong -- 10"));
    assert!(!public.contains("a_c") && !public.contains("secret") && !public.contains("FUNC="));
    assert!(private.contains("a_c2 10 \\\"%0%10!d! of it") && private.contains("secret, ItemLong"));
    // The file has all.
    assert!(outputs.files[1].text.contains("secret, ItemLong -- 10\n}\n#typev a_c3 11"));
}

#[test]
fn prefixes_show_expressions_and_drop_blanks_at_their_end() {
    let ini = "FUNC At(MSG, ...);\nUSEPREFIX (At, \"%!STDPREFIX![%s:%u]:  \", __FILE__, __LINE__);\nUSESUFFIX(At, \" %d\", last);";
    let files = [("x.ini", ini), ("a.c", "void f(void) { At(\"100%%\"); }")];
    let outputs = preprocess(&["-ini:x.ini", "-p:P", "-tmf:o", "a.c"], &files).unwrap();
    let lines: Vec<&str> = outputs.files[1].text.lines().skip(1).collect();
    let wanted = [
        "#typev a_c1 10 \"%0[%10!s!:%11!u!]:100%% %12!d!\" //   FUNC=f",
        "{",
        "__FILE__, ItemString -- 10",
        "__LINE__, ItemLong -- 11",
        "last, ItemLong -- 12",
        "}",
    ];
    assert_eq!(lines, wanted);
}

#[test]
fn types_need_no_exclamation_marks_if_an_option_says_so() {
    let source =
        "void f(void) { DoTraceMessage(A, \"%STATUS %!STATUS! %d%SINT %dx\", a, b, c, d, e); }";
    let words = ["-noshrieks", "-argbase:20", "-p:P", "-tmf:o", "a.c"];
    let outputs = preprocess(&words, &[("a.c", source)]).unwrap();
    let text = "\"%0%20!s! %21!s! %22!d!%23!d! %24!d!x\"";
    assert!(outputs.files[1].text.contains(text), "{}", outputs.files[1].text);
}

#[test]
fn errors_name_file_and_line() {
    let call = |text: &str| format!("\n\nvoid f(void) {{ {text} }}");
    for (words, file, text, line, what) in [
        (&["a.c"][..], "a.c", call("DoTraceMessage(A, \"%d\");"), 3, "fewer values"),
        (&["a.c"], "a.c", call("DoTraceMessage(A, \"a\", 1);"), 3, "none for \"1\""),
        (&["a.c"], "a.c", call("DoTraceMessage(A, \"%!NONE!\", 1);"), 3, "no type %!NONE!"),
        (&["a.c"], "a.c", call("DoTraceMessage(A, \"100 % sure\");"), 3, "fewer values"),
        (&["a.c"], "a.c", call("DoTraceMessage(A, \"%y\", 1);"), 3, "not a conversion"),
        (&["-ini:x.ini", "a.c"], "x.ini", "\nFUNC(".into(), 2, "never closed"),
        (
            &["-scan:t.h", "a.c"],
            "t.h",
            "// begin_wpp config\n// INCLUDE(no.ini);\n".into(),
            2,
            "no folder",
        ),
        (&["-gen:{x.tpl}*.h", "a.c"], "command line", "`IF`".into(), 0, "x.tpl"),
        (&["none.c"], "none.c", String::new(), 0, "cannot be read"),
        (&[], "command line", String::new(), 0, "no source"),
    ] {
        let mut files = vec![("a.c", SOURCE), ("x.tpl", text.as_str())];
        files.push((file, text.as_str()));
        if file == "none.c" {
            files.pop();
        }
        let error = preprocess(words, &files).unwrap_err();
        assert_eq!((error.file.as_str(), error.line), (file, line), "{error}");
        assert!(error.message.contains(what), "{error}");
    }
}

#[test]
fn two_sources_cannot_make_one_header() {
    let files = [("a/x.c", SOURCE), ("b/x.c", SOURCE)];
    let error = preprocess(&["a/x.c", "b/x.c"], &files).unwrap_err();
    assert!(error.message.contains("another source makes x.tmh"), "{error}");
}
