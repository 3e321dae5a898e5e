/*
 * The Event Log's calls for systems other than Windows: queries, subscriptions, publishers and channels. Link with -letw.
 *
 * Part of openetw. Written to Microsoft's documentation; names, layouts and statuses are theirs.
 *
 * Logs are .evtx files, by path (EvtQueryFilePath, EvtOpenFilePath, "file://" in a query list), or channels by name. Texts are UTF-16.
 * Functions that return BOOL or EVT_HANDLE set the last error; EvtGetExtendedStatus has its explanation, such as the column of a wrong
 * query. Sizes of EvtRender and of properties are in bytes, those of EvtFormatMessage, EvtNextPublisherId, EvtNextChannelPath and
 * EvtGetExtendedStatus in characters.
 *
 * Schemas, names and messages of publishers come from manifests that TdhLoadManifest loaded and that `etw manifest install` registered.
 *
 * Not supported (ERROR_NOT_SUPPORTED): EvtOpenSession, and a session in any call; EvtArchiveExportedLog.
 */
#ifndef __WINDOWS_EVENTS_H__
#define __WINDOWS_EVENTS_H__

#include "etw_base.h"

typedef PVOID PSID;
typedef HANDLE EVT_HANDLE, *PEVT_HANDLE;
/* An array of objects, such as the tasks of a publisher. */
typedef HANDLE EVT_OBJECT_ARRAY_PROPERTY_HANDLE;

#define EVT_VARIANT_TYPE_MASK 0x7f
#define EVT_VARIANT_TYPE_ARRAY 128
#define EVT_READ_ACCESS 0x1
#define EVT_WRITE_ACCESS 0x2
#define EVT_CLEAR_ACCESS 0x4
#define EVT_ALL_ACCESS 0x7

/* Types of values. */
typedef enum _EVT_VARIANT_TYPE {
    EvtVarTypeNull = 0,
    EvtVarTypeString = 1,
    EvtVarTypeAnsiString = 2,
    EvtVarTypeSByte = 3,
    EvtVarTypeByte = 4,
    EvtVarTypeInt16 = 5,
    EvtVarTypeUInt16 = 6,
    EvtVarTypeInt32 = 7,
    EvtVarTypeUInt32 = 8,
    EvtVarTypeInt64 = 9,
    EvtVarTypeUInt64 = 10,
    EvtVarTypeSingle = 11,
    EvtVarTypeDouble = 12,
    EvtVarTypeBoolean = 13,
    EvtVarTypeBinary = 14,
    EvtVarTypeGuid = 15,
    EvtVarTypeSizeT = 16,
    EvtVarTypeFileTime = 17,
    EvtVarTypeSysTime = 18,
    EvtVarTypeSid = 19,
    EvtVarTypeHexInt32 = 20,
    EvtVarTypeHexInt64 = 21,
    EvtVarTypeEvtHandle = 32,
    EvtVarTypeEvtXml = 35
} EVT_VARIANT_TYPE;

/* A value, 16 bytes. Pointers lead into the buffer that has the value. Count is that of an array's items, or of the bytes of a binary value. */
typedef struct _EVT_VARIANT {
    union {
        BOOL BooleanVal;
        INT8 SByteVal;
        INT16 Int16Val;
        INT32 Int32Val;
        INT64 Int64Val;
        UINT8 ByteVal;
        UINT16 UInt16Val;
        UINT32 UInt32Val;
        UINT64 UInt64Val;
        float SingleVal;
        double DoubleVal;
        ULONGLONG FileTimeVal;
        SYSTEMTIME *SysTimeVal;
        GUID *GuidVal;
        LPCWSTR StringVal;
        LPCSTR AnsiStringVal;
        PBYTE BinaryVal;
        PSID SidVal;
        size_t SizeTVal;
        BOOL *BooleanArr;
        INT8 *SByteArr;
        INT16 *Int16Arr;
        INT32 *Int32Arr;
        INT64 *Int64Arr;
        UINT8 *ByteArr;
        UINT16 *UInt16Arr;
        UINT32 *UInt32Arr;
        UINT64 *UInt64Arr;
        float *SingleArr;
        double *DoubleArr;
        FILETIME *FileTimeArr;
        SYSTEMTIME *SysTimeArr;
        GUID *GuidArr;
        LPWSTR *StringArr;
        LPSTR *AnsiStringArr;
        PSID *SidArr;
        size_t *SizeTArr;
        EVT_HANDLE EvtHandleVal;
        LPCWSTR XmlVal;
        LPCWSTR *XmlValArr;
    };
    DWORD Count;
    DWORD Type;
} EVT_VARIANT, *PEVT_VARIANT;

/* Sessions with other computers are not supported. */
typedef enum _EVT_LOGIN_CLASS {
    EvtRpcLogin = 1
} EVT_LOGIN_CLASS;

/* EvtQuery. */
typedef enum _EVT_QUERY_FLAGS {
    EvtQueryChannelPath = 1,
    EvtQueryFilePath = 2,
    EvtQueryForwardDirection = 0x100,
    EvtQueryReverseDirection = 0x200,
    EvtQueryTolerateQueryErrors = 0x1000
} EVT_QUERY_FLAGS;

/* EvtSeek. */
typedef enum _EVT_SEEK_FLAGS {
    EvtSeekRelativeToFirst = 1,
    EvtSeekRelativeToLast = 2,
    EvtSeekRelativeToCurrent = 3,
    EvtSeekRelativeToBookmark = 4,
    EvtSeekOriginMask = 7,
    EvtSeekStrict = 0x10000
} EVT_SEEK_FLAGS;

/* EvtSubscribe. */
typedef enum _EVT_SUBSCRIBE_FLAGS {
    EvtSubscribeToFutureEvents = 1,
    EvtSubscribeStartAtOldestRecord = 2,
    EvtSubscribeStartAfterBookmark = 3,
    EvtSubscribeOriginMask = 3,
    EvtSubscribeTolerateQueryErrors = 0x1000,
    EvtSubscribeStrict = 0x10000
} EVT_SUBSCRIBE_FLAGS;

/* Why a callback of EvtSubscribe is called. */
typedef enum _EVT_SUBSCRIBE_NOTIFY_ACTION {
    EvtSubscribeActionError = 0,
    EvtSubscribeActionDeliver = 1
} EVT_SUBSCRIBE_NOTIFY_ACTION;

/* The values of a render context with EvtRenderContextSystem. */
typedef enum _EVT_SYSTEM_PROPERTY_ID {
    EvtSystemProviderName = 0,
    EvtSystemProviderGuid = 1,
    EvtSystemEventID = 2,
    EvtSystemQualifiers = 3,
    EvtSystemLevel = 4,
    EvtSystemTask = 5,
    EvtSystemOpcode = 6,
    EvtSystemKeywords = 7,
    EvtSystemTimeCreated = 8,
    EvtSystemEventRecordId = 9,
    EvtSystemActivityID = 10,
    EvtSystemRelatedActivityID = 11,
    EvtSystemProcessID = 12,
    EvtSystemThreadID = 13,
    EvtSystemChannel = 14,
    EvtSystemComputer = 15,
    EvtSystemUserID = 16,
    EvtSystemVersion = 17,
    EvtSystemPropertyIdEND = 18
} EVT_SYSTEM_PROPERTY_ID;

/* EvtCreateRenderContext. */
typedef enum _EVT_RENDER_CONTEXT_FLAGS {
    EvtRenderContextValues = 0,
    EvtRenderContextSystem = 1,
    EvtRenderContextUser = 2
} EVT_RENDER_CONTEXT_FLAGS;

/* EvtRender. */
typedef enum _EVT_RENDER_FLAGS {
    EvtRenderEventValues = 0,
    EvtRenderEventXml = 1,
    EvtRenderBookmark = 2
} EVT_RENDER_FLAGS;

/* EvtFormatMessage. */
typedef enum _EVT_FORMAT_MESSAGE_FLAGS {
    EvtFormatMessageEvent = 1,
    EvtFormatMessageLevel = 2,
    EvtFormatMessageTask = 3,
    EvtFormatMessageOpcode = 4,
    EvtFormatMessageKeyword = 5,
    EvtFormatMessageChannel = 6,
    EvtFormatMessageProvider = 7,
    EvtFormatMessageId = 8,
    EvtFormatMessageXml = 9
} EVT_FORMAT_MESSAGE_FLAGS;

/* EvtOpenLog. */
typedef enum _EVT_OPEN_LOG_FLAGS {
    EvtOpenChannelPath = 1,
    EvtOpenFilePath = 2
} EVT_OPEN_LOG_FLAGS;

/* EvtGetLogInfo. */
typedef enum _EVT_LOG_PROPERTY_ID {
    EvtLogCreationTime = 0,
    EvtLogLastAccessTime = 1,
    EvtLogLastWriteTime = 2,
    EvtLogFileSize = 3,
    EvtLogAttributes = 4,
    EvtLogNumberOfLogRecords = 5,
    EvtLogOldestRecordNumber = 6,
    EvtLogFull = 7
} EVT_LOG_PROPERTY_ID;

/* EvtExportLog. */
typedef enum _EVT_EXPORTLOG_FLAGS {
    EvtExportLogChannelPath = 1,
    EvtExportLogFilePath = 2,
    EvtExportLogTolerateQueryErrors = 0x1000,
    EvtExportLogOverwrite = 0x2000
} EVT_EXPORTLOG_FLAGS;

/* Settings of a channel. */
typedef enum _EVT_CHANNEL_CONFIG_PROPERTY_ID {
    EvtChannelConfigEnabled = 0,
    EvtChannelConfigIsolation = 1,
    EvtChannelConfigType = 2,
    EvtChannelConfigOwningPublisher = 3,
    EvtChannelConfigClassicEventlog = 4,
    EvtChannelConfigAccess = 5,
    EvtChannelLoggingConfigRetention = 6,
    EvtChannelLoggingConfigAutoBackup = 7,
    EvtChannelLoggingConfigMaxSize = 8,
    EvtChannelLoggingConfigLogFilePath = 9,
    EvtChannelPublishingConfigLevel = 10,
    EvtChannelPublishingConfigKeywords = 11,
    EvtChannelPublishingConfigControlGuid = 12,
    EvtChannelPublishingConfigBufferSize = 13,
    EvtChannelPublishingConfigMinBuffers = 14,
    EvtChannelPublishingConfigMaxBuffers = 15,
    EvtChannelPublishingConfigLatency = 16,
    EvtChannelPublishingConfigClockType = 17,
    EvtChannelPublishingConfigSidType = 18,
    EvtChannelPublisherList = 19,
    EvtChannelPublishingConfigFileMax = 20,
    EvtChannelConfigPropertyIdEND = 21
} EVT_CHANNEL_CONFIG_PROPERTY_ID;

/* EvtChannelConfigType. */
typedef enum _EVT_CHANNEL_TYPE {
    EvtChannelTypeAdmin = 0,
    EvtChannelTypeOperational = 1,
    EvtChannelTypeAnalytic = 2,
    EvtChannelTypeDebug = 3
} EVT_CHANNEL_TYPE;

/* EvtChannelConfigIsolation. */
typedef enum _EVT_CHANNEL_ISOLATION_TYPE {
    EvtChannelIsolationTypeApplication = 0,
    EvtChannelIsolationTypeSystem = 1,
    EvtChannelIsolationTypeCustom = 2
} EVT_CHANNEL_ISOLATION_TYPE;

/* EvtChannelPublishingConfigClockType. */
typedef enum _EVT_CHANNEL_CLOCK_TYPE {
    EvtChannelClockTypeSystemTime = 0,
    EvtChannelClockTypeQPC = 1
} EVT_CHANNEL_CLOCK_TYPE;

/* EvtChannelPublishingConfigSidType. */
typedef enum _EVT_CHANNEL_SID_TYPE {
    EvtChannelSidTypeNone = 0,
    EvtChannelSidTypePublishing = 1
} EVT_CHANNEL_SID_TYPE;

/* EvtPublisherMetadataChannelReferenceFlags. */
typedef enum _EVT_CHANNEL_REFERENCE_FLAGS {
    EvtChannelReferenceImported = 1
} EVT_CHANNEL_REFERENCE_FLAGS;

/* EvtGetPublisherMetadataProperty and EvtGetObjectArrayProperty. */
typedef enum _EVT_PUBLISHER_METADATA_PROPERTY_ID {
    EvtPublisherMetadataPublisherGuid = 0,
    EvtPublisherMetadataResourceFilePath = 1,
    EvtPublisherMetadataParameterFilePath = 2,
    EvtPublisherMetadataMessageFilePath = 3,
    EvtPublisherMetadataHelpLink = 4,
    EvtPublisherMetadataPublisherMessageID = 5,
    EvtPublisherMetadataChannelReferences = 6,
    EvtPublisherMetadataChannelReferencePath = 7,
    EvtPublisherMetadataChannelReferenceIndex = 8,
    EvtPublisherMetadataChannelReferenceID = 9,
    EvtPublisherMetadataChannelReferenceFlags = 10,
    EvtPublisherMetadataChannelReferenceMessageID = 11,
    EvtPublisherMetadataLevels = 12,
    EvtPublisherMetadataLevelName = 13,
    EvtPublisherMetadataLevelValue = 14,
    EvtPublisherMetadataLevelMessageID = 15,
    EvtPublisherMetadataTasks = 16,
    EvtPublisherMetadataTaskName = 17,
    EvtPublisherMetadataTaskEventGuid = 18,
    EvtPublisherMetadataTaskValue = 19,
    EvtPublisherMetadataTaskMessageID = 20,
    EvtPublisherMetadataOpcodes = 21,
    EvtPublisherMetadataOpcodeName = 22,
    EvtPublisherMetadataOpcodeValue = 23,
    EvtPublisherMetadataOpcodeMessageID = 24,
    EvtPublisherMetadataKeywords = 25,
    EvtPublisherMetadataKeywordName = 26,
    EvtPublisherMetadataKeywordValue = 27,
    EvtPublisherMetadataKeywordMessageID = 28,
    EvtPublisherMetadataPropertyIdEND = 29
} EVT_PUBLISHER_METADATA_PROPERTY_ID;

/* EvtGetEventMetadataProperty. */
typedef enum _EVT_EVENT_METADATA_PROPERTY_ID {
    EventMetadataEventID = 0,
    EventMetadataEventVersion = 1,
    EventMetadataEventChannel = 2,
    EventMetadataEventLevel = 3,
    EventMetadataEventOpcode = 4,
    EventMetadataEventTask = 5,
    EventMetadataEventKeyword = 6,
    EventMetadataEventMessageID = 7,
    EventMetadataEventTemplate = 8,
    EvtEventMetadataPropertyIdEND = 9
} EVT_EVENT_METADATA_PROPERTY_ID;

/* EvtGetQueryInfo. */
typedef enum _EVT_QUERY_PROPERTY_ID {
    EvtQueryNames = 0,
    EvtQueryStatuses = 1,
    EvtQueryPropertyIdEND = 2
} EVT_QUERY_PROPERTY_ID;

/* EvtGetEventInfo. */
typedef enum _EVT_EVENT_PROPERTY_ID {
    EvtEventQueryIDs = 0,
    EvtEventPath = 1,
    EvtEventPropertyIdEND = 2
} EVT_EVENT_PROPERTY_ID;

typedef struct _EVT_RPC_LOGIN {
    LPWSTR Server;
    LPWSTR User;
    LPWSTR Domain;
    LPWSTR Password;
    DWORD Flags;
} EVT_RPC_LOGIN;

/* Receives the events of a subscription, on a thread of the library. The handle of the event is closed when it returns. With
 * EvtSubscribeActionError, the handle is the error code. */
typedef DWORD(WINAPI *EVT_SUBSCRIBE_CALLBACK)(EVT_SUBSCRIBE_NOTIFY_ACTION Action, PVOID UserContext, EVT_HANDLE Event);

#ifdef __cplusplus
extern "C" {
#endif

EVT_HANDLE EvtOpenSession(EVT_LOGIN_CLASS LoginClass, PVOID Login, DWORD Timeout, DWORD Flags);
BOOL EvtClose(EVT_HANDLE Object);
/* Ends the wait of another thread in EvtNext of a subscription. */
BOOL EvtCancel(EVT_HANDLE Object);
/* Explains the last error of the calling thread. Returns a status; sizes are in characters. */
DWORD EvtGetExtendedStatus(DWORD BufferSize, LPWSTR Buffer, PDWORD BufferUsed);

/* Queries. Path may be NULL if Query is a query list, whose paths name channels or, after file://, files. */
EVT_HANDLE EvtQuery(EVT_HANDLE Session, LPCWSTR Path, LPCWSTR Query, DWORD Flags);
/* Returns up to EventArraySize events; FALSE and ERROR_NO_MORE_ITEMS at the end. */
BOOL EvtNext(EVT_HANDLE ResultSet, DWORD EventsSize, PEVT_HANDLE Events, DWORD Timeout, DWORD Flags, PDWORD Returned);
BOOL EvtSeek(EVT_HANDLE ResultSet, LONGLONG Position, EVT_HANDLE Bookmark, DWORD Timeout, DWORD Flags);
BOOL EvtGetQueryInfo(EVT_HANDLE QueryOrSubscription, EVT_QUERY_PROPERTY_ID PropertyId, DWORD PropertyValueBufferSize,
                     PEVT_VARIANT PropertyValueBuffer, PDWORD PropertyValueBufferUsed);

/* Bookmarks. */
EVT_HANDLE EvtCreateBookmark(LPCWSTR BookmarkXml);
BOOL EvtUpdateBookmark(EVT_HANDLE Bookmark, EVT_HANDLE Event);

/* Events. */
EVT_HANDLE EvtCreateRenderContext(DWORD ValuePathsCount, LPCWSTR *ValuePaths, DWORD Flags);
BOOL EvtRender(EVT_HANDLE Context, EVT_HANDLE Fragment, DWORD Flags, DWORD BufferSize, PVOID Buffer, PDWORD BufferUsed,
               PDWORD PropertyCount);
BOOL EvtFormatMessage(EVT_HANDLE PublisherMetadata, EVT_HANDLE Event, DWORD MessageId, DWORD ValueCount, PEVT_VARIANT Values,
                      DWORD Flags, DWORD BufferSize, LPWSTR Buffer, PDWORD BufferUsed);
BOOL EvtGetEventInfo(EVT_HANDLE Event, EVT_EVENT_PROPERTY_ID PropertyId, DWORD PropertyValueBufferSize,
                     PEVT_VARIANT PropertyValueBuffer, PDWORD PropertyValueBufferUsed);

/* Logs. */
EVT_HANDLE EvtOpenLog(EVT_HANDLE Session, LPCWSTR Path, DWORD Flags);
BOOL EvtGetLogInfo(EVT_HANDLE Log, EVT_LOG_PROPERTY_ID PropertyId, DWORD PropertyValueBufferSize, PEVT_VARIANT PropertyValueBuffer,
                   PDWORD PropertyValueBufferUsed);
BOOL EvtExportLog(EVT_HANDLE Session, LPCWSTR Path, LPCWSTR Query, LPCWSTR TargetFilePath, DWORD Flags);
BOOL EvtClearLog(EVT_HANDLE Session, LPCWSTR ChannelPath, LPCWSTR TargetFilePath, DWORD Flags);
BOOL EvtArchiveExportedLog(EVT_HANDLE Session, LPCWSTR LogFilePath, DWORD Locale, DWORD Flags);

/* Channels: those of installed manifests, with System and Application. The settings that a channel's own session has on Windows (buffers,
 * latency, clock, SIDs) are defaults here, and cannot be set: 50. EvtSaveChannelConfig takes effect at once. */
EVT_HANDLE EvtOpenChannelEnum(EVT_HANDLE Session, DWORD Flags);
BOOL EvtNextChannelPath(EVT_HANDLE ChannelEnum, DWORD ChannelPathBufferSize, LPWSTR ChannelPathBuffer, PDWORD ChannelPathBufferUsed);
EVT_HANDLE EvtOpenChannelConfig(EVT_HANDLE Session, LPCWSTR ChannelPath, DWORD Flags);
BOOL EvtGetChannelConfigProperty(EVT_HANDLE ChannelConfig, EVT_CHANNEL_CONFIG_PROPERTY_ID PropertyId, DWORD Flags,
                                 DWORD PropertyValueBufferSize, PEVT_VARIANT PropertyValueBuffer, PDWORD PropertyValueBufferUsed);
BOOL EvtSetChannelConfigProperty(EVT_HANDLE ChannelConfig, EVT_CHANNEL_CONFIG_PROPERTY_ID PropertyId, DWORD Flags,
                                 PEVT_VARIANT PropertyValue);
BOOL EvtSaveChannelConfig(EVT_HANDLE ChannelConfig, DWORD Flags);

/* Publishers: the providers of manifests. */
EVT_HANDLE EvtOpenPublisherEnum(EVT_HANDLE Session, DWORD Flags);
BOOL EvtNextPublisherId(EVT_HANDLE PublisherEnum, DWORD PublisherIdBufferSize, LPWSTR PublisherIdBuffer, PDWORD PublisherIdBufferUsed);
EVT_HANDLE EvtOpenPublisherMetadata(EVT_HANDLE Session, LPCWSTR PublisherId, LPCWSTR LogFilePath, DWORD Locale, DWORD Flags);
BOOL EvtGetPublisherMetadataProperty(EVT_HANDLE PublisherMetadata, EVT_PUBLISHER_METADATA_PROPERTY_ID PropertyId, DWORD Flags,
                                     DWORD PublisherMetadataPropertyBufferSize, PEVT_VARIANT PublisherMetadataPropertyBuffer,
                                     PDWORD PublisherMetadataPropertyBufferUsed);
EVT_HANDLE EvtOpenEventMetadataEnum(EVT_HANDLE PublisherMetadata, DWORD Flags);
EVT_HANDLE EvtNextEventMetadata(EVT_HANDLE EventMetadataEnum, DWORD Flags);
BOOL EvtGetEventMetadataProperty(EVT_HANDLE EventMetadata, EVT_EVENT_METADATA_PROPERTY_ID PropertyId, DWORD Flags,
                                 DWORD EventMetadataPropertyBufferSize, PEVT_VARIANT EventMetadataPropertyBuffer,
                                 PDWORD EventMetadataPropertyBufferUsed);
BOOL EvtGetObjectArraySize(EVT_OBJECT_ARRAY_PROPERTY_HANDLE ObjectArray, PDWORD ObjectArraySize);
BOOL EvtGetObjectArrayProperty(EVT_OBJECT_ARRAY_PROPERTY_HANDLE ObjectArray, DWORD PropertyId, DWORD ArrayIndex, DWORD Flags,
                               DWORD PropertyValueBufferSize, PEVT_VARIANT PropertyValueBuffer, PDWORD PropertyValueBufferUsed);

/* The library's part of EvtSubscribe: `set` makes `signal` signalled. */
EVT_HANDLE etw_evt_subscribe(EVT_HANDLE session, HANDLE signal, BOOL (*set)(HANDLE), LPCWSTR channel, LPCWSTR query,
                             EVT_HANDLE bookmark, PVOID context, EVT_SUBSCRIBE_CALLBACK callback, DWORD flags);

/* Subscribes to new events: push with Callback; pull with SignalEvent, which is set when EvtNext has events. ChannelPath is a channel, or
 * file:// and a path. Event objects are those of windows.h, to be included first. */
static inline EVT_HANDLE EvtSubscribe(EVT_HANDLE Session, HANDLE SignalEvent, LPCWSTR ChannelPath, LPCWSTR Query, EVT_HANDLE Bookmark,
                                      PVOID Context, EVT_SUBSCRIBE_CALLBACK Callback, DWORD Flags)
{
#ifdef ETW_WINDOWS_THREADS_H
    BOOL (*set)(HANDLE) = SetEvent;
#else
    BOOL (*set)(HANDLE) = NULL;
#endif
    return etw_evt_subscribe(Session, SignalEvent, set, ChannelPath, Query, Bookmark, Context, Callback, Flags);
}

#ifdef __cplusplus
}
#endif

#endif
