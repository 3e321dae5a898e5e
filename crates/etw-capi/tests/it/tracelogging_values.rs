//! The value that each TraceLogging macro stores, by the type of its argument.

use std::process::Command;

use crate::support::*;
use crate::tracelogging::read;

/// Variables of the program. `WIDE` is L"…" with 16 or 32 bits.
const VARIABLES: &str = r#"
    const signed char sc = -100; const unsigned char uc = 200; const short sh = -30000; const unsigned short us = 60000;
    const int in = -2000000000; const unsigned int un = 4000000000u; const long lo = -9000000000; const unsigned long ul = 18000000000000000000u;
    const long long ll = -9000000000; const unsigned long long ull = 18000000000000000000u; const size_t size = 5000000000;
    const LONG win_long = -7; const ULONG win_ulong = 7; const bool yes = 1; const BOOL win_yes = 1; const BOOLEAN yes8 = 1;
    const char ch = 'c'; const char16_t ch16 = u'\u00fc'; const wchar_t wch = L'\u20ac';
    const float f32 = 1.5f; const double f64 = -2.5;
    void *const pointer = (void *)0x1234; void *const pointers[2] = {(void *)0x10, (void *)0x20};
    const GUID guid = {7, 0, 0, {0}}; const GUID guids[2] = {{7, 0, 0, {0}}, {8, 0, 0, {0}}};
    const FILETIME ft = {0x01020304, 0x01d5e311}; const FILETIME fts[1] = {{0x01020304, 0x01d5e311}};
    const SYSTEMTIME st = {2026, 11, 6, 21, 1, 2, 3, 4}; const SYSTEMTIME sts[1] = {{2026, 11, 6, 21, 1, 2, 3, 4}};
    const uint8_t guid8[16] = {7}; const uint32_t ft32[2] = {0x01020304, 0x01d5e311};
    const uint16_t st16[8] = {2026, 11, 6, 21, 1, 2, 3, 4};
    const signed char scs[2] = {-1, 2}; const unsigned char ucs[2] = {200, 2}; const short shs[2] = {-1, 2};
    const unsigned short uss[2] = {60000, 2}; const int ins[2] = {-1, 2}; const unsigned int uns[2] = {4000000000u, 2};
    const long los[2] = {-9000000000, 2}; const unsigned long uls[2] = {18000000000000000000u, 2};
    const long long lls[2] = {-9000000000, 2}; const unsigned long long ulls[2] = {18000000000000000000u, 2};
    const LONG win_longs[2] = {-7, 2}; const ULONG win_ulongs[2] = {7, 2}; const size_t sizes[2] = {5000000000, 2};
    const bool bools[2] = {1, 0}; const BOOL win_bools[2] = {1, 0}; const BOOLEAN bools8[2] = {1, 0};
    const float f32s[2] = {1.5f, 2}; const double f64s[2] = {-2.5, 2};
    char text[6] = "a\xc3\xbc" "bc"; char16_t text16[5] = u"a\u00fcbc"; char32_t text32[5] = U"a\u00fcbc"; wchar_t wide[5] = L"a\u00fcbc";
    char *const no_text = NULL; wchar_t *const no_wide = NULL; char16_t *const no_text16 = NULL; char32_t *const no_text32 = NULL;
    static wchar_t long_wide[1001]; static char32_t long_text32[1001];
    static const unsigned char sid[12] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0}, data[4] = {0xaa, 0xbb, 0xcc, 0xdd};
    static const unsigned char ip6[16] = {0x20, 1, 13, 0xb8};
    const struct { USHORT Length, MaximumLength; const CHAR *Buffer; } ansi = {2, 3, "hi"}, no_ansi = {0, 0, NULL};
    const struct { USHORT Length, MaximumLength; const WCHAR *Buffer; } unicode = {4, 6, ETW_W("hi")}, no_unicode = {0, 0, NULL};
    const Buffered buffered = {2, data};
    for (int n = 0; n < 1000; n++)
        long_wide[n] = L'x', long_text32[n] = U'\U0001F600';
"#;

/// Uses in C and in C++, and the decoded event.
const VALUES: &[(&str, &str)] = &[
    ("Int8(sc)", "sc=-100"),
    ("UInt8(uc)", "uc=200"),
    ("Int16(sh)", "sh=-30000"),
    ("UInt16(us)", "us=60000"),
    ("Int32(in)", "in=-2000000000"),
    ("UInt32(un)", "un=4000000000"),
    ("Int64(lo)", "lo=-9000000000"),
    ("Int64(ll)", "ll=-9000000000"),
    ("UInt64(ul)", "ul=18000000000000000000"),
    ("UInt64(ull)", "ull=18000000000000000000"),
    ("UInt64(size)", "size=5000000000"),
    ("IntPtr(lo)", "lo=-9000000000"),
    ("UIntPtr(size)", "size=5000000000"),
    ("Long(lo)", "lo=-9000000000"),
    ("Long(win_long)", "win_long=-7"),
    ("Long(-5)", "-5=-5"),
    ("ULong(ul)", "ul=18000000000000000000"),
    ("ULong(win_ulong)", "win_ulong=7"),
    ("ULong(size)", "size=5000000000"),
    ("HexInt8(sc)", "sc=0x9c"),
    ("HexUInt8(uc)", "uc=0xc8"),
    ("HexInt16(sh)", "sh=0x8ad0"),
    ("HexUInt16(us)", "us=0xea60"),
    ("HexInt32(in)", "in=0x88ca6c00"),
    ("HexUInt32(un)", "un=0xee6b2800"),
    ("HexInt64(ll)", "ll=0xfffffffde78ee600"),
    ("HexUInt64(size)", "size=0x12a05f200"),
    ("HexIntPtr(lo)", "lo=0xfffffffde78ee600"),
    ("HexUIntPtr(size)", "size=0x12a05f200"),
    ("HexLong(lo)", "lo=0xfffffffde78ee600"),
    ("HexLong(win_long)", "win_long=0xfffffff9"),
    ("HexULong(ul)", "ul=0xf9ccd8a1c5080000"),
    ("HexULong(win_ulong)", "win_ulong=0x7"),
    ("Float32(f32)", "f32=1.5"),
    ("Float64(f64)", "f64=-2.5"),
    ("Boolean(yes)", "yes=true"),
    ("Boolean(yes8)", "yes8=true"),
    ("Bool(yes)", "yes=true"),
    ("Bool(win_yes)", "win_yes=true"),
    ("Char(ch)", "ch=c"),
    ("Char16(ch16)", "ch16=ü"),
    ("Char32(U'\\u00fc')", "U'\\u00fc'=ü"),
    ("Char32(U'\\U0001F600', \"c\")", "c=\u{fffd}"),
    ("WChar(wch)", "wch=€"),
    ("Pointer(pointer)", "pointer=0x1234"),
    ("Pointer(NULL)", "NULL=0x0"),
    ("CodePointer(pointer)", "pointer=0x1234"),
    ("Pid(un)", "un=4000000000"),
    ("Tid(7)", "7=7"),
    ("Port(0x5000)", "0x5000=80"),
    ("IPv4Address(0x0100007f)", "0x0100007f=127.0.0.1"),
    ("IPv4(0x0100007f)", "0x0100007f=127.0.0.1"),
    ("IPv6Address(ip6)", "ip6=2001:db8::"),
    ("IPv6(ip6)", "ip6=2001:db8::"),
    ("WinError(5)", "5=5(ERROR_ACCESS_DENIED)"),
    ("NTStatus(0xc0000005)", "0xc0000005=0xc0000005(STATUS_ACCESS_VIOLATION)"),
    ("HResult(0x80070005)", "0x80070005=0x80070005(E_ACCESSDENIED)"),
    ("Guid(guid)", "guid=00000007-0000-0000-0000-000000000000"),
    ("Guid(guid8)", "guid8=00000007-0000-0000-0000-000000000000"),
    ("FileTime(ft)", "ft=2020-02-14T08:30:24.8155908Z"),
    ("FileTimeUtc(ft)", "ft=2020-02-14T08:30:24.8155908Z"),
    ("FileTime(ft32)", "ft32=2020-02-14T08:30:24.8155908Z"),
    ("SystemTime(st)", "st=2026-11-21T01:02:03.0040000Z"),
    ("SystemTimeUtc(st)", "st=2026-11-21T01:02:03.0040000Z"),
    ("SystemTime(st16)", "st16=2026-11-21T01:02:03.0040000Z"),
    ("Sid(sid)", "sid=S-1-5-18"),
    ("Sid(NULL)", "NULL=S-1-0"),
    ("Binary(data, 2)", "data=aabb"),
    ("Binary(NULL, 0)", "NULL="),
    ("BinaryEx(ip6, 16, TlgOutIPV6)", "ip6=2001:db8::"),
    ("BinaryBuffer(&buffered, Buffered)", "&buffered=aabb"),
    // Texts.
    ("String(text)", "text=aübc"),
    ("String(NULL)", "NULL="),
    ("String(no_text)", "no_text="),
    ("Utf8String(text)", "text=aübc"),
    ("Utf8String(NULL)", "NULL="),
    ("WideString(wide)", "wide=aübc"),
    ("WideString(text16)", "text16=aübc"),
    ("WideString(NULL)", "NULL="),
    ("WideString(no_wide)", "no_wide="),
    ("String16(text16)", "text16=aübc"),
    ("String16(no_text16)", "no_text16="),
    ("String32(text32)", "text32=aübc"),
    ("String32(no_text32)", "no_text32="),
    ("String32(NULL)", "NULL="),
    ("CountedString(text, 3)", "text=aü"),
    ("CountedString(NULL, 0)", "NULL="),
    ("CountedUtf8String(text, 3)", "text=aü"),
    ("CountedUtf8String(NULL, 0)", "NULL="),
    ("CountedWideString(wide, 2)", "wide=aü"),
    ("CountedWideString(NULL, 0)", "NULL="),
    ("CountedWideString(no_wide, 0)", "no_wide="),
    ("CountedString16(text16, 2)", "text16=aü"),
    ("CountedString16(NULL, 0)", "NULL="),
    ("CountedString32(text32, 2)", "text32=aü"),
    ("CountedString32(no_text32, 0)", "no_text32="),
    ("AnsiString(&ansi)", "&ansi=hi"),
    ("AnsiString(&no_ansi)", "&no_ansi="),
    ("UnicodeString(&unicode)", "&unicode=hi"),
    ("UnicodeString(&no_unicode)", "&no_unicode="),
    // Arrays.
    ("Int8Array(scs, 2)", "scs[2] scs=-1 scs=2"),
    ("UInt8Array(ucs, 2)", "ucs[2] ucs=200 ucs=2"),
    ("Int16Array(shs, 2)", "shs[2] shs=-1 shs=2"),
    ("UInt16Array(uss, 2)", "uss[2] uss=60000 uss=2"),
    ("Int32Array(ins, 2)", "ins[2] ins=-1 ins=2"),
    ("UInt32Array(uns, 2)", "uns[2] uns=4000000000 uns=2"),
    ("Int64Array(los, 2)", "los[2] los=-9000000000 los=2"),
    ("Int64Array(lls, 2)", "lls[2] lls=-9000000000 lls=2"),
    ("UInt64Array(uls, 2)", "uls[2] uls=18000000000000000000 uls=2"),
    ("UInt64Array(ulls, 2)", "ulls[2] ulls=18000000000000000000 ulls=2"),
    ("UInt64Array(sizes, 2)", "sizes[2] sizes=5000000000 sizes=2"),
    ("IntPtrArray(los, 2)", "los[2] los=-9000000000 los=2"),
    ("UIntPtrArray(sizes, 2)", "sizes[2] sizes=5000000000 sizes=2"),
    ("LongArray(los, 2)", "los[2] los=-9000000000 los=2"),
    ("LongArray(win_longs, 2)", "win_longs[2] win_longs=-7 win_longs=2"),
    ("LongArray(NULL, 0)", "NULL[0]"),
    ("ULongArray(uls, 2)", "uls[2] uls=18000000000000000000 uls=2"),
    ("ULongArray(win_ulongs, 2)", "win_ulongs[2] win_ulongs=7 win_ulongs=2"),
    ("HexInt32Array(ins, 2)", "ins[2] ins=0xffffffff ins=0x2"),
    ("HexUInt64Array(ulls, 2)", "ulls[2] ulls=0xf9ccd8a1c5080000 ulls=0x2"),
    ("HexLongArray(los, 2)", "los[2] los=0xfffffffde78ee600 los=0x2"),
    ("HexULongArray(win_ulongs, 2)", "win_ulongs[2] win_ulongs=0x7 win_ulongs=0x2"),
    ("Float32Array(f32s, 2)", "f32s[2] f32s=1.5 f32s=2.0"),
    ("Float64Array(f64s, 2)", "f64s[2] f64s=-2.5 f64s=2.0"),
    ("BooleanArray(bools8, 2)", "bools8[2] bools8=true bools8=false"),
    ("BooleanArray(bools, 2)", "bools[2] bools=true bools=false"),
    ("BoolArray(win_bools, 2)", "win_bools[2] win_bools=true win_bools=false"),
    ("CharArray(\"ab\", 2, \"n\")", "n[2] n=a n=b"),
    ("WCharArray(wide, 3)", "wide[3] wide=a wide=ü wide=b"),
    ("WCharArray(NULL, 0)", "NULL[0]"),
    ("Char16Array(text16, 3)", "text16[3] text16=a text16=ü text16=b"),
    ("Char32Array(text32, 3)", "text32[3] text32=a text32=ü text32=b"),
    ("PointerArray(pointers, 2)", "pointers[2] pointers=0x10 pointers=0x20"),
    ("CodePointerArray(pointers, 2)", "pointers[2] pointers=0x10 pointers=0x20"),
    ("PidArray(ins, 2)", "ins[2] ins=4294967295 ins=2"),
    (
        "GuidArray(guids, 2)",
        "guids[2] guids=00000007-0000-0000-0000-000000000000 guids=00000008-0000-0000-0000-000000000000",
    ),
    ("GuidArray(guid8, 1)", "guid8[1] guid8=00000007-0000-0000-0000-000000000000"),
    ("FileTimeArray(fts, 1)", "fts[1] fts=2020-02-14T08:30:24.8155908Z"),
    ("FileTimeUtcArray(ft32, 1)", "ft32[1] ft32=2020-02-14T08:30:24.8155908Z"),
    ("SystemTimeArray(sts, 1)", "sts[1] sts=2026-11-21T01:02:03.0040000Z"),
    ("SystemTimeUtcArray(st16, 1)", "st16[1] st16=2026-11-21T01:02:03.0040000Z"),
    ("HResultArray(ins, 1)", "ins[1] ins=0xffffffff"),
    ("Int64FixedArray(lls, 2)", "lls[2] lls=-9000000000 lls=2"),
    ("LongFixedArray(los, 2)", "los[2] los=-9000000000 los=2"),
    ("ULongFixedArray(win_ulongs, 2)", "win_ulongs[2] win_ulongs=7 win_ulongs=2"),
    ("HexULongFixedArray(uls, 1)", "uls[1] uls=0xf9ccd8a1c5080000"),
    ("BooleanFixedArray(bools, 2)", "bools[2] bools=true bools=false"),
    ("CharFixedArray(text, 1)", "text[1] text=a"),
    ("WCharFixedArray(wide, 3)", "wide[3] wide=a wide=ü wide=b"),
    ("Char16FixedArray(text16, 3)", "text16[3] text16=a text16=ü text16=b"),
    ("Char32FixedArray(text32, 3)", "text32[3] text32=a text32=ü text32=b"),
    ("GuidFixedArray(guid8, 1)", "guid8[1] guid8=00000007-0000-0000-0000-000000000000"),
    ("PointerFixedArray(pointers, 2)", "pointers[2] pointers=0x10 pointers=0x20"),
    // Structures, options of fields, packed fields.
    (
        "Struct(2, \"s\"), TraceLoggingLong(lo), TraceLoggingString(text)",
        "s{ lo=-9000000000 text=aübc }",
    ),
    ("Int32(in, \"name\", \"described\", 0x1234)", "name=-2000000000"),
    ("PackedField(&un, 4, TlgInUINT32, \"n\")", "n=4000000000"),
    ("PackedFieldEx(&un, 4, TlgInUINT32, TlgOutHEX, \"n\")", "n=0xee6b2800"),
    ("PackedMetadata(TlgInINT64, \"n\"), TraceLoggingPackedData(&lo, 8)", "n=-9000000000"),
    ("PackedStruct(1, \"s\"), TraceLoggingInt32(in)", "s{ in=-2000000000 }"),
];

/// Uses in which `wchar_t` has 32 bits.
const OF_32_BITS: &[(&str, &str)] = &[
    ("WChar(L'\\U0001F600', \"c\")", "c=\u{fffd}"),
    ("WideString(L\"\\U0001F600\", \"w\")", "w=😀"),
    ("WCharArray(L\"a\\U0001F600\", 2, \"w\")", "w[2] w=a w=\u{fffd}"),
    ("CountedWideString(L\"\\U0001F600b\", 1, \"w\")", "w=😀"),
];

/// Uses of `TraceLoggingValue`.
const AUTOMATIC: &[(&str, &str)] = &[
    ("Value(sc)", "sc=-100"),
    ("Value(uc)", "uc=200"),
    ("Value(sh)", "sh=-30000"),
    ("Value(us)", "us=60000"),
    ("Value(in)", "in=-2000000000"),
    ("Value(un)", "un=4000000000"),
    ("Value(lo)", "lo=-9000000000"),
    ("Value(ul)", "ul=18000000000000000000"),
    ("Value(ll)", "ll=-9000000000"),
    ("Value(ull)", "ull=18000000000000000000"),
    ("Value(size)", "size=5000000000"),
    ("Value(yes)", "yes=true"),
    ("Value(f32)", "f32=1.5"),
    ("Value(f64)", "f64=-2.5"),
    ("Value(ch)", "ch=c"),
    ("Value(ch16)", "ch16=ü"),
    ("Value(U'\\u00fc', \"c\")", "c=ü"),
    ("Value(U'\\U0001F600', \"c\")", "c=\u{fffd}"),
    ("Value(wch)", "wch=€"),
    ("Value(pointer)", "pointer=0x1234"),
    ("Value(nullptr)", "nullptr=0x0"),
    ("Value(text)", "text=aübc"),
    ("Value((const char *)text, \"t\")", "t=aübc"),
    ("Value(no_text)", "no_text="),
    ("Value(text16)", "text16=aübc"),
    ("Value(no_text16)", "no_text16="),
    ("Value(text32)", "text32=aübc"),
    ("Value((const char32_t *)text32, \"t\")", "t=aübc"),
    ("Value(no_text32)", "no_text32="),
    ("Value(wide)", "wide=aübc"),
    ("Value(no_wide)", "no_wide="),
    ("Value(guid)", "guid=00000007-0000-0000-0000-000000000000"),
    ("Value(ft)", "ft=2020-02-14T08:30:24.8155908Z"),
    ("Value(st)", "st=2026-11-21T01:02:03.0040000Z"),
    ("Value((const _SID *)(const void *)sid, \"sid\")", "sid=S-1-5-18"),
    ("Value((int (*)(int))0x1234, \"f\")", "f=0x1234"),
];

/// Uses of C++20's `char8_t`.
const OF_CHAR8: &[(&str, &str)] = &[
    ("Value(u8\"a\\u00fc\", \"t\")", "t=aü"),
    ("Value(u8'a', \"c\")", "c=a"),
    ("Utf8String(u8\"a\\u00fc\", \"t\")", "t=aü"),
];

const COMPILERS: [Compiler; 9] = [
    Compiler("gcc", &["-std=c11", "-g", "-fsanitize=address,undefined"]),
    Compiler("gcc", &["-std=gnu2x", "-O2", "-fshort-wchar"]),
    Compiler("clang", &["-std=c11", "-O2", "-Wdeclaration-after-statement"]),
    Compiler("clang", &["-std=gnu2x", "-fshort-wchar"]),
    Compiler("g++", &["-std=c++11", "-O2", "-x", "c++"]),
    Compiler("g++", &["-std=c++20", "-fshort-wchar", "-x", "c++"]),
    Compiler("g++", &["-std=c++23", "-g", "-fsanitize=address,undefined", "-x", "c++"]),
    Compiler("clang++", &["-std=c++11", "-fshort-wchar", "-x", "c++"]),
    Compiler("clang++", &["-std=c++20", "-O2", "-x", "c++"]),
];

/// The uses that a compiler knows.
fn uses(compiler: Compiler) -> Vec<(&'static str, &'static str)> {
    let has = |flag| compiler.1.contains(&flag);
    let mut uses = VALUES.to_vec();
    if !has("-fshort-wchar") {
        uses.extend(OF_32_BITS);
    }
    if compiler.0.ends_with("++") {
        uses.extend(AUTOMATIC);
        if has("-std=c++20") || has("-std=c++23") {
            uses.extend(OF_CHAR8);
        }
    }
    uses
}

fn source(uses: &[(&str, &str)]) -> String {
    let writes: String = uses
        .iter()
        .map(|(call, _)| {
            format!("    TraceLoggingWrite(P, \"E\", TraceLoggingLevel(4), TraceLogging{call});\n")
        })
        .collect();
    format!(
        r#"
#pragma GCC diagnostic ignored "-Wunused-variable"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#endif
#include <TraceLoggingProvider.h>
#include <etw_session.h>
#include <stdbool.h>
#include <stdlib.h>
TRACELOGGING_DEFINE_PROVIDER(P, "P", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
typedef struct {{ USHORT Length; const unsigned char *Buffer; }} Buffered;
int main(void)
{{
    ETW_SESSION session;
{VARIABLES}
    if (TraceLoggingRegister(P) != 0 || TraceLoggingEventEnabled(P, "E")) return 1;
    if (etw_session_start("values", getenv("OUT"), &session) != 0) return 2;
    if (etw_session_enable(session, &TraceLoggingProviderId(P), 5, 0, 0) != 0) return 3;
    if (!TraceLoggingEventEnabled(P, "E")) return 4;
{writes}
    /* Long texts are converted outside of the stack, which a loop would use up otherwise. No session has this provider's events. */
    {{
        TRACELOGGING_DEFINE_PROVIDER_STORAGE(unregistered, "Q", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
        unregistered.LevelPlus1 = 256;
        for (int n = 0; n < 10000; n++)
            TraceLoggingWrite(&unregistered, "L", TraceLoggingWideString(long_wide), TraceLoggingWCharArray(long_wide, 600));
    }}
    TraceLoggingWrite(P, "E", TraceLoggingWideString(long_wide, "w"), TraceLoggingString32(long_text32, "t"),
                      TraceLoggingCountedString32(long_text32, 999, "c"), TraceLoggingWCharArray(long_wide, 600, "a"));
    TraceLoggingWriteActivity(P, "E", guid8, NULL);
    if (etw_session_stop(session, NULL) != 0) return 5;
    return (int)TraceLoggingUnregister(P);
}}
"#
    )
}

/// The decoded value is the argument's, for every macro, type, language and width of `wchar_t`.
#[test]
fn each_macro_stores_the_value_of_its_argument() {
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("values-{number}"));
        let path = folder.0.join("values.c");
        let uses = uses(compiler);
        std::fs::write(&path, source(&uses)).unwrap();
        let Some(program) = compile_file(&folder, &path, compiler) else { continue };
        let out = folder.0.join("values.etl");
        let output = Command::new(program).env("OUT", &out).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.is_empty(),
            "{compiler:?}: {:?} {said}",
            output.status
        );
        let events = read(&out);
        for ((call, expected), event) in uses.iter().zip(&events) {
            assert_eq!(event.fields.trim_end(), *expected, "{compiler:?}: TraceLogging{call}");
        }
        let [long, of_activity] = &events[uses.len()..] else { panic!("{} events", events.len()) };
        let expected = format!(
            "w={} t={} c={} a[600] {}",
            "x".repeat(1000),
            "😀".repeat(1000),
            "😀".repeat(999),
            "a=x ".repeat(600)
        );
        assert!(long.fields == expected, "{compiler:?}: {}", long.fields);
        assert_eq!(of_activity.ids.0, etw_types::Guid::from_u128(7 << 96));
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// Arguments that have no right value do not compile, or are a warning of the compiler.
#[test]
fn arguments_of_another_type_do_not_compile() {
    const MISTAKES: &[(&str, &str)] = &[
        ("Int32Array(los, 2)", "the elements of the array have another size"),
        ("Int32FixedArray(shs, 2)", "the elements of the array have another size"),
        ("UInt16Array(ucs, 2)", "the elements of the array have another size"),
        ("Int64Array(ins, 2)", "the elements of the array have another size"),
        ("BoolArray(bools, 2)", "the elements of the array have another size"),
        ("Float32Array(f64s, 2)", "the elements of the array have another size"),
        ("GuidArray(los, 1)", "the elements of the array have another size"),
        ("WideString(text)", "the text has to be one of WCHAR"),
        ("CountedWideString(text, 1)", "the text has to be one of WCHAR"),
        ("WCharArray(text, 1)", "the text has to be one of WCHAR"),
        ("Char16FixedArray(los, 1)", "the text has to be one of WCHAR"),
    ];
    const OF_C: &[(&str, &str)] = &[
        ("String(wide)", "the text has to be one of char"),
        ("Value(5)", "TraceLoggingValue needs C++"),
    ];
    for compiler in [
        Compiler("gcc", &["-std=c11"]),
        Compiler("clang", &["-std=c11"]),
        Compiler("g++", &["-std=c++17", "-x", "c++"]),
        Compiler("clang++", &["-std=c++17", "-x", "c++"]),
    ] {
        let is_c = !compiler.0.ends_with("++");
        for (call, expected) in MISTAKES.iter().chain(OF_C.iter().filter(|_| is_c)) {
            let folder = Folder::new(&format!("values-mistakes-{}", compiler.0));
            let path = folder.0.join("mistake.c");
            std::fs::write(&path, source(&[(call, "")])).unwrap();
            let Some(said) = try_compile_file(&folder, &path, compiler, 0) else { continue };
            assert!(said.contains(expected), "{compiler:?}: TraceLogging{call}: {said}");
        }
    }
}
