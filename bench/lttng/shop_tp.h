/* The event that all peers write: an i32 and a text of 32 characters. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER openetw_bench
#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./shop_tp.h"
#if !defined(OPENETW_BENCH_TP_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define OPENETW_BENCH_TP_H
#include <lttng/tracepoint.h>
LTTNG_UST_TRACEPOINT_EVENT(
    openetw_bench, event,
    LTTNG_UST_TP_ARGS(int, number, const char *, text),
    LTTNG_UST_TP_FIELDS(lttng_ust_field_integer(int, n, number)
                        lttng_ust_field_string(text, text)))
#endif
#include <lttng/tracepoint-event.h>
