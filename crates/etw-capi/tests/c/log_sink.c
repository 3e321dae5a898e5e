/* The log sink from C, recorded by a private session: LOG_SINK_OUT names its file. Compiled as C and as C++. */
#include <etw_log.h>
#include <etw_session.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <wchar.h>

#include "check.h"

static const GUID provider = {0xdad29f36, 0x0a48, 0x4def, {0x9d, 0x50, 0x8e, 0xf9, 0x03, 0x6b, 0x92, 0xb4}};

static void log_v(LOG_LEVEL level, LOG_CONTEXT_HANDLE context, const char *file, const char *func,
                  const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_sink_etw.log(level, context, file, func, -7, format, arguments);
    va_end(arguments);
}

/* Packs values as c-logging does: one behind the other, at odd addresses. */
static unsigned char packed[256];

static void *pack(const void *value, size_t size)
{
    static size_t used = 1;
    void *at = memcpy(packed + used, value, size);
    used += size;
    used |= 1;
    return at;
}

#define PACK(type, value) pack(&(type){value}, sizeof(type))

static void *racing(void *argument)
{
    (void)argument;
    for (int n = 0; n < 100; n++)
        etw_log(LOG_LEVEL_INFO, NULL, "race.c", "race", 1, "race %d", n);
    return NULL;
}

static LOG_CONTEXT_PROPERTY_TYPE seed_int64(void) { return (LOG_CONTEXT_PROPERTY_TYPE)2; }
static LOG_CONTEXT_PROPERTY_TYPE seed_struct(void) { return (LOG_CONTEXT_PROPERTY_TYPE)10; }
static LOG_CONTEXT_PROPERTY_TYPE seed_wide(void) { return (LOG_CONTEXT_PROPERTY_TYPE)12; }

/* Logs a message, with what snprintf makes of the same arguments in place of the file. */
#define LOG_FORMATTED(...)                                                    \
    do {                                                                      \
        char formatted[8192];                                                 \
        snprintf(formatted, sizeof formatted, __VA_ARGS__);                   \
        log_v(LOG_LEVEL_INFO, NULL, formatted, "formatted", __VA_ARGS__);     \
    } while (0)

static void log_formats(ETW_SESSION session)
{
    static char text[4200];
    const char *volatile null_text = NULL;
    void *volatile null_address = NULL;
    LOG_FORMATTED("100%% %%d%%");
    LOG_FORMATTED("%s|%s|%s", "", "a", "a longer text with more than thirty-two characters");
    LOG_FORMATTED("%d %i %d %d", INT_MIN, INT_MAX, 0, -1);
    LOG_FORMATTED("%u %u %lu %llu %zu", UINT_MAX, 10u, ULONG_MAX, ULLONG_MAX, SIZE_MAX);
    LOG_FORMATTED("%ld %li %lld %lli %zd", LONG_MIN, LONG_MAX, LLONG_MIN, LLONG_MAX, (ssize_t)-1);
    LOG_FORMATTED("%x %X %lx %llX %zx", 0xabcdu, 0xabcdu, 0xfedcba9876543210ul, 0xfedcba9876543210ull, (size_t)0);
    LOG_FORMATTED("%c%c %p %p", 'a', '%', (void *)text, null_address);
    LOG_FORMATTED("%s is no text", null_text);
    /* vsnprintf starts again with all arguments, whatever stands in front of the first conversion that only it knows. */
    LOG_FORMATTED("%s %d %5d|%-5d|%05d|%+d|% d", "a", 1, 2, 3, 4, 5, 6);
    LOG_FORMATTED("%d %#x %.3s %8s %*d", 1, 2u, "abcdef", "a", 4, 5);
    LOG_FORMATTED("%d %hd %hhd %lc %ls", 1, (short)-2, (signed char)-3, (wint_t)L'a', L"wide");
    LOG_FORMATTED("%d %.2f %jd %td", 1, 2.5, (intmax_t)-3, (ptrdiff_t)-4);
    /* Messages that just fit, and that are truncated. */
    memset(text, 't', sizeof text - 1);
    for (size_t size = 4040; size < 4100; size++) {
        text[size] = 0;
        LOG_FORMATTED("%s", text);
        LOG_FORMATTED("%s%d", text, 123456);
        LOG_FORMATTED("%s-------", text);
        text[size] = 't';
        /* Empties the pool. */
        CHECK_TRUE(etw_session_query(session, NULL, NULL) == 0);
    }
}

int main(void)
{
    ETW_SESSION session;
    ULONGLONG lost;
    pthread_t threads[8];
    CHECK_TRUE(sizeof(LOG_SINK_IF) == 24 && sizeof(LOG_CONTEXT_PROPERTY_VALUE_PAIR) == 24);
    CHECK_TRUE(sizeof(LOG_CONTEXT_PROPERTY_TYPE_IF) == 32 && offsetof(LOG_CONTEXT, property_value_pairs_ptr) == 16);
    CHECK_TRUE(offsetof(LOG_CONTEXT, property_value_pair_count) == 24 && sizeof(LOG_LEVEL) == 4);
    CHECK_TRUE(etw_session_start("log", getenv("LOG_SINK_OUT"), &session) == 0);
    CHECK_TRUE(etw_session_enable(session, &provider, 5, 0, 0) == 0);

    /* As in c-logging, a log before init writes nothing. */
    log_v(LOG_LEVEL_CRITICAL, NULL, "a.c", "f", "before init");

    /* Eight threads race for the first log of the form that registers by itself. */
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, racing, NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    CHECK_TRUE(log_sink_etw.init() != 0); /* The sink is registered. */
    CHECK_TRUE(etw_log_sink_set_provider(&provider, "other") == ERROR_INVALID_PARAMETER);
    CHECK_TRUE(etw_log_sink_set_channel(16) == ERROR_INVALID_PARAMETER);
    CHECK_TRUE(etw_log_sink_set_channel(0) == ERROR_INVALID_PARAMETER);

    for (int level = -1; level < 6; level++)
        log_v((LOG_LEVEL)level, NULL, "a.c", "f", "%s %d %.1f", "text", 42, 0.5);
    log_v(LOG_LEVEL_ERROR, NULL, NULL, NULL, "%s", "");
    log_v(LOG_LEVEL_ERROR, NULL, "a.c", "f", NULL);

    LOG_CONTEXT_PROPERTY_VALUE_PAIR pairs[] = {
        ETW_LOG_STRUCT("outer", 12),
        ETW_LOG_STRUCT("", 0),
        ETW_LOG_PROPERTY(ascii_char_ptr, "s", pack("text", 5)),
        ETW_LOG_PROPERTY(ascii_char_ptr, "null", NULL),
        ETW_LOG_PROPERTY(bool, "b", pack("\x01", 1)),
        ETW_LOG_PROPERTY(int64_t, "i64", pack("\xfe\xff\xff\xff\xff\xff\xff\xff", 8)),
        ETW_LOG_PROPERTY(uint64_t, "u64", pack("\xff\xff\xff\xff\xff\xff\xff\xff", 8)),
        ETW_LOG_PROPERTY(int32_t, "i32", pack("\xfd\xff\xff\xff", 4)),
        ETW_LOG_PROPERTY(uint32_t, "u32", pack("\x04\x03\x02\x01", 4)),
        ETW_LOG_PROPERTY(int16_t, "i16", pack("\xfc\xff", 2)),
        ETW_LOG_PROPERTY(uint16_t, "u16", pack("\x02\x01", 2)),
        ETW_LOG_PROPERTY(int8_t, "i8", pack("\xfb", 1)),
        ETW_LOG_PROPERTY(uint8_t, "u8", pack("\xc8", 1)),
        ETW_LOG_PROPERTY(wchar_t_ptr, "w", pack("\xfc\0\0\0\0\xf6\x01\0\0\0\0", 12)),
    };
    LOG_CONTEXT context = ETW_LOG_CONTEXT(pairs);
    log_v(LOG_LEVEL_INFO, &context, "a.c", "f", "x");

    /* With an unknown type, the event has no properties. */
    LOG_CONTEXT_PROPERTY_VALUE_PAIR unknown[] = {
        ETW_LOG_STRUCT("outer", 1), {"n", packed, NULL}};
    LOG_CONTEXT unknown_context = ETW_LOG_CONTEXT(unknown);
    log_v(LOG_LEVEL_INFO, &unknown_context, "a.c", "f", "x");

    /* An event keeps 64 properties; with 65 or 65,537 it has none. */
    static LOG_CONTEXT_PROPERTY_VALUE_PAIR many[65];
    for (int n = 0; n < 65; n++)
        many[n] = pairs[12];
    LOG_CONTEXT many_context = {NULL, 0, many, 64};
    log_v(LOG_LEVEL_INFO, &many_context, "a.c", "f", "x");
    many_context.property_value_pair_count = 65;
    log_v(LOG_LEVEL_INFO, &many_context, "a.c", "f", "x");
    many_context.property_value_pair_count = 65537;
    log_v(LOG_LEVEL_INFO, &many_context, "a.c", "f", "x");

    /* The form of 2023 has type numbers of its own. */
    LOG_CONTEXT_PROPERTY_TYPE_IF int64_type = {NULL, NULL, NULL, seed_int64};
    LOG_CONTEXT_PROPERTY_TYPE_IF struct_type = {NULL, NULL, NULL, seed_struct};
    LOG_CONTEXT_PROPERTY_TYPE_IF wide_type = {NULL, NULL, NULL, seed_wide};
    LOG_CONTEXT_PROPERTY_VALUE_PAIR seed[] = {
        {"s", (void *)(uintptr_t)"\x01", &struct_type}, {"n", pairs[5].value, &int64_type}};
    LOG_CONTEXT seed_context = ETW_LOG_CONTEXT(seed);
    log_sink_etw_seed.log_sink_log(LOG_LEVEL_INFO, &seed_context, "a.c", "f", -7, "%d-%s", 1, "b");
    seed[1].type = &wide_type; /* The form of 2023 does not know this type. */
    log_sink_etw_seed.log_sink_log(LOG_LEVEL_INFO, &seed_context, "a.c", "f", -7, "x");
    log_sink_etw_seed.log_sink_log(LOG_LEVEL_INFO, NULL, "a.c", "f", -7, NULL);

    /* A message that is too long is truncated at any byte. */
    static char text[9000];
    for (size_t n = 0; n + 2 < sizeof text; n += 2)
        memcpy(text + n, "\xc3\xbc", 2);
    log_v(LOG_LEVEL_VERBOSE, &context, "a.c", "f", "%s", text);

    int evaluated = 0;
    ETW_LOG(LOG_LEVEL_WARNING, NULL, "macro %d", ++evaluated);
    log_formats(session);

    log_sink_etw.deinit();
    log_v(LOG_LEVEL_CRITICAL, NULL, "a.c", "f", "after deinit");
    log_sink_etw.deinit(); /* Prints that the sink is not registered. */
    CHECK_TRUE(log_sink_etw.init() == 0);
    CHECK_TRUE(etw_session_stop(session, &lost) == 0 && lost == 0);

    /* The first log after init asks the library. The second one sees that no session is left, and its arguments are not evaluated. */
    ETW_LOG(LOG_LEVEL_CRITICAL, NULL, "nowhere %d", ++evaluated);
    ETW_LOG(LOG_LEVEL_CRITICAL, NULL, "nowhere %d", ++evaluated);
    CHECK_TRUE(evaluated == 2);
    return 0;
}
