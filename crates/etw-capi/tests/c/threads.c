/* Threads write while others start and stop sessions and registrations. THREADS_OUT names the file. Compiled as C and as C++. */
#define _DEFAULT_SOURCE
#include <TraceLoggingProvider.h>
#include <etw_session.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 300 };

TRACELOGGING_DEFINE_PROVIDER(Ours, "Test.Threads", (0x5d1e5b6a, 0x1c51, 0x4f0e, 0x9b, 0x1f, 1, 2, 3, 4, 5, 6));
static const GUID OurId = {0x5d1e5b6a, 0x1c51, 0x4f0e, {0x9b, 0x1f, 1, 2, 3, 4, 5, 6}};
static const GUID Classic = {0x5d1e5b6a, 0x1c51, 0x4f0e, {0x9b, 0x1f, 1, 2, 3, 4, 5, 7}};
static const GUID Passing = {0x5d1e5b6a, 0x1c51, 0x4f0e, {0x9b, 0x1f, 1, 2, 3, 4, 5, 8}};
static REGHANDLE classic;
static int writing = THREADS, changes;

static VOID NTAPI changed(LPCGUID source, ULONG is_enabled, UCHAR level, ULONGLONG any, ULONGLONG all,
                          PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    (void)source, (void)is_enabled, (void)level, (void)any, (void)all, (void)filter;
    __atomic_fetch_add((int *)context, 1, __ATOMIC_RELAXED);
}

/* The n-th event has a piece with n % 140 bytes of value n; each seventh event has an activity. */
static void *write_all(void *argument)
{
    const uint32_t thread = (uint32_t)(uintptr_t)argument;
    unsigned char bytes[140];
    for (uint32_t n = 0; n < ROUNDS; n++) {
        const EVENT_DESCRIPTOR d = {(USHORT)(thread + 1), 0, 0, 4, 0, 0, 2};
        EVENT_DATA_DESCRIPTOR data[3];
        const GUID id = {thread + 1, (uint16_t)n, 0, {0}};
        const ULONG size = n % sizeof bytes;
        memset(bytes, (int)n, size);
        EventDataDescCreate(&data[0], &n, sizeof n);
        EventDataDescCreate(&data[1], bytes, size);
        EventDataDescCreate(&data[2], &thread, sizeof thread);
        CHECK(EventWriteTransfer(classic, &d, n % 7 == 0 ? &id : NULL, n % 14 == 0 ? &OurId : NULL, 3, data),
              ERROR_SUCCESS);
        if (n % 7 == 0)
            TraceLoggingWriteActivity(Ours, "Tick", &id, NULL, TraceLoggingLevel(4), TraceLoggingUInt32(thread),
                                      TraceLoggingUInt32(n), TraceLoggingBinary(bytes, size));
        else
            TraceLoggingWrite(Ours, "Tick", TraceLoggingLevel(4), TraceLoggingUInt32(thread), TraceLoggingUInt32(n),
                              TraceLoggingBinary(bytes, size));
        if (n % 50 == 0)
            usleep(2000);
    }
    __atomic_fetch_sub(&writing, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Registers and unregisters. An old handle stays invalid after its slot has a new registration. */
static void *come_and_go(void *unused)
{
    const EVENT_DESCRIPTOR d = {1, 0, 0, 4, 0, 0, 2};
    REGHANDLE before = 0;
    while (__atomic_load_n(&writing, __ATOMIC_ACQUIRE) > 0) {
        REGHANDLE handle;
        CHECK(EventRegister(&Passing, changed, &changes, &handle), ERROR_SUCCESS);
        CHECK(EventWrite(handle, &d, 0, NULL), ERROR_SUCCESS);
        CHECK(EventWrite(before, &d, 0, NULL), ERROR_INVALID_HANDLE);
        CHECK(EventUnregister(before), ERROR_INVALID_HANDLE);
        CHECK(EventUnregister(handle), ERROR_SUCCESS);
        before = handle;
    }
    return unused;
}

int main(void)
{
    const char *out = getenv("THREADS_OUT");
    char other[4096];
    pthread_t threads[THREADS + 1];
    ETW_SESSION session, second;
    ULONGLONG lost = 99;
    CHECK(snprintf(other, sizeof other, "%s.other.etl", out) < (int)sizeof other, 1);
    CHECK(TraceLoggingRegisterEx(Ours, changed, &changes), ERROR_SUCCESS);
    CHECK(EventRegister(&Classic, NULL, NULL, &classic), ERROR_SUCCESS);
    CHECK(etw_session_start("threads", out, &session), ERROR_SUCCESS);
    CHECK(etw_session_enable(session, &OurId, 5, 0, 0), ERROR_SUCCESS);
    CHECK(etw_session_enable(session, &Classic, 5, 0, 0), ERROR_SUCCESS);
    for (uintptr_t n = 0; n < THREADS; n++)
        CHECK(pthread_create(&threads[n], NULL, write_all, (void *)n), 0);
    CHECK(pthread_create(&threads[THREADS], NULL, come_and_go, NULL), 0);
    do {
        CHECK(etw_session_start("other", other, &second), ERROR_SUCCESS);
        CHECK(etw_session_enable(second, &OurId, 5, 1, 0), ERROR_SUCCESS);
        CHECK(etw_session_enable(second, &Classic, 5, 0, 0), ERROR_SUCCESS);
        usleep(1000);
        CHECK(etw_session_stop(second, &lost), ERROR_SUCCESS);
        CHECK(lost, 0);
    } while (__atomic_load_n(&writing, __ATOMIC_ACQUIRE) > 0);
    for (int n = 0; n <= THREADS; n++)
        CHECK(pthread_join(threads[n], NULL), 0);
    CHECK(etw_session_stop(session, &lost), ERROR_SUCCESS);
    CHECK(lost, 0);
    CHECK(__atomic_load_n(&changes, __ATOMIC_RELAXED) > 0, 1);
    TraceLoggingUnregister(Ours);
    CHECK(EventUnregister(classic), ERROR_SUCCESS);
    return 0;
}
