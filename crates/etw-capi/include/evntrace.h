/*
 * Sessions, traces and classic providers. For systems other than Windows; link with -letw.
 *
 * Part of openetw. Written to Microsoft's documentation; names, layouts and statuses are theirs.
 *
 * Consumers read trace files and, on Linux, real-time sessions. A C++ exception in a callback leaves ProcessTrace.
 *
 * Controllers start private sessions of their process (EVENT_TRACE_PRIVATE_LOGGER_MODE) and, on Linux, global sessions; elsewhere, a global
 * session returns ERROR_NOT_SUPPORTED. If no host of sessions runs, StartTrace starts one: the program that the environment variable
 * ETW_DAEMON names, or else etwd or etw from PATH.
 *
 * A classic provider (RegisterTraceGuids) belongs to one session at a time, the last one that enabled it. It writes with the handle that
 * GetTraceLoggerHandle takes from the callback's buffer. Each provider has its own handle; the handle of StartTrace does not work for it.
 * Writing is safe in a signal handler.
 *
 * Calls whose names end in W take UTF-16 (ETW_W("name")) and also wchar_t; calls whose names end in A take UTF-8. A name without either
 * letter is the W call if UNICODE is defined, and the A call otherwise.
 */
#ifndef _EVNTRACE_
#define _EVNTRACE_

#include <stdarg.h>

#include "etw_base.h"
#include "etw_define_guid.h"
#include "evntprov.h"
#include "wmistr.h"

/* The first event of a trace; its type 0 carries TRACE_LOGFILE_HEADER. */
DEFINE_GUID(EventTraceGuid, 0x68fdd900, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);
/* GUIDs of the system session and of its provider. */
DEFINE_GUID(SystemTraceControlGuid, 0x9e814aad, 0x3204, 0x11d2, 0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39);
#include "etw_system_providers.h"
/* Provider of the events that describe the machine. */
DEFINE_GUID(EventTraceConfigGuid, 0x01853a65, 0x418f, 0x4f36, 0xae, 0xfc, 0xdc, 0x0f, 0x1d, 0x2f, 0xd2, 0x35);
DEFINE_GUID(DefaultTraceSecurityGuid, 0x0811c1af, 0x7a07, 0x4a06, 0x82, 0xed, 0x86, 0x94, 0x55, 0xcd, 0xf7, 0x13);
DEFINE_GUID(PrivateLoggerNotificationGuid, 0x3595ab5c, 0x042a, 0x4c8e, 0xb9, 0x42, 0x2d, 0x05, 0x9b, 0xfe, 0xb1, 0xb1);

#define KERNEL_LOGGER_NAMEA "NT Kernel Logger"
#define KERNEL_LOGGER_NAMEW ETW_W("NT Kernel Logger")
#define GLOBAL_LOGGER_NAMEA "GlobalLogger"
#define GLOBAL_LOGGER_NAMEW ETW_W("GlobalLogger")
#define EVENT_LOGGER_NAMEA "EventLog"
#define EVENT_LOGGER_NAMEW ETW_W("EventLog")
#define DIAG_LOGGER_NAMEA "DiagLog"
#define DIAG_LOGGER_NAMEW ETW_W("DiagLog")
#define MAX_MOF_FIELDS 16

/* The handle of a session, of an open trace, or of a classic registration. */
typedef ULONG64 TRACEHANDLE, *PTRACEHANDLE;
typedef ULONG64 CONTROLTRACE_ID;
typedef ULONG64 PROCESSTRACE_HANDLE;
#define INVALID_PROCESSTRACE_HANDLE ((TRACEHANDLE)0xffffffffffffffffu)
#define INVALID_TRACEHANDLE INVALID_PROCESSTRACE_HANDLE

/* Types of classic events. */
#define EVENT_TRACE_TYPE_INFO 0x00
#define EVENT_TRACE_TYPE_START 0x01
#define EVENT_TRACE_TYPE_END 0x02
#define EVENT_TRACE_TYPE_STOP 0x02
#define EVENT_TRACE_TYPE_DC_START 0x03
#define EVENT_TRACE_TYPE_DC_END 0x04
#define EVENT_TRACE_TYPE_EXTENSION 0x05
#define EVENT_TRACE_TYPE_REPLY 0x06
#define EVENT_TRACE_TYPE_DEQUEUE 0x07
#define EVENT_TRACE_TYPE_RESUME 0x07
#define EVENT_TRACE_TYPE_CHECKPOINT 0x08
#define EVENT_TRACE_TYPE_SUSPEND 0x08
#define EVENT_TRACE_TYPE_WINEVT_SEND 0x09
#define EVENT_TRACE_TYPE_WINEVT_RECEIVE 0xf0

/* Types of system events, grouped by subject. */
/* processes, images and others */
#define EVENT_TRACE_TYPE_GUIDMAP 0x0a
#define EVENT_TRACE_TYPE_LOAD 0x0a
#define EVENT_TRACE_TYPE_CONFIG 0x0b
#define EVENT_TRACE_TYPE_TERMINATE 0x0b
#define EVENT_TRACE_TYPE_SIDINFO 0x0c
#define EVENT_TRACE_TYPE_SECURITY 0x0d
#define EVENT_TRACE_TYPE_DBGID_RSDS 0x40
/* network */
#define EVENT_TRACE_TYPE_SEND 0x0a
#define EVENT_TRACE_TYPE_RECEIVE 0x0b
#define EVENT_TRACE_TYPE_CONNECT 0x0c
#define EVENT_TRACE_TYPE_DISCONNECT 0x0d
#define EVENT_TRACE_TYPE_RETRANSMIT 0x0e
#define EVENT_TRACE_TYPE_ACCEPT 0x0f
#define EVENT_TRACE_TYPE_RECONNECT 0x10
#define EVENT_TRACE_TYPE_CONNFAIL 0x11
#define EVENT_TRACE_TYPE_COPY_TCP 0x12
#define EVENT_TRACE_TYPE_COPY_ARP 0x13
#define EVENT_TRACE_TYPE_ACKFULL 0x14
#define EVENT_TRACE_TYPE_ACKPART 0x15
#define EVENT_TRACE_TYPE_ACKDUP 0x16
/* disks, files and filters */
#define EVENT_TRACE_TYPE_IO_READ 0x0a
#define EVENT_TRACE_TYPE_IO_WRITE 0x0b
#define EVENT_TRACE_TYPE_IO_READ_INIT 0x0c
#define EVENT_TRACE_TYPE_IO_WRITE_INIT 0x0d
#define EVENT_TRACE_TYPE_IO_FLUSH 0x0e
#define EVENT_TRACE_TYPE_IO_FLUSH_INIT 0x0f
#define EVENT_TRACE_TYPE_IO_REDIRECTED_INIT 0x10
#define EVENT_TRACE_TYPE_OPTICAL_IO_READ 0x37
#define EVENT_TRACE_TYPE_OPTICAL_IO_WRITE 0x38
#define EVENT_TRACE_TYPE_OPTICAL_IO_FLUSH 0x39
#define EVENT_TRACE_TYPE_OPTICAL_IO_READ_INIT 0x3a
#define EVENT_TRACE_TYPE_OPTICAL_IO_WRITE_INIT 0x3b
#define EVENT_TRACE_TYPE_OPTICAL_IO_FLUSH_INIT 0x3c
#define EVENT_TRACE_TYPE_FLT_PREOP_INIT 0x60
#define EVENT_TRACE_TYPE_FLT_POSTOP_INIT 0x61
#define EVENT_TRACE_TYPE_FLT_PREOP_COMPLETION 0x62
#define EVENT_TRACE_TYPE_FLT_POSTOP_COMPLETION 0x63
#define EVENT_TRACE_TYPE_FLT_PREOP_FAILURE 0x64
#define EVENT_TRACE_TYPE_FLT_POSTOP_FAILURE 0x65
/* memory */
#define EVENT_TRACE_TYPE_MM_TF 0x0a
#define EVENT_TRACE_TYPE_MM_DZF 0x0b
#define EVENT_TRACE_TYPE_MM_COW 0x0c
#define EVENT_TRACE_TYPE_MM_GPF 0x0d
#define EVENT_TRACE_TYPE_MM_HPF 0x0e
#define EVENT_TRACE_TYPE_MM_AV 0x0f
/* registry */
#define EVENT_TRACE_TYPE_REGCREATE 0x0a
#define EVENT_TRACE_TYPE_REGOPEN 0x0b
#define EVENT_TRACE_TYPE_REGDELETE 0x0c
#define EVENT_TRACE_TYPE_REGQUERY 0x0d
#define EVENT_TRACE_TYPE_REGSETVALUE 0x0e
#define EVENT_TRACE_TYPE_REGDELETEVALUE 0x0f
#define EVENT_TRACE_TYPE_REGQUERYVALUE 0x10
#define EVENT_TRACE_TYPE_REGENUMERATEKEY 0x11
#define EVENT_TRACE_TYPE_REGENUMERATEVALUEKEY 0x12
#define EVENT_TRACE_TYPE_REGQUERYMULTIPLEVALUE 0x13
#define EVENT_TRACE_TYPE_REGSETINFORMATION 0x14
#define EVENT_TRACE_TYPE_REGFLUSH 0x15
#define EVENT_TRACE_TYPE_REGKCBCREATE 0x16
#define EVENT_TRACE_TYPE_REGKCBDELETE 0x17
#define EVENT_TRACE_TYPE_REGKCBRUNDOWNBEGIN 0x18
#define EVENT_TRACE_TYPE_REGKCBRUNDOWNEND 0x19
#define EVENT_TRACE_TYPE_REGVIRTUALIZE 0x1a
#define EVENT_TRACE_TYPE_REGCLOSE 0x1b
#define EVENT_TRACE_TYPE_REGSETSECURITY 0x1c
#define EVENT_TRACE_TYPE_REGQUERYSECURITY 0x1d
#define EVENT_TRACE_TYPE_REGCOMMIT 0x1e
#define EVENT_TRACE_TYPE_REGPREPARE 0x1f
#define EVENT_TRACE_TYPE_REGROLLBACK 0x20
#define EVENT_TRACE_TYPE_REGMOUNTHIVE 0x21
/* the system itself */
#define EVENT_TRACE_TYPE_CONFIG_CPU 0x0a
#define EVENT_TRACE_TYPE_CONFIG_PHYSICALDISK 0x0b
#define EVENT_TRACE_TYPE_CONFIG_LOGICALDISK 0x0c
#define EVENT_TRACE_TYPE_CONFIG_NIC 0x0d
#define EVENT_TRACE_TYPE_CONFIG_VIDEO 0x0e
#define EVENT_TRACE_TYPE_CONFIG_SERVICES 0x0f
#define EVENT_TRACE_TYPE_CONFIG_POWER 0x10
#define EVENT_TRACE_TYPE_CONFIG_NETINFO 0x11
#define EVENT_TRACE_TYPE_CONFIG_OPTICALMEDIA 0x12
#define EVENT_TRACE_TYPE_CONFIG_PHYSICALDISK_EX 0x13
#define EVENT_TRACE_TYPE_CONFIG_IRQ 0x15
#define EVENT_TRACE_TYPE_CONFIG_PNP 0x16
#define EVENT_TRACE_TYPE_CONFIG_IDECHANNEL 0x17
#define EVENT_TRACE_TYPE_CONFIG_NUMANODE 0x18
#define EVENT_TRACE_TYPE_CONFIG_PLATFORM 0x19
#define EVENT_TRACE_TYPE_CONFIG_PROCESSORGROUP 0x1a
#define EVENT_TRACE_TYPE_CONFIG_PROCESSORNUMBER 0x1b
#define EVENT_TRACE_TYPE_CONFIG_DPI 0x1c
#define EVENT_TRACE_TYPE_CONFIG_CI_INFO 0x1d
#define EVENT_TRACE_TYPE_CONFIG_MACHINEID 0x1e
#define EVENT_TRACE_TYPE_CONFIG_DEFRAG 0x1f
#define EVENT_TRACE_TYPE_CONFIG_MOBILEPLATFORM 0x20
#define EVENT_TRACE_TYPE_CONFIG_DEVICEFAMILY 0x21
#define EVENT_TRACE_TYPE_CONFIG_FLIGHTID 0x22
#define EVENT_TRACE_TYPE_CONFIG_PROCESSOR 0x23
#define EVENT_TRACE_TYPE_CONFIG_VIRTUALIZATION 0x24
#define EVENT_TRACE_TYPE_CONFIG_BOOT 0x25

#define TRACE_LEVEL_NONE 0
#define TRACE_LEVEL_CRITICAL 1
#define TRACE_LEVEL_FATAL 1
#define TRACE_LEVEL_ERROR 2
#define TRACE_LEVEL_WARNING 3
#define TRACE_LEVEL_INFORMATION 4
#define TRACE_LEVEL_VERBOSE 5
#define TRACE_LEVEL_RESERVED6 6
#define TRACE_LEVEL_RESERVED7 7
#define TRACE_LEVEL_RESERVED8 8
#define TRACE_LEVEL_RESERVED9 9

/* LogFileMode */
#define EVENT_TRACE_FILE_MODE_NONE 0x00000000u
#define EVENT_TRACE_FILE_MODE_SEQUENTIAL 0x00000001u
#define EVENT_TRACE_FILE_MODE_CIRCULAR 0x00000002u
#define EVENT_TRACE_FILE_MODE_APPEND 0x00000004u
#define EVENT_TRACE_FILE_MODE_NEWFILE 0x00000008u
#define EVENT_TRACE_USE_MS_FLUSH_TIMER 0x00000010u
#define EVENT_TRACE_FILE_MODE_PREALLOCATE 0x00000020u
#define EVENT_TRACE_NONSTOPPABLE_MODE 0x00000040u
#define EVENT_TRACE_SECURE_MODE 0x00000080u
#define EVENT_TRACE_REAL_TIME_MODE 0x00000100u
#define EVENT_TRACE_DELAY_OPEN_FILE_MODE 0x00000200u
#define EVENT_TRACE_BUFFERING_MODE 0x00000400u
#define EVENT_TRACE_PRIVATE_LOGGER_MODE 0x00000800u
#define EVENT_TRACE_ADD_HEADER_MODE 0x00001000u
#define EVENT_TRACE_USE_KBYTES_FOR_SIZE 0x00002000u
#define EVENT_TRACE_USE_GLOBAL_SEQUENCE 0x00004000u
#define EVENT_TRACE_USE_LOCAL_SEQUENCE 0x00008000u
#define EVENT_TRACE_RELOG_MODE 0x00010000u
#define EVENT_TRACE_PRIVATE_IN_PROC 0x00020000u
#define EVENT_TRACE_MODE_RESERVED 0x00100000u
#define EVENT_TRACE_STOP_ON_HYBRID_SHUTDOWN 0x00400000u
#define EVENT_TRACE_PERSIST_ON_HYBRID_SHUTDOWN 0x00800000u
#define EVENT_TRACE_USE_PAGED_MEMORY 0x01000000u
#define EVENT_TRACE_SYSTEM_LOGGER_MODE 0x02000000u
#define EVENT_TRACE_COMPRESSED_MODE 0x04000000u
#define EVENT_TRACE_INDEPENDENT_SESSION_MODE 0x08000000u
#define EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING 0x10000000u
#define EVENT_TRACE_BLOCKING_MODE 0x20000000u
#define EVENT_TRACE_ADDTO_TRIAGE_DUMP 0x80000000u

/* EnableFlags of the system session. */
#define EVENT_TRACE_FLAG_PROCESS 0x00000001u
#define EVENT_TRACE_FLAG_THREAD 0x00000002u
#define EVENT_TRACE_FLAG_IMAGE_LOAD 0x00000004u
#define EVENT_TRACE_FLAG_PROCESS_COUNTERS 0x00000008u
#define EVENT_TRACE_FLAG_CSWITCH 0x00000010u
#define EVENT_TRACE_FLAG_DPC 0x00000020u
#define EVENT_TRACE_FLAG_INTERRUPT 0x00000040u
#define EVENT_TRACE_FLAG_SYSTEMCALL 0x00000080u
#define EVENT_TRACE_FLAG_DISK_IO 0x00000100u
#define EVENT_TRACE_FLAG_DISK_FILE_IO 0x00000200u
#define EVENT_TRACE_FLAG_DISK_IO_INIT 0x00000400u
#define EVENT_TRACE_FLAG_DISPATCHER 0x00000800u
#define EVENT_TRACE_FLAG_MEMORY_PAGE_FAULTS 0x00001000u
#define EVENT_TRACE_FLAG_MEMORY_HARD_FAULTS 0x00002000u
#define EVENT_TRACE_FLAG_VIRTUAL_ALLOC 0x00004000u
#define EVENT_TRACE_FLAG_VAMAP 0x00008000u
#define EVENT_TRACE_FLAG_NETWORK_TCPIP 0x00010000u
#define EVENT_TRACE_FLAG_REGISTRY 0x00020000u
#define EVENT_TRACE_FLAG_DBGPRINT 0x00040000u
#define EVENT_TRACE_FLAG_JOB 0x00080000u
#define EVENT_TRACE_FLAG_ALPC 0x00100000u
#define EVENT_TRACE_FLAG_SPLIT_IO 0x00200000u
#define EVENT_TRACE_FLAG_DEBUG_EVENTS 0x00400000u
#define EVENT_TRACE_FLAG_DRIVER 0x00800000u
#define EVENT_TRACE_FLAG_PROFILE 0x01000000u
#define EVENT_TRACE_FLAG_FILE_IO 0x02000000u
#define EVENT_TRACE_FLAG_FILE_IO_INIT 0x04000000u
#define EVENT_TRACE_FLAG_NO_SYSCONFIG 0x10000000u
#define EVENT_TRACE_FLAG_ENABLE_RESERVE 0x20000000u
#define EVENT_TRACE_FLAG_FORWARD_WMI 0x40000000u
#define EVENT_TRACE_FLAG_EXTENSION 0x80000000u

/* ControlTrace */
#define EVENT_TRACE_CONTROL_QUERY 0
#define EVENT_TRACE_CONTROL_STOP 1
#define EVENT_TRACE_CONTROL_UPDATE 2
#define EVENT_TRACE_CONTROL_FLUSH 3
#define EVENT_TRACE_CONTROL_INCREMENT_FILE 4
#define EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME 5

#ifndef EVENT_CONTROL_CODE_DISABLE_PROVIDER
#define EVENT_CONTROL_CODE_DISABLE_PROVIDER 0
#define EVENT_CONTROL_CODE_ENABLE_PROVIDER 1
#define EVENT_CONTROL_CODE_CAPTURE_STATE 2
#endif

/* ENABLE_TRACE_PARAMETERS.EnableProperty */
#define EVENT_ENABLE_PROPERTY_SID 0x00000001u
#define EVENT_ENABLE_PROPERTY_TS_ID 0x00000002u
#define EVENT_ENABLE_PROPERTY_STACK_TRACE 0x00000004u
#define EVENT_ENABLE_PROPERTY_PSM_KEY 0x00000008u
#define EVENT_ENABLE_PROPERTY_IGNORE_KEYWORD_0 0x00000010u
#define EVENT_ENABLE_PROPERTY_PROVIDER_GROUP 0x00000020u
#define EVENT_ENABLE_PROPERTY_ENABLE_KEYWORD_0 0x00000040u
#define EVENT_ENABLE_PROPERTY_PROCESS_START_KEY 0x00000080u
#define EVENT_ENABLE_PROPERTY_EVENT_KEY 0x00000100u
#define EVENT_ENABLE_PROPERTY_EXCLUDE_INPRIVATE 0x00000200u
#define EVENT_ENABLE_PROPERTY_ENABLE_SILOS 0x00000400u
#define EVENT_ENABLE_PROPERTY_SOURCE_CONTAINER_TRACKING 0x00000800u

#define ENABLE_TRACE_PARAMETERS_VERSION 1
#define ENABLE_TRACE_PARAMETERS_VERSION_2 2

/* Access rights to the GUID of a provider or session. */
#define WMIGUID_QUERY 0x0001
#define WMIGUID_SET 0x0002
#define WMIGUID_NOTIFICATION 0x0004
#define WMIGUID_READ_DESCRIPTION 0x0008
#define WMIGUID_EXECUTE 0x0010
#define TRACELOG_CREATE_REALTIME 0x0020
#define TRACELOG_CREATE_ONDISK 0x0040
#define TRACELOG_GUID_ENABLE 0x0080
#define TRACELOG_ACCESS_KERNEL_LOGGER 0x0100
#define TRACELOG_CREATE_INPROC 0x0200
#define TRACELOG_LOG_EVENT 0x0200
#define TRACELOG_ACCESS_REALTIME 0x0400
#define TRACELOG_REGISTER_GUIDS 0x0800
#define TRACELOG_JOIN_GROUP 0x1000

/* TraceMessage: flags that select the header fields before the arguments. */
#define TRACE_MESSAGE_SEQUENCE 0x0001
#define TRACE_MESSAGE_GUID 0x0002
#define TRACE_MESSAGE_COMPONENTID 0x0004
#define TRACE_MESSAGE_TIMESTAMP 0x0008
#define TRACE_MESSAGE_PERFORMANCE_TIMESTAMP 0x0010
#define TRACE_MESSAGE_SYSTEMINFO 0x0020
#define TRACE_MESSAGE_POINTER32 0x0040
#define TRACE_MESSAGE_POINTER64 0x0080
#define TRACE_MESSAGE_FLAG_MASK 0xffff
#define TRACE_MESSAGE_MAXIMUM_SIZE (64 * 1024)

#define TRACE_HEADER_FLAG_USE_TIMESTAMP 0x00000200
#define TRACE_HEADER_FLAG_TRACED_GUID 0x00020000
#define TRACE_HEADER_FLAG_LOG_WNODE 0x00040000
#define TRACE_HEADER_FLAG_USE_GUID_PTR 0x00080000
#define TRACE_HEADER_FLAG_USE_MOF_PTR 0x00100000

/* Values of the thread times in EVENT_TRACE_HEADER and EVENT_HEADER that are not times. */
#define EVENT_TRACE_USE_PROCTIME 0x0001
#define EVENT_TRACE_USE_NOCPUTIME 0x0002

#define TRACE_PROVIDER_FLAG_LEGACY 0x00000001
#define TRACE_PROVIDER_FLAG_PRE_ENABLE 0x00000002

/* The header of a classic event. Providers fill it, and the older callback receives it for every event. */
typedef struct _EVENT_TRACE_HEADER {
    USHORT Size;
    __extension__ union {
        USHORT FieldTypeFlags;
        __extension__ struct {
            UCHAR HeaderType;
            UCHAR MarkerFlags;
        };
    };
    __extension__ union {
        ULONG Version;
        struct {
            UCHAR Type;
            UCHAR Level;
            USHORT Version;
        } Class;
    };
    ULONG ThreadId;
    ULONG ProcessId;
    LARGE_INTEGER TimeStamp;
    __extension__ union {
        GUID Guid;
        ULONGLONG GuidPtr;
    };
    __extension__ union {
        __extension__ struct {
            ULONG KernelTime;
            ULONG UserTime;
        };
        ULONG64 ProcessorTime;
        __extension__ struct {
            ULONG ClientContext;
            ULONG Flags;
        };
    };
} EVENT_TRACE_HEADER, *PEVENT_TRACE_HEADER;

typedef struct _EVENT_INSTANCE_HEADER {
    USHORT Size;
    __extension__ union {
        USHORT FieldTypeFlags;
        __extension__ struct {
            UCHAR HeaderType;
            UCHAR MarkerFlags;
        };
    };
    __extension__ union {
        ULONG Version;
        struct {
            UCHAR Type;
            UCHAR Level;
            USHORT Version;
        } Class;
    };
    ULONG ThreadId;
    ULONG ProcessId;
    LARGE_INTEGER TimeStamp;
    ULONGLONG RegHandle;
    ULONG InstanceId;
    ULONG ParentInstanceId;
    __extension__ union {
        __extension__ struct {
            ULONG KernelTime;
            ULONG UserTime;
        };
        ULONG64 ProcessorTime;
        __extension__ struct {
            ULONG EventId;
            ULONG Flags;
        };
    };
    ULONGLONG ParentRegHandle;
} EVENT_INSTANCE_HEADER, *PEVENT_INSTANCE_HEADER;

/* MOF_FIELD.DataType */
#define ETW_NULL_TYPE_VALUE 0
#define ETW_OBJECT_TYPE_VALUE 1
#define ETW_STRING_TYPE_VALUE 2
#define ETW_SBYTE_TYPE_VALUE 3
#define ETW_BYTE_TYPE_VALUE 4
#define ETW_INT16_TYPE_VALUE 5
#define ETW_UINT16_TYPE_VALUE 6
#define ETW_INT32_TYPE_VALUE 7
#define ETW_UINT32_TYPE_VALUE 8
#define ETW_INT64_TYPE_VALUE 9
#define ETW_UINT64_TYPE_VALUE 10
#define ETW_CHAR_TYPE_VALUE 11
#define ETW_SINGLE_TYPE_VALUE 12
#define ETW_DOUBLE_TYPE_VALUE 13
#define ETW_BOOLEAN_TYPE_VALUE 14
#define ETW_DECIMAL_TYPE_VALUE 15
#define ETW_GUID_TYPE_VALUE 101
#define ETW_ASCIICHAR_TYPE_VALUE 102
#define ETW_ASCIISTRING_TYPE_VALUE 103
#define ETW_COUNTED_STRING_TYPE_VALUE 104
#define ETW_POINTER_TYPE_VALUE 105
#define ETW_SIZET_TYPE_VALUE 106
#define ETW_HIDDEN_TYPE_VALUE 107
#define ETW_BOOL_TYPE_VALUE 108
#define ETW_COUNTED_ANSISTRING_TYPE_VALUE 109
#define ETW_REVERSED_COUNTED_STRING_TYPE_VALUE 110
#define ETW_REVERSED_COUNTED_ANSISTRING_TYPE_VALUE 111
#define ETW_NON_NULL_TERMINATED_STRING_TYPE_VALUE 112
#define ETW_REDUCED_ANSISTRING_TYPE_VALUE 113
#define ETW_REDUCED_STRING_TYPE_VALUE 114
#define ETW_SID_TYPE_VALUE 115
#define ETW_VARIANT_TYPE_VALUE 116
#define ETW_PTVECTOR_TYPE_VALUE 117
#define ETW_WMITIME_TYPE_VALUE 118
#define ETW_DATETIME_TYPE_VALUE 119
#define ETW_REFRENCE_TYPE_VALUE 120
typedef struct _MOF_FIELD {
    ULONG64 DataPtr;
    ULONG Length;
    ULONG DataType;
} MOF_FIELD, *PMOF_FIELD;

#define DEFINE_TRACE_MOF_FIELD(MOF, ptr, length, type) \
    (MOF)->DataPtr = (ULONG64)(ULONG_PTR)(ptr);         \
    (MOF)->Length = (ULONG)(length);                    \
    (MOF)->DataType = (ULONG)(type);

typedef struct _EVENT_INSTANCE_INFO {
    HANDLE RegHandle;
    ULONG InstanceId;
} EVENT_INSTANCE_INFO, *PEVENT_INSTANCE_INFO;

/* The payload of the first event of a trace, which describes the trace. */
typedef struct _TRACE_LOGFILE_HEADER {
    ULONG BufferSize;
    __extension__ union {
        ULONG Version;
        struct {
            UCHAR MajorVersion;
            UCHAR MinorVersion;
            UCHAR SubVersion;
            UCHAR SubMinorVersion;
        } VersionDetail;
    };
    ULONG ProviderVersion;
    ULONG NumberOfProcessors;
    LARGE_INTEGER EndTime;
    ULONG TimerResolution;
    ULONG MaximumFileSize;
    ULONG LogFileMode;
    ULONG BuffersWritten;
    __extension__ union {
        GUID LogInstanceGuid;
        __extension__ struct {
            ULONG StartBuffers;
            ULONG PointerSize;
            ULONG EventsLost;
            ULONG CpuSpeedInMHz;
        };
    };
    LPWSTR LoggerName;
    LPWSTR LogFileName;
    TIME_ZONE_INFORMATION TimeZone;
    LARGE_INTEGER BootTime;
    LARGE_INTEGER PerfFreq;
    LARGE_INTEGER StartTime;
    ULONG ReservedFlags; /* The clock: 1 performance counter, 2 system time, 3 CPU cycles */
    ULONG BuffersLost;
} TRACE_LOGFILE_HEADER, *PTRACE_LOGFILE_HEADER;

/* The layout in a trace whose session had pointers of 32 bits. */
typedef struct _TRACE_LOGFILE_HEADER32 {
    ULONG BufferSize;
    __extension__ union {
        ULONG Version;
        struct {
            UCHAR MajorVersion;
            UCHAR MinorVersion;
            UCHAR SubVersion;
            UCHAR SubMinorVersion;
        } VersionDetail;
    };
    ULONG ProviderVersion;
    ULONG NumberOfProcessors;
    LARGE_INTEGER EndTime;
    ULONG TimerResolution;
    ULONG MaximumFileSize;
    ULONG LogFileMode;
    ULONG BuffersWritten;
    __extension__ union {
        GUID LogInstanceGuid;
        __extension__ struct {
            ULONG StartBuffers;
            ULONG PointerSize;
            ULONG EventsLost;
            ULONG CpuSpeedInMHz;
        };
    };
    ULONG LoggerName;
    ULONG LogFileName;
    TIME_ZONE_INFORMATION TimeZone;
    LARGE_INTEGER BootTime;
    LARGE_INTEGER PerfFreq;
    LARGE_INTEGER StartTime;
    ULONG ReservedFlags;
    ULONG BuffersLost;
} TRACE_LOGFILE_HEADER32, *PTRACE_LOGFILE_HEADER32;

/* The layout in a trace whose session had pointers of 64 bits. */
typedef struct _TRACE_LOGFILE_HEADER64 {
    ULONG BufferSize;
    __extension__ union {
        ULONG Version;
        struct {
            UCHAR MajorVersion;
            UCHAR MinorVersion;
            UCHAR SubVersion;
            UCHAR SubMinorVersion;
        } VersionDetail;
    };
    ULONG ProviderVersion;
    ULONG NumberOfProcessors;
    LARGE_INTEGER EndTime;
    ULONG TimerResolution;
    ULONG MaximumFileSize;
    ULONG LogFileMode;
    ULONG BuffersWritten;
    __extension__ union {
        GUID LogInstanceGuid;
        __extension__ struct {
            ULONG StartBuffers;
            ULONG PointerSize;
            ULONG EventsLost;
            ULONG CpuSpeedInMHz;
        };
    };
    ULONG64 LoggerName;
    ULONG64 LogFileName;
    TIME_ZONE_INFORMATION TimeZone;
    LARGE_INTEGER BootTime;
    LARGE_INTEGER PerfFreq;
    LARGE_INTEGER StartTime;
    ULONG ReservedFlags;
    ULONG BuffersLost;
} TRACE_LOGFILE_HEADER64, *PTRACE_LOGFILE_HEADER64;

/* Settings and statistics of a session. The names of the session and of its file follow the structure, at the two offsets. */
typedef struct _EVENT_TRACE_PROPERTIES {
    WNODE_HEADER Wnode;
    ULONG BufferSize; /* KB */
    ULONG MinimumBuffers;
    ULONG MaximumBuffers;
    ULONG MaximumFileSize; /* MB */
    ULONG LogFileMode;
    ULONG FlushTimer; /* Seconds */
    ULONG EnableFlags;
    __extension__ union {
        LONG AgeLimit;
        LONG FlushThreshold;
    };
    ULONG NumberOfBuffers;
    ULONG FreeBuffers;
    ULONG EventsLost;
    ULONG BuffersWritten;
    ULONG LogBuffersLost;
    ULONG RealTimeBuffersLost;
    HANDLE LoggerThreadId;
    ULONG LogFileNameOffset;
    ULONG LoggerNameOffset;
} EVENT_TRACE_PROPERTIES, *PEVENT_TRACE_PROPERTIES;

/* Version 2 of the properties; Wnode.Flags contains WNODE_FLAG_VERSIONED_PROPERTIES. */
typedef struct _EVENT_TRACE_PROPERTIES_V2 {
    WNODE_HEADER Wnode;
    ULONG BufferSize;
    ULONG MinimumBuffers;
    ULONG MaximumBuffers;
    ULONG MaximumFileSize;
    ULONG LogFileMode;
    ULONG FlushTimer;
    ULONG EnableFlags;
    __extension__ union {
        LONG AgeLimit;
        LONG FlushThreshold;
    };
    ULONG NumberOfBuffers;
    ULONG FreeBuffers;
    ULONG EventsLost;
    ULONG BuffersWritten;
    ULONG LogBuffersLost;
    ULONG RealTimeBuffersLost;
    HANDLE LoggerThreadId;
    ULONG LogFileNameOffset;
    ULONG LoggerNameOffset;
    __extension__ union {
        __extension__ struct {
            ULONG VersionNumber : 8;
        };
        ULONG V2Control;
    };
    ULONG FilterDescCount;
    PEVENT_FILTER_DESCRIPTOR FilterDesc;
    __extension__ union {
        __extension__ struct {
            ULONG Wow : 1;
            ULONG QpcDeltaTracking : 1;
            ULONG LargeMdlPages : 1;
            ULONG ExcludeKernelStack : 1;
        };
        ULONG64 V2Options;
    };
} EVENT_TRACE_PROPERTIES_V2, *PEVENT_TRACE_PROPERTIES_V2;

typedef struct _TRACE_GUID_REGISTRATION {
    LPCGUID Guid;
    HANDLE RegHandle;
} TRACE_GUID_REGISTRATION, *PTRACE_GUID_REGISTRATION;

typedef struct _TRACE_GUID_PROPERTIES {
    GUID Guid;
    ULONG GuidType;
    ULONG LoggerId;
    ULONG EnableLevel;
    ULONG EnableFlags;
    BOOLEAN IsEnable;
} TRACE_GUID_PROPERTIES, *PTRACE_GUID_PROPERTIES;

/* The processor and the session that recorded an event. */
#ifndef ETW_BUFFER_CONTEXT_DEF
#define ETW_BUFFER_CONTEXT_DEF
typedef struct _ETW_BUFFER_CONTEXT {
    __extension__ union {
        __extension__ struct {
            UCHAR ProcessorNumber;
            UCHAR Alignment;
        };
        USHORT ProcessorIndex; /* EVENT_HEADER_FLAG_PROCESSOR_INDEX */
    };
    USHORT LoggerId;
} ETW_BUFFER_CONTEXT, *PETW_BUFFER_CONTEXT;
#endif

typedef struct _TRACE_ENABLE_INFO {
    ULONG IsEnabled;
    UCHAR Level;
    UCHAR Reserved1;
    USHORT LoggerId;
    ULONG EnableProperty;
    ULONG Reserved2;
    ULONGLONG MatchAnyKeyword;
    ULONGLONG MatchAllKeyword;
} TRACE_ENABLE_INFO, *PTRACE_ENABLE_INFO;

typedef struct _TRACE_PROVIDER_INSTANCE_INFO {
    ULONG NextOffset;
    ULONG EnableCount;
    ULONG Pid;
    ULONG Flags;
} TRACE_PROVIDER_INSTANCE_INFO, *PTRACE_PROVIDER_INSTANCE_INFO;

typedef struct _TRACE_GUID_INFO {
    ULONG InstanceCount;
    ULONG Reserved;
} TRACE_GUID_INFO, *PTRACE_GUID_INFO;

typedef struct _ENABLE_TRACE_PARAMETERS_V1 {
    ULONG Version;
    ULONG EnableProperty;
    ULONG ControlFlags;
    GUID SourceId;
    PEVENT_FILTER_DESCRIPTOR EnableFilterDesc;
} ENABLE_TRACE_PARAMETERS_V1, *PENABLE_TRACE_PARAMETERS_V1;

typedef struct _ENABLE_TRACE_PARAMETERS {
    ULONG Version;
    ULONG EnableProperty;
    ULONG ControlFlags;
    GUID SourceId;
    PEVENT_FILTER_DESCRIPTOR EnableFilterDesc;
    ULONG FilterDescCount;
} ENABLE_TRACE_PARAMETERS, *PENABLE_TRACE_PARAMETERS;

/* Data of the filters EVENT_FILTER_TYPE_EVENT_ID, ..._EVENT_NAME and ..._STACKWALK_LEVEL_KW. */
typedef struct _EVENT_FILTER_EVENT_ID {
    BOOLEAN FilterIn;
    UCHAR Reserved;
    USHORT Count;
    USHORT Events[1];
} EVENT_FILTER_EVENT_ID, *PEVENT_FILTER_EVENT_ID;

typedef struct _EVENT_FILTER_EVENT_NAME {
    ULONGLONG MatchAnyKeyword;
    ULONGLONG MatchAllKeyword;
    UCHAR Level;
    BOOLEAN FilterIn;
    USHORT NameCount;
    UCHAR Names[1];
} EVENT_FILTER_EVENT_NAME, *PEVENT_FILTER_EVENT_NAME;

typedef struct _EVENT_FILTER_LEVEL_KW {
    ULONGLONG MatchAnyKeyword;
    ULONGLONG MatchAllKeyword;
    UCHAR Level;
    BOOLEAN FilterIn;
} EVENT_FILTER_LEVEL_KW, *PEVENT_FILTER_LEVEL_KW;

typedef enum _TRACE_QUERY_INFO_CLASS {
    TraceGuidQueryList = 0,
    TraceGuidQueryInfo = 1,
    TraceGuidQueryProcess = 2,
    TraceStackTracingInfo = 3,
    TraceSystemTraceEnableFlagsInfo = 4,
    TraceSampledProfileIntervalInfo = 5,
    TraceProfileSourceConfigInfo = 6,
    TraceProfileSourceListInfo = 7,
    TracePmcEventListInfo = 8,
    TracePmcCounterListInfo = 9,
    TraceSetDisallowList = 10,
    TraceVersionInfo = 11,
    TraceGroupQueryList = 12,
    TraceGroupQueryInfo = 13,
    TraceDisallowListQuery = 14,
    TraceInfoReserved15 = 15,
    TracePeriodicCaptureStateListInfo = 16,
    TracePeriodicCaptureStateInfo = 17,
    TraceProviderBinaryTracking = 18,
    TraceMaxLoggersQuery = 19,
    TraceLbrConfigurationInfo = 20,
    TraceLbrEventListInfo = 21,
    TraceMaxPmcCounterQuery = 22,
    TraceStreamCount = 23,
    TraceStackCachingInfo = 24,
    TracePmcCounterOwners = 25,
    TraceUnifiedStackCachingInfo = 26,
    TracePmcSessionInformation = 27,
    MaxTraceSetInfoClass = 28
} TRACE_QUERY_INFO_CLASS, TRACE_INFO_CLASS;

typedef struct _CLASSIC_EVENT_ID {
    GUID EventGuid;
    UCHAR Type;
    UCHAR Reserved[7];
} CLASSIC_EVENT_ID, *PCLASSIC_EVENT_ID;

typedef struct _TRACE_VERSION_INFO {
    UINT32 EtwTraceProcessingVersion;
    UINT32 Reserved;
} TRACE_VERSION_INFO, *PTRACE_VERSION_INFO;

typedef struct _TRACE_PERIODIC_CAPTURE_STATE_INFO {
    ULONG CaptureStateFrequencyInSeconds;
    USHORT ProviderCount;
    USHORT Reserved;
} TRACE_PERIODIC_CAPTURE_STATE_INFO, *PTRACE_PERIODIC_CAPTURE_STATE_INFO;

typedef struct _TRACE_PROFILE_INTERVAL {
    ULONG Source;
    ULONG Interval;
} TRACE_PROFILE_INTERVAL, *PTRACE_PROFILE_INTERVAL;

typedef struct _TRACE_STACK_CACHING_INFO {
    BOOLEAN Enabled;
    ULONG CacheSize;
    ULONG BucketCount;
} TRACE_STACK_CACHING_INFO, *PTRACE_STACK_CACHING_INFO;

typedef struct _PROFILE_SOURCE_INFO {
    ULONG NextEntryOffset;
    ULONG Source;
    ULONG MinInterval;
    ULONG MaxInterval;
    ULONG64 Reserved;
    WCHAR Description[1];
} PROFILE_SOURCE_INFO, *PPROFILE_SOURCE_INFO;

/* The form of an event that the older callback receives. */
typedef struct _EVENT_TRACE {
    EVENT_TRACE_HEADER Header;
    ULONG InstanceId;
    ULONG ParentInstanceId;
    GUID ParentGuid;
    PVOID MofData;
    ULONG MofLength;
    __extension__ union {
        ULONG ClientContext;
        ETW_BUFFER_CONTEXT BufferContext;
    };
} EVENT_TRACE, *PEVENT_TRACE;

struct _EVENT_RECORD;
struct _EVENT_TRACE_LOGFILEW;
struct _EVENT_TRACE_LOGFILEA;

typedef VOID(WINAPI *PEVENT_CALLBACK)(PEVENT_TRACE pEvent);
#ifndef ETW_EVENT_RECORD_CALLBACK
#define ETW_EVENT_RECORD_CALLBACK
typedef VOID(WINAPI *PEVENT_RECORD_CALLBACK)(struct _EVENT_RECORD *EventRecord);
#endif
/* If the callback returns FALSE, ProcessTrace ends. */
typedef ULONG(WINAPI *PEVENT_TRACE_BUFFER_CALLBACKW)(struct _EVENT_TRACE_LOGFILEW *Logfile);
typedef ULONG(WINAPI *PEVENT_TRACE_BUFFER_CALLBACKA)(struct _EVENT_TRACE_LOGFILEA *Logfile);

/* OpenTrace opens this trace, and fills in what it contains. */
typedef struct _EVENT_TRACE_LOGFILEW {
    LPWSTR LogFileName;
    LPWSTR LoggerName;
    LONGLONG CurrentTime;
    ULONG BuffersRead;
    __extension__ union {
        ULONG LogFileMode;
        ULONG ProcessTraceMode;
    };
    EVENT_TRACE CurrentEvent;
    TRACE_LOGFILE_HEADER LogfileHeader;
    PEVENT_TRACE_BUFFER_CALLBACKW BufferCallback;
    ULONG BufferSize;
    ULONG Filled;
    ULONG EventsLost;
    __extension__ union {
        PEVENT_CALLBACK EventCallback;
        PEVENT_RECORD_CALLBACK EventRecordCallback;
    };
    ULONG IsKernelTrace;
    PVOID Context;
} EVENT_TRACE_LOGFILEW, *PEVENT_TRACE_LOGFILEW;

typedef struct _EVENT_TRACE_LOGFILEA {
    LPSTR LogFileName;
    LPSTR LoggerName;
    LONGLONG CurrentTime;
    ULONG BuffersRead;
    __extension__ union {
        ULONG LogFileMode;
        ULONG ProcessTraceMode;
    };
    EVENT_TRACE CurrentEvent;
    TRACE_LOGFILE_HEADER LogfileHeader;
    PEVENT_TRACE_BUFFER_CALLBACKA BufferCallback;
    ULONG BufferSize;
    ULONG Filled;
    ULONG EventsLost;
    __extension__ union {
        PEVENT_CALLBACK EventCallback;
        PEVENT_RECORD_CALLBACK EventRecordCallback;
    };
    ULONG IsKernelTrace;
    PVOID Context;
} EVENT_TRACE_LOGFILEA, *PEVENT_TRACE_LOGFILEA;

/* The callback of a classic provider, which the library calls when sessions enable and disable it. */
typedef ULONG(WINAPI *WMIDPREQUEST)(WMIDPREQUESTCODE RequestCode, PVOID RequestContext,
                                    ULONG *BufferSize, PVOID Buffer);

/* Windows 11: a trace is opened with options. BufferCallback must be NULL (else: ERROR_NOT_SUPPORTED). */
typedef enum ETW_PROCESS_TRACE_MODES {
    ETW_PROCESS_TRACE_MODE_NONE = 0x00000000,
    ETW_PROCESS_TRACE_MODE_RAW_TIMESTAMP = 0x00000001
} ETW_PROCESS_TRACE_MODES;
typedef struct _ETW_BUFFER_HEADER {
    ULONG Reserved1[4];
    LARGE_INTEGER TimeStamp;
    ULONG Reserved2[4];
    ETW_BUFFER_CONTEXT ClientContext;
    ULONG Reserved3;
    ULONG FilledBytes;
    ULONG Reserved4[5];
} ETW_BUFFER_HEADER, *PETW_BUFFER_HEADER;
typedef struct _ETW_BUFFER_CALLBACK_INFORMATION {
    TRACEHANDLE TraceHandle;
    const TRACE_LOGFILE_HEADER *LogfileHeader;
    ULONG BuffersRead;
} ETW_BUFFER_CALLBACK_INFORMATION;
typedef BOOL(WINAPI *PETW_BUFFER_CALLBACK)(const ETW_BUFFER_HEADER *Buffer, ULONG BufferSize,
                                           const ETW_BUFFER_CALLBACK_INFORMATION *ConsumerInfo, void *CallbackContext);
typedef VOID(WINAPI *PETW_BUFFER_COMPLETION_CALLBACK)(const ETW_BUFFER_HEADER *Buffer, void *CallbackContext);
typedef struct ETW_OPEN_TRACE_OPTIONS {
    ETW_PROCESS_TRACE_MODES ProcessTraceModes;
    PEVENT_RECORD_CALLBACK EventCallback;
    void *EventCallbackContext;
    PETW_BUFFER_CALLBACK BufferCallback;
    void *BufferCallbackContext;
} ETW_OPEN_TRACE_OPTIONS;

/* QueryTraceProcessingHandle has EtwQueryLogFileHeader. */
typedef enum _ETW_PROCESS_HANDLE_INFO_TYPE {
    EtwQueryPartitionInformation = 1,
    EtwQueryPartitionInformationV2 = 2,
    EtwQueryLastDroppedTimes = 3,
    EtwQueryLogFileHeader = 4,
    EtwQueryProcessHandleInfoMax = 5
} ETW_PROCESS_HANDLE_INFO_TYPE;

#ifdef __cplusplus
extern "C" {
#endif

/* Consumers */
TRACEHANDLE WINAPI OpenTraceFromFile(LPCWSTR LogFileName, const ETW_OPEN_TRACE_OPTIONS *Options,
                                     TRACE_LOGFILE_HEADER *LogFileHeader);
TRACEHANDLE WINAPI OpenTraceFromRealTimeLogger(LPCWSTR LoggerName, const ETW_OPEN_TRACE_OPTIONS *Options,
                                               TRACE_LOGFILE_HEADER *LogFileHeader);
TRACEHANDLE WINAPI OpenTraceFromRealTimeLoggerWithAllocationOptions(LPCWSTR LoggerName, const ETW_OPEN_TRACE_OPTIONS *Options,
                                                                    ULONG_PTR AllocationSize, HANDLE MemoryPartitionHandle,
                                                                    TRACE_LOGFILE_HEADER *LogFileHeader);
/* Not supported: ERROR_NOT_SUPPORTED. */
TRACEHANDLE WINAPI OpenTraceFromBufferStream(const ETW_OPEN_TRACE_OPTIONS *Options,
                                             PETW_BUFFER_COMPLETION_CALLBACK BufferCompletionCallback,
                                             void *BufferCompletionContext);
ULONG WINAPI QueryTraceProcessingHandle(TRACEHANDLE ProcessingHandle, ETW_PROCESS_HANDLE_INFO_TYPE InformationClass, PVOID InBuffer,
                                        ULONG InBufferSize, PVOID OutBuffer, ULONG OutBufferSize, PULONG ReturnLength);
TRACEHANDLE WINAPI OpenTraceW(PEVENT_TRACE_LOGFILEW Logfile);
TRACEHANDLE WINAPI OpenTraceA(PEVENT_TRACE_LOGFILEA Logfile);
ULONG WINAPI ProcessTrace(PTRACEHANDLE HandleArray, ULONG HandleCount, LPFILETIME StartTime,
                          LPFILETIME EndTime);
ULONG WINAPI CloseTrace(TRACEHANDLE TraceHandle);

/* Controllers */
ULONG WINAPI StartTraceW(PTRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                         PEVENT_TRACE_PROPERTIES Properties);
ULONG WINAPI StartTraceA(PTRACEHANDLE TraceHandle, LPCSTR InstanceName,
                         PEVENT_TRACE_PROPERTIES Properties);
ULONG WINAPI StopTraceW(TRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                        PEVENT_TRACE_PROPERTIES Properties);
ULONG WINAPI StopTraceA(TRACEHANDLE TraceHandle, LPCSTR InstanceName,
                        PEVENT_TRACE_PROPERTIES Properties);
ULONG WINAPI QueryTraceW(TRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                         PEVENT_TRACE_PROPERTIES Properties);
ULONG WINAPI QueryTraceA(TRACEHANDLE TraceHandle, LPCSTR InstanceName,
                         PEVENT_TRACE_PROPERTIES Properties);
ULONG WINAPI UpdateTraceW(TRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                          PEVENT_TRACE_PROPERTIES Properties);
ULONG WINAPI UpdateTraceA(TRACEHANDLE TraceHandle, LPCSTR InstanceName,
                          PEVENT_TRACE_PROPERTIES Properties);
ULONG WINAPI FlushTraceW(TRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                         PEVENT_TRACE_PROPERTIES Properties);
ULONG WINAPI FlushTraceA(TRACEHANDLE TraceHandle, LPCSTR InstanceName,
                         PEVENT_TRACE_PROPERTIES Properties);
ULONG WINAPI ControlTraceW(TRACEHANDLE TraceHandle, LPCWSTR InstanceName,
                           PEVENT_TRACE_PROPERTIES Properties, ULONG ControlCode);
ULONG WINAPI ControlTraceA(TRACEHANDLE TraceHandle, LPCSTR InstanceName,
                           PEVENT_TRACE_PROPERTIES Properties, ULONG ControlCode);
ULONG WINAPI QueryAllTracesW(PEVENT_TRACE_PROPERTIES *PropertyArray, ULONG PropertyArrayCount,
                             PULONG LoggerCount);
ULONG WINAPI QueryAllTracesA(PEVENT_TRACE_PROPERTIES *PropertyArray, ULONG PropertyArrayCount,
                             PULONG LoggerCount);
ULONG WINAPI EnableTrace(ULONG Enable, ULONG EnableFlag, ULONG EnableLevel, LPCGUID ControlGuid,
                         TRACEHANDLE TraceHandle);
ULONG WINAPI EnableTraceEx(LPCGUID ProviderId, LPCGUID SourceId, TRACEHANDLE TraceHandle,
                           ULONG IsEnabled, UCHAR Level, ULONGLONG MatchAnyKeyword,
                           ULONGLONG MatchAllKeyword, ULONG EnableProperty,
                           PEVENT_FILTER_DESCRIPTOR EnableFilterDesc);
ULONG WINAPI EnableTraceEx2(TRACEHANDLE TraceHandle, LPCGUID ProviderId, ULONG ControlCode,
                            UCHAR Level, ULONGLONG MatchAnyKeyword, ULONGLONG MatchAllKeyword,
                            ULONG Timeout, PENABLE_TRACE_PARAMETERS EnableParameters);
ULONG WINAPI TraceSetInformation(TRACEHANDLE SessionHandle, TRACE_INFO_CLASS InformationClass,
                                 PVOID TraceInformation, ULONG InformationLength);
ULONG WINAPI TraceQueryInformation(TRACEHANDLE SessionHandle, TRACE_INFO_CLASS InformationClass,
                                   PVOID TraceInformation, ULONG InformationLength,
                                   PULONG ReturnLength);
ULONG WINAPI EnumerateTraceGuids(PTRACE_GUID_PROPERTIES *GuidPropertiesArray,
                                 ULONG PropertyArrayCount, PULONG GuidCount);
ULONG WINAPI EnumerateTraceGuidsEx(TRACE_QUERY_INFO_CLASS TraceQueryInfoClass, PVOID InBuffer,
                                   ULONG InBufferSize, PVOID OutBuffer, ULONG OutBufferSize,
                                   PULONG ReturnLength);

/* Classic providers. RegisterTraceGuids ignores MOF images and resources. If a session enabled the provider before, RegisterTraceGuids calls
 * the callback and returns its result; the provider is registered even if that is an error. */
ULONG WINAPI RegisterTraceGuidsW(WMIDPREQUEST RequestAddress, PVOID RequestContext,
                                 LPCGUID ControlGuid, ULONG GuidCount,
                                 PTRACE_GUID_REGISTRATION TraceGuidReg, LPCWSTR MofImagePath,
                                 LPCWSTR MofResourceName, PTRACEHANDLE RegistrationHandle);
ULONG WINAPI RegisterTraceGuidsA(WMIDPREQUEST RequestAddress, PVOID RequestContext,
                                 LPCGUID ControlGuid, ULONG GuidCount,
                                 PTRACE_GUID_REGISTRATION TraceGuidReg, LPCSTR MofImagePath,
                                 LPCSTR MofResourceName, PTRACEHANDLE RegistrationHandle);
ULONG WINAPI UnregisterTraceGuids(TRACEHANDLE RegistrationHandle);
TRACEHANDLE WINAPI GetTraceLoggerHandle(PVOID Buffer);
UCHAR WINAPI GetTraceEnableLevel(TRACEHANDLE TraceHandle);
ULONG WINAPI GetTraceEnableFlags(TRACEHANDLE TraceHandle);
ULONG WINAPI TraceEvent(TRACEHANDLE TraceHandle, PEVENT_TRACE_HEADER EventTrace);
ULONG WINAPI TraceEventInstance(TRACEHANDLE TraceHandle, PEVENT_INSTANCE_HEADER EventTrace,
                                PEVENT_INSTANCE_INFO InstInfo,
                                PEVENT_INSTANCE_INFO ParentInstInfo);
ULONG WINAPI CreateTraceInstanceId(HANDLE RegHandle, PEVENT_INSTANCE_INFO InstInfo);
/* The arguments are up to 128 pairs of an address and a size_t, and then NULL. Each session numbers its messages from 1. */
ULONG TraceMessage(TRACEHANDLE LoggerHandle, ULONG MessageFlags, LPCGUID MessageGuid,
                   USHORT MessageNumber, ...);
ULONG TraceMessageVa(TRACEHANDLE LoggerHandle, ULONG MessageFlags, LPCGUID MessageGuid,
                     USHORT MessageNumber, va_list MessageArgList);

/* The same calls with names of wchar_t. */
static inline ULONG etw_start_trace_wide(PTRACEHANDLE Handle, const wchar_t *Name,
                                         PEVENT_TRACE_PROPERTIES Properties)
{
    WCHAR units[ETW_NAME_UNITS];
    return StartTraceW(Handle, etw_name_of_wide(units, Name), Properties);
}
static inline ULONG etw_control_trace_wide(TRACEHANDLE Handle, const wchar_t *Name,
                                           PEVENT_TRACE_PROPERTIES Properties, ULONG Code)
{
    WCHAR units[ETW_NAME_UNITS];
    return ControlTraceW(Handle, etw_name_of_wide(units, Name), Properties, Code);
}
static inline ULONG etw_stop_trace_wide(TRACEHANDLE Handle, const wchar_t *Name,
                                        PEVENT_TRACE_PROPERTIES Properties)
{
    return etw_control_trace_wide(Handle, Name, Properties, EVENT_TRACE_CONTROL_STOP);
}
static inline ULONG etw_query_trace_wide(TRACEHANDLE Handle, const wchar_t *Name,
                                         PEVENT_TRACE_PROPERTIES Properties)
{
    return etw_control_trace_wide(Handle, Name, Properties, EVENT_TRACE_CONTROL_QUERY);
}
static inline ULONG etw_update_trace_wide(TRACEHANDLE Handle, const wchar_t *Name,
                                          PEVENT_TRACE_PROPERTIES Properties)
{
    return etw_control_trace_wide(Handle, Name, Properties, EVENT_TRACE_CONTROL_UPDATE);
}
static inline ULONG etw_flush_trace_wide(TRACEHANDLE Handle, const wchar_t *Name,
                                         PEVENT_TRACE_PROPERTIES Properties)
{
    return etw_control_trace_wide(Handle, Name, Properties, EVENT_TRACE_CONTROL_FLUSH);
}
static inline ULONG etw_register_trace_guids_wide(WMIDPREQUEST Address, PVOID Context,
                                                  LPCGUID Control, ULONG Count,
                                                  PTRACE_GUID_REGISTRATION Guids,
                                                  const wchar_t *Image, const wchar_t *Resource,
                                                  PTRACEHANDLE Handle)
{
    WCHAR image[ETW_NAME_UNITS], resource[ETW_NAME_UNITS];
    return RegisterTraceGuidsW(Address, Context, Control, Count, Guids,
                               etw_name_of_wide(image, Image),
                               etw_name_of_wide(resource, Resource), Handle);
}

#ifdef __cplusplus
}
extern "C++" {
template <typename Unit>
inline typename etw_wide<Unit>::status StartTraceW(PTRACEHANDLE TraceHandle,
                                                   const Unit *InstanceName,
                                                   PEVENT_TRACE_PROPERTIES Properties)
{
    return etw_start_trace_wide(TraceHandle, InstanceName, Properties);
}
template <typename Unit>
inline typename etw_wide<Unit>::status ControlTraceW(TRACEHANDLE TraceHandle,
                                                     const Unit *InstanceName,
                                                     PEVENT_TRACE_PROPERTIES Properties,
                                                     ULONG ControlCode)
{
    return etw_control_trace_wide(TraceHandle, InstanceName, Properties, ControlCode);
}
template <typename Unit>
inline typename etw_wide<Unit>::status StopTraceW(TRACEHANDLE TraceHandle, const Unit *InstanceName,
                                              PEVENT_TRACE_PROPERTIES Properties)
{
    return etw_stop_trace_wide(TraceHandle, InstanceName, Properties);
}
template <typename Unit>
inline typename etw_wide<Unit>::status QueryTraceW(TRACEHANDLE TraceHandle, const Unit *InstanceName,
                                              PEVENT_TRACE_PROPERTIES Properties)
{
    return etw_query_trace_wide(TraceHandle, InstanceName, Properties);
}
template <typename Unit>
inline typename etw_wide<Unit>::status UpdateTraceW(TRACEHANDLE TraceHandle, const Unit *InstanceName,
                                              PEVENT_TRACE_PROPERTIES Properties)
{
    return etw_update_trace_wide(TraceHandle, InstanceName, Properties);
}
template <typename Unit>
inline typename etw_wide<Unit>::status FlushTraceW(TRACEHANDLE TraceHandle, const Unit *InstanceName,
                                              PEVENT_TRACE_PROPERTIES Properties)
{
    return etw_flush_trace_wide(TraceHandle, InstanceName, Properties);
}
template <typename Unit>
inline typename etw_wide<Unit>::status
RegisterTraceGuidsW(WMIDPREQUEST RequestAddress, PVOID RequestContext, LPCGUID ControlGuid,
                    ULONG GuidCount, PTRACE_GUID_REGISTRATION TraceGuidReg,
                    const Unit *MofImagePath, const Unit *MofResourceName,
                    PTRACEHANDLE RegistrationHandle)
{
    return etw_register_trace_guids_wide(RequestAddress, RequestContext, ControlGuid, GuidCount,
                                         TraceGuidReg, MofImagePath, MofResourceName,
                                         RegistrationHandle);
}
}
#elif __SIZEOF_WCHAR_T__ == 4
#define StartTraceW(TraceHandle, InstanceName, Properties)         \
    ETW_BY_NAME(InstanceName, StartTraceW, etw_start_trace_wide)( \
        TraceHandle, InstanceName, Properties)
#define ControlTraceW(TraceHandle, InstanceName, Properties, ControlCode) \
    ETW_BY_NAME(InstanceName, ControlTraceW, etw_control_trace_wide)(    \
        TraceHandle, InstanceName, Properties, ControlCode)
#define StopTraceW(TraceHandle, InstanceName, Properties)        \
    ETW_BY_NAME(InstanceName, StopTraceW, etw_stop_trace_wide)( \
        TraceHandle, InstanceName, Properties)
#define QueryTraceW(TraceHandle, InstanceName, Properties)         \
    ETW_BY_NAME(InstanceName, QueryTraceW, etw_query_trace_wide)( \
        TraceHandle, InstanceName, Properties)
#define UpdateTraceW(TraceHandle, InstanceName, Properties)          \
    ETW_BY_NAME(InstanceName, UpdateTraceW, etw_update_trace_wide)( \
        TraceHandle, InstanceName, Properties)
#define FlushTraceW(TraceHandle, InstanceName, Properties)         \
    ETW_BY_NAME(InstanceName, FlushTraceW, etw_flush_trace_wide)( \
        TraceHandle, InstanceName, Properties)
/* Both names have the same type, or are NULL. */
#define RegisterTraceGuidsW(RequestAddress, RequestContext, ControlGuid, GuidCount, TraceGuidReg, \
                            MofImagePath, MofResourceName, RegistrationHandle)                    \
    ETW_BY_NAME(MofImagePath, RegisterTraceGuidsW, etw_register_trace_guids_wide)(               \
        RequestAddress, RequestContext, ControlGuid, GuidCount, TraceGuidReg, MofImagePath,       \
        MofResourceName, RegistrationHandle)
#endif

#ifdef UNICODE
#define KERNEL_LOGGER_NAME KERNEL_LOGGER_NAMEW
#define GLOBAL_LOGGER_NAME GLOBAL_LOGGER_NAMEW
#define EVENT_LOGGER_NAME EVENT_LOGGER_NAMEW
#define EVENT_TRACE_LOGFILE EVENT_TRACE_LOGFILEW
#define PEVENT_TRACE_LOGFILE PEVENT_TRACE_LOGFILEW
#define PEVENT_TRACE_BUFFER_CALLBACK PEVENT_TRACE_BUFFER_CALLBACKW
#define OpenTrace OpenTraceW
#define StartTrace StartTraceW
#define ControlTrace ControlTraceW
#define StopTrace StopTraceW
#define QueryTrace QueryTraceW
#define UpdateTrace UpdateTraceW
#define FlushTrace FlushTraceW
#define QueryAllTraces QueryAllTracesW
#define RegisterTraceGuids RegisterTraceGuidsW
#else
#define KERNEL_LOGGER_NAME KERNEL_LOGGER_NAMEA
#define GLOBAL_LOGGER_NAME GLOBAL_LOGGER_NAMEA
#define EVENT_LOGGER_NAME EVENT_LOGGER_NAMEA
#define EVENT_TRACE_LOGFILE EVENT_TRACE_LOGFILEA
#define PEVENT_TRACE_LOGFILE PEVENT_TRACE_LOGFILEA
#define PEVENT_TRACE_BUFFER_CALLBACK PEVENT_TRACE_BUFFER_CALLBACKA
#define OpenTrace OpenTraceA
#define StartTrace StartTraceA
#define ControlTrace ControlTraceA
#define StopTrace StopTraceA
#define QueryTrace QueryTraceA
#define UpdateTrace UpdateTraceA
#define FlushTrace FlushTraceA
#define QueryAllTraces QueryAllTracesA
#define RegisterTraceGuids RegisterTraceGuidsA
#endif

#endif
