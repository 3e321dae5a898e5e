//! Our constants and layouts beside those of Microsoft's crate `windows-sys`.
use etw_session::{EnableProperties, PayloadOp};
use etw_types::{
    EventDescriptor, EventFlags, EventProperty, ExtType, Guid, Level, LogFileMode, Opcode, Status,
};
use std::mem::{offset_of, size_of};
use windows_sys::Win32::Foundation as win;
use windows_sys::Win32::System::Diagnostics::Etw as theirs;

#[test]
fn statuses_have_the_values_of_windows() {
    for (ours, theirs) in [
        (Status::ERROR_SUCCESS, win::ERROR_SUCCESS),
        (Status::ERROR_INVALID_FUNCTION, win::ERROR_INVALID_FUNCTION),
        (Status::ERROR_FILE_NOT_FOUND, win::ERROR_FILE_NOT_FOUND),
        (Status::ERROR_PATH_NOT_FOUND, win::ERROR_PATH_NOT_FOUND),
        (Status::ERROR_ACCESS_DENIED, win::ERROR_ACCESS_DENIED),
        (Status::ERROR_INVALID_HANDLE, win::ERROR_INVALID_HANDLE),
        (Status::ERROR_NOT_ENOUGH_MEMORY, win::ERROR_NOT_ENOUGH_MEMORY),
        (Status::ERROR_BAD_LENGTH, win::ERROR_BAD_LENGTH),
        (Status::ERROR_WRITE_FAULT, win::ERROR_WRITE_FAULT),
        (Status::ERROR_NOT_SUPPORTED, win::ERROR_NOT_SUPPORTED),
        (Status::ERROR_INVALID_PARAMETER, win::ERROR_INVALID_PARAMETER),
        (Status::ERROR_DISK_FULL, win::ERROR_DISK_FULL),
        (Status::ERROR_BAD_PATHNAME, win::ERROR_BAD_PATHNAME),
        (Status::ERROR_ALREADY_EXISTS, win::ERROR_ALREADY_EXISTS),
        (Status::ERROR_MORE_DATA, win::ERROR_MORE_DATA),
        (Status::ERROR_ARITHMETIC_OVERFLOW, win::ERROR_ARITHMETIC_OVERFLOW),
        (Status::ERROR_NO_SYSTEM_RESOURCES, win::ERROR_NO_SYSTEM_RESOURCES),
        (Status::ERROR_TIMEOUT, win::ERROR_TIMEOUT),
        (Status::ERROR_WMI_INSTANCE_NOT_FOUND, win::ERROR_WMI_INSTANCE_NOT_FOUND),
    ] {
        assert_eq!(ours.0, theirs, "{ours}");
    }
}

#[test]
fn log_file_modes() {
    for (ours, theirs) in [
        (LogFileMode::SEQUENTIAL, theirs::EVENT_TRACE_FILE_MODE_SEQUENTIAL),
        (LogFileMode::CIRCULAR, theirs::EVENT_TRACE_FILE_MODE_CIRCULAR),
        (LogFileMode::APPEND, theirs::EVENT_TRACE_FILE_MODE_APPEND),
        (LogFileMode::NEWFILE, theirs::EVENT_TRACE_FILE_MODE_NEWFILE),
        (LogFileMode::PREALLOCATE, theirs::EVENT_TRACE_FILE_MODE_PREALLOCATE),
        (LogFileMode::REAL_TIME, theirs::EVENT_TRACE_REAL_TIME_MODE),
        (LogFileMode::BUFFERING, theirs::EVENT_TRACE_BUFFERING_MODE),
        (LogFileMode::PRIVATE_LOGGER, theirs::EVENT_TRACE_PRIVATE_LOGGER_MODE),
        (LogFileMode::USE_KBYTES_FOR_SIZE, theirs::EVENT_TRACE_USE_KBYTES_FOR_SIZE),
        (LogFileMode::USE_GLOBAL_SEQUENCE, theirs::EVENT_TRACE_USE_GLOBAL_SEQUENCE),
        (LogFileMode::USE_LOCAL_SEQUENCE, theirs::EVENT_TRACE_USE_LOCAL_SEQUENCE),
        (LogFileMode::RELOG, theirs::EVENT_TRACE_RELOG_MODE),
        (LogFileMode::PRIVATE_IN_PROC, theirs::EVENT_TRACE_PRIVATE_IN_PROC),
        (LogFileMode::COMPRESSED, theirs::EVENT_TRACE_COMPRESSED_MODE),
        (LogFileMode::INDEPENDENT_SESSION, theirs::EVENT_TRACE_INDEPENDENT_SESSION_MODE),
        (LogFileMode::NO_PER_PROCESSOR_BUFFERING, theirs::EVENT_TRACE_NO_PER_PROCESSOR_BUFFERING),
    ] {
        assert_eq!(ours.0, theirs, "{ours}");
    }
}

#[test]
fn enablements_have_the_values_of_windows() {
    for (ours, theirs) in [
        (EnableProperties::SID, theirs::EVENT_ENABLE_PROPERTY_SID),
        (EnableProperties::TS_ID, theirs::EVENT_ENABLE_PROPERTY_TS_ID),
        (EnableProperties::STACK_TRACE, theirs::EVENT_ENABLE_PROPERTY_STACK_TRACE),
        (EnableProperties::IGNORE_KEYWORD_0, theirs::EVENT_ENABLE_PROPERTY_IGNORE_KEYWORD_0),
        (EnableProperties::PROVIDER_GROUP, theirs::EVENT_ENABLE_PROPERTY_PROVIDER_GROUP),
        (EnableProperties::PROCESS_START_KEY, theirs::EVENT_ENABLE_PROPERTY_PROCESS_START_KEY),
        (EnableProperties::EXCLUDE_INPRIVATE, theirs::EVENT_ENABLE_PROPERTY_EXCLUDE_INPRIVATE),
    ] {
        assert_eq!(ours.0, theirs, "{ours:?}");
    }
    for (ours, theirs) in [
        (etw::ControlCode::Disable, theirs::EVENT_CONTROL_CODE_DISABLE_PROVIDER),
        (etw::ControlCode::Enable, theirs::EVENT_CONTROL_CODE_ENABLE_PROVIDER),
        (etw::ControlCode::CaptureState, theirs::EVENT_CONTROL_CODE_CAPTURE_STATE),
    ] {
        assert_eq!(ours as u32, theirs);
    }
    for (ours, theirs) in [
        (PayloadOp::Eq, theirs::PAYLOADFIELD_EQ),
        (PayloadOp::Ne, theirs::PAYLOADFIELD_NE),
        (PayloadOp::Le, theirs::PAYLOADFIELD_LE),
        (PayloadOp::Gt, theirs::PAYLOADFIELD_GT),
        (PayloadOp::Lt, theirs::PAYLOADFIELD_LT),
        (PayloadOp::Ge, theirs::PAYLOADFIELD_GE),
        (PayloadOp::Between, theirs::PAYLOADFIELD_BETWEEN),
        (PayloadOp::NotBetween, theirs::PAYLOADFIELD_NOTBETWEEN),
        (PayloadOp::Modulo, theirs::PAYLOADFIELD_MODULO),
        (PayloadOp::Contains, theirs::PAYLOADFIELD_CONTAINS),
        (PayloadOp::DoesntContain, theirs::PAYLOADFIELD_DOESNTCONTAIN),
        (PayloadOp::Is, theirs::PAYLOADFIELD_IS),
        (PayloadOp::IsNot, theirs::PAYLOADFIELD_ISNOT),
    ] {
        assert_eq!(ours as i32, theirs);
    }
}

/// OV-10, OV-11: levels, opcodes, activity codes, classes of information, limits.
#[test]
fn descriptors_have_the_values_of_windows() {
    for (ours, theirs) in [
        (Level::LOG_ALWAYS, theirs::TRACE_LEVEL_NONE),
        (Level::CRITICAL, theirs::TRACE_LEVEL_CRITICAL),
        (Level::ERROR, theirs::TRACE_LEVEL_ERROR),
        (Level::WARNING, theirs::TRACE_LEVEL_WARNING),
        (Level::INFO, theirs::TRACE_LEVEL_INFORMATION),
        (Level::VERBOSE, theirs::TRACE_LEVEL_VERBOSE),
    ] {
        assert_eq!(u32::from(ours.0), theirs);
    }
    for (ours, theirs) in [
        (Opcode::INFO, theirs::EVENT_TRACE_TYPE_INFO),
        (Opcode::START, theirs::EVENT_TRACE_TYPE_START),
        (Opcode::STOP, theirs::EVENT_TRACE_TYPE_STOP),
        (Opcode::DC_START, theirs::EVENT_TRACE_TYPE_DC_START),
        (Opcode::DC_STOP, theirs::EVENT_TRACE_TYPE_DC_END),
        (Opcode::EXTENSION, theirs::EVENT_TRACE_TYPE_EXTENSION),
        (Opcode::REPLY, theirs::EVENT_TRACE_TYPE_REPLY),
    ] {
        assert_eq!(u32::from(ours.0), theirs);
    }
    use etw::ActivityControl as Code;
    for (ours, theirs) in [
        (Code::Get, theirs::EVENT_ACTIVITY_CTRL_GET_ID),
        (Code::Set, theirs::EVENT_ACTIVITY_CTRL_SET_ID),
        (Code::Create, theirs::EVENT_ACTIVITY_CTRL_CREATE_ID),
        (Code::GetSet, theirs::EVENT_ACTIVITY_CTRL_GET_SET_ID),
        (Code::CreateSet, theirs::EVENT_ACTIVITY_CTRL_CREATE_SET_ID),
    ] {
        assert_eq!(ours as u32, theirs);
    }
    use etw::evntprov::{
        EventDataDescriptor as Data, EventInfoClass as Class, MAX_DATA_DESCRIPTORS,
    };
    for (ours, theirs) in [
        (Class::BinaryTrackInfo, theirs::EventProviderBinaryTrackInfo),
        (Class::SetReserved1, theirs::EventProviderSetReserved1),
        (Class::SetTraits, theirs::EventProviderSetTraits),
        (Class::UseDescriptorType, theirs::EventProviderUseDescriptorType),
    ] {
        assert_eq!(ours as i32, theirs);
    }
    assert_eq!(u32::from(Data::USER_DATA), theirs::EVENT_DATA_DESCRIPTOR_TYPE_NONE);
    assert_eq!(u32::from(Data::EVENT_METADATA), theirs::EVENT_DATA_DESCRIPTOR_TYPE_EVENT_METADATA);
    assert_eq!(
        u32::from(Data::PROVIDER_METADATA),
        theirs::EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA
    );
    assert_eq!(
        u32::from(Data::TIMESTAMP_OVERRIDE),
        theirs::EVENT_DATA_DESCRIPTOR_TYPE_TIMESTAMP_OVERRIDE
    );
    assert_eq!(MAX_DATA_DESCRIPTORS as u32, theirs::MAX_EVENT_DATA_DESCRIPTORS);
}

/// An event's bytes on disk are its bytes in Windows' memory, except for extended items.
#[test]
fn layouts_are_those_of_windows() {
    assert_eq!(size_of::<theirs::EVENT_HEADER>(), 0x50);
    for (theirs, ours) in [
        (offset_of!(theirs::EVENT_HEADER, Flags), 0x04),
        (offset_of!(theirs::EVENT_HEADER, EventProperty), 0x06),
        (offset_of!(theirs::EVENT_HEADER, ThreadId), 0x08),
        (offset_of!(theirs::EVENT_HEADER, ProcessId), 0x0c),
        (offset_of!(theirs::EVENT_HEADER, TimeStamp), 0x10),
        (offset_of!(theirs::EVENT_HEADER, ProviderId), 0x18),
        (offset_of!(theirs::EVENT_HEADER, EventDescriptor), 0x28),
        (offset_of!(theirs::EVENT_HEADER, ActivityId), 0x40),
    ] {
        assert_eq!(theirs, ours);
    }
    let theirs = theirs::EVENT_DESCRIPTOR {
        Id: 0x0102,
        Version: 3,
        Channel: 4,
        Level: 5,
        Opcode: 6,
        Task: 0x0708,
        Keyword: 0x090a_0b0c_0d0e_0f10,
    };
    // SAFETY: sixteen bytes without padding.
    let bytes: [u8; 16] = unsafe { std::mem::transmute(theirs) };
    let ours = EventDescriptor::read(&bytes, 0).unwrap();
    assert_eq!((ours.id, ours.version, ours.channel.0, ours.level.0), (0x0102, 3, 4, 5));
    assert_eq!((ours.opcode.0, ours.task, ours.keyword.0), (6, 0x0708, 0x090a_0b0c_0d0e_0f10));
    assert_eq!(ours.to_bytes(), bytes);
    let guid = windows_sys::core::GUID::from_u128(0x68fdd900_4a3e_11d1_84f4_0000f80464e3);
    // SAFETY: sixteen bytes without padding.
    let bytes: [u8; 16] = unsafe { std::mem::transmute(guid) };
    assert_eq!(Guid::from_u128(0x68fdd900_4a3e_11d1_84f4_0000f80464e3).0, bytes);
}

#[test]
fn flags_and_items() {
    for (ours, theirs) in [
        (EventFlags::EXTENDED_INFO.0, theirs::EVENT_HEADER_FLAG_EXTENDED_INFO),
        (EventFlags::PRIVATE_SESSION.0, theirs::EVENT_HEADER_FLAG_PRIVATE_SESSION),
        (EventFlags::STRING_ONLY.0, theirs::EVENT_HEADER_FLAG_STRING_ONLY),
        (EventProperty::XML.0, theirs::EVENT_HEADER_PROPERTY_XML),
        (EventProperty::FORWARDED_XML.0, theirs::EVENT_HEADER_PROPERTY_FORWARDED_XML),
        (EventProperty::LEGACY_EVENTLOG.0, theirs::EVENT_HEADER_PROPERTY_LEGACY_EVENTLOG),
        (EventProperty::RELOGGABLE.0, theirs::EVENT_HEADER_PROPERTY_RELOGGABLE),
        (ExtType::RELATED_ACTIVITYID.0, theirs::EVENT_HEADER_EXT_TYPE_RELATED_ACTIVITYID),
        (ExtType::SID.0, theirs::EVENT_HEADER_EXT_TYPE_SID),
        (ExtType::TS_ID.0, theirs::EVENT_HEADER_EXT_TYPE_TS_ID),
        (ExtType::EVENT_SCHEMA_TL.0, theirs::EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL),
        (ExtType::PROV_TRAITS.0, theirs::EVENT_HEADER_EXT_TYPE_PROV_TRAITS),
        (ExtType::PROCESS_START_KEY.0, theirs::EVENT_HEADER_EXT_TYPE_PROCESS_START_KEY),
    ] {
        assert_eq!(u32::from(ours), theirs);
    }
}
