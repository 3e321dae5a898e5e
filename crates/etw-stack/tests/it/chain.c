/* Call chains of several shapes, compiled with and without frame pointers. */
#include <alloca.h>
#include <string.h>

typedef void (*callback)(void *);

volatile int sink;

/* The plain case. */
__attribute__((noinline)) int chain_plain(int depth, callback f, void *context)
{
    if (depth == 0) {
        f(context);
        return 0;
    }
    return chain_plain(depth - 1, f, context) + 1;
}

/* Uses all registers that calls preserve, rbp among them where it is no frame pointer. */
__attribute__((noinline)) int chain_registers(int depth, callback f, void *context)
{
    int a = depth * 3, b = depth * 5, c = depth * 7, d = depth ^ 9, e = depth | 0x55;
    sink = a + b;
    if (depth == 0)
        f(context);
    else
        a += chain_registers(depth - 1, f, context);
    sink = c;
    return a ^ b ^ c ^ d ^ e;
}

/* A frame whose size is known at run time only. */
__attribute__((noinline)) int chain_alloca(int depth, callback f, void *context)
{
    char *room = alloca(16 + depth * 24);
    memset(room, depth, 16 + depth * 24);
    if (depth == 0)
        f(context);
    else
        sink = chain_alloca(depth - 1, f, context);
    return room[depth & 15];
}

/* A frame at a multiple of 128: on x86-64 the CFA is an expression, or in another register. */
__attribute__((noinline)) int chain_aligned(int depth, callback f, void *context)
{
    _Alignas(128) volatile char room[256];
    room[depth & 255] = 1;
    if (depth == 0)
        f(context);
    else
        sink = chain_aligned(depth - 1, f, context);
    return room[3];
}

/* Both. */
__attribute__((noinline)) int chain_aligned_alloca(int depth, callback f, void *context)
{
    _Alignas(64) volatile char fixed[64];
    char *room = alloca(16 + depth * 40);
    fixed[depth & 63] = 2;
    memset(room, depth, 16 + depth * 40);
    if (depth == 0)
        f(context);
    else
        sink = chain_aligned_alloca(depth - 1, f, context);
    return room[depth & 15] + fixed[1];
}
