/*
 * Logging to ETW for programs without c-logging: one macro, and contexts that are arrays of properties. The first log registers the provider.
 *
 *     int32_t status = 500;
 *     ETW_LOG(LOG_LEVEL_INFO, NULL, "started after %d ms", 12);
 *     LOG_CONTEXT_PROPERTY_VALUE_PAIR pairs[] = {
 *         ETW_LOG_STRUCT("request", 2),
 *         ETW_LOG_PROPERTY(int32_t, "status", &status),
 *         ETW_LOG_PROPERTY(ascii_char_ptr, "path", "/orders"),
 *     };
 *     LOG_CONTEXT request = ETW_LOG_CONTEXT(pairs);
 *     ETW_LOG(LOG_LEVEL_ERROR, &request, "failed");
 *
 * Part of openetw.
 */
#ifndef ETW_LOG_H
#define ETW_LOG_H

#define LOG_SINK_ETW_SELF_CONTAINED
#include "c_logging/log_sink_etw.h"

#define ETW_LOG_TYPE_(name)                                                                      \
    static inline LOG_CONTEXT_PROPERTY_TYPE etw_log_get_##name(void)                             \
    {                                                                                            \
        return LOG_CONTEXT_PROPERTY_TYPE_##name;                                                 \
    }                                                                                            \
    static const LOG_CONTEXT_PROPERTY_TYPE_IF etw_log_type_##name                                \
        __attribute__((unused)) = {NULL, NULL, NULL, etw_log_get_##name}

ETW_LOG_TYPE_(ascii_char_ptr);
ETW_LOG_TYPE_(bool);
ETW_LOG_TYPE_(int64_t);
ETW_LOG_TYPE_(uint64_t);
ETW_LOG_TYPE_(int32_t);
ETW_LOG_TYPE_(uint32_t);
ETW_LOG_TYPE_(int16_t);
ETW_LOG_TYPE_(uint16_t);
ETW_LOG_TYPE_(int8_t);
ETW_LOG_TYPE_(uint8_t);
ETW_LOG_TYPE_(struct);
ETW_LOG_TYPE_(wchar_t_ptr);

/* A property: its type (one of c-logging's), its name, and the address of its value (for a text, of its first character). */
#define ETW_LOG_PROPERTY(type, name, address) {name, (void *)(uintptr_t)(address), &etw_log_type_##type}

/* The start of a structure that contains the next COUNT pairs (a literal, 0 to 127). */
#define ETW_LOG_STRUCT(name, count) {name, (void *)(uintptr_t)&etw_log_counts[count], &etw_log_type_struct}

static const unsigned char etw_log_counts[128] __attribute__((unused)) = {
    0,   1,   2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  12,  13,  14,  15,  16,  17,  18,
    19,  20,  21,  22,  23,  24,  25,  26,  27,  28,  29,  30,  31,  32,  33,  34,  35,  36,  37,
    38,  39,  40,  41,  42,  43,  44,  45,  46,  47,  48,  49,  50,  51,  52,  53,  54,  55,  56,
    57,  58,  59,  60,  61,  62,  63,  64,  65,  66,  67,  68,  69,  70,  71,  72,  73,  74,  75,
    76,  77,  78,  79,  80,  81,  82,  83,  84,  85,  86,  87,  88,  89,  90,  91,  92,  93,  94,
    95,  96,  97,  98,  99,  100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113,
    114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127};

/* A context made of an array of pairs, which must live as long as the context. */
#define ETW_LOG_CONTEXT(pairs) {NULL, 0, pairs, (uint32_t)(sizeof(pairs) / sizeof(pairs)[0])}

#ifdef __GNUC__
__attribute__((format(printf, 6, 7)))
#endif
static inline void
etw_log(LOG_LEVEL level, LOG_CONTEXT_HANDLE context, const char *file, const char *func, int line,
        const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_sink_etw_auto.log(level, context, file, func, line, format, arguments);
    va_end(arguments);
}

/* The library's: the address of a number above the ETW levels of all records that sessions enabled; NULL before the first log. */
#ifdef __cplusplus
extern "C" {
#endif
extern const uint32_t *etw_log_sink_gate;
#ifdef __cplusplus
}
#endif

/* Whether a session may have enabled the level, without a call if none has. */
static inline int etw_log_may_be_enabled(LOG_LEVEL level)
{
    const uint32_t *gate = __atomic_load_n(&etw_log_sink_gate, __ATOMIC_ACQUIRE);
    return gate == NULL || (uint32_t)level > (uint32_t)LOG_LEVEL_VERBOSE ||
           (uint32_t)level + 1 < __atomic_load_n(gate, __ATOMIC_RELAXED);
}

/* Writes an event. The arguments behind LEVEL are evaluated only if a session may have enabled the level. */
#define ETW_LOG(level, context, ...)                                                              \
    __extension__({                                                                               \
        const LOG_LEVEL etw_log_level_ = (level);                                                 \
        if (__builtin_expect(etw_log_may_be_enabled(etw_log_level_), 0))                          \
            etw_log(etw_log_level_, context, __FILE__, __func__, __LINE__, __VA_ARGS__);          \
    })

#endif
