/*
 * The hot paths of C programs, each run between two marks for callgrind. `cargo xtask budgets` compiles and runs it.
 */
#include "../../c/message.h"
#include "bench.h"
#include <TraceLoggingProvider.h>
#include <etw_log.h>
#include <etw_session.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { EVENTS = 10000, WARM_UP = 500 };

TRACELOGGING_DEFINE_PROVIDER(PROVIDER, "OpenEtw.Budgets.C", (0x5d1e5b6a, 0x1c51, 0x4f0e, 0x9b, 0x1f, 0x52, 0x64, 0x16, 0x0c, 0x33, 0x04));
static const GUID CLASSIC = {0x5d1e5b6a, 0x1c51, 0x4f0e, {0x9b, 0x1f, 0x52, 0x64, 0x16, 0x0c, 0x33, 0x05}};
static const GUID SINK = {0xdad29f36, 0x0a48, 0x4def, {0x9d, 0x50, 0x8e, 0xf9, 0x03, 0x6b, 0x92, 0xb4}};
static REGHANDLE classic;
static const char *volatile text = "a text of thirty-two characters.";
static const char *volatile who = "orders";

/* A request to callgrind: a sequence of instructions that does nothing outside of valgrind. */
static void request(uint64_t number, const char *name)
{
#ifdef __x86_64__
    volatile uint64_t words[6] = {0x43540000 + number, (uint64_t)(uintptr_t)name, 0, 0, 0, 0};
    uint64_t result = 0;
    __asm__ volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
                     : "=d"(result)
                     : "a"(words), "0"(result)
                     : "cc", "memory");
#else
    (void)number, (void)name;
#endif
}

static void measure(const char *name, void (*path)(int))
{
    printf("%s\t%d\n", name, EVENTS);
    path(WARM_UP);
    request(2, NULL);
    path(EVENTS);
    request(2, NULL);
    request(3, name);
}

__attribute__((noinline)) static void trace_logging(int count)
{
    const char *s = text;
    for (int n = 0; n < count; n++)
        TraceLoggingWrite(PROVIDER, "Event", TraceLoggingLevel(4), TraceLoggingKeyword(2), TraceLoggingInt32(n, "n"),
                          TraceLoggingCountedString(s, 32, "text"));
}

__attribute__((noinline)) static void event_write(int count)
{
    static const EVENT_DESCRIPTOR descriptor = {1, 0, 0, 4, 0, 0, 2};
    EVENT_DATA_DESCRIPTOR data[2];
    for (int n = 0; n < count; n++) {
        EventDataDescCreate(&data[0], &n, sizeof n);
        EventDataDescCreate(&data[1], text, 32);
        EventWriteTransfer(classic, &descriptor, NULL, NULL, 2, data);
    }
}

/* The compiler does not know the text's length. */
__attribute__((noinline)) static void manifest_event(int count)
{
    const char *s = text;
    for (int n = 0; n < count; n++)
        EventWriteRequestTaken(n, s);
}

__attribute__((noinline)) static void message(int count)
{
    const char *s = text;
    for (int n = 0; n < count; n++)
        trace_message(n, s);
}

static LOG_CONTEXT *context;

__attribute__((noinline)) static void log_line(int count)
{
    for (int n = 0; n < count; n++)
        ETW_LOG(LOG_LEVEL_INFO, context, "%s took %d ms", who, n);
}

__attribute__((noinline)) static void format(int count)
{
    char line[512];
    for (int n = 0; n < count; n++) {
        snprintf(line, sizeof line, "%s took %d ms", who, n);
        __asm__ volatile("" : : "r"(line) : "memory");
    }
}

int main(void)
{
    uint64_t id = 77;
    int32_t status = 200;
    bool retry = false;
    LOG_CONTEXT_PROPERTY_VALUE_PAIR pairs[] = {
        ETW_LOG_STRUCT("request", 4),
        ETW_LOG_PROPERTY(uint64_t, "id", &id),
        ETW_LOG_PROPERTY(ascii_char_ptr, "path", "/orders/77"),
        ETW_LOG_PROPERTY(bool, "retry", &retry),
        ETW_LOG_PROPERTY(int32_t, "status", &status),
    };
    LOG_CONTEXT request_context = ETW_LOG_CONTEXT(pairs);
    context = &request_context;
    TraceLoggingRegister(PROVIDER);
    TRACEHANDLE registration;
    if (EventRegister(&CLASSIC, NULL, NULL, &classic) != 0 || log_sink_etw.init() != 0 || EventRegisterOpenEtw_Bench_Manifest() != 0 ||
        RegisterTraceGuids(message_control, NULL, &MESSAGES, 0, NULL, NULL, NULL, &registration) != 0)
        return 1;
    measure("C: TraceLoggingWrite, disabled / event", trace_logging);
    measure("C: manifest event, disabled / event", manifest_event);
    measure("C: log call, not enabled / call", log_line);
    measure("C: log call, formatting alone / call", format);
    /* A pool for all events, in KiB, at its start and at most. */
    const ETW_SESSION_OPTIONS options = {sizeof options, 0, 0, 32768, 32768};
    static const GUID provider = {0x5d1e5b6a, 0x1c51, 0x4f0e, {0x9b, 0x1f, 0x52, 0x64, 0x16, 0x0c, 0x33, 0x04}};
    ETW_SESSION session;
    ULONGLONG lost;
    if (etw_session_start_ex("budgets", NULL, &options, &session) != 0 || etw_session_enable(session, &provider, 5, 0, 0) != 0 ||
        etw_session_enable(session, &CLASSIC, 5, 0, 0) != 0 || etw_session_enable(session, &SINK, 5, 0, 0) != 0 ||
        etw_session_enable(session, &BENCH_MANIFEST, 5, 0, 0) != 0 || etw_session_enable(session, &MESSAGES, 5, 1, 0) != 0)
        return 1;
    measure("C: TraceLoggingWrite / event", trace_logging);
    measure("C: EventWriteTransfer / event", event_write);
    measure("C: manifest event / event", manifest_event);
    measure("C: TraceMessage / message", message);
    measure("C: log call, four properties / call", log_line);
    return etw_session_stop(session, &lost) != 0 || lost != 0;
}
