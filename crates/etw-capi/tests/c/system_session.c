/* The kernel's session: flags, call stacks, sample interval, masks, system providers. FOLDER names a folder for the trace. Prints
   "refused" if this machine does not let the host record the system. Compiled as C and as C++. */
#define INITGUID
#include <evntrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

DEFINE_GUID(ThreadClass, 0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
DEFINE_GUID(RegistryClass, 0xae53722e, 0xc863, 0x11d2, 0x86, 0x59, 0x00, 0xc0, 0x4f, 0xa3, 0x21, 0xa1);

typedef struct {
    EVENT_TRACE_PROPERTIES p;
    char file[512];
    char name[512];
} Properties;

/* The calls of programs for Windows 7, with declarations of their own. */
typedef struct {
    int what;
    TRACEHANDLE session;
    ULONG masks[8];
} GroupMasks;
ETW_EXTERN LONG NTAPI NtQuerySystemInformation(int what, PVOID data, ULONG size, PULONG needed);
ETW_EXTERN LONG NTAPI NtSetSystemInformation(int what, PVOID data, ULONG size);

static void check_nt(TRACEHANDLE session)
{
    GroupMasks masks;
    ULONG needed = 0;
    memset(&masks, 0, sizeof masks);
    masks.what = 1;
    masks.session = session;
    CHECK(NtQuerySystemInformation(31, &masks, sizeof masks, &needed), 0);
    CHECK(needed, sizeof masks);
    CHECK(masks.masks[0], 7);
    CHECK(masks.masks[1], 4);
    masks.masks[0] = 3;
    CHECK(NtSetSystemInformation(31, &masks, sizeof masks), 0);
    memset(masks.masks, 0, sizeof masks.masks);
    CHECK(NtQuerySystemInformation(31, &masks, sizeof masks, NULL), 0);
    CHECK(masks.masks[0], 3);
    CHECK((ULONG)NtQuerySystemInformation(31, &masks, 47, NULL), 0xc0000004u);
    CHECK((ULONG)NtQuerySystemInformation(31, NULL, 0, NULL), 0xc0000004u);
    CHECK((ULONG)NtSetSystemInformation(5, &masks, sizeof masks), 0xc0000003u);
    masks.session = 12345;
    CHECK((ULONG)NtQuerySystemInformation(31, &masks, sizeof masks, NULL), 0xc0000008u);
    masks.what = 2;
    CHECK((ULONG)NtSetSystemInformation(31, &masks, sizeof masks), 0xc0000002u);
}

static Properties all;

static Properties *fresh(void)
{
    memset(&all, 0, sizeof all);
    all.p.Wnode.BufferSize = sizeof all;
    all.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    all.p.LogFileNameOffset = offsetof(Properties, file);
    all.p.LoggerNameOffset = offsetof(Properties, name);
    snprintf(all.file, sizeof all.file, "%s/system.etl", getenv("FOLDER"));
    return &all;
}

int main(void)
{
    TRACEHANDLE handle = 0;
    CLASSIC_EVENT_ID ids[2];
    TRACE_PROFILE_INTERVAL interval = {0, 20000};
    ULONG masks[8] = {0}, size = 0, status;

    fresh()->p.Wnode.Guid = SystemTraceControlGuid;
    all.p.EnableFlags = EVENT_TRACE_FLAG_PROCESS | EVENT_TRACE_FLAG_THREAD;
    status = StartTraceA(&handle, KERNEL_LOGGER_NAMEA, &all.p);
    if (status == ERROR_ACCESS_DENIED) {
        puts("refused");
        return 0;
    }
    CHECK(status, ERROR_SUCCESS);
    memset(ids, 0, sizeof ids);
    ids[0].EventGuid = ThreadClass;
    ids[0].Type = 36;
    ids[1].EventGuid = RegistryClass;
    ids[1].Type = 10;
    CHECK(TraceSetInformation(handle, TraceStackTracingInfo, ids, sizeof ids), ERROR_SUCCESS);
    CHECK(TraceSetInformation(handle, TraceStackTracingInfo, &ids[1], sizeof ids[1]), ERROR_NOT_SUPPORTED);
    CHECK(TraceSetInformation(handle, TraceStackTracingInfo, ids, 5), ERROR_INVALID_PARAMETER);
    CHECK(TraceSetInformation(handle, TraceSampledProfileIntervalInfo, &interval, sizeof interval), ERROR_SUCCESS);
    interval.Interval = 0;
    CHECK(TraceQueryInformation(handle, TraceSampledProfileIntervalInfo, &interval, sizeof interval, &size), ERROR_SUCCESS);
    CHECK(interval.Interval, 20000);
    CHECK(size, sizeof interval);
    interval.Source = 1;
    CHECK(TraceSetInformation(handle, TraceSampledProfileIntervalInfo, &interval, sizeof interval), ERROR_NOT_SUPPORTED);
    /* Context switches, by a system provider. */
    CHECK(EnableTraceEx2(handle, &SystemSchedulerProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0,
                         SYSTEM_SCHEDULER_KW_CONTEXT_SWITCH, 0, 0, NULL),
          ERROR_SUCCESS);
    CHECK(TraceQueryInformation(handle, TraceSystemTraceEnableFlagsInfo, masks, sizeof masks, NULL), ERROR_SUCCESS);
    CHECK(masks[0], 3);
    CHECK(masks[1], 4);
    masks[0] |= 4;
    CHECK(TraceSetInformation(handle, TraceSystemTraceEnableFlagsInfo, masks, sizeof masks), ERROR_SUCCESS);
    CHECK(TraceSetInformation(handle, TraceSystemTraceEnableFlagsInfo, masks, 3), ERROR_BAD_LENGTH);
    masks[0] = 0;
    CHECK(TraceQueryInformation(handle, TraceSystemTraceEnableFlagsInfo, masks, sizeof masks, NULL), ERROR_SUCCESS);
    CHECK(masks[0], 7);
    CHECK(ControlTraceA(handle, NULL, &fresh()->p, EVENT_TRACE_CONTROL_QUERY), ERROR_SUCCESS);
    CHECK(all.p.EnableFlags, EVENT_TRACE_FLAG_PROCESS | EVENT_TRACE_FLAG_THREAD | EVENT_TRACE_FLAG_IMAGE_LOAD | EVENT_TRACE_FLAG_CSWITCH);
    check_nt(handle);
    CHECK(EnableTraceEx2(handle, &SystemSchedulerProviderGuid, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0,
                         SYSTEM_SCHEDULER_KW_CONTEXT_SWITCH, 0, 0, NULL),
          ERROR_SUCCESS);
    CHECK(TraceQueryInformation(handle, TraceSystemTraceEnableFlagsInfo, masks, sizeof masks, NULL), ERROR_SUCCESS);
    CHECK(masks[1], 0);
    CHECK(EnableTraceEx2(handle, &SystemRegistryProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0, 1, 0, 0, NULL),
          ERROR_NOT_SUPPORTED);
    CHECK(ControlTraceA(handle, NULL, &fresh()->p, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
    /* A session without events of the system takes none. */
    (void)fresh();
    snprintf(all.file, sizeof all.file, "%s/plain.etl", getenv("FOLDER"));
    CHECK(StartTraceA(&handle, "plain", &all.p), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(handle, &SystemSchedulerProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0,
                         SYSTEM_SCHEDULER_KW_CONTEXT_SWITCH, 0, 0, NULL),
          ERROR_NOT_SUPPORTED);
    CHECK(ControlTraceA(handle, NULL, &fresh()->p, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
    return 0;
}
