/*
 * A classic provider in the form of Microsoft's documentation, with a private and a global session: the calls of its callback in order, every
 * form of its events, and every status. PRIVATE_OUT and GLOBAL_OUT name the files. Compiled as C and as C++.
 */
/* nanosleep */
#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1
#endif
#define INITGUID
#include <evntrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

DEFINE_GUID(ControlGuid, 0xc1a551c0, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 8);
DEFINE_GUID(OtherGuid, 0xc1a551c1, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 8);
DEFINE_GUID(OrderGuid, 0xc1a551c2, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 8);
DEFINE_GUID(ShopGuid, 0xc1a551c3, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 8);
DEFINE_GUID(MessageGuid, 0xc1a551c4, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 8);

/* The last call of the callback, and the number of calls. */
typedef struct {
    WMIDPREQUESTCODE code;
    TRACEHANDLE logger;
    int calls;
    ULONG answer;
} Told;

static Told told, told_other;

static ULONG WINAPI control(WMIDPREQUESTCODE code, PVOID context, ULONG *size, PVOID buffer)
{
    Told *mine = (Told *)context;
    const WNODE_HEADER *wnode = (const WNODE_HEADER *)buffer;
    if (*size != sizeof(WNODE_HEADER) || wnode->BufferSize != sizeof(WNODE_HEADER))
        abort();
    if (!(wnode->Flags & WNODE_FLAG_TRACED_GUID) || wnode->HistoricalContext != GetTraceLoggerHandle(buffer))
        abort();
    if (memcmp(&wnode->Guid, mine == &told ? &ControlGuid : &OtherGuid, sizeof(GUID)) != 0)
        abort();
    mine->code = code;
    mine->logger = GetTraceLoggerHandle(buffer);
    __atomic_add_fetch(&mine->calls, 1, __ATOMIC_SEQ_CST);
    return mine->answer;
}

/* A global session's callback runs on another thread. */
static void wait_for(const Told *of, int calls, WMIDPREQUESTCODE code, int level, ULONG flags)
{
    struct timespec pause = {0, 1000000};
    for (int n = 0; n < 10000 && __atomic_load_n(&of->calls, __ATOMIC_SEQ_CST) < calls; n++)
        nanosleep(&pause, NULL);
    CHECK(of->calls, calls);
    CHECK(of->code, code);
    CHECK(GetTraceEnableLevel(of->logger), level);
    CHECK(GetTraceEnableFlags(of->logger), flags);
}

typedef struct {
    EVENT_TRACE_PROPERTIES p;
    char file[512];
    char name[64];
} Properties;

static TRACEHANDLE start(const char *name, const char *file, ULONG mode)
{
    static Properties all;
    TRACEHANDLE session = 0;
    memset(&all, 0, sizeof all);
    all.p.Wnode.BufferSize = sizeof all;
    all.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    all.p.Wnode.ClientContext = 1;
    all.p.BufferSize = 32;
    all.p.LogFileMode = mode;
    all.p.LogFileNameOffset = offsetof(Properties, file);
    all.p.LoggerNameOffset = offsetof(Properties, name);
    strcpy(all.file, file);
    CHECK(StartTraceA(&session, name, &all.p), ERROR_SUCCESS);
    return session;
}

static void stop(TRACEHANDLE session)
{
    static Properties all;
    memset(&all, 0, sizeof all);
    all.p.Wnode.BufferSize = sizeof all;
    all.p.LogFileNameOffset = offsetof(Properties, file);
    all.p.LoggerNameOffset = offsetof(Properties, name);
    CHECK(ControlTraceA(session, NULL, &all.p, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
}

/* Order: type 1 begin, type 2 end. */
typedef struct {
    EVENT_TRACE_HEADER header;
    ULONG number;
    char name[8];
} Order;

static Order order(ULONG number, const char *name)
{
    Order event;
    ZeroMemory(&event, sizeof event);
    event.header.Size = (USHORT)(offsetof(Order, name) + strlen(name) + 1);
    event.header.Class.Type = EVENT_TRACE_TYPE_START;
    event.header.Class.Level = TRACE_LEVEL_INFORMATION;
    event.header.Class.Version = 2;
    event.header.Guid = OrderGuid;
    event.header.Flags = WNODE_FLAG_TRACED_GUID;
    event.number = number;
    strcpy(event.name, name);
    return event;
}

static ULONG write_order(TRACEHANDLE logger, ULONG number)
{
    Order event = order(number, "tea");
    return TraceEvent(logger, &event.header);
}

static ULONG message_va(TRACEHANDLE logger, ULONG flags, LPCGUID id, int number, ...)
{
    va_list arguments;
    ULONG status;
    va_start(arguments, number);
    status = TraceMessageVa(logger, flags, id, (USHORT)number, arguments);
    va_end(arguments);
    return status;
}

static void forms_of_events(TRACEHANDLE logger)
{
    struct {
        EVENT_TRACE_HEADER header;
        MOF_FIELD fields[MAX_MOF_FIELDS + 1];
    } mof;
    Order event = order(2, "coffee");
    ULONG number = 3;
    /* The header points to the GUID. */
    event.header.GuidPtr = (ULONG64)(uintptr_t)&OrderGuid;
    event.header.Flags |= WNODE_FLAG_USE_GUID_PTR;
    CHECK(TraceEvent(logger, &event.header), ERROR_SUCCESS);
    event.header.GuidPtr = 0;
    CHECK(TraceEvent(logger, &event.header), ERROR_INVALID_PARAMETER);

    /* The header points to the data, in pieces. */
    memset(&mof, 0, sizeof mof);
    mof.header = order(0, "").header;
    mof.header.Flags |= WNODE_FLAG_USE_MOF_PTR;
    mof.header.Size = sizeof mof.header + 3 * sizeof(MOF_FIELD);
    mof.fields[0].DataPtr = (ULONG64)(uintptr_t)&number;
    mof.fields[0].Length = sizeof number;
    mof.fields[1].DataPtr = (ULONG64)(uintptr_t)"wat";
    mof.fields[1].Length = 3;
    mof.fields[2].DataPtr = (ULONG64)(uintptr_t)"er";
    mof.fields[2].Length = 3;
    CHECK(TraceEvent(logger, &mof.header), ERROR_SUCCESS);
    /* The largest number of pieces, and one more. */
    mof.header.Size = sizeof mof.header + MAX_MOF_FIELDS * sizeof(MOF_FIELD);
    CHECK(TraceEvent(logger, &mof.header), ERROR_SUCCESS);
    mof.header.Size += sizeof(MOF_FIELD);
    CHECK(TraceEvent(logger, &mof.header), ERROR_INVALID_PARAMETER);
    mof.header.Size = sizeof mof.header + 1;
    CHECK(TraceEvent(logger, &mof.header), ERROR_INVALID_PARAMETER);
    mof.header.Size = sizeof mof.header + 3 * sizeof(MOF_FIELD);
    mof.fields[1].DataPtr = 0;
    CHECK(TraceEvent(logger, &mof.header), ERROR_INVALID_PARAMETER);

    /* Invalid sizes and flags. */
    event = order(9, "never");
    event.header.Size = sizeof event.header - 1;
    CHECK(TraceEvent(logger, &event.header), ERROR_INVALID_PARAMETER);
    event = order(9, "never");
    event.header.Flags = 0;
    CHECK(TraceEvent(logger, &event.header), ERROR_INVALID_FLAG_NUMBER);
    event.header.Flags = WNODE_FLAG_TRACED_GUID | WNODE_FLAG_LOG_WNODE;
    CHECK(TraceEvent(logger, &event.header), ERROR_INVALID_FLAG_NUMBER);
    event.header.Flags = WNODE_FLAG_TRACED_GUID | WNODE_FLAG_NO_HEADER;
    CHECK(TraceEvent(logger, &event.header), ERROR_INVALID_FLAG_NUMBER);
    CHECK(TraceEvent(logger, NULL), ERROR_INVALID_PARAMETER);
    CHECK(TraceEvent(0, &event.header), ERROR_INVALID_PARAMETER);
    CHECK(TraceEvent(INVALID_TRACEHANDLE, &event.header), ERROR_INVALID_HANDLE);

    /* An event larger than the session's buffers, and one larger than any record. */
    {
        char *large = (char *)calloc(1, 1 << 20);
        mof.header.Size = sizeof mof.header + sizeof(MOF_FIELD);
        mof.fields[0].DataPtr = (ULONG64)(uintptr_t)large;
        mof.fields[0].Length = 33 << 10;
        CHECK(TraceEvent(logger, &mof.header), ERROR_MORE_DATA);
        mof.fields[0].Length = 1 << 20;
        CHECK(TraceEvent(logger, &mof.header), ERROR_MORE_DATA);
        CHECK(TraceMessage(logger, 0, NULL, 1, large, (size_t)1 << 20, NULL), ERROR_MORE_DATA);
        free(large);
    }
}

static void instances(TRACEHANDLE logger, HANDLE of_order, HANDLE of_shop)
{
    struct {
        EVENT_INSTANCE_HEADER header;
        ULONG number;
        char name[4];
    } event;
    EVENT_INSTANCE_INFO shop, first, second;
    memset(&shop, 0, sizeof shop);
    first = second = shop;
    CHECK(CreateTraceInstanceId(of_shop, &shop), ERROR_SUCCESS);
    CHECK(CreateTraceInstanceId(of_order, &first), ERROR_SUCCESS);
    CHECK(CreateTraceInstanceId(of_order, &second), ERROR_SUCCESS);
    CHECK(shop.RegHandle == of_shop && shop.InstanceId != 0 && second.InstanceId == first.InstanceId + 1, 1);
    CHECK(CreateTraceInstanceId(NULL, &shop), ERROR_INVALID_PARAMETER);
    CHECK(CreateTraceInstanceId(of_shop, NULL), ERROR_INVALID_PARAMETER);
    CHECK(CreateTraceInstanceId((HANDLE)(uintptr_t)0xfff, &shop), ERROR_INVALID_PARAMETER);

    memset(&event, 0, sizeof event);
    event.header.Size = sizeof event;
    event.header.Class.Type = EVENT_TRACE_TYPE_START;
    event.header.Class.Version = 2;
    event.header.Flags = WNODE_FLAG_TRACED_GUID;
    event.number = 5;
    strcpy(event.name, "ice");
    CHECK(TraceEventInstance(logger, &event.header, &second, &shop), ERROR_SUCCESS);
    CHECK(TraceEventInstance(logger, &event.header, &first, NULL), ERROR_SUCCESS);
    CHECK(TraceEventInstance(logger, &event.header, NULL, &shop), ERROR_INVALID_PARAMETER);
    CHECK(TraceEventInstance(logger, NULL, &first, &shop), ERROR_INVALID_PARAMETER);
    CHECK(TraceEventInstance(0, &event.header, &first, &shop), ERROR_INVALID_PARAMETER);
    CHECK(TraceEventInstance(1, &event.header, &first, &shop), ERROR_INVALID_HANDLE);
    first.RegHandle = NULL;
    CHECK(TraceEventInstance(logger, &event.header, &first, &shop), ERROR_INVALID_PARAMETER);
    CHECK(TraceEventInstance(logger, &event.header, &shop, &first), ERROR_INVALID_PARAMETER);
    event.header.Size = sizeof event.header - 1;
    CHECK(TraceEventInstance(logger, &event.header, &shop, NULL), ERROR_INVALID_PARAMETER);
    event.header.Size = sizeof event;
    event.header.Flags = WNODE_FLAG_USE_MOF_PTR;
    CHECK(TraceEventInstance(logger, &event.header, &shop, NULL), ERROR_INVALID_FLAG_NUMBER);
}

static void messages(TRACEHANDLE logger)
{
    const ULONG all = TRACE_MESSAGE_SEQUENCE | TRACE_MESSAGE_GUID | TRACE_MESSAGE_TIMESTAMP |
                      TRACE_MESSAGE_SYSTEMINFO;
    LONG number = -6;
    ULONG component = 0x12345;
    CHECK(TraceMessage(logger, all, &MessageGuid, 10, &number, sizeof number, "juice", (size_t)6, NULL),
          ERROR_SUCCESS);
    CHECK(message_va(logger, all, &MessageGuid, 11, "", (size_t)0, &number, sizeof number, NULL), ERROR_SUCCESS);
    CHECK(TraceMessage(logger, TRACE_MESSAGE_COMPONENTID, (LPCGUID)(const void *)&component, 12, NULL),
          ERROR_SUCCESS);
    /* 20 pieces: more arguments than registers. */
#define TWO "a", (size_t)1, "b", (size_t)1
#define TEN TWO, TWO, TWO, TWO, TWO
    CHECK(TraceMessage(logger, TRACE_MESSAGE_GUID | TRACE_MESSAGE_PERFORMANCE_TIMESTAMP, &MessageGuid, 13, TEN, TEN,
                       NULL),
          ERROR_SUCCESS);
#define HUNDRED TEN, TEN, TEN, TEN, TEN, TEN, TEN, TEN, TEN, TEN
    CHECK(TraceMessage(logger, 0, NULL, 14, HUNDRED, TEN, TEN, TEN, NULL), ERROR_INVALID_PARAMETER);
    /* As many as there may be, and one more. */
#define EIGHT TWO, TWO, TWO, TWO
    CHECK(TraceMessage(logger, TRACE_MESSAGE_GUID, &MessageGuid, 16, HUNDRED, TEN, TEN, EIGHT, NULL), ERROR_SUCCESS);
    CHECK(TraceMessage(logger, TRACE_MESSAGE_GUID, &MessageGuid, 17, HUNDRED, TEN, TEN, EIGHT, "a", (size_t)1, NULL),
          ERROR_INVALID_PARAMETER);
    CHECK(message_va(logger, TRACE_MESSAGE_GUID, &MessageGuid, 16, HUNDRED, TEN, TEN, EIGHT, NULL), ERROR_SUCCESS);
    CHECK(message_va(logger, TRACE_MESSAGE_GUID, &MessageGuid, 17, HUNDRED, TEN, TEN, EIGHT, "a", (size_t)1, NULL),
          ERROR_INVALID_PARAMETER);
    /* Arguments that are not short, as the first and the last one. */
    {
        char text[90];
        memset(text, 'c', sizeof text);
        CHECK(TraceMessage(logger, TRACE_MESSAGE_GUID, &MessageGuid, 18, text, (size_t)65, "a", (size_t)1, text, sizeof text,
                           NULL),
              ERROR_SUCCESS);
    }
    /* Sizes whose sum overflows. */
    CHECK(TraceMessage(logger, TRACE_MESSAGE_GUID, &MessageGuid, 19, "a", ~(size_t)0, "b", (size_t)2, NULL), ERROR_MORE_DATA);
    CHECK(TraceMessage(logger, TRACE_MESSAGE_GUID, &MessageGuid, 19, "a", (size_t)1, "b", (size_t)1 << 32, NULL), ERROR_MORE_DATA);
    CHECK(TraceMessage(logger, TRACE_MESSAGE_GUID, NULL, 15, NULL), ERROR_INVALID_PARAMETER);
    CHECK(TraceMessage(logger, TRACE_MESSAGE_COMPONENTID, NULL, 15, NULL), ERROR_INVALID_PARAMETER);
    CHECK(TraceMessage(0, all, &MessageGuid, 15, NULL), ERROR_INVALID_HANDLE);
    CHECK(message_va(2, all, &MessageGuid, 15, NULL), ERROR_INVALID_HANDLE);
}

static void statuses_of_registrations(void)
{
    TRACEHANDLE handle = 0;
    TRACE_GUID_REGISTRATION none;
    UCHAR wnode[sizeof(WNODE_HEADER)] = {0};
    memset(&none, 0, sizeof none);
    CHECK(RegisterTraceGuidsA(NULL, NULL, &OtherGuid, 0, NULL, NULL, NULL, &handle), ERROR_INVALID_PARAMETER);
    CHECK(RegisterTraceGuidsA(control, NULL, NULL, 0, NULL, NULL, NULL, &handle), ERROR_INVALID_PARAMETER);
    CHECK(RegisterTraceGuidsA(control, NULL, &OtherGuid, 0, NULL, NULL, NULL, NULL), ERROR_INVALID_PARAMETER);
    CHECK(RegisterTraceGuidsA(control, NULL, &OtherGuid, 1, NULL, NULL, NULL, &handle), ERROR_INVALID_PARAMETER);
    CHECK(RegisterTraceGuidsA(control, NULL, &OtherGuid, 1, &none, NULL, NULL, &handle), ERROR_INVALID_PARAMETER);
    CHECK(UnregisterTraceGuids(0), ERROR_INVALID_PARAMETER);
    CHECK(UnregisterTraceGuids(77), ERROR_INVALID_HANDLE);
    SetLastError(ERROR_SUCCESS);
    CHECK(GetTraceLoggerHandle(NULL), INVALID_TRACEHANDLE);
    CHECK(GetLastError(), ERROR_INVALID_PARAMETER);
    CHECK((HANDLE)(uintptr_t)GetTraceLoggerHandle(wnode) == INVALID_HANDLE_VALUE, 1);
    CHECK(GetLastError(), ERROR_BAD_LENGTH);
    SetLastError(ERROR_SUCCESS);
    CHECK(GetTraceEnableLevel(0), 0);
    CHECK(GetLastError(), ERROR_INVALID_HANDLE);
    SetLastError(ERROR_SUCCESS);
    CHECK(GetTraceEnableFlags(INVALID_TRACEHANDLE), 0);
    CHECK(GetLastError(), ERROR_INVALID_HANDLE);
}

int main(void)
{
    TRACE_GUID_REGISTRATION classes[2];
    TRACEHANDLE provider = 0, other = 0, of_private, of_global, logger, before;

    memset(classes, 0, sizeof classes);
    classes[0].Guid = &OrderGuid;
    classes[1].Guid = &ShopGuid;
    told.answer = ERROR_INVALID_FUNCTION;
    CHECK(RegisterTraceGuidsW(control, &told, &ControlGuid, 2, classes, ETW_W("mof.dll"), NULL, &provider),
          ERROR_SUCCESS);
    CHECK(provider != 0 && classes[0].RegHandle != NULL && classes[0].RegHandle != classes[1].RegHandle, 1);
    CHECK(told.calls, 0);
    statuses_of_registrations();

    of_private = start("classic private", getenv("PRIVATE_OUT"), EVENT_TRACE_PRIVATE_LOGGER_MODE | EVENT_TRACE_USE_LOCAL_SEQUENCE);
    of_global = start("classic global", getenv("GLOBAL_OUT"), EVENT_TRACE_FILE_MODE_SEQUENTIAL);
    CHECK(write_order(of_private, 0), ERROR_INVALID_HANDLE);

    /* The private session. */
    CHECK(EnableTrace(TRUE, 0x80000005, 4, &ControlGuid, of_private), ERROR_SUCCESS);
    wait_for(&told, 1, WMI_ENABLE_EVENTS, 4, 0x80000005);
    logger = told.logger;
    CHECK(write_order(logger, 1), ERROR_SUCCESS);
    forms_of_events(logger);
    instances(logger, classes[0].RegHandle, classes[1].RegHandle);
    messages(logger);

    /* The global session takes the provider over. */
    before = logger;
    CHECK(EnableTraceEx2(of_global, &ControlGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 2, 0x3, 0, 5000, NULL),
          ERROR_SUCCESS);
    wait_for(&told, 2, WMI_ENABLE_EVENTS, 2, 3);
    logger = told.logger;
    CHECK(write_order(before, 100), ERROR_INVALID_HANDLE);
    CHECK(write_order(logger, 1), ERROR_SUCCESS);
    forms_of_events(logger);
    instances(logger, classes[0].RegHandle, classes[1].RegHandle);
    messages(logger);
    /* The same session enables it with another level and other flags. */
    CHECK(EnableTraceEx2(of_global, &ControlGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 0, 0, 0, 5000, NULL),
          ERROR_SUCCESS);
    wait_for(&told, 3, WMI_ENABLE_EVENTS, 0, 0);
    CHECK(told.logger, logger);
    CHECK(write_order(logger, 101), ERROR_SUCCESS);
    CHECK(EnableTraceEx2(of_global, &ControlGuid, EVENT_CONTROL_CODE_CAPTURE_STATE, 1, 2, 0, 5000, NULL),
          ERROR_SUCCESS);
    wait_for(&told, 4, WMI_CAPTURE_STATE, 0, 0);
    /* The private session cannot disable a provider that another session has taken over. */
    CHECK(EnableTrace(FALSE, 0, 0, &ControlGuid, of_private), ERROR_SUCCESS);
    CHECK(told.calls, 4);
    CHECK(write_order(logger, 102), ERROR_SUCCESS);

    /* The private session takes the provider back and disables it; then no session has it. */
    CHECK(EnableTrace(TRUE, 0, 5, &ControlGuid, of_private), ERROR_SUCCESS);
    wait_for(&told, 5, WMI_ENABLE_EVENTS, 5, 0);
    CHECK(write_order(logger, 103), ERROR_INVALID_HANDLE);
    CHECK(write_order(told.logger, 104), ERROR_SUCCESS);
    CHECK(EnableTrace(FALSE, 0, 0, &ControlGuid, of_private), ERROR_SUCCESS);
    wait_for(&told, 6, WMI_DISABLE_EVENTS, 0, 0);
    CHECK(GetLastError(), ERROR_INVALID_HANDLE);
    CHECK(write_order(told.logger, 105), ERROR_INVALID_HANDLE);

    /* A session enabled the provider before it registers: the registration calls the callback and returns its result. */
    CHECK(EnableTraceEx2(of_global, &OtherGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 3, 9, 0, 0, NULL), ERROR_SUCCESS);
    told_other.answer = ERROR_INVALID_FUNCTION;
    CHECK(RegisterTraceGuidsA(control, &told_other, &OtherGuid, 0, NULL, NULL, NULL, &other), ERROR_INVALID_FUNCTION);
    wait_for(&told_other, 1, WMI_ENABLE_EVENTS, 3, 9);
    CHECK(write_order(told_other.logger, 106), ERROR_SUCCESS);
    CHECK(UnregisterTraceGuids(other), ERROR_SUCCESS);
    CHECK(UnregisterTraceGuids(other), ERROR_INVALID_HANDLE);
    CHECK(write_order(told_other.logger, 107), ERROR_INVALID_HANDLE);

    /* The end of the session. */
    CHECK(EnableTraceEx2(of_global, &ControlGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 1, 0, 5000, NULL),
          ERROR_SUCCESS);
    wait_for(&told, 7, WMI_ENABLE_EVENTS, 5, 1);
    CHECK(write_order(told.logger, 108), ERROR_SUCCESS);
    stop(of_global);
    wait_for(&told, 8, WMI_DISABLE_EVENTS, 0, 0);
    CHECK(write_order(told.logger, 109), ERROR_INVALID_HANDLE);
    stop(of_private);
    CHECK(UnregisterTraceGuids(provider), ERROR_SUCCESS);
    CHECK(CreateTraceInstanceId(classes[0].RegHandle, (PEVENT_INSTANCE_INFO)(void *)&classes[1]),
          ERROR_INVALID_PARAMETER);
    CHECK(told.calls, 8);
    CHECK(told_other.calls, 1);
    return 0;
}
