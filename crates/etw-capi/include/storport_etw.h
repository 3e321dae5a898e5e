/*
 * Storage events: the ETW functions of StorPort, for systems other than Windows; link with -letw.
 *
 * HwDeviceExtension is any address that identifies an adapter. etw_storport_set_adapter sets the adapter's port and name in events. Without
 * it, adapters are numbered in the order of their first events and have the program's name. STOR_ADDR_BTL8 is the only supported address.
 *
 * Part of openetw. Written to Microsoft's documentation; names, layouts and statuses are theirs.
 * Microsoft does not publish STORPORT_ETW_MAX_BYTE_STREAM_LENGTH; its value is this project's.
 */
#ifndef STORPORT_ETW_H
#define STORPORT_ETW_H

#include "etw_base.h"

#define STOR_STATUS_SUCCESS 0x00000000u
#define STOR_STATUS_UNSUCCESSFUL 0xC1000001u
#define STOR_STATUS_NOT_IMPLEMENTED 0xC1000002u
#define STOR_STATUS_INSUFFICIENT_RESOURCES 0xC1000003u
#define STOR_STATUS_BUFFER_TOO_SMALL 0xC1000004u
#define STOR_STATUS_ACCESS_DENIED 0xC1000005u
#define STOR_STATUS_INVALID_PARAMETER 0xC1000006u

#define STORPORT_ETW_MAX_DESCRIPTION_LENGTH 32
#define STORPORT_ETW_MAX_PARAM_NAME_LENGTH 16
#define STORPORT_ETW_MAX_BYTE_STREAM_LENGTH 4096

#define STORPORT_ETW_EVENT_KEYWORD_IO 0x1ull
#define STORPORT_ETW_EVENT_KEYWORD_PERFORMANCE 0x2ull
#define STORPORT_ETW_EVENT_KEYWORD_POWER 0x4ull
#define STORPORT_ETW_EVENT_KEYWORD_ENUMERATION 0x8ull
#define STORPORT_ETW_EVENT_KEYWORD_COMMAND_TRACE 0x10ull

typedef enum _STORPORT_ETW_LEVEL {
    StorportEtwLevelLogAlways = 0, /* whatever levels and keywords sessions ask for; the event has no keywords */
    StorportEtwLevelCritical = 1,
    StorportEtwLevelError = 2,
    StorportEtwLevelWarning = 3,
    StorportEtwLevelInformational = 4,
    StorportEtwLevelVerbose = 5,
    StorportEtwLevelMax = StorportEtwLevelVerbose
} STORPORT_ETW_LEVEL;

typedef enum _STORPORT_ETW_EVENT_OPCODE {
    StorportEtwEventOpcodeInfo = 0,
    StorportEtwEventOpcodeStart = 1,
    StorportEtwEventOpcodeStop = 2,
    StorportEtwEventOpcodeDC_Start = 3,
    StorportEtwEventOpcodeDC_Stop = 4,
    StorportEtwEventOpcodeExtension = 5,
    StorportEtwEventOpcodeReply = 6,
    StorportEtwEventOpcodeResume = 7,
    StorportEtwEventOpcodeSuspend = 8,
    StorportEtwEventOpcodeSend = 9,
    StorportEtwEventOpcodeReceive = 240
} STORPORT_ETW_EVENT_OPCODE;

typedef enum _STORPORT_ETW_EVENT_CHANNEL {
    StorportEtwEventDiagnostic = 0,
    StorportEtwEventOperational = 1,
    StorportEtwEventHealth = 2,
    StorportEtwEventIoPerformance = 3 /* reserved */
} STORPORT_ETW_EVENT_CHANNEL;

#define STOR_ADDRESS_TYPE_BTL8 0x1
#define STOR_ADDR_BTL8_ADDRESS_LENGTH 4

typedef struct _STOR_ADDRESS {
    USHORT Type;
    USHORT Port;
    ULONG AddressLength;
    UCHAR AddressData[1];
} STOR_ADDRESS, *PSTOR_ADDRESS;

typedef struct _STOR_ADDR_BTL8 {
    USHORT Type;
    USHORT Port;
    ULONG AddressLength;
    UCHAR Path;
    UCHAR Target;
    UCHAR Lun;
    UCHAR Reserved;
} STOR_ADDR_BTL8, *PSTOR_ADDR_BTL8;

#ifdef __cplusplus
extern "C" {
#endif

ULONG StorPortEtwLogByteStream(PVOID HwDeviceExtension, PSTOR_ADDRESS Address,
                               STORPORT_ETW_EVENT_CHANNEL EventChannel, ULONG EventId,
                               PCWSTR EventDescription, ULONGLONG EventKeywords,
                               STORPORT_ETW_LEVEL EventLevel, STORPORT_ETW_EVENT_OPCODE EventOpcode,
                               USHORT DataLength, PUCHAR Data);

ULONG StorPortEtwLogError(PVOID HwDeviceExtension, PSTOR_ADDRESS Address, ULONG Id,
                          PCWSTR Description, ULONG DataBufferLength, PVOID DataBuffer);

/* Not part of Windows: sets the port and the name of an adapter in events. */
ULONG etw_storport_set_adapter(PVOID HwDeviceExtension, ULONG PortNumber, const char *MiniportName);

/*
 * Not part of Windows: sets the channel in the descriptors of all later events of an event channel, by its value in a manifest of the
 * provider (16 and higher). If the manifest is installed, a host keeps the events in the channel's event log, without a session.
 */
ULONG etw_storport_set_channel(ULONG EventChannel, UCHAR Channel);

/* The general call of the following ones: an event with Count names and values. */
ULONG etw_storport_event(PVOID HwDeviceExtension, PSTOR_ADDRESS Address, ULONG EventChannel,
                         ULONG EventId, PCWSTR EventDescription, ULONGLONG EventKeywords,
                         ULONG EventLevel, ULONG EventOpcode, PVOID Srb, ULONG Count,
                         const PCWSTR *Names, const ULONGLONG *Values);

static inline ULONG StorPortEtwChannelEvent2(
    PVOID HwDeviceExtension, PSTOR_ADDRESS Address, STORPORT_ETW_EVENT_CHANNEL EventChannel,
    ULONG EventId, PCWSTR EventDescription, ULONGLONG EventKeywords, STORPORT_ETW_LEVEL EventLevel,
    STORPORT_ETW_EVENT_OPCODE EventOpcode, PVOID Srb, PCWSTR Name1, ULONGLONG Value1, PCWSTR Name2,
    ULONGLONG Value2)
{
    const PCWSTR names[] = {Name1, Name2};
    const ULONGLONG values[] = {Value1, Value2};
    return etw_storport_event(HwDeviceExtension, Address, EventChannel, EventId, EventDescription,
                              EventKeywords, EventLevel, EventOpcode, Srb, 2, names, values);
}

static inline ULONG StorPortEtwChannelEvent4(
    PVOID HwDeviceExtension, PSTOR_ADDRESS Address, STORPORT_ETW_EVENT_CHANNEL EventChannel,
    ULONG EventId, PCWSTR EventDescription, ULONGLONG EventKeywords, STORPORT_ETW_LEVEL EventLevel,
    STORPORT_ETW_EVENT_OPCODE EventOpcode, PVOID Srb, PCWSTR Name1, ULONGLONG Value1, PCWSTR Name2,
    ULONGLONG Value2, PCWSTR Name3, ULONGLONG Value3, PCWSTR Name4, ULONGLONG Value4)
{
    const PCWSTR names[] = {Name1, Name2, Name3, Name4};
    const ULONGLONG values[] = {Value1, Value2, Value3, Value4};
    return etw_storport_event(HwDeviceExtension, Address, EventChannel, EventId, EventDescription,
                              EventKeywords, EventLevel, EventOpcode, Srb, 4, names, values);
}

static inline ULONG StorPortEtwChannelEvent8(
    PVOID HwDeviceExtension, PSTOR_ADDRESS Address, STORPORT_ETW_EVENT_CHANNEL EventChannel,
    ULONG EventId, PCWSTR EventDescription, ULONGLONG EventKeywords, STORPORT_ETW_LEVEL EventLevel,
    STORPORT_ETW_EVENT_OPCODE EventOpcode, PVOID Srb, PCWSTR Name1, ULONGLONG Value1, PCWSTR Name2,
    ULONGLONG Value2, PCWSTR Name3, ULONGLONG Value3, PCWSTR Name4, ULONGLONG Value4, PCWSTR Name5,
    ULONGLONG Value5, PCWSTR Name6, ULONGLONG Value6, PCWSTR Name7, ULONGLONG Value7, PCWSTR Name8,
    ULONGLONG Value8)
{
    const PCWSTR names[] = {Name1, Name2, Name3, Name4, Name5, Name6, Name7, Name8};
    const ULONGLONG values[] = {Value1, Value2, Value3, Value4, Value5, Value6, Value7, Value8};
    return etw_storport_event(HwDeviceExtension, Address, EventChannel, EventId, EventDescription,
                              EventKeywords, EventLevel, EventOpcode, Srb, 8, names, values);
}

#ifdef __cplusplus
}
#endif

/* Events of the diagnostic channel. */
#define StorPortEtwEvent2(Extension, Address, ...) \
    StorPortEtwChannelEvent2(Extension, Address, StorportEtwEventDiagnostic, __VA_ARGS__)
#define StorPortEtwEvent4(Extension, Address, ...) \
    StorPortEtwChannelEvent4(Extension, Address, StorportEtwEventDiagnostic, __VA_ARGS__)
#define StorPortEtwEvent8(Extension, Address, ...) \
    StorPortEtwChannelEvent8(Extension, Address, StorportEtwEventDiagnostic, __VA_ARGS__)

#endif
