/*
 * The parts of the log sink that Rust cannot express: va_list, variadic functions, and weak symbols, by which the program may have c-logging
 * or settings of its compilation, or neither.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

/* The form of the caller's contexts. src/log_sink.rs has the same structure. */
struct form {
    int is_seed;
    uint32_t wchar_size;
};

/* src/log_sink.rs defines these. */
extern const uint32_t *etw_log_sink_gate;
extern int etw_log_sink_wants(uint32_t level, int registers);
extern int etw_log_sink_init(void);
extern void etw_log_sink_failed(void);
extern void etw_log_sink_emit(uint32_t level, const void *pairs, uint32_t count, const struct form *form,
                              const char *file, const char *func, int line, char *message, size_t length,
                              size_t capacity);

enum {
    /* The longest message of an event is shorter, so this buffer truncates nothing that the event would keep. */
    MESSAGE_SIZE = 4096,
    /* Memory behind the message, for the rest of the event. Events with more values cost more. */
    BEHIND = 1024,
    /* Levels that c-logging has, all of which the gate knows. */
    LEVELS = 5,
};

extern uint32_t log_context_get_property_value_pair_count(const void *context)
    __attribute__((weak));
extern const void *log_context_get_property_value_pairs(const void *context) __attribute__((weak));

/* c-logging of May 2023 has these and no logger_init. */
extern const uint32_t log_sink_count __attribute__((weak));
extern int logger_init(void) __attribute__((weak));
/* Since c-logging gives sinks a va_list, its logger has this variadic function. */
extern void logger_log(void) __attribute__((weak));

/* log_sink_etw.h defines these in the program. */
extern const uint32_t etw_log_sink_wchar_size __attribute__((weak));
extern const uint32_t etw_log_sink_struct_type __attribute__((weak));
extern const unsigned char etw_log_sink_provider_id[16] __attribute__((weak));
extern const char etw_log_sink_provider_name[] __attribute__((weak));

/* The provider of the program's compilation, or NULL. */
const void *etw_log_sink_program_id(void) { return etw_log_sink_provider_id; }
const char *etw_log_sink_program_name(void) { return etw_log_sink_provider_name; }

/* The size of the program's wchar_t. A program that has not included log_sink_etw.h has that of the platform. */
static uint32_t wchar_size(void)
{
    return &etw_log_sink_wchar_size != NULL ? etw_log_sink_wchar_size : (uint32_t)sizeof(wchar_t);
}

/* Whether the sinks of the program's c-logging are variadic and have three members. Such a program has to include log_sink_etw.h. */
static int has_variadic_sinks(void)
{
    return &log_sink_count != NULL && logger_init != NULL && logger_log == NULL;
}

/* The start of c-logging's LOG_CONTEXT, for programs that have contexts and not c-logging's functions. */
struct context {
    uint8_t *values_data;
    uint32_t values_data_length;
    const void *pairs;
    uint32_t pair_count;
};

/* Whether a session enabled the level. The gate shows it without a call; etw_log_sink_emit looks once more. */
static inline int wants(uint32_t level, int registers)
{
    const uint32_t *gate = __atomic_load_n(&etw_log_sink_gate, __ATOMIC_ACQUIRE);
    if (gate != NULL && level < LEVELS)
        return level + 1 < __atomic_load_n(gate, __ATOMIC_RELAXED);
    return etw_log_sink_wants(level, registers);
}

/* The size of an argument: 'l' for long, 'q' for long long, 'z' for size_t, 0 for int. */
static inline uint64_t take_signed(char size, va_list *arguments)
{
    switch (size) {
    case 'l': return (uint64_t)va_arg(*arguments, long);
    case 'q': return (uint64_t)va_arg(*arguments, long long);
    case 'z': return (uint64_t)va_arg(*arguments, ptrdiff_t);
    default: return (uint64_t)va_arg(*arguments, int);
    }
}

static inline uint64_t take_unsigned(char size, va_list *arguments)
{
    switch (size) {
    case 'l': return va_arg(*arguments, unsigned long);
    case 'q': return va_arg(*arguments, unsigned long long);
    case 'z': return va_arg(*arguments, size_t);
    default: return va_arg(*arguments, unsigned);
    }
}

/* Puts a number, which has up to 20 digits; returns the end. Inlined, so that the base is a constant. */
static inline __attribute__((always_inline)) char *put_number(char *to, uint64_t number, unsigned base, const char *digits)
{
    char reversed[20];
    unsigned count = 0;
    do {
        reversed[count++] = digits[number % base];
        number /= base;
    } while (number != 0);
    while (count != 0)
        *to++ = reversed[--count];
    return to;
}

/*
 * Does what vsnprintf does, in a fifth of its time, for formats with the usual conversions alone: texts, characters, pointers, and whole
 * numbers of int, long, long long and size_t, without flags, width and precision. -1: the format has another conversion, or the message
 * does not fit; vsnprintf has to format it, and the arguments are used up.
 */
static int format_plain(char *start, size_t size, const char *format, va_list *arguments)
{
    enum { LONGEST_NUMBER = 21 };
    char *to = start, *const end = start + size - 1;
    for (;;) {
        char c, of = 0;
        for (; (c = *format) != '%'; format++) {
            if (c == 0) {
                *to = 0;
                return (int)(to - start);
            }
            if (to == end)
                return -1;
            *to++ = c;
        }
        c = *++format;
        if (c == 'l' || c == 'z') {
            of = c;
            c = *++format;
            if (c == 'l' && of == 'l') {
                of = 'q';
                c = *++format;
            }
        }
        if (end - to < LONGEST_NUMBER)
            return -1;
        switch (c) {
        case 's': {
            const char *text = of == 0 ? va_arg(*arguments, const char *) : NULL;
            size_t length;
            if (text == NULL)
                return -1;
            length = strlen(text);
            if (length > (size_t)(end - to))
                return -1;
            memcpy(to, text, length);
            to += length;
            break;
        }
        case 'd':
        case 'i':
        case 'u': {
            uint64_t number = c == 'u' ? take_unsigned(of, arguments) : take_signed(of, arguments);
            if (c != 'u' && (int64_t)number < 0) {
                *to++ = '-';
                number = 0 - number;
            }
            to = put_number(to, number, 10, "0123456789");
            break;
        }
        case 'x':
        case 'X':
            to = put_number(to, take_unsigned(of, arguments), 16, c == 'x' ? "0123456789abcdef" : "0123456789ABCDEF");
            break;
        case 'c':
            if (of != 0)
                return -1;
            *to++ = (char)va_arg(*arguments, int);
            break;
#ifdef __GLIBC__
        case 'p': {
            const uintptr_t address = (uintptr_t)va_arg(*arguments, void *);
            if (address == 0 || of != 0)
                return -1;
            *to++ = '0';
            *to++ = 'x';
            to = put_number(to, address, 16, "0123456789abcdef");
            break;
        }
#endif
        case '%':
            if (of != 0)
                return -1;
            *to++ = '%';
            break;
        default: return -1;
        }
        format++;
    }
}

/* Formats a message as vsnprintf does. */
static inline int format_message(char *message, size_t size, const char *format, va_list arguments)
{
    va_list copy;
    int length;
    va_copy(copy, arguments);
    length = format_plain(message, size, format, &copy);
    va_end(copy);
    return length >= 0 ? length : vsnprintf(message, size, format, arguments);
}

static inline __attribute__((always_inline)) void emit_form(int is_seed, uint32_t level, const void *context, const char *file,
                                                            const char *func, int line, const char *format, va_list arguments)
{
    const struct form form = {is_seed, wchar_size()};
    char message[MESSAGE_SIZE + BEHIND];
    const void *pairs = NULL;
    uint32_t count = 0;
    int length = format_message(message, MESSAGE_SIZE, format, arguments);
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
    if (length >= MESSAGE_SIZE)
        length = MESSAGE_SIZE - 1;
    etw_log_sink_emit(level, pairs, count, &form, file, func, line, message, (size_t)length, sizeof message);
}

/* With the parameters of log, which then only jumps here. */
__attribute__((noinline)) static void emit(uint32_t level, const void *context, const char *file, const char *func, int line,
                                           const char *format, va_list arguments)
{
    emit_form(0, level, context, file, func, line, format, arguments);
}

/* The same, for contexts of May 2023. */
__attribute__((noinline)) static void emit_seed(uint32_t level, const void *context, const char *file, const char *func, int line,
                                                const char *format, va_list arguments)
{
    emit_form(1, level, context, file, func, line, format, arguments);
}

/* Where the gate does not decide. Functions of their own, so that log saves no registers for a call. */
__attribute__((noinline)) static void log_ungated(uint32_t level, const void *context, const char *file, const char *func, int line,
                                                  const char *format, va_list arguments)
{
    if (etw_log_sink_wants(level, 0))
        emit(level, context, file, func, line, format, arguments);
}

__attribute__((noinline)) static void auto_log_ungated(uint32_t level, const void *context, const char *file, const char *func, int line,
                                                       const char *format, va_list arguments)
{
    if (etw_log_sink_wants(level, 1))
        emit(level, context, file, func, line, format, arguments);
}

/* Today's form: as in c-logging, a log before init writes nothing. */
void etw_log_sink_log(uint32_t level, const void *context, const char *file, const char *func,
                      int line, const char *format, va_list arguments)
{
    const uint32_t *gate = __atomic_load_n(&etw_log_sink_gate, __ATOMIC_ACQUIRE);
    if (format == NULL)
        return;
    if (gate == NULL || level >= LEVELS)
        log_ungated(level, context, file, func, line, format, arguments);
    else if (level + 1 < __atomic_load_n(gate, __ATOMIC_RELAXED))
        emit(level, context, file, func, line, format, arguments);
}

/* The same, and the first log registers. */
void etw_log_sink_auto_log(uint32_t level, const void *context, const char *file, const char *func,
                           int line, const char *format, va_list arguments)
{
    const uint32_t *gate = __atomic_load_n(&etw_log_sink_gate, __ATOMIC_ACQUIRE);
    if (format == NULL)
        return;
    if (gate == NULL || level >= LEVELS)
        auto_log_ungated(level, context, file, func, line, format, arguments);
    else if (level + 1 < __atomic_load_n(gate, __ATOMIC_RELAXED))
        emit(level, context, file, func, line, format, arguments);
}

/* The variadic form with three members: as in today's form, a log before init writes nothing. */
void etw_log_sink_variadic_log(uint32_t level, const void *context, const char *file, const char *func,
                               int line, const char *format, ...)
{
    const int has_no_bool = &etw_log_sink_struct_type == NULL || etw_log_sink_struct_type == 10;
    va_list arguments;
    if (format == NULL || !wants(level, 0))
        return;
    va_start(arguments, format);
    (has_no_bool ? emit_seed : emit)(level, context, file, func, line, format, arguments);
    va_end(arguments);
}

static void seed_log(uint32_t level, const void *context, const char *file, const char *func, int line,
                     const char *format, va_list arguments)
{
    if (format == NULL || !wants(level, 1))
        return;
    emit_seed(level, context, file, func, line, format, arguments);
}

/* The form of May 2023: variadic, and the first log registers. */
void etw_log_sink_seed_log(uint32_t level, const void *context, const char *file, const char *func,
                           int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    seed_log(level, context, file, func, line, format, arguments);
    va_end(arguments);
}

/*
 * The first member of log_sink_etw: init today, and the variadic log of May 2023, whose structure has no other member. A program with
 * c-logging of that time has sinks and no logger_init; only then are the parameters read.
 */
int etw_log_sink_init_or_log(uint32_t level, const void *context, const char *file, const char *func,
                             int line, const char *format, ...)
{
    va_list arguments;
    if (has_variadic_sinks() && &etw_log_sink_struct_type == NULL) {
        fputs("log_sink_etw: this c-logging calls log with variable arguments: compile it with -I for libetw's headers first, so that its "
              "configuration of sinks includes libetw's c_logging/log_sink_etw.h\n",
              stderr);
        return 1;
    }
    if (&log_sink_count == NULL || logger_init != NULL)
        return etw_log_sink_init();
    va_start(arguments, format);
    seed_log(level, context, file, func, line, format, arguments);
    va_end(arguments);
    return 0;
}
