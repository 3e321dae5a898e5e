/*
 * The trace data helper: names and values of events. For systems other than Windows; link with -letw.
 *
 * Part of openetw. Written to Microsoft's documentation; names, layouts and statuses are theirs.
 *
 * Texts are UTF-16; names and paths in arguments may also be wchar_t. A trace can contain schemas of its own events (TRACE_EVENT_INFO,
 * manifests of EventSources). They are available in the callbacks of the ProcessTrace that reads the trace, on its thread.
 *
 * Not supported (ERROR_NOT_SUPPORTED): TdhEnumerateProviderFilters; payload filters of a field that follows a field whose length another
 * field contains.
 */
#ifndef __TDH_H__
#define __TDH_H__

#include "etw_base.h"
#include "evntcons.h"
#include "evntprov.h"

typedef ULONG TDHSTATUS;
typedef HANDLE TDH_HANDLE, *PTDH_HANDLE;

/* In-types: the stored form of a value. */
enum _TDH_IN_TYPE {
    TDH_INTYPE_NULL = 0,
    TDH_INTYPE_UNICODESTRING = 1,
    TDH_INTYPE_ANSISTRING = 2,
    TDH_INTYPE_INT8 = 3,
    TDH_INTYPE_UINT8 = 4,
    TDH_INTYPE_INT16 = 5,
    TDH_INTYPE_UINT16 = 6,
    TDH_INTYPE_INT32 = 7,
    TDH_INTYPE_UINT32 = 8,
    TDH_INTYPE_INT64 = 9,
    TDH_INTYPE_UINT64 = 10,
    TDH_INTYPE_FLOAT = 11,
    TDH_INTYPE_DOUBLE = 12,
    TDH_INTYPE_BOOLEAN = 13,
    TDH_INTYPE_BINARY = 14,
    TDH_INTYPE_GUID = 15,
    TDH_INTYPE_POINTER = 16,
    TDH_INTYPE_FILETIME = 17,
    TDH_INTYPE_SYSTEMTIME = 18,
    TDH_INTYPE_SID = 19,
    TDH_INTYPE_HEXINT32 = 20,
    TDH_INTYPE_HEXINT64 = 21,
    TDH_INTYPE_MANIFEST_COUNTEDSTRING = 22,
    TDH_INTYPE_MANIFEST_COUNTEDANSISTRING = 23,
    TDH_INTYPE_RESERVED24 = 24,
    TDH_INTYPE_MANIFEST_COUNTEDBINARY = 25,
    TDH_INTYPE_COUNTEDSTRING = 300,
    TDH_INTYPE_COUNTEDANSISTRING = 301,
    TDH_INTYPE_REVERSEDCOUNTEDSTRING = 302,
    TDH_INTYPE_REVERSEDCOUNTEDANSISTRING = 303,
    TDH_INTYPE_NONNULLTERMINATEDSTRING = 304,
    TDH_INTYPE_NONNULLTERMINATEDANSISTRING = 305,
    TDH_INTYPE_UNICODECHAR = 306,
    TDH_INTYPE_ANSICHAR = 307,
    TDH_INTYPE_SIZET = 308,
    TDH_INTYPE_HEXDUMP = 309,
    TDH_INTYPE_WBEMSID = 310
};

/* Out-types: the shown form of a value. */
enum _TDH_OUT_TYPE {
    TDH_OUTTYPE_NULL = 0,
    TDH_OUTTYPE_STRING = 1,
    TDH_OUTTYPE_DATETIME = 2,
    TDH_OUTTYPE_BYTE = 3,
    TDH_OUTTYPE_UNSIGNEDBYTE = 4,
    TDH_OUTTYPE_SHORT = 5,
    TDH_OUTTYPE_UNSIGNEDSHORT = 6,
    TDH_OUTTYPE_INT = 7,
    TDH_OUTTYPE_UNSIGNEDINT = 8,
    TDH_OUTTYPE_LONG = 9,
    TDH_OUTTYPE_UNSIGNEDLONG = 10,
    TDH_OUTTYPE_FLOAT = 11,
    TDH_OUTTYPE_DOUBLE = 12,
    TDH_OUTTYPE_BOOLEAN = 13,
    TDH_OUTTYPE_GUID = 14,
    TDH_OUTTYPE_HEXBINARY = 15,
    TDH_OUTTYPE_HEXINT8 = 16,
    TDH_OUTTYPE_HEXINT16 = 17,
    TDH_OUTTYPE_HEXINT32 = 18,
    TDH_OUTTYPE_HEXINT64 = 19,
    TDH_OUTTYPE_PID = 20,
    TDH_OUTTYPE_TID = 21,
    TDH_OUTTYPE_PORT = 22,
    TDH_OUTTYPE_IPV4 = 23,
    TDH_OUTTYPE_IPV6 = 24,
    TDH_OUTTYPE_SOCKETADDRESS = 25,
    TDH_OUTTYPE_CIMDATETIME = 26,
    TDH_OUTTYPE_ETWTIME = 27,
    TDH_OUTTYPE_XML = 28,
    TDH_OUTTYPE_ERRORCODE = 29,
    TDH_OUTTYPE_WIN32ERROR = 30,
    TDH_OUTTYPE_NTSTATUS = 31,
    TDH_OUTTYPE_HRESULT = 32,
    TDH_OUTTYPE_CULTURE_INSENSITIVE_DATETIME = 33,
    TDH_OUTTYPE_JSON = 34,
    TDH_OUTTYPE_UTF8 = 35,
    TDH_OUTTYPE_PKCS7_WITH_TYPE_INFO = 36,
    TDH_OUTTYPE_CODE_POINTER = 37,
    TDH_OUTTYPE_DATETIME_UTC = 38,
    TDH_OUTTYPE_REDUCEDSTRING = 300,
    TDH_OUTTYPE_NOPRINT = 301
};

typedef enum _PROPERTY_FLAGS {
    PropertyStruct = 0x1,
    PropertyParamLength = 0x2,
    PropertyParamCount = 0x4,
    PropertyWBEMXmlFragment = 0x8,
    PropertyParamFixedLength = 0x10,
    PropertyParamFixedCount = 0x20,
    PropertyHasTags = 0x40,
    PropertyHasCustomSchema = 0x80
} PROPERTY_FLAGS;

typedef enum _MAP_FLAGS {
    EVENTMAP_INFO_FLAG_MANIFEST_VALUEMAP = 0x1,
    EVENTMAP_INFO_FLAG_MANIFEST_BITMAP = 0x2,
    EVENTMAP_INFO_FLAG_MANIFEST_PATTERNMAP = 0x4,
    EVENTMAP_INFO_FLAG_WBEM_VALUEMAP = 0x8,
    EVENTMAP_INFO_FLAG_WBEM_BITMAP = 0x10,
    EVENTMAP_INFO_FLAG_WBEM_FLAG = 0x20,
    EVENTMAP_INFO_FLAG_WBEM_NO_MAP = 0x40
} MAP_FLAGS;

typedef enum _MAP_VALUETYPE {
    EVENTMAP_ENTRY_VALUETYPE_ULONG = 0,
    EVENTMAP_ENTRY_VALUETYPE_STRING = 1
} MAP_VALUETYPE;

typedef enum _DECODING_SOURCE {
    DecodingSourceXMLFile = 0,
    DecodingSourceWbem = 1,
    DecodingSourceWPP = 2,
    DecodingSourceTlg = 3,
    DecodingSourceMax = 4
} DECODING_SOURCE;

typedef enum _TEMPLATE_FLAGS {
    TEMPLATE_EVENT_DATA = 1,
    TEMPLATE_USER_DATA = 2,
    TEMPLATE_CONTROL_GUID = 4
} TEMPLATE_FLAGS;

typedef enum _EVENT_FIELD_TYPE {
    EventKeywordInformation = 0,
    EventLevelInformation = 1,
    EventChannelInformation = 2,
    EventTaskInformation = 3,
    EventOpcodeInformation = 4,
    EventInformationMax = 5
} EVENT_FIELD_TYPE;

typedef enum _TDH_CONTEXT_TYPE {
    TDH_CONTEXT_WPP_TMFFILE = 0,
    TDH_CONTEXT_WPP_TMFSEARCHPATH = 1,
    TDH_CONTEXT_WPP_GMT = 2,
    TDH_CONTEXT_POINTERSIZE = 3,
    TDH_CONTEXT_PDB_PATH = 4,
    TDH_CONTEXT_MAXIMUM = 5
} TDH_CONTEXT_TYPE;

typedef enum _PAYLOAD_OPERATOR {
    PAYLOADFIELD_EQ = 0,
    PAYLOADFIELD_NE = 1,
    PAYLOADFIELD_LE = 2,
    PAYLOADFIELD_GT = 3,
    PAYLOADFIELD_LT = 4,
    PAYLOADFIELD_GE = 5,
    PAYLOADFIELD_BETWEEN = 6,
    PAYLOADFIELD_NOTBETWEEN = 7,
    PAYLOADFIELD_MODULO = 8,
    PAYLOADFIELD_CONTAINS = 20,
    PAYLOADFIELD_DOESNTCONTAIN = 21,
    PAYLOADFIELD_IS = 30,
    PAYLOADFIELD_ISNOT = 31,
    PAYLOADFIELD_INVALID = 32
} PAYLOAD_OPERATOR;

#define MAX_PAYLOAD_PREDICATES 8
#define ETW_MAX_PAYLOAD_PREDICATES MAX_PAYLOAD_PREDICATES

typedef struct _PROPERTY_DATA_DESCRIPTOR {
    ULONGLONG PropertyName; /* Address of a WCHAR text */
    ULONG ArrayIndex;       /* ULONG_MAX: the whole array */
    ULONG Reserved;
} PROPERTY_DATA_DESCRIPTOR, *PPROPERTY_DATA_DESCRIPTOR;

typedef struct _TDH_CONTEXT {
    ULONGLONG ParameterValue;
    TDH_CONTEXT_TYPE ParameterType;
    ULONG ParameterSize;
} TDH_CONTEXT, *PTDH_CONTEXT;

typedef struct _PAYLOAD_FILTER_PREDICATE {
    LPWSTR FieldName;
    USHORT CompareOp;
    LPWSTR Value;
} PAYLOAD_FILTER_PREDICATE, *PPAYLOAD_FILTER_PREDICATE;

/* Offsets here and below count from the start of the structure that TDH filled. An offset of 0 means that the text is absent. */
typedef struct _EVENT_MAP_ENTRY {
    ULONG OutputOffset;
    __extension__ union {
        ULONG Value;
        ULONG InputOffset;
    };
} EVENT_MAP_ENTRY, *PEVENT_MAP_ENTRY;

typedef struct _EVENT_MAP_INFO {
    ULONG NameOffset;
    MAP_FLAGS Flag;
    ULONG EntryCount;
    __extension__ union {
        MAP_VALUETYPE MapEntryValueType;
        ULONG FormatStringOffset;
    };
    EVENT_MAP_ENTRY MapEntryArray[1];
} EVENT_MAP_INFO, *PEVENT_MAP_INFO;

typedef struct _EVENT_PROPERTY_INFO {
    PROPERTY_FLAGS Flags;
    ULONG NameOffset;
    __extension__ union {
        struct {
            USHORT InType;
            USHORT OutType;
            ULONG MapNameOffset;
        } nonStructType;
        struct {
            USHORT StructStartIndex;
            USHORT NumOfStructMembers;
            ULONG padding;
        } structType;
        struct {
            USHORT InType;
            USHORT OutType;
            ULONG CustomSchemaOffset; /* Of USHORT protocol, USHORT size, bytes */
        } customSchemaType;
    };
    __extension__ union {
        USHORT count;
        USHORT countPropertyIndex; /* PropertyParamCount */
    };
    __extension__ union {
        USHORT length;
        USHORT lengthPropertyIndex; /* PropertyParamLength */
    };
    __extension__ union {
        ULONG Reserved;
        __extension__ struct {
            ULONG Tags : 28;
        };
    };
} EVENT_PROPERTY_INFO, *PEVENT_PROPERTY_INFO;

typedef struct _TRACE_EVENT_INFO {
    GUID ProviderGuid;
    GUID EventGuid;
    EVENT_DESCRIPTOR EventDescriptor;
    DECODING_SOURCE DecodingSource;
    ULONG ProviderNameOffset;
    ULONG LevelNameOffset;
    ULONG ChannelNameOffset;
    ULONG KeywordsNameOffset; /* Texts with a NUL each, and a NUL behind the last */
    ULONG TaskNameOffset;
    ULONG OpcodeNameOffset;
    ULONG EventMessageOffset;
    ULONG ProviderMessageOffset;
    ULONG BinaryXMLOffset;
    ULONG BinaryXMLSize;
    __extension__ union {
        ULONG EventNameOffset;
        ULONG ActivityIDNameOffset;
    };
    __extension__ union {
        ULONG EventAttributesOffset;
        ULONG RelatedActivityIDNameOffset;
    };
    ULONG PropertyCount;
    ULONG TopLevelPropertyCount;
    __extension__ union {
        TEMPLATE_FLAGS Flags;
        __extension__ struct {
            ULONG Reserved : 4;
            ULONG Tags : 28;
        };
    };
    EVENT_PROPERTY_INFO EventPropertyInfoArray[1];
} TRACE_EVENT_INFO, *PTRACE_EVENT_INFO;

typedef struct _TRACE_PROVIDER_INFO {
    GUID ProviderGuid;
    ULONG SchemaSource; /* 0: a manifest, 1: a MOF class */
    ULONG ProviderNameOffset;
} TRACE_PROVIDER_INFO;

typedef struct _PROVIDER_ENUMERATION_INFO {
    ULONG NumberOfProviders;
    ULONG Reserved;
    TRACE_PROVIDER_INFO TraceProviderInfoArray[1];
} PROVIDER_ENUMERATION_INFO, *PPROVIDER_ENUMERATION_INFO;

typedef struct _PROVIDER_FIELD_INFO {
    ULONG NameOffset;
    ULONG DescriptionOffset;
    ULONGLONG Value;
} PROVIDER_FIELD_INFO;

typedef struct _PROVIDER_FIELD_INFOARRAY {
    ULONG NumberOfElements;
    EVENT_FIELD_TYPE FieldType;
    PROVIDER_FIELD_INFO FieldInfoArray[1];
} PROVIDER_FIELD_INFOARRAY, *PPROVIDER_FIELD_INFOARRAY;

typedef struct _PROVIDER_FILTER_INFO {
    UCHAR Id;
    UCHAR Version;
    ULONG MessageOffset;
    ULONG Reserved;
    ULONG PropertyCount;
    EVENT_PROPERTY_INFO EventPropertyInfoArray[1];
} PROVIDER_FILTER_INFO, *PPROVIDER_FILTER_INFO;

typedef struct _PROVIDER_EVENT_INFO {
    ULONG NumberOfEvents;
    ULONG Reserved;
    EVENT_DESCRIPTOR EventDescriptorsArray[1];
} PROVIDER_EVENT_INFO, *PPROVIDER_EVENT_INFO;

#define EMI_MAP_NAME(MapInfo) ((PWSTR)((PBYTE)(MapInfo) + (MapInfo)->NameOffset))
#define EMI_MAP_OUTPUT(MapInfo, Map) ((PWSTR)((PBYTE)(MapInfo) + (Map)->OutputOffset))
#define EMI_MAP_INPUT(MapInfo, Map) ((PWSTR)((PBYTE)(MapInfo) + (Map)->InputOffset))
#define ETW_TEI_TEXT(EventInfo, Offset) \
    ((Offset) == 0 ? (PWSTR)0 : (PWSTR)(void *)((PBYTE)(EventInfo) + (Offset)))
#define TEI_PROVIDER_NAME(EventInfo) ETW_TEI_TEXT(EventInfo, (EventInfo)->ProviderNameOffset)
#define TEI_LEVEL_NAME(EventInfo) ETW_TEI_TEXT(EventInfo, (EventInfo)->LevelNameOffset)
#define TEI_CHANNEL_NAME(EventInfo) ETW_TEI_TEXT(EventInfo, (EventInfo)->ChannelNameOffset)
#define TEI_KEYWORDS_NAME(EventInfo) ETW_TEI_TEXT(EventInfo, (EventInfo)->KeywordsNameOffset)
#define TEI_TASK_NAME(EventInfo) ETW_TEI_TEXT(EventInfo, (EventInfo)->TaskNameOffset)
#define TEI_OPCODE_NAME(EventInfo) ETW_TEI_TEXT(EventInfo, (EventInfo)->OpcodeNameOffset)
#define TEI_EVENT_MESSAGE(EventInfo) ETW_TEI_TEXT(EventInfo, (EventInfo)->EventMessageOffset)
#define TEI_PROVIDER_MESSAGE(EventInfo) ETW_TEI_TEXT(EventInfo, (EventInfo)->ProviderMessageOffset)
#define TEI_EVENT_NAME(EventInfo) ETW_TEI_TEXT(EventInfo, (EventInfo)->EventNameOffset)
#define TEI_PROPERTY_NAME(EventInfo, Property) ETW_TEI_TEXT(EventInfo, (Property)->NameOffset)
#define TEI_MAP_NAME(EventInfo, Property) \
    ETW_TEI_TEXT(EventInfo, (Property)->nonStructType.MapNameOffset)
#define TEI_ACTIVITYID_NAME(EventInfo) ETW_TEI_TEXT(EventInfo, (EventInfo)->ActivityIDNameOffset)
#define TEI_RELATEDACTIVITYID_NAME(EventInfo) \
    ETW_TEI_TEXT(EventInfo, (EventInfo)->RelatedActivityIDNameOffset)
#define EMI_MAP_FORMAT(MapInfo) ETW_TEI_TEXT(MapInfo, (MapInfo)->FormatStringOffset)
#define PEI_PROVIDER_NAME(ProviderEnum, ProviderInfo) \
    ETW_TEI_TEXT(ProviderEnum, (ProviderInfo)->ProviderNameOffset)
#define PFI_FIELD_NAME(FieldInfoArray, FieldInfo) \
    ETW_TEI_TEXT(FieldInfoArray, (FieldInfo)->NameOffset)
#define PFI_FIELD_MESSAGE(FieldInfoArray, FieldInfo) \
    ETW_TEI_TEXT(FieldInfoArray, (FieldInfo)->DescriptionOffset)
#define PFI_FILTER_MESSAGE(FilterInfo) ETW_TEI_TEXT(FilterInfo, (FilterInfo)->MessageOffset)
#define PFI_PROPERTY_NAME(FilterInfo, Property) ETW_TEI_TEXT(FilterInfo, (Property)->NameOffset)

#ifdef __cplusplus
extern "C" {
#endif

/* Gets the schema of an event. If the buffer is too small, returns ERROR_INSUFFICIENT_BUFFER and the size; without a schema, ERROR_NOT_FOUND. */
TDHSTATUS TdhGetEventInformation(PEVENT_RECORD Event, ULONG TdhContextCount,
                                 PTDH_CONTEXT TdhContext, PTRACE_EVENT_INFO Buffer,
                                 PULONG BufferSize);
TDHSTATUS TdhGetEventMapInformation(PEVENT_RECORD pEvent, LPWSTR pMapName, PEVENT_MAP_INFO pBuffer,
                                    ULONG *pBufferSize);
/* Get a property's bytes by name. A member of a struct has two descriptors: the struct, then the member. */
TDHSTATUS TdhGetPropertySize(PEVENT_RECORD pEvent, ULONG TdhContextCount,
                             PTDH_CONTEXT pTdhContext, ULONG PropertyDataCount,
                             PPROPERTY_DATA_DESCRIPTOR pPropertyData, ULONG *pPropertySize);
TDHSTATUS TdhGetProperty(PEVENT_RECORD pEvent, ULONG TdhContextCount, PTDH_CONTEXT pTdhContext,
                         ULONG PropertyDataCount, PPROPERTY_DATA_DESCRIPTOR pPropertyData,
                         ULONG BufferSize, PBYTE pBuffer);
/* Formats the value at the front of UserData, and returns the size of the value. */
TDHSTATUS TdhFormatProperty(PTRACE_EVENT_INFO EventInfo, PEVENT_MAP_INFO MapInfo,
                            ULONG PointerSize, USHORT PropertyInType, USHORT PropertyOutType,
                            USHORT PropertyLength, USHORT UserDataLength, PBYTE UserData,
                            PULONG BufferSize, PWCHAR Buffer, PUSHORT UserDataConsumed);

/* Load schemas for this process, from manifests and from programs that contain them. */
TDHSTATUS TdhLoadManifest(LPWSTR Manifest);
TDHSTATUS TdhLoadManifestFromBinary(LPWSTR BinaryPath);
TDHSTATUS TdhLoadManifestFromMemory(const void *pData, ULONG cbData);
TDHSTATUS TdhUnloadManifest(LPWSTR Manifest);
TDHSTATUS TdhUnloadManifestFromMemory(const void *pData, ULONG cbData);
TDHSTATUS TdhEnumerateProviders(PPROVIDER_ENUMERATION_INFO pBuffer, ULONG *pBufferSize);
TDHSTATUS TdhEnumerateProvidersForDecodingSource(DECODING_SOURCE Filter,
                                                 PPROVIDER_ENUMERATION_INFO Buffer,
                                                 ULONG BufferSize, ULONG *BufferRequired);
TDHSTATUS TdhEnumerateProviderFieldInformation(LPGUID pGuid, EVENT_FIELD_TYPE EventFieldType,
                                               PPROVIDER_FIELD_INFOARRAY pBuffer,
                                               ULONG *pBufferSize);
TDHSTATUS TdhQueryProviderFieldInformation(LPGUID pGuid, ULONGLONG EventFieldValue,
                                           EVENT_FIELD_TYPE EventFieldType,
                                           PPROVIDER_FIELD_INFOARRAY pBuffer, ULONG *pBufferSize);
TDHSTATUS TdhGetManifestEventInformation(LPGUID ProviderGuid, PEVENT_DESCRIPTOR EventDescriptor,
                                         PTRACE_EVENT_INFO Buffer, ULONG *BufferSize);
TDHSTATUS TdhEnumerateManifestProviderEvents(LPGUID ProviderGuid, PPROVIDER_EVENT_INFO Buffer,
                                             ULONG *BufferSize);
TDHSTATUS TdhEnumerateProviderFilters(LPGUID Guid, ULONG TdhContextCount, PTDH_CONTEXT TdhContext,
                                      ULONG *FilterCount, PPROVIDER_FILTER_INFO *Buffer,
                                      ULONG *BufferSize);

/* Decoding handles keep the settings of TDH_CONTEXTs for many events. */
TDHSTATUS TdhOpenDecodingHandle(PTDH_HANDLE Handle);
TDHSTATUS TdhSetDecodingParameter(TDH_HANDLE Handle, PTDH_CONTEXT TdhContext);
TDHSTATUS TdhGetDecodingParameter(TDH_HANDLE Handle, PTDH_CONTEXT TdhContext);
TDHSTATUS TdhGetWppProperty(TDH_HANDLE Handle, PEVENT_RECORD EventRecord, PWSTR PropertyName,
                            PULONG BufferSize, PBYTE Buffer);
TDHSTATUS TdhGetWppMessage(TDH_HANDLE Handle, PEVENT_RECORD EventRecord, PULONG BufferSize,
                           PBYTE Buffer);
TDHSTATUS TdhCloseDecodingHandle(TDH_HANDLE Handle);

TDHSTATUS TdhCreatePayloadFilter(LPCGUID ProviderGuid, PCEVENT_DESCRIPTOR EventDescriptor,
                                 BOOLEAN EventMatchANY, ULONG PayloadPredicateCount,
                                 PPAYLOAD_FILTER_PREDICATE PayloadPredicates,
                                 PVOID *PayloadFilter);
TDHSTATUS TdhDeletePayloadFilter(PVOID *PayloadFilter);
TDHSTATUS TdhAggregatePayloadFilters(ULONG PayloadFilterCount, PVOID *PayloadFilterPtrs,
                                     PBOOLEAN EventMatchALLFlags,
                                     PEVENT_FILTER_DESCRIPTOR EventFilterDescriptor);
TDHSTATUS TdhCleanupPayloadEventFilterDescriptor(PEVENT_FILTER_DESCRIPTOR EventFilterDescriptor);

/* The same calls with names and paths of a 32-bit wchar_t. */
TDHSTATUS etw_tdh_map_wide(PEVENT_RECORD Event, const wchar_t *MapName, PEVENT_MAP_INFO Buffer,
                           ULONG *BufferSize);
TDHSTATUS etw_tdh_load_wide(const wchar_t *Manifest);
TDHSTATUS etw_tdh_load_binary_wide(const wchar_t *BinaryPath);
TDHSTATUS etw_tdh_unload_wide(const wchar_t *Manifest);
TDHSTATUS etw_tdh_wpp_property_wide(TDH_HANDLE Handle, PEVENT_RECORD EventRecord,
                                    const wchar_t *PropertyName, PULONG BufferSize, PBYTE Buffer);

#ifdef __cplusplus
}
extern "C++" {
template <typename Unit>
inline typename etw_wide<Unit>::status
TdhGetEventMapInformation(PEVENT_RECORD pEvent, const Unit *pMapName, PEVENT_MAP_INFO pBuffer,
                          ULONG *pBufferSize)
{
    return sizeof(Unit) == 2 ? TdhGetEventMapInformation(pEvent, (LPWSTR)(uintptr_t)pMapName,
                                                         pBuffer, pBufferSize)
                             : etw_tdh_map_wide(pEvent, pMapName, pBuffer, pBufferSize);
}
template <typename Unit>
inline typename etw_wide<Unit>::status TdhLoadManifest(const Unit *Manifest)
{
    return sizeof(Unit) == 2 ? TdhLoadManifest((LPWSTR)(uintptr_t)Manifest)
                             : etw_tdh_load_wide(Manifest);
}
template <typename Unit>
inline typename etw_wide<Unit>::status TdhLoadManifestFromBinary(const Unit *BinaryPath)
{
    return sizeof(Unit) == 2 ? TdhLoadManifestFromBinary((LPWSTR)(uintptr_t)BinaryPath)
                             : etw_tdh_load_binary_wide(BinaryPath);
}
template <typename Unit>
inline typename etw_wide<Unit>::status TdhUnloadManifest(const Unit *Manifest)
{
    return sizeof(Unit) == 2 ? TdhUnloadManifest((LPWSTR)(uintptr_t)Manifest)
                             : etw_tdh_unload_wide(Manifest);
}
template <typename Unit>
inline typename etw_wide<Unit>::status
TdhGetWppProperty(TDH_HANDLE Handle, PEVENT_RECORD EventRecord, const Unit *PropertyName,
                  PULONG BufferSize, PBYTE Buffer)
{
    return sizeof(Unit) == 2
               ? TdhGetWppProperty(Handle, EventRecord, (PWSTR)(uintptr_t)PropertyName, BufferSize,
                                   Buffer)
               : etw_tdh_wpp_property_wide(Handle, EventRecord, PropertyName, BufferSize, Buffer);
}
}
#elif __SIZEOF_WCHAR_T__ == 4
#define TdhGetEventMapInformation(pEvent, pMapName, pBuffer, pBufferSize)  \
    ETW_BY_NAME(pMapName, TdhGetEventMapInformation, etw_tdh_map_wide)(    \
        pEvent, pMapName, pBuffer, pBufferSize)
#define TdhLoadManifest(Manifest) \
    ETW_BY_NAME(Manifest, TdhLoadManifest, etw_tdh_load_wide)(Manifest)
#define TdhLoadManifestFromBinary(BinaryPath) \
    ETW_BY_NAME(BinaryPath, TdhLoadManifestFromBinary, etw_tdh_load_binary_wide)(BinaryPath)
#define TdhUnloadManifest(Manifest) \
    ETW_BY_NAME(Manifest, TdhUnloadManifest, etw_tdh_unload_wide)(Manifest)
#define TdhGetWppProperty(Handle, EventRecord, PropertyName, BufferSize, Buffer) \
    ETW_BY_NAME(PropertyName, TdhGetWppProperty, etw_tdh_wpp_property_wide)(     \
        Handle, EventRecord, PropertyName, BufferSize, Buffer)
#endif

#endif
