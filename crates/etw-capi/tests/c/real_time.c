/* A real-time session and its consumers, in the form of Microsoft's documentation. Compiled as C and as C++. */
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

DEFINE_GUID(ProviderGuid, 0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 10);

#define WRITERS 3
#define EVENTS 2000

typedef struct {
    EVENT_TRACE_PROPERTIES p;
    char name[64];
} Properties;

/* The observations of a consumer. */
typedef struct {
    TRACEHANDLE trace;
    ULONG events, headers, buffers, lost, slow, wrong, raw;
    ULONG next[WRITERS]; /* The next number of each writer. */
    LONGLONG last;
    ULONG status;
    ULONG in_time; /* Events seen; another thread waits for this number. */
    ULONG others; /* Events of the host. */
} Consumer;

static void pause_ms(long ms)
{
    struct timespec time;
    time.tv_sec = 0;
    time.tv_nsec = ms * 1000000;
    nanosleep(&time, NULL);
}

/* Set when the slow consumer may continue. */
static int released;

static VOID WINAPI on_event(PEVENT_RECORD event)
{
    Consumer *consumer = (Consumer *)event->UserContext;
    ULONG numbers[2];
    if (memcmp(&event->EventHeader.ProviderId, &EventTraceGuid, sizeof(GUID)) == 0) {
        consumer->headers++;
        return;
    }
    if (memcmp(&event->EventHeader.ProviderId, &ProviderGuid, sizeof(GUID)) != 0) {
        consumer->others++;
        return;
    }
    if (event->UserDataLength < sizeof numbers || event->EventHeader.TimeStamp.QuadPart < consumer->last) {
        consumer->wrong++;
        return;
    }
    consumer->last = event->EventHeader.TimeStamp.QuadPart;
    memcpy(numbers, event->UserData, sizeof numbers);
    if (consumer->slow) {
        while (!__atomic_load_n(&released, __ATOMIC_ACQUIRE))
            pause_ms(2);
    } else if (numbers[0] >= WRITERS || consumer->next[numbers[0]]++ != numbers[1]) {
        consumer->wrong++;
    }
    consumer->events++;
    __atomic_add_fetch(&consumer->in_time, 1, __ATOMIC_RELEASE);
}

static ULONG WINAPI on_buffer(PEVENT_TRACE_LOGFILEA logfile)
{
    Consumer *consumer = (Consumer *)logfile->Context;
    consumer->buffers++;
    consumer->lost = logfile->LogfileHeader.EventsLost;
    if (logfile->Filled < 72 || logfile->Filled > logfile->BufferSize || logfile->BuffersRead != consumer->buffers)
        consumer->wrong++;
    return TRUE;
}

static void open_session(Consumer *consumer, const char *name, ULONG more)
{
    EVENT_TRACE_LOGFILEA logfile;
    memset(&logfile, 0, sizeof logfile);
    logfile.LoggerName = (LPSTR)(uintptr_t)name;
    logfile.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD | more;
    logfile.EventRecordCallback = on_event;
    logfile.BufferCallback = on_buffer;
    logfile.Context = consumer;
    consumer->trace = OpenTraceA(&logfile);
    if (consumer->trace == INVALID_PROCESSTRACE_HANDLE) {
        fprintf(stderr, "OpenTrace: %u\n", GetLastError());
        exit(1);
    }
    if (logfile.LogfileHeader.BufferSize != 16384 || logfile.LogfileHeader.NumberOfProcessors == 0 ||
        (logfile.LogfileHeader.LogFileMode & EVENT_TRACE_REAL_TIME_MODE) == 0)
        consumer->wrong++;
}

static void *consume(void *context)
{
    Consumer *consumer = (Consumer *)context;
    consumer->status = ProcessTrace(&consumer->trace, 1, NULL, NULL);
    return NULL;
}

static REGHANDLE provider;

static void write_one(ULONG writer, ULONG number, void *more, ULONG size)
{
    EVENT_DESCRIPTOR d;
    EVENT_DATA_DESCRIPTOR data[2];
    ULONG numbers[2];
    numbers[0] = writer;
    numbers[1] = number;
    EventDescCreate(&d, 1, 0, 0, 4, 0, 0, 0);
    EventDataDescCreate(&data[0], numbers, sizeof numbers);
    EventDataDescCreate(&data[1], more, size);
    while (EventWrite(provider, &d, 2, data) != ERROR_SUCCESS)
        pause_ms(1); /* No free buffer. */
}

static void *write_many(void *context)
{
    ULONG writer = (ULONG)(uintptr_t)context;
    for (ULONG number = 0; number < EVENTS; number++)
        write_one(writer, number, NULL, 0);
    return NULL;
}

static Properties all;

static Properties *fresh(void)
{
    memset(&all, 0, sizeof all);
    all.p.Wnode.BufferSize = sizeof all;
    all.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    all.p.LoggerNameOffset = offsetof(Properties, name);
    all.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
    all.p.BufferSize = 16;
    return &all;
}

static TRACEHANDLE start(const char *name)
{
    TRACEHANDLE session = 0;
    CHECK(StartTraceA(&session, name, &fresh()->p), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 5000, NULL),
          ERROR_SUCCESS);
    return session;
}

int main(void)
{
    static Consumer one, two, slow, closed, early, asleep;
    static UCHAR large[30000];
    pthread_t threads[2], early_thread, writers[WRITERS];
    EVENT_TRACE_LOGFILEA logfile;
    TRACEHANDLE session, pair[2];
    ULONG lost, total;

    CHECK(EventRegister(&ProviderGuid, NULL, NULL, &provider), ERROR_SUCCESS);

    /* A trace may be opened before its session starts; until then, ProcessTrace fails. */
    memset(&logfile, 0, sizeof logfile);
    logfile.LoggerName = (LPSTR)(uintptr_t)"live";
    logfile.ProcessTraceMode = PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD;
    logfile.EventRecordCallback = on_event;
    logfile.Context = &early;
    early.trace = OpenTraceA(&logfile);
    CHECK(early.trace != INVALID_PROCESSTRACE_HANDLE, 1);
    CHECK(ProcessTrace(&early.trace, 1, NULL, NULL), ERROR_WMI_INSTANCE_NOT_FOUND);

    session = start("live");
    CHECK(pthread_create(&early_thread, NULL, consume, &early), 0);
    open_session(&one, "live", 0);
    open_session(&two, "LIVE", PROCESS_TRACE_MODE_RAW_TIMESTAMP | PROCESS_TRACE_MODE_ETW_HOST_EVENTS);
    open_session(&closed, "live", 0);
    pair[0] = one.trace;
    pair[1] = two.trace;
    CHECK(ProcessTrace(pair, 2, NULL, NULL), ERROR_WMI_ALREADY_ENABLED);
    CHECK(pthread_create(&threads[0], NULL, consume, &one), 0);
    CHECK(pthread_create(&threads[1], NULL, consume, &two), 0);
    for (uintptr_t writer = 0; writer < WRITERS; writer++)
        CHECK(pthread_create(&writers[writer], NULL, write_many, (void *)writer), 0);
    for (int writer = 0; writer < WRITERS; writer++)
        CHECK(pthread_join(writers[writer], NULL), 0);
    /* The events arrive while the session runs: its timer is a second. */
    for (int wait = 0; wait < 1000 && __atomic_load_n(&one.in_time, __ATOMIC_ACQUIRE) < WRITERS * EVENTS; wait++)
        pause_ms(10);
    CHECK(__atomic_load_n(&one.in_time, __ATOMIC_ACQUIRE), WRITERS * EVENTS);
    write_one(0, EVENTS, NULL, 0);

    /* Another thread closes a trace while ProcessTrace waits; the events that it has show that it was waiting. */
    {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, consume, &closed), 0);
        for (int wait = 0; wait < 1000 && __atomic_load_n(&closed.in_time, __ATOMIC_ACQUIRE) < 10; wait++)
            pause_ms(10);
        CHECK(CloseTrace(closed.trace), ERROR_CTX_CLOSE_PENDING);
        CHECK(pthread_join(thread, NULL), 0);
        CHECK(closed.status, ERROR_CANCELLED);
        CHECK(CloseTrace(closed.trace), ERROR_INVALID_HANDLE);
    }

    /* The end of the session ends both, with its last event. */
    CHECK(StopTraceA(session, NULL, &fresh()->p), ERROR_SUCCESS);
    CHECK(all.p.EventsLost, 0);
    CHECK(all.p.BuffersWritten > 0, 1);
    CHECK(pthread_join(threads[0], NULL), 0);
    CHECK(pthread_join(threads[1], NULL), 0);
    CHECK(pthread_join(early_thread, NULL), 0);
    CHECK(early.status, ERROR_SUCCESS);
    CHECK(early.events > 0, 1);
    CHECK(CloseTrace(early.trace), ERROR_SUCCESS);
    /* The host's events come only if the program asks for them. */
    CHECK(one.others + early.others, 0);
    CHECK(two.others > 0, 1);
    CHECK(one.status, ERROR_SUCCESS);
    CHECK(two.status, ERROR_SUCCESS);
    CHECK(one.events, WRITERS * EVENTS + 1);
    CHECK(two.events, WRITERS * EVENTS + 1);
    CHECK(one.headers, 1);
    CHECK(two.headers, 1);
    CHECK(one.wrong + two.wrong + closed.wrong, 0);
    CHECK(one.buffers > 0 && two.buffers > 0, 1);
    CHECK(ProcessTrace(&one.trace, 1, NULL, NULL), ERROR_SUCCESS);
    CHECK(CloseTrace(one.trace), ERROR_SUCCESS);
    CHECK(CloseTrace(two.trace), ERROR_SUCCESS);

    /* A consumer that does not read loses events, and sees their number. */
    session = start("slow");
    slow.slow = 1;
    open_session(&slow, "slow", 0);
    CHECK(pthread_create(&threads[0], NULL, consume, &slow), 0);
    write_one(0, 0, NULL, 0);
    CHECK(FlushTraceA(session, NULL, &fresh()->p), ERROR_SUCCESS);
    for (int number = 1; number < 1500; number++)
        write_one(0, (ULONG)number, large, 12000);
    CHECK(FlushTraceA(session, NULL, &fresh()->p), ERROR_SUCCESS);
    __atomic_store_n(&released, 1, __ATOMIC_RELEASE);
    for (int wait = 0; wait < 1000 && __atomic_load_n(&slow.in_time, __ATOMIC_ACQUIRE) < 100; wait++)
        pause_ms(10);
    for (int number = 1500; number < 1600; number++)
        write_one(0, (ULONG)number, large, 12000);
    CHECK(StopTraceA(session, NULL, &fresh()->p), ERROR_SUCCESS);
    lost = all.p.EventsLost;
    CHECK(pthread_join(threads[0], NULL), 0);
    CHECK(slow.status, ERROR_SUCCESS);
    CHECK(slow.wrong, 0);
    total = slow.events + slow.lost;
    printf("seen %u, lost here %u, lost by the session %u\n", slow.events, slow.lost, lost);
    if (slow.lost == 0 || total != 1600 || all.p.RealTimeBuffersLost == 0)
        return 2;
    CHECK(CloseTrace(slow.trace), ERROR_SUCCESS);

    /* A consumer that reads nothing until the session has ended loses its last events, with its last buffer, and sees their number. */
    __atomic_store_n(&released, 0, __ATOMIC_RELEASE);
    session = start("asleep");
    asleep.slow = 1;
    open_session(&asleep, "asleep", 0);
    CHECK(pthread_create(&threads[0], NULL, consume, &asleep), 0);
    write_one(0, 0, NULL, 0);
    CHECK(FlushTraceA(session, NULL, &fresh()->p), ERROR_SUCCESS);
    for (int number = 1; number < 1200; number++)
        write_one(0, (ULONG)number, large, 12000);
    /* The rest of the queue has space for small buffers only, then for none. */
    for (int number = 1200; number < 1500; number++) {
        write_one(0, (ULONG)number, NULL, 0);
        CHECK(FlushTraceA(session, NULL, &fresh()->p), ERROR_SUCCESS);
    }
    CHECK(StopTraceA(session, NULL, &fresh()->p), ERROR_SUCCESS);
    __atomic_store_n(&released, 1, __ATOMIC_RELEASE);
    CHECK(pthread_join(threads[0], NULL), 0);
    CHECK(asleep.status, ERROR_SUCCESS);
    CHECK(asleep.wrong, 0);
    CHECK(asleep.lost > 300, 1);
    CHECK(asleep.events + asleep.lost, 1500);
    CHECK(CloseTrace(asleep.trace), ERROR_SUCCESS);
    CHECK(EventUnregister(provider), ERROR_SUCCESS);
    return 0;
}
