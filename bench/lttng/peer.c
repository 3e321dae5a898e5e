/*
 * LTTng-UST beside us: the same measurements as the examples `cost` and `rate` of crate `etw`, with the same event.
 *
 *   peer cost                   what an event costs, and how long single writes take
 *   peer rate THREADS RATE SEC  paced writers; prints what was written and whether the rate was held
 *
 * Prints one JSON object a figure. Sessions are the caller's: see xtask/src/bench/lttng.rs.
 */
#define _GNU_SOURCE
#define LTTNG_UST_TRACEPOINT_DEFINE
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#include "shop_tp.h"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *volatile text = "a text of thirty-two characters.";

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static __attribute__((noinline)) void event(int n, const char *s)
{
    lttng_ust_tracepoint(openetw_bench, event, n, s);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void figure(const char *name, double value, const char *unit)
{
    printf("{\"name\":\"%s\",\"value\":%.3f,\"unit\":\"%s\"}\n", name, value, unit);
}

enum { ROUNDS = 60, BURST = 20000, SINGLE = 300000 };

static double burst(void)
{
    double start = now();
    for (int n = 0; n < BURST; n++)
        event(n, text);
    return (now() - start) * 1e9 / BURST;
}

static void pause_ms(int ms)
{
    struct timespec t = {0, ms * 1000000L};
    nanosleep(&t, NULL);
}

static pthread_barrier_t gate;

static void *half(void *results)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&gate);
        ((double *)results)[round] = burst();
        pthread_barrier_wait(&gate);
        pause_ms(10);
    }
    return NULL;
}

static void cost(void)
{
    double one[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        one[round] = burst();
        pause_ms(10); /* The consumer empties the buffers outside of the measured time. */
    }
    qsort(one, ROUNDS, sizeof *one, compare);
    figure("enabled, one thread", one[ROUNDS / 4], "ns"); /* The same as in `cost`. */

    double two[2 * ROUNDS];
    pthread_t threads[2];
    pthread_barrier_init(&gate, NULL, 2);
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, half, two + i * ROUNDS);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    qsort(two, 2 * ROUNDS, sizeof(double), compare);
    figure("enabled, two threads, each", two[ROUNDS / 2], "ns");

    static double single[SINGLE];
    double own[1000];
    for (int i = 0; i < 1000; i++) {
        double start = now();
        own[i] = (now() - start) * 1e9;
    }
    qsort(own, 1000, sizeof *own, compare);
    for (int n = 0; n < SINGLE; n++) {
        double start = now();
        event(n, text);
        double time = (now() - start) * 1e9 - own[500];
        single[n] = time > 0 ? time : 0;
        for (double until = now() + 2e-6; now() < until;)
            ;
    }
    qsort(single, SINGLE, sizeof *single, compare);
    figure("latency p50", single[SINGLE / 2], "ns");
    figure("latency p99", single[(int)(SINGLE * 0.99)], "ns");
    figure("latency p99.9", single[(int)(SINGLE * 0.999)], "ns");
    figure("latency p99.99", single[(int)(SINGLE * 0.9999)], "ns");
}

struct paced {
    double start, share, seconds;
    uint64_t written;
    int late;
};

static void *write_paced(void *argument)
{
    struct paced *paced = argument;
    for (;;) {
        double elapsed = now() - paced->start;
        if (elapsed > paced->seconds) {
            uint64_t due = paced->seconds * paced->share;
            paced->late = due > paced->written + (uint64_t)(paced->share * 0.05);
            return NULL;
        }
        uint64_t due = elapsed * paced->share;
        uint64_t until = due < paced->written + 10000 ? due : paced->written + 10000;
        while (paced->written < until)
            event((int)paced->written++, text);
        if (paced->written >= due) {
            struct timespec t = {0, 50000};
            nanosleep(&t, NULL);
        }
    }
}

static void rate(int count, double rate, double seconds)
{
    struct paced paced[2];
    pthread_t threads[2];
    pause_ms(200); /* As our programs do: what was just started has its memory by then. */
    double start = now();
    for (int i = 0; i < count; i++) {
        paced[i] = (struct paced){start, rate / count, seconds, 0, 0};
        pthread_create(&threads[i], NULL, write_paced, &paced[i]);
    }
    uint64_t written = 0;
    int late = 0;
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        written += paced[i].written;
        late |= paced[i].late;
    }
    figure("written", (double)written, "events");
    figure("behind", late, "events");
    figure("seconds", now() - start, "s");
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "cost")) {
        cost();
        return 0;
    }
    int threads = argc == 5 && !strcmp(argv[1], "rate") ? atoi(argv[2]) : 0;
    if (threads < 1 || threads > 2) {
        fprintf(stderr, "usage: peer cost | peer rate 1|2 EVENTS_A_SECOND SECONDS\n");
        return 2;
    }
    rate(threads, atof(argv[3]), atof(argv[4]));
    return 0;
}
