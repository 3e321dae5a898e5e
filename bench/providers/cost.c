/*
 * The cost of a manifest's event from C, by the macros that `etw mc` makes. One JSON object a figure.
 */
#include "../c/measure.h"
#include "bench.h"

__attribute__((noinline)) static void request_taken(int n)
{
    EventWriteRequestTaken(n, text);
}

static void one_event(int n)
{
    EventWriteRequestTaken(n, text);
}

__attribute__((noinline)) static double disabled_turn(void)
{
    return turns(one_event);
}

int main(void)
{
    static const ETW_SESSION_OPTIONS options = {sizeof options, 0, 0, 16384, 16384};
    ETW_SESSION session;
    ULONGLONG lost;
    double cost[2];
    if (!floor_start())
        return 2;
    if (EventRegisterOpenEtw_Bench_Manifest() != 0)
        return 1;
    double empty = empty_turn(), disabled = disabled_turn();
    figure("C: empty loop turn", empty, "ns");
    figure("C: manifest event, not enabled", disabled, "ns");
    figure("C: manifest event, not enabled / empty loop turn", disabled / empty, "x");
    stay_here();
    if (etw_session_start_ex("cost", NULL, &options, &session) != 0 || etw_session_enable(session, &BENCH_MANIFEST, 5, 0, 0) != 0)
        return 1;
    costs(session, PINNED_ROUNDS, PINNED_BURST, 2, (void (*const[])(int)){floor_write, request_taken}, cost);
    figure("C: floor", cost[0], "ns");
    figure("C: manifest event", cost[1], "ns");
    figure("C: manifest event / floor", cost[1] / cost[0], "x");
    if (etw_session_stop(session, &lost) != 0)
        return 1;
    figure("C: lost while measuring", (double)lost, "events");
    return 0;
}
