/*
 * Classic events from a signal handler that interrupts other writes, without an allocation. TRACE_OUT names the file. Prints the numbers of
 * admitted and refused events. With COUNT_ALLOCATIONS, the linker redirects allocations to this file.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#define INITGUID
#include <evntrace.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

DEFINE_GUID(ControlGuid, 0xc1a551c0, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 8);
DEFINE_GUID(ClassGuid, 0xc1a551c2, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 8);

static __thread volatile int is_counting;
static volatile unsigned long allocations;

#ifdef COUNT_ALLOCATIONS
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size)
{
    allocations += is_counting ? 1 : 0;
    return __real_malloc(size);
}
void *__wrap_calloc(size_t count, size_t size)
{
    allocations += is_counting ? 1 : 0;
    return __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size)
{
    allocations += is_counting ? 1 : 0;
    return __real_realloc(memory, size);
}
#endif

static TRACEHANDLE logger;
static TRACE_GUID_REGISTRATION classes[1];
static volatile unsigned long taken, refused, in_handler;

static ULONG WINAPI control(WMIDPREQUESTCODE code, PVOID context, ULONG *size, PVOID buffer)
{
    (void)code, (void)context, (void)size;
    logger = GetTraceLoggerHandle(buffer);
    return ERROR_SUCCESS;
}

/* One event of each kind. */
static unsigned write_all(unsigned long *out)
{
    struct {
        EVENT_TRACE_HEADER header;
        MOF_FIELD field;
    } event;
    struct {
        EVENT_INSTANCE_HEADER header;
        ULONG number;
    } of_instance;
    EVENT_INSTANCE_INFO info;
    unsigned failed = 0;
    memset(&event, 0, sizeof event);
    event.header.Size = sizeof event;
    event.header.Guid = ClassGuid;
    event.header.Flags = WNODE_FLAG_TRACED_GUID | WNODE_FLAG_USE_MOF_PTR;
    event.field.DataPtr = (ULONG64)(uintptr_t) "text";
    event.field.Length = 5;
    failed += TraceEvent(logger, &event.header) != ERROR_SUCCESS;
    memset(&of_instance, 0, sizeof of_instance);
    of_instance.header.Size = sizeof of_instance;
    of_instance.header.Flags = WNODE_FLAG_TRACED_GUID;
    failed += CreateTraceInstanceId(classes[0].RegHandle, &info) != ERROR_SUCCESS ||
              TraceEventInstance(logger, &of_instance.header, &info, NULL) != ERROR_SUCCESS;
    failed += TraceMessage(logger, TRACE_MESSAGE_GUID | TRACE_MESSAGE_SEQUENCE | TRACE_MESSAGE_TIMESTAMP, &ClassGuid, 1,
                           "text", (size_t)5, NULL) != ERROR_SUCCESS;
    *out += 3 - failed;
    return failed;
}

static void handler(int number)
{
    unsigned long count = 0;
    (void)number;
    refused += write_all(&count);
    in_handler += count;
}

int main(void)
{
    static struct {
        EVENT_TRACE_PROPERTIES p;
        char file[512];
        char name[64];
    } all;
    TRACEHANDLE provider = 0, session = 0;
    struct sigaction action;
    struct itimerval timer = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
    classes[0].Guid = &ClassGuid;
    all.p.Wnode.BufferSize = sizeof all;
    all.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    all.p.LogFileMode = EVENT_TRACE_PRIVATE_LOGGER_MODE;
    all.p.LogFileNameOffset = (ULONG)((char *)all.file - (char *)&all);
    all.p.LoggerNameOffset = (ULONG)((char *)all.name - (char *)&all);
    strcpy(all.file, getenv("TRACE_OUT"));
    if (RegisterTraceGuidsA(control, NULL, &ControlGuid, 1, classes, NULL, NULL, &provider) ||
        StartTraceA(&session, "classic safety", &all.p) || EnableTrace(TRUE, 0, 0, &ControlGuid, session))
        return 1;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    if (sigaction(SIGALRM, &action, NULL) || setitimer(ITIMER_REAL, &timer, NULL))
        return 2;
    is_counting = 1;
    for (int n = 0; n < 30000 || (in_handler < 300 && n < 30000000); n++) {
        unsigned long count = 0;
        unsigned long failed = write_all(&count);
        taken += count;
        /* The handler counts its events separately, because an addition is not one instruction on every machine. */
        if (failed != 0)
            __atomic_add_fetch((unsigned long *)&refused, failed, __ATOMIC_SEQ_CST);
    }
    is_counting = 0;
    setitimer(ITIMER_REAL, &never, NULL);
    if (ControlTraceA(session, NULL, &all.p, EVENT_TRACE_CONTROL_STOP) || UnregisterTraceGuids(provider))
        return 3;
    printf("%lu %lu %lu %lu\n", taken, in_handler, refused, allocations);
    return 0;
}
