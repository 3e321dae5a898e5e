/*
 * WNODE_HEADER, the start of EVENT_TRACE_PROPERTIES. For systems other than Windows.
 *
 * Part of openetw. Written to Microsoft's documentation; names and layouts are theirs.
 */
#ifndef _WMISTR_
#define _WMISTR_

#include "etw_base.h"

typedef struct _WNODE_HEADER {
    ULONG BufferSize; /* size of the whole structure, in bytes */
    ULONG ProviderId;
    __extension__ union {
        ULONG64 HistoricalContext; /* The session's handle */
        __extension__ struct {
            ULONG Version;
            ULONG Linkage;
        };
    };
    __extension__ union {
        ULONG CountLost;
        HANDLE KernelHandle;
        LARGE_INTEGER TimeStamp;
    };
    GUID Guid;
    ULONG ClientContext; /* 1 performance counter, 2 system time, 3 CPU cycles */
    ULONG Flags;
} WNODE_HEADER, *PWNODE_HEADER;

#define WNODE_FLAG_ALL_DATA 0x00000001u
#define WNODE_FLAG_SINGLE_INSTANCE 0x00000002u
#define WNODE_FLAG_SINGLE_ITEM 0x00000004u
#define WNODE_FLAG_EVENT_ITEM 0x00000008u
#define WNODE_FLAG_FIXED_INSTANCE_SIZE 0x00000010u
#define WNODE_FLAG_TOO_SMALL 0x00000020u
#define WNODE_FLAG_INSTANCES_SAME 0x00000040u
#define WNODE_FLAG_STATIC_INSTANCE_NAMES 0x00000080u
#define WNODE_FLAG_INTERNAL 0x00000100u
#define WNODE_FLAG_USE_TIMESTAMP 0x00000200u
#define WNODE_FLAG_PERSIST_EVENT 0x00000400u
#define WNODE_FLAG_EVENT_REFERENCE 0x00002000u
#define WNODE_FLAG_ANSI_INSTANCENAMES 0x00004000u
#define WNODE_FLAG_METHOD_ITEM 0x00008000u
#define WNODE_FLAG_PDO_INSTANCE_NAMES 0x00010000u
#define WNODE_FLAG_TRACED_GUID 0x00020000u
#define WNODE_FLAG_LOG_WNODE 0x00040000u
#define WNODE_FLAG_USE_GUID_PTR 0x00080000u
#define WNODE_FLAG_USE_MOF_PTR 0x00100000u
#define WNODE_FLAG_NO_HEADER 0x00200000u
#define WNODE_FLAG_SEND_DATA_BLOCK 0x00400000u
#define WNODE_FLAG_VERSIONED_PROPERTIES 0x00800000u

/* Requests to a classic provider's control callback. */
typedef enum {
    WMI_GET_ALL_DATA = 0,
    WMI_GET_SINGLE_INSTANCE = 1,
    WMI_SET_SINGLE_INSTANCE = 2,
    WMI_SET_SINGLE_ITEM = 3,
    WMI_ENABLE_EVENTS = 4,
    WMI_DISABLE_EVENTS = 5,
    WMI_ENABLE_COLLECTION = 6,
    WMI_DISABLE_COLLECTION = 7,
    WMI_REGINFO = 8,
    WMI_EXECUTE_METHOD = 9,
    WMI_CAPTURE_STATE = 10
} WMIDPREQUESTCODE;

/* Flags of classic registrations, which user-mode providers do not set. */
#define WMIREG_FLAG_EXPENSIVE 0x00000001u
#define WMIREG_FLAG_INSTANCE_LIST 0x00000004u
#define WMIREG_FLAG_INSTANCE_BASENAME 0x00000008u
#define WMIREG_FLAG_INSTANCE_PDO 0x00000020u
#define WMIREG_FLAG_EVENT_ONLY_GUID 0x00000040u
#define WMIREG_FLAG_TRACE_CONTROL_GUID 0x00001000u
#define WMIREG_FLAG_REMOVE_GUID 0x00010000u
#define WMIREG_FLAG_RESERVED1 0x00020000u
#define WMIREG_FLAG_RESERVED2 0x00040000u
#define WMIREG_FLAG_TRACED_GUID 0x00080000u
#define WMI_GLOBAL_LOGGER_ID 0x0001u
#define WMI_GUIDTYPE_TRACECONTROL 0
#define WMI_GUIDTYPE_TRACE 1
#define WMI_GUIDTYPE_DATA 2
#define WMI_GUIDTYPE_EVENT 3
#define WNODE_FLAG_SEVERITY_MASK 0xff000000u

#endif
