/*
 * The ETW log sink, for systems other than Windows; link with -letw.
 *
 * With c-logging's headers in the path (log_sink_if.h), this header replaces its log_sink_etw.h. Without them it declares the types that the
 * sink needs, with c-logging's names and layouts, for programs that call the sink themselves: see etw_log.h.
 *
 * The first of these names the provider:
 *   - etw_log_sink_set_provider, before the first log;
 *   - LOG_SINK_ETW_PROVIDER_GUID and LOG_SINK_ETW_PROVIDER_NAME in the environment;
 *   - the macros of these names when the file that includes this header is compiled: for the GUID a list of 11 numbers in parentheses, as
 *     c-logging's build option log_sink_etw_provider_guid defines it, for the name a string;
 *   - the same variables when the library was built;
 *   - block_storage_2, DAD29F36-0A48-4DEF-9D50-8EF9036B92B4.
 *
 * This header also carries the size of the program's wchar_t (-fshort-wchar) to the library, for properties of type wchar_t_ptr. A program
 * that includes c-logging's own header instead has the platform's wchar_t.
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

/* As in c-logging: init registers the provider, and a log before init writes nothing. The library recognises c-logging of May 2023. */
extern const LOG_SINK_IF log_sink_etw;

#if defined(LOG_SINK_ETW_HAS_C_LOGGING) && !defined(__cplusplus)
/* For a while, c-logging's sinks had three members and a variadic log. The type of log in its headers selects the sink of that form. */
extern const LOG_SINK_IF log_sink_etw_variadic;
#define log_sink_etw                                                                                                                     \
    __builtin_choose_expr(                                                                                                               \
        sizeof(LOG_SINK_IF) == 3 * sizeof(void *) &&                                                                                     \
            __builtin_types_compatible_p(LOG_SINK_LOG_FUNC, void (*)(LOG_LEVEL, LOG_CONTEXT_HANDLE, const char *, const char *, int,     \
                                                                     const char *, ...)),                                                \
        log_sink_etw_variadic, log_sink_etw)
#endif

/* The same, but the first log registers the provider, too. */
extern const LOG_SINK_IF log_sink_etw_auto;

/* The interface of May 2023: one variadic function, and property types with its numbers (no bool, no wchar_t_ptr). */
typedef struct LOG_SINK_IF_SEED_TAG {
    void (*log_sink_log)(LOG_LEVEL log_level, LOG_CONTEXT_HANDLE log_context, const char *file,
                         const char *func, int line, const char *message_format, ...);
} LOG_SINK_IF_SEED;

extern const LOG_SINK_IF_SEED log_sink_etw_seed;

struct _GUID;
/* Sets the provider, before the first log. Returns 0, or ERROR_INVALID_PARAMETER if the sink is registered. */
uint32_t etw_log_sink_set_provider(const struct _GUID *provider, const char *name);

/*
 * Sets the channel of all events, before the first log, by its value in a manifest of the provider (16 and higher); LOG_SINK_ETW_CHANNEL in
 * the environment does the same. If the manifest is installed, a host keeps the events in the channel's event log, without a session.
 * Returns 0, or ERROR_INVALID_PARAMETER if the sink is registered or the channel is 0.
 */
uint32_t etw_log_sink_set_channel(uint8_t channel);

/* The library reads these settings of the program's compilation. */
#define ETW_LOG_SINK_SETTING_ __attribute__((weak, visibility("default")))
extern const uint32_t etw_log_sink_wchar_size ETW_LOG_SINK_SETTING_;
const uint32_t etw_log_sink_wchar_size = sizeof(wchar_t);
/* Without the type bool, which c-logging's first versions do not have, the numbers of types are lower by one. */
extern const uint32_t etw_log_sink_struct_type ETW_LOG_SINK_SETTING_;
const uint32_t etw_log_sink_struct_type = LOG_CONTEXT_PROPERTY_TYPE_struct;
#ifdef LOG_SINK_ETW_PROVIDER_GUID
struct etw_log_sink_guid {
    uint32_t data1;
    uint16_t data2, data3;
    uint8_t data4[8];
};
#define ETW_LOG_SINK_GUID_(l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8) \
    {l, w1, w2, {b1, b2, b3, b4, b5, b6, b7, b8}}
#define ETW_LOG_SINK_GUID_OF_(list) ETW_LOG_SINK_GUID_ list
extern const struct etw_log_sink_guid etw_log_sink_provider_id ETW_LOG_SINK_SETTING_;
const struct etw_log_sink_guid etw_log_sink_provider_id = ETW_LOG_SINK_GUID_OF_(LOG_SINK_ETW_PROVIDER_GUID);
#endif
#ifdef LOG_SINK_ETW_PROVIDER_NAME
extern const char etw_log_sink_provider_name[] ETW_LOG_SINK_SETTING_;
const char etw_log_sink_provider_name[] = LOG_SINK_ETW_PROVIDER_NAME;
#endif

#ifdef __cplusplus
}
#endif

#endif
