/*
 * TraceMessageVa, whose va_list only C can read, and TraceMessage where src/classic.rs does not find its variable arguments by itself. The
 * arguments are pairs of an address and a size_t; an address of NULL ends them.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* One more than a message may have, so that too many are noticed. */
    MOST_ARGUMENTS = 129,
};

/* src/classic.rs has the same structure. */
struct argument {
    const void *data;
    size_t size;
};

/* src/classic.rs defines it. */
extern uint32_t etw_classic_message(uint64_t logger, uint64_t flags_and_number, const void *id,
                                    const struct argument *others, const void *first, size_t first_size);

/*
 * The message's number is a USHORT, so the upper half of its register is undefined. It is declared wider here, because the last named
 * parameter of a variadic function must not have a type that is promoted.
 */

/* A shared library exports only Rust's symbols. Those jump to these functions. */
#if defined(__x86_64__) || defined(__aarch64__)
#define TraceMessage etw_classic_message_variadic
#define TraceMessageVa etw_classic_message_va
#endif

uint32_t TraceMessageVa(uint64_t logger, uint32_t flags, const void *id, uint32_t number,
                        va_list list)
{
    struct argument arguments[MOST_ARGUMENTS + 1];
    uint32_t count = 0;
    const void *data;
    while (count < MOST_ARGUMENTS && (data = va_arg(list, const void *)) != NULL) {
        arguments[count].data = data;
        arguments[count].size = va_arg(list, size_t);
        count++;
    }
    arguments[count].data = NULL;
    arguments[count].size = 0;
    return etw_classic_message(logger, (uint64_t)(uint16_t)number << 32 | flags, id, arguments + 1, arguments[0].data,
                               arguments[0].size);
}

uint32_t TraceMessage(uint64_t logger, uint32_t flags, const void *id, uint32_t number, ...)
{
    va_list list;
    uint32_t status;
    va_start(list, number);
    status = TraceMessageVa(logger, flags, id, number, list);
    va_end(list);
    return status;
}
