/* What TraceSetInformation sets, in the kernel's session and in a system logger: call stacks (3), masks (4), sample interval (5). FOLDER
   names a folder for the traces. Prints "refused" if this machine does not let the host record the system. */
#define INITGUID
#include <evntrace.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

DEFINE_GUID(ThreadClass, 0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
DEFINE_GUID(PerfInfoClass, 0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc);

typedef struct {
    EVENT_TRACE_PROPERTIES p;
    char file[512];
    char name[512];
} Properties;

/* What a session is started with, and what it is set to while it runs. */
typedef struct {
    const char *name;
    const char *file;
    const GUID *guid;
    ULONG mode;
    ULONG interval;
    const GUID *stack_class;
    UCHAR stack_type;
    ULONG masks[2];
} Session;

static const Session sessions[] = {
    {KERNEL_LOGGER_NAMEA, "kernel", &SystemTraceControlGuid, 0, 50000, &PerfInfoClass, 46, {0, 2}},
    {"Own System Logger", "logger", NULL, EVENT_TRACE_SYSTEM_LOGGER_MODE, 80000, &ThreadClass, 36, {4, 6}},
};

static Properties all;

static Properties *fresh(const Session *session)
{
    memset(&all, 0, sizeof all);
    all.p.Wnode.BufferSize = sizeof all;
    all.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    all.p.LogFileNameOffset = offsetof(Properties, file);
    all.p.LoggerNameOffset = offsetof(Properties, name);
    all.p.LogFileMode = session->mode;
    all.p.EnableFlags = EVENT_TRACE_FLAG_PROCESS | EVENT_TRACE_FLAG_THREAD;
    if (session->guid != NULL)
        all.p.Wnode.Guid = *session->guid;
    snprintf(all.file, sizeof all.file, "%s/%s.etl", getenv("FOLDER"), session->file);
    return &all;
}

/* Computes for 400 ms of the CPU's time, and sleeps now and then. */
static void work(void)
{
    const struct timespec pause = {0, 1000000};
    int part;
    for (part = 1; part <= 20; part++) {
        clock_t end = clock() + CLOCKS_PER_SEC / 50;
        while (clock() < end)
            ;
        nanosleep(&pause, NULL);
    }
}

static void run(const Session *session)
{
    TRACEHANDLE handle = 0;
    CLASSIC_EVENT_ID id;
    TRACE_PROFILE_INTERVAL interval;
    ULONG masks[8] = {0}, status;

    status = StartTraceA(&handle, session->name, &fresh(session)->p);
    if (status == ERROR_ACCESS_DENIED) {
        puts("refused");
        exit(0);
    }
    CHECK(status, ERROR_SUCCESS);
    memset(&id, 0, sizeof id);
    id.EventGuid = *session->stack_class;
    id.Type = session->stack_type;
    CHECK(TraceSetInformation(handle, TraceStackTracingInfo, &id, sizeof id), ERROR_SUCCESS);
    interval.Source = 0;
    interval.Interval = session->interval;
    CHECK(TraceSetInformation(handle, TraceSampledProfileIntervalInfo, &interval, sizeof interval), ERROR_SUCCESS);
    CHECK(TraceQueryInformation(handle, TraceSystemTraceEnableFlagsInfo, masks, sizeof masks, NULL), ERROR_SUCCESS);
    CHECK(masks[0], 3);
    CHECK(masks[1], 0);
    masks[0] |= session->masks[0];
    masks[1] |= session->masks[1];
    CHECK(TraceSetInformation(handle, TraceSystemTraceEnableFlagsInfo, masks, sizeof masks), ERROR_SUCCESS);
    work();
    CHECK(ControlTraceA(handle, NULL, &fresh(session)->p, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
}

int main(void)
{
    size_t number;
    for (number = 0; number < sizeof sessions / sizeof *sessions; number++)
        run(&sessions[number]);
    return 0;
}
