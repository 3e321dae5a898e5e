/* Registrations, and what they follow: traits, callbacks, gates, forks, names and filters. The argument selects a part; FOLDER names a folder.
 * Compiled as C and as C++. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define INITGUID
#include <TraceLoggingProvider.h>
#include <etw_session.h>
#include <evntrace.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

DEFINE_GUID(Plain, 0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 0x20);
DEFINE_GUID(OurId, 0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 0x21);
TRACELOGGING_DEFINE_PROVIDER(Ours, "Test.Registrations", (0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 0x21));

static const char *in_folder(const char *name)
{
    static char paths[8][512];
    static int next;
    char *path = paths[next++ % 8];
    CHECK(snprintf(path, 512, "%s/%s", getenv("FOLDER"), name) < 512, 1);
    return path;
}

typedef struct {
    EVENT_TRACE_PROPERTIES p;
    char file[512], name[64];
} Properties;

static TRACEHANDLE start(const char *name, ULONG mode)
{
    Properties all;
    TRACEHANDLE session = 0;
    char file[64];
    memset(&all, 0, sizeof all);
    all.p.Wnode.BufferSize = sizeof all;
    all.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    all.p.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL | mode;
    all.p.LogFileNameOffset = offsetof(Properties, file);
    all.p.LoggerNameOffset = offsetof(Properties, name);
    snprintf(file, sizeof file, "%s.etl", name);
    snprintf(all.file, sizeof all.file, "%s", in_folder(file));
    CHECK(StartTraceA(&session, name, &all.p), ERROR_SUCCESS);
    return session;
}

static void stop(TRACEHANDLE session)
{
    Properties all;
    memset(&all, 0, sizeof all);
    all.p.Wnode.BufferSize = sizeof all;
    all.p.LogFileNameOffset = offsetof(Properties, file);
    all.p.LoggerNameOffset = offsetof(Properties, name);
    CHECK(ControlTraceA(session, NULL, &all.p, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
    CHECK(all.p.EventsLost, 0);
}

static void enable(TRACEHANDLE session, LPCGUID provider, UCHAR level, ULONGLONG any)
{
    CHECK(EnableTraceEx2(session, provider, EVENT_CONTROL_CODE_ENABLE_PROVIDER, level, any, 0, 10000, NULL), ERROR_SUCCESS);
}

/* ---- Callbacks: one for each change ------------------------------------------------------------------------------------ */

typedef struct {
    int enabled, disabled;
    UCHAR level;
    ULONGLONG any;
} Told;

static VOID NTAPI note(LPCGUID source, ULONG control, UCHAR level, ULONGLONG any, ULONGLONG all,
                       PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    Told *told = (Told *)context;
    (void)source, (void)all, (void)filter;
    told->level = level;
    told->any = any;
    __atomic_add_fetch(control == EVENT_CONTROL_CODE_ENABLE_PROVIDER ? &told->enabled : &told->disabled, 1, __ATOMIC_RELEASE);
}

/* A controller does not wait for the callbacks of a provider that it disables. */
static void wait_for_calls(const Told *told, int count)
{
    for (int n = 0; n < 10000; n++) {
        if (__atomic_load_n(&told->enabled, __ATOMIC_ACQUIRE) + __atomic_load_n(&told->disabled, __ATOMIC_ACQUIRE) >= count)
            return;
        usleep(1000);
    }
}

/* A macro, for the line of a failure. */
#define CHECK_TOLD(told, enabled_count, disabled_count, last_level, last_any)            \
    do {                                                                               \
        wait_for_calls(told, (enabled_count) + (disabled_count));                      \
        CHECK(__atomic_load_n(&(told)->enabled, __ATOMIC_ACQUIRE), enabled_count);      \
        CHECK(__atomic_load_n(&(told)->disabled, __ATOMIC_ACQUIRE), disabled_count);    \
        CHECK((told)->level, last_level);                                              \
        CHECK((told)->any, last_any);                                                  \
    } while (0)

static void callbacks(void)
{
    static const char traits[] = "\x09\0Traits";
    Told plain = {0, 0, 0, 0}, ours = {0, 0, 0, 0};
    TRACEHANDLE sessions[3];
    REGHANDLE handle = 0;
    const char *names[] = {"first", "second", "third"};
    for (int n = 0; n < 3; n++) {
        sessions[n] = start(names[n], 0);
        enable(sessions[n], &Plain, (UCHAR)(n + 2), 1ull << n);
        enable(sessions[n], &OurId, (UCHAR)(n + 2), 1ull << n);
    }
    CHECK(EventRegister(&Plain, note, &plain, &handle), ERROR_SUCCESS);
    CHECK_TOLD(&plain, 1, 0, 4, 7);
    CHECK(EventSetInformation(handle, EventProviderSetTraits, (PVOID)(uintptr_t)traits, sizeof traits), ERROR_SUCCESS);
    CHECK_TOLD(&plain, 1, 0, 4, 7);
    CHECK(TraceLoggingRegisterEx(Ours, note, &ours), ERROR_SUCCESS);
    CHECK_TOLD(&ours, 1, 0, 4, 7);
    CHECK(TraceLoggingProviderEnabled(Ours, 4, 4), 1);
    CHECK(TraceLoggingProviderEnabled(Ours, 5, 4), 0);
    CHECK(TraceLoggingProviderEnabled(Ours, 4, 8), 0);
    /* One call for each later change. */
    enable(sessions[0], &Plain, 5, 8);
    enable(sessions[0], &OurId, 5, 8);
    CHECK_TOLD(&plain, 2, 0, 5, 14);
    CHECK_TOLD(&ours, 2, 0, 5, 14);
    CHECK(TraceLoggingProviderEnabled(Ours, 5, 8), 1);
    CHECK(EnableTraceEx2(sessions[1], &OurId, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0, 0, 0, 10000, NULL), ERROR_SUCCESS);
    CHECK_TOLD(&ours, 3, 0, 5, 12);
    CHECK(EnableTraceEx2(sessions[0], &OurId, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0, 0, 0, 10000, NULL), ERROR_SUCCESS);
    CHECK_TOLD(&ours, 4, 0, 4, 4);
    CHECK(EnableTraceEx2(sessions[2], &OurId, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0, 0, 0, 10000, NULL), ERROR_SUCCESS);
    CHECK_TOLD(&ours, 4, 1, 0, 0);
    CHECK(TraceLoggingProviderEnabled(Ours, 0, 0), 0);
    TraceLoggingUnregister(Ours);
    CHECK(EventUnregister(handle), ERROR_SUCCESS);
    for (int n = 0; n < 3; n++)
        stop(sessions[n]);
}

/* ---- Traits: no event is without them ----------------------------------------------------------------------------------- */

static int writing = 1, from_callbacks;

/* The registration has a handle already. */
static VOID NTAPI write_in_callback(LPCGUID source, ULONG control, UCHAR level, ULONGLONG any, ULONGLONG all,
                                    PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    (void)source, (void)level, (void)any, (void)all, (void)filter, (void)context;
    if (control == EVENT_CONTROL_CODE_ENABLE_PROVIDER) {
        TraceLoggingWrite(Ours, "InCallback", TraceLoggingLevel(4));
        from_callbacks++;
    }
}

static void *keep_writing(void *unused)
{
    while (__atomic_load_n(&writing, __ATOMIC_RELAXED))
        TraceLoggingWrite(Ours, "OtherThread", TraceLoggingLevel(4));
    return unused;
}

static void traits(void)
{
    enum { ROUNDS = 100 };
    ETW_SESSION session;
    pthread_t thread;
    CHECK(etw_session_start("traits", in_folder("traits.etl"), &session), ERROR_SUCCESS);
    CHECK(etw_session_enable(session, &OurId, 5, 0, 0), ERROR_SUCCESS);
    CHECK(pthread_create(&thread, NULL, keep_writing, NULL), 0);
    for (int n = 0; n < ROUNDS; n++) {
        CHECK(TraceLoggingRegisterEx(Ours, write_in_callback, NULL), ERROR_SUCCESS);
        usleep(100);
        TraceLoggingUnregister(Ours);
    }
    __atomic_store_n(&writing, 0, __ATOMIC_RELAXED);
    CHECK(pthread_join(thread, NULL), 0);
    CHECK(from_callbacks, ROUNDS);
    CHECK(etw_session_stop(session, NULL), ERROR_SUCCESS);
}

/* ---- A provider is registered once, and a name is in use once ------------------------------------------------------------- */

static void twice(void)
{
    Told first = {0, 0, 0, 0}, second = {0, 0, 0, 0};
    ETW_SESSION session, other;
    TRACEHANDLE private_session;
    Properties all;
    const char *file = in_folder("twice.etl");
    CHECK(etw_session_start("Twice", file, &session), ERROR_SUCCESS);
    CHECK(etw_session_start("Twice", in_folder("other.etl"), &other), ERROR_ALREADY_EXISTS);
    CHECK(etw_session_start_ex("tWICE", NULL, NULL, &other), ERROR_ALREADY_EXISTS);
    CHECK(access(in_folder("other.etl"), F_OK), -1);
    memset(&all, 0, sizeof all);
    all.p.Wnode.BufferSize = sizeof all;
    all.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    all.p.LogFileMode = EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_PRIVATE_IN_PROC;
    all.p.LogFileNameOffset = offsetof(Properties, file);
    all.p.LoggerNameOffset = offsetof(Properties, name);
    snprintf(all.file, sizeof all.file, "%s", in_folder("other.etl"));
    CHECK(StartTraceA(&private_session, "Twice", &all.p), ERROR_ALREADY_EXISTS);
    private_session = start("other", EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_PRIVATE_IN_PROC);
    CHECK(etw_session_start("other", file, &other), ERROR_ALREADY_EXISTS);
    stop(private_session);
    CHECK(etw_session_start("other", in_folder("other.etl"), &other), ERROR_SUCCESS);
    CHECK(etw_session_stop(other, NULL), ERROR_SUCCESS);

    CHECK(etw_session_enable(session, &OurId, 5, 0, 0), ERROR_SUCCESS);
    CHECK(TraceLoggingRegisterEx(Ours, note, &first), ERROR_SUCCESS);
    CHECK(TraceLoggingRegisterEx(Ours, note, &second), ERROR_ALREADY_EXISTS);
    CHECK(TraceLoggingRegister(Ours), ERROR_ALREADY_EXISTS);
    TraceLoggingWrite(Ours, "Once");
    CHECK(etw_session_enable(session, &OurId, 4, 0, 0), ERROR_SUCCESS);
    CHECK_TOLD(&first, 2, 0, 4, ~0ull);
    CHECK_TOLD(&second, 0, 0, 0, 0);
    TraceLoggingUnregister(Ours);
    TraceLoggingUnregister(Ours);
    CHECK(TraceLoggingProviderEnabled(Ours, 0, 0), 0);
    CHECK(etw_session_enable(session, &OurId, 5, 0, 0), ERROR_SUCCESS);
    CHECK(TraceLoggingProviderEnabled(Ours, 0, 0), 0);
    CHECK_TOLD(&first, 2, 0, 4, ~0ull);
    CHECK(TraceLoggingRegister(Ours), ERROR_SUCCESS);
    CHECK(TraceLoggingProviderEnabled(Ours, 5, 0), 1);
    TraceLoggingWrite(Ours, "Again");
    TraceLoggingUnregister(Ours);
    CHECK(etw_session_stop(session, NULL), ERROR_SUCCESS);
    CHECK(etw_session_start("Twice", file, &session), ERROR_SUCCESS);
    CHECK(etw_session_stop(session, NULL), ERROR_SUCCESS);
}

/* ---- Forks ---------------------------------------------------------------------------------------------------------------- */

static void wait_for(pid_t child)
{
    int status = -1;
    CHECK(waitpid(child, &status, 0), child);
    CHECK(status, 0);
}

/* A child has none of its parent's private sessions, and may have one of the same name. */
static void private_child(void)
{
    Told told = {0, 0, 0, 0};
    ETW_SESSION session;
    REGHANDLE handle = 0;
    pid_t child;
    int evaluated = 0;
    CHECK(TraceLoggingRegisterEx(Ours, note, &told), ERROR_SUCCESS);
    CHECK(EventRegister(&Plain, NULL, NULL, &handle), ERROR_SUCCESS);
    CHECK(etw_session_start("private", in_folder("parent.etl"), &session), ERROR_SUCCESS);
    CHECK(etw_session_enable(session, &OurId, 5, 0, 0), ERROR_SUCCESS);
    CHECK(etw_session_enable(session, &Plain, 5, 0, 0), ERROR_SUCCESS);
    TraceLoggingWrite(Ours, "Parent", TraceLoggingInt32(++evaluated, "n"));
    child = fork();
    if (child == 0) {
        alarm(60);
        CHECK(TraceLoggingProviderEnabled(Ours, 0, 0), 0);
        CHECK(TraceLoggingEventEnabled(Ours, "Child"), 0);
        CHECK(EventProviderEnabled(handle, 0, 0), 0);
        TraceLoggingWrite(Ours, "Child", TraceLoggingInt32(++evaluated, "n"));
        CHECK(evaluated, 1);
        CHECK(etw_session_start("private", in_folder("child.etl"), &session), ERROR_SUCCESS);
        CHECK(etw_session_enable(session, &OurId, 3, 6, 2), ERROR_SUCCESS);
        CHECK(TraceLoggingProviderEnabled(Ours, 3, 2), 1);
        CHECK(TraceLoggingProviderEnabled(Ours, 3, 4), 0);
        CHECK(TraceLoggingProviderEnabled(Ours, 4, 2), 0);
        CHECK(EventProviderEnabled(handle, 0, 0), 0);
        TraceLoggingWrite(Ours, "Child", TraceLoggingLevel(3), TraceLoggingInt32(++evaluated, "n"));
        CHECK_TOLD(&told, 2, 0, 3, 6);
        CHECK(etw_session_stop(session, NULL), ERROR_SUCCESS);
        CHECK(TraceLoggingProviderEnabled(Ours, 0, 0), 0);
        TraceLoggingUnregister(Ours);
        _exit(0); /* Leak checkers would find what is the parent's alone. */
    }
    wait_for(child);
    CHECK(TraceLoggingProviderEnabled(Ours, 5, 8), 1);
    TraceLoggingWrite(Ours, "Parent", TraceLoggingInt32(++evaluated, "n"));
    CHECK(etw_session_stop(session, NULL), ERROR_SUCCESS);
    CHECK(TraceLoggingProviderEnabled(Ours, 0, 0), 0);
    TraceLoggingUnregister(Ours);
    CHECK(EventUnregister(handle), ERROR_SUCCESS);
}

/* Global sessions record a child from its first event on. */
static void global_child(void)
{
    TRACEHANDLE session = start("global", 0);
    pid_t child;
    CHECK(TraceLoggingRegister(Ours), ERROR_SUCCESS);
    enable(session, &OurId, 4, 2);
    TraceLoggingWrite(Ours, "Parent", TraceLoggingLevel(4), TraceLoggingKeyword(2));
    child = fork();
    if (child == 0) {
        alarm(60);
        CHECK(TraceLoggingProviderEnabled(Ours, 4, 2), 1);
        CHECK(TraceLoggingProviderEnabled(Ours, 5, 2), 0);
        for (int n = 0; n < 3; n++)
            TraceLoggingWrite(Ours, "Child", TraceLoggingLevel(4), TraceLoggingKeyword(2));
        CHECK(TraceLoggingProviderEnabled(Ours, 4, 2), 1);
        CHECK(TraceLoggingProviderEnabled(Ours, 4, 4), 0);
        TraceLoggingUnregister(Ours);
        _exit(0);
    }
    wait_for(child);
    /* A session of the child's own, before its first event, takes nothing from the host's. */
    child = fork();
    if (child == 0) {
        ETW_SESSION own;
        alarm(60);
        CHECK(etw_session_start("own", in_folder("own.etl"), &own), ERROR_SUCCESS);
        CHECK(etw_session_enable(own, &OurId, 3, 8, 0), ERROR_SUCCESS);
        CHECK(TraceLoggingProviderEnabled(Ours, 4, 2), 1);
        TraceLoggingWrite(Ours, "Global", TraceLoggingLevel(4), TraceLoggingKeyword(2));
        TraceLoggingWrite(Ours, "Both", TraceLoggingLevel(3), TraceLoggingKeyword(10));
        TraceLoggingWrite(Ours, "Own", TraceLoggingLevel(3), TraceLoggingKeyword(8));
        CHECK(etw_session_stop(own, NULL), ERROR_SUCCESS);
        CHECK(TraceLoggingProviderEnabled(Ours, 3, 8), 0);
        _exit(0);
    }
    wait_for(child);
    /* What the host's sessions no longer want at the fork, the child does not want either. */
    CHECK(EnableTraceEx2(session, &OurId, EVENT_CONTROL_CODE_DISABLE_PROVIDER, 0, 0, 0, 10000, NULL), ERROR_SUCCESS);
    for (int n = 0; n < 10000 && TraceLoggingProviderEnabled(Ours, 0, 0); n++)
        usleep(1000);
    CHECK(TraceLoggingProviderEnabled(Ours, 0, 0), 0);
    child = fork();
    if (child == 0) {
        alarm(60);
        CHECK(TraceLoggingProviderEnabled(Ours, 0, 0), 0);
        _exit(0);
    }
    wait_for(child);
    stop(session);
    TraceLoggingUnregister(Ours);
}

static int forking = 1, in_callback, may_end;

static VOID NTAPI wait_in_callback(LPCGUID source, ULONG control, UCHAR level, ULONGLONG any, ULONGLONG all,
                                   PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    (void)source, (void)level, (void)any, (void)all, (void)filter, (void)context;
    if (control != EVENT_CONTROL_CODE_ENABLE_PROVIDER || __atomic_load_n(&may_end, __ATOMIC_ACQUIRE))
        return;
    __atomic_store_n(&in_callback, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&may_end, __ATOMIC_ACQUIRE))
        usleep(1000);
}

static void *enable_in_session(void *session)
{
    CHECK(etw_session_enable(session, &Plain, 5, 0, 0), ERROR_SUCCESS);
    return NULL;
}

/* What a child may do, whatever its parent's threads did at the fork. */
static void use_everything(void)
{
    Told told = {0, 0, 0, 0};
    ETW_SESSION session;
    REGHANDLE handle = 0;
    const EVENT_DESCRIPTOR d = {1, 0, 0, 4, 0, 0, 2};
    alarm(60);
    CHECK(EventRegister(&OurId, note, &told, &handle), ERROR_SUCCESS);
    CHECK(etw_session_start_ex("child", NULL, NULL, &session), ERROR_SUCCESS);
    CHECK(etw_session_enable(session, &OurId, 5, 0, 0), ERROR_SUCCESS);
    CHECK(EventWrite(handle, &d, 0, NULL), ERROR_SUCCESS);
    CHECK_TOLD(&told, 1, 0, 5, ~0ull);
    CHECK(etw_session_stop(session, NULL), ERROR_SUCCESS);
    CHECK_TOLD(&told, 1, 1, 0, 0);
    CHECK(EventUnregister(handle), ERROR_SUCCESS);
    /* Not exit: functions that a thread of the parent was in might wait for it. */
    _exit(0);
}

static void *come_and_go(void *unused)
{
    while (__atomic_load_n(&forking, __ATOMIC_RELAXED)) {
        REGHANDLE handle = 0;
        Told told = {0, 0, 0, 0};
        CHECK(EventRegister(&OurId, note, &told, &handle), ERROR_SUCCESS);
        CHECK(EventUnregister(handle), ERROR_SUCCESS);
    }
    return unused;
}

/* Threads of the parent register, and one is in a callback, while another forks. */
static void busy_parent(void)
{
    ETW_SESSION session;
    pthread_t threads[4];
    REGHANDLE handle = 0;
    CHECK(EventRegister(&Plain, wait_in_callback, NULL, &handle), ERROR_SUCCESS);
    CHECK(etw_session_start("busy", in_folder("busy.etl"), &session), ERROR_SUCCESS);
    CHECK(pthread_create(&threads[0], NULL, enable_in_session, session), 0);
    while (!__atomic_load_n(&in_callback, __ATOMIC_ACQUIRE))
        usleep(1000);
    for (int n = 0; n < 3; n++) {
        const pid_t child = fork();
        if (child == 0)
            use_everything();
        wait_for(child);
    }
    __atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
    CHECK(pthread_join(threads[0], NULL), 0);
    for (int n = 1; n < 4; n++)
        CHECK(pthread_create(&threads[n], NULL, come_and_go, NULL), 0);
    for (int n = 0; n < 40; n++) {
        const pid_t child = fork();
        if (child == 0)
            use_everything();
        wait_for(child);
    }
    __atomic_store_n(&forking, 0, __ATOMIC_RELAXED);
    for (int n = 1; n < 4; n++)
        CHECK(pthread_join(threads[n], NULL), 0);
    CHECK(etw_session_stop(session, NULL), ERROR_SUCCESS);
    CHECK(EventUnregister(handle), ERROR_SUCCESS);
}

/* ---- The filter of EventWriteEx ------------------------------------------------------------------------------------------- */

typedef struct {
    EVENT_FILTER_HEADER header;
    char data[4];
} Filter;

static ULONGLONG instances[4];
static int instance_count;

static VOID NTAPI take_instance(LPCGUID source, ULONG control, UCHAR level, ULONGLONG any, ULONGLONG all,
                                PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    Filter got;
    (void)source, (void)control, (void)level, (void)any, (void)all, (void)context;
    if (filter == NULL)
        return; /* A session has ended. */
    CHECK_TRUE(filter->Size == sizeof got && instance_count < 4);
    memcpy(&got, (const void *)(uintptr_t)filter->Ptr, sizeof got);
    CHECK(memcmp(got.data, "data", 4), 0);
    CHECK(got.header.Id, 7);
    instances[instance_count++] = got.header.InstanceId;
}

static void enable_with_filter(TRACEHANDLE session)
{
    EVENT_FILTER_DESCRIPTOR descriptor;
    ENABLE_TRACE_PARAMETERS parameters;
    Filter filter;
    memset(&filter, 0, sizeof filter);
    filter.header.Id = 7;
    filter.header.Size = sizeof filter;
    memcpy(filter.data, "data", 4);
    memset(&descriptor, 0, sizeof descriptor);
    descriptor.Ptr = (ULONGLONG)(uintptr_t)&filter;
    descriptor.Size = sizeof filter;
    descriptor.Type = EVENT_FILTER_TYPE_SCHEMATIZED;
    memset(&parameters, 0, sizeof parameters);
    parameters.Version = ENABLE_TRACE_PARAMETERS_VERSION_2;
    parameters.EnableFilterDesc = &descriptor;
    parameters.FilterDescCount = 1;
    CHECK(EnableTraceEx2(session, &Plain, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 10000, &parameters), ERROR_SUCCESS);
}

/* Event n is excluded from session n; event 3 from none, 4 from the private ones, 5 from all. */
static void filters(void)
{
    const ULONG private_mode = EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_PRIVATE_IN_PROC;
    TRACEHANDLE sessions[3];
    REGHANDLE handle = 0;
    EVENT_DESCRIPTOR d;
    ULONGLONG masks[6];
    /* The program is connected to the host before its private sessions start. */
    CHECK(EventRegister(&Plain, take_instance, NULL, &handle), ERROR_SUCCESS);
    sessions[0] = start("public", 0);
    enable_with_filter(sessions[0]);
    sessions[1] = start("private-0", private_mode);
    enable_with_filter(sessions[1]);
    sessions[2] = start("private-1", private_mode);
    enable_with_filter(sessions[2]);
    CHECK(instance_count, 3);
    CHECK_TRUE(instances[0] != 0 && (instances[0] & (instances[0] - 1)) == 0 && instances[0] <= 0xffff);
    CHECK_TRUE(instances[1] == 1ull << 32);
    CHECK_TRUE(instances[2] == 1ull << 33);
    memcpy(masks, instances, sizeof instances);
    masks[3] = ~(instances[0] | instances[1] | instances[2]);
    masks[4] = 0xffffffffull << 32;
    masks[5] = ~0ull;
    for (int n = 0; n < 6; n++) {
        EventDescCreate(&d, (USHORT)n, 0, 0, 4, 0, 0, 0);
        CHECK(EventWriteEx(handle, &d, masks[n], 0, NULL, NULL, 0, NULL), ERROR_SUCCESS);
    }
    /* The number of a session that has ended is the next one's; the others keep theirs. */
    stop(sessions[1]);
    sessions[1] = start("private-2", private_mode);
    enable_with_filter(sessions[1]);
    CHECK(instance_count, 4);
    CHECK_TRUE(instances[3] == 1ull << 32);
    EventDescCreate(&d, 10, 0, 0, 4, 0, 0, 0);
    CHECK(EventWriteEx(handle, &d, 1ull << 32, 0, NULL, NULL, 0, NULL), ERROR_SUCCESS);
    CHECK(EventUnregister(handle), ERROR_SUCCESS);
    for (int n = 0; n < 3; n++)
        stop(sessions[n]);
}

int main(int count, char **arguments)
{
    const char *part = count > 1 ? arguments[1] : "";
    if (strcmp(part, "callbacks") == 0)
        callbacks();
    else if (strcmp(part, "traits") == 0)
        traits();
    else if (strcmp(part, "twice") == 0)
        twice();
    else if (strcmp(part, "private-child") == 0)
        private_child();
    else if (strcmp(part, "global-child") == 0)
        global_child();
    else if (strcmp(part, "busy-parent") == 0)
        busy_parent();
    else if (strcmp(part, "filters") == 0)
        filters();
    else
        return 2;
    return 0;
}
