/* The types of c-logging when its sinks had three members and a variadic log, and its property types no bool. Written for this test. */
#ifndef LOG_SINK_IF_H
#define LOG_SINK_IF_H
#include <stdint.h>

typedef enum LOG_LEVEL_TAG { LOG_LEVEL_CRITICAL, LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_VERBOSE } LOG_LEVEL;
typedef enum LOG_CONTEXT_PROPERTY_TYPE_TAG {
    LOG_CONTEXT_PROPERTY_TYPE_int64_t = 2,
    LOG_CONTEXT_PROPERTY_TYPE_struct = 10
} LOG_CONTEXT_PROPERTY_TYPE;
typedef struct {
    void *to_string, *copy, *free;
    LOG_CONTEXT_PROPERTY_TYPE (*get_type)(void);
} LOG_CONTEXT_PROPERTY_TYPE_IF;
typedef struct {
    const char *name;
    const void *value;
    const LOG_CONTEXT_PROPERTY_TYPE_IF *type;
} LOG_CONTEXT_PROPERTY_VALUE_PAIR;
typedef struct LOG_CONTEXT_TAG {
    uint8_t *values_data;
    uint32_t values_data_length;
    const LOG_CONTEXT_PROPERTY_VALUE_PAIR *pairs;
    uint32_t count;
} *LOG_CONTEXT_HANDLE;

typedef int (*LOG_SINK_INIT_FUNC)(void);
typedef void (*LOG_SINK_LOG_FUNC)(LOG_LEVEL log_level, LOG_CONTEXT_HANDLE log_context, const char *file, const char *func, int line,
                                  const char *message_format, ...);
typedef void (*LOG_SINK_DEINIT_FUNC)(void);
typedef struct LOG_SINK_IF_TAG {
    LOG_SINK_INIT_FUNC init;
    LOG_SINK_LOG_FUNC log;
    LOG_SINK_DEINIT_FUNC deinit;
} LOG_SINK_IF;

#endif
