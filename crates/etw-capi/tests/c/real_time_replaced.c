/* A consumer of a real-time session. The test kills the worker of its host meanwhile. Argument 1 is the time to write, in ms.
   Compiled as C and as C++. */
#ifndef _GNU_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#define INITGUID
#include <evntcons.h>
#include <evntprov.h>
#include <evntrace.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
    next = number + 1;
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

int main(int argc, char **argv)
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
    ULONG number = 0;
    long left = argc > 1 ? atol(argv[1]) : 1000;

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
    for (; left > 0; left--) {
        int more;
        for (more = 0; more < 20; more++) {
            EventDataDescCreate(&data, &number, sizeof number);
            CHECK(EventWrite(provider, &descriptor, 1, &data), ERROR_SUCCESS);
            number++;
        }
        pause_ms(1);
    }
    /* The new worker may not have started yet. */
    while (ControlTraceA(0, "Replaced", &all.p, EVENT_TRACE_CONTROL_STOP) != ERROR_SUCCESS)
        pause_ms(10);
    CHECK(pthread_join(thread, NULL), 0);
    CHECK(EventUnregister(provider), ERROR_SUCCESS);
    CHECK(CloseTrace(trace), ERROR_SUCCESS);
    printf("%lu written, %lu seen, %lu lost, %lu doubles, status %lu\n", (unsigned long)number, (unsigned long)seen,
           (unsigned long)lost, (unsigned long)doubles, (unsigned long)status);
    return seen + lost == number && doubles == 0 && status == ERROR_SUCCESS ? 0 : 1;
}
