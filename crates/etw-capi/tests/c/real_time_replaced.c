/* A consumer of a real-time session, which also writes its events until standard input ends. For each byte of standard input it prints the
   number of the next event that it writes, and of the next one that it expects, so that the test can kill the worker of the host between
   events. ETW_BURST is the number of events between two pauses of a millisecond. Compiled as C and as C++. */
#ifndef _GNU_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#define INITGUID
#include <evntcons.h>
#include <evntprov.h>
#include <evntrace.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

DEFINE_GUID(ProviderGuid, 0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 11);

static ULONG seen, lost, next, doubles, status;
static TRACEHANDLE trace;

static void pause_ms(long ms)
{
    struct timespec pause;
    pause.tv_sec = ms / 1000;
    pause.tv_nsec = ms % 1000 * 1000000;
    nanosleep(&pause, NULL);
}

static VOID WINAPI on_event(PEVENT_RECORD event)
{
    ULONG number;
    if (memcmp(&event->EventHeader.ProviderId, &ProviderGuid, sizeof(GUID)) != 0)
        return;
    memcpy(&number, event->UserData, sizeof number);
    doubles += number < next;
    __atomic_store_n(&next, number + 1, __ATOMIC_RELAXED);
    seen++;
}

static ULONG WINAPI on_buffer(PEVENT_TRACE_LOGFILEA logfile)
{
    lost = logfile->LogfileHeader.EventsLost;
    return TRUE;
}

static void *consume(void *context)
{
    status = ProcessTrace(&trace, 1, NULL, NULL);
    return context;
}

int main(void)
{
    static struct {
        EVENT_TRACE_PROPERTIES p;
        char name[64];
    } all;
    EVENT_TRACE_LOGFILEA logfile;
    EVENT_DESCRIPTOR descriptor;
    EVENT_DATA_DESCRIPTOR data;
    TRACEHANDLE session;
    REGHANDLE provider;
    pthread_t thread;
    ULONG number = 0, refused = 0;
    struct pollfd input = {0, POLLIN, 0};
    const char *chosen = getenv("ETW_BURST");
    int burst = chosen != NULL ? atoi(chosen) : 20;
    char asked;

    all.p.Wnode.BufferSize = sizeof all;
    all.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    all.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
    all.p.LoggerNameOffset = sizeof all.p;
    all.p.BufferSize = 4;
    all.p.MaximumBuffers = 512;
    all.p.FlushTimer = 1;
    CHECK(StartTraceA(&session, "Replaced", &all.p), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 1000, NULL), ERROR_SUCCESS);
    CHECK(EventRegister(&ProviderGuid, NULL, NULL, &provider), ERROR_SUCCESS);

    memset(&logfile, 0, sizeof logfile);
    logfile.LoggerName = (char *)"Replaced";
    logfile.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD;
    logfile.EventRecordCallback = on_event;
    logfile.BufferCallback = on_buffer;
    trace = OpenTraceA(&logfile);
    CHECK(trace == INVALID_PROCESSTRACE_HANDLE, 0);
    CHECK(pthread_create(&thread, NULL, consume, NULL), 0);
    puts("ready");
    fflush(stdout);

    memset(&descriptor, 0, sizeof descriptor);
    descriptor.Level = 4;
    for (;;) {
        int more;
        for (more = 0; more < burst; more++) {
            /* While no worker runs, the memory for events may fill up. */
            ULONG written;
            EventDataDescCreate(&data, &number, sizeof number);
            written = EventWrite(provider, &descriptor, 1, &data);
            CHECK_TRUE(written == ERROR_SUCCESS || written == ERROR_NOT_ENOUGH_MEMORY);
            refused += written != ERROR_SUCCESS;
            number++;
        }
        pause_ms(1);
        if (poll(&input, 1, 0) <= 0)
            continue;
        if (read(0, &asked, 1) != 1)
            break;
        printf("%lu %lu\n", (unsigned long)number, (unsigned long)__atomic_load_n(&next, __ATOMIC_RELAXED));
        fflush(stdout);
    }
    /* The new worker may not have started yet. */
    while (ControlTraceA(0, "Replaced", &all.p, EVENT_TRACE_CONTROL_STOP) != ERROR_SUCCESS)
        pause_ms(10);
    CHECK(pthread_join(thread, NULL), 0);
    CHECK(EventUnregister(provider), ERROR_SUCCESS);
    CHECK(CloseTrace(trace), ERROR_SUCCESS);
    printf("%lu written, %lu refused, %lu seen, %lu lost, %lu lost by the session, %lu doubles, status %lu\n", (unsigned long)number,
           (unsigned long)refused, (unsigned long)seen, (unsigned long)lost, (unsigned long)all.p.EventsLost, (unsigned long)doubles,
           (unsigned long)status);
    return seen + lost + all.p.EventsLost == number && doubles == 0 && status == ERROR_SUCCESS ? 0 : 1;
}
