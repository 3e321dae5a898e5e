/*
 * Part of openetw: texts for the status codes of etw_base.h, etw_windows_errors.h and etw_windows.h, and FormatMessage, which returns them.
 * The texts are this project's own; Windows' are not available. Only for inclusion from etw_windows_system.h.
 */
#ifndef ETW_WINDOWS_MESSAGES_H
#define ETW_WINDOWS_MESSAGES_H

/* The text of a status code or HRESULT, without a full stop; NULL for a code without a text. */
static inline const char *etw_system_text(DWORD id)
{
    /* An HRESULT of the facility Win32 contains a status code. */
    switch ((id & 0xffff0000u) == 0x80070000u ? id & 0xffffu : id) {
    case ERROR_SUCCESS: return "The call succeeded";
    case ERROR_INVALID_FUNCTION: return "The function is invalid";
    case ERROR_FILE_NOT_FOUND: return "The file does not exist";
    case ERROR_PATH_NOT_FOUND: return "The folder does not exist";
    case ERROR_TOO_MANY_OPEN_FILES: return "Too many files are open";
    case ERROR_ACCESS_DENIED: return "The caller has no permission";
    case ERROR_INVALID_HANDLE: return "The handle is invalid";
    case ERROR_NOT_ENOUGH_MEMORY: return "There is not enough memory";
    case ERROR_INVALID_BLOCK: return "The address of a memory block is invalid";
    case ERROR_BAD_ENVIRONMENT: return "The environment is invalid";
    case ERROR_BAD_FORMAT: return "The format is invalid";
    case ERROR_INVALID_ACCESS: return "The access code is invalid";
    case ERROR_INVALID_DATA: return "The data is invalid";
    case ERROR_OUTOFMEMORY: return "There is no memory for the call";
    case ERROR_INVALID_DRIVE: return "The drive does not exist";
    case ERROR_CURRENT_DIRECTORY: return "The current folder cannot be removed";
    case ERROR_NOT_SAME_DEVICE: return "The two files are on different disks";
    case ERROR_NO_MORE_FILES: return "There are no more files";
    case ERROR_WRITE_PROTECT: return "The medium is read-only";
    case ERROR_NOT_READY: return "The device is not ready";
    case ERROR_CRC: return "The checksum of the data is wrong";
    case ERROR_BAD_LENGTH: return "The length of the request is wrong";
    case ERROR_SEEK: return "The position on the disk cannot be reached";
    case ERROR_WRITE_FAULT: return "The device could not be written";
    case ERROR_READ_FAULT: return "The device could not be read";
    case ERROR_GEN_FAILURE: return "A device of the system failed";
    case ERROR_SHARING_VIOLATION: return "Another process uses the file";
    case ERROR_LOCK_VIOLATION: return "Another process has locked a part of the file";
    case ERROR_HANDLE_EOF: return "The end of the file is reached";
    case ERROR_HANDLE_DISK_FULL: return "The disk has no space left";
    case ERROR_NOT_SUPPORTED: return "The request is not supported";
    case ERROR_BAD_NETPATH: return "The network path does not exist";
    case ERROR_NETWORK_ACCESS_DENIED: return "The network denies access";
    case ERROR_FILE_EXISTS: return "The file exists already";
    case ERROR_CANNOT_MAKE: return "The file or folder cannot be created";
    case ERROR_INVALID_PARAMETER: return "A parameter is invalid";
    case ERROR_BROKEN_PIPE: return "The other end of the pipe is closed";
    case ERROR_OPEN_FAILED: return "The device or file cannot be opened";
    case ERROR_BUFFER_OVERFLOW: return "The name is too long for its buffer";
    case ERROR_DISK_FULL: return "The disk is full";
    case ERROR_CALL_NOT_IMPLEMENTED: return "The function is not implemented on this system";
    case ERROR_SEM_TIMEOUT: return "The wait for the semaphore timed out";
    case ERROR_INSUFFICIENT_BUFFER: return "The buffer is too small";
    case ERROR_INVALID_NAME: return "The name is invalid";
    case ERROR_INVALID_LEVEL: return "The level of the request is invalid";
    case ERROR_MOD_NOT_FOUND: return "The module does not exist";
    case ERROR_PROC_NOT_FOUND: return "The module has no such function";
    case ERROR_DIR_NOT_EMPTY: return "The folder is not empty";
    case ERROR_NOT_LOCKED: return "The segment is not locked";
    case ERROR_BAD_ARGUMENTS: return "The arguments are invalid";
    case ERROR_BAD_PATHNAME: return "The path is invalid";
    case ERROR_LOCK_FAILED: return "The file cannot be locked";
    case ERROR_BUSY: return "The resource is busy";
    case ERROR_ALREADY_EXISTS: return "The object exists already";
    case ERROR_INVALID_FLAG_NUMBER: return "The flag is invalid";
    case ERROR_ENVVAR_NOT_FOUND: return "The environment has no such variable";
    case ERROR_FILENAME_EXCED_RANGE: return "The file name is too long";
    case ERROR_BAD_PIPE: return "The state of the pipe is invalid";
    case ERROR_PIPE_BUSY: return "All instances of the pipe are busy";
    case ERROR_NO_DATA: return "The pipe is being closed";
    case ERROR_PIPE_NOT_CONNECTED: return "Nobody is at the other end of the pipe";
    case ERROR_MORE_DATA: return "There is more data than the buffer can hold";
    case ERROR_NO_MORE_ITEMS: return "There are no more items";
    case ERROR_DIRECTORY: return "The name of the folder is invalid";
    case ERROR_NOT_OWNER: return "The caller does not own the lock";
    case ERROR_PARTIAL_COPY: return "Only a part of the memory was copied";
    case ERROR_MR_MID_NOT_FOUND: return "There is no text for this message number";
    case ERROR_INVALID_ADDRESS: return "The address is invalid";
    case ERROR_ARITHMETIC_OVERFLOW: return "The result is too large for its type";
    case ERROR_PIPE_CONNECTED: return "The other end of the pipe is connected";
    case ERROR_OPERATION_ABORTED: return "The operation was stopped before its end";
    case ERROR_IO_INCOMPLETE: return "The operation has not been completed yet";
    case ERROR_IO_PENDING: return "The operation continues in the background";
    case ERROR_NOACCESS: return "The memory cannot be accessed";
    case ERROR_STACK_OVERFLOW: return "The stack is exhausted";
    case ERROR_INVALID_FLAGS: return "The flags are invalid";
    case ERROR_FILE_INVALID: return "The open file is not valid any more";
    case ERROR_NO_TOKEN: return "There is no such token";
    case ERROR_BADDB: return "The registry is damaged";
    case ERROR_BADKEY: return "The registry key is invalid";
    case ERROR_CANTOPEN: return "The registry key cannot be opened";
    case ERROR_CANTREAD: return "The registry key cannot be read";
    case ERROR_CANTWRITE: return "The registry key cannot be written";
    case ERROR_KEY_DELETED: return "The registry key is being deleted";
    case ERROR_SERVICE_ALREADY_RUNNING: return "The service runs already";
    case ERROR_SERVICE_DISABLED: return "The service is disabled";
    case ERROR_SERVICE_DOES_NOT_EXIST: return "The service is not installed";
    case ERROR_SERVICE_NOT_ACTIVE: return "The service does not run";
    case ERROR_NO_UNICODE_TRANSLATION: return "The text contains a character that the code page lacks";
    case ERROR_DLL_INIT_FAILED: return "A library could not be initialized";
    case ERROR_SHUTDOWN_IN_PROGRESS: return "The system is shutting down";
    case ERROR_DEVICE_NOT_CONNECTED: return "The device is not connected";
    case ERROR_NOT_FOUND: return "The element does not exist";
    case ERROR_NO_MATCH: return "Nothing matches the key";
    case ERROR_BAD_DEVICE: return "The name of the device is invalid";
    case ERROR_CANCELLED: return "The operation was cancelled";
    case ERROR_RETRY: return "The operation failed; try it again";
    case ERROR_NOT_AUTHENTICATED: return "The user is not authenticated";
    case ERROR_NOT_LOGGED_ON: return "The user is not logged on";
    case ERROR_CONTINUE: return "Continue with the work in progress";
    case ERROR_ALREADY_INITIALIZED: return "The object is initialized already";
    case ERROR_NOT_ALL_ASSIGNED: return "The caller lacks some of the privileges";
    case ERROR_INVALID_OWNER: return "The security id cannot be an owner";
    case ERROR_NO_SUCH_PRIVILEGE: return "The privilege does not exist";
    case ERROR_PRIVILEGE_NOT_HELD: return "The caller lacks the required privilege";
    case ERROR_LOGON_FAILURE: return "The user name or password is wrong";
    case ERROR_NONE_MAPPED: return "No account has this name or security id";
    case ERROR_INVALID_ACL: return "The access control list is invalid";
    case ERROR_INVALID_SID: return "The security id is invalid";
    case ERROR_INVALID_SECURITY_DESCR: return "The security descriptor is invalid";
    case ERROR_INTERNAL_ERROR: return "An internal error occurred";
    case ERROR_FILE_CORRUPT: return "The file is damaged and cannot be read";
    case ERROR_DISK_CORRUPT: return "The disk is damaged and cannot be read";
    case ERROR_NO_SYSTEM_RESOURCES: return "The system lacks the resources for the request";
    case ERROR_TIMEOUT: return "The operation timed out";
    case ERROR_XML_PARSE_ERROR: return "The XML text is invalid";
    case ERROR_EVENTLOG_FILE_CORRUPT: return "The file of the event log is damaged";
    case ERROR_EVENTLOG_CANT_START: return "The event log could not be opened";
    case ERROR_LOG_FILE_FULL: return "The file of the event log is full";
    case ERROR_EVENTLOG_FILE_CHANGED: return "The file of the event log changed between two reads";
    case ERROR_INSTALL_FAILURE: return "The installation failed";
    case ERROR_UNKNOWN_PROPERTY: return "The property is unknown";
    case (DWORD)RPC_S_INVALID_STRING_UUID: return "The text is not a UUID";
    case (DWORD)RPC_S_SERVER_UNAVAILABLE: return "The RPC server is not available";
    case (DWORD)RPC_S_SERVER_TOO_BUSY: return "The RPC server is too busy";
    case (DWORD)RPC_S_CALL_FAILED: return "The remote call failed";
    case (DWORD)RPC_S_UUID_NO_ADDRESS: return "The system has no network address for a UUID";
    case ERROR_INVALID_DATATYPE: return "The data type is invalid";
    case ERROR_RESOURCE_DATA_NOT_FOUND: return "The file contains no resources";
    case ERROR_RESOURCE_TYPE_NOT_FOUND: return "The file has no resource of this type";
    case ERROR_RESOURCE_NAME_NOT_FOUND: return "The file has no resource of this name";
    case ERROR_RESOURCE_LANG_NOT_FOUND: return "The resource does not exist in this language";
    case (DWORD)RPC_S_UUID_LOCAL_ONLY: return "The UUID is unique on this computer only";
    case ERROR_INVALID_TIME: return "The time is invalid";
    case ERROR_WMI_GUID_NOT_FOUND: return "No data provider recognizes the GUID";
    case ERROR_WMI_INSTANCE_NOT_FOUND: return "There is no such session or instance";
    case ERROR_WMI_ITEMID_NOT_FOUND: return "No data provider recognizes the item";
    case ERROR_WMI_TRY_AGAIN: return "The request must be tried again";
    case ERROR_WMI_DP_NOT_FOUND: return "The data provider does not exist";
    case ERROR_WMI_UNRESOLVED_INSTANCE_REF: return "The reference leads to no instance";
    case ERROR_WMI_ALREADY_ENABLED: return "The provider or trace is in use already";
    case ERROR_WMI_GUID_DISCONNECTED: return "The GUID is not available any more";
    case ERROR_WMI_SERVER_UNAVAILABLE: return "The service of the data provider does not run";
    case ERROR_WMI_DP_FAILED: return "The data provider failed";
    case ERROR_WMI_INVALID_MOF: return "The MOF description is invalid";
    case ERROR_WMI_INVALID_REGINFO: return "The registration is invalid";
    case ERROR_WMI_ALREADY_DISABLED: return "The provider is disabled already";
    case ERROR_WMI_READ_ONLY: return "The item cannot be changed";
    case ERROR_WMI_SET_FAILURE: return "The item could not be changed";
    case ERROR_EMPTY: return "The library or container is empty";
    case ERROR_CTX_CLOSE_PENDING: return "The session or trace closes when its last call returns";
    case ERROR_EVT_INVALID_CHANNEL_PATH: return "The path of the channel is invalid";
    case ERROR_EVT_INVALID_QUERY: return "The query is invalid";
    case ERROR_EVT_PUBLISHER_METADATA_NOT_FOUND: return "The metadata of the publisher does not exist";
    case ERROR_EVT_EVENT_TEMPLATE_NOT_FOUND: return "The event has no template";
    case ERROR_EVT_INVALID_PUBLISHER_NAME: return "The name of the publisher is invalid";
    case ERROR_EVT_INVALID_EVENT_DATA: return "The data of the event does not fit its template";
    case ERROR_EVT_CHANNEL_NOT_FOUND: return "The channel does not exist";
    case ERROR_EVT_MALFORMED_XML_TEXT: return "The XML text is malformed";
    case ERROR_EVT_SUBSCRIPTION_TO_DIRECT_CHANNEL: return "Nobody can subscribe to a direct channel";
    case ERROR_EVT_CONFIGURATION_ERROR: return "The configuration of the event log is invalid";
    case ERROR_EVT_QUERY_RESULT_STALE: return "The result of the query is out of date";
    case ERROR_EVT_QUERY_RESULT_INVALID_POSITION: return "The result of the query has no such position";
    case ERROR_EVT_NON_VALIDATING_MSXML: return "The XML parser cannot validate";
    case ERROR_EVT_FILTER_ALREADYSCOPED: return "The filter has this scope already";
    case ERROR_EVT_FILTER_NOTELTSET: return "The step of the filter selects no elements";
    case ERROR_EVT_FILTER_INVARG: return "An argument of the filter's function is invalid";
    case ERROR_EVT_FILTER_INVTEST: return "The test of the filter is invalid";
    case ERROR_EVT_FILTER_INVTYPE: return "The type of the filter's value is invalid";
    case ERROR_EVT_FILTER_PARSEERR: return "The filter cannot be parsed";
    case ERROR_EVT_FILTER_UNSUPPORTEDOP: return "The operator of the filter is not supported";
    case ERROR_EVT_FILTER_UNEXPECTEDTOKEN: return "The filter has an unexpected word or sign";
    case ERROR_EVT_INVALID_OPERATION_OVER_ENABLED_DIRECT_CHANNEL: return "The direct channel must be disabled first";
    case ERROR_EVT_INVALID_CHANNEL_PROPERTY_VALUE: return "The value of the channel's property is invalid";
    case ERROR_EVT_INVALID_PUBLISHER_PROPERTY_VALUE: return "The value of the publisher's property is invalid";
    case ERROR_EVT_CHANNEL_CANNOT_ACTIVATE: return "The channel cannot be activated";
    case ERROR_EVT_FILTER_TOO_COMPLEX: return "The filter is too complex";
    case ERROR_EVT_MESSAGE_NOT_FOUND: return "The message does not exist";
    case ERROR_EVT_MESSAGE_ID_NOT_FOUND: return "The message number does not exist";
    case ERROR_EVT_UNRESOLVED_VALUE_INSERT: return "The event lacks a value that its message inserts";
    case ERROR_EVT_UNRESOLVED_PARAMETER_INSERT: return "The message inserts a parameter that does not exist";
    case ERROR_EVT_MAX_INSERTS_REACHED: return "The message has too many inserts";
    case ERROR_EVT_EVENT_DEFINITION_NOT_FOUND: return "The event has no definition";
    case ERROR_EVT_MESSAGE_LOCALE_NOT_FOUND: return "The message does not exist in this language";
    case ERROR_EVT_VERSION_TOO_OLD: return "The version is too old";
    case ERROR_EVT_VERSION_TOO_NEW: return "The version is too new";
    case ERROR_EVT_CANNOT_OPEN_CHANNEL_OF_QUERY: return "A channel of the query cannot be opened";
    case ERROR_EVT_PUBLISHER_DISABLED: return "The publisher is disabled";
    case ERROR_EVT_FILTER_OUT_OF_RANGE: return "A number of the filter is out of range";
    case (DWORD)E_NOTIMPL: return "The call is not implemented";
    case (DWORD)E_NOINTERFACE: return "The object has no such interface";
    case (DWORD)E_POINTER: return "The pointer is invalid";
    case (DWORD)E_ABORT: return "The operation was aborted";
    case (DWORD)E_FAIL: return "The call failed";
    case (DWORD)E_UNEXPECTED: return "The call is not expected in this state";
    case (DWORD)E_BOUNDS: return "The position is out of bounds";
    case (DWORD)E_PENDING: return "The data is not available yet";
    default: return NULL;
    }
}
/* Writes the message of a status code as Windows forms it, into `to` or, if that is NULL, only counts its characters. */
static inline DWORD etw_system_message(DWORD flags, const char *text, char *to)
{
    const char *end = (flags & FORMAT_MESSAGE_MAX_WIDTH_MASK) == FORMAT_MESSAGE_MAX_WIDTH_MASK ? ". " : ".\r\n";
    const size_t length = strlen(text), end_length = strlen(end);
    if (to != NULL) {
        memcpy(to, text, length);
        memcpy(to + length, end, end_length + 1);
    }
    return (DWORD)(length + end_length);
}
/* Formats the message of a status code. Texts with inserts: FormatMessageW. */
static inline DWORD FormatMessageA(DWORD flags, const void *source, DWORD id, DWORD language, char *to, DWORD room, va_list *arguments)
{
    const char *text = (flags & FORMAT_MESSAGE_FROM_SYSTEM) != 0 ? etw_system_text(id) : NULL;
    DWORD length;
    (void)source, (void)language, (void)arguments;
    if ((flags & FORMAT_MESSAGE_FROM_STRING) != 0 || text == NULL || to == NULL) {
        SetLastError((flags & FORMAT_MESSAGE_FROM_STRING) != 0 ? ERROR_CALL_NOT_IMPLEMENTED
                     : text == NULL                            ? ERROR_MR_MID_NOT_FOUND
                                                               : ERROR_INVALID_PARAMETER);
        return 0;
    }
    length = etw_system_message(flags, text, NULL);
    if ((flags & FORMAT_MESSAGE_ALLOCATE_BUFFER) != 0) {
        const size_t size = length + 1 > room ? length + 1 : room;
        char *memory = (char *)malloc(size);
        memcpy((void *)to, &memory, sizeof memory);
        if (memory == NULL) {
            SetLastError(ERROR_NOT_ENOUGH_MEMORY);
            return 0;
        }
        to = memory;
    } else if (length >= room) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return 0;
    }
    return etw_system_message(flags, text, to);
}
#ifndef UNICODE
#define FormatMessage FormatMessageA
#endif
#endif
