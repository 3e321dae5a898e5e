/* Payload filters, and the filter that the provider itself evaluates. TRACE_OUT names the file. Compiled as C and as C++. */
#define INITGUID
#include <evntprov.h>
#include <evntrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tdh.h>

#include "check.h"

DEFINE_GUID(ProviderGuid, 0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 8);
DEFINE_GUID(Nobody, 0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 9);

static const char manifest[] =
    "<instrumentationManifest><instrumentation><events>"
    "<provider name='Test-Filters' guid='{5b4b4b4b-1111-2222-0102-030405060708}' symbol='T'>"
    "<templates><template tid='T'><data name='Number' inType='win:UInt32'/>"
    "<data name='Fixed' inType='win:AnsiString' length='3'/><data name='Text' inType='win:AnsiString'/>"
    "<struct name='Inner'><data name='Wide' inType='win:UnicodeString'/></struct>"
    "<data name='Size' inType='win:UInt8'/><data name='Bytes' inType='win:Binary' length='Size'/>"
    "<data name='After' inType='win:UInt32'/></template></templates>"
    "<events><event value='7' version='1' template='T'/><event value='8' version='0' template='T'/></events>"
    "</provider></events></instrumentation></instrumentationManifest>";

static REGHANDLE provider;
static UCHAR told[16];
static ULONG told_size, told_type;

static VOID NTAPI changed(LPCGUID source, ULONG is_enabled, UCHAR level, ULONGLONG any, ULONGLONG all,
                          PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    (void)source, (void)is_enabled, (void)level, (void)any, (void)all, (void)context;
    told_size = filter == NULL ? 0 : filter->Size;
    told_type = filter == NULL ? 0 : filter->Type;
    if (filter != NULL && filter->Size <= sizeof told)
        memcpy(told, (const void *)(uintptr_t)filter->Ptr, filter->Size);
}

static void write_events(USHORT id, UCHAR version, int from, int to)
{
    for (int number = from; number < to; number++) {
        EVENT_DESCRIPTOR d;
        EVENT_DATA_DESCRIPTOR data[5];
        const char *text = number % 3 == 0 ? "three" : "other";
        EventDescCreate(&d, id, version, 0, 4, 0, 0, 0);
        EventDataDescCreate(&data[0], &number, sizeof number);
        EventDataDescCreate(&data[1], "abc", 3);
        EventDataDescCreate(&data[2], text, 6);
        EventDataDescCreate(&data[3], number % 5 == 0 ? ETW_W("Five") : ETW_W("None"), 10);
        EventDataDescCreate(&data[4], "\3xyz\1\0\0", 8);
        CHECK(EventWrite(provider, &d, 5, data), ERROR_SUCCESS);
    }
}

static PVOID made(USHORT id, UCHAR version, BOOLEAN any, ULONG count, PPAYLOAD_FILTER_PREDICATE predicates)
{
    PVOID filter = NULL;
    EVENT_DESCRIPTOR d;
    EventDescCreate(&d, id, version, 0, 4, 0, 0, 0);
    CHECK(TdhCreatePayloadFilter(&ProviderGuid, &d, any, count, predicates, &filter), ERROR_SUCCESS);
    if (filter == NULL)
        exit(2);
    return filter;
}

static PAYLOAD_FILTER_PREDICATE predicate(const WCHAR *field, USHORT op, const WCHAR *value)
{
    PAYLOAD_FILTER_PREDICATE p;
    p.FieldName = (LPWSTR)(uintptr_t)field;
    p.CompareOp = op;
    p.Value = (LPWSTR)(uintptr_t)value;
    return p;
}

static ULONG create(LPCGUID guid, USHORT id, const WCHAR *field, USHORT op, const WCHAR *value)
{
    PVOID filter = &provider;
    EVENT_DESCRIPTOR d;
    PAYLOAD_FILTER_PREDICATE p = predicate(field, op, value);
    EventDescCreate(&d, id, (UCHAR)(id == 7), 0, 4, 0, 0, 0);
    return TdhCreatePayloadFilter(guid, &d, FALSE, 1, &p, &filter);
}

static void statuses(void)
{
    EVENT_DESCRIPTOR d;
    PAYLOAD_FILTER_PREDICATE nine[9];
    PVOID filter = NULL, wrong = &provider, filters[1];
    EVENT_FILTER_DESCRIPTOR descriptor;
    for (int n = 0; n < 9; n++)
        nine[n] = predicate(ETW_W("Number"), PAYLOADFIELD_EQ, ETW_W("1"));
    EventDescCreate(&d, 7, 1, 0, 4, 0, 0, 0);
    CHECK(TdhCreatePayloadFilter(NULL, &d, FALSE, 1, nine, &filter), ERROR_INVALID_PARAMETER);
    CHECK(TdhCreatePayloadFilter(&ProviderGuid, NULL, FALSE, 1, nine, &filter), ERROR_INVALID_PARAMETER);
    CHECK(TdhCreatePayloadFilter(&ProviderGuid, &d, FALSE, 1, NULL, &filter), ERROR_INVALID_PARAMETER);
    CHECK(TdhCreatePayloadFilter(&ProviderGuid, &d, FALSE, 1, nine, NULL), ERROR_INVALID_PARAMETER);
    CHECK(TdhCreatePayloadFilter(&ProviderGuid, &d, FALSE, 0, nine, &filter), ERROR_INVALID_PARAMETER);
    CHECK(TdhCreatePayloadFilter(&ProviderGuid, &d, FALSE, 9, nine, &filter), ERROR_INVALID_PARAMETER);
    CHECK(create(&Nobody, 7, ETW_W("Number"), PAYLOADFIELD_EQ, ETW_W("1")), ERROR_NOT_FOUND);
    CHECK(create(&ProviderGuid, 9, ETW_W("Number"), PAYLOADFIELD_EQ, ETW_W("1")), ERROR_NOT_FOUND);
    CHECK(create(&ProviderGuid, 7, ETW_W("Numbers"), PAYLOADFIELD_EQ, ETW_W("1")), ERROR_NOT_FOUND);
    CHECK(create(&ProviderGuid, 7, NULL, PAYLOADFIELD_EQ, ETW_W("1")), ERROR_INVALID_PARAMETER);
    CHECK(create(&ProviderGuid, 7, ETW_W("Number"), PAYLOADFIELD_EQ, NULL), ERROR_INVALID_PARAMETER);
    CHECK(create(&ProviderGuid, 7, ETW_W("Number"), PAYLOADFIELD_INVALID, ETW_W("1")), ERROR_INVALID_PARAMETER);
    CHECK(create(&ProviderGuid, 7, ETW_W("Number"), PAYLOADFIELD_LT, ETW_W("one")), ERROR_INVALID_PARAMETER);
    CHECK(create(&ProviderGuid, 7, ETW_W("Number"), PAYLOADFIELD_BETWEEN, ETW_W("1")), ERROR_INVALID_PARAMETER);
    /* A field whose length TraceLogging cannot express, and a field behind one whose length another field contains. */
    CHECK(create(&ProviderGuid, 7, ETW_W("Fixed"), PAYLOADFIELD_IS, ETW_W("abc")), ERROR_NOT_SUPPORTED);
    CHECK(create(&ProviderGuid, 7, ETW_W("After"), PAYLOADFIELD_EQ, ETW_W("1")), ERROR_NOT_SUPPORTED);

    CHECK(TdhDeletePayloadFilter(NULL), ERROR_INVALID_PARAMETER);
    CHECK(TdhDeletePayloadFilter(&filter), ERROR_INVALID_PARAMETER);
    CHECK(TdhDeletePayloadFilter(&wrong), ERROR_INVALID_PARAMETER);
    memset(&descriptor, 0, sizeof descriptor);
    filters[0] = wrong;
    CHECK(TdhAggregatePayloadFilters(1, filters, NULL, &descriptor), ERROR_INVALID_PARAMETER);
    filters[0] = made(7, 1, FALSE, 8, nine);
    CHECK(TdhAggregatePayloadFilters(0, filters, NULL, &descriptor), ERROR_INVALID_PARAMETER);
    CHECK(TdhAggregatePayloadFilters(1, NULL, NULL, &descriptor), ERROR_INVALID_PARAMETER);
    CHECK(TdhAggregatePayloadFilters(1, filters, NULL, NULL), ERROR_INVALID_PARAMETER);
    CHECK(TdhAggregatePayloadFilters(1, filters, NULL, &descriptor), ERROR_SUCCESS);
    CHECK(descriptor.Type, EVENT_FILTER_TYPE_PAYLOAD);
    filter = filters[0];
    CHECK(TdhDeletePayloadFilter(&filters[0]), ERROR_SUCCESS);
    CHECK(filters[0] == NULL, 1);
    CHECK(TdhDeletePayloadFilter(&filter), ERROR_INVALID_PARAMETER);
    CHECK(TdhCleanupPayloadEventFilterDescriptor(NULL), ERROR_INVALID_PARAMETER);
    CHECK(TdhCleanupPayloadEventFilterDescriptor(&descriptor), ERROR_SUCCESS);
    CHECK(descriptor.Ptr == 0 && descriptor.Size == 0, 1);
    CHECK(TdhCleanupPayloadEventFilterDescriptor(&descriptor), ERROR_INVALID_PARAMETER);
}

static ULONG enable(TRACEHANDLE session, EVENT_FILTER_DESCRIPTOR *filters, ULONG count)
{
    ENABLE_TRACE_PARAMETERS parameters;
    memset(&parameters, 0, sizeof parameters);
    parameters.Version = ENABLE_TRACE_PARAMETERS_VERSION_2;
    parameters.EnableFilterDesc = filters;
    parameters.FilterDescCount = count;
    return EnableTraceEx2(session, &ProviderGuid, EVENT_CONTROL_CODE_ENABLE_PROVIDER, 5, 0, 0, 5000, &parameters);
}

int main(void)
{
    static struct {
        EVENT_TRACE_PROPERTIES p;
        char file[512], name[512];
    } all;
    TRACEHANDLE session = 0;
    PVOID filters[3];
    BOOLEAN match_all[2] = {TRUE, TRUE};
    UCHAR stale[16];
    EVENT_FILTER_DESCRIPTOR descriptors[2];
    PAYLOAD_FILTER_PREDICATE range = predicate(ETW_W("Number"), PAYLOADFIELD_BETWEEN, ETW_W("10, 19"));
    PAYLOAD_FILTER_PREDICATE three = predicate(ETW_W("Text"), PAYLOADFIELD_IS, ETW_W("THREE"));
    PAYLOAD_FILTER_PREDICATE either[2];
    either[0] = predicate(ETW_W("Number"), PAYLOADFIELD_LT, ETW_W("22"));
    either[1] = predicate(ETW_W("Inner.Wide"), PAYLOADFIELD_CONTAINS, ETW_W("fiv"));

    CHECK(TdhLoadManifestFromMemory(manifest, sizeof manifest - 1), ERROR_SUCCESS);
    statuses();
    CHECK(EventRegister(&ProviderGuid, changed, NULL, &provider), ERROR_SUCCESS);
    all.p.Wnode.BufferSize = sizeof all;
    all.p.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    all.p.LogFileMode = EVENT_TRACE_FILE_MODE_SEQUENTIAL;
    all.p.LogFileNameOffset = sizeof all.p;
    all.p.LoggerNameOffset = sizeof all.p + sizeof all.file;
    strcpy(all.file, getenv("TRACE_OUT"));
    CHECK(StartTraceA(&session, "Sample Session", &all.p), ERROR_SUCCESS);

    /* An event passes if one of two filters matches, or if no filter is for it. */
    filters[0] = made(7, 1, FALSE, 1, &range);
    filters[1] = made(7, 1, FALSE, 1, &three);
    filters[2] = made(8, 0, TRUE, 2, either);
    CHECK(TdhAggregatePayloadFilters(2, filters, NULL, &descriptors[0]), ERROR_SUCCESS);
    memset(&descriptors[1], 0, sizeof descriptors[1]);
    descriptors[1].Ptr = (ULONGLONG)(uintptr_t) "only the provider knows";
    descriptors[1].Size = 10;
    descriptors[1].Type = EVENT_FILTER_TYPE_SCHEMATIZED;
    CHECK(enable(session, descriptors, 2), ERROR_SUCCESS);
    CHECK(told_type, EVENT_FILTER_TYPE_SCHEMATIZED);
    CHECK(told_size, 10);
    CHECK(memcmp(told, "only the p", 10), 0);
    write_events(7, 1, 0, 24); /* 0 3 6 9 10 … 19 21 */
    write_events(7, 0, 100, 102);
    memcpy(stale, (const void *)(uintptr_t)descriptors[0].Ptr, descriptors[0].Size);
    CHECK(TdhCleanupPayloadEventFilterDescriptor(&descriptors[0]), ERROR_SUCCESS);

    /* All conditions must match. */
    CHECK(TdhAggregatePayloadFilters(2, filters, match_all, &descriptors[0]), ERROR_SUCCESS);
    CHECK(enable(session, descriptors, 1), ERROR_SUCCESS);
    CHECK(told_size, 0);
    write_events(7, 1, 0, 24); /* 12 15 18 */
    CHECK(TdhCleanupPayloadEventFilterDescriptor(&descriptors[0]), ERROR_SUCCESS);

    /* Filters for two events; the first passes if one of its two conditions matches. */
    CHECK(TdhAggregatePayloadFilters(3, filters, NULL, &descriptors[0]), ERROR_SUCCESS);
    CHECK(enable(session, descriptors, 1), ERROR_SUCCESS);
    write_events(8, 0, 20, 31); /* 20 21 25 30 */
    /* The bytes of a filter that was freed, and bytes that never were a filter. */
    descriptors[1].Type = EVENT_FILTER_TYPE_PAYLOAD;
    descriptors[1].Ptr = (ULONGLONG)(uintptr_t)stale;
    descriptors[1].Size = sizeof stale;
    CHECK(enable(session, &descriptors[1], 1), ERROR_INVALID_PARAMETER);
    memset(stale, 0xff, 8);
    CHECK(enable(session, &descriptors[1], 1), ERROR_INVALID_PARAMETER);
    CHECK(enable(session, NULL, 0), ERROR_SUCCESS);
    write_events(7, 1, 200, 201);
    for (int n = 0; n < 3; n++)
        CHECK(TdhDeletePayloadFilter(&filters[n]), ERROR_SUCCESS);
    CHECK(TdhCleanupPayloadEventFilterDescriptor(&descriptors[0]), ERROR_SUCCESS);

    CHECK(ControlTraceA(session, NULL, &all.p, EVENT_TRACE_CONTROL_STOP), ERROR_SUCCESS);
    CHECK(EventUnregister(provider), ERROR_SUCCESS);
    CHECK(TdhUnloadManifestFromMemory(manifest, sizeof manifest - 1), ERROR_SUCCESS);
    return 0;
}
