/*
 * A controller in the form of Microsoft's documentation: a session to a file, a provider of this process, and every query.
 * TRACE_OUT names the file. Compiled as C and as C++, with names of both widths.
 */
#define INITGUID
#include <evntrace.h>
#include <evntprov.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

DEFINE_GUID(ProviderGuid, 0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 8);
DEFINE_GUID(SessionGuid, 0x5b4b4b4c, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 8);

#define NAME_BYTES 512
typedef struct {
    EVENT_TRACE_PROPERTIES p;
    char file[NAME_BYTES];
    char name[NAME_BYTES];
} Properties;

static void clear(Properties *all)
{
    memset(all, 0, sizeof *all);
    all->p.Wnode.BufferSize = sizeof *all;
    all->p.LogFileNameOffset = offsetof(Properties, file);
    all->p.LoggerNameOffset = offsetof(Properties, name);
}

static void print(const char *what, const Properties *all)
{
    const EVENT_TRACE_PROPERTIES *p = &all->p;
    printf("%s name=%s buffer=%u buffers=%u..%u max=%u mode=%x timer=%u clock=%u number=%u lost=%u written=%d "
           "lostbuffers=%u,%u traced=%d\n",
           what, all->name, p->BufferSize, p->MinimumBuffers, p->MaximumBuffers, p->MaximumFileSize,
           p->LogFileMode, p->FlushTimer, p->Wnode.ClientContext, p->NumberOfBuffers, p->EventsLost,
           p->BuffersWritten > 0, p->LogBuffersLost, p->RealTimeBuffersLost,
           (p->Wnode.Flags & WNODE_FLAG_TRACED_GUID) != 0);
}

static void write_events(REGHANDLE handle, int from, int to)
{
    for (int number = from; number < to; number++) {
        EVENT_DESCRIPTOR d;
        EVENT_DATA_DESCRIPTOR data[2];
        EventDescCreate(&d, (USHORT)(number % 2 ? 7 : 8), 0, 0, 4, 0, 0, 0x2);
        EventDataDescCreate(&data[0], &number, sizeof number);
        EventDataDescCreate(&data[1], "text", 5);
        CHECK(EventWrite(handle, &d, 2, data), ERROR_SUCCESS);
    }
}

int main(void)
{
    static Properties all, other;
    static union {
        ULONG64 align;
        UCHAR bytes[4096];
    } out;
    TRACEHANDLE session = 0;
    REGHANDLE handle = 0;
    ULONG needed = 0, count = 99, number = 0;
    PEVENT_TRACE_PROPERTIES array[2];
    ENABLE_TRACE_PARAMETERS parameters;
    EVENT_FILTER_DESCRIPTOR filters[2];
    struct {
        BOOLEAN in;
        UCHAR reserved;
        USHORT count;
        USHORT ids[2];
    } ids = {1, 0, 1, {7, 0}};
    ULONG self;
    const TRACE_GUID_INFO *info = (const TRACE_GUID_INFO *)(const void *)out.bytes;
    const TRACE_PROVIDER_INSTANCE_INFO *instance =
        (const TRACE_PROVIDER_INSTANCE_INFO *)(const void *)(out.bytes + sizeof *info);
    const TRACE_ENABLE_INFO *enabled =
        (const TRACE_ENABLE_INFO *)(const void *)(out.bytes + sizeof *info + sizeof *instance);

    CHECK(EventRegister(&ProviderGuid, NULL, NULL, &handle), ERROR_SUCCESS);

    clear(&all);
    all.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    all.p.Wnode.ClientContext = 1;
    all.p.Wnode.Guid = SessionGuid;
    all.p.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
    all.p.BufferSize = 16;
    all.p.MaximumBuffers = 200;
    all.p.MaximumFileSize = 5;
    all.p.FlushTimer = 1;
    strcpy(all.file, getenv("TRACE_OUT"));
    CHECK(StartTraceA(&session, "Sample Session", &all.p), ERROR_SUCCESS);
    if (session == 0 || all.p.Wnode.HistoricalContext != session || strcmp(all.name, "Sample Session"))
        return 2;
    print("started", &all);
    CHECK(StartTraceA(&session, "sample session", &all.p), ERROR_ALREADY_EXISTS);

    /* All events of level 5. */
    CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 5000, NULL),
          ERROR_SUCCESS);
    write_events(handle, 0, 100);
    CHECK(ControlTraceW(0, ETW_W("Sample Session"), &all.p, EVENT_TRACE_CONTROL_FLUSH), ERROR_SUCCESS);

    /* By handle, by name, in both widths. */
    clear(&all);
    CHECK(ControlTraceA(session, NULL, &all.p, EVENT_TRACE_CONTROL_QUERY), ERROR_SUCCESS);
    print("queried", &all);
    if (strcmp(all.file, getenv("TRACE_OUT")) || memcmp(&all.p.Wnode.Guid, &SessionGuid, sizeof(GUID)))
        return 3;
    clear(&other);
    CHECK(QueryTraceW(0, ETW_W("SAMPLE SESSION"), &other.p), ERROR_SUCCESS);
    if (memcmp(other.name, ETW_W("Sample Session"), 30) || other.p.Wnode.HistoricalContext != session)
        return 4;
    CHECK(QueryTraceW(0, L"Sample Session", &other.p), ERROR_SUCCESS);

    /* The enabled providers, and the sessions that enabled them. */
    CHECK(EnumerateTraceGuidsEx(TraceGuidQueryList, NULL, 0, NULL, 0, &needed), ERROR_INSUFFICIENT_BUFFER);
    CHECK(needed, sizeof(GUID));
    CHECK(EnumerateTraceGuidsEx(TraceGuidQueryList, NULL, 0, out.bytes, sizeof out, &needed), ERROR_SUCCESS);
    if (needed != sizeof(GUID) || memcmp(out.bytes, &ProviderGuid, sizeof(GUID)))
        return 5;
    CHECK(EnumerateTraceGuidsEx(TraceGuidQueryProcess, NULL, 0, out.bytes, sizeof out, &needed), ERROR_SUCCESS);
    CHECK(needed, sizeof(GUID));
    CHECK(EnumerateTraceGuidsEx(TraceGuidQueryInfo, (PVOID)(uintptr_t)&ProviderGuid, sizeof(GUID), out.bytes,
                                sizeof out, &needed),
          ERROR_SUCCESS);
    CHECK(needed, sizeof *info + sizeof *instance + sizeof *enabled);
    if (info->InstanceCount != 1 || instance->NextOffset != 0 || instance->EnableCount != 1 ||
        instance->Pid == 0 || instance->Flags != 0 || !enabled->IsEnabled || enabled->Level != 5 ||
        enabled->LoggerId != (session & 0xffff))
        return 6;
    self = instance->Pid;
    {
        TRACE_GUID_PROPERTIES row;
        PTRACE_GUID_PROPERTIES rows[1];
        rows[0] = &row;
        CHECK(EnumerateTraceGuids(rows, 1, &count), ERROR_SUCCESS);
        if (count != 1 || !row.IsEnable || row.EnableLevel != 5 || row.LoggerId != (session & 0xffff))
            return 7;
    }
    CHECK(TraceQueryInformation(session, TraceMaxLoggersQuery, &number, sizeof number, &needed), ERROR_SUCCESS);
    CHECK(number, 64);
    CHECK(TraceQueryInformation(session, TraceStreamCount, &number, sizeof number, NULL), ERROR_SUCCESS);
    if (number == 0)
        return 8;

    /* Only odd event ids of this process. */
    memset(&parameters, 0, sizeof parameters);
    memset(filters, 0, sizeof filters);
    filters[0].Ptr = (ULONGLONG)(uintptr_t)&ids;
    filters[0].Size = sizeof ids;
    filters[0].Type = EVENT_FILTER_TYPE_EVENT_ID;
    filters[1].Ptr = (ULONGLONG)(uintptr_t)&self;
    filters[1].Size = sizeof self;
    filters[1].Type = EVENT_FILTER_TYPE_PID;
    parameters.Version = ENABLE_TRACE_PARAMETERS_VERSION_2;
    parameters.EnableProperty = EVENT_ENABLE_PROPERTY_SID | EVENT_ENABLE_PROPERTY_PROCESS_START_KEY;
    parameters.SourceId = SessionGuid;
    parameters.EnableFilterDesc = filters;
    parameters.FilterDescCount = 2;
    CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 4, 2, 0, 5000, &parameters),
          ERROR_SUCCESS);
    write_events(handle, 100, 200);
    self++;
    CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 4, 2, 0, 5000, &parameters),
          ERROR_SUCCESS);
    write_events(handle, 200, 300);
    parameters.Version = ENABLE_TRACE_PARAMETERS_VERSION;
    parameters.EnableProperty = 0;
    parameters.EnableFilterDesc = NULL;
    CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_CAPTURE_STATE, 4, 2, 0, 0, &parameters),
          ERROR_SUCCESS);
    CHECK(EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 3, 0, 0, 5000, &parameters),
          ERROR_SUCCESS);
    write_events(handle, 300, 400);
    CHECK(EnableTrace(TRUE, 2, 4, &ProviderGuid, session), ERROR_SUCCESS);
    while (!EventProviderEnabled(handle, 4, 2))
        ;
    write_events(handle, 400, 500);
    CHECK(EnableTraceEx(&ProviderGuid, NULL, session, 0, 0, 0, 0, 0, NULL), ERROR_SUCCESS);
    while (EventProviderEnabled(handle, 4, 2))
        ;
    CHECK(EnableTraceEx(&ProviderGuid, NULL, session, 1, 4, 1, 0, 0, NULL), ERROR_SUCCESS);
    write_events(handle, 500, 600);

    /* Another timer. */
    clear(&all);
    all.p.FlushTimer = 2500;
    all.p.MaximumBuffers = 210;
    all.p.LogFileMode = EVENT_TRACE_USE_MS_FLUSH_TIMER;
    all.p.LogFileNameOffset = 0;
    CHECK(UpdateTraceA(session, NULL, &all.p), ERROR_SUCCESS);
    print("updated", &all);

    array[0] = &all.p;
    array[1] = &other.p;
    clear(&all);
    clear(&other);
    CHECK(QueryAllTracesA(array, 2, &count), ERROR_SUCCESS);
    CHECK(count, 1);
    print("all", &all);

    /* The name does not fit; the session is stopped anyway. */
    clear(&all);
    all.p.LogFileNameOffset = 0;
    all.p.LoggerNameOffset = sizeof all - 4;
    CHECK(StopTraceA(session, NULL, &all.p), ERROR_MORE_DATA);
    all.name[0] = 0;
    print("stopped", &all);
    clear(&all);
    CHECK(StopTraceA(session, NULL, &all.p), ERROR_WMI_INSTANCE_NOT_FOUND);
    CHECK(QueryTraceA(0, "Sample Session", &all.p), ERROR_WMI_INSTANCE_NOT_FOUND);
    CHECK(EventUnregister(handle), ERROR_SUCCESS);
    return 0;
}
