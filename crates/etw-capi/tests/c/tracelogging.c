/* TraceLogging from C and C++, into a private session: TRACELOGGING_OUT names its file. */
#include <TraceLoggingProvider.h>
#include <etw_session.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

TRACELOGGING_DECLARE_PROVIDER(Shop);
TRACELOGGING_DEFINE_PROVIDER(Shop, "Test.Shop",
                             (0x11223344, 0x5566, 0x7788, 1, 2, 3, 4, 5, 6, 7, 8));
TRACELOGGING_DEFINE_PROVIDER(Grouped, "Test.Grouped",
                             (0x11223345, 0x5566, 0x7788, 1, 2, 3, 4, 5, 6, 7, 8),
                             TraceLoggingOptionGroup(0xf73b8292, 0xf610, 0x4fa7, 0xba, 0x62, 0x70, 0x83, 0x53, 0xd1, 0x62, 0xc4));

static int evaluated;

static int evaluate(int value)
{
    evaluated++;
    return value;
}

struct counted {
    USHORT Length;
    USHORT MaximumLength;
    const void *Buffer;
};

int main(void)
{
    ETW_SESSION session;
    const GUID grouped = {0x11223345, 0x5566, 0x7788, {1, 2, 3, 4, 5, 6, 7, 8}};
    const GUID activity = {7, 0, 0, {0}}, related = {9, 0, 0, {0}};
    const int16_t numbers[3] = {1, -2, 3};
    const unsigned char sid[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    const unsigned char address[16] = {0x20, 1, 13, 0xb8};
    const unsigned char data[] = {0xaa, 0xbb};
    const struct counted ansi = {2, 3, "hi"}, wide = {4, 6, ETW_W("hi")};
    const FILETIME time = {0x01020304, 0x01d5e311};
    const uintptr_t pointers[2] = {16, 17};
    struct sockaddr_in6 ip6;
    struct sockaddr_in ip4;
    const SYSTEMTIME date = {2026, 11, 6, 21, 1, 2, 3, 4};
    int x = 5;

#ifdef __cplusplus
    static wchar_t long_text[401];
    for (int n = 0; n < 400; n++)
        long_text[n] = L'x';
#endif
    memset(&ip6, 0, sizeof ip6);
    ip6.sin6_family = AF_INET6;
    ip6.sin6_port = htons(443);
    memcpy(&ip6.sin6_addr, address, 16);
    memset(&ip4, 0, sizeof ip4);
    ip4.sin_family = AF_INET;
    ip4.sin_port = htons(80);
    ip4.sin_addr.s_addr = htonl(0x7f000001);

    CHECK_TRUE(TraceLoggingRegister(Shop) == 0);
    CHECK_TRUE(TraceLoggingRegister(Grouped) == 0);
    TraceLoggingWrite(Shop, "Off", TraceLoggingInt32(evaluate(1), "n"));
    CHECK_TRUE(evaluated == 0 && !TraceLoggingProviderEnabled(Shop, 0, 0));
    CHECK_TRUE(strcmp(TraceLoggingProviderName(Shop), "Test.Shop") == 0);
    CHECK_TRUE(etw_session_start("tracelogging", getenv("TRACELOGGING_OUT"), &session) == 0);
    CHECK_TRUE(etw_session_enable(session, &TraceLoggingProviderId(Shop), 4, 0x3, 0) == 0);
    CHECK_TRUE(etw_session_enable(session, &grouped, 5, 0, 0) == 0);
    CHECK_TRUE(TraceLoggingProviderEnabled(Shop, 4, 1) && !TraceLoggingProviderEnabled(Shop, 5, 1));
    CHECK_TRUE(TraceLoggingProviderEnabled(Shop, 4, 0) && !TraceLoggingProviderEnabled(Shop, 4, 4));

    TraceLoggingWrite(Shop, "Nothing", TraceLoggingLevel(4));
    TraceLoggingWrite(Shop, "TooVerbose", TraceLoggingInt32(evaluate(1)));
    TraceLoggingWrite(Shop, "OtherKeyword", TraceLoggingLevel(1), TraceLoggingKeyword(4), TraceLoggingInt32(evaluate(1)));
    CHECK_TRUE(evaluated == 0);
    TraceLoggingWrite(Shop, "Options", TraceLoggingLevel(1), TraceLoggingKeyword(1), TraceLoggingLevel(2),
                      TraceLoggingKeyword(0x10), TraceLoggingOpcode(3), TraceLoggingDescription("said nowhere"),
                      TraceLoggingEventTag(0x1234), TraceLoggingCustomAttribute("k", "v"));
    TraceLoggingWrite(Shop, "Numbers", TraceLoggingLevel(4), TraceLoggingInt8(-1), TraceLoggingInt16(-2, "i16"),
                      TraceLoggingInt32(evaluate(-3), "i32", "a description"),
                      TraceLoggingInt64(-4, "i64", "", 0x1234567), TraceLoggingUInt8(200, "u8"),
                      TraceLoggingUInt16(60000, "u16"), TraceLoggingUInt32(4000000000u, "u32"),
                      TraceLoggingUInt64(~0ull, "u64"), TraceLoggingFloat32(1.5f, "f32"),
                      TraceLoggingFloat64(2.5, "f64"), TraceLoggingBool(1, "b32"), TraceLoggingBoolean(1, "b8"),
                      TraceLoggingHexUInt8(0xab, "h8"), TraceLoggingHexInt16(0x1234, "h16"),
                      TraceLoggingHexUInt32(0xdeadbeef, "h32"), TraceLoggingHexInt64(1, "h64"), TraceLoggingInt32(x));
    CHECK_TRUE(evaluated == 1);
    TraceLoggingWrite(Shop, "Others", TraceLoggingLevel(4), TraceLoggingChar('c', "c8"),
                      TraceLoggingChar16(u'\u00fc', "c16"), TraceLoggingGuid(activity, "guid"),
                      TraceLoggingPointer(&x == NULL ? &x : NULL, "p"), TraceLoggingCodePointer(NULL, "code"),
                      TraceLoggingFileTime(time, "ft"), TraceLoggingFileTimeUtc(time, "ftu"),
                      TraceLoggingSystemTime(date, "st"), TraceLoggingPid(1, "pid"), TraceLoggingTid(2, "tid"),
                      TraceLoggingPort(0x5000, "port"), TraceLoggingIPv4Address(0x0100007f, "ip4"),
                      TraceLoggingIPv6Address(address, "ip6"), TraceLoggingWinError(5, "win"),
                      TraceLoggingNTStatus(0xc0000005, "nt"), TraceLoggingHResult(-2147024891, "hr"),
                      TraceLoggingSid(sid, "sid"), TraceLoggingBinary(data, 2, "bin"),
                      TraceLoggingBinaryEx(data, 2, 9, "binx"));
    TraceLoggingWrite(Shop, "Texts", TraceLoggingLevel(4), TraceLoggingString("abc", "s"),
                      TraceLoggingString(NULL, "null"), TraceLoggingUtf8String("gr\u00fc\u00dfe", "u"),
                      TraceLoggingWideString(ETW_W("w\u00fc"), "w"), TraceLoggingWideString(L"x\U0001F600", "l"),
                      TraceLoggingCountedString("abcdef", 3, "cs"), TraceLoggingCountedUtf8String("abcdef", 2, "cu"),
                      TraceLoggingCountedWideString(ETW_W("abcdef"), 1, "cw"), TraceLoggingAnsiString(&ansi, "as"),
                      TraceLoggingUnicodeString(&wide, "us"));
    TraceLoggingWrite(Shop, "Arrays", TraceLoggingLevel(4), TraceLoggingInt16Array(numbers, evaluate(2), "v"),
                      TraceLoggingInt16FixedArray(numbers, 3, "f"), TraceLoggingHexUInt8FixedArray(data, 2, "h"),
                      TraceLoggingUInt8Array(data, 0, "none"));
    TraceLoggingWrite(Shop, "Structs", TraceLoggingLevel(4), TraceLoggingStruct(3, "outer"),
                      TraceLoggingInt32(1, "a"), TraceLoggingStruct(1, "inner"), TraceLoggingInt32(2, "b"),
                      TraceLoggingInt32(3, "c"));
    TraceLoggingWrite(Shop, "Custom", TraceLoggingLevel(4),
                      TraceLoggingCustom(data, 2, 5, (0x00, 0x01, 0x02), 3),
                      TraceLoggingCustom(data, 2, 5, (0x00, 0x01, 0x02), 3, "c6"),
                      TraceLoggingCustom(data, 1, 31, (0xff), 1, "c7", "described"),
                      TraceLoggingCustom(data, 2, TRACELOGGING_PROTOCOL_MICROSOFT_RESERVED4, (1, 2), 2, "c8", "", 4));
    TraceLoggingWrite(Shop, "Packed", TraceLoggingLevel(4), TraceLoggingPackedField(data, 2, 5, "i16"),
                      TraceLoggingPackedMetadataEx(4, 4, "h"), TraceLoggingPackedData(data, 1),
                      TraceLoggingPackedStructArray(1, "sa"), TraceLoggingPackedMetadata(4, "e"),
                      TraceLoggingPackedData("\x02\x00\x07\x08", 4));
    TraceLoggingWriteActivity(Shop, "Ids", &activity, &related, TraceLoggingLevel(4));
    TraceLoggingWriteEx(Shop, "Ex", 0, EVENT_WRITE_FLAG_NO_FAULTING, &activity, NULL, TraceLoggingLevel(4));
    if (x == 5)
        TraceLoggingWrite(Grouped, "InIf", TraceLoggingInt32(1, "n"));
    else
        TraceLoggingWrite(Grouped, "InElse");
    TraceLoggingWrite(Shop, "Further", TraceLoggingLevel(4), TraceLoggingSocketAddress(&ip6, sizeof ip6, "ip6"),
                      TraceLoggingSocketAddress(&ip4, sizeof ip4, "ip4"), TraceLoggingWideString(NULL, "none"),
                      TraceLoggingWideString(evaluate(1) ? L"once" : NULL, "once"),
                      TraceLoggingString16(u"s\u00fc", "s16"), TraceLoggingCountedString16(u"abc", 2, "c16"),
                      TraceLoggingCountedWideString(L"a\U0001F600bc", sizeof(wchar_t) == 4 ? 3 : 4, "cl"),
                      TraceLoggingString32(U"\U0001F600", "s32"), TraceLoggingCountedString32(U"abc", 2, "c32"),
                      TraceLoggingCountedWideString(NULL, 0, "empty"),
                      TraceLoggingHexIntPtr(-1, "hi"), TraceLoggingHexUIntPtr(1, "hu"),
                      TraceLoggingHexUIntPtrArray(pointers, 2, "ha"), TraceLoggingHexUIntPtrFixedArray(pointers, 2, "hf"),
                      TraceLoggingBinaryBuffer(&ansi, struct counted, "bb"),
                      TraceLoggingBinaryBufferEx(&ansi, struct counted, TlgOutIPV4, "bx"),
                      TraceLoggingPackedMetadata(TlgInUINT8, "p"), TraceLoggingPackedDataEx(data, 1, 0),
                      TraceLoggingPackedField(u"f", 4, TlgInUNICODESTRING, "pf"));
    CHECK_TRUE(evaluated == 3);
    {
        TRACELOGGING_DEFINE_PROVIDER_STORAGE(local, "Test.Shop", (0x11223344, 0x5566, 0x7788, 1, 2, 3, 4, 5, 6, 7, 8));
        const TraceLoggingHProvider provider = &local;
        CHECK_TRUE(TraceLoggingRegister(provider) == 0);
        TraceLoggingWrite(provider, "Storage", TraceLoggingLevel(4));
        TraceLoggingUnregister(provider);
    }
#ifdef __cplusplus
    TraceLoggingWrite(Shop, "Wide", TraceLoggingLevel(4), TraceLoggingValue(L"w\u00fc", "w"), TraceLoggingValue(L'A', "c"),
                      TraceLoggingValue(nullptr, "p"), TraceLoggingValue(long_text, "l"));
    TraceLoggingWrite(Shop, "Values", TraceLoggingLevel(4), TraceLoggingValue(x), TraceLoggingValue(2.5, "d"),
                      TraceLoggingValue(true, "b"), TraceLoggingValue("text", "s"), TraceLoggingValue(u"wide", "w"),
                      TraceLoggingValue(activity, "g"), TraceLoggingValue(1ull, "u"));
#endif
    CHECK_TRUE(etw_session_stop(session, NULL) == 0);
    TraceLoggingUnregister(Shop);
    TraceLoggingUnregister(Grouped);
    TraceLoggingWrite(Shop, "Unregistered", TraceLoggingLevel(0));
    return 0;
}
