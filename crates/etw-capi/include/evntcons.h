/*
 * Event consumers: the events that ProcessTrace delivers. For systems other than Windows; link with -letw.
 *
 * Part of openetw. Written to Microsoft's documentation; names and layouts are theirs.
 */
#ifndef _EVNTCONS_
#define _EVNTCONS_

#include "etw_base.h"
#include "evntprov.h"
#include "evntrace.h"

/* EVENT_HEADER_EXTENDED_DATA_ITEM.ExtType */
#define EVENT_HEADER_EXT_TYPE_RELATED_ACTIVITYID 0x0001
#define EVENT_HEADER_EXT_TYPE_SID 0x0002
#define EVENT_HEADER_EXT_TYPE_TS_ID 0x0003
#define EVENT_HEADER_EXT_TYPE_INSTANCE_INFO 0x0004
#define EVENT_HEADER_EXT_TYPE_STACK_TRACE32 0x0005
#define EVENT_HEADER_EXT_TYPE_STACK_TRACE64 0x0006
#define EVENT_HEADER_EXT_TYPE_PEBS_INDEX 0x0007
#define EVENT_HEADER_EXT_TYPE_PMC_COUNTERS 0x0008
#define EVENT_HEADER_EXT_TYPE_PSM_KEY 0x0009
#define EVENT_HEADER_EXT_TYPE_EVENT_KEY 0x000a
#define EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL 0x000b
#define EVENT_HEADER_EXT_TYPE_PROV_TRAITS 0x000c
#define EVENT_HEADER_EXT_TYPE_PROCESS_START_KEY 0x000d
#define EVENT_HEADER_EXT_TYPE_CONTROL_GUID 0x000e
#define EVENT_HEADER_EXT_TYPE_QPC_DELTA 0x000f
#define EVENT_HEADER_EXT_TYPE_CONTAINER_ID 0x0010
#define EVENT_HEADER_EXT_TYPE_STACK_KEY32 0x0011
#define EVENT_HEADER_EXT_TYPE_STACK_KEY64 0x0012
#define EVENT_HEADER_EXT_TYPE_MAX 0x0013

/* EVENT_HEADER.Flags */
#define EVENT_HEADER_FLAG_EXTENDED_INFO 0x0001
#define EVENT_HEADER_FLAG_PRIVATE_SESSION 0x0002
#define EVENT_HEADER_FLAG_STRING_ONLY 0x0004
#define EVENT_HEADER_FLAG_TRACE_MESSAGE 0x0008
#define EVENT_HEADER_FLAG_NO_CPUTIME 0x0010
#define EVENT_HEADER_FLAG_32_BIT_HEADER 0x0020
#define EVENT_HEADER_FLAG_64_BIT_HEADER 0x0040
#define EVENT_HEADER_FLAG_DECODE_GUID 0x0080
#define EVENT_HEADER_FLAG_CLASSIC_HEADER 0x0100
#define EVENT_HEADER_FLAG_PROCESSOR_INDEX 0x0200

/* EVENT_TRACE_LOGFILE.ProcessTraceMode */
#define PROCESS_TRACE_MODE_REAL_TIME 0x00000100u
#define PROCESS_TRACE_MODE_RAW_TIMESTAMP 0x00001000u
#define PROCESS_TRACE_MODE_EVENT_RECORD 0x10000000u
/* Not part of Windows: ProcessTrace also delivers the events of the session's host (provider OpenEtw.Session: losses, modules). */
#define PROCESS_TRACE_MODE_ETW_HOST_EVENTS 0x40000000u

/* Operations of EventAccessControl, which is not supported. */
typedef enum {
    EventSecuritySetDACL = 0,
    EventSecuritySetSACL = 1,
    EventSecurityAddDACL = 2,
    EventSecurityAddSACL = 3,
    EventSecurityMax = 4
} EVENTSECURITYOPERATION;

typedef struct _EVENT_HEADER_EXTENDED_DATA_ITEM {
    USHORT Reserved1;
    USHORT ExtType;
    __extension__ struct {
        USHORT Linkage : 1; /* 1 if another item follows */
        USHORT Reserved2 : 15;
    };
    USHORT DataSize;
    ULONGLONG DataPtr; /* Address of the item's data */
} EVENT_HEADER_EXTENDED_DATA_ITEM, *PEVENT_HEADER_EXTENDED_DATA_ITEM;

typedef struct _EVENT_EXTENDED_ITEM_INSTANCE {
    ULONG InstanceId;
    ULONG ParentInstanceId;
    GUID ParentGuid;
} EVENT_EXTENDED_ITEM_INSTANCE, *PEVENT_EXTENDED_ITEM_INSTANCE;

typedef struct _EVENT_EXTENDED_ITEM_TS_ID {
    ULONG SessionId;
} EVENT_EXTENDED_ITEM_TS_ID, *PEVENT_EXTENDED_ITEM_TS_ID;

typedef struct _EVENT_EXTENDED_ITEM_RELATED_ACTIVITYID {
    GUID RelatedActivityId;
} EVENT_EXTENDED_ITEM_RELATED_ACTIVITYID, *PEVENT_EXTENDED_ITEM_RELATED_ACTIVITYID;

typedef struct _EVENT_EXTENDED_ITEM_STACK_TRACE32 {
    ULONG64 MatchId;
    ULONG Address[1];
} EVENT_EXTENDED_ITEM_STACK_TRACE32, *PEVENT_EXTENDED_ITEM_STACK_TRACE32;

typedef struct _EVENT_EXTENDED_ITEM_STACK_TRACE64 {
    ULONG64 MatchId;
    ULONG64 Address[1];
} EVENT_EXTENDED_ITEM_STACK_TRACE64, *PEVENT_EXTENDED_ITEM_STACK_TRACE64;

typedef struct _EVENT_EXTENDED_ITEM_STACK_KEY32 {
    ULONG64 MatchId;
    ULONG StackKey;
    ULONG Padding;
} EVENT_EXTENDED_ITEM_STACK_KEY32, *PEVENT_EXTENDED_ITEM_STACK_KEY32;

typedef struct _EVENT_EXTENDED_ITEM_STACK_KEY64 {
    ULONG64 MatchId;
    ULONG64 StackKey;
} EVENT_EXTENDED_ITEM_STACK_KEY64, *PEVENT_EXTENDED_ITEM_STACK_KEY64;

typedef struct _EVENT_EXTENDED_ITEM_PEBS_INDEX {
    ULONG64 PebsIndex;
} EVENT_EXTENDED_ITEM_PEBS_INDEX, *PEVENT_EXTENDED_ITEM_PEBS_INDEX;

typedef struct _EVENT_EXTENDED_ITEM_PMC_COUNTERS {
    ULONG64 Counter[1];
} EVENT_EXTENDED_ITEM_PMC_COUNTERS, *PEVENT_EXTENDED_ITEM_PMC_COUNTERS;

typedef struct _EVENT_EXTENDED_ITEM_PROCESS_START_KEY {
    ULONG64 ProcessStartKey;
} EVENT_EXTENDED_ITEM_PROCESS_START_KEY, *PEVENT_EXTENDED_ITEM_PROCESS_START_KEY;

typedef struct _EVENT_EXTENDED_ITEM_EVENT_KEY {
    ULONG64 Key;
} EVENT_EXTENDED_ITEM_EVENT_KEY, *PEVENT_EXTENDED_ITEM_EVENT_KEY;

typedef struct _EVENT_HEADER {
    USHORT Size;
    USHORT HeaderType;
    USHORT Flags;
    USHORT EventProperty;
    ULONG ThreadId;
    ULONG ProcessId;
    LARGE_INTEGER TimeStamp; /* FILETIME; with PROCESS_TRACE_MODE_RAW_TIMESTAMP, ticks of the session's clock */
    GUID ProviderId;
    EVENT_DESCRIPTOR EventDescriptor;
    __extension__ union {
        __extension__ struct {
            ULONG KernelTime;
            ULONG UserTime;
        };
        ULONG64 ProcessorTime;
    };
    GUID ActivityId;
} EVENT_HEADER, *PEVENT_HEADER;

/* The record and the memory that it points to are valid until the callback returns. */
typedef struct _EVENT_RECORD {
    EVENT_HEADER EventHeader;
    ETW_BUFFER_CONTEXT BufferContext;
    USHORT ExtendedDataCount;
    USHORT UserDataLength;
    PEVENT_HEADER_EXTENDED_DATA_ITEM ExtendedData;
    PVOID UserData;
    PVOID UserContext; /* EVENT_TRACE_LOGFILE.Context */
} EVENT_RECORD, *PEVENT_RECORD;
typedef const EVENT_RECORD *PCEVENT_RECORD;

static inline ULONG GetEventProcessorIndex(PCEVENT_RECORD EventRecord)
{
    if ((EventRecord->EventHeader.Flags & EVENT_HEADER_FLAG_PROCESSOR_INDEX) != 0)
        return EventRecord->BufferContext.ProcessorIndex;
    return EventRecord->BufferContext.ProcessorNumber;
}

#endif
