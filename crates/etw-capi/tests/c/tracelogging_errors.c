/* Mistakes that must not compile, selected by MISTAKE. */
#include <TraceLoggingProvider.h>

/* No constants: their first value must not become part of the event's description. */
extern unsigned variable;
extern const unsigned elsewhere;

#if MISTAKE == 17
TRACELOGGING_DEFINE_PROVIDER(P, "P\0", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
#elif MISTAKE == 23
TRACELOGGING_DEFINE_PROVIDER(P, "P", (variable, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
#elif MISTAKE == 24
TRACELOGGING_DEFINE_PROVIDER(P, "P", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
                             TraceLoggingOptionGroup(variable, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
#else
TRACELOGGING_DEFINE_PROVIDER(P, "P", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
#endif

#ifdef __cplusplus
template <unsigned long long Keyword, int Level> void write_with()
{
    TraceLoggingWrite(P, "Template", TraceLoggingKeyword(Keyword), TraceLoggingLevel(Level));
}
#endif

int main(void)
{
    const unsigned char data[] = {1};
    (void)data, (void)elsewhere;
#if MISTAKE == 1
    TraceLoggingWrite(P, "E", TraceLoggingCustom(data, 1, 32, (1), 1, "c"));
#elif MISTAKE == 2
    TraceLoggingWrite(P, "E", TraceLoggingCustom(data, 1, 4, (1), 1, "c"));
#elif MISTAKE == 3
    TraceLoggingWrite(P, "E", TraceLoggingCustom(data, 1, 5, (1, 2), 1, "c"));
#elif MISTAKE == 4
    TraceLoggingWrite(P, "E", TraceLoggingStruct(0, "s"));
#elif MISTAKE == 5
    TraceLoggingWrite(P, "E", TraceLoggingString(5, "n"));
#elif MISTAKE == 6
    const char *name = "E";
    TraceLoggingWrite(P, name, TraceLoggingInt32(5, "n"));
#elif MISTAKE == 7
    TraceLoggingWrite(P, "E", TraceLoggingWideString(5, "n"));
#elif MISTAKE == 8
    TraceLoggingWrite(P, "E", TraceLoggingInt32Array(5, 1, "n"));
#elif MISTAKE == 9
    TraceLoggingWrite(P, "E", TraceLoggingKeyword(variable));
#elif MISTAKE == 10
    TraceLoggingWrite(P, "E", TraceLoggingLevel(variable));
#elif MISTAKE == 11
    TraceLoggingWrite(P, "E", TraceLoggingEventTag(variable));
#elif MISTAKE == 12
    TraceLoggingWrite(P, "E", TraceLoggingInt32(5, "n", "d", variable));
#elif MISTAKE == 13
    TraceLoggingWrite(P, "E", TraceLoggingBinaryEx(data, 1, variable, "n"));
#elif MISTAKE == 14
    TraceLoggingWrite(P, "E", TraceLoggingUInt8FixedArray(data, variable, "n"));
#elif MISTAKE == 15
    TraceLoggingWrite(P, "E", TraceLoggingInt32(5, "n\0m"));
#elif MISTAKE == 16
    TraceLoggingWrite(P, "\0E", TraceLoggingInt32(5, "n"));
#elif MISTAKE == 18
    TraceLoggingWrite(P, "E", TraceLoggingCustom(data, 1, 5, (1), 1, "n\0"));
#elif MISTAKE == 19
    TraceLoggingWrite(P, "E", TraceLoggingLevel(256));
#elif MISTAKE == 20
    TraceLoggingWrite(P, "E", TraceLoggingPackedField(data, 1, variable, "n"));
#elif MISTAKE == 21
    TraceLoggingWrite(P, "E", TraceLoggingCustom(data, 1, 5, (variable), 1, "c"));
#elif MISTAKE == 22
    TraceLoggingWrite(P, "E", TraceLoggingKeyword(elsewhere));
#elif MISTAKE == 25
    static const char name[] = "n";
    TraceLoggingWrite(P, "E", TraceLoggingInt32(5, name));
#elif MISTAKE == 26
    TraceLoggingWrite(P, "E", TraceLoggingOpcode(-1));
#else
    enum { OUR_KEYWORD = 2, OUR_LEVEL = 3, OUR_TAG = 0x7ffffff };
#ifdef __cplusplus
    static const unsigned long long keyword = 1ull << 63;
    constexpr int level = 255, count = 1;
    write_with<4, 0>();
    TraceLoggingWrite(P, "E", TraceLoggingKeyword(keyword), TraceLoggingKeyword(OUR_KEYWORD), TraceLoggingLevel(level),
                      TraceLoggingUInt8FixedArray(data, count, "a"));
#endif
    TraceLoggingWrite(P, "E", TraceLoggingKeyword(OUR_KEYWORD | 1ull << 63), TraceLoggingLevel(OUR_LEVEL), TraceLoggingEventTag(OUR_TAG),
                      TraceLoggingOpcode(255), TraceLoggingChannel(0), TraceLoggingInt32(variable, "n", "d", OUR_TAG));
    TraceLoggingWrite(P, "", TraceLoggingInt32(5, ""), TraceLoggingInt32(5, "a" "b"));
    TraceLoggingWrite(P, "E", TraceLoggingString(0, "zero"), TraceLoggingString(NULL, "null"));
    TraceLoggingWrite(P, "E", TraceLoggingCustom(data, 1, 5, (1), 1, "c"));
#endif
    return 0;
}
