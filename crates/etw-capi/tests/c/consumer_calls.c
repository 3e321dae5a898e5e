/*
 * Statuses of the calls of consumers and of decoding, on the trace that write_calls.c writes (CALLS_TRACE) and on a file that is not a trace
 * (NO_TRACE). Compiled as C and as C++.
 */
#define INITGUID
#include <evntcons.h>
#include <evntrace.h>
#include <tdh.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

DEFINE_GUID(Provider, 0x12345678, 0x9abc, 0xdef0, 1, 2, 3, 4, 5, 6, 7, 8);
DEFINE_GUID(Nobody, 0x12345678, 0x9abc, 0xdef0, 1, 2, 3, 4, 5, 6, 7, 9);

static const char manifest[] =
    "<instrumentationManifest><instrumentation><events>"
    "<provider name='Test-Calls' guid='{12345678-9abc-def0-0102-030405060708}' symbol='T'>"
    "<keywords><keyword name='Even' mask='0x2'/><keyword name='Odd' mask='0x1'/></keywords>"
    "<maps><valueMap name='Numbers'><map value='42' message='$(string.answer)'/></valueMap></maps>"
    "<templates><template tid='T'><data name='Number' inType='win:UInt32' map='Numbers'/>"
    "<data name='Text' inType='win:AnsiString'/></template></templates>"
    "<events><event value='7' version='1' template='T' level='win:Informational' keywords='Even'"
    " message='$(string.message)'/></events></provider></events></instrumentation>"
    "<localization><resources culture='en-US'><stringTable>"
    "<string id='answer' value='the answer'/><string id='message' value='%1 and %2'/>"
    "</stringTable></resources></localization></instrumentationManifest>";

static EVENT_TRACE_LOGFILEA logfile_of(const char *path)
{
    EVENT_TRACE_LOGFILEA logfile;
    memset(&logfile, 0, sizeof logfile);
    logfile.LogFileName = (char *)(uintptr_t)path;
    logfile.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    return logfile;
}

static int same(const WCHAR *found, const char *expected)
{
    while (*expected != 0 && *found == (WCHAR)(unsigned char)*expected)
        found++, expected++;
    return *expected == 0 && *found == 0;
}

static int seen, headers, decoded, texts;
static LONGLONG times[64];
static TRACEHANDLE current, other;
static int close_in_callback;

static VOID WINAPI count(PEVENT_RECORD event)
{
    if ((event->EventHeader.Flags & EVENT_HEADER_FLAG_STRING_ONLY) != 0) {
        CHECK(event->EventHeader.EventDescriptor.Level, 3);
        CHECK(((WCHAR *)event->UserData)[event->UserDataLength / 2 - 1], 0);
        texts++;
    }
    if (seen < 64)
        times[seen] = event->EventHeader.TimeStamp.QuadPart;
    if (memcmp(&event->EventHeader.ProviderId, &EventTraceGuid, sizeof(GUID)) == 0 &&
        event->EventHeader.EventDescriptor.Opcode == EVENT_TRACE_TYPE_INFO) {
        CHECK(seen, 0);
        CHECK(((TRACE_LOGFILE_HEADER *)event->UserData)->ReservedFlags != 0, 1);
        headers++;
    }
    seen++;
    if (close_in_callback == seen) {
        CHECK(CloseTrace(current), ERROR_CTX_CLOSE_PENDING);
        CHECK(CloseTrace(current), ERROR_INVALID_HANDLE);
    }
}

static VOID WINAPI nested(PEVENT_RECORD event)
{
    int before = seen;
    (void)event;
    if (headers > 100)
        return;
    headers = 101;
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_INVALID_PARAMETER); /* ProcessTrace is reading it. */
    seen = 0;
    CHECK(ProcessTrace(&other, 1, NULL, NULL), ERROR_SUCCESS);
    CHECK(seen > 7, 1);
    seen = before + 1;
}

static ULONG WINAPI stop_at_once(PEVENT_TRACE_LOGFILEA logfile)
{
    CHECK(logfile->BuffersRead, 1);
    CHECK(logfile->LogfileHeader.BufferSize, logfile->BufferSize);
    return FALSE;
}

static VOID WINAPI decode(PEVENT_RECORD event)
{
    TRACE_EVENT_INFO *info;
    EVENT_MAP_INFO *map;
    PROPERTY_DATA_DESCRIPTOR property;
    ULONG size = 0, needed;
    USHORT taken = 0;
    BYTE data[64];
    WCHAR text[64], number[] = {'N', 'u', 'm', 'b', 'e', 'r', 0}, none[] = {'N', 'o', 0};

    if (memcmp(&event->EventHeader.ProviderId, &Provider, sizeof(GUID)) != 0 ||
        event->EventHeader.EventDescriptor.Id != 7)
        return;
    decoded++;
    CHECK(TdhGetEventInformation(event, 0, NULL, NULL, NULL), ERROR_INVALID_PARAMETER);
    CHECK(TdhGetEventInformation(NULL, 0, NULL, NULL, &size), ERROR_INVALID_PARAMETER);
    CHECK(TdhGetEventInformation(event, 1, NULL, NULL, &size), ERROR_INVALID_PARAMETER);
    CHECK(TdhGetEventInformation(event, 0, NULL, NULL, &size), ERROR_INSUFFICIENT_BUFFER);
    info = (TRACE_EVENT_INFO *)malloc(size);
    needed = size - 1;
    CHECK(TdhGetEventInformation(event, 0, NULL, info, &needed), ERROR_INSUFFICIENT_BUFFER);
    CHECK(needed, size);
    CHECK(TdhGetEventInformation(event, 0, NULL, info, &needed), ERROR_SUCCESS);
    CHECK(info->DecodingSource, DecodingSourceXMLFile);
    CHECK(info->PropertyCount, 2);
    CHECK(info->TopLevelPropertyCount, 2);
    CHECK(info->EventNameOffset, 0);
    CHECK(memcmp(&info->ProviderGuid, &Provider, sizeof(GUID)), 0);
    CHECK(memcmp(&info->EventDescriptor, &event->EventHeader.EventDescriptor, sizeof(EVENT_DESCRIPTOR)), 0);
    CHECK(same(TEI_PROVIDER_NAME(info), "Test-Calls"), 1);
    CHECK(same(TEI_EVENT_MESSAGE(info), "%1 and %2"), 1);
    CHECK(same(TEI_KEYWORDS_NAME(info), "Even"), 1);
    CHECK(TEI_KEYWORDS_NAME(info)[5], 0);
    CHECK(info->EventPropertyInfoArray[0].nonStructType.InType, TDH_INTYPE_UINT32);
    CHECK(info->EventPropertyInfoArray[0].nonStructType.OutType, TDH_OUTTYPE_UNSIGNEDINT);
    CHECK(info->EventPropertyInfoArray[0].count, 1);
    CHECK(info->EventPropertyInfoArray[0].length, 4);
    CHECK(info->EventPropertyInfoArray[0].Flags, 0);
    CHECK(same(TEI_MAP_NAME(info, &info->EventPropertyInfoArray[0]), "Numbers"), 1);
    CHECK(info->EventPropertyInfoArray[1].nonStructType.OutType, TDH_OUTTYPE_STRING);

    size = 0;
    CHECK(TdhGetEventMapInformation(event, none, NULL, &size), ERROR_NOT_FOUND);
    CHECK(TdhGetEventMapInformation(event, NULL, NULL, &size), ERROR_INVALID_PARAMETER);
    CHECK(TdhGetEventMapInformation(event, L"Numbers", NULL, &size), ERROR_INSUFFICIENT_BUFFER);
    map = (EVENT_MAP_INFO *)malloc(size);
    CHECK(TdhGetEventMapInformation(event, TEI_MAP_NAME(info, &info->EventPropertyInfoArray[0]), map, &size),
          ERROR_SUCCESS);
    CHECK(map->Flag, EVENTMAP_INFO_FLAG_MANIFEST_VALUEMAP);
    CHECK(map->EntryCount, 1);
    CHECK(map->MapEntryArray[0].Value, 42);
    CHECK(same(EMI_MAP_OUTPUT(map, &map->MapEntryArray[0]), "the answer "), 1);
    CHECK(same(EMI_MAP_NAME(map), "Numbers"), 1);

    memset(&property, 0, sizeof property);
    property.PropertyName = (ULONGLONG)(uintptr_t)number;
    property.ArrayIndex = UINT32_MAX;
    CHECK(TdhGetPropertySize(event, 0, NULL, 0, &property, &size), ERROR_INVALID_PARAMETER);
    CHECK(TdhGetPropertySize(event, 0, NULL, 1, NULL, &size), ERROR_INVALID_PARAMETER);
    CHECK(TdhGetPropertySize(event, 0, NULL, 1, &property, NULL), ERROR_INVALID_PARAMETER);
    CHECK(TdhGetPropertySize(event, 0, NULL, 1, &property, &size), ERROR_SUCCESS);
    CHECK(size, 4);
    CHECK(TdhGetProperty(event, 0, NULL, 1, &property, 3, data), ERROR_INSUFFICIENT_BUFFER);
    CHECK(TdhGetProperty(event, 0, NULL, 1, &property, 4, NULL), ERROR_INVALID_PARAMETER);
    CHECK(TdhGetProperty(event, 0, NULL, 1, &property, sizeof data, data), ERROR_SUCCESS);
    CHECK(memcmp(data, event->UserData, 4), 0);
    property.ArrayIndex = 1;
    CHECK(TdhGetProperty(event, 0, NULL, 1, &property, 4, data), ERROR_INVALID_PARAMETER);
    property.PropertyName = (ULONGLONG)(uintptr_t)none;
    CHECK(TdhGetProperty(event, 0, NULL, 1, &property, 4, data), ERROR_NOT_FOUND);

    size = sizeof text;
    CHECK(TdhFormatProperty(info, map, 8, TDH_INTYPE_UINT32, TDH_OUTTYPE_UNSIGNEDINT, 4, 4, data, &size, text, &taken),
          ERROR_SUCCESS);
    CHECK(taken, 4);
    CHECK(same(text, data[0] == 42 ? "the answer" : "0"), 1);
    CHECK(size, data[0] == 42 ? 22 : 4);
    size = 2;
    CHECK(TdhFormatProperty(info, map, 8, TDH_INTYPE_UINT32, TDH_OUTTYPE_UNSIGNEDINT, 4, 4, data, &size, text, &taken),
          ERROR_INSUFFICIENT_BUFFER);
    CHECK(size, data[0] == 42 ? 22 : 4);
    size = sizeof text;
    CHECK(TdhFormatProperty(info, NULL, 8, TDH_INTYPE_UINT32, TDH_OUTTYPE_NULL, 4, 3, data, &size, text, &taken),
          ERROR_EVT_INVALID_EVENT_DATA);
    CHECK(TdhFormatProperty(info, NULL, 5, TDH_INTYPE_UINT32, TDH_OUTTYPE_NULL, 4, 4, data, &size, text, &taken),
          ERROR_INVALID_PARAMETER);
    CHECK(TdhFormatProperty(info, NULL, 8, 299, TDH_OUTTYPE_NULL, 4, 4, data, &size, text, &taken),
          ERROR_INVALID_PARAMETER);
    CHECK(TdhFormatProperty(info, NULL, 8, TDH_INTYPE_UINT32, TDH_OUTTYPE_NULL, 4, 4, data, NULL, text, &taken),
          ERROR_INVALID_PARAMETER);

    free(map);
    free(info);
}

static void check_opening(const char *path, const char *no_trace)
{
    EVENT_TRACE_LOGFILEA logfile;
    EVENT_TRACE_LOGFILEW wide;
    WCHAR name[1024];
    TRACEHANDLE twice[2], many[65];
    LONGLONG window[2];
    size_t length = strlen(path);
    int all, i;

    CHECK(OpenTraceA(NULL), INVALID_PROCESSTRACE_HANDLE);
    CHECK(GetLastError(), ERROR_INVALID_PARAMETER);
    logfile = logfile_of(path);
    CHECK(OpenTraceA(&logfile), INVALID_PROCESSTRACE_HANDLE); /* There is no callback. */
    CHECK(GetLastError(), ERROR_INVALID_PARAMETER);
    logfile = logfile_of(NULL);
    logfile.EventRecordCallback = count;
    CHECK(OpenTraceA(&logfile), INVALID_PROCESSTRACE_HANDLE);
    CHECK(GetLastError(), ERROR_INVALID_PARAMETER);
    logfile.LogFileName = (char *)(uintptr_t) "/tmp/no such trace.etl";
    CHECK(OpenTraceA(&logfile), INVALID_PROCESSTRACE_HANDLE);
    CHECK(GetLastError(), ERROR_FILE_NOT_FOUND);
    logfile.LogFileName = (char *)(uintptr_t) "/no such folder/trace.etl";
    CHECK(OpenTraceA(&logfile), INVALID_PROCESSTRACE_HANDLE);
    CHECK(GetLastError(), ERROR_PATH_NOT_FOUND);
    logfile.LogFileName = (char *)(uintptr_t) "/tmp";
    CHECK(OpenTraceA(&logfile), INVALID_PROCESSTRACE_HANDLE);
    CHECK(GetLastError(), ERROR_BAD_PATHNAME);
    logfile.LogFileName = (char *)(uintptr_t)no_trace;
    CHECK(OpenTraceA(&logfile), INVALID_PROCESSTRACE_HANDLE);
    CHECK(GetLastError(), ERROR_FILE_CORRUPT);
    logfile.ProcessTraceMode |= PROCESS_TRACE_MODE_REAL_TIME;
    CHECK(OpenTraceA(&logfile), INVALID_PROCESSTRACE_HANDLE);
    CHECK(GetLastError(), ERROR_INVALID_PARAMETER);
    logfile.LogFileName = NULL;
    /* A session that does not run: as on Windows, ProcessTrace fails. */
    logfile.LoggerName = (char *)(uintptr_t) "no such session";
    current = OpenTraceA(&logfile);
    CHECK(current != INVALID_PROCESSTRACE_HANDLE, 1);
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_WMI_INSTANCE_NOT_FOUND);
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_WMI_INSTANCE_NOT_FOUND);
    CHECK(CloseTrace(current), ERROR_SUCCESS);
    CHECK(CloseTrace(current), ERROR_INVALID_HANDLE);

    CHECK(length < 1024, 1);
    for (i = 0; i <= (int)length; i++)
        name[i] = (WCHAR)(unsigned char)path[i];
    memset(&wide, 0, sizeof wide);
    wide.LogFileName = name;
    wide.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    wide.EventRecordCallback = count;
    current = OpenTraceW(&wide);
    CHECK(current != INVALID_PROCESSTRACE_HANDLE, 1);
    CHECK(wide.LogfileHeader.PointerSize, sizeof(void *));
    CHECK(wide.LogfileHeader.LogFileName != NULL && same(wide.LogfileHeader.LoggerName, "c"), 1);
    CHECK(wide.LogFileName == name, 1);

    CHECK(ProcessTrace(&current, 0, NULL, NULL), ERROR_BAD_LENGTH);
    for (i = 0; i < 65; i++)
        many[i] = current;
    CHECK(ProcessTrace(many, 65, NULL, NULL), ERROR_BAD_LENGTH);
    CHECK(ProcessTrace(NULL, 1, NULL, NULL), ERROR_INVALID_PARAMETER);
    twice[0] = current;
    twice[1] = current + 1000;
    CHECK(ProcessTrace(twice, 2, NULL, NULL), ERROR_INVALID_HANDLE);
    twice[1] = current;
    CHECK(ProcessTrace(twice, 2, NULL, NULL), ERROR_INVALID_PARAMETER);
    window[0] = 2, window[1] = 1;
    CHECK(ProcessTrace(&current, 1, (LPFILETIME)&window[0], (LPFILETIME)&window[1]), ERROR_INVALID_TIME);
    CHECK(seen, 0);

    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_SUCCESS);
    CHECK(headers, 1);
    CHECK(texts, 2);
    all = seen;
    CHECK(all > 7 && all < 64, 1);
    for (i = 2; i < all; i++)
        CHECK(times[i - 1] <= times[i], 1);
    /* A second read, with a window of one instant: the header, and the events of that instant. */
    seen = 0;
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_SUCCESS);
    CHECK(seen, all);
    window[0] = window[1] = times[all / 2];
    seen = 0;
    CHECK(ProcessTrace(&current, 1, (LPFILETIME)&window[0], (LPFILETIME)&window[1]), ERROR_SUCCESS);
    CHECK(seen >= 2 && seen < all, 1);
    for (i = 1; i < seen; i++)
        CHECK(times[i], window[0]);

    close_in_callback = 3;
    seen = 0;
    /* ProcessTrace delivers the rest of the current buffer: here all events. */
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_CANCELLED);
    CHECK(seen, all);
    close_in_callback = 0;
    CHECK(CloseTrace(current), ERROR_INVALID_HANDLE);
    CHECK(CloseTrace(INVALID_PROCESSTRACE_HANDLE), ERROR_INVALID_HANDLE);

    logfile = logfile_of(path);
    logfile.BufferCallback = stop_at_once;
    current = OpenTraceA(&logfile);
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_CANCELLED);
    CHECK(CloseTrace(current), ERROR_SUCCESS);

    logfile = logfile_of(path);
    logfile.EventRecordCallback = count;
    other = OpenTraceA(&logfile);
    logfile.EventRecordCallback = nested;
    current = OpenTraceA(&logfile);
    headers = 0, seen = 0;
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_SUCCESS);
    CHECK(seen, 1);
    CHECK(CloseTrace(current), ERROR_SUCCESS);
    CHECK(CloseTrace(other), ERROR_SUCCESS);
}

static void check_schemas(const char *path)
{
    union {
        PROVIDER_ENUMERATION_INFO providers;
        PROVIDER_FIELD_INFOARRAY fields;
        PROVIDER_EVENT_INFO events;
        BYTE bytes[512];
    } buffer;
    EVENT_TRACE_LOGFILEA logfile = logfile_of(path);
    const PROVIDER_FIELD_INFO *fields;
    EVENT_DESCRIPTOR descriptor;
    ULONG size = 0, needed = 0;
    PVOID filter = NULL;
    GUID guid = Provider, nobody = Nobody;
    const char *path_of_manifest = getenv("MANIFEST");
    wchar_t wide_path[1024];
    WCHAR utf16_path[1024];
    size_t i, path_length = strlen(path_of_manifest);

    CHECK(TdhEnumerateProviders(NULL, &size), ERROR_INSUFFICIENT_BUFFER);
    CHECK(size, 8);
    CHECK(TdhEnumerateProviders(&buffer.providers, &size), ERROR_SUCCESS);
    CHECK(buffer.providers.NumberOfProviders, 0);
    CHECK(TdhLoadManifest(NULL), ERROR_INVALID_PARAMETER);
    CHECK(TdhLoadManifest(L"/tmp/no such manifest.man"), ERROR_FILE_NOT_FOUND);
    CHECK(path_length < 1024, 1);
    for (i = 0; i <= path_length; i++) {
        wide_path[i] = (wchar_t)(unsigned char)path_of_manifest[i];
        utf16_path[i] = (WCHAR)(unsigned char)path_of_manifest[i];
    }
    CHECK(TdhLoadManifest(wide_path), ERROR_SUCCESS);
    CHECK(TdhLoadManifest(utf16_path), ERROR_SUCCESS); /* The manifest is read again. */
    CHECK(TdhUnloadManifest(wide_path), ERROR_SUCCESS);
    CHECK(TdhUnloadManifest(utf16_path), ERROR_NOT_FOUND);
    CHECK(TdhLoadManifestFromBinary(wide_path), ERROR_SUCCESS); /* The call detects the type of the file. */
    CHECK(TdhUnloadManifest(wide_path), ERROR_SUCCESS);
    CHECK(TdhLoadManifestFromBinary(L"/tmp/no such program.exe"), ERROR_FILE_NOT_FOUND);
    CHECK(TdhLoadManifestFromMemory("<a", 2), ERROR_XML_PARSE_ERROR);
    CHECK(TdhLoadManifestFromMemory("MZ", 2), ERROR_INVALID_DATA);
    CHECK(TdhLoadManifestFromMemory(manifest, 0), ERROR_INVALID_PARAMETER);
    CHECK(TdhLoadManifestFromMemory(manifest, sizeof manifest - 1), ERROR_SUCCESS);
    CHECK(TdhLoadManifestFromMemory(manifest, sizeof manifest - 1), ERROR_SUCCESS);
    size = sizeof buffer;
    CHECK(TdhEnumerateProviders(&buffer.providers, &size), ERROR_SUCCESS);
    CHECK(buffer.providers.NumberOfProviders, 1);
    CHECK(memcmp(&buffer.providers.TraceProviderInfoArray[0].ProviderGuid, &Provider, sizeof(GUID)), 0);
    CHECK(same((WCHAR *)(void *)(buffer.bytes + buffer.providers.TraceProviderInfoArray[0].ProviderNameOffset), "Test-Calls"), 1);
    CHECK(TdhEnumerateProvidersForDecodingSource(DecodingSourceXMLFile, NULL, 0, &needed), ERROR_INSUFFICIENT_BUFFER);
    CHECK(needed, size);
    CHECK(TdhEnumerateProvidersForDecodingSource(DecodingSourceWbem, &buffer.providers, 8, &needed), ERROR_SUCCESS);
    CHECK(TdhEnumerateProvidersForDecodingSource(DecodingSourceMax, &buffer.providers, 8, &needed), ERROR_INVALID_PARAMETER);

    size = sizeof buffer;
    CHECK(TdhEnumerateProviderFieldInformation(&guid, EventKeywordInformation, &buffer.fields, &size), ERROR_SUCCESS);
    CHECK(buffer.fields.NumberOfElements, 2);
    fields = buffer.fields.FieldInfoArray;
    CHECK(fields[0].Value + fields[1].Value, 3);
    size = sizeof buffer;
    CHECK(TdhQueryProviderFieldInformation(&guid, 6, EventKeywordInformation, &buffer.fields, &size), ERROR_SUCCESS);
    CHECK(buffer.fields.NumberOfElements, 1);
    CHECK(same((WCHAR *)(void *)(buffer.bytes + buffer.fields.FieldInfoArray[0].NameOffset), "Even"), 1);
    CHECK(TdhEnumerateProviderFieldInformation(&nobody, EventKeywordInformation, &buffer.fields, &size), ERROR_NOT_FOUND);
    size = sizeof buffer;
    CHECK(TdhEnumerateProviderFieldInformation(&guid, EventLevelInformation, &buffer.fields, &size), ERROR_SUCCESS);
    CHECK(buffer.fields.NumberOfElements, 1);
    CHECK(buffer.fields.FieldInfoArray[0].Value, 4);
    CHECK(same((WCHAR *)(void *)(buffer.bytes + buffer.fields.FieldInfoArray[0].NameOffset), "win:Informational"), 1);
    CHECK(same((WCHAR *)(void *)(buffer.bytes + buffer.fields.FieldInfoArray[0].DescriptionOffset), "Information"), 1);
    size = sizeof buffer;
    CHECK(TdhQueryProviderFieldInformation(&guid, 5, EventLevelInformation, &buffer.fields, &size), ERROR_NOT_FOUND);
    CHECK(TdhEnumerateProviderFieldInformation(&guid, EventInformationMax, &buffer.fields, &size), ERROR_INVALID_PARAMETER);

    size = sizeof buffer;
    CHECK(TdhEnumerateManifestProviderEvents(&guid, &buffer.events, &size), ERROR_SUCCESS);
    CHECK(buffer.events.NumberOfEvents >= 1 && size == 8 + buffer.events.NumberOfEvents * sizeof(EVENT_DESCRIPTOR), 1);
    CHECK(buffer.events.EventDescriptorsArray[0].Id, 7);
    CHECK(buffer.events.EventDescriptorsArray[0].Level, 4);

    EventDescCreate(&descriptor, 7, 1, 0, 4, 3, 2, 2);
    size = 0;
    CHECK(TdhGetManifestEventInformation(&guid, &descriptor, NULL, &size), ERROR_INSUFFICIENT_BUFFER);
    CHECK(size > sizeof(TRACE_EVENT_INFO), 1);
    descriptor.Version = 2;
    CHECK(TdhGetManifestEventInformation(&guid, &descriptor, NULL, &size), ERROR_NOT_FOUND);

    logfile.EventRecordCallback = decode;
    current = OpenTraceA(&logfile);
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_SUCCESS);
    CHECK(decoded, 5);
    CHECK(CloseTrace(current), ERROR_SUCCESS);

    CHECK(TdhUnloadManifest(L"/tmp/no such manifest.man"), ERROR_NOT_FOUND);
    CHECK(TdhUnloadManifestFromMemory(manifest, sizeof manifest - 1), ERROR_SUCCESS);
    CHECK(TdhUnloadManifestFromMemory(manifest, sizeof manifest - 1), ERROR_NOT_FOUND);
    descriptor.Version = 1;
    CHECK(TdhGetManifestEventInformation(&guid, &descriptor, NULL, &size), ERROR_NOT_FOUND);

    CHECK(TdhEnumerateManifestProviderEvents(&guid, NULL, &size), ERROR_NOT_FOUND);
    CHECK(TdhEnumerateProviderFilters(&guid, 0, NULL, &size, NULL, &size), ERROR_NOT_SUPPORTED);
    CHECK(TdhCreatePayloadFilter(&guid, &descriptor, FALSE, 0, NULL, &filter), ERROR_INVALID_PARAMETER);
    CHECK(TdhDeletePayloadFilter(&filter), ERROR_INVALID_PARAMETER);
    CHECK(TdhAggregatePayloadFilters(0, NULL, NULL, NULL), ERROR_INVALID_PARAMETER);
    CHECK(TdhCleanupPayloadEventFilterDescriptor(NULL), ERROR_INVALID_PARAMETER);
}

static void check_handles(void)
{
    TDH_HANDLE handle = NULL, closed;
    TDH_CONTEXT context;
    WCHAR folder[] = {'/', 't', 'm', 'p', 0};
    EVENT_RECORD event;
    ULONG size = 0;
    memset(&context, 0, sizeof context);
    memset(&event, 0, sizeof event);
    CHECK(TdhOpenDecodingHandle(NULL), ERROR_INVALID_PARAMETER);
    CHECK(TdhOpenDecodingHandle(&handle), ERROR_SUCCESS);
    context.ParameterType = TDH_CONTEXT_POINTERSIZE;
    CHECK(TdhGetDecodingParameter(handle, &context), ERROR_NOT_FOUND);
    context.ParameterValue = 5;
    CHECK(TdhSetDecodingParameter(handle, &context), ERROR_INVALID_PARAMETER);
    context.ParameterValue = 4;
    CHECK(TdhSetDecodingParameter(handle, &context), ERROR_SUCCESS);
    context.ParameterValue = 0;
    CHECK(TdhGetDecodingParameter(handle, &context), ERROR_SUCCESS);
    CHECK(context.ParameterValue, 4);
    context.ParameterType = TDH_CONTEXT_WPP_TMFSEARCHPATH;
    context.ParameterValue = (ULONGLONG)(uintptr_t)folder;
    CHECK(TdhSetDecodingParameter(handle, &context), ERROR_SUCCESS);
    context.ParameterValue = 0;
    CHECK(TdhGetDecodingParameter(handle, &context), ERROR_SUCCESS);
    CHECK(same((WCHAR *)(uintptr_t)context.ParameterValue, "/tmp"), 1);
    context.ParameterType = TDH_CONTEXT_MAXIMUM;
    CHECK(TdhSetDecodingParameter(handle, &context), ERROR_INVALID_PARAMETER);
    CHECK(TdhGetWppProperty(handle, &event, L"FormattedString", &size, NULL), ERROR_NOT_FOUND);
    CHECK(TdhGetWppMessage(handle, NULL, &size, NULL), ERROR_INVALID_PARAMETER);
    closed = handle;
    CHECK(TdhCloseDecodingHandle(handle), ERROR_SUCCESS);
    CHECK(TdhCloseDecodingHandle(closed), ERROR_INVALID_PARAMETER);
    CHECK(TdhGetWppMessage(closed, &event, &size, NULL), ERROR_INVALID_PARAMETER);
    /* A record that ProcessTrace did not deliver. */
    CHECK(TdhGetEventInformation(&event, 0, NULL, NULL, &size), ERROR_NOT_FOUND);
}

static VOID WINAPI decode_in_thread(PEVENT_RECORD event)
{
    ULONG size = 0, status = TdhGetEventInformation(event, 0, NULL, NULL, &size);
    if (status != ERROR_INSUFFICIENT_BUFFER && status != ERROR_NOT_FOUND)
        exit(3);
    ++*(int *)event->UserContext;
}

/* Opens, reads and closes the trace over and over; schemas come and go meanwhile. */
static void *read_in_thread(void *path)
{
    for (int i = 0; i < 20; i++) {
        int count = 0;
        EVENT_TRACE_LOGFILEA logfile = logfile_of((const char *)path);
        TRACEHANDLE handle;
        logfile.EventRecordCallback = decode_in_thread;
        logfile.Context = &count;
        handle = OpenTraceA(&logfile);
        CHECK(ProcessTrace(&handle, 1, NULL, NULL), ERROR_SUCCESS);
        CHECK(count > 7, 1);
        CHECK(CloseTrace(handle), ERROR_SUCCESS);
        CHECK(GetLastError(), ERROR_SUCCESS);
    }
    return NULL;
}

static void *close_in_thread(void *handle)
{
    CHECK(CloseTrace(*(TRACEHANDLE *)handle), ERROR_CTX_CLOSE_PENDING);
    return NULL;
}

/* Another thread closes the trace while this callback runs. */
static VOID WINAPI closed_elsewhere(PEVENT_RECORD event)
{
    pthread_t thread;
    (void)event;
    if (seen++ > 0)
        return;
    CHECK(pthread_create(&thread, NULL, close_in_thread, &current), 0);
    CHECK(pthread_join(thread, NULL), 0);
}

static void check_threads(const char *path)
{
    EVENT_TRACE_LOGFILEA logfile = logfile_of(path);
    logfile.EventRecordCallback = closed_elsewhere;
    current = OpenTraceA(&logfile);
    seen = 0;
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_CANCELLED);
    CHECK(seen > 7, 1);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, read_in_thread, (void *)(uintptr_t)path), 0);
    for (int i = 0; i < 20; i++) {
        CHECK(TdhLoadManifestFromMemory(manifest, sizeof manifest - 1), ERROR_SUCCESS);
        CHECK(TdhUnloadManifestFromMemory(manifest, sizeof manifest - 1), ERROR_SUCCESS);
    }
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL), 0);
}

#ifdef __cplusplus
static VOID WINAPI throwing(PEVENT_RECORD)
{
    if (++seen == 3)
        throw 42;
}

/* A C++ exception of a callback leaves ProcessTrace, and the trace can be read again. */
static void check_exceptions(const char *path)
{
    EVENT_TRACE_LOGFILEA logfile = logfile_of(path);
    int caught = 0;
    logfile.EventRecordCallback = throwing;
    current = OpenTraceA(&logfile);
    seen = 0;
    try {
        ProcessTrace(&current, 1, NULL, NULL);
    } catch (int number) {
        caught = number;
    }
    CHECK(caught, 42);
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_SUCCESS);
    CHECK(seen > 7, 1);
    CHECK(CloseTrace(current), ERROR_SUCCESS);
}
#endif

static int of_context, raw_times;

static VOID WINAPI count_of_context(PEVENT_RECORD event)
{
    of_context += event->UserContext == &of_context;
    raw_times += seen < 64 && seen >= 0 && times[seen] != event->EventHeader.TimeStamp.QuadPart;
    seen++;
}

static BOOL WINAPI never(const ETW_BUFFER_HEADER *buffer, ULONG size, const ETW_BUFFER_CALLBACK_INFORMATION *information, void *context)
{
    (void)buffer, (void)size, (void)information, (void)context;
    return TRUE;
}

/* Traces that are opened with options, as on Windows 11, are those that OpenTrace opens. */
static void check_options(const char *path, const char *no_trace)
{
    static const WCHAR none[] = {'n', 'o', ' ', 's', 'e', 's', 's', 'i', 'o', 'n', 0};
    EVENT_TRACE_LOGFILEA logfile = logfile_of(path);
    ETW_OPEN_TRACE_OPTIONS options;
    TRACE_LOGFILE_HEADER header, again;
    WCHAR name[1024], other_name[1024];
    ULONG size = 0;
    int i, all;
    for (i = 0; i <= (int)strlen(path); i++)
        name[i] = (WCHAR)(unsigned char)path[i];
    for (i = 0; i <= (int)strlen(no_trace); i++)
        other_name[i] = (WCHAR)(unsigned char)no_trace[i];
    close_in_callback = 0;
    seen = headers = texts = 0;
    logfile.EventRecordCallback = count;
    current = OpenTraceA(&logfile);
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_SUCCESS);
    CHECK(CloseTrace(current), ERROR_SUCCESS);
    all = seen;

    memset(&options, 0, sizeof options);
    CHECK(OpenTraceFromFile(name, NULL, NULL), INVALID_PROCESSTRACE_HANDLE);
    CHECK(GetLastError(), ERROR_INVALID_PARAMETER);
    CHECK(OpenTraceFromFile(name, &options, NULL), INVALID_PROCESSTRACE_HANDLE); /* There is no callback. */
    CHECK(GetLastError(), ERROR_INVALID_PARAMETER);
    options.EventCallback = count_of_context;
    options.EventCallbackContext = &of_context;
    CHECK(OpenTraceFromFile(NULL, &options, NULL), INVALID_PROCESSTRACE_HANDLE);
    CHECK(GetLastError(), ERROR_INVALID_PARAMETER);
    CHECK(OpenTraceFromFile(other_name, &options, NULL), INVALID_PROCESSTRACE_HANDLE);
    CHECK(GetLastError(), ERROR_FILE_CORRUPT);
    options.BufferCallback = never;
    CHECK(OpenTraceFromFile(name, &options, NULL), INVALID_PROCESSTRACE_HANDLE);
    CHECK(GetLastError(), ERROR_NOT_SUPPORTED);
    options.BufferCallback = NULL;
    for (i = 0; i < 2; i++) {
        options.ProcessTraceModes = i == 0 ? ETW_PROCESS_TRACE_MODE_NONE : ETW_PROCESS_TRACE_MODE_RAW_TIMESTAMP;
        memset(&header, 0, sizeof header);
        current = OpenTraceFromFile(name, &options, &header);
        CHECK(current != INVALID_PROCESSTRACE_HANDLE, 1);
        CHECK(header.BufferSize, logfile.LogfileHeader.BufferSize);
        CHECK(header.StartTime.QuadPart == logfile.LogfileHeader.StartTime.QuadPart, 1);
        CHECK(QueryTraceProcessingHandle(current, EtwQueryLogFileHeader, NULL, 0, &again, sizeof again - 1, &size),
              ERROR_INSUFFICIENT_BUFFER);
        CHECK(size, sizeof again);
        CHECK(QueryTraceProcessingHandle(current, EtwQueryLogFileHeader, NULL, 0, &again, sizeof again, NULL), ERROR_SUCCESS);
        CHECK(again.BufferSize, header.BufferSize);
        CHECK(again.LoggerName == header.LoggerName, 1);
        CHECK(QueryTraceProcessingHandle(current, EtwQueryPartitionInformation, NULL, 0, &again, sizeof again, NULL),
              ERROR_NOT_SUPPORTED);
        seen = of_context = raw_times = 0;
        CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_SUCCESS);
        CHECK(seen, all);
        CHECK(of_context, all);
        CHECK(raw_times > 0, i);
        CHECK(CloseTrace(current), ERROR_SUCCESS);
        CHECK(QueryTraceProcessingHandle(current, EtwQueryLogFileHeader, NULL, 0, &again, sizeof again, NULL), ERROR_INVALID_HANDLE);
    }
    /* A session that does not run. */
    current = OpenTraceFromRealTimeLogger(none, &options, &header);
    CHECK(current != INVALID_PROCESSTRACE_HANDLE, 1);
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_WMI_INSTANCE_NOT_FOUND);
    CHECK(CloseTrace(current), ERROR_SUCCESS);
    current = OpenTraceFromRealTimeLoggerWithAllocationOptions(none, &options, 1 << 20, NULL, NULL);
    CHECK(ProcessTrace(&current, 1, NULL, NULL), ERROR_WMI_INSTANCE_NOT_FOUND);
    CHECK(CloseTrace(current), ERROR_SUCCESS);
    CHECK(OpenTraceFromBufferStream(&options, NULL, NULL), INVALID_PROCESSTRACE_HANDLE);
    CHECK(GetLastError(), ERROR_NOT_SUPPORTED);
}

int main(void)
{
    const char *path = getenv("CALLS_TRACE");
    check_opening(path, getenv("NO_TRACE"));
    check_options(path, getenv("NO_TRACE"));
    check_schemas(path);
    check_handles();
    check_threads(path);
#ifdef __cplusplus
    check_exceptions(path);
#endif
    return 0;
}
