//! Every macro that Microsoft documents for `TraceLoggingProvider.h` and `TraceLoggingActivity.h` compiles in C and in C++.

use crate::support::*;

/// Macros of one value, and the expression that a program passes. `+` marks those that have forms for arrays.
const SCALARS: &str = "+Int8:i8 +UInt8:u8 +Int16:i16 +UInt16:u16 +Int32:i32 +UInt32:u32 +Int64:i64 +UInt64:u64 \
    +IntPtr:ip +UIntPtr:up +Long:i32 +ULong:u32 +HexInt8:i8 +HexUInt8:u8 +HexInt16:i16 +HexUInt16:u16 +HexInt32:i32 \
    +HexUInt32:u32 +HexInt64:i64 +HexUInt64:u64 +HexIntPtr:ip +HexUIntPtr:up +HexLong:i32 +HexULong:u32 +Float32:f32 \
    +Float64:f64 +Boolean:boolean +Bool:flag +Char:ch +Char16:ch16 +WChar:wch +Pointer:pointer +CodePointer:pointer \
    Pid:u32 Tid:u32 IPv4Address:u32 Port:u16 WinError:u32 NTStatus:i32 HResult:i32 +FileTime:ft +FileTimeUtc:ft \
    +SystemTime:st +SystemTimeUtc:st +Guid:guid";

/// Macros with parameters of their own.
const FIELDS: &[&str] = &[
    "String(text",
    "Utf8String(text",
    "String16(text16",
    "WideString(wide",
    "CountedString(text, 2",
    "CountedUtf8String(text, 2",
    "CountedString16(text16, 2",
    "CountedWideString(wide, 2",
    "AnsiString(&ansi",
    "UnicodeString(&unicode",
    "Sid(sid",
    "IPv6Address(bytes",
    "SocketAddress(bytes, 16",
    "Binary(bytes, 4",
    "BinaryEx(bytes, 4, TlgOutSTRING",
    "BinaryBuffer(&buffer, Buffered",
    "BinaryBufferEx(&buffer, Buffered, TlgOutIPV6",
    "Custom(bytes, 4, 5, (1, 2), 2",
    "PackedField(bytes, 4, TlgInUINT32",
    "PackedFieldEx(bytes, 4, TlgInUINT32, TlgOutPID",
];

/// Arguments as they are.
const OTHERS: &[&str] = &[
    "Level(4)",
    "Keyword(1)",
    "Opcode(1)",
    "Channel(11)",
    "EventTag(7)",
    "Description(\"d\")",
    "CustomAttribute(\"k\", \"v\")",
    "Struct(1, \"s\"), TraceLoggingInt32(i32)",
    "Struct(1, \"s\", \"d\", 1), TraceLoggingInt32(i32)",
    "PackedMetadata(TlgInUINT32, \"n\"), TraceLoggingPackedData(bytes, 4)",
    "PackedMetadata(TlgInUINT32 | TlgInVcount, \"n\", \"d\", 1), TraceLoggingPackedDataEx(bytes, 4, 0)",
    "PackedMetadataEx(TlgInUINT32, TlgOutHEX, \"n\"), TraceLoggingPackedData(bytes, 4)",
    "PackedStruct(1, \"n\"), TraceLoggingInt32(i32)",
    "PackedStructArray(1, \"n\"), TraceLoggingPackedData(bytes, 2), TraceLoggingPackedMetadata(TlgInUINT8, \"m\")",
];

const START: &str = r#"
#include <TraceLoggingProvider.h>
TRACELOGGING_DECLARE_PROVIDER(P);
TRACELOGGING_DEFINE_PROVIDER(P, "P", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
    TraceLoggingOptionGroup(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
typedef struct { unsigned short Length; const unsigned char *Buffer; } Buffered;
int main(void)
{
    INT8 i8 = 0; UINT8 u8 = 0; INT16 i16 = 0; UINT16 u16 = 0; INT32 i32 = 0; UINT32 u32 = 0; INT64 i64 = 0; UINT64 u64 = 0;
    INT_PTR ip = 0; UINT_PTR up = 0; float f32 = 0; double f64 = 0; BOOLEAN boolean = 0; BOOL flag = 0;
    char ch = 'a'; char16_t ch16 = u'a'; WCHAR wch = 97; void *pointer = NULL;
    FILETIME ft = {0, 0}; SYSTEMTIME st; GUID guid = {1, 2, 3, {4}};
    const char *text = "ab"; const char16_t *text16 = u"ab"; const wchar_t *wide = L"ab";
    static const unsigned char bytes[16] = {2}, sid[12] = {1, 1};
    struct { USHORT Length, MaximumLength; CHAR *Buffer; } ansi = {0, 0, NULL};
    struct { USHORT Length, MaximumLength; WCHAR *Buffer; } unicode = {0, 0, NULL};
    const Buffered buffer = {4, bytes};
    memset(&st, 0, sizeof st);
    TRACELOGGING_DEFINE_PROVIDER_STORAGE(storage, "Q", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
    if (TraceLoggingRegister(P) != 0 || TraceLoggingRegisterEx(&storage, NULL, NULL) != 0) return 1;
    if (TraceLoggingProviderEnabled(P, 0, 0)) return 2;
    guid = TraceLoggingProviderId(P);
    TraceLoggingWriteActivity(P, "E", &guid, NULL, TraceLoggingLevel(4));
    TraceLoggingWriteEx(P, "E", 0, 0, NULL, NULL);
"#;

const END: &str =
    "    TraceLoggingUnregister(&storage);\n    TraceLoggingUnregister(P);\n    return 0;\n}\n";

/// The program: each field macro without and with its optional parameters.
fn source() -> String {
    let mut uses = Vec::new();
    let mut field = |call: String| {
        for optional in ["", ", \"n\", \"d\", 1"] {
            uses.push(format!("{call}{optional})"));
        }
    };
    for scalar in SCALARS.split_whitespace() {
        let (name, value) = scalar.trim_start_matches('+').split_once(':').unwrap();
        field(format!("{name}({value}"));
        if scalar.starts_with('+') {
            field(format!("{name}Array(&{value}, 1"));
            field(format!("{name}FixedArray(&{value}, 1"));
        }
    }
    FIELDS.iter().for_each(|call| field((*call).to_owned()));
    uses.extend(OTHERS.iter().map(|call| (*call).to_owned()));
    let lines =
        uses.iter().map(|call| format!("    TraceLoggingWrite(P, \"E\", TraceLogging{call});\n"));
    format!("{START}{}{END}", lines.collect::<String>())
}

#[test]
fn every_macro_of_microsofts_documentation_compiles() {
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        // Sanitizers and optimisation make each use expensive, and find nothing in a program that is enabled nowhere.
        if compiler.1.iter().any(|flag| flag.contains("sanitize") || *flag == "-O2") {
            continue;
        }
        let folder = Folder::new(&format!("macros-{number}"));
        let path = folder.0.join("macros.c");
        std::fs::write(&path, source()).unwrap();
        let Some(program) = compile_file(&folder, &path, compiler) else { continue };
        assert!(run(&program, compiler).status().unwrap().success(), "{compiler:?}");
    }
}

/// A misspelt macro and a missing comma are one error, which names them.
#[test]
fn a_misspelt_argument_is_one_error_that_names_it() {
    const SOURCE: &str = "#include <TraceLoggingProvider.h>\n\
        TRACELOGGING_DEFINE_PROVIDER(P, \"P\", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));\n\
        void f(int n) { TraceLoggingWrite(P, \"E\", TraceLoggingLevel(4), ARGUMENTS); }\n";
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        if compiler.1.iter().any(|flag| flag.contains("sanitize") || *flag == "-O2") {
            continue;
        }
        let folder = Folder::new(&format!("misspelt-{number}"));
        let path = folder.0.join("misspelt.c");
        let errors = |arguments: &str| {
            std::fs::write(&path, SOURCE.replace("ARGUMENTS", arguments)).unwrap();
            let mut command = std::process::Command::new(compiler.0);
            command.args(compiler.1).arg("-fsyntax-only").arg("-I").arg(home().join("include"));
            let output = command.arg(&path).output().ok()?;
            let text = String::from_utf8(output.stderr).unwrap();
            Some(text.lines().filter(|line| line.contains("error:")).map(str::to_owned).collect())
        };
        let Some(none): Option<Vec<String>> = errors("TraceLoggingInt32(n, \"n\")") else {
            eprintln!("skipped: {} is not installed", compiler.0);
            continue;
        };
        assert!(none.is_empty(), "{compiler:?}: {none:?}");
        for (arguments, named) in [
            ("TraceLogginInt32(n, \"n\")", "TraceLogginInt32(n"),
            ("TraceLoggingInt32(n) TraceLoggingInt32(n)", "a comma is missing"),
            ("", "a name is misspelt"),
        ] {
            let errors = errors(arguments).unwrap();
            assert_eq!(errors.len(), 1, "{compiler:?}: {arguments}: {errors:?}");
            assert!(errors[0].contains("TraceLoggingWrite: a name is misspelt"), "{errors:?}");
            assert!(errors[0].contains(named), "{compiler:?}: {errors:?}");
        }
    }
}

/// The macros for activities are C++ alone, as Microsoft's are.
#[test]
fn every_activity_macro_of_microsofts_documentation_compiles() {
    const SOURCE: &str = r#"
#include <TraceLoggingActivity.h>
TRACELOGGING_DEFINE_PROVIDER(P, "P", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
static void traced() { TraceLoggingFunction(P); }
int main()
{
    TraceLoggingActivity<P, 1, 4> activity;
    TraceLoggingWriteStart(activity, "A", TraceLoggingInt32(1, "n"));
    TraceLoggingWriteTagged(activity, "B");
    TraceLoggingThreadActivity<P> inner;
    TraceLoggingWriteStart(inner, "C");
    TraceLoggingWriteStop(inner, "C");
    TraceLoggingWriteStop(activity, "A");
    TraceLoggingWrite(P, "D", TraceLoggingValue(1), TraceLoggingValue("x", "y"), TraceLoggingValue(L"x", "y", "d", 1));
    traced();
}
"#;
    for name in ["g++", "clang++"] {
        let folder = Folder::new(&format!("activity-macros-{name}"));
        let path = folder.0.join("macros.cpp");
        std::fs::write(&path, SOURCE).unwrap();
        let compiler = Compiler(name, &["-std=c++17"]);
        let Some(program) = compile_file(&folder, &path, compiler) else { continue };
        assert!(run(&program, compiler).status().unwrap().success(), "{name}");
    }
}

/// Programs of Microsoft's TraceLogging for LTTng find the header under its path there, with its functions for activity ids.
#[test]
fn programs_of_tracelogging_for_lttng_compile() {
    const SOURCE: &str = r#"
#include <tracelogging/TraceLoggingProvider.h>
TRACELOGGING_DEFINE_PROVIDER(P, "P", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
int main(void)
{
    const bool yes = true;
    const char16_t *text = u"x";
    unsigned char before[16], id[16], now[16];
    lttngh_ActivityIdGet(before);
    lttngh_ActivityIdCreate(id);
    lttngh_ActivityIdGet(now);
    if (memcmp(now, before, 16) != 0 || memcmp(id, before, 16) == 0)
        return 1;
    lttngh_ActivityIdSet(id);
    lttngh_ActivityIdGet(now);
    TraceLoggingWriteActivity(P, "E", id, NULL, TraceLoggingBoolean(yes), TraceLoggingString16(text));
    return memcmp(now, id, 16) != 0;
}
"#;
    const C: &[&str] = &["-std=gnu11"];
    const CPP: &[&str] = &["-std=c++17"];
    for (name, flags, file) in [
        ("gcc", C, "lttng.c"),
        ("clang", C, "lttng.c"),
        ("g++", CPP, "lttng.cpp"),
        ("clang++", CPP, "lttng.cpp"),
    ] {
        let folder = Folder::new(&format!("lttng-macros-{name}"));
        let path = folder.0.join(file);
        std::fs::write(&path, SOURCE).unwrap();
        let compiler = Compiler(name, flags);
        let Some(program) = compile_file(&folder, &path, compiler) else { continue };
        assert!(run(&program, compiler).status().unwrap().success(), "{name}");
    }
}
