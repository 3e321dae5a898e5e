/*
 * A program with c-logging of the time when sinks had three members and a variadic log. With OWN_HEADER it declares the sink as c-logging's
 * own header does, so that the library cannot know the form from the compilation.
 */
#include "c_logging/log_sink_if.h"
#ifdef OWN_HEADER
extern const LOG_SINK_IF log_sink_etw;
#else
#include <c_logging/log_sink_etw.h>
#endif
#include <etw_session.h>
#include <stdio.h>
#include <stdlib.h>

extern const LOG_SINK_IF *log_sinks[1];
extern const uint32_t log_sink_count;
int logger_init(void);
const LOG_SINK_IF *log_sinks[1] = {&log_sink_etw};
const uint32_t log_sink_count = 1;

int logger_init(void) { return log_sinks[0]->init(); }

static const GUID provider = {0xdad29f36, 0x0a48, 0x4def, {0x9d, 0x50, 0x8e, 0xf9, 0x03, 0x6b, 0x92, 0xb4}};
static LOG_CONTEXT_PROPERTY_TYPE int64_type(void) { return LOG_CONTEXT_PROPERTY_TYPE_int64_t; }
static LOG_CONTEXT_PROPERTY_TYPE struct_type(void) { return LOG_CONTEXT_PROPERTY_TYPE_struct; }

int main(void)
{
    static const int64_t seven = 7;
    static const LOG_CONTEXT_PROPERTY_TYPE_IF is_int64 = {NULL, NULL, NULL, int64_type}, is_struct = {NULL, NULL, NULL, struct_type};
    static const LOG_CONTEXT_PROPERTY_VALUE_PAIR pairs[] = {{"s", "\x01", &is_struct}, {"n", &seven, &is_int64}};
    struct LOG_CONTEXT_TAG context = {NULL, 0, pairs, 2};
    ETW_SESSION session;
    if (etw_session_start("variadic", getenv("LOG_SINK_OUT"), &session) != 0 ||
        etw_session_enable(session, &provider, 5, 0, 0) != 0)
        return 1;
    log_sinks[0]->log(LOG_LEVEL_INFO, NULL, "a.c", "f", -7, "before init");
    if (logger_init() != 0)
        return 2;
    log_sinks[0]->log(LOG_LEVEL_INFO, &context, "a.c", "f", -7, "%d-%s-%.1f", 1, "b", 0.5);
    log_sinks[0]->log(LOG_LEVEL_ERROR, NULL, "a.c", "f", -7, "plain");
    log_sinks[0]->deinit();
    return (int)etw_session_stop(session, NULL);
}
