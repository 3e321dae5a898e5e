/* Every write call once, into a private session: WRITE_CALLS_OUT names its file. Compiled as C and as C++. */
#define INITGUID
#include <evntprov.h>
#include <etw_session.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

DEFINE_GUID(Provider, 0x12345678, 0x9abc, 0xdef0, 1, 2, 3, 4, 5, 6, 7, 8);

static int enabled_calls;

static VOID NTAPI changed(LPCGUID source, ULONG is_enabled, UCHAR level, ULONGLONG any,
                          ULONGLONG all, PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    (void)source, (void)all, (void)filter;
    if (is_enabled == EVENT_CONTROL_CODE_ENABLE_PROVIDER && level == 5 && any == 6 &&
        context == &enabled_calls)
        enabled_calls++;
}

int main(void)
{
    REGHANDLE handle = 0;
    ETW_SESSION session;
    ULONGLONG lost = 99;
    EVENT_DESCRIPTOR d;
    EVENT_DATA_DESCRIPTOR data[2], many[129];
    GUID ours = {1, 2, 3, {4, 5, 6, 7, 8, 9, 10, 11}}, theirs = {9, 0, 0, {0}}, id;
    int number = 42;
    const char *out = getenv("WRITE_CALLS_OUT");
    memset(&ours.Data4, 7, 8);

    EventDescCreate(&d, 7, 1, 0, 4, 3, 2, 0x2);
    EventDataDescCreate(&data[0], &number, sizeof number);
    EventDataDescCreate(&data[1], "text", 5);
    for (int i = 0; i < 129; i++)
        EventDataDescCreate(&many[i], "", 1);

    CHECK(EventRegister(NULL, NULL, NULL, &handle), ERROR_INVALID_PARAMETER);
    CHECK(EventRegister(&Provider, NULL, NULL, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EventRegister(&Provider, changed, &enabled_calls, &handle), ERROR_SUCCESS);
    CHECK(EventProviderEnabled(handle, 4, 2), 0);
    CHECK(EventWrite(handle, &d, 2, data), ERROR_SUCCESS); /* No session enabled the provider. */
    CHECK(etw_session_start("c", out, &session), ERROR_SUCCESS);
    CHECK(etw_session_enable(session, &Provider, 5, 6, 0), ERROR_SUCCESS);
    CHECK(enabled_calls, 1);
    CHECK(EventEnabled(handle, &d), 1);
    CHECK(EtwEventProviderEnabled(handle, 6, 2), 0);

    CHECK(EventWrite(handle, NULL, 0, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EtwEventWriteFull(handle, NULL, 0, NULL, NULL, 0, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EtwEventWriteFull(0, &d, 0, NULL, NULL, 0, NULL), ERROR_INVALID_HANDLE);
    CHECK(EventWrite(handle, &d, 129, many), ERROR_INVALID_PARAMETER);
    CHECK(EventWrite(handle, &d, 1, NULL), ERROR_INVALID_PARAMETER);

    CHECK(EventWrite(handle, &d, 2, data), ERROR_SUCCESS);                             /* 0 */
    CHECK(EventActivityIdControl(EVENT_ACTIVITY_CTRL_SET_ID, &ours), ERROR_SUCCESS);
    CHECK(EventActivityIdControl(9, &ours), ERROR_INVALID_PARAMETER);
    CHECK(EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_ID, &id), ERROR_SUCCESS);
    CHECK(memcmp(&id, &ours, sizeof id), 0);
    CHECK(EventWriteTransfer(handle, &d, NULL, &theirs, 2, data), ERROR_SUCCESS);      /* 1 */
    CHECK(EventWriteEx(handle, &d, 0, 0, &theirs, NULL, 2, data), ERROR_SUCCESS);      /* 2 */
    CHECK(EtwEventWriteFull(handle, &d, 8, &theirs, &ours, 2, data), ERROR_SUCCESS);   /* 3 */
    CHECK(EventWriteString(handle, 3, 4, ETW_W("gr\u00fc\u00dfe")), ERROR_SUCCESS);    /* 4 */
    CHECK(EventWriteString(handle, 3, 4, L"wide \U0001F600"), ERROR_SUCCESS);          /* 5 */
    CHECK(EtwEventWrite(handle, &d, 128, many), ERROR_SUCCESS);                        /* 6 */
    /* Descriptors with types, as programs write them that were compiled with an earlier TraceLoggingProvider.h. */
    CHECK(EventSetInformation(handle, EventProviderSetTraits, (PVOID)(uintptr_t) "\6\0Old", 6), ERROR_SUCCESS);
    d.Id = 9;
    EventDataDescCreate(&many[0], "\6\0Old", 6);
    many[0].Type = EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA;
    EventDataDescCreate(&many[1], "\10\0\0E\0n\0\7", 8);
    many[1].Type = EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA;
    many[2] = data[0];
    CHECK(EventWriteEx(handle, &d, 0, 0, NULL, NULL, 3, many), ERROR_SUCCESS);         /* 7 */
    CHECK(EventWrite(handle, &d, 3, many), ERROR_SUCCESS);                             /* 8 */
    many[2].Type = 9;
    CHECK(EventWrite(handle, &d, 3, many), ERROR_INVALID_PARAMETER);
    CHECK(EventAccessControl(&id, 0, NULL, 0, 0), ERROR_NOT_SUPPORTED);

    CHECK(etw_session_stop(session, &lost), ERROR_SUCCESS);
    CHECK(lost, 0);
    CHECK(EventUnregister(handle), ERROR_SUCCESS);
    CHECK(EventWrite(handle, &d, 0, NULL), ERROR_INVALID_HANDLE);
    return 0;
}
