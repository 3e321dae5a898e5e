/* The Event Log's calls. Arguments: a log with 300 records, the path of an export, a manifest. */
#include <windows.h>
#include <winevt.h>
#include <tdh.h>

#include <stdio.h>

static int failures;

#define CHECK(condition)                                                                                   \
    do {                                                                                                   \
        if (!(condition)) {                                                                                \
            failures++;                                                                                    \
            fprintf(stderr, "%s:%d: %s (last error %u)\n", __FILE__, __LINE__, #condition, GetLastError()); \
        }                                                                                                  \
    } while (0)
#define FAILS_WITH(call, error) CHECK(!(call) && GetLastError() == (error))

/* A path of the command line in UTF-16; such paths are ASCII here. */
static LPCWSTR wide(WCHAR *to, const char *prefix, const char *from)
{
    WCHAR *at = to;
    while (*prefix != 0)
        *at++ = (WCHAR)*prefix++;
    while (*from != 0)
        *at++ = (WCHAR)*from++;
    *at = 0;
    return to;
}

static int equal(LPCWSTR left, const char *right)
{
    while (*left != 0 && *left == (WCHAR)*right)
        left++, right++;
    return *left == (WCHAR)*right;
}

static int contains(LPCWSTR text, const char *part)
{
    for (; *text != 0; text++) {
        const char *rest = part;
        LPCWSTR at = text;
        while (*rest != 0 && *at == (WCHAR)*rest)
            at++, rest++;
        if (*rest == 0)
            return 1;
    }
    return 0;
}

static BYTE buffer[65536];
static DWORD used, count;
#define VARIANTS ((PEVT_VARIANT)(void *)buffer)
#define TEXT_OF_BUFFER ((LPCWSTR)(void *)buffer)

static ULONGLONG record_id(EVT_HANDLE event)
{
    static EVT_HANDLE context;
    if (context == NULL)
        context = EvtCreateRenderContext(0, NULL, EvtRenderContextSystem);
    CHECK(EvtRender(context, event, EvtRenderEventValues, sizeof buffer, buffer, &used, &count));
    CHECK(count == EvtSystemPropertyIdEND);
    CHECK(VARIANTS[EvtSystemEventRecordId].Type == EvtVarTypeUInt64);
    return VARIANTS[EvtSystemEventRecordId].UInt64Val;
}

/* The id of the next event; 0 at the end. */
static ULONGLONG next(EVT_HANDLE result)
{
    EVT_HANDLE event = NULL;
    DWORD returned = 77;
    ULONGLONG id;
    if (!EvtNext(result, 1, &event, INFINITE, 0, &returned)) {
        CHECK(GetLastError() == ERROR_NO_MORE_ITEMS && returned == 0);
        return 0;
    }
    CHECK(returned == 1);
    id = record_id(event);
    CHECK(EvtClose(event));
    return id;
}

static void queries(LPCWSTR log)
{
    EVT_HANDLE events[200], result, bookmark;
    DWORD returned, index;
    ULONGLONG expected = 10;
    WCHAR text[256];

    result = EvtQuery(NULL, log, ETW_W("*[System[Level=2]]"), EvtQueryFilePath | EvtQueryForwardDirection);
    CHECK(result != NULL);
    CHECK(EvtNext(result, 20, events, INFINITE, 0, &returned) && returned == 20);
    for (index = 0; index < returned; index++, expected += 10) {
        CHECK(record_id(events[index]) == expected);
        CHECK(EvtClose(events[index]));
    }
    CHECK(EvtNext(result, 200, events, INFINITE, 0, &returned) && returned == 10);
    for (index = 0; index < returned; index++)
        CHECK(EvtClose(events[index]));
    FAILS_WITH(EvtNext(result, 200, events, INFINITE, 0, &returned), ERROR_NO_MORE_ITEMS);

    CHECK(EvtSeek(result, 0, NULL, 0, EvtSeekRelativeToFirst) && next(result) == 10);
    CHECK(EvtSeek(result, 2, NULL, 0, EvtSeekRelativeToCurrent) && next(result) == 40);
    CHECK(EvtSeek(result, -1, NULL, 0, EvtSeekRelativeToLast) && next(result) == 290);
    CHECK(EvtSeek(result, 500, NULL, 0, EvtSeekRelativeToFirst) && next(result) == 0);
    FAILS_WITH(EvtSeek(result, 500, NULL, 0, EvtSeekRelativeToFirst | EvtSeekStrict), ERROR_NOT_FOUND);
    FAILS_WITH(EvtSeek(result, 0, NULL, 0, 0), ERROR_INVALID_PARAMETER);

    bookmark = EvtCreateBookmark(ETW_W("<BookmarkList><Bookmark Channel='x' RecordId='150' IsCurrent='true'/></BookmarkList>"));
    CHECK(EvtSeek(result, 1, bookmark, 0, EvtSeekRelativeToBookmark) && next(result) == 160);
    CHECK(EvtSeek(result, 0, NULL, 0, EvtSeekRelativeToFirst));
    CHECK(EvtNext(result, 1, events, INFINITE, 0, &returned));
    CHECK(EvtUpdateBookmark(bookmark, events[0]));
    FAILS_WITH(EvtRender(NULL, bookmark, EvtRenderBookmark, 10, buffer, &used, &count), ERROR_INSUFFICIENT_BUFFER);
    CHECK(used > 100 && used % 2 == 0);
    CHECK(EvtRender(NULL, bookmark, EvtRenderBookmark, used, buffer, &used, &count));
    CHECK(contains(TEXT_OF_BUFFER, "RecordId='10' IsCurrent='true'/>"));
    CHECK(EvtGetEventInfo(events[0], EvtEventPath, sizeof buffer, VARIANTS, &used));
    CHECK(VARIANTS[0].Type == EvtVarTypeString);
    CHECK(EvtGetQueryInfo(result, EvtQueryStatuses, sizeof buffer, VARIANTS, &used));
    CHECK(VARIANTS[0].Type == (EvtVarTypeUInt32 | EVT_VARIANT_TYPE_ARRAY) && VARIANTS[0].Count == 1 && VARIANTS[0].UInt32Arr[0] == 0);
    CHECK(EvtGetQueryInfo(result, EvtQueryNames, sizeof buffer, VARIANTS, &used));
    CHECK(VARIANTS[0].Count == 1 && VARIANTS[0].StringArr[0][0] == log[0]);
    CHECK(EvtClose(events[0]) && EvtClose(bookmark) && EvtClose(result));
    FAILS_WITH(EvtClose(result), ERROR_INVALID_HANDLE);
    FAILS_WITH(EvtNext(result, 1, events, 0, 0, &returned), ERROR_INVALID_HANDLE);

    result = EvtQuery(NULL, log, NULL, EvtQueryFilePath | EvtQueryReverseDirection);
    CHECK(next(result) == 300 && next(result) == 299);
    CHECK(EvtClose(result));

    /* A wrong query has its column in the explanation. */
    FAILS_WITH(EvtQuery(NULL, log, ETW_W("*[System[Level=]]"), EvtQueryFilePath), ERROR_EVT_INVALID_QUERY);
    CHECK(EvtGetExtendedStatus(2, text, &used) == ERROR_INSUFFICIENT_BUFFER && used > 20);
    CHECK(EvtGetExtendedStatus(256, text, &used) == ERROR_SUCCESS && contains(text, "column 16"));
    FAILS_WITH(EvtQuery(NULL, ETW_W("NoSuchChannel"), NULL, EvtQueryChannelPath), ERROR_EVT_CHANNEL_NOT_FOUND);
    FAILS_WITH(EvtQuery(NULL, ETW_W("/nowhere.evtx"), NULL, EvtQueryFilePath), ERROR_FILE_NOT_FOUND);
    FAILS_WITH(EvtOpenSession(EvtRpcLogin, NULL, 0, 0), ERROR_NOT_SUPPORTED);
}

static void rendering(LPCWSTR log)
{
    static LPCWSTR paths[] = {ETW_W("Event/System/Provider/@Name"), ETW_W("Event/EventData/Data[@Name='Number']"),
                              ETW_W("Event/EventData/Data[@Name='Text']"), ETW_W("Event/EventData/Nothing")};
    EVT_HANDLE result = EvtQuery(NULL, log, ETW_W("*[System[EventRecordID=7]]"), EvtQueryFilePath);
    EVT_HANDLE event = NULL, context;
    DWORD returned;

    CHECK(EvtNext(result, 1, &event, INFINITE, 0, &returned));
    FAILS_WITH(EvtRender(NULL, event, EvtRenderEventXml, 0, NULL, &used, &count), ERROR_INSUFFICIENT_BUFFER);
    CHECK(EvtRender(NULL, event, EvtRenderEventXml, used, buffer, &used, &count) && count == 0);
    CHECK(contains(TEXT_OF_BUFFER, "<Data Name='Text'>text 7</Data></EventData></Event>"));
    CHECK(TEXT_OF_BUFFER[used / 2 - 1] == 0);

    context = EvtCreateRenderContext(4, paths, EvtRenderContextValues);
    FAILS_WITH(EvtRender(context, event, EvtRenderEventValues, 63, buffer, &used, &count), ERROR_INSUFFICIENT_BUFFER);
    CHECK(EvtRender(context, event, EvtRenderEventValues, used, buffer, &used, &count) && count == 4);
    CHECK(VARIANTS[0].Type == EvtVarTypeString && equal(VARIANTS[0].StringVal, "OpenEtw.Shop"));
    CHECK(VARIANTS[1].Type == EvtVarTypeUInt64 && VARIANTS[1].UInt64Val == 7);
    CHECK(VARIANTS[2].Type == EvtVarTypeString && equal(VARIANTS[2].StringVal, "text 7"));
    CHECK(VARIANTS[3].Type == EvtVarTypeNull);
    CHECK(EvtClose(context));

    context = EvtCreateRenderContext(0, NULL, EvtRenderContextUser);
    CHECK(EvtRender(context, event, EvtRenderEventValues, sizeof buffer, buffer, &used, &count) && count == 2);
    CHECK(VARIANTS[0].UInt64Val == 7 && equal(VARIANTS[1].StringVal, "text 7"));
    CHECK(EvtClose(context));

    context = EvtCreateRenderContext(0, NULL, EvtRenderContextSystem);
    CHECK(EvtRender(context, event, EvtRenderEventValues, sizeof buffer, buffer, &used, &count) && count == 18);
    CHECK(VARIANTS[EvtSystemEventID].Type == EvtVarTypeUInt16 && VARIANTS[EvtSystemEventID].UInt16Val == 7);
    CHECK(VARIANTS[EvtSystemLevel].Type == EvtVarTypeByte && VARIANTS[EvtSystemLevel].ByteVal == 4);
    CHECK(VARIANTS[EvtSystemProviderGuid].Type == EvtVarTypeGuid);
    CHECK(VARIANTS[EvtSystemTimeCreated].Type == EvtVarTypeFileTime && VARIANTS[EvtSystemTimeCreated].FileTimeVal == 133000000000000007ull);
    CHECK(VARIANTS[EvtSystemQualifiers].Type == EvtVarTypeNull);
    CHECK(equal(VARIANTS[EvtSystemChannel].StringVal, "Shop/Operational"));
    FAILS_WITH(EvtCreateRenderContext(0, NULL, EvtRenderContextValues), ERROR_INVALID_PARAMETER);
    CHECK(EvtClose(context));

    CHECK(EvtFormatMessage(NULL, event, 0, 0, NULL, EvtFormatMessageEvent, sizeof buffer / 2, (LPWSTR)(void *)buffer, &used));
    CHECK(equal(TEXT_OF_BUFFER, "7 was sold."));
    FAILS_WITH(EvtFormatMessage(NULL, event, 0, 0, NULL, EvtFormatMessageEvent, 11, (LPWSTR)(void *)buffer, &used), ERROR_INSUFFICIENT_BUFFER);
    CHECK(used == 12);
    CHECK(EvtFormatMessage(NULL, event, 0, 0, NULL, EvtFormatMessageTask, sizeof buffer / 2, (LPWSTR)(void *)buffer, &used));
    CHECK(equal(TEXT_OF_BUFFER, "Selling"));
    CHECK(EvtFormatMessage(NULL, event, 0, 0, NULL, EvtFormatMessageKeyword, sizeof buffer / 2, (LPWSTR)(void *)buffer, &used));
    CHECK(equal(TEXT_OF_BUFFER, "Sales") && used == 7 && TEXT_OF_BUFFER[6] == 0);
    CHECK(EvtFormatMessage(NULL, event, 0, 0, NULL, EvtFormatMessageXml, sizeof buffer / 2, (LPWSTR)(void *)buffer, &used));
    CHECK(contains(TEXT_OF_BUFFER, "<RenderingInfo Culture='en-US'><Message>7 was sold.</Message>"));
    CHECK(EvtClose(event) && EvtClose(result));
}

static void publishers(void)
{
    EVT_HANDLE names = EvtOpenPublisherEnum(NULL, 0), publisher, array, events, event;
    WCHAR name[64];
    int is_found = 0, found = 0;

    FAILS_WITH(EvtNextPublisherId(names, 1, name, &used), ERROR_INSUFFICIENT_BUFFER);
    while (EvtNextPublisherId(names, 64, name, &used))
        is_found |= equal(name, "OpenEtw.Shop");
    CHECK(GetLastError() == ERROR_NO_MORE_ITEMS && is_found);
    CHECK(EvtClose(names));
    FAILS_WITH(EvtOpenPublisherMetadata(NULL, ETW_W("Nobody"), NULL, 0, 0), ERROR_EVT_PUBLISHER_METADATA_NOT_FOUND);
    publisher = EvtOpenPublisherMetadata(NULL, ETW_W("OpenEtw.Shop"), NULL, 0, 0);
    CHECK(publisher != NULL);
    CHECK(EvtGetPublisherMetadataProperty(publisher, EvtPublisherMetadataPublisherGuid, 0, sizeof buffer, VARIANTS, &used));
    CHECK(VARIANTS[0].Type == EvtVarTypeGuid);
    CHECK(EvtGetPublisherMetadataProperty(publisher, EvtPublisherMetadataKeywords, 0, sizeof buffer, VARIANTS, &used));
    CHECK(VARIANTS[0].Type == EvtVarTypeEvtHandle);
    array = VARIANTS[0].EvtHandleVal;
    CHECK(EvtGetObjectArraySize(array, &count) && count == 1);
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataKeywordName, 0, 0, sizeof buffer, VARIANTS, &used));
    CHECK(equal(VARIANTS[0].StringVal, "Sales"));
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataKeywordValue, 0, 0, sizeof buffer, VARIANTS, &used));
    CHECK(VARIANTS[0].UInt64Val == 0x10);
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataKeywordMessageID, 0, 0, sizeof buffer, VARIANTS, &used));
    CHECK(VARIANTS[0].UInt32Val == 0xffffffff);
    FAILS_WITH(EvtGetObjectArrayProperty(array, EvtPublisherMetadataKeywordName, 1, 0, sizeof buffer, VARIANTS, &used), ERROR_INVALID_PARAMETER);
    CHECK(EvtClose(array));
    CHECK(EvtGetPublisherMetadataProperty(publisher, EvtPublisherMetadataLevels, 0, sizeof buffer, VARIANTS, &used));
    array = VARIANTS[0].EvtHandleVal;
    CHECK(EvtGetObjectArraySize(array, &count) && count == 2);
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataLevelName, 0, 0, sizeof buffer, VARIANTS, &used));
    CHECK(equal(VARIANTS[0].StringVal, "win:Error"));
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataLevelMessageID, 0, 0, sizeof buffer, VARIANTS, &used));
    CHECK(EvtFormatMessage(publisher, NULL, VARIANTS[0].UInt32Val, 0, NULL, EvtFormatMessageId, sizeof buffer / 2, (LPWSTR)(void *)buffer, &used));
    CHECK(equal(TEXT_OF_BUFFER, "Error"));
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataLevelName, 1, 0, sizeof buffer, VARIANTS, &used));
    CHECK(equal(VARIANTS[0].StringVal, "Shop:Loud"));
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataLevelMessageID, 1, 0, sizeof buffer, VARIANTS, &used));
    CHECK(EvtFormatMessage(publisher, NULL, VARIANTS[0].UInt32Val, 0, NULL, EvtFormatMessageId, sizeof buffer / 2, (LPWSTR)(void *)buffer, &used));
    CHECK(equal(TEXT_OF_BUFFER, "very loud"));
    FAILS_WITH(EvtFormatMessage(publisher, NULL, 1, 0, NULL, EvtFormatMessageId, sizeof buffer / 2, (LPWSTR)(void *)buffer, &used), ERROR_EVT_MESSAGE_ID_NOT_FOUND);
    CHECK(EvtClose(array));
    CHECK(EvtGetPublisherMetadataProperty(publisher, EvtPublisherMetadataChannelReferences, 0, sizeof buffer, VARIANTS, &used));
    array = VARIANTS[0].EvtHandleVal;
    CHECK(EvtGetObjectArraySize(array, &count) && count == 2);
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataChannelReferenceMessageID, 0, 0, sizeof buffer, VARIANTS, &used));
    CHECK(VARIANTS[0].UInt32Val == 0xffffffff);
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataChannelReferencePath, 1, 0, sizeof buffer, VARIANTS, &used));
    CHECK(equal(VARIANTS[0].StringVal, "Shop/Till"));
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataChannelReferenceMessageID, 1, 0, sizeof buffer, VARIANTS, &used));
    CHECK(VARIANTS[0].UInt32Val == 0x90000002);
    CHECK(EvtFormatMessage(publisher, NULL, VARIANTS[0].UInt32Val, 0, NULL, EvtFormatMessageId, sizeof buffer / 2, (LPWSTR)(void *)buffer, &used));
    CHECK(equal(TEXT_OF_BUFFER, "At the till"));
    CHECK(EvtClose(array));
    CHECK(EvtGetPublisherMetadataProperty(publisher, EvtPublisherMetadataOpcodes, 0, sizeof buffer, VARIANTS, &used));
    array = VARIANTS[0].EvtHandleVal;
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataOpcodeName, 0, 0, sizeof buffer, VARIANTS, &used));
    CHECK(equal(VARIANTS[0].StringVal, "Ring"));
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataOpcodeValue, 0, 0, sizeof buffer, VARIANTS, &used));
    CHECK(VARIANTS[0].UInt32Val == (11 << 16 | 3));
    CHECK(EvtClose(array));
    CHECK(EvtGetPublisherMetadataProperty(publisher, EvtPublisherMetadataTasks, 0, sizeof buffer, VARIANTS, &used));
    array = VARIANTS[0].EvtHandleVal;
    CHECK(EvtGetObjectArrayProperty(array, EvtPublisherMetadataTaskEventGuid, 0, 0, sizeof buffer, VARIANTS, &used));
    CHECK(VARIANTS[0].Type == EvtVarTypeGuid && VARIANTS[0].GuidVal->Data1 == 0x0a0b0c0d);
    CHECK(EvtClose(array));
    CHECK(EvtGetPublisherMetadataProperty(publisher, EvtPublisherMetadataPublisherMessageID, 0, sizeof buffer, VARIANTS, &used));
    CHECK(EvtFormatMessage(publisher, NULL, VARIANTS[0].UInt32Val, 0, NULL, EvtFormatMessageId, sizeof buffer / 2, (LPWSTR)(void *)buffer, &used));
    CHECK(equal(TEXT_OF_BUFFER, "The shop"));
    CHECK(EvtGetPublisherMetadataProperty(publisher, EvtPublisherMetadataResourceFilePath, 0, sizeof buffer, VARIANTS, &used));
    CHECK(equal(VARIANTS[0].StringVal, "shop.dll"));
    events = EvtOpenEventMetadataEnum(publisher, 0);
    while ((event = EvtNextEventMetadata(events, 0)) != NULL) {
        found++;
        CHECK(EvtGetEventMetadataProperty(event, EventMetadataEventID, 0, sizeof buffer, VARIANTS, &used));
        CHECK(VARIANTS[0].Type == EvtVarTypeUInt32 && VARIANTS[0].UInt32Val == 7);
        CHECK(EvtGetEventMetadataProperty(event, EventMetadataEventMessageID, 0, sizeof buffer, VARIANTS, &used));
        CHECK(EvtFormatMessage(publisher, NULL, VARIANTS[0].UInt32Val, 0, NULL, EvtFormatMessageId, sizeof buffer / 2, (LPWSTR)(void *)buffer, &used));
        CHECK(equal(TEXT_OF_BUFFER, "%1 was sold."));
        CHECK(EvtGetEventMetadataProperty(event, EventMetadataEventTemplate, 0, sizeof buffer, VARIANTS, &used));
        CHECK(contains(VARIANTS[0].StringVal, "<data name=\"Number\" inType=\"win:UInt64\"/>"));
        CHECK(EvtClose(event));
    }
    CHECK(found == 1 && GetLastError() == ERROR_NO_MORE_ITEMS);
    CHECK(EvtClose(events) && EvtClose(publisher));
}

static void logs(LPCWSTR log, LPCWSTR target)
{
    EVT_HANDLE handle = EvtOpenLog(NULL, log, EvtOpenFilePath), result;

    CHECK(handle != NULL);
    CHECK(EvtGetLogInfo(handle, EvtLogNumberOfLogRecords, sizeof buffer, VARIANTS, &used));
    CHECK(used == sizeof(EVT_VARIANT) && VARIANTS[0].Type == EvtVarTypeUInt64 && VARIANTS[0].UInt64Val == 300);
    CHECK(EvtGetLogInfo(handle, EvtLogOldestRecordNumber, sizeof buffer, VARIANTS, &used) && VARIANTS[0].UInt64Val == 1);
    CHECK(EvtGetLogInfo(handle, EvtLogFull, sizeof buffer, VARIANTS, &used) && VARIANTS[0].Type == EvtVarTypeBoolean && !VARIANTS[0].BooleanVal);
    FAILS_WITH(EvtGetLogInfo(handle, EvtLogFileSize, 8, VARIANTS, &used), ERROR_INSUFFICIENT_BUFFER);
    CHECK(EvtClose(handle));

    CHECK(EvtExportLog(NULL, log, ETW_W("*[System[Level=2]]"), target, EvtExportLogFilePath));
    FAILS_WITH(EvtExportLog(NULL, log, NULL, target, EvtExportLogFilePath), ERROR_FILE_EXISTS);
    CHECK(EvtExportLog(NULL, log, ETW_W("*[System[EventRecordID>298]]"), target, EvtExportLogFilePath | EvtExportLogOverwrite));
    result = EvtQuery(NULL, target, NULL, EvtQueryFilePath);
    CHECK(next(result) == 299 && next(result) == 300 && next(result) == 0);
    CHECK(EvtClose(result));
    FAILS_WITH(EvtArchiveExportedLog(NULL, target, 0, 0), ERROR_NOT_SUPPORTED);
}

struct pushed {
    HANDLE done;
    ULONGLONG last;
    int is_ordered;
};

static DWORD WINAPI receive(EVT_SUBSCRIBE_NOTIFY_ACTION action, PVOID context, EVT_HANDLE event)
{
    struct pushed *pushed = (struct pushed *)context;
    static BYTE values[4096];
    static EVT_HANDLE system;
    DWORD size, number;
    if (system == NULL)
        system = EvtCreateRenderContext(0, NULL, EvtRenderContextSystem);
    CHECK(action == EvtSubscribeActionDeliver);
    CHECK(EvtRender(system, event, EvtRenderEventValues, sizeof values, values, &size, &number));
    pushed->is_ordered &= ((PEVT_VARIANT)(void *)values)[EvtSystemEventRecordId].UInt64Val == pushed->last + 1;
    if (++pushed->last == 300)
        SetEvent(pushed->done);
    return ERROR_SUCCESS;
}

struct errors {
    HANDLE done;
    LONG errors, events;
};

static DWORD WINAPI receive_error(EVT_SUBSCRIBE_NOTIFY_ACTION action, PVOID context, EVT_HANDLE event)
{
    struct errors *all = (struct errors *)context;
    if (action == EvtSubscribeActionError) {
        CHECK((DWORD)(ULONG_PTR)event == ERROR_EVT_QUERY_RESULT_STALE && all->events == 0);
        all->errors++;
    } else if (++all->events == 1) {
        SetEvent(all->done);
    }
    return ERROR_SUCCESS;
}

/* A log that overwrote records before they were read says so to strict subscribers alone. */
static void gaps(const char *watched, const char *wrapped)
{
    WCHAR channel[512];
    struct errors pushed = {CreateEventW(NULL, TRUE, FALSE, NULL), 0, 0};
    HANDLE signal = CreateEventW(NULL, TRUE, FALSE, NULL), other = CreateEventW(NULL, TRUE, FALSE, NULL);
    DWORD strict = EvtSubscribeToFutureEvents | EvtSubscribeStrict;
    EVT_HANDLE event, callback, pull, tolerant;
    DWORD returned = 77;
    ULONGLONG first;

    wide(channel, "file://", watched);
    callback = EvtSubscribe(NULL, NULL, channel, NULL, NULL, &pushed, receive_error, strict);
    pull = EvtSubscribe(NULL, signal, channel, NULL, NULL, NULL, NULL, strict);
    tolerant = EvtSubscribe(NULL, other, channel, NULL, NULL, NULL, NULL, EvtSubscribeToFutureEvents);
    CHECK(callback != NULL && pull != NULL && tolerant != NULL);
    CHECK(rename(wrapped, watched) == 0);
    CHECK(WaitForSingleObject(pushed.done, 120000) == WAIT_OBJECT_0 && pushed.errors == 1);
    CHECK(WaitForSingleObject(signal, 120000) == WAIT_OBJECT_0);
    FAILS_WITH(EvtNext(pull, 1, &event, INFINITE, 0, &returned), ERROR_EVT_QUERY_RESULT_STALE);
    first = next(pull);
    CHECK(first > 301 && next(pull) == first + 1);
    CHECK(WaitForSingleObject(other, 120000) == WAIT_OBJECT_0 && next(tolerant) == first);
    CHECK(EvtClose(callback) && EvtClose(pull) && EvtClose(tolerant));
    CHECK(CloseHandle(pushed.done) && CloseHandle(signal) && CloseHandle(other));
}

static void subscriptions(LPCWSTR channel)
{
    struct pushed pushed = {CreateEventW(NULL, TRUE, FALSE, NULL), 0, 1};
    HANDLE signal = CreateEventW(NULL, TRUE, FALSE, NULL);
    EVT_HANDLE bookmark, subscription = EvtSubscribe(NULL, NULL, channel, NULL, NULL, &pushed, receive, EvtSubscribeStartAtOldestRecord);

    CHECK(subscription != NULL);
    CHECK(WaitForSingleObject(pushed.done, 120000) == WAIT_OBJECT_0);
    CHECK(EvtClose(subscription));
    CHECK(pushed.last == 300 && pushed.is_ordered);

    bookmark = EvtCreateBookmark(ETW_W("<BookmarkList><Bookmark Channel='any' RecordId='297'/></BookmarkList>"));
    subscription = EvtSubscribe(NULL, signal, channel, NULL, bookmark, NULL, NULL, EvtSubscribeStartAfterBookmark | EvtSubscribeStrict);
    CHECK(subscription != NULL);
    CHECK(WaitForSingleObject(signal, 120000) == WAIT_OBJECT_0);
    CHECK(next(subscription) == 298 && next(subscription) == 299 && next(subscription) == 300);
    CHECK(EvtClose(subscription) && EvtClose(bookmark));

    bookmark = EvtCreateBookmark(ETW_W("<BookmarkList><Bookmark Channel='any' RecordId='7000'/></BookmarkList>"));
    FAILS_WITH(EvtSubscribe(NULL, signal, channel, NULL, bookmark, NULL, NULL, EvtSubscribeStartAfterBookmark | EvtSubscribeStrict),
               ERROR_EVT_QUERY_RESULT_STALE);
    CHECK(EvtClose(bookmark));
    FAILS_WITH(EvtSubscribe(NULL, NULL, channel, NULL, NULL, NULL, NULL, EvtSubscribeToFutureEvents), ERROR_INVALID_PARAMETER);
    CHECK(CloseHandle(signal) && CloseHandle(pushed.done));
}

/* A value of a channel's settings. */
static PEVT_VARIANT setting(EVT_HANDLE config, EVT_CHANNEL_CONFIG_PROPERTY_ID property)
{
    CHECK(EvtGetChannelConfigProperty(config, property, 0, sizeof buffer, VARIANTS, &used));
    return VARIANTS;
}

/* System has a log with 300 records; nothing was written to Application. */
static void channels(LPCWSTR backup)
{
    EVT_HANDLE list = EvtOpenChannelEnum(NULL, 0), config, result, log;
    static EVT_VARIANT value;
    WCHAR name[64];
    int found = 0;

    FAILS_WITH(EvtNextChannelPath(list, 3, name, &used), ERROR_INSUFFICIENT_BUFFER);
    CHECK(used > 3);
    while (EvtNextChannelPath(list, 64, name, &used))
        found += equal(name, "Application") || equal(name, "System");
    CHECK(GetLastError() == ERROR_NO_MORE_ITEMS && found == 2);
    CHECK(EvtClose(list));

    FAILS_WITH(EvtOpenChannelConfig(NULL, ETW_W("NoSuchChannel"), 0), ERROR_EVT_CHANNEL_NOT_FOUND);
    config = EvtOpenChannelConfig(NULL, ETW_W("application"), 0);
    CHECK(config != NULL);
    CHECK(setting(config, EvtChannelConfigEnabled)->Type == EvtVarTypeBoolean && VARIANTS[0].BooleanVal);
    CHECK(setting(config, EvtChannelConfigType)->UInt32Val == EvtChannelTypeAdmin);
    CHECK(setting(config, EvtChannelConfigClassicEventlog)->BooleanVal);
    CHECK(setting(config, EvtChannelLoggingConfigMaxSize)->UInt64Val == 20971520);
    CHECK(contains(setting(config, EvtChannelLoggingConfigLogFilePath)->StringVal, "/Application.evtx"));
    CHECK(setting(config, EvtChannelPublishingConfigLatency)->Type == EvtVarTypeNull);
    value.Type = EvtVarTypeUInt64;
    value.UInt64Val = 2097152;
    CHECK(EvtSetChannelConfigProperty(config, EvtChannelLoggingConfigMaxSize, 0, &value));
    FAILS_WITH(EvtSetChannelConfigProperty(config, EvtChannelConfigEnabled, 0, &value), ERROR_INVALID_PARAMETER);
    FAILS_WITH(EvtSetChannelConfigProperty(config, EvtChannelPublishingConfigLatency, 0, &value), ERROR_NOT_SUPPORTED);
    value.Type = EvtVarTypeBoolean;
    value.UInt64Val = 0;
    value.BooleanVal = TRUE;
    CHECK(EvtSetChannelConfigProperty(config, EvtChannelLoggingConfigRetention, 0, &value));
    CHECK(EvtSaveChannelConfig(config, 0));
    value.Type = EvtVarTypeString;
    value.StringVal = ETW_W("no SDDL");
    CHECK(EvtSetChannelConfigProperty(config, EvtChannelConfigAccess, 0, &value));
    FAILS_WITH(EvtSaveChannelConfig(config, 0), ERROR_INVALID_PARAMETER);
    CHECK(EvtClose(config));
    config = EvtOpenChannelConfig(NULL, ETW_W("Application"), 0);
    CHECK(setting(config, EvtChannelLoggingConfigMaxSize)->UInt64Val == 2097152);
    CHECK(setting(config, EvtChannelLoggingConfigRetention)->BooleanVal);
    CHECK(EvtClose(config));

    result = EvtQuery(NULL, ETW_W("Application"), NULL, EvtQueryChannelPath);
    CHECK(result != NULL && next(result) == 0 && EvtClose(result));
    result = EvtQuery(NULL, ETW_W("System"), ETW_W("*[System[EventRecordID=300]]"), EvtQueryChannelPath);
    CHECK(next(result) == 300 && next(result) == 0 && EvtClose(result));

    CHECK(EvtClearLog(NULL, ETW_W("System"), backup, 0));
    result = EvtQuery(NULL, ETW_W("System"), NULL, EvtQueryChannelPath);
    CHECK(result != NULL && next(result) == 0 && EvtClose(result));
    result = EvtQuery(NULL, backup, NULL, EvtQueryFilePath | EvtQueryReverseDirection);
    CHECK(next(result) == 300 && EvtClose(result));
    FAILS_WITH(EvtClearLog(NULL, ETW_W("System"), backup, 0), ERROR_FILE_EXISTS);
    FAILS_WITH(EvtClearLog(NULL, ETW_W("NoSuchChannel"), NULL, 0), ERROR_EVT_CHANNEL_NOT_FOUND);
    log = EvtOpenLog(NULL, ETW_W("Application"), EvtOpenChannelPath);
    CHECK(log != NULL && EvtGetLogInfo(log, EvtLogNumberOfLogRecords, sizeof buffer, VARIANTS, &used));
    CHECK(VARIANTS[0].UInt64Val == 0 && EvtClose(log));
}

int main(int argc, char **argv)
{
    WCHAR log[512], channel[512], target[512], manifest[512], backup[512];

    if (argc != 7)
        return 2;
    wide(backup, "", argv[4]);
    wide(manifest, "", argv[3]);
    CHECK(TdhLoadManifest(manifest) == ERROR_SUCCESS);
    wide(log, "", argv[1]);
    wide(channel, "file://", argv[1]);
    wide(target, "", argv[2]);
    queries(log);
    publishers();
    rendering(log);
    logs(log, target);
    subscriptions(channel);
    gaps(argv[5], argv[6]);
    channels(backup);
    printf("%d failures\n", failures);
    return failures != 0;
}
