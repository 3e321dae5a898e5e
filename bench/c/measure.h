/*
 * What the measuring programs in C share: the clock, the form of a figure, bursts in turn, and the floor that events are compared with.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H
#define _GNU_SOURCE
#include <etw_session.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __x86_64__
#include <x86intrin.h>
#else
#define __rdtsc() 0
#endif

enum { BURST = 4000, ROUNDS = 200, MANY = 20000000, PINNED_BURST = 20000, PINNED_ROUNDS = 60 };

/* The text of the usual event, which also has a number. */
static const char *text = "a text of thirty-two characters.";

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void figure(const char *name, double value, const char *unit)
{
    printf("{\"name\":\"%s\",\"value\":%.3f,\"unit\":\"%s\"}\n", name, value, unit);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* First quartiles of many bursts, in turn. The session's pool holds a whole burst and is drained outside of the measured time. */
static void costs(ETW_SESSION session, int rounds, int burst, int kinds, void (*const of[])(int), double *cost)
{
    enum { KINDS = 5 };
    static double bursts[KINDS][ROUNDS];
    for (int round = 0; round < rounds; round++) {
        for (int kind = 0; kind < kinds; kind++) {
            void (*const one)(int) = of[kind];
            double start = now();
            for (int n = 0; n < burst; n++)
                one(n);
            bursts[kind][round] = (now() - start) / burst;
            etw_session_query(session, NULL, NULL);
        }
    }
    for (int kind = 0; kind < kinds; kind++) {
        qsort(bursts[kind], (size_t)rounds, sizeof bursts[kind][0], ascending);
        cost[kind] = bursts[kind][rounds / 4];
    }
}

/* Keeps all threads on this processor: writing to memory that another processor has read costs more, and nobody reads the floor's
 * memory. */
static void stay_here(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
}

/* Gate, clock, an 80-byte header, a number and a text of known length copied into 16 MiB without a reader, one release store. It begins
 * with a cache line and has no loop: by the place of its code in the program, another form took 12 to 17 ns. */
static uint64_t *memory;
static size_t at;
static uint64_t head, gate = 1;

__attribute__((noinline, aligned(64))) static void floor_write(int n)
{
    enum { HEADER = 80, TEXT = 32, SIZE = HEADER + sizeof n + TEXT, ROOM = (SIZE + 7) & ~7 };
    if (__atomic_load_n(&gate, __ATOMIC_RELAXED) == 0)
        return;
    if (at + ROOM > 16u << 20)
        at = 0;
    uint64_t *words = memory + at / 8;
    words[0] = SIZE;
    words[1] = 1;
    words[2] = __rdtsc();
    words[3] = 3;
    words[4] = 4;
    words[5] = 5;
    words[6] = 6;
    words[7] = 7;
    words[8] = 8;
    words[9] = 9;
    memcpy((char *)words + HEADER, &n, sizeof n);
    memcpy((char *)words + HEADER + sizeof n, text, TEXT);
    at += ROOM;
    __atomic_store_n(&head, at, __ATOMIC_RELEASE);
}

static inline bool floor_start(void)
{
    memory = malloc(16u << 20);
    if (memory == NULL)
        return false;
    memset(memory, 1, 16u << 20);
    return true;
}

/* Nanoseconds of one turn of a loop around `one`, which is inlined. */
static inline __attribute__((always_inline)) double turns(void (*const one)(int))
{
    double best = 1e9;
    for (int round = 0; round < 10; round++) {
        double start = now();
        for (int n = 0; n < MANY / 10; n++) {
            __asm__ volatile("" : "+r"(n) : : "memory");
            if (one != NULL)
                one(n);
        }
        double cost = (now() - start) / (MANY / 10);
        best = cost < best ? cost : best;
    }
    return best;
}

__attribute__((noinline)) static double empty_turn(void)
{
    return turns(NULL);
}

#endif
