/*
 * The TraceMessage call that bench/c/cost.c times and bench/budgets/c/paths.c counts.
 */
#ifndef BENCH_MESSAGE_H
#define BENCH_MESSAGE_H
#include <evntrace.h>

static const GUID MESSAGES = {0x5d1e5b6a, 0x1c51, 0x4f0e, {0x9b, 0x1f, 0x52, 0x64, 0x16, 0x0c, 0x33, 0x06}};
static TRACEHANDLE logger;

static ULONG WINAPI message_control(WMIDPREQUESTCODE code, PVOID unused, ULONG *size, PVOID buffer)
{
    (void)unused, (void)size;
    logger = code == WMI_ENABLE_EVENTS ? GetTraceLoggerHandle(buffer) : 0;
    return 0;
}

/* As WPP calls it. */
static inline void trace_message(int n, const char *s)
{
    const ULONG parts = TRACE_MESSAGE_SEQUENCE | TRACE_MESSAGE_GUID | TRACE_MESSAGE_TIMESTAMP | TRACE_MESSAGE_SYSTEMINFO;
    TraceMessage(logger, parts, &MESSAGES, 10, (void *)&n, sizeof n, (void *)(uintptr_t)s, (size_t)32, NULL);
}

#endif
