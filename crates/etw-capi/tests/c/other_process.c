/* A controller and, in another process, the provider that it enables. TRACE_OUT names the file. Compiled as C and as C++. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define INITGUID
#include <evntprov.h>
#include <evntrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

DEFINE_GUID(ProviderGuid, 0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 8);

static void pause_ms(long ms)
{
    struct timespec time;
    time.tv_sec = ms / 1000;
    time.tv_nsec = ms % 1000 * 1000000;
    nanosleep(&time, NULL);
}

static int rounds, captures, failures;

/* The callback takes a second for level 3. */
static VOID NTAPI changed(LPCGUID source, ULONG control, UCHAR level, ULONGLONG any, ULONGLONG all,
                          PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    (void)source, (void)any, (void)all, (void)filter, (void)context;
    if (control == EVENT_CONTROL_CODE_ENABLE_PROVIDER && level == 3)
        pause_ms(600);
    if (control == EVENT_CONTROL_CODE_CAPTURE_STATE)
        __atomic_add_fetch(&captures, 1, __ATOMIC_RELAXED);
    if (control == EVENT_CONTROL_CODE_ENABLE_PROVIDER && level >= 4)
        __atomic_add_fetch(&rounds, 1, __ATOMIC_RELEASE);
}

/* Writes ten events in each round. An enablement of level 4 or above starts a round; the pipe ends the process. */
static int provide(int input, int output)
{
    REGHANDLE handle = 0;
    int number = 0;
    char order;
    CHECK(EventRegister(&ProviderGuid, changed, NULL, &handle), ERROR_SUCCESS);
    while (read(input, &order, 1) == 1) {
        for (int count = 0; count < 10; count++, number++) {
            EVENT_DESCRIPTOR d;
            EVENT_DATA_DESCRIPTOR data[2];
            EventDescCreate(&d, 7, 0, 0, 4, 0, 0, 0);
            EventDataDescCreate(&data[0], &number, sizeof number);
            EventDataDescCreate(&data[1], "text", 5);
            if (EventWrite(handle, &d, 2, data) != ERROR_SUCCESS)
                failures++;
        }
        CHECK(write(output, &order, 1), 1);
    }
    CHECK(EventUnregister(handle), ERROR_SUCCESS);
    return failures != 0 || captures != 1 || rounds == 0;
}

typedef struct {
    EVENT_TRACE_PROPERTIES p;
    char file[512];
    char name[64];
} Properties;

static ULONG filtered(TRACEHANDLE session, ULONG type, const void *data, ULONG size)
{
    EVENT_FILTER_DESCRIPTOR filter;
    ENABLE_TRACE_PARAMETERS_V1 parameters; /* The older version: one filter. */
    memset(&filter, 0, sizeof filter);
    memset(&parameters, 0, sizeof parameters);
    filter.Ptr = (ULONGLONG)(uintptr_t)data;
    filter.Size = size;
    filter.Type = type;
    parameters.Version = 1;
    parameters.EnableFilterDesc = &filter;
    return EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 10000,
                          (PENABLE_TRACE_PARAMETERS)(void *)&parameters);
}

static int orders, answers;

static void ten_events(void)
{
    char order = 1;
    CHECK(write(orders, &order, 1), 1);
    CHECK(read(answers, &order, 1), 1);
}

int main(int count, char **arguments)
{
    static Properties all;
    static union {
        ULONG64 align;
        UCHAR bytes[512];
    } out;
    const TRACE_PROVIDER_INSTANCE_INFO *instance =
        (const TRACE_PROVIDER_INSTANCE_INFO *)(const void *)(out.bytes + sizeof(TRACE_GUID_INFO));
    const char *slash = strrchr(arguments[count - 1], '/');
    const char *own = slash ? slash + 1 : arguments[count - 1];
    WCHAR names[64] = {'x', ';'};
    TRACEHANDLE session = 0;
    ULONG needed = 0, pid;
    int to[2], from[2], status = 1;
    pid_t child;

    CHECK(pipe(to), 0);
    CHECK(pipe(from), 0);
    child = fork();
    if (child == 0) {
        close(to[1]);
        close(from[0]);
        return provide(to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    orders = to[1];
    answers = from[0];

    /* The session keeps the enablement, whether the provider is registered or not. */
    all.p.Wnode.BufferSize = sizeof all;
    all.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    all.p.LogFileNameOffset = offsetof(Properties, file);
    all.p.LoggerNameOffset = offsetof(Properties, name);
    snprintf(all.file, sizeof all.file, "%s", getenv("TRACE_OUT"));
    CHECK(StartTraceA(&session, "Sample Session", &all.p), ERROR_SUCCESS);
    do {
        pause_ms(5);
        needed = 0;
        CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 10000, NULL),
              ERROR_SUCCESS);
        CHECK(EnumerateTraceGuidsEx(TraceGuidQueryInfo, (PVOID)(uintptr_t)&ProviderGuid, sizeof(GUID), out.bytes,
                                    sizeof out, &needed),
              ERROR_SUCCESS);
    } while (instance->Flags & TRACE_PROVIDER_FLAG_PRE_ENABLE);
    CHECK(instance->Pid, child);
    CHECK(EnumerateTraceGuidsEx(TraceGuidQueryProcess, NULL, 0, NULL, 0, &needed), ERROR_SUCCESS); /* None here. */
    CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 10000, NULL),
          ERROR_SUCCESS);
    ten_events(); /* 0 to 9 */

    /* First the callback takes longer than the call waits; then the call waits long enough. */
    CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 3, 0, 0, 20, NULL), ERROR_TIMEOUT);
    CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 3, 0, 0, 0xffffffffu, NULL),
          ERROR_SUCCESS);
    ten_events(); /* None of these */
    CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_CAPTURE_STATE, 5, 0, 0, 0, NULL), ERROR_SUCCESS);

    pid = (ULONG)child;
    CHECK(filtered(session, EVENT_FILTER_TYPE_PID, &pid, sizeof pid), ERROR_SUCCESS);
    ten_events(); /* 20 to 29 */
    pid = (ULONG)getpid();
    CHECK(filtered(session, EVENT_FILTER_TYPE_PID, &pid, sizeof pid), ERROR_SUCCESS);
    ten_events(); /* None */
    for (size_t unit = 0; unit <= strlen(own) && unit < 60; unit++)
        names[2 + unit] = (WCHAR)own[unit];
    CHECK(filtered(session, EVENT_FILTER_TYPE_EXECUTABLE_NAME, names, (ULONG)(2 * (strlen(own) + 3))), ERROR_SUCCESS);
    ten_events(); /* 40 to 49 */
    CHECK(filtered(session, EVENT_FILTER_TYPE_EXECUTABLE_NAME, names, 2), ERROR_SUCCESS);
    ten_events(); /* None: x is another. */
    CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0, 0, 0, 0, NULL), ERROR_SUCCESS);
    close(orders);
    CHECK(waitpid(child, &status, 0), child);
    CHECK(status, 0);
    CHECK(StopTraceA(session, NULL, &all.p), ERROR_SUCCESS);
    CHECK(all.p.EventsLost, 0);
    return 0;
}
