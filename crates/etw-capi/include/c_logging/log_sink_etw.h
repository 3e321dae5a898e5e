/*
 * The ETW log sink, for other systems than Windows; link with -letw.
 *
 * With c-logging's headers on the path (log_sink_if.h is looked for) this is what its own log_sink_etw.h is. Without them the types
 * that the sink needs are declared here, with c-logging's names and layouts, so that a program can call log_sink_etw by itself:
 * see etw_log.h.
 *
 * The provider is block_storage_2, DAD29F36-0A48-4DEF-9D50-8EF9036B92B4, unless LOG_SINK_ETW_PROVIDER_GUID and
 * LOG_SINK_ETW_PROVIDER_NAME in the environment say another one, or etw_log_sink_set_provider before the first log, or the
 * same variables when the library was built.
 *
 * Part of openetw.
 */
#ifndef LOG_SINK_ETW_H
#define LOG_SINK_ETW_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__has_include) && !defined(LOG_SINK_ETW_SELF_CONTAINED)
#if __has_include("c_logging/log_sink_if.h")
#include "c_logging/log_sink_if.h"
#define LOG_SINK_ETW_HAS_C_LOGGING 1
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef LOG_SINK_ETW_HAS_C_LOGGING

typedef enum LOG_LEVEL_TAG {
    LOG_LEVEL_CRITICAL,
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARNING,
    LOG_LEVEL_INFO,
    LOG_LEVEL_VERBOSE
} LOG_LEVEL;

typedef enum LOG_CONTEXT_PROPERTY_TYPE_TAG {
    LOG_CONTEXT_PROPERTY_TYPE_INVALID,
    LOG_CONTEXT_PROPERTY_TYPE_ascii_char_ptr,
    LOG_CONTEXT_PROPERTY_TYPE_bool,
    LOG_CONTEXT_PROPERTY_TYPE_int64_t,
    LOG_CONTEXT_PROPERTY_TYPE_uint64_t,
    LOG_CONTEXT_PROPERTY_TYPE_int32_t,
    LOG_CONTEXT_PROPERTY_TYPE_uint32_t,
    LOG_CONTEXT_PROPERTY_TYPE_int16_t,
    LOG_CONTEXT_PROPERTY_TYPE_uint16_t,
    LOG_CONTEXT_PROPERTY_TYPE_int8_t,
    LOG_CONTEXT_PROPERTY_TYPE_uint8_t,
    LOG_CONTEXT_PROPERTY_TYPE_struct,
    LOG_CONTEXT_PROPERTY_TYPE_wchar_t_ptr
} LOG_CONTEXT_PROPERTY_TYPE;

typedef struct LOG_CONTEXT_PROPERTY_TYPE_IF_TAG {
    int (*to_string)(const void *property_value, char *buffer, size_t buffer_length);
    int (*copy)(void *dst_value, const void *src_value);
    void (*free)(void *value);
    LOG_CONTEXT_PROPERTY_TYPE (*get_type)(void);
} LOG_CONTEXT_PROPERTY_TYPE_IF;

typedef struct LOG_CONTEXT_PROPERTY_VALUE_PAIR_TAG {
    const char *name;
    void *value;
    const LOG_CONTEXT_PROPERTY_TYPE_IF *type;
} LOG_CONTEXT_PROPERTY_VALUE_PAIR;

typedef struct LOG_CONTEXT_TAG {
    uint8_t *values_data;
    uint32_t values_data_length;
    LOG_CONTEXT_PROPERTY_VALUE_PAIR *property_value_pairs_ptr;
    uint32_t property_value_pair_count;
} LOG_CONTEXT, *LOG_CONTEXT_HANDLE;

typedef struct LOG_SINK_IF_TAG {
    int (*init)(void);
    void (*log)(LOG_LEVEL log_level, LOG_CONTEXT_HANDLE log_context, const char *file,
                const char *func, int line, const char *message_format, va_list args);
    void (*deinit)(void);
} LOG_SINK_IF;

#endif

extern const LOG_SINK_IF log_sink_etw;

/* The interface of May 2023: one variadic function, and property types with its numbers (no bool, no wchar_t_ptr). */
typedef struct LOG_SINK_IF_SEED_TAG {
    void (*log_sink_log)(LOG_LEVEL log_level, LOG_CONTEXT_HANDLE log_context, const char *file,
                         const char *func, int line, const char *message_format, ...);
} LOG_SINK_IF_SEED;

extern const LOG_SINK_IF_SEED log_sink_etw_seed;

struct _GUID;
/* Another provider; before the first log. 0, or ERROR_INVALID_PARAMETER where it is registered already. */
uint32_t etw_log_sink_set_provider(const struct _GUID *provider, const char *name);

#ifdef __cplusplus
}
#endif

#endif
