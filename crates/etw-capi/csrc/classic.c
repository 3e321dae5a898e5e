/*
 * TraceMessage and TraceMessageVa, which are variadic, so that C has to define them. Their arguments are pairs of an address and a size_t;
 * an address of NULL ends them.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MOST_ARGUMENTS = 128,
    INVALID_PARAMETER = 87,
    /* No event is so large, and no sum of arguments of this size overflows. */
    TOO_LARGE = 1 << 24,
};

/* EVENT_DATA_DESCRIPTOR: a piece of the payload. */
struct argument {
    uint64_t data;
    uint32_t size;
    uint32_t kind;
};

/* Rust defines it. Returns 0, or the status of a message that cannot be written. */
extern uint32_t etw_classic_message_status(uint64_t logger, uint32_t flags, const void *id);
extern uint32_t etw_classic_message_write(uint64_t logger, uint32_t flags, const void *id,
                                          uint16_t number, const struct argument *arguments,
                                          uint32_t count);

/*
 * The message's number is a USHORT, so the upper half of its register is undefined. It is declared wider here, because the last named
 * parameter of a variadic function must not have a type that is promoted.
 */

/* A shared library exports only Rust's symbols. Those jump to these functions. */
#if defined(__x86_64__) || defined(__aarch64__)
#define TraceMessage etw_classic_message
#define TraceMessageVa etw_classic_message_va
#endif

uint32_t TraceMessageVa(uint64_t logger, uint32_t flags, const void *id, uint32_t number,
                        va_list list)
{
    struct argument arguments[MOST_ARGUMENTS];
    uint32_t count = 0;
    uint32_t status = etw_classic_message_status(logger, flags, id);
    if (status != 0)
        return status;
    for (;;) {
        const void *data = va_arg(list, const void *);
        if (data == NULL)
            break;
        if (count == MOST_ARGUMENTS)
            return INVALID_PARAMETER;
        size_t size = va_arg(list, size_t);
        arguments[count].data = (uintptr_t)data;
        arguments[count].size = size < TOO_LARGE ? (uint32_t)size : TOO_LARGE;
        arguments[count].kind = 0;
        count++;
    }
    return etw_classic_message_write(logger, flags, id, (uint16_t)number, arguments, count);
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
