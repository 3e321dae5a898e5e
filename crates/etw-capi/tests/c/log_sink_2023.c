/*
 * A program with c-logging of May 2023: its sinks are structures of one variadic function, there is no logger_init, and property types have
 * other numbers. It was compiled without this project's headers for the sink.
 */
#include <etw_session.h>
#include <stdio.h>
#include <stdlib.h>

typedef int (*GET_TYPE)(void);
typedef struct {
    void *to_string, *copy, *free;
    GET_TYPE get_type;
} TYPE;
typedef struct {
    const char *name;
    const void *value;
    const TYPE *type;
} PAIR;
typedef struct {
    const unsigned char *data;
    uint32_t length;
    const PAIR *pairs;
    uint32_t count;
} CONTEXT;
typedef struct {
    void (*log_sink_log)(int level, const CONTEXT *context, const char *file, const char *func, int line,
                         const char *format, ...);
} SINK;
#ifdef __cplusplus
#define C extern "C"
#else
#define C extern
#endif
C const SINK log_sink_etw;
C const SINK *log_sinks[1];
C const uint32_t log_sink_count;
const SINK *log_sinks[1] = {&log_sink_etw};
const uint32_t log_sink_count = 1;

static const GUID provider = {0xdad29f36, 0x0a48, 0x4def, {0x9d, 0x50, 0x8e, 0xf9, 0x03, 0x6b, 0x92, 0xb4}};
static int int64_type(void) { return 2; }
static int struct_type(void) { return 10; }

int main(void)
{
    static const int64_t seven = 7;
    static const TYPE is_int64 = {NULL, NULL, NULL, int64_type}, is_struct = {NULL, NULL, NULL, struct_type};
    static const PAIR pairs[] = {{"s", "\x01", &is_struct}, {"n", &seven, &is_int64}};
    static const CONTEXT context = {NULL, 0, pairs, 2};
    ETW_SESSION session;
    if (etw_session_start("2023", getenv("LOG_SINK_OUT"), &session) != 0 ||
        etw_session_enable(session, &provider, 5, 0, 0) != 0)
        return 1;
    for (uint32_t n = 0; n < log_sink_count; n++) {
        log_sinks[n]->log_sink_log(3, &context, "a.c", "f", -7, "%d-%s-%.1f", 1, "b", 0.5);
        log_sinks[n]->log_sink_log(1, NULL, "a.c", "f", -7, "plain");
    }
    return (int)etw_session_stop(session, NULL);
}
