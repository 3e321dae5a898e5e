//! Layouts and constants of the consumer headers, compared with `windows-sys`.

use std::collections::HashMap;
use std::fmt::Write;
use std::mem::offset_of;
use std::process::Command;

use windows_sys::Win32::Foundation as win32;
use windows_sys::Win32::System::Diagnostics::Etw as sdk;
use windows_sys::Win32::System::Time as time;

use crate::support::*;

/// A C expression and its expected value.
type Facts = Vec<(String, u64)>;

/// Sizes, offsets and constants of evntrace.h, evntcons.h and tdh.h are those of the Windows SDK, as `windows-sys` has them: a table of
/// cases, of which the C program is made. OV-12: classic providers' among them.
#[test]
fn consumer_headers_agree_with_windows_sys() {
    let mut facts = session_structures();
    facts.extend(record_structures());
    facts.extend(status_and_node_constants());
    facts.extend(event_type_constants());
    facts.extend(session_constants());
    facts.extend(record_constants());
    facts.extend(guids());
    let mut program = String::from(
        "#define INITGUID\n#include <evntrace.h>\n#include <evntcons.h>\n#include <tdh.h>\n#include <stdio.h>\nint main(void)\n{\n",
    );
    for (number, (expression, _)) in facts.iter().enumerate() {
        let _ = writeln!(
            program,
            "    printf(\"{number} %llu\\n\", (unsigned long long)({expression}));"
        );
    }
    program += "    return 0;\n}\n";
    let mut ran = 0;
    for (number, compiler) in COMPILERS.into_iter().enumerate() {
        let folder = Folder::new(&format!("consumer-layouts-{number}"));
        let source = folder.0.join("layouts.c");
        std::fs::write(&source, &program).unwrap();
        let Some(program) = compile_file(&folder, &source, compiler) else { continue };
        let output = Command::new(program).output().unwrap();
        let found: HashMap<usize, u64> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .map(|(number, value)| (number.parse().unwrap(), value.parse().unwrap()))
            .collect();
        assert_eq!(found.len(), facts.len());
        for (number, (expression, value)) in facts.iter().enumerate() {
            // Enumerators are signed in C.
            assert_eq!(found[&number] as u32, *value as u32, "{expression} {compiler:?}");
        }
        ran += 1;
    }
    assert!(ran > 0, "no C compiler is installed");
}

/// A field has the same name in both, or is written as: the name in C = the path in windows-sys.
macro_rules! layouts {
    ($facts:ident; $($module:ident::$of:ident: $($field:ident $(.$part:ident)* $(= $($path:ident).+)?),*;)*) => {
        $(
            $facts.push((concat!("sizeof(", stringify!($of), ")").into(), size_of::<$module::$of>() as u64));
            $($facts.push((
                concat!("offsetof(", stringify!($of), ", ", stringify!($field $(.$part)*), ")").into(),
                layouts!(@offset $module::$of, [$field $(.$part)*] $($($path).+)?) as u64,
            ));)*
        )*
    };
    (@offset $module:ident::$of:ident, [$($field:tt)+]) => { offset_of!($module::$of, $($field)+) };
    (@offset $module:ident::$of:ident, [$($field:tt)+] $($path:ident).+) => { offset_of!($module::$of, $($path).+) };
}

fn session_structures() -> Facts {
    let mut facts = Facts::new();
    layouts! {
        facts;
        time::TIME_ZONE_INFORMATION: Bias, StandardName, StandardDate, StandardBias, DaylightName, DaylightDate, DaylightBias;
        sdk::WNODE_HEADER: BufferSize, ProviderId, HistoricalContext = Anonymous1, Version = Anonymous1.Anonymous.Version,
            Linkage = Anonymous1.Anonymous.Linkage, TimeStamp = Anonymous2, Guid, ClientContext, Flags;
        sdk::EVENT_TRACE_HEADER: Size, FieldTypeFlags = Anonymous1, HeaderType = Anonymous1.Anonymous.HeaderType,
            MarkerFlags = Anonymous1.Anonymous.MarkerFlags, Version = Anonymous2, Class.Type = Anonymous2.Class.Type,
            Class.Level = Anonymous2.Class.Level, Class.Version = Anonymous2.Class.Version, ThreadId, ProcessId, TimeStamp,
            Guid = Anonymous3, GuidPtr = Anonymous3, KernelTime = Anonymous4.Anonymous1.KernelTime,
            UserTime = Anonymous4.Anonymous1.UserTime, ProcessorTime = Anonymous4,
            ClientContext = Anonymous4.Anonymous2.ClientContext, Flags = Anonymous4.Anonymous2.Flags;
        sdk::EVENT_INSTANCE_HEADER: Size, FieldTypeFlags = Anonymous1, Version = Anonymous2, Class.Type = Anonymous2.Class.Type,
            Class.Level = Anonymous2.Class.Level, ThreadId, ProcessId, TimeStamp, RegHandle, InstanceId, ParentInstanceId,
            KernelTime = Anonymous3, UserTime = Anonymous3.Anonymous1.UserTime, Flags = Anonymous3.Anonymous2.Flags, ParentRegHandle;
        sdk::MOF_FIELD: DataPtr, Length, DataType;
        sdk::EVENT_INSTANCE_INFO: RegHandle, InstanceId;
        sdk::TRACE_LOGFILE_HEADER: BufferSize, Version = Anonymous1, VersionDetail.SubVersion = Anonymous1.VersionDetail.SubVersion,
            ProviderVersion, NumberOfProcessors, EndTime, TimerResolution, MaximumFileSize, LogFileMode, BuffersWritten,
            LogInstanceGuid = Anonymous2, StartBuffers = Anonymous2.Anonymous.StartBuffers,
            PointerSize = Anonymous2.Anonymous.PointerSize, EventsLost = Anonymous2.Anonymous.EventsLost,
            CpuSpeedInMHz = Anonymous2.Anonymous.CpuSpeedInMHz, LoggerName, LogFileName, TimeZone, BootTime, PerfFreq, StartTime,
            ReservedFlags, BuffersLost;
        sdk::TRACE_LOGFILE_HEADER32: LoggerName, LogFileName, TimeZone, BootTime, PerfFreq, StartTime, ReservedFlags, BuffersLost;
        sdk::TRACE_LOGFILE_HEADER64: LoggerName, LogFileName, TimeZone, BootTime, PerfFreq, StartTime, ReservedFlags, BuffersLost;
        sdk::EVENT_TRACE_PROPERTIES: Wnode, BufferSize, MinimumBuffers, MaximumBuffers, MaximumFileSize, LogFileMode, FlushTimer,
            EnableFlags, AgeLimit = Anonymous, FlushThreshold = Anonymous, NumberOfBuffers, FreeBuffers, EventsLost,
            BuffersWritten, LogBuffersLost, RealTimeBuffersLost, LoggerThreadId, LogFileNameOffset, LoggerNameOffset;
        sdk::EVENT_TRACE_PROPERTIES_V2: Wnode, BufferSize, EnableFlags, NumberOfBuffers, LoggerThreadId, LogFileNameOffset,
            LoggerNameOffset, V2Control = Anonymous2, FilterDescCount, FilterDesc, V2Options = Anonymous3;
        sdk::TRACE_GUID_REGISTRATION: Guid, RegHandle;
        sdk::TRACE_GUID_PROPERTIES: Guid, GuidType, LoggerId, EnableLevel, EnableFlags, IsEnable;
        sdk::ETW_BUFFER_CONTEXT: ProcessorNumber = Anonymous.Anonymous.ProcessorNumber, Alignment = Anonymous.Anonymous.Alignment,
            ProcessorIndex = Anonymous, LoggerId;
        sdk::TRACE_ENABLE_INFO: IsEnabled, Level, Reserved1, LoggerId, EnableProperty, Reserved2, MatchAnyKeyword, MatchAllKeyword;
        sdk::TRACE_PROVIDER_INSTANCE_INFO: NextOffset, EnableCount, Pid, Flags;
        sdk::TRACE_GUID_INFO: InstanceCount, Reserved;
        sdk::ENABLE_TRACE_PARAMETERS_V1: Version, EnableProperty, ControlFlags, SourceId, EnableFilterDesc;
        sdk::ENABLE_TRACE_PARAMETERS: Version, EnableProperty, ControlFlags, SourceId, EnableFilterDesc, FilterDescCount;
        sdk::EVENT_FILTER_EVENT_ID: FilterIn, Reserved, Count, Events;
        sdk::EVENT_FILTER_EVENT_NAME: MatchAnyKeyword, MatchAllKeyword, Level, FilterIn, NameCount, Names;
        sdk::EVENT_FILTER_LEVEL_KW: MatchAnyKeyword, MatchAllKeyword, Level, FilterIn;
        sdk::CLASSIC_EVENT_ID: EventGuid, Type, Reserved;
        sdk::TRACE_VERSION_INFO: EtwTraceProcessingVersion, Reserved;
        sdk::TRACE_PERIODIC_CAPTURE_STATE_INFO: CaptureStateFrequencyInSeconds, ProviderCount, Reserved;
        sdk::TRACE_PROFILE_INTERVAL: Source, Interval;
        sdk::TRACE_STACK_CACHING_INFO: Enabled, CacheSize, BucketCount;
        sdk::PROFILE_SOURCE_INFO: NextEntryOffset, Source, MinInterval, MaxInterval, Reserved, Description;
        sdk::EVENT_TRACE: Header, InstanceId, ParentInstanceId, ParentGuid, MofData, MofLength, ClientContext = Anonymous,
            BufferContext = Anonymous;
        sdk::EVENT_TRACE_LOGFILEW: LogFileName, LoggerName, CurrentTime, BuffersRead, LogFileMode = Anonymous1,
            ProcessTraceMode = Anonymous1, CurrentEvent, LogfileHeader, BufferCallback, BufferSize, Filled, EventsLost,
            EventCallback = Anonymous2, EventRecordCallback = Anonymous2, IsKernelTrace, Context;
        sdk::ETW_OPEN_TRACE_OPTIONS: ProcessTraceModes, EventCallback, EventCallbackContext, BufferCallback, BufferCallbackContext;
        sdk::ETW_BUFFER_HEADER: TimeStamp, ClientContext, FilledBytes, Reserved4;
        sdk::ETW_BUFFER_CALLBACK_INFORMATION: TraceHandle, LogfileHeader, BuffersRead;
        sdk::EVENT_TRACE_LOGFILEA: LogFileName, LoggerName, CurrentTime, BuffersRead, LogFileMode = Anonymous1,
            ProcessTraceMode = Anonymous1, CurrentEvent, LogfileHeader, BufferCallback, BufferSize, Filled, EventsLost,
            EventCallback = Anonymous2, EventRecordCallback = Anonymous2, IsKernelTrace, Context;
    }
    facts
}

fn record_structures() -> Facts {
    let mut facts = Facts::new();
    layouts! {
        facts;
        sdk::EVENT_HEADER_EXTENDED_DATA_ITEM: Reserved1, ExtType, DataSize, DataPtr;
        sdk::EVENT_EXTENDED_ITEM_INSTANCE: InstanceId, ParentInstanceId, ParentGuid;
        sdk::EVENT_EXTENDED_ITEM_TS_ID: SessionId;
        sdk::EVENT_EXTENDED_ITEM_RELATED_ACTIVITYID: RelatedActivityId;
        sdk::EVENT_EXTENDED_ITEM_STACK_TRACE32: MatchId, Address;
        sdk::EVENT_EXTENDED_ITEM_STACK_TRACE64: MatchId, Address;
        sdk::EVENT_EXTENDED_ITEM_STACK_KEY32: MatchId, StackKey, Padding;
        sdk::EVENT_EXTENDED_ITEM_STACK_KEY64: MatchId, StackKey;
        sdk::EVENT_EXTENDED_ITEM_PEBS_INDEX: PebsIndex;
        sdk::EVENT_EXTENDED_ITEM_PMC_COUNTERS: Counter;
        sdk::EVENT_EXTENDED_ITEM_PROCESS_START_KEY: ProcessStartKey;
        sdk::EVENT_EXTENDED_ITEM_EVENT_KEY: Key;
        sdk::EVENT_HEADER: Size, HeaderType, Flags, EventProperty, ThreadId, ProcessId, TimeStamp, ProviderId, EventDescriptor,
            KernelTime = Anonymous.Anonymous.KernelTime, UserTime = Anonymous.Anonymous.UserTime, ProcessorTime = Anonymous, ActivityId;
        sdk::EVENT_RECORD: EventHeader, BufferContext, ExtendedDataCount, UserDataLength, ExtendedData, UserData, UserContext;
        sdk::PROPERTY_DATA_DESCRIPTOR: PropertyName, ArrayIndex, Reserved;
        sdk::TDH_CONTEXT: ParameterValue, ParameterType, ParameterSize;
        sdk::PAYLOAD_FILTER_PREDICATE: FieldName, CompareOp, Value;
        sdk::EVENT_MAP_ENTRY: OutputOffset, Value = Anonymous, InputOffset = Anonymous;
        sdk::EVENT_MAP_INFO: NameOffset, Flag, EntryCount, MapEntryValueType = Anonymous, FormatStringOffset = Anonymous, MapEntryArray;
        sdk::EVENT_PROPERTY_INFO: Flags, NameOffset, nonStructType.InType = Anonymous1.nonStructType.InType,
            nonStructType.OutType = Anonymous1.nonStructType.OutType, nonStructType.MapNameOffset = Anonymous1.nonStructType.MapNameOffset,
            structType.StructStartIndex = Anonymous1.structType.StructStartIndex,
            structType.NumOfStructMembers = Anonymous1.structType.NumOfStructMembers, structType.padding = Anonymous1.structType.padding,
            customSchemaType.InType = Anonymous1.customSchemaType.InType, customSchemaType.OutType = Anonymous1.customSchemaType.OutType,
            customSchemaType.CustomSchemaOffset = Anonymous1.customSchemaType.CustomSchemaOffset,
            count = Anonymous2, countPropertyIndex = Anonymous2, length = Anonymous3, lengthPropertyIndex = Anonymous3, Reserved = Anonymous4;
        sdk::TRACE_EVENT_INFO: ProviderGuid, EventGuid, EventDescriptor, DecodingSource, ProviderNameOffset, LevelNameOffset,
            ChannelNameOffset, KeywordsNameOffset, TaskNameOffset, OpcodeNameOffset, EventMessageOffset, ProviderMessageOffset,
            BinaryXMLOffset, BinaryXMLSize, EventNameOffset = Anonymous1, ActivityIDNameOffset = Anonymous1,
            EventAttributesOffset = Anonymous2, RelatedActivityIDNameOffset = Anonymous2, PropertyCount, TopLevelPropertyCount,
            Flags = Anonymous3, EventPropertyInfoArray;
        sdk::TRACE_PROVIDER_INFO: ProviderGuid, SchemaSource, ProviderNameOffset;
        sdk::PROVIDER_ENUMERATION_INFO: NumberOfProviders, Reserved, TraceProviderInfoArray;
        sdk::PROVIDER_FIELD_INFO: NameOffset, DescriptionOffset, Value;
        sdk::PROVIDER_FIELD_INFOARRAY: NumberOfElements, FieldType, FieldInfoArray;
        sdk::PROVIDER_FILTER_INFO: Id, Version, MessageOffset, Reserved, PropertyCount, EventPropertyInfoArray;
        sdk::PROVIDER_EVENT_INFO: NumberOfEvents, Reserved, EventDescriptorsArray;
    }
    facts
}

fn guids() -> Facts {
    let mut facts = Facts::new();
    let guids = [
        ("EventTraceGuid", sdk::EventTraceGuid),
        ("SystemTraceControlGuid", sdk::SystemTraceControlGuid),
        ("EventTraceConfigGuid", sdk::EventTraceConfigGuid),
        ("DefaultTraceSecurityGuid", sdk::DefaultTraceSecurityGuid),
        ("PrivateLoggerNotificationGuid", sdk::PrivateLoggerNotificationGuid),
    ];
    for (name, guid) in guids {
        facts.push((format!("{name}.Data1"), guid.data1.into()));
        facts.push((format!("{name}.Data2"), guid.data2.into()));
        facts.push((format!("{name}.Data3"), guid.data3.into()));
        let bytes = guid.data4.iter().enumerate();
        facts.extend(bytes.map(|(at, byte)| (format!("{name}.Data4[{at}]"), (*byte).into())));
    }
    facts
}

macro_rules! values {
    ($($from:ident: $($name:ident)*;)*) => {
        vec![$($((stringify!($name).to_owned(), $from::$name as u64),)*)*]
    };
}

fn status_and_node_constants() -> Facts {
    values! {
        win32: ERROR_INVALID_FUNCTION ERROR_INVALID_FLAG_NUMBER ERROR_FILE_NOT_FOUND ERROR_PATH_NOT_FOUND ERROR_INVALID_DATA ERROR_BAD_LENGTH ERROR_NOT_SUPPORTED
            ERROR_INSUFFICIENT_BUFFER ERROR_NOACCESS ERROR_NOT_FOUND ERROR_CANCELLED ERROR_TIMEOUT ERROR_XML_PARSE_ERROR
            ERROR_INVALID_TIME ERROR_WMI_INSTANCE_NOT_FOUND ERROR_WMI_ALREADY_ENABLED ERROR_CTX_CLOSE_PENDING
            ERROR_EVT_INVALID_EVENT_DATA;
        sdk: WNODE_FLAG_ALL_DATA WNODE_FLAG_SINGLE_INSTANCE WNODE_FLAG_SINGLE_ITEM WNODE_FLAG_EVENT_ITEM
            WNODE_FLAG_FIXED_INSTANCE_SIZE WNODE_FLAG_TOO_SMALL WNODE_FLAG_INSTANCES_SAME WNODE_FLAG_STATIC_INSTANCE_NAMES
            WNODE_FLAG_INTERNAL WNODE_FLAG_USE_TIMESTAMP WNODE_FLAG_PERSIST_EVENT WNODE_FLAG_EVENT_REFERENCE
            WNODE_FLAG_ANSI_INSTANCENAMES WNODE_FLAG_METHOD_ITEM WNODE_FLAG_PDO_INSTANCE_NAMES WNODE_FLAG_TRACED_GUID
            WNODE_FLAG_LOG_WNODE WNODE_FLAG_USE_GUID_PTR WNODE_FLAG_USE_MOF_PTR WNODE_FLAG_NO_HEADER
            WNODE_FLAG_SEND_DATA_BLOCK WNODE_FLAG_VERSIONED_PROPERTIES
            WMI_GET_ALL_DATA WMI_ENABLE_EVENTS WMI_DISABLE_EVENTS WMI_CAPTURE_STATE;
    }
}

fn event_type_constants() -> Facts {
    values! {
        sdk: EVENT_TRACE_TYPE_GUIDMAP EVENT_TRACE_TYPE_LOAD EVENT_TRACE_TYPE_CONFIG
            EVENT_TRACE_TYPE_TERMINATE EVENT_TRACE_TYPE_SIDINFO EVENT_TRACE_TYPE_SECURITY
            EVENT_TRACE_TYPE_DBGID_RSDS EVENT_TRACE_TYPE_SEND EVENT_TRACE_TYPE_RECEIVE
            EVENT_TRACE_TYPE_CONNECT EVENT_TRACE_TYPE_DISCONNECT EVENT_TRACE_TYPE_RETRANSMIT
            EVENT_TRACE_TYPE_ACCEPT EVENT_TRACE_TYPE_RECONNECT EVENT_TRACE_TYPE_CONNFAIL
            EVENT_TRACE_TYPE_COPY_TCP EVENT_TRACE_TYPE_COPY_ARP EVENT_TRACE_TYPE_ACKFULL
            EVENT_TRACE_TYPE_ACKPART EVENT_TRACE_TYPE_ACKDUP EVENT_TRACE_TYPE_IO_READ
            EVENT_TRACE_TYPE_IO_WRITE EVENT_TRACE_TYPE_IO_READ_INIT
            EVENT_TRACE_TYPE_IO_WRITE_INIT EVENT_TRACE_TYPE_IO_FLUSH
            EVENT_TRACE_TYPE_IO_FLUSH_INIT EVENT_TRACE_TYPE_IO_REDIRECTED_INIT
            EVENT_TRACE_TYPE_OPTICAL_IO_READ EVENT_TRACE_TYPE_OPTICAL_IO_WRITE
            EVENT_TRACE_TYPE_OPTICAL_IO_FLUSH EVENT_TRACE_TYPE_OPTICAL_IO_READ_INIT
            EVENT_TRACE_TYPE_OPTICAL_IO_WRITE_INIT EVENT_TRACE_TYPE_OPTICAL_IO_FLUSH_INIT
            EVENT_TRACE_TYPE_FLT_PREOP_INIT EVENT_TRACE_TYPE_FLT_POSTOP_INIT
            EVENT_TRACE_TYPE_FLT_PREOP_COMPLETION EVENT_TRACE_TYPE_FLT_POSTOP_COMPLETION
            EVENT_TRACE_TYPE_FLT_PREOP_FAILURE EVENT_TRACE_TYPE_FLT_POSTOP_FAILURE
            EVENT_TRACE_TYPE_MM_TF EVENT_TRACE_TYPE_MM_DZF EVENT_TRACE_TYPE_MM_COW
            EVENT_TRACE_TYPE_MM_GPF EVENT_TRACE_TYPE_MM_HPF EVENT_TRACE_TYPE_MM_AV
            EVENT_TRACE_TYPE_REGCREATE EVENT_TRACE_TYPE_REGOPEN EVENT_TRACE_TYPE_REGDELETE
            EVENT_TRACE_TYPE_REGQUERY EVENT_TRACE_TYPE_REGSETVALUE
            EVENT_TRACE_TYPE_REGDELETEVALUE EVENT_TRACE_TYPE_REGQUERYVALUE
            EVENT_TRACE_TYPE_REGENUMERATEKEY EVENT_TRACE_TYPE_REGENUMERATEVALUEKEY
            EVENT_TRACE_TYPE_REGQUERYMULTIPLEVALUE EVENT_TRACE_TYPE_REGSETINFORMATION
            EVENT_TRACE_TYPE_REGFLUSH EVENT_TRACE_TYPE_REGKCBCREATE
            EVENT_TRACE_TYPE_REGKCBDELETE EVENT_TRACE_TYPE_REGKCBRUNDOWNBEGIN
            EVENT_TRACE_TYPE_REGKCBRUNDOWNEND EVENT_TRACE_TYPE_REGVIRTUALIZE
            EVENT_TRACE_TYPE_REGCLOSE EVENT_TRACE_TYPE_REGSETSECURITY
            EVENT_TRACE_TYPE_REGQUERYSECURITY EVENT_TRACE_TYPE_REGCOMMIT
            EVENT_TRACE_TYPE_REGPREPARE EVENT_TRACE_TYPE_REGROLLBACK
            EVENT_TRACE_TYPE_REGMOUNTHIVE EVENT_TRACE_TYPE_CONFIG_CPU
            EVENT_TRACE_TYPE_CONFIG_PHYSICALDISK EVENT_TRACE_TYPE_CONFIG_LOGICALDISK
            EVENT_TRACE_TYPE_CONFIG_NIC EVENT_TRACE_TYPE_CONFIG_VIDEO
            EVENT_TRACE_TYPE_CONFIG_SERVICES EVENT_TRACE_TYPE_CONFIG_POWER
            EVENT_TRACE_TYPE_CONFIG_NETINFO EVENT_TRACE_TYPE_CONFIG_OPTICALMEDIA
            EVENT_TRACE_TYPE_CONFIG_PHYSICALDISK_EX EVENT_TRACE_TYPE_CONFIG_IRQ
            EVENT_TRACE_TYPE_CONFIG_PNP EVENT_TRACE_TYPE_CONFIG_IDECHANNEL
            EVENT_TRACE_TYPE_CONFIG_NUMANODE EVENT_TRACE_TYPE_CONFIG_PLATFORM
            EVENT_TRACE_TYPE_CONFIG_PROCESSORGROUP EVENT_TRACE_TYPE_CONFIG_PROCESSORNUMBER
            EVENT_TRACE_TYPE_CONFIG_DPI EVENT_TRACE_TYPE_CONFIG_CI_INFO
            EVENT_TRACE_TYPE_CONFIG_MACHINEID EVENT_TRACE_TYPE_CONFIG_DEFRAG
            EVENT_TRACE_TYPE_CONFIG_MOBILEPLATFORM EVENT_TRACE_TYPE_CONFIG_DEVICEFAMILY
            EVENT_TRACE_TYPE_CONFIG_FLIGHTID EVENT_TRACE_TYPE_CONFIG_PROCESSOR
            EVENT_TRACE_TYPE_CONFIG_VIRTUALIZATION EVENT_TRACE_TYPE_CONFIG_BOOT
            ETW_NULL_TYPE_VALUE ETW_OBJECT_TYPE_VALUE ETW_STRING_TYPE_VALUE ETW_SBYTE_TYPE_VALUE
            ETW_BYTE_TYPE_VALUE ETW_INT16_TYPE_VALUE ETW_UINT16_TYPE_VALUE ETW_INT32_TYPE_VALUE
            ETW_UINT32_TYPE_VALUE ETW_INT64_TYPE_VALUE ETW_UINT64_TYPE_VALUE ETW_CHAR_TYPE_VALUE
            ETW_SINGLE_TYPE_VALUE ETW_DOUBLE_TYPE_VALUE ETW_BOOLEAN_TYPE_VALUE
            ETW_DECIMAL_TYPE_VALUE ETW_GUID_TYPE_VALUE ETW_ASCIICHAR_TYPE_VALUE
            ETW_ASCIISTRING_TYPE_VALUE ETW_COUNTED_STRING_TYPE_VALUE ETW_POINTER_TYPE_VALUE
            ETW_SIZET_TYPE_VALUE ETW_HIDDEN_TYPE_VALUE ETW_BOOL_TYPE_VALUE
            ETW_COUNTED_ANSISTRING_TYPE_VALUE ETW_REVERSED_COUNTED_STRING_TYPE_VALUE
            ETW_REVERSED_COUNTED_ANSISTRING_TYPE_VALUE ETW_NON_NULL_TERMINATED_STRING_TYPE_VALUE
            ETW_REDUCED_ANSISTRING_TYPE_VALUE ETW_REDUCED_STRING_TYPE_VALUE ETW_SID_TYPE_VALUE
            ETW_VARIANT_TYPE_VALUE ETW_PTVECTOR_TYPE_VALUE ETW_WMITIME_TYPE_VALUE
            ETW_DATETIME_TYPE_VALUE ETW_REFRENCE_TYPE_VALUE;
    }
}

fn session_constants() -> Facts {
    values! {
        sdk: MAX_MOF_FIELDS EVENT_TRACE_TYPE_INFO EVENT_TRACE_TYPE_START EVENT_TRACE_TYPE_END EVENT_TRACE_TYPE_STOP
            EVENT_TRACE_TYPE_DC_START EVENT_TRACE_TYPE_DC_END EVENT_TRACE_TYPE_EXTENSION EVENT_TRACE_TYPE_REPLY
            EVENT_TRACE_TYPE_DEQUEUE EVENT_TRACE_TYPE_RESUME EVENT_TRACE_TYPE_CHECKPOINT EVENT_TRACE_TYPE_SUSPEND
            EVENT_TRACE_TYPE_WINEVT_SEND EVENT_TRACE_TYPE_WINEVT_RECEIVE
            TRACE_LEVEL_NONE TRACE_LEVEL_CRITICAL TRACE_LEVEL_FATAL TRACE_LEVEL_ERROR TRACE_LEVEL_WARNING
            TRACE_LEVEL_INFORMATION TRACE_LEVEL_VERBOSE TRACE_LEVEL_RESERVED6 TRACE_LEVEL_RESERVED7 TRACE_LEVEL_RESERVED8
            TRACE_LEVEL_RESERVED9
            EVENT_TRACE_FILE_MODE_NONE EVENT_TRACE_FILE_MODE_SEQUENTIAL EVENT_TRACE_FILE_MODE_CIRCULAR
            EVENT_TRACE_FILE_MODE_APPEND EVENT_TRACE_FILE_MODE_NEWFILE EVENT_TRACE_FILE_MODE_PREALLOCATE
            EVENT_TRACE_NONSTOPPABLE_MODE EVENT_TRACE_SECURE_MODE EVENT_TRACE_REAL_TIME_MODE
            EVENT_TRACE_DELAY_OPEN_FILE_MODE EVENT_TRACE_BUFFERING_MODE EVENT_TRACE_PRIVATE_LOGGER_MODE
            EVENT_TRACE_ADD_HEADER_MODE EVENT_TRACE_USE_KBYTES_FOR_SIZE EVENT_TRACE_USE_GLOBAL_SEQUENCE
            EVENT_TRACE_USE_LOCAL_SEQUENCE EVENT_TRACE_RELOG_MODE EVENT_TRACE_PRIVATE_IN_PROC EVENT_TRACE_MODE_RESERVED
            EVENT_TRACE_STOP_ON_HYBRID_SHUTDOWN EVENT_TRACE_PERSIST_ON_HYBRID_SHUTDOWN EVENT_TRACE_USE_PAGED_MEMORY
            EVENT_TRACE_SYSTEM_LOGGER_MODE EVENT_TRACE_COMPRESSED_MODE EVENT_TRACE_INDEPENDENT_SESSION_MODE
            EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING EVENT_TRACE_ADDTO_TRIAGE_DUMP
            EVENT_TRACE_FLAG_PROCESS EVENT_TRACE_FLAG_THREAD EVENT_TRACE_FLAG_IMAGE_LOAD EVENT_TRACE_FLAG_PROCESS_COUNTERS
            EVENT_TRACE_FLAG_CSWITCH EVENT_TRACE_FLAG_DPC EVENT_TRACE_FLAG_INTERRUPT EVENT_TRACE_FLAG_SYSTEMCALL
            EVENT_TRACE_FLAG_DISK_IO EVENT_TRACE_FLAG_DISK_FILE_IO EVENT_TRACE_FLAG_DISK_IO_INIT EVENT_TRACE_FLAG_DISPATCHER
            EVENT_TRACE_FLAG_MEMORY_PAGE_FAULTS EVENT_TRACE_FLAG_MEMORY_HARD_FAULTS EVENT_TRACE_FLAG_VIRTUAL_ALLOC
            EVENT_TRACE_FLAG_VAMAP EVENT_TRACE_FLAG_NETWORK_TCPIP EVENT_TRACE_FLAG_REGISTRY EVENT_TRACE_FLAG_DBGPRINT
            EVENT_TRACE_FLAG_JOB EVENT_TRACE_FLAG_ALPC EVENT_TRACE_FLAG_SPLIT_IO EVENT_TRACE_FLAG_DEBUG_EVENTS
            EVENT_TRACE_FLAG_DRIVER EVENT_TRACE_FLAG_PROFILE EVENT_TRACE_FLAG_FILE_IO EVENT_TRACE_FLAG_FILE_IO_INIT
            EVENT_TRACE_FLAG_NO_SYSCONFIG EVENT_TRACE_FLAG_ENABLE_RESERVE EVENT_TRACE_FLAG_FORWARD_WMI
            EVENT_TRACE_FLAG_EXTENSION
            EVENT_TRACE_CONTROL_QUERY EVENT_TRACE_CONTROL_STOP EVENT_TRACE_CONTROL_UPDATE EVENT_TRACE_CONTROL_FLUSH
            EVENT_TRACE_CONTROL_INCREMENT_FILE EVENT_TRACE_CONTROL_CONVERT_TO_REALTIME
            EVENT_CONTROL_CODE_DISABLE_PROVIDER EVENT_CONTROL_CODE_ENABLE_PROVIDER EVENT_CONTROL_CODE_CAPTURE_STATE
            EVENT_ENABLE_PROPERTY_SID EVENT_ENABLE_PROPERTY_TS_ID EVENT_ENABLE_PROPERTY_STACK_TRACE
            EVENT_ENABLE_PROPERTY_PSM_KEY EVENT_ENABLE_PROPERTY_IGNORE_KEYWORD_0 EVENT_ENABLE_PROPERTY_PROVIDER_GROUP
            EVENT_ENABLE_PROPERTY_ENABLE_KEYWORD_0 EVENT_ENABLE_PROPERTY_PROCESS_START_KEY EVENT_ENABLE_PROPERTY_EVENT_KEY
            EVENT_ENABLE_PROPERTY_EXCLUDE_INPRIVATE EVENT_ENABLE_PROPERTY_ENABLE_SILOS
            EVENT_ENABLE_PROPERTY_SOURCE_CONTAINER_TRACKING ENABLE_TRACE_PARAMETERS_VERSION ENABLE_TRACE_PARAMETERS_VERSION_2
            WMIGUID_QUERY WMIGUID_SET WMIGUID_NOTIFICATION WMIGUID_READ_DESCRIPTION WMIGUID_EXECUTE
            TRACELOG_CREATE_REALTIME TRACELOG_CREATE_ONDISK TRACELOG_GUID_ENABLE TRACELOG_ACCESS_KERNEL_LOGGER
            TRACELOG_CREATE_INPROC TRACELOG_LOG_EVENT TRACELOG_ACCESS_REALTIME TRACELOG_REGISTER_GUIDS TRACELOG_JOIN_GROUP
            TRACE_MESSAGE_SEQUENCE TRACE_MESSAGE_GUID TRACE_MESSAGE_COMPONENTID TRACE_MESSAGE_TIMESTAMP
            TRACE_MESSAGE_PERFORMANCE_TIMESTAMP TRACE_MESSAGE_SYSTEMINFO TRACE_MESSAGE_POINTER32 TRACE_MESSAGE_POINTER64
            TRACE_MESSAGE_FLAG_MASK TRACE_HEADER_FLAG_USE_TIMESTAMP TRACE_HEADER_FLAG_TRACED_GUID
            TRACE_HEADER_FLAG_LOG_WNODE TRACE_HEADER_FLAG_USE_GUID_PTR TRACE_HEADER_FLAG_USE_MOF_PTR
            EVENT_TRACE_USE_PROCTIME EVENT_TRACE_USE_NOCPUTIME TRACE_PROVIDER_FLAG_LEGACY TRACE_PROVIDER_FLAG_PRE_ENABLE
            TraceGuidQueryList TraceGuidQueryInfo TraceGuidQueryProcess TraceStackTracingInfo TraceSystemTraceEnableFlagsInfo
            TraceSampledProfileIntervalInfo TraceProfileSourceConfigInfo TraceProfileSourceListInfo TracePmcEventListInfo
            TracePmcCounterListInfo TraceSetDisallowList TraceVersionInfo TraceGroupQueryList TraceGroupQueryInfo
            TraceDisallowListQuery TraceInfoReserved15 TracePeriodicCaptureStateListInfo TracePeriodicCaptureStateInfo
            TraceProviderBinaryTracking TraceMaxLoggersQuery TraceLbrConfigurationInfo TraceLbrEventListInfo
            TraceMaxPmcCounterQuery TraceStreamCount TraceStackCachingInfo TracePmcCounterOwners TraceUnifiedStackCachingInfo
            TracePmcSessionInformation MaxTraceSetInfoClass;
    }
}

fn record_constants() -> Facts {
    values! {
        sdk: EVENT_HEADER_EXT_TYPE_RELATED_ACTIVITYID EVENT_HEADER_EXT_TYPE_SID EVENT_HEADER_EXT_TYPE_TS_ID
            EVENT_HEADER_EXT_TYPE_INSTANCE_INFO EVENT_HEADER_EXT_TYPE_STACK_TRACE32 EVENT_HEADER_EXT_TYPE_STACK_TRACE64
            EVENT_HEADER_EXT_TYPE_PEBS_INDEX EVENT_HEADER_EXT_TYPE_PMC_COUNTERS EVENT_HEADER_EXT_TYPE_PSM_KEY
            EVENT_HEADER_EXT_TYPE_EVENT_KEY EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL EVENT_HEADER_EXT_TYPE_PROV_TRAITS
            EVENT_HEADER_EXT_TYPE_PROCESS_START_KEY EVENT_HEADER_EXT_TYPE_CONTROL_GUID EVENT_HEADER_EXT_TYPE_QPC_DELTA
            EVENT_HEADER_EXT_TYPE_CONTAINER_ID EVENT_HEADER_EXT_TYPE_STACK_KEY32 EVENT_HEADER_EXT_TYPE_STACK_KEY64
            EVENT_HEADER_EXT_TYPE_MAX
            EVENT_HEADER_FLAG_EXTENDED_INFO EVENT_HEADER_FLAG_PRIVATE_SESSION EVENT_HEADER_FLAG_STRING_ONLY
            EVENT_HEADER_FLAG_TRACE_MESSAGE EVENT_HEADER_FLAG_NO_CPUTIME EVENT_HEADER_FLAG_32_BIT_HEADER
            EVENT_HEADER_FLAG_64_BIT_HEADER EVENT_HEADER_FLAG_DECODE_GUID EVENT_HEADER_FLAG_CLASSIC_HEADER
            EVENT_HEADER_FLAG_PROCESSOR_INDEX EVENT_HEADER_PROPERTY_XML EVENT_HEADER_PROPERTY_FORWARDED_XML
            EVENT_HEADER_PROPERTY_LEGACY_EVENTLOG
            PROCESS_TRACE_MODE_REAL_TIME PROCESS_TRACE_MODE_RAW_TIMESTAMP PROCESS_TRACE_MODE_EVENT_RECORD
            TDH_INTYPE_NULL TDH_INTYPE_UNICODESTRING TDH_INTYPE_ANSISTRING TDH_INTYPE_INT8 TDH_INTYPE_UINT8 TDH_INTYPE_INT16
            TDH_INTYPE_UINT16 TDH_INTYPE_INT32 TDH_INTYPE_UINT32 TDH_INTYPE_INT64 TDH_INTYPE_UINT64 TDH_INTYPE_FLOAT
            TDH_INTYPE_DOUBLE TDH_INTYPE_BOOLEAN TDH_INTYPE_BINARY TDH_INTYPE_GUID TDH_INTYPE_POINTER TDH_INTYPE_FILETIME
            TDH_INTYPE_SYSTEMTIME TDH_INTYPE_SID TDH_INTYPE_HEXINT32 TDH_INTYPE_HEXINT64 TDH_INTYPE_MANIFEST_COUNTEDSTRING
            TDH_INTYPE_MANIFEST_COUNTEDANSISTRING TDH_INTYPE_RESERVED24 TDH_INTYPE_MANIFEST_COUNTEDBINARY
            TDH_INTYPE_COUNTEDSTRING TDH_INTYPE_COUNTEDANSISTRING TDH_INTYPE_REVERSEDCOUNTEDSTRING
            TDH_INTYPE_REVERSEDCOUNTEDANSISTRING TDH_INTYPE_NONNULLTERMINATEDSTRING TDH_INTYPE_NONNULLTERMINATEDANSISTRING
            TDH_INTYPE_UNICODECHAR TDH_INTYPE_ANSICHAR TDH_INTYPE_SIZET TDH_INTYPE_HEXDUMP TDH_INTYPE_WBEMSID
            TDH_OUTTYPE_NULL TDH_OUTTYPE_STRING TDH_OUTTYPE_DATETIME TDH_OUTTYPE_BYTE TDH_OUTTYPE_UNSIGNEDBYTE
            TDH_OUTTYPE_SHORT TDH_OUTTYPE_UNSIGNEDSHORT TDH_OUTTYPE_INT TDH_OUTTYPE_UNSIGNEDINT TDH_OUTTYPE_LONG
            TDH_OUTTYPE_UNSIGNEDLONG TDH_OUTTYPE_FLOAT TDH_OUTTYPE_DOUBLE TDH_OUTTYPE_BOOLEAN TDH_OUTTYPE_GUID
            TDH_OUTTYPE_HEXBINARY TDH_OUTTYPE_HEXINT8 TDH_OUTTYPE_HEXINT16 TDH_OUTTYPE_HEXINT32 TDH_OUTTYPE_HEXINT64
            TDH_OUTTYPE_PID TDH_OUTTYPE_TID TDH_OUTTYPE_PORT TDH_OUTTYPE_IPV4 TDH_OUTTYPE_IPV6 TDH_OUTTYPE_SOCKETADDRESS
            TDH_OUTTYPE_CIMDATETIME TDH_OUTTYPE_ETWTIME TDH_OUTTYPE_XML TDH_OUTTYPE_ERRORCODE TDH_OUTTYPE_WIN32ERROR
            TDH_OUTTYPE_NTSTATUS TDH_OUTTYPE_HRESULT TDH_OUTTYPE_CULTURE_INSENSITIVE_DATETIME TDH_OUTTYPE_JSON
            TDH_OUTTYPE_UTF8 TDH_OUTTYPE_PKCS7_WITH_TYPE_INFO TDH_OUTTYPE_CODE_POINTER TDH_OUTTYPE_DATETIME_UTC
            TDH_OUTTYPE_REDUCEDSTRING TDH_OUTTYPE_NOPRINT
            PropertyStruct PropertyParamLength PropertyParamCount PropertyWBEMXmlFragment PropertyParamFixedLength
            PropertyParamFixedCount PropertyHasTags PropertyHasCustomSchema
            EVENTMAP_INFO_FLAG_MANIFEST_VALUEMAP EVENTMAP_INFO_FLAG_MANIFEST_BITMAP EVENTMAP_INFO_FLAG_MANIFEST_PATTERNMAP
            EVENTMAP_INFO_FLAG_WBEM_VALUEMAP EVENTMAP_INFO_FLAG_WBEM_BITMAP EVENTMAP_INFO_FLAG_WBEM_FLAG
            EVENTMAP_INFO_FLAG_WBEM_NO_MAP EVENTMAP_ENTRY_VALUETYPE_ULONG EVENTMAP_ENTRY_VALUETYPE_STRING
            DecodingSourceXMLFile DecodingSourceWbem DecodingSourceWPP DecodingSourceTlg DecodingSourceMax
            TEMPLATE_EVENT_DATA TEMPLATE_USER_DATA TEMPLATE_CONTROL_GUID
            EventKeywordInformation EventLevelInformation EventChannelInformation EventTaskInformation
            EventOpcodeInformation EventInformationMax
            TDH_CONTEXT_WPP_TMFFILE TDH_CONTEXT_WPP_TMFSEARCHPATH TDH_CONTEXT_WPP_GMT TDH_CONTEXT_POINTERSIZE
            TDH_CONTEXT_PDB_PATH TDH_CONTEXT_MAXIMUM MAX_PAYLOAD_PREDICATES
            PAYLOADFIELD_EQ PAYLOADFIELD_NE PAYLOADFIELD_LE PAYLOADFIELD_GT PAYLOADFIELD_LT PAYLOADFIELD_GE
            PAYLOADFIELD_BETWEEN PAYLOADFIELD_NOTBETWEEN PAYLOADFIELD_MODULO PAYLOADFIELD_CONTAINS
            PAYLOADFIELD_DOESNTCONTAIN PAYLOADFIELD_IS PAYLOADFIELD_ISNOT PAYLOADFIELD_INVALID;
    }
}
