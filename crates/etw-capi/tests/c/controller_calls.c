/* Statuses of the controllers' calls with every kind of wrong argument. FOLDER names a folder for files. Compiled as C and as C++. */
#define INITGUID
#include <evntrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

DEFINE_GUID(ProviderGuid, 0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 9);
DEFINE_GUID(SessionGuid, 0x5b4b4b4c, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 9);

typedef struct {
    EVENT_TRACE_PROPERTIES p;
    ULONG64 more[3];
    char file[512];
    char name[512];
} Properties;

static Properties all;

static Properties *fresh(void)
{
    memset(&all, 0, sizeof all);
    all.p.Wnode.BufferSize = sizeof all;
    all.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    all.p.LogFileNameOffset = offsetof(Properties, file);
    all.p.LoggerNameOffset = offsetof(Properties, name);
    all.p.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
    snprintf(all.file, sizeof all.file, "%s/calls.etl", getenv("FOLDER"));
    return &all;
}

/* Starts a session with one setting changed. */
#define START_WITH(change, wanted)                                  \
    do {                                                            \
        TRACEHANDLE handle_ = 0;                                    \
        (void)fresh();                                              \
        change;                                                     \
        CHECK(StartTraceA(&handle_, "calls", &all.p), wanted);      \
    } while (0)

static ULONG mode_status(ULONG mode, ULONG size, int has_file)
{
    TRACEHANDLE handle = 0;
    ULONG status;
    (void)fresh();
    all.p.LogFileMode = mode;
    all.p.MaximumFileSize = size;
    if (!has_file)
        all.p.LogFileNameOffset = 0;
    status = StartTraceA(&handle, "calls", &all.p);
    if (status == ERROR_SUCCESS)
        CHECK(StopTraceA(handle, NULL, &fresh()->p), ERROR_SUCCESS);
    return status;
}

static void starts(void)
{
    static char long_name[1100];
    TRACEHANDLE handle = 0;
    int number;
    static const struct {
        ULONG mode, size;
        int has_file;
        ULONG status;
    } modes[] = {
        {EVENT_TRACE_FILE_MODE_NONE, 0, 1, ERROR_SUCCESS},
        {EVENT_TRACE_FILE_MODE_NONE, 0, 0, ERROR_BAD_PATHNAME},
        {EVENT_TRACE_FILE_MODE_SEQUENTIAL, 0, 0, ERROR_BAD_PATHNAME},
        {EVENT_TRACE_FILE_MODE_CIRCULAR, 0, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_FILE_MODE_CIRCULAR, 1, 1, ERROR_SUCCESS},
        {EVENT_TRACE_FILE_MODE_CIRCULAR | EVENT_TRACE_USE_KBYTES_FOR_SIZE, 512, 1, ERROR_SUCCESS},
        {EVENT_TRACE_FILE_MODE_CIRCULAR | EVENT_TRACE_USE_KBYTES_FOR_SIZE, 100, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_FILE_MODE_CIRCULAR | EVENT_TRACE_FILE_MODE_SEQUENTIAL, 1, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_FILE_MODE_CIRCULAR | EVENT_TRACE_FILE_MODE_APPEND, 1, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_FILE_MODE_CIRCULAR | EVENT_TRACE_FILE_MODE_NEWFILE, 1, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_FILE_MODE_APPEND | EVENT_TRACE_REAL_TIME_MODE, 0, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_FILE_MODE_NEWFILE, 0, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_FILE_MODE_NEWFILE, 1, 1, ERROR_INVALID_PARAMETER}, /* The name has no %d. */
        {EVENT_TRACE_FILE_MODE_NEWFILE | EVENT_TRACE_FILE_MODE_PREALLOCATE, 1, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_FILE_MODE_PREALLOCATE, 0, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_FILE_MODE_PREALLOCATE, 1, 1, ERROR_SUCCESS},
        {EVENT_TRACE_FILE_MODE_PREALLOCATE | EVENT_TRACE_REAL_TIME_MODE, 1, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_REAL_TIME_MODE, 0, 0, ERROR_SUCCESS},
        {EVENT_TRACE_REAL_TIME_MODE | EVENT_TRACE_FILE_MODE_SEQUENTIAL, 0, 1, ERROR_SUCCESS},
        {EVENT_TRACE_REAL_TIME_MODE | EVENT_TRACE_PRIVATE_LOGGER_MODE, 0, 0, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_BUFFERING_MODE, 0, 0, ERROR_SUCCESS},
        {EVENT_TRACE_BUFFERING_MODE | EVENT_TRACE_REAL_TIME_MODE, 0, 0, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_BUFFERING_MODE | EVENT_TRACE_FILE_MODE_CIRCULAR, 1, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_USE_GLOBAL_SEQUENCE | EVENT_TRACE_USE_LOCAL_SEQUENCE, 0, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_USE_GLOBAL_SEQUENCE, 0, 1, ERROR_NOT_SUPPORTED},
        {EVENT_TRACE_RELOG_MODE, 0, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_BUFFERING_MODE, 0, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_FILE_MODE_NEWFILE, 1, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_PRIVATE_LOGGER_MODE, 0, 0, ERROR_BAD_PATHNAME},
        {EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_FILE_MODE_APPEND, 0, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_SECURE_MODE, 0, 1, ERROR_NOT_SUPPORTED},
        {EVENT_TRACE_PRIVATE_IN_PROC, 0, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_SYSTEM_LOGGER_MODE | EVENT_TRACE_PRIVATE_LOGGER_MODE, 0, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_NONSTOPPABLE_MODE, 0, 1, ERROR_NOT_SUPPORTED},
        {EVENT_TRACE_COMPRESSED_MODE, 0, 1, ERROR_SUCCESS},
        {EVENT_TRACE_COMPRESSED_MODE, 1, 1, ERROR_INVALID_PARAMETER},
        {EVENT_TRACE_INDEPENDENT_SESSION_MODE | EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING, 0, 1, ERROR_SUCCESS},
        {EVENT_TRACE_SECURE_MODE | EVENT_TRACE_USE_PAGED_MEMORY, 0, 1, ERROR_SUCCESS},
        {0x40000000u, 0, 1, ERROR_INVALID_PARAMETER},
    };

    CHECK(StartTraceA(NULL, "calls", &fresh()->p), ERROR_INVALID_PARAMETER);
    CHECK(StartTraceA(&handle, NULL, &fresh()->p), ERROR_INVALID_PARAMETER);
    CHECK(StartTraceA(&handle, "", &fresh()->p), ERROR_INVALID_PARAMETER);
    CHECK(StartTraceA(&handle, "calls", NULL), ERROR_INVALID_PARAMETER);
    CHECK(StartTraceW(&handle, NULL, &fresh()->p), ERROR_INVALID_PARAMETER);
    memset(long_name, 'x', sizeof long_name - 1);
    CHECK(StartTraceA(&handle, long_name, &fresh()->p), ERROR_INVALID_PARAMETER);
    long_name[600] = 0;
    CHECK(StartTraceA(&handle, long_name, &fresh()->p), ERROR_BAD_LENGTH);

    START_WITH(all.p.Wnode.BufferSize = 0, ERROR_BAD_LENGTH);
    START_WITH(all.p.Wnode.BufferSize = sizeof all.p - 1, ERROR_BAD_LENGTH);
    START_WITH(all.p.Wnode.BufferSize = sizeof all.p, ERROR_INVALID_PARAMETER);
    START_WITH(all.p.Wnode.Flags = 0, ERROR_INVALID_PARAMETER);
    START_WITH(all.p.LoggerNameOffset = 8, ERROR_INVALID_PARAMETER);
    START_WITH(all.p.LoggerNameOffset = sizeof all, ERROR_INVALID_PARAMETER);
    START_WITH(all.p.LoggerNameOffset = 0xffffffffu, ERROR_INVALID_PARAMETER);
    START_WITH(all.p.LoggerNameOffset = sizeof all - 5, ERROR_BAD_LENGTH);
    START_WITH(all.p.LogFileNameOffset = 8, ERROR_INVALID_PARAMETER);
    START_WITH(all.p.LogFileNameOffset = sizeof all, ERROR_INVALID_PARAMETER);
    START_WITH(memset(all.file, 'x', sizeof all.file), ERROR_INVALID_PARAMETER); /* The name has no NUL. */
    START_WITH(all.file[0] = 0, ERROR_BAD_PATHNAME);
    START_WITH(strcat(all.file, "/in/no/folder"), ERROR_BAD_PATHNAME);
    START_WITH(strcpy(all.file, "\xff\xfe"), ERROR_BAD_PATHNAME);
    START_WITH(all.p.Wnode.Guid = SystemTraceControlGuid, ERROR_INVALID_PARAMETER);
    START_WITH(all.p.Wnode.ClientContext = 4, ERROR_INVALID_PARAMETER);
    /* A larger buffer is reduced to the limit. */
    for (ULONG megabytes = 64; megabytes <= 100; megabytes += 36) {
        fresh()->p.BufferSize = megabytes * 1024;
        CHECK(StartTraceA(&handle, "calls", &all.p), ERROR_SUCCESS);
        CHECK(all.p.BufferSize, 16 * 1024);
        CHECK(QueryTraceA(handle, NULL, &fresh()->p), ERROR_SUCCESS);
        CHECK(all.p.BufferSize, 16 * 1024);
        CHECK(StopTraceA(handle, NULL, &fresh()->p), ERROR_SUCCESS);
    }
    START_WITH((all.p.BufferSize = 16 * 1024, all.p.MaximumBuffers = 1000000), ERROR_INVALID_PARAMETER);
    START_WITH((all.p.BufferSize = 1024, all.p.MaximumBuffers = 0xffffffffu), ERROR_INVALID_PARAMETER);
    START_WITH((all.p.Wnode.Flags |= WNODE_FLAG_VERSIONED_PROPERTIES), ERROR_INVALID_PARAMETER);
    START_WITH((all.p.Wnode.Flags |= WNODE_FLAG_VERSIONED_PROPERTIES, all.p.Wnode.BufferSize = sizeof all.p + 8,
                all.p.LogFileNameOffset = all.p.LoggerNameOffset = 0),
               ERROR_BAD_LENGTH);
    START_WITH((all.p.Wnode.Flags |= WNODE_FLAG_VERSIONED_PROPERTIES, all.more[0] = 2 | (ULONG64)1 << 32),
               ERROR_NOT_SUPPORTED);
    (void)fresh();
    all.p.LogFileNameOffset = 0;
    CHECK(StartTraceW(&handle, KERNEL_LOGGER_NAMEW, &all.p), ERROR_BAD_PATHNAME);
    (void)fresh();
    all.p.Wnode.Guid = SystemTraceControlGuid;
    /* None of the flags has events on Linux. */
    all.p.EnableFlags = EVENT_TRACE_FLAG_REGISTRY;
    CHECK(StartTraceA(&handle, KERNEL_LOGGER_NAMEA, &all.p), ERROR_NOT_SUPPORTED);

    for (number = 0; number < (int)(sizeof modes / sizeof *modes); number++) {
        ULONG found = mode_status(modes[number].mode, modes[number].size, modes[number].has_file);
        if (found != modes[number].status) {
            fprintf(stderr, "mode %x, size %u: %u\n", modes[number].mode, modes[number].size, found);
            exit(1);
        }
    }
    /* The second version of the properties. */
    (void)fresh();
    all.p.Wnode.Flags |= WNODE_FLAG_VERSIONED_PROPERTIES;
    all.more[0] = 2;
    CHECK(StartTraceA(&handle, "calls", &all.p), ERROR_SUCCESS);
    CHECK(StopTraceA(handle, NULL, &all.p), ERROR_SUCCESS);
}

static void controls(void)
{
    TRACEHANDLE handle = 0, second = 0;
    ULONG code, count = 0;
    PEVENT_TRACE_PROPERTIES array[65];
    static Properties other;

    (void)fresh();
    all.p.Wnode.Guid = SessionGuid;
    CHECK(StartTraceA(&handle, "calls", &all.p), ERROR_SUCCESS);
    CHECK(StartTraceA(&second, "CALLS", &fresh()->p), ERROR_ALREADY_EXISTS);
    CHECK(StartTraceA(&second, "second", &fresh()->p), ERROR_BAD_PATHNAME); /* The file is in use. */
    (void)fresh();
    all.p.Wnode.Guid = SessionGuid;
    strcat(all.file, "2");
    CHECK(StartTraceA(&second, "second", &all.p), ERROR_ALREADY_EXISTS);

    for (code = 0; code <= 5; code++) {
        if (code == EVENT_TRACE_CONTROL_STOP)
            continue;
        CHECK(ControlTraceA(handle, NULL, NULL, code), ERROR_INVALID_PARAMETER);
        CHECK(ControlTraceA(0, NULL, &fresh()->p, code), ERROR_INVALID_PARAMETER);
        CHECK(ControlTraceA(0, "", &fresh()->p, code), ERROR_INVALID_PARAMETER);
        CHECK(ControlTraceW(0, ETW_W("none"), &fresh()->p, code), ERROR_WMI_INSTANCE_NOT_FOUND);
        CHECK(ControlTraceA(handle + 1, NULL, &fresh()->p, code), ERROR_WMI_INSTANCE_NOT_FOUND);
        CHECK(ControlTraceA(handle ^ 0x10000, NULL, &fresh()->p, code), ERROR_WMI_INSTANCE_NOT_FOUND);
        fresh()->p.Wnode.BufferSize = sizeof all.p - 1;
        CHECK(ControlTraceA(handle, NULL, &all.p, code), ERROR_BAD_LENGTH);
        fresh()->p.LoggerNameOffset = 3;
        CHECK(ControlTraceA(handle, NULL, &all.p, code), ERROR_INVALID_PARAMETER);
    }
    CHECK(ControlTraceA(handle, NULL, &fresh()->p, 6), ERROR_INVALID_PARAMETER);
    CHECK(ControlTraceA(handle, NULL, &fresh()->p, EVENT_TRACE_CONTROL_INCREMENT_FILE), ERROR_NOT_SUPPORTED);
    CHECK(ControlTraceA(handle, NULL, &fresh()->p, EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME), ERROR_NOT_SUPPORTED);
    fresh()->p.LogFileNameOffset = sizeof all - 2;
    CHECK(QueryTraceA(handle, NULL, &all.p), ERROR_MORE_DATA);
    CHECK(all.p.Wnode.HistoricalContext == handle, 1); /* The call fills in the numbers. */
    fresh()->p.LogFileNameOffset = all.p.LoggerNameOffset = 0;
    CHECK(QueryTraceA(handle, NULL, &all.p), ERROR_SUCCESS);
    CHECK(UpdateTraceA(handle, NULL, &fresh()->p), ERROR_BAD_PATHNAME); /* The session already has this file. */
    (void)fresh();
    strcat(all.file, "3");
    CHECK(UpdateTraceA(handle, NULL, &all.p), ERROR_SUCCESS);
    (void)fresh();
    CHECK(QueryTraceA(handle, NULL, &all.p), ERROR_SUCCESS);
    CHECK(all.file[strlen(all.file) - 1], '3');

    CHECK(QueryAllTracesA(NULL, 1, &count), ERROR_INVALID_PARAMETER);
    CHECK(QueryAllTracesA(array, 0, &count), ERROR_INVALID_PARAMETER);
    CHECK(QueryAllTracesA(array, 65, &count), ERROR_INVALID_PARAMETER);
    CHECK(QueryAllTracesA(array, 1, NULL), ERROR_INVALID_PARAMETER);
    array[0] = NULL;
    CHECK(QueryAllTracesW(array, 1, &count), ERROR_INVALID_PARAMETER);
    (void)fresh();
    all.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
    all.p.LogFileNameOffset = 0;
    CHECK(StartTraceA(&second, "second", &all.p), ERROR_SUCCESS);
    CHECK(all.p.FlushTimer, 1); /* Real time has a timer. */
    array[0] = &fresh()->p;
    CHECK(QueryAllTracesA(array, 1, &count), ERROR_MORE_DATA);
    CHECK(count, 2);
    memcpy(&other, fresh(), sizeof other);
    array[1] = &other.p;
    CHECK(QueryAllTracesA(array, 2, &count), ERROR_SUCCESS);
    other.p.Wnode.BufferSize = 3;
    CHECK(QueryAllTracesA(array, 2, &count), ERROR_BAD_LENGTH);
    fresh()->p.LogFileNameOffset = 0;
    CHECK(UpdateTraceA(second, NULL, &all.p), ERROR_INVALID_PARAMETER); /* The session would have no output. */
    CHECK(StopTraceA(second, NULL, &fresh()->p), ERROR_SUCCESS);
    CHECK(StopTraceA(0, "calls", &fresh()->p), ERROR_SUCCESS);
    CHECK(StopTraceA(handle, NULL, &fresh()->p), ERROR_WMI_INSTANCE_NOT_FOUND);

    /* A session in memory: a flush writes a file. */
    (void)fresh();
    all.p.LogFileMode = EVENT_TRACE_BUFFERING_MODE;
    CHECK(StartTraceA(&handle, "memory", &all.p), ERROR_INVALID_PARAMETER); /* The session has no file. */
    all.p.LogFileNameOffset = 0;
    CHECK(StartTraceA(&handle, "memory", &all.p), ERROR_SUCCESS);
    CHECK(FlushTraceA(handle, NULL, &all.p), ERROR_BAD_PATHNAME);
    (void)fresh();
    strcat(all.file, "4");
    CHECK(FlushTraceA(handle, NULL, &all.p), ERROR_SUCCESS);
    (void)fresh();
    CHECK(ControlTraceA(handle, NULL, &all.p, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
}

/* Sessions of this process need no host. One session in each run, because memory that a thread may still write to is never freed. */
static void privates(const char *kind)
{
    TRACEHANDLE handle = 0, second = 0;
    (void)fresh();
    if (strcmp(kind, "memory") == 0) {
        all.p.LogFileMode = EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_BUFFERING_MODE;
        all.p.LogFileNameOffset = 0;
        CHECK(StartTraceA(&handle, "private", &all.p), ERROR_SUCCESS);
        CHECK(FlushTraceA(handle, NULL, &all.p), ERROR_BAD_PATHNAME);
        CHECK(FlushTraceA(handle, NULL, &fresh()->p), ERROR_SUCCESS);
        CHECK(StopTraceA(handle, NULL, &fresh()->p), ERROR_SUCCESS);
        return;
    }
    if (strcmp(kind, "circular") == 0)
        all.p.MaximumFileSize = 2;
    all.p.LogFileMode = EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_PRIVATE_IN_PROC;
    if (all.p.MaximumFileSize > 0)
        all.p.LogFileMode |= EVENT_TRACE_FILE_MODE_CIRCULAR;
    CHECK(StartTraceA(&handle, "private", &all.p), ERROR_SUCCESS);
    CHECK(all.p.Wnode.HistoricalContext == handle && handle != 0, 1);
    CHECK(StartTraceA(&second, "PRIVATE", &all.p), ERROR_ALREADY_EXISTS);
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, NULL), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 2, 5, 0, 0, 0, NULL), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 0, 0, 0, 0, 0, NULL), ERROR_SUCCESS);
    CHECK(EnableTraceEx(&ProviderGuid, NULL, handle, 1, 5, 0, 0, EVENT_ENABLE_PROPERTY_STACK_TRACE, NULL), ERROR_SUCCESS);
    CHECK(EnableTraceEx(&ProviderGuid, NULL, handle, 1, 5, 0, 0, EVENT_ENABLE_PROPERTY_PROVIDER_GROUP, NULL),
          ERROR_INVALID_PARAMETER);
    CHECK(QueryTraceA(handle, NULL, &fresh()->p), ERROR_SUCCESS);
    CHECK(strcmp(all.name, "private"), 0);
    CHECK(all.p.LogFileMode & ~EVENT_TRACE_FILE_MODE_CIRCULAR, EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_PRIVATE_IN_PROC);
    CHECK(all.p.MaximumFileSize, strcmp(kind, "circular") == 0 ? 2 : 0);
    CHECK(FlushTraceA(0, "private", &fresh()->p), ERROR_SUCCESS);
    CHECK(UpdateTraceA(handle, NULL, &fresh()->p), ERROR_NOT_SUPPORTED);
    CHECK(StopTraceA(handle, NULL, &fresh()->p), ERROR_SUCCESS);
    CHECK(StopTraceA(handle, NULL, &fresh()->p), ERROR_WMI_INSTANCE_NOT_FOUND);
}

/* One filter. */
static ULONG filtered(TRACEHANDLE handle, ULONG type, const void *data, ULONG size, ULONG property)
{
    EVENT_FILTER_DESCRIPTOR filter;
    ENABLE_TRACE_PARAMETERS parameters;
    memset(&filter, 0, sizeof filter);
    memset(&parameters, 0, sizeof parameters);
    filter.Ptr = (ULONGLONG)(uintptr_t)data;
    filter.Size = size;
    filter.Type = type;
    parameters.Version = 2;
    parameters.EnableProperty = property;
    parameters.EnableFilterDesc = &filter;
    parameters.FilterDescCount = 1;
    return EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, &parameters);
}

static void enables(void)
{
    TRACEHANDLE handle = 0, handles[9];
    ENABLE_TRACE_PARAMETERS parameters;
    EVENT_FILTER_DESCRIPTOR twice[14];
    GUID zero;
    ULONG pids[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    ULONG64 words[600];
    UCHAR *bytes = (UCHAR *)words;
    USHORT *shorts = (USHORT *)words;
    int number;
    char name[16];

    memset(&zero, 0, sizeof zero);
    CHECK(EnableTraceEx2(1, &ProviderGuid, 1, 5, 0, 0, 0, NULL), ERROR_INVALID_PARAMETER);
    (void)fresh();
    CHECK(StartTraceA(&handle, "calls", &all.p), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(0, &ProviderGuid, 1, 5, 0, 0, 0, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EnableTraceEx2(handle + 1, &ProviderGuid, 1, 5, 0, 0, 0, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EnableTraceEx2(handle, NULL, 1, 5, 0, 0, 0, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EnableTraceEx2(handle, &zero, 1, 5, 0, 0, 0, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 3, 5, 0, 0, 0, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, NULL), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 0, 0, 0, 0, 0, NULL), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 0, 0, 0, 0, 0, NULL), ERROR_SUCCESS); /* The provider was not enabled. */
    CHECK(EnableTrace(1, 0, 256, &ProviderGuid, handle), ERROR_INVALID_PARAMETER);
    CHECK(EnableTrace(1, 0, 5, NULL, handle), ERROR_INVALID_PARAMETER);
    CHECK(EnableTraceEx(&ProviderGuid, NULL, handle, 2, 5, 0, 0, 0, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EnableTraceEx(NULL, NULL, handle, 1, 5, 0, 0, 0, NULL), ERROR_INVALID_PARAMETER);

    memset(&parameters, 0, sizeof parameters);
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, &parameters), ERROR_INVALID_PARAMETER);
    parameters.Version = 3;
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, &parameters), ERROR_INVALID_PARAMETER);
    parameters.Version = 2;
    parameters.ControlFlags = 1;
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, &parameters), ERROR_INVALID_PARAMETER);
    parameters.ControlFlags = 0;
    parameters.FilterDescCount = 1;
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, &parameters), ERROR_INVALID_PARAMETER);
    memset(twice, 0, sizeof twice);
    parameters.EnableFilterDesc = twice;
    parameters.FilterDescCount = 14;
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, &parameters), ERROR_INVALID_PARAMETER);
    parameters.FilterDescCount = 13;
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, &parameters), ERROR_SUCCESS);
    for (number = 0; number < 2; number++) {
        twice[number].Ptr = (ULONGLONG)(uintptr_t)pids;
        twice[number].Size = 4;
        twice[number].Type = EVENT_FILTER_TYPE_PID;
    }
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, &parameters), ERROR_INVALID_PARAMETER);
    parameters.FilterDescCount = 1;
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, &parameters), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 2, 5, 0, 0, 0, &parameters), ERROR_NOT_SUPPORTED);

    parameters.FilterDescCount = 0;
    for (number = 0; number < 32; number++) {
        /* 50 for classes that Linux has no data for, 87 for unknown classes. */
        ULONG wanted = number >= 12 ? ERROR_INVALID_PARAMETER
                       : (0xd08u >> number & 1u) ? ERROR_NOT_SUPPORTED
                                                 : ERROR_SUCCESS;
        parameters.EnableProperty = 1u << number;
        if (EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, &parameters) != wanted) {
            fprintf(stderr, "property %d\n", number);
            exit(1);
        }
    }

    CHECK(filtered(handle, EVENT_FILTER_TYPE_PID, pids, 32, 0), ERROR_SUCCESS);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_PID, pids, 36, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_PID, pids, 6, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_PID, pids, 0, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_PID, NULL, 4, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EXECUTABLE_NAME, ETW_W("a;b.exe"), 16, 0), ERROR_SUCCESS);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EXECUTABLE_NAME, ETW_W("a;b.exe"), 15, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EXECUTABLE_NAME, ETW_W(";;"), 6, 0), ERROR_INVALID_PARAMETER);
    memset(words, 'x', sizeof words);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EXECUTABLE_NAME, words, 1026, 0), ERROR_INVALID_PARAMETER);
    memset(words, 0, sizeof words);
    shorts[0] = 1;
    shorts[1] = 64;
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EVENT_ID, words, 4 + 128, 0), ERROR_SUCCESS);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EVENT_ID, words, 4 + 127, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EVENT_ID, words, 3, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EVENT_ID, words, 4 + 128, EVENT_ENABLE_PROPERTY_PROVIDER_GROUP),
          ERROR_INVALID_PARAMETER);
    shorts[1] = 65;
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EVENT_ID, words, 4 + 130, 0), ERROR_INVALID_PARAMETER);
    shorts[1] = 0;
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EVENT_ID, words, 4, 0), ERROR_INVALID_PARAMETER);
    memset(words, 0, sizeof words);
    bytes[17] = 1;
    bytes[18] = 2;
    memcpy(bytes + 20, "One\0Two\0", 8);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EVENT_NAME, bytes, 28, 0), ERROR_SUCCESS);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EVENT_NAME, bytes, 27, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EVENT_NAME, bytes, 19, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EVENT_NAME, bytes, 20, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EVENT_NAME, bytes, 4097, 0), ERROR_INVALID_PARAMETER);
    bytes[20] = 0xff;
    CHECK(filtered(handle, EVENT_FILTER_TYPE_EVENT_NAME, bytes, 28, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_SCHEMATIZED, bytes, 24, 0), ERROR_SUCCESS);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_SCHEMATIZED, bytes, 1025, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_PAYLOAD, bytes, 64, 0), ERROR_INVALID_PARAMETER);
    /* Filters of call stacks, which need an enablement with call stacks. */
    memset(words, 0, sizeof words);
    shorts[1] = 2;
    CHECK(filtered(handle, EVENT_FILTER_TYPE_STACKWALK, words, 8, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_STACKWALK, words, 8, EVENT_ENABLE_PROPERTY_STACK_TRACE), ERROR_SUCCESS);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_STACKWALK, words, 7, EVENT_ENABLE_PROPERTY_STACK_TRACE),
          ERROR_INVALID_PARAMETER);
    memset(words, 0, sizeof words);
    bytes[18] = 1;
    memcpy(bytes + 20, "One", 4);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_STACKWALK_NAME, words, 24, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_STACKWALK_NAME, words, 24, EVENT_ENABLE_PROPERTY_STACK_TRACE), ERROR_SUCCESS);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_STACKWALK_NAME, words, 23, EVENT_ENABLE_PROPERTY_STACK_TRACE),
          ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW, words, 24, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW, words, 24, EVENT_ENABLE_PROPERTY_STACK_TRACE), ERROR_SUCCESS);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW, words, 17, EVENT_ENABLE_PROPERTY_STACK_TRACE),
          ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_PACKAGE_ID, bytes, 64, 0), ERROR_NOT_SUPPORTED);
    CHECK(filtered(handle, 0x80000003u, bytes, 4, 0), ERROR_INVALID_PARAMETER);
    CHECK(filtered(handle, EVENT_FILTER_TYPE_NONE, NULL, 0, 0), ERROR_SUCCESS);

    /* Eight sessions of one provider. */
    for (number = 0; number < 9; number++) {
        snprintf(name, sizeof name, "rt%d", number);
        (void)fresh();
        all.p.LogFileMode = EVENT_TRACE_REAL_TIME_MODE;
        all.p.LogFileNameOffset = 0;
        CHECK(StartTraceA(&handles[number], name, &all.p), ERROR_SUCCESS);
        CHECK(EnableTraceEx2(handles[number], &SessionGuid, 1, 5, 0, 0, 0, NULL),
              number < 8 ? ERROR_SUCCESS : ERROR_NO_SYSTEM_RESOURCES);
    }
    for (number = 0; number < 9; number++)
        CHECK(StopTraceA(handles[number], NULL, &fresh()->p), ERROR_SUCCESS);
    CHECK(StopTraceA(handle, NULL, &fresh()->p), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(handle, &ProviderGuid, 1, 5, 0, 0, 0, NULL), ERROR_INVALID_PARAMETER);
}

static ULONG WINAPI on_buffer(PEVENT_TRACE_LOGFILEA logfile)
{
    (void)logfile;
    return TRUE;
}

static void rest(void)
{
    ULONG number = 0, needed = 0;
    TRACE_GUID_PROPERTIES row;
    PTRACE_GUID_PROPERTIES rows[1];
    EVENT_TRACE_LOGFILEA logfile;
    TRACEHANDLE trace;
    rows[0] = &row;

    CHECK(EnumerateTraceGuids(NULL, 1, &number), ERROR_INVALID_PARAMETER);
    CHECK(EnumerateTraceGuids(rows, 0, &number), ERROR_INVALID_PARAMETER);
    CHECK(EnumerateTraceGuids(rows, 1, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EnumerateTraceGuids(rows, 1, &number), ERROR_SUCCESS);
    CHECK(number, 0);
    CHECK(EnumerateTraceGuidsEx(TraceGuidQueryList, NULL, 0, NULL, 0, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EnumerateTraceGuidsEx(TraceGuidQueryList, NULL, 0, NULL, 4, &needed), ERROR_INVALID_PARAMETER);
    CHECK(EnumerateTraceGuidsEx(TraceGuidQueryList, NULL, 0, NULL, 0, &needed), ERROR_SUCCESS);
    CHECK(needed, 0);
    CHECK(EnumerateTraceGuidsEx(TraceGuidQueryInfo, NULL, 0, NULL, 0, &needed), ERROR_INVALID_PARAMETER);
    CHECK(EnumerateTraceGuidsEx(TraceGuidQueryInfo, (PVOID)(uintptr_t)&ProviderGuid, 15, NULL, 0, &needed),
          ERROR_INVALID_PARAMETER);
    CHECK(EnumerateTraceGuidsEx(TraceGuidQueryInfo, (PVOID)(uintptr_t)&ProviderGuid, 16, NULL, 0, &needed),
          4200 /* ERROR_WMI_GUID_NOT_FOUND */);
    CHECK(EnumerateTraceGuidsEx(TraceGroupQueryInfo, NULL, 0, NULL, 0, &needed), ERROR_NOT_SUPPORTED);
    CHECK(EnumerateTraceGuidsEx((TRACE_QUERY_INFO_CLASS)28, NULL, 0, NULL, 0, &needed), ERROR_INVALID_PARAMETER);

    CHECK(TraceQueryInformation(0, TraceMaxLoggersQuery, NULL, 4, NULL), ERROR_INVALID_PARAMETER);
    CHECK(TraceQueryInformation(0, TraceMaxLoggersQuery, &number, 3, &needed), ERROR_BAD_LENGTH);
    CHECK(needed, 4);
    CHECK(TraceQueryInformation(0, TraceStreamCount, &number, 4, NULL), ERROR_INVALID_PARAMETER);
    CHECK(TraceQueryInformation(77, TraceStreamCount, &number, 4, NULL), ERROR_WMI_INSTANCE_NOT_FOUND);
    CHECK(TraceQueryInformation(0, TraceProfileSourceListInfo, &number, 4, NULL), ERROR_NOT_SUPPORTED);
    CHECK(TraceSetInformation(0, TraceProfileSourceConfigInfo, &number, 4), ERROR_NOT_SUPPORTED);
    CHECK(TraceSetInformation(0, TraceStackTracingInfo, &number, 4), ERROR_BAD_LENGTH);
    CHECK(TraceSetInformation(0, TraceStackTracingInfo, NULL, 4), ERROR_INVALID_PARAMETER);
    CHECK(TraceSetInformation(0, (TRACE_INFO_CLASS)99, &number, 4), ERROR_INVALID_PARAMETER);

    memset(&logfile, 0, sizeof logfile);
    logfile.LoggerName = (LPSTR)(uintptr_t)"none";
    logfile.ProcessTraceMode = 0x100 /* PROCESS_TRACE_MODE_REAL_TIME */;
    logfile.BufferCallback = on_buffer;
    trace = OpenTraceA(&logfile);
    CHECK(trace != INVALID_PROCESSTRACE_HANDLE, 1);
    CHECK(ProcessTrace(&trace, 1, NULL, NULL), ERROR_WMI_INSTANCE_NOT_FOUND);
    CHECK(CloseTrace(trace), ERROR_SUCCESS);
}

int main(void)
{
    if (getenv("NO_HOST") != NULL) {
        TRACEHANDLE handle = 0;
        ULONG count = 9;
        PEVENT_TRACE_PROPERTIES array[1];
        array[0] = &fresh()->p;
        CHECK(StartTraceA(&handle, "calls", &all.p), ERROR_FILE_NOT_FOUND); /* There is no program to start as host. */
        CHECK(QueryTraceA(0, "calls", &fresh()->p), ERROR_WMI_INSTANCE_NOT_FOUND);
        CHECK(QueryAllTracesA(array, 1, &count), ERROR_SUCCESS);
        CHECK(count, 0);
        CHECK(EnableTraceEx2(1, &ProviderGuid, 1, 5, 0, 0, 0, NULL), ERROR_INVALID_PARAMETER);
        privates(getenv("NO_HOST"));
        rest();
        return 0;
    }
    starts();
    controls();
    rest();
    enables();
    return 0;
}
