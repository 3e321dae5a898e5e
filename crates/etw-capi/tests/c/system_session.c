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

/* Requests for the state of system providers. */
static void check_state(TRACEHANDLE session)
{
    CHECK(EnableTraceEx2(session, &SystemProcessProviderGuid, EVENT_CONTROL_CODE_CAPTURE_STATE, 0, 0, 0, 0, NULL), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(session, &SystemTraceControlGuid, EVENT_CONTROL_CODE_CAPTURE_STATE, 0, 0, 0, 0, NULL), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(session, &SystemConfigProviderGuid, EVENT_CONTROL_CODE_CAPTURE_STATE, 0, 0, 0, 0, NULL), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(session, &SystemRegistryProviderGuid, EVENT_CONTROL_CODE_CAPTURE_STATE, 0, 0, 0, 0, NULL),
          ERROR_NOT_SUPPORTED);
    CHECK(EnableTraceEx2(session, &SystemPowerProviderGuid, EVENT_CONTROL_CODE_CAPTURE_STATE, 0, 0, 0, 0, NULL),
          ERROR_NOT_SUPPORTED);
}

/* Updates of EnableFlags: they replace those of the start, and 0 is none. */
static void check_update(TRACEHANDLE session)
{
    static const ULONG flags[] = {EVENT_TRACE_FLAG_PROCESS | EVENT_TRACE_FLAG_THREAD | EVENT_TRACE_FLAG_CSWITCH, 0,
                                  EVENT_TRACE_FLAG_PROCESS | EVENT_TRACE_FLAG_NO_SYSCONFIG};
    size_t number;
    for (number = 0; number < sizeof flags / sizeof *flags; number++) {
        ULONG masks[8] = {0};
        fresh()->p.EnableFlags = flags[number];
        all.p.LogFileNameOffset = 0;
        CHECK(ControlTraceA(session, NULL, &all.p, EVENT_TRACE_CONTROL_UPDATE), ERROR_SUCCESS);
        CHECK(all.p.EnableFlags, flags[number]);
        CHECK(ControlTraceA(session, NULL, &fresh()->p, EVENT_TRACE_CONTROL_QUERY), ERROR_SUCCESS);
        CHECK(all.p.EnableFlags, flags[number]);
        CHECK(TraceQueryInformation(session, TraceSystemTraceEnableFlagsInfo, masks, sizeof masks, NULL), ERROR_SUCCESS);
        CHECK(masks[1], number == 0 ? 4 : 0);
    }
    fresh()->p.EnableFlags = EVENT_TRACE_FLAG_REGISTRY;
    all.p.LogFileNameOffset = 0;
    CHECK(ControlTraceA(session, NULL, &all.p, EVENT_TRACE_CONTROL_UPDATE), ERROR_NOT_SUPPORTED);
}

/* Sessions of one set of flags each: their files are named after it. */
static void check_start(ULONG flags, ULONG expected)
{
    TRACEHANDLE handle = 0;
    (void)fresh();
    snprintf(all.file, sizeof all.file, "%s/%08lx.etl", getenv("FOLDER"), (unsigned long)flags);
    all.p.LogFileMode = EVENT_TRACE_SYSTEM_LOGGER_MODE;
    all.p.EnableFlags = flags;
    CHECK(StartTraceA(&handle, "flags", &all.p), expected);
    if (expected != ERROR_SUCCESS)
        return;
    /* Its default: all of it is recorded, unless the session wants none. */
    if (flags == 1)
        CHECK(EnableTraceEx2(handle, &SystemConfigProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0, SYSTEM_CONFIG_KW_STORAGE, 0, 0, NULL),
              ERROR_SUCCESS);
    if (flags == (EVENT_TRACE_FLAG_NO_SYSCONFIG | 2))
        CHECK(EnableTraceEx2(handle, &SystemConfigProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0, SYSTEM_CONFIG_KW_SYSTEM, 0, 0, NULL),
              ERROR_SUCCESS);
    CHECK(EnableTraceEx2(handle, &SystemConfigProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0, SYSTEM_CONFIG_KW_GRAPHICS, 0, 0, NULL),
          ERROR_NOT_SUPPORTED);
    CHECK(ControlTraceA(handle, NULL, &fresh()->p, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
}

int main(void)
{
    TRACEHANDLE handle = 0;
    CLASSIC_EVENT_ID ids[2];
    TRACE_PROFILE_INTERVAL interval = {0, 20000}, longer[3] = {{0, 20000}, {0, 0}, {0, 0}};
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
    for (size = 1; size < sizeof ids; size++)
        if (size != sizeof *ids)
            CHECK(TraceSetInformation(handle, TraceStackTracingInfo, ids, size), ERROR_BAD_LENGTH);
    for (size = 0; size < 17; size++)
        if (size != sizeof interval)
            CHECK(TraceSetInformation(handle, TraceSampledProfileIntervalInfo, longer, size), ERROR_BAD_LENGTH);
    CHECK(TraceSetInformation(handle, TraceSampledProfileIntervalInfo, &interval, sizeof interval), ERROR_SUCCESS);
    interval.Interval = 0;
    CHECK(TraceQueryInformation(handle, TraceSampledProfileIntervalInfo, &interval, sizeof interval, &size), ERROR_SUCCESS);
    CHECK(interval.Interval, 20000);
    CHECK(size, sizeof interval);
    interval.Source = 1;
    CHECK(TraceSetInformation(handle, TraceSampledProfileIntervalInfo, &interval, sizeof interval), ERROR_NOT_SUPPORTED);
    CHECK(TraceQueryInformation(handle, TraceSampledProfileIntervalInfo, &interval, sizeof interval, &size), ERROR_NOT_SUPPORTED);
    CHECK(TraceQueryInformation(0, TraceSampledProfileIntervalInfo, &interval, sizeof interval, &size), ERROR_NOT_SUPPORTED);
    interval.Source = 0;
    size = 0;
    CHECK(TraceQueryInformation(0, TraceSampledProfileIntervalInfo, &interval, 3, &size), ERROR_BAD_LENGTH);
    CHECK(size, sizeof interval);
    /* The interval of sessions that start later is its own. */
    CHECK(TraceQueryInformation(0, TraceSampledProfileIntervalInfo, &interval, sizeof interval, &size), ERROR_SUCCESS);
    CHECK(interval.Interval, 10000);
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
    check_state(handle);
    check_update(handle);
    CHECK(EnableTraceEx2(handle, &RegistryClass, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 4, 0, 0, 0, NULL), ERROR_INVALID_PARAMETER);
    CHECK(ControlTraceA(handle, NULL, &fresh()->p, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
    check_start(1, ERROR_SUCCESS);
    check_start(EVENT_TRACE_FLAG_NO_SYSCONFIG | 1, ERROR_SUCCESS);
    check_start(EVENT_TRACE_FLAG_NO_SYSCONFIG | 2, ERROR_SUCCESS);
    check_start(EVENT_TRACE_FLAG_REGISTRY, ERROR_NOT_SUPPORTED);
    check_start(0x80000000u, ERROR_NOT_SUPPORTED);
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
