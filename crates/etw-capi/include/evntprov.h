/*
 * Event providers: registration, and the write calls. For systems other than Windows; link with -letw.
 *
 * Part of openetw. Written to Microsoft's documentation; names, layouts and statuses are theirs.
 *
 * Not supported: EventAccessControl, EventAccessQuery, EventAccessRemove (ERROR_NOT_SUPPORTED).
 */
#ifndef _EVNTPROV_
#define _EVNTPROV_

#include "etw_base.h"

#define EVENT_MIN_LEVEL 0
#define EVENT_MAX_LEVEL 0xff
#define EVENT_ACTIVITY_CTRL_GET_ID 1
#define EVENT_ACTIVITY_CTRL_SET_ID 2
#define EVENT_ACTIVITY_CTRL_CREATE_ID 3
#define EVENT_ACTIVITY_CTRL_GET_SET_ID 4
#define EVENT_ACTIVITY_CTRL_CREATE_SET_ID 5

typedef ULONGLONG REGHANDLE, *PREGHANDLE;

#define MAX_EVENT_DATA_DESCRIPTORS 128
#define MAX_EVENT_FILTER_DATA_SIZE 1024
#define MAX_EVENT_FILTER_PAYLOAD_SIZE 4096
#define MAX_EVENT_FILTER_EVENT_NAME_SIZE 4096
#define MAX_EVENT_FILTERS_COUNT 13
#define MAX_EVENT_FILTER_PID_COUNT 8
#define MAX_EVENT_FILTER_EVENT_ID_COUNT 64

#define EVENT_FILTER_TYPE_NONE 0x00000000u
#define EVENT_FILTER_TYPE_SCHEMATIZED 0x80000000u
#define EVENT_FILTER_TYPE_SYSTEM_FLAGS 0x80000001u
#define EVENT_FILTER_TYPE_TRACEHANDLE 0x80000002u
#define EVENT_FILTER_TYPE_PID 0x80000004u
#define EVENT_FILTER_TYPE_EXECUTABLE_NAME 0x80000008u
#define EVENT_FILTER_TYPE_PACKAGE_ID 0x80000010u
#define EVENT_FILTER_TYPE_PACKAGE_APP_ID 0x80000020u
#define EVENT_FILTER_TYPE_PAYLOAD 0x80000100u
#define EVENT_FILTER_TYPE_EVENT_ID 0x80000200u
#define EVENT_FILTER_TYPE_EVENT_NAME 0x80000400u
#define EVENT_FILTER_TYPE_STACKWALK 0x80001000u
#define EVENT_FILTER_TYPE_STACKWALK_NAME 0x80002000u
#define EVENT_FILTER_TYPE_STACKWALK_LEVEL_KW 0x80004000u

#define EVENT_DATA_DESCRIPTOR_TYPE_NONE 0
#define EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA 1
#define EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA 2
#define EVENT_DATA_DESCRIPTOR_TYPE_TIMESTAMP_OVERRIDE 3

#define EVENT_WRITE_FLAG_NO_FAULTING 0x00000001
#define EVENT_WRITE_FLAG_INPRIVATE 0x00000002

#define EVENT_HEADER_PROPERTY_XML 0x0001
#define EVENT_HEADER_PROPERTY_FORWARDED_XML 0x0002
#define EVENT_HEADER_PROPERTY_LEGACY_EVENTLOG 0x0004
#define EVENT_HEADER_PROPERTY_RELOGGABLE 0x0008

typedef struct _EVENT_DATA_DESCRIPTOR {
    ULONGLONG Ptr; /* Address of the data */
    ULONG Size;    /* in bytes */
    __extension__ union {
        ULONG Reserved;
        __extension__ struct {
            UCHAR Type;
            UCHAR Reserved1;
            USHORT Reserved2;
        };
    };
} EVENT_DATA_DESCRIPTOR, *PEVENT_DATA_DESCRIPTOR;

typedef struct _EVENT_DESCRIPTOR {
    USHORT Id;
    UCHAR Version;
    UCHAR Channel;
    UCHAR Level;
    UCHAR Opcode;
    USHORT Task;
    ULONGLONG Keyword;
} EVENT_DESCRIPTOR, *PEVENT_DESCRIPTOR;
typedef const EVENT_DESCRIPTOR *PCEVENT_DESCRIPTOR;

typedef struct _EVENT_FILTER_DESCRIPTOR {
    ULONGLONG Ptr;
    ULONG Size;
    ULONG Type;
} EVENT_FILTER_DESCRIPTOR, *PEVENT_FILTER_DESCRIPTOR;

typedef struct _EVENT_FILTER_HEADER {
    USHORT Id;
    UCHAR Version;
    UCHAR Reserved[5];
    ULONGLONG InstanceId;
    ULONG Size;
    ULONG NextOffset;
} EVENT_FILTER_HEADER, *PEVENT_FILTER_HEADER;

typedef enum _EVENT_INFO_CLASS {
    EventProviderBinaryTrackInfo = 0,
    EventProviderSetReserved1 = 1,
    EventProviderSetTraits = 2,
    EventProviderUseDescriptorType = 3,
    MaxEventInfo = 4
} EVENT_INFO_CLASS;

typedef enum _ETW_PROVIDER_TRAIT_TYPE {
    EtwProviderTraitTypeGroup = 1,
    EtwProviderTraitDecodeGuid = 2,
    EtwProviderTraitTypeMax = 3
} ETW_PROVIDER_TRAIT_TYPE;

#ifndef EVENT_CONTROL_CODE_DISABLE_PROVIDER
#define EVENT_CONTROL_CODE_DISABLE_PROVIDER 0
#define EVENT_CONTROL_CODE_ENABLE_PROVIDER 1
#define EVENT_CONTROL_CODE_CAPTURE_STATE 2
#endif

/* The library calls it once for each change of the provider's enablements, on a thread of its own, of the controller, or of the registration. A
 * child made by fork is not told of the fork. */
typedef VOID(NTAPI *PENABLECALLBACK)(LPCGUID SourceId, ULONG IsEnabled, UCHAR Level,
                                     ULONGLONG MatchAnyKeyword, ULONGLONG MatchAllKeyword,
                                     PEVENT_FILTER_DESCRIPTOR FilterData, PVOID CallbackContext);

#ifdef __cplusplus
extern "C" {
#endif

ULONG EVNTAPI EventRegister(LPCGUID ProviderId, PENABLECALLBACK EnableCallback,
                            PVOID CallbackContext, PREGHANDLE RegHandle);
ULONG EVNTAPI EventUnregister(REGHANDLE RegHandle);
ULONG EVNTAPI EventSetInformation(REGHANDLE RegHandle, EVENT_INFO_CLASS InformationClass,
                                  PVOID EventInformation, ULONG InformationLength);
BOOLEAN EVNTAPI EventEnabled(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor);
BOOLEAN EVNTAPI EventProviderEnabled(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword);
ULONG EVNTAPI EventWrite(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor,
                         ULONG UserDataCount, PEVENT_DATA_DESCRIPTOR UserData);
ULONG EVNTAPI EventWriteTransfer(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor,
                                 LPCGUID ActivityId, LPCGUID RelatedActivityId,
                                 ULONG UserDataCount, PEVENT_DATA_DESCRIPTOR UserData);
/* Filter names sessions that do not get the event: bit 32 + n is this process's private session n, counted from 0; bits 0 to 31 are global
 * sessions. A callback finds a session's bit in InstanceId of the session's EVENT_FILTER_HEADER. */
ULONG EVNTAPI EventWriteEx(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor,
                           ULONG64 Filter, ULONG Flags, LPCGUID ActivityId,
                           LPCGUID RelatedActivityId, ULONG UserDataCount,
                           PEVENT_DATA_DESCRIPTOR UserData);
ULONG EVNTAPI EventWriteString(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword,
                               PCWSTR String);
ULONG EVNTAPI EventActivityIdControl(ULONG ControlCode, LPGUID ActivityId);
ULONG EVNTAPI EventAccessControl(LPGUID Guid, ULONG Operation, PVOID Sid, ULONG Rights,
                                 BOOLEAN AllowOrDeny);
ULONG EVNTAPI EventAccessQuery(LPGUID Guid, PVOID Buffer, PULONG BufferSize);
ULONG EVNTAPI EventAccessRemove(LPGUID Guid);

/* The most general write call. EventProperty takes EVENT_HEADER_PROPERTY_... */
ULONG EVNTAPI EtwEventWriteFull(REGHANDLE RegHandle, const EVENT_DESCRIPTOR *EventDescriptor,
                                USHORT EventProperty, const GUID *ActivityId,
                                const GUID *RelatedActivityId, ULONG UserDataCount,
                                EVENT_DATA_DESCRIPTOR *UserData);

/* The same calls under their names in ntdll. */
ULONG EVNTAPI EtwEventRegister(LPCGUID ProviderId, PENABLECALLBACK EnableCallback,
                               PVOID CallbackContext, PREGHANDLE RegHandle);
ULONG EVNTAPI EtwEventUnregister(REGHANDLE RegHandle);
ULONG EVNTAPI EtwEventSetInformation(REGHANDLE RegHandle, EVENT_INFO_CLASS InformationClass,
                                     PVOID EventInformation, ULONG InformationLength);
BOOLEAN EVNTAPI EtwEventEnabled(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor);
BOOLEAN EVNTAPI EtwEventProviderEnabled(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword);
ULONG EVNTAPI EtwEventWrite(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor,
                            ULONG UserDataCount, PEVENT_DATA_DESCRIPTOR UserData);
ULONG EVNTAPI EtwEventWriteTransfer(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor,
                                    LPCGUID ActivityId, LPCGUID RelatedActivityId,
                                    ULONG UserDataCount, PEVENT_DATA_DESCRIPTOR UserData);
ULONG EVNTAPI EtwEventWriteEx(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor,
                              ULONG64 Filter, ULONG Flags, LPCGUID ActivityId,
                              LPCGUID RelatedActivityId, ULONG UserDataCount,
                              PEVENT_DATA_DESCRIPTOR UserData);
ULONG EVNTAPI EtwEventWriteString(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword,
                                  PCWSTR String);
ULONG EVNTAPI EtwEventActivityIdControl(ULONG ControlCode, LPGUID ActivityId);

/* EventWriteString for a wchar_t of 32 bits. */
ULONG etw_event_write_wide(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword,
                           const wchar_t *String);

/* The usual write in two halves, between which a header copies the values: the address of Size bytes, all of which are filled before
 * etw_commit_described is called with the same Size on the same thread. NULL: nothing happened, and EventWriteTransfer writes the event. 1: no
 * session wants it. */
void *EVNTAPI etw_begin_described(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor, ULONGLONG Size);
void EVNTAPI etw_commit_described(ULONG Size);

/* A function of which the program gets no copy of its own. */
#define ETW_INLINED extern __inline __attribute__((__always_inline__, __gnu_inline__, __artificial__))
/* For loops over descriptors. Unrolled, they leave a move or two for each small value, since the compiler knows the descriptors. */
#ifdef __clang__
#define ETW_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ETW_UNROLL _Pragma("GCC unroll 128")
#endif

ETW_INLINED ULONGLONG etw_pieces_size(const EVENT_DATA_DESCRIPTOR *data, ULONG count)
{
    ULONGLONG size = 0;
    ETW_UNROLL
    for (ULONG i = 0; i < count; i++)
        size += data[i].Size;
    return size;
}

ETW_INLINED void etw_pieces_copy(void *room, const EVENT_DATA_DESCRIPTOR *data, ULONG count)
{
    char *to = (char *)room;
    ETW_UNROLL
    for (ULONG i = 0; i < count; i++) {
        if (data[i].Size != 0)
            __builtin_memcpy(to, (const void *)(ULONG_PTR)data[i].Ptr, data[i].Size);
        to += data[i].Size;
    }
}

/* Member by member: of an assignment of structures, the compiler makes memory on both sides. */
ETW_INLINED void etw_pieces_assign(EVENT_DATA_DESCRIPTOR *to, const EVENT_DATA_DESCRIPTOR *data, ULONG count)
{
    ETW_UNROLL
    for (ULONG i = 0; i < count; i++) {
        to[i].Ptr = data[i].Ptr;
        to[i].Size = data[i].Size;
        to[i].Reserved = data[i].Reserved;
    }
}

#if defined(__OPTIMIZE__) && !defined(ETW_NO_INLINE_WRITES)
/*
 * Optimised programs write events of up to eight descriptors, whose number is a constant, without the library's loops over them. Of a call with
 * another number, and of the function's address, the compiler makes one of the library's function. The descriptors are copied first, since another
 * thread may change the program's.
 */
ETW_INLINED ULONG EventWriteTransfer(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor, LPCGUID ActivityId,
                                          LPCGUID RelatedActivityId, ULONG UserDataCount, PEVENT_DATA_DESCRIPTOR UserData)
{
    if (__builtin_constant_p(UserDataCount) && UserDataCount <= 8 && (UserData != NULL || UserDataCount == 0) &&
        ActivityId == NULL && RelatedActivityId == NULL) {
        EVENT_DATA_DESCRIPTOR data[8], copy[8];
        UCHAR types = 0;
        etw_pieces_assign(data, UserData, UserDataCount);
        ETW_UNROLL
        for (ULONG i = 0; i < UserDataCount; i++)
            types |= (UCHAR)data[i].Reserved;
        if (types == 0) {
            const ULONGLONG size = etw_pieces_size(data, UserDataCount);
            void *const room = etw_begin_described(RegHandle, EventDescriptor, size);
            if (__builtin_expect((ULONG_PTR)room > 1, 1)) {
                etw_pieces_copy(room, data, UserDataCount);
                etw_commit_described((ULONG)size);
                return 0;
            }
            if (room != NULL)
                return 0;
        }
        /* Descriptors whose address no call before has seen need no memory. */
        etw_pieces_assign(copy, data, UserDataCount);
        return EtwEventWriteTransfer(RegHandle, EventDescriptor, NULL, NULL, UserDataCount, copy);
    }
    return EtwEventWriteTransfer(RegHandle, EventDescriptor, ActivityId, RelatedActivityId, UserDataCount, UserData);
}

ETW_INLINED ULONG EventWrite(REGHANDLE RegHandle, PCEVENT_DESCRIPTOR EventDescriptor, ULONG UserDataCount,
                                  PEVENT_DATA_DESCRIPTOR UserData)
{
    return EventWriteTransfer(RegHandle, EventDescriptor, NULL, NULL, UserDataCount, UserData);
}
#endif

static inline void EventDataDescCreate(PEVENT_DATA_DESCRIPTOR EventDataDescriptor,
                                       const void *DataPtr, ULONG DataSize)
{
    EventDataDescriptor->Ptr = (ULONGLONG)(ULONG_PTR)DataPtr;
    EventDataDescriptor->Size = DataSize;
    EventDataDescriptor->Reserved = 0;
}

static inline void EventDescCreate(PEVENT_DESCRIPTOR EventDescriptor, USHORT Id, UCHAR Version,
                                   UCHAR Channel, UCHAR Level, USHORT Task, UCHAR Opcode,
                                   ULONGLONG Keyword)
{
    EventDescriptor->Id = Id;
    EventDescriptor->Version = Version;
    EventDescriptor->Channel = Channel;
    EventDescriptor->Level = Level;
    EventDescriptor->Opcode = Opcode;
    EventDescriptor->Task = Task;
    EventDescriptor->Keyword = Keyword;
}

static inline void EventDescZero(PEVENT_DESCRIPTOR EventDescriptor)
{
    EventDescCreate(EventDescriptor, 0, 0, 0, 0, 0, 0, 0);
}

static inline USHORT EventDescGetId(PCEVENT_DESCRIPTOR d) { return d->Id; }
static inline UCHAR EventDescGetVersion(PCEVENT_DESCRIPTOR d) { return d->Version; }
static inline USHORT EventDescGetTask(PCEVENT_DESCRIPTOR d) { return d->Task; }
static inline UCHAR EventDescGetOpcode(PCEVENT_DESCRIPTOR d) { return d->Opcode; }
static inline UCHAR EventDescGetChannel(PCEVENT_DESCRIPTOR d) { return d->Channel; }
static inline UCHAR EventDescGetLevel(PCEVENT_DESCRIPTOR d) { return d->Level; }
static inline ULONGLONG EventDescGetKeyword(PCEVENT_DESCRIPTOR d) { return d->Keyword; }
static inline PEVENT_DESCRIPTOR EventDescSetId(PEVENT_DESCRIPTOR d, USHORT Value)
{
    d->Id = Value;
    return d;
}
static inline PEVENT_DESCRIPTOR EventDescSetVersion(PEVENT_DESCRIPTOR d, UCHAR Value)
{
    d->Version = Value;
    return d;
}
static inline PEVENT_DESCRIPTOR EventDescSetTask(PEVENT_DESCRIPTOR d, USHORT Value)
{
    d->Task = Value;
    return d;
}
static inline PEVENT_DESCRIPTOR EventDescSetOpcode(PEVENT_DESCRIPTOR d, UCHAR Value)
{
    d->Opcode = Value;
    return d;
}
static inline PEVENT_DESCRIPTOR EventDescSetLevel(PEVENT_DESCRIPTOR d, UCHAR Value)
{
    d->Level = Value;
    return d;
}
static inline PEVENT_DESCRIPTOR EventDescSetChannel(PEVENT_DESCRIPTOR d, UCHAR Value)
{
    d->Channel = Value;
    return d;
}
static inline PEVENT_DESCRIPTOR EventDescSetKeyword(PEVENT_DESCRIPTOR d, ULONGLONG Value)
{
    d->Keyword = Value;
    return d;
}
static inline PEVENT_DESCRIPTOR EventDescOrKeyword(PEVENT_DESCRIPTOR d, ULONGLONG Value)
{
    d->Keyword |= Value;
    return d;
}

#ifdef __cplusplus
}
#if __SIZEOF_WCHAR_T__ == 4
extern "C++" inline ULONG EventWriteString(REGHANDLE RegHandle, UCHAR Level, ULONGLONG Keyword,
                              const wchar_t *String)
{
    return etw_event_write_wide(RegHandle, Level, Keyword, String);
}
#endif
#elif __SIZEOF_WCHAR_T__ == 4
#define EventWriteString(RegHandle, Level, Keyword, String)   \
    _Generic((String),                                        \
        wchar_t *: etw_event_write_wide,                      \
        const wchar_t *: etw_event_write_wide,                \
        default: EventWriteString)(RegHandle, Level, Keyword, String)
#endif

#endif
