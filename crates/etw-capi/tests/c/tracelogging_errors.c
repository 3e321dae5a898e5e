/* Mistakes that must not compile, selected by MISTAKE. */
#include <TraceLoggingProvider.h>

TRACELOGGING_DEFINE_PROVIDER(P, "P", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));

int main(void)
{
    const unsigned char data[] = {1};
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
#else
    TraceLoggingWrite(P, "E", TraceLoggingString(0, "zero"), TraceLoggingString(NULL, "null"));
    TraceLoggingWrite(P, "E", TraceLoggingCustom(data, 1, 5, (1), 1, "c"));
#endif
    return 0;
}
