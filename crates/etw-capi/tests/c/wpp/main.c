/*
 * Messages of every type and every form of call. The test compares the texts with the lines that this program prints: each is the text that
 * the message before it has to have. Compiled as C and as C++.
 */
#include <evntrace.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __cplusplus
extern "C" {
#endif
#include "trace.h"
#include "main.tmh"
#ifdef __cplusplus
}
#endif

#define SAY(...) (printf(__VA_ARGS__), putchar('\n'))
#define IF_SO(condition, call) \
    if (condition) {           \
        call;                  \
    }
#define EPOCH "01/01/1601-00:00:00.000"
#define SUM(a, b) ((a) + (b))
#define NOTE(text, number) Log(TRACE_LEVEL_INFORMATION, Stock, "note %s %d", text, number)

static int evaluated;
static int count(void) { return ++evaluated; }

static void forms(void)
{
    const char *text = "tea";
    DoTraceMessage(Orders, "plain");
    SAY("plain");
    DoTraceMessage(Orders, "two %d and %s: 100%%, \"quoted\" \\ tab\there, a?b", 2, text);
    SAY("two 2 and tea: 100%%, \"quoted\" \\ tab\there, a?b");
    Log(TRACE_LEVEL_ERROR, Stock,
        "several "
        "lines %d, %s" /* a comment, with a comma */,
        SUM(1, 2),
        text);
    SAY("several lines 3, tea");
    IF_SO(1,
          Log(TRACE_LEVEL_ERROR, Stock,
              "inside a macro %d",
              4)
    )
    SAY("inside a macro 4");
    Doubled((TRACE_LEVEL_ERROR, Stock, "doubled %u",
             5u));
    SAY("doubled 5");
    Inner(Stock, TRACE_LEVEL_ERROR,
          ("inner %s %d",
           "in", 6));
    SAY("inner in 6");
    NOTE("first", 1);
    SAY("note first 1");
    NOTE(
        "second",
        2);
    SAY("note second 2");
    LogError(Stock, "failed: %!STATUS!", (int)0xC0000022);
    SAY("ERROR in forms (main.c %d): failed: 0xc0000022(STATUS_ACCESS_DENIED)", __LINE__ - 1);
    Enter(Orders);
    SAY("-> forms");
    Leave(Orders, 0);
    SAY("<- forms = 0x00000000(STATUS_SUCCESS)");
    DoTraceMessage(Orders, "100%% of %d", 7);
    SAY("100%% of 7");
    At("with file and line");
    SAY("[main.c@%d]with file and line", __LINE__ - 1);
    Log(TRACE_LEVEL_ERROR, Stock,
        "a condition %d"
#ifdef NULL
        " of %s",
#endif
        3, text);
    SAY("a condition 3 of tea");
    /* Neither level nor flag is enabled: no message, and no argument is evaluated. */
    Log(TRACE_LEVEL_VERBOSE + 1, Stock, "too fine %d", count());
    DoTraceMessage(Rest, "another provider %d", count());
    if (evaluated != 0)
        abort();
}

static void numbers(void)
{
    DoTraceMessage(Orders, "%c|%hc|%C|%lc|%wc", 'a', 'b', u'c', u'd', u'e');
    /* Wide characters are numbers in Windows' configuration. */
    SAY("a|b|99|100|101");
    DoTraceMessage(Orders, "%!SCHAR!|%!UCHAR!|%!SBYTE!|%!UBYTE!", 'a', 'b', 'c', 'd');
    SAY("a|b|c|d");
    DoTraceMessage(Orders, "%!XBYTE!|%!OBYTE!", 0x1f, 9);
    SAY("1f|11");
    DoTraceMessage(Orders, "%hd|%hi|%hu|%hx|%hX|%ho", -5, -6, 65535, 0xabc, 0xabc, 8);
    SAY("-5|-6|65535|abc|ABC|10");
    DoTraceMessage(Orders, "%!SSHORT!|%!USHORT!|%!XSHORT!|%!OSHORT!", -5, 6, 0xab, 8);
    SAY("-5|6|00AB|10");
    DoTraceMessage(Orders, "%d|%i|%u|%x|%X|%o|%5d|%-5d|%05d|%+d|%#x", -1, -2, 3u, 0xfu, 0xfu, 8u, 42, 42, 42, 42, 255u);
    SAY("-1|-2|3|f|F|10|   42|42   |00042|+42|0xff");
    DoTraceMessage(Orders, "%!SINT!|%!UINT!|%!XINT!|%!OINT!", -1, 2u, 0xff, 8);
    SAY("-1|2|000000ff|10");
    DoTraceMessage(Orders, "%ld|%li|%lu|%lx|%lX|%lo", -1, -2, 3u, 0xfu, 0xfu, 8u);
    SAY("-1|-2|3|f|F|10");
    DoTraceMessage(Orders, "%!SLONG!|%!ULONG!|%!XLONG!|%!OLONG!", -1, 2u, 0xff, 8);
    SAY("-1|2|000000FF|10");
    DoTraceMessage(Orders, "%I64d|%I64u|%I64x|%I64X|%I64o", -1ll, 18446744073709551615ull, 0xabcll, 0xabcll, 8ll);
    SAY("-1|18446744073709551615|abc|ABC|10");
    DoTraceMessage(Orders, "%lld|%llu|%llx|%llX|%llo|%012I64X", -1ll, 1ull, 0xabcll, 0xabcll, 8ll, 0xabcll);
    SAY("-1|1|abc|ABC|10|000000000ABC");
    DoTraceMessage(Orders, "%!SINT64!|%!UINT64!|%!XINT64!|%!XXINT64!|%!OINT64!", -1ll, 1ull, 0xabcll, 0xabcll, 8ll);
    SAY("-1|1|abc|ABC|10");
    DoTraceMessage(Orders, "%Id|%Iu|%Ix|%IX|%Io|%zu|%zd", 1, 2, 0xab, 0xab, 8, sizeof(int), -4);
    SAY("1|2|ab|AB|10|4|-4");
    DoTraceMessage(Orders, "%!SLONGPTR!|%!ULONGPTR!|%!XLONGPTR!|%!OLONGPTR!", -1, 2, 0xab, 8);
    SAY("-1|2|ab|10");
    DoTraceMessage(Orders, "%p|%!PTR!|%!HANDLE!", (void *)0x1234, (void *)0x1234, (void *)0x1234);
    SAY("0000000000001234|0000000000001234|0000000000001234");
    DoTraceMessage(Orders, "%f|%.2f|%e|%E|%g|%G|%!DOUBLE!", 1.5, 2.25, 1.5, 1.5, 1.5, 1.5, 1.5);
    SAY("%f|%.2f|%f|%f|%f|%f|1.500000", 1.5, 2.25, 1.5, 1.5, 1.5, 1.5);
    DoTraceMessage(Orders, "%-9.2e|%+g|%#.3G|%08.3f|%Lg", 12345.678, 1e-5, 1e20, -1.5, 0.1);
    SAY("%-9.2f|%+f|%#.3f|%08.3f|%f", 12345.678, 1e-5, 1e20, -1.5, 0.1);
    DoTraceMessage(Orders, "%!cccc!", 0x64636261);
    SAY("abcd");
}

static const GUID guid = {0x01020304, 0x0506, 0x0708, {9, 10, 11, 12, 13, 14, 15, 16}};

static void others(void)
{
    static WCHAR wide[] = {'w', 'i', 'd', 'e', 0};
    static char narrow[] = "counted";
    const char *null = NULL;
    const UNICODE_STRING unicode = {8, 10, wide};
    const ANSI_STRING ansi = {7, 8, narrow};
    const CSTRING constant = {5, 6, "const"};
    static const unsigned char sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    static const unsigned char mac[] = {1, 2, 3, 0xa, 0xb, 0xc};
    static const unsigned char ipv6[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    DoTraceMessage(Orders, "%s|%hs|%!ASTR!|%!ARSTR!|%10s|%-10s|%.2s", "a", "b", "c", "d\te", "right", "left", "cut");
    SAY("a|b|c|d e|     right|left      |cu");
    DoTraceMessage(Orders, "%S|%ls|%ws|%!WSTR!|%!ARWSTR!", wide, wide, wide, wide, wide);
    SAY("wide|wide|wide|wide|wide");
    DoTraceMessage(Orders, "%s|%S|%!USTR!|%!ANSTR!|%!CSTR!", null, (LPCWSTR)0, (PCUNICODE_STRING)0, (const ANSI_STRING *)0, (const CSTRING *)0);
    SAY("NULL|NULL|NULL|NULL|NULL");
    DoTraceMessage(Orders, "%!USTR!|%wZ|%!ANSTR!|%Z|%!CSTR!|%hZ|%z.", &unicode, &unicode, &ansi, &ansi, &constant, &constant, &constant);
    SAY("wide|wide|counted|counted|const|const|const.");
    DoTraceMessage(Orders, "%!GUID!|%!guid!", &guid, &guid);
    SAY("{01020304-0506-0708-090a-0b0c0d0e0f10}|{01020304-0506-0708-090a-0b0c0d0e0f10}");
    DoTraceMessage(Orders, "%!IID!|%!CLSID!|%!LIBID!", &guid, &guid, &guid);
    SAY("{01020304-0506-0708-090a-0b0c0d0e0f10}|{01020304-0506-0708-090a-0b0c0d0e0f10}|{01020304-0506-0708-090a-0b0c0d0e0f10}");
    DoTraceMessage(Orders, "%!sid!", sid);
    SAY("S-1-5-18");
    DoTraceMessage(Orders, "%!STATUS!|%!status!|%!HRESULT!|%!hresult!|%!WINERROR!|%!winerr!", 0, 0, 0, 0, 2, 2);
    SAY("0x00000000(STATUS_SUCCESS)|0x00000000(STATUS_SUCCESS)|0x00000000(S_OK)|0x00000000(S_OK)|2(ERROR_FILE_NOT_FOUND)|2(ERROR_FILE_NOT_FOUND)");
    DoTraceMessage(Orders, "%!NDIS_STATUS!|%!NDIS_OID!", 0, 0x10101u);
    SAY("0x00000000(STATUS_SUCCESS)|10101");
    DoTraceMessage(Orders, "%!IPADDR!|%!ipaddr!|%!PORT!|%!port!|%!IPV6!|%!MAC!", 0x0100007fu, 0x0100007fu, 0x5000, 0x5000, ipv6, mac);
    SAY("127.0.0.1|127.0.0.1|80|80|fe80::1|01-02-03-0a-0b-0c");
    DoTraceMessage(Orders, "%!bool!|%!bool8!|%!bool16!|%!BOOLEAN!|%!irql!", 1, 0, 1, 1, 2);
    SAY("true|false|true|TRUE|DPC");
    DoTraceMessage(Orders, "%!b1!|%!b2!|%!b4!", 5, 0x8001, 0x80000001u);
    SAY("[1,3]|[1,16]|[1,32]");
    DoTraceMessage(Orders, "%!pnpmj!|%!pnpmn!|%!sysctrl!", 2, 1, 0);
    SAY("IRP_MJ_CLOSE|IRP_MN_QUERY_REMOVE_DEVICE|IRP_MN_QUERY_ALL_DATA");
    DoTraceMessage(Orders, "%!STATE!|%!RIGHTS!|%!ItemListLong(no,yes)!|%!ItemEnum(COLOUR)!", 7, 5, 1, 3u);
    SAY("Gone|[read,run]|yes|3");
    DoTraceMessage(Orders, "%!TIMESTAMP!|%!TIME!|%!DATE!|%!WAITTIME!|%!datetime!|%!date!|%!time!", 0ll, 0ll, 0ll, 0ll, 0ll, 0ll, 0ll);
    SAY(EPOCH "|" EPOCH "|" EPOCH "|" EPOCH "|" EPOCH "|" EPOCH "|" EPOCH);
    DoTraceMessage(Orders, "%!due!|%!delta!", -10000000ll, 90061001ll);
    SAY("1000 ms from now|1~1:1:1");
    DoTraceMessage(Orders, "%!BYTES!", AS_BYTES("\x01\x02\xff", 3));
    SAY("0102ff");
    DoTraceMessage(Orders, "%!COMPNAME!|%!FILE!|%!FUNC!|%!LEVEL!|%!FLAGS!|%!KEYWORDS!|%!MOD!|%!SPACE!|");
    SAY("Shop|main.c|others|Orders|||Shop| |");
}

int main(void)
{
    DoTraceMessage(Orders, "before WPP_INIT_TRACING %d", count());
    WPP_INIT_TRACING(L"shop");
    forms();
    numbers();
    others();
    if (other_file() != 0)
        return 1;
    SAY("from another file");
    WPP_CLEANUP();
    DoTraceMessage(Orders, "behind WPP_CLEANUP %d", count());
    return evaluated;
}
