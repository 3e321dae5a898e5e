/*
 * The cost of events from C: TraceLoggingWrite, EventWriteTransfer, TraceMessage and the log sink, beside a hand-written floor in the same run.
 * One JSON object a figure.
 */
#include "measure.h"
#include "message.h"
#include <TraceLoggingProvider.h>
#include <etw_log.h>

TRACELOGGING_DEFINE_PROVIDER(BENCH, "OpenEtw.Bench.C", (0x5d1e5b6a, 0x1c51, 0x4f0e, 0x9b, 0x1f, 0x52, 0x64, 0x16, 0x0c, 0x33, 0x01));
static const GUID CLASSIC = {0x5d1e5b6a, 0x1c51, 0x4f0e, {0x9b, 0x1f, 0x52, 0x64, 0x16, 0x0c, 0x33, 0x02}};
static const GUID SINK = {0xdad29f36, 0x0a48, 0x4def, {0x9d, 0x50, 0x8e, 0xf9, 0x03, 0x6b, 0x92, 0xb4}};
static REGHANDLE classic;
static const char *who = "orders";

__attribute__((noinline)) static void trace_logging(int n)
{
    TraceLoggingWrite(BENCH, "Event", TraceLoggingLevel(4), TraceLoggingKeyword(2), TraceLoggingInt32(n, "n"),
                      TraceLoggingString(text, "text"));
}

/* The same bytes as Rust's str8, whose length is known too. */
__attribute__((noinline)) static void trace_counted(int n)
{
    TraceLoggingWrite(BENCH, "Event", TraceLoggingLevel(4), TraceLoggingKeyword(2), TraceLoggingInt32(n, "n"),
                      TraceLoggingCountedString(text, 32, "text"));
}

__attribute__((noinline)) static void event_write(int n)
{
    static const EVENT_DESCRIPTOR descriptor = {1, 0, 0, 4, 0, 0, 2};
    EVENT_DATA_DESCRIPTOR data[2];
    EventDataDescCreate(&data[0], &n, sizeof n);
    EventDataDescCreate(&data[1], text, 32);
    EventWriteTransfer(classic, &descriptor, NULL, NULL, 2, data);
}

__attribute__((noinline)) static void message(int n)
{
    trace_message(n, text);
}

static void format(int n)
{
    char line[512];
    snprintf(line, sizeof line, "%s took %d ms", who, n);
    __asm__ volatile("" : : "r"(line) : "memory");
}

static LOG_CONTEXT *context;

static inline __attribute__((always_inline)) void log_line(int n)
{
    ETW_LOG(LOG_LEVEL_INFO, context, "%s took %d ms", who, n);
}

static double disabled(void (*one)(int))
{
    double start = now();
    for (int n = 0; n < MANY; n++)
        one(n);
    return (now() - start) / MANY;
}

static void one_event(int n)
{
    TraceLoggingWrite(BENCH, "Event", TraceLoggingLevel(4), TraceLoggingKeyword(2), TraceLoggingInt32(n, "n"),
                      TraceLoggingString(text, "text"));
}

__attribute__((noinline)) static double disabled_turn(void)
{
    return turns(one_event);
}

__attribute__((noinline)) static double disabled_log_turn(void)
{
    return turns(log_line);
}

int main(void)
{
    ETW_SESSION session;
    ULONGLONG lost;
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
    LOG_CONTEXT request = ETW_LOG_CONTEXT(pairs);
    context = &request;
    if (!floor_start())
        return 2;
    if (TraceLoggingRegister(BENCH) != 0 || EventRegister(&CLASSIC, NULL, NULL, &classic) != 0 || log_sink_etw.init() != 0)
        return 1;
    double empty = empty_turn(), with_event = disabled_turn();
    figure("C: empty loop turn", empty, "ns");
    figure("C: TraceLoggingWrite, disabled, inlined", with_event, "ns");
    figure("C: TraceLoggingWrite, disabled / empty loop turn", with_event / empty, "x");
    figure("C: TraceLoggingWrite, disabled, a call around it", disabled(trace_logging), "ns");
    figure("C: log sink, not enabled", disabled_log_turn(), "ns");
    /* The same as in the Rust examples, with whose figures these are compared. */
    const ETW_SESSION_OPTIONS options = {sizeof options, 0, 0, 16384, 16384};
    if (etw_session_start_ex("cost", NULL, &options, &session) != 0)
        return 1;
    if (etw_session_enable(session, &SINK, 5, 0, 0) != 0)
        return 1;
    double log[2];
    costs(session, ROUNDS, BURST, 2, (void (*const[])(int)){format, log_line}, log);
    figure("C: formatting alone", log[0], "ns");
    figure("C: log sink, enabled, four properties", log[1], "ns");
    figure("C: log sink, enabled, beyond formatting", log[1] - log[0], "ns");
    if (etw_session_stop(session, &lost) != 0 || lost != 0)
        return 1;

    stay_here();
    if (etw_session_start_ex("cost", NULL, &options, &session) != 0)
        return 1;
    static const GUID bench = {0x5d1e5b6a, 0x1c51, 0x4f0e, {0x9b, 0x1f, 0x52, 0x64, 0x16, 0x0c, 0x33, 0x01}};
    TRACEHANDLE registration;
    if (etw_session_enable(session, &bench, 5, 0, 0) != 0 || etw_session_enable(session, &CLASSIC, 5, 0, 0) != 0 ||
        RegisterTraceGuids(message_control, NULL, &MESSAGES, 0, NULL, NULL, NULL, &registration) != 0 ||
        etw_session_enable(session, &MESSAGES, 5, 1, 0) != 0)
        return 1;
    double write[5];
    costs(session, PINNED_ROUNDS, PINNED_BURST, 5,
          (void (*const[])(int)){floor_write, event_write, trace_logging, trace_counted, message}, write);
    figure("C: floor", write[0], "ns");
    figure("C: EventWriteTransfer, two descriptors", write[1], "ns");
    figure("C: EventWriteTransfer / floor", write[1] / write[0], "x");
    figure("C: TraceLoggingWrite, enabled", write[2], "ns");
    figure("C: TraceLoggingWrite / floor", write[2] / write[0], "x");
    figure("C: TraceLoggingWrite of a string of known length, enabled", write[3], "ns");
    figure("C: TraceLoggingWrite of a string of known length / floor", write[3] / write[0], "x");
    figure("C: TraceMessage", write[4], "ns");
    figure("C: TraceMessage / EventWriteTransfer", write[4] / write[1], "x");
    if (etw_session_stop(session, &lost) != 0)
        return 1;
    figure("C: lost while measuring", (double)lost, "events");
    return 0;
}
