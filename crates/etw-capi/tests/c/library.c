/* A library with a provider, for misuse.c. NAME is the name of its event. */
#include <TraceLoggingProvider.h>

TRACELOGGING_DEFINE_PROVIDER(Ours, "Test.Library", (0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 0x32));

static int enabled;

static VOID NTAPI changed(LPCGUID source, ULONG control, UCHAR level, ULONGLONG any, ULONGLONG all,
                          PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    (void)source, (void)level, (void)any, (void)all, (void)filter, (void)context;
    enabled += control == EVENT_CONTROL_CODE_ENABLE_PROVIDER;
}

int run(int number)
{
    if (TraceLoggingRegisterEx(Ours, changed, NULL) != ERROR_SUCCESS || enabled != 1)
        return 1;
    TraceLoggingWrite(Ours, NAME, TraceLoggingLevel(4), TraceLoggingInt32(number, "Number"));
    TraceLoggingUnregister(Ours);
    return 0;
}
