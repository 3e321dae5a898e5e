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
#else
    TraceLoggingWrite(P, "E", TraceLoggingCustom(data, 1, 5, (1), 1, "c"));
#endif
    return 0;
}
