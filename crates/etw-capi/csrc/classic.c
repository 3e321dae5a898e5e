/*
 * TraceMessage and TraceMessageVa: variadic functions, which only C can have. Their arguments are pairs of an address and a size_t, up to
 * an address that is NULL.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MOST_ARGUMENTS = 128,
    INVALID_PARAMETER = 87,
};

struct argument {
    const void *data;
    size_t size;
};

/* In Rust. 0, or why no message can be written. */
extern uint32_t etw_classic_message_status(uint64_t logger, uint32_t flags, const void *id);
extern uint32_t etw_classic_message_write(uint64_t logger, uint32_t flags, const void *id,
                                          uint16_t number, const struct argument *arguments,
                                          uint32_t count);

/*
 * The message's number is a USHORT, of which the upper half of its register says nothing. (The last named parameter of a variadic function
 * must not be one that is promoted.)
 */

/* Of a shared library only symbols of Rust's are seen outside: there these jump here. */
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
        arguments[count].data = data;
        arguments[count].size = va_arg(list, size_t);
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
