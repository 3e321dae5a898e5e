/*
 * The log sink's side that only C can have: va_list, variadic arguments, and c-logging's functions, which a program that does not
 * use c-logging lacks.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

/* In Rust. */
extern const uint32_t *etw_log_sink_gate;
extern int etw_log_sink_wants(uint32_t level);
extern void etw_log_sink_failed(void);
extern void etw_log_sink_emit(uint32_t level, const void *pairs, uint32_t count, int is_seed,
                              const char *file, const char *func, int line, const char *message,
                              size_t length);

extern uint32_t log_context_get_property_value_pair_count(const void *context)
    __attribute__((weak));
extern const void *log_context_get_property_value_pairs(const void *context) __attribute__((weak));

/* LOG_CONTEXT of c-logging, as far as it is looked at where its own functions are not there. */
struct context {
    uint8_t *values_data;
    uint32_t values_data_length;
    const void *pairs;
    uint32_t pair_count;
};

/* Nobody listens: known without a call. */
static inline int wants(uint32_t level)
{
    const uint32_t *gate = __atomic_load_n(&etw_log_sink_gate, __ATOMIC_ACQUIRE);
    if (gate != NULL && level < 5 && level + 1 >= __atomic_load_n(gate, __ATOMIC_RELAXED))
        return 0;
    return etw_log_sink_wants(level);
}

__attribute__((noinline)) static void emit(uint32_t level, const void *context, int is_seed, const char *file,
                 const char *func, int line, const char *format, va_list arguments)
{
    /* Longer than the longest message of an event: what is cut here would be cut there. */
    char message[4096];
    const void *pairs = NULL;
    uint32_t count = 0;
    int length = vsnprintf(message, sizeof message, format, arguments);
    if (length < 0) {
        etw_log_sink_failed();
        return;
    }
    if (context != NULL && log_context_get_property_value_pair_count != NULL &&
        log_context_get_property_value_pairs != NULL) {
        count = log_context_get_property_value_pair_count(context);
        pairs = log_context_get_property_value_pairs(context);
    } else if (context != NULL) {
        pairs = ((const struct context *)context)->pairs;
        count = ((const struct context *)context)->pair_count;
    }
    if ((size_t)length >= sizeof message)
        length = sizeof message - 1;
    etw_log_sink_emit(level, pairs, count, is_seed, file, func, line, message, (size_t)length);
}

void etw_log_sink_log(uint32_t level, const void *context, const char *file, const char *func,
                      int line, const char *format, va_list arguments)
{
    if (format == NULL || !wants(level))
        return;
    emit(level, context, 0, file, func, line, format, arguments);
}

void etw_log_sink_seed_log(uint32_t level, const void *context, const char *file, const char *func,
                           int line, const char *format, ...)
{
    if (format == NULL || !wants(level))
        return;
    va_list arguments;
    va_start(arguments, format);
    emit(level, context, 1, file, func, line, format, arguments);
    va_end(arguments);
}
