/* Made by etw mc from an instrumentation manifest: changes are lost when it is made again. */
#pragma once

#include <evntprov.h>

#ifndef MCGEN_DECLARE
#ifdef _MSC_VER
#define MCGEN_DECLARE extern
#define MCGEN_DEFINE extern __declspec(selectany)
#else
#define MCGEN_DECLARE __attribute__((weak)) extern
#define MCGEN_DEFINE
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Provider Microsoft-Quic: 181 events */
MCGEN_DECLARE const GUID MICROSOFT_MSQUIC_PROVIDER;
MCGEN_DEFINE const GUID MICROSOFT_MSQUIC_PROVIDER = {0xff15e657,0x4f26,0x570e,{0x88,0xab,0x07,0x96,0xb2,0x58,0xd1,0x1c}};
#ifndef MICROSOFT_MSQUIC_PROVIDER_Traits
#define MICROSOFT_MSQUIC_PROVIDER_Traits NULL
#endif
#define MICROSOFT_MSQUIC_PROVIDER_OPCODE_Global 0xb
#define MICROSOFT_MSQUIC_PROVIDER_OPCODE_Registration 0xc
#define MICROSOFT_MSQUIC_PROVIDER_OPCODE_Configuration 0xd
#define MICROSOFT_MSQUIC_PROVIDER_OPCODE_Worker 0xe
#define MICROSOFT_MSQUIC_PROVIDER_OPCODE_Listener 0xf
#define MICROSOFT_MSQUIC_PROVIDER_OPCODE_Binding 0x10
#define MICROSOFT_MSQUIC_PROVIDER_OPCODE_Connection 0x11
#define MICROSOFT_MSQUIC_PROVIDER_OPCODE_Stream 0x12
#define MICROSOFT_MSQUIC_PROVIDER_OPCODE_Datapath 0x13
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_Registration 0x1
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_Configuration 0x2
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_Listener 0x4
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_Worker 0x8
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_Binding 0x10
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_Connection 0x20
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_Stream 0x40
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_UDP 0x80
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_Packet 0x100
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_TLS 0x200
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_Platform 0x400
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_Api 0x800
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_Log 0x1000
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_RPS 0x2000
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_LowVolume 0x80000000
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_DataFlow 0x40000000
#define MICROSOFT_MSQUIC_PROVIDER_KEYWORD_ut_Scheduling 0x20000000
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryInitialized;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryInitialized = {0x1, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicLibraryInitialized_value 0x1
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryUninitialized;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryUninitialized = {0x2, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicLibraryUninitialized_value 0x2
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryAddRef;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryAddRef = {0x3, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicLibraryAddRef_value 0x3
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryRelease;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryRelease = {0x4, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicLibraryRelease_value 0x4
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryServerInit;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryServerInit = {0x5, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicLibraryServerInit_value 0x5
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicAllocFailure;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicAllocFailure = {0x6, 0x0, 0x0, 0x3, 0xb, 0x0, 0x80000000};
#define QuicAllocFailure_value 0x6
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryRundown;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryRundown = {0x7, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicLibraryRundown_value 0x7
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryError = {0x8, 0x0, 0x0, 0x2, 0xb, 0x0, 0x80000000};
#define QuicLibraryError_value 0x8
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryErrorStatus;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryErrorStatus = {0x9, 0x0, 0x0, 0x2, 0xb, 0x0, 0x80000000};
#define QuicLibraryErrorStatus_value 0x9
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryAssert;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryAssert = {0xa, 0x0, 0x0, 0x2, 0xb, 0x0, 0x80000000};
#define QuicLibraryAssert_value 0xa
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicApiEnter;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicApiEnter = {0xb, 0x0, 0x0, 0x5, 0xb, 0x0, 0x800};
#define QuicApiEnter_value 0xb
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicApiExit;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicApiExit = {0xc, 0x0, 0x0, 0x5, 0xb, 0x0, 0x800};
#define QuicApiExit_value 0xc
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicApiExitStatus;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicApiExitStatus = {0xd, 0x0, 0x0, 0x5, 0xb, 0x0, 0x800};
#define QuicApiExitStatus_value 0xd
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicApiWaitOperation;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicApiWaitOperation = {0xe, 0x0, 0x0, 0x5, 0xb, 0x0, 0x800};
#define QuicApiWaitOperation_value 0xe
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicPerfCountersRundown;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicPerfCountersRundown = {0xf, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicPerfCountersRundown_value 0xf
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibrarySendRetryStateUpdated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibrarySendRetryStateUpdated = {0x10, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicLibrarySendRetryStateUpdated_value 0x10
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryVersion;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryVersion = {0x11, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicLibraryVersion_value 0x11
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicApiError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicApiError = {0x12, 0x0, 0x0, 0x2, 0xb, 0x0, 0x800};
#define QuicApiError_value 0x12
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryInitializedV2;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryInitializedV2 = {0x13, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicLibraryInitializedV2_value 0x13
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicDataPathInitialized;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicDataPathInitialized = {0x14, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicDataPathInitialized_value 0x14
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryRundownV2;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryRundownV2 = {0x15, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicLibraryRundownV2_value 0x15
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicDataPathRundown;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicDataPathRundown = {0x16, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicDataPathRundown_value 0x16
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLibraryInitializedV3;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLibraryInitializedV3 = {0x17, 0x0, 0x0, 0x4, 0xb, 0x0, 0x80000000};
#define QuicLibraryInitializedV3_value 0x17
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicRegistrationCreated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicRegistrationCreated = {0x400, 0x0, 0x0, 0x4, 0xc, 0x0, 0x80000001};
#define QuicRegistrationCreated_value 0x400
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicRegistrationDestroyed;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicRegistrationDestroyed = {0x401, 0x0, 0x0, 0x4, 0xc, 0x0, 0x80000001};
#define QuicRegistrationDestroyed_value 0x401
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicRegistrationCleanup;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicRegistrationCleanup = {0x402, 0x0, 0x0, 0x4, 0xc, 0x0, 0x80000001};
#define QuicRegistrationCleanup_value 0x402
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicRegistrationRundown;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicRegistrationRundown = {0x403, 0x0, 0x0, 0x4, 0xc, 0x0, 0x80000001};
#define QuicRegistrationRundown_value 0x403
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicRegistrationError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicRegistrationError = {0x404, 0x0, 0x0, 0x2, 0xc, 0x0, 0x80000001};
#define QuicRegistrationError_value 0x404
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicRegistrationErrorStatus;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicRegistrationErrorStatus = {0x405, 0x0, 0x0, 0x2, 0xc, 0x0, 0x80000001};
#define QuicRegistrationErrorStatus_value 0x405
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicRegistrationShutdown;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicRegistrationShutdown = {0x406, 0x0, 0x0, 0x4, 0xc, 0x0, 0x80000001};
#define QuicRegistrationShutdown_value 0x406
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicRegistrationCreatedV2;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicRegistrationCreatedV2 = {0x407, 0x0, 0x0, 0x4, 0xc, 0x0, 0x80000001};
#define QuicRegistrationCreatedV2_value 0x407
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicRegistrationRundownV2;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicRegistrationRundownV2 = {0x408, 0x0, 0x0, 0x4, 0xc, 0x0, 0x80000001};
#define QuicRegistrationRundownV2_value 0x408
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicWorkerCreated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicWorkerCreated = {0x800, 0x0, 0x0, 0x4, 0xe, 0x0, 0x80000008};
#define QuicWorkerCreated_value 0x800
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicWorkerStart;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicWorkerStart = {0x801, 0x0, 0x0, 0x4, 0xe, 0x0, 0x80000008};
#define QuicWorkerStart_value 0x801
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicWorkerStop;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicWorkerStop = {0x802, 0x0, 0x0, 0x4, 0xe, 0x0, 0x80000008};
#define QuicWorkerStop_value 0x802
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicWorkerActivityStateUpdated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicWorkerActivityStateUpdated = {0x803, 0x0, 0x0, 0x5, 0xe, 0x0, 0xa0000008};
#define QuicWorkerActivityStateUpdated_value 0x803
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicWorkerQueueDelayUpdated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicWorkerQueueDelayUpdated = {0x804, 0x0, 0x0, 0x5, 0xe, 0x0, 0xa0000008};
#define QuicWorkerQueueDelayUpdated_value 0x804
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicWorkerDestroyed;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicWorkerDestroyed = {0x805, 0x0, 0x0, 0x4, 0xe, 0x0, 0x80000008};
#define QuicWorkerDestroyed_value 0x805
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicWorkerCleanup;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicWorkerCleanup = {0x806, 0x0, 0x0, 0x4, 0xe, 0x0, 0x80000008};
#define QuicWorkerCleanup_value 0x806
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicWorkerError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicWorkerError = {0x807, 0x0, 0x0, 0x2, 0xe, 0x0, 0x80000008};
#define QuicWorkerError_value 0x807
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicWorkerErrorStatus;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicWorkerErrorStatus = {0x808, 0x0, 0x0, 0x2, 0xe, 0x0, 0x80000008};
#define QuicWorkerErrorStatus_value 0x808
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConfigurationCreated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConfigurationCreated = {0xc00, 0x0, 0x0, 0x4, 0xd, 0x0, 0x80000002};
#define QuicConfigurationCreated_value 0xc00
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConfigurationDestroyed;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConfigurationDestroyed = {0xc01, 0x0, 0x0, 0x4, 0xd, 0x0, 0x80000002};
#define QuicConfigurationDestroyed_value 0xc01
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConfigurationCleanup;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConfigurationCleanup = {0xc02, 0x0, 0x0, 0x4, 0xd, 0x0, 0x80000002};
#define QuicConfigurationCleanup_value 0xc02
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConfigurationRundown;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConfigurationRundown = {0xc04, 0x0, 0x0, 0x4, 0xd, 0x0, 0x80000002};
#define QuicConfigurationRundown_value 0xc04
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConfigurationError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConfigurationError = {0xc05, 0x0, 0x0, 0x2, 0xd, 0x0, 0x80000002};
#define QuicConfigurationError_value 0xc05
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConfigurationErrorStatus;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConfigurationErrorStatus = {0xc06, 0x0, 0x0, 0x2, 0xd, 0x0, 0x80000002};
#define QuicConfigurationErrorStatus_value 0xc06
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicListenerCreated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicListenerCreated = {0x1000, 0x0, 0x0, 0x4, 0xf, 0x0, 0x80000004};
#define QuicListenerCreated_value 0x1000
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicListenerDestroyed;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicListenerDestroyed = {0x1001, 0x0, 0x0, 0x4, 0xf, 0x0, 0x80000004};
#define QuicListenerDestroyed_value 0x1001
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicListenerStarted;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicListenerStarted = {0x1002, 0x0, 0x0, 0x4, 0xf, 0x0, 0x80000004};
#define QuicListenerStarted_value 0x1002
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicListenerStopped;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicListenerStopped = {0x1003, 0x0, 0x0, 0x4, 0xf, 0x0, 0x80000004};
#define QuicListenerStopped_value 0x1003
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicListenerRundown;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicListenerRundown = {0x1004, 0x0, 0x0, 0x4, 0xf, 0x0, 0x80000004};
#define QuicListenerRundown_value 0x1004
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicListenerError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicListenerError = {0x1005, 0x0, 0x0, 0x2, 0xf, 0x0, 0x80000004};
#define QuicListenerError_value 0x1005
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicListenerErrorStatus;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicListenerErrorStatus = {0x1006, 0x0, 0x0, 0x2, 0xf, 0x0, 0x80000004};
#define QuicListenerErrorStatus_value 0x1006
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnCreated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnCreated = {0x1400, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnCreated_value 0x1400
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnDestroyed;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnDestroyed = {0x1401, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnDestroyed_value 0x1401
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnHandshakeComplete;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnHandshakeComplete = {0x1402, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnHandshakeComplete_value 0x1402
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnScheduleState;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnScheduleState = {0x1403, 0x0, 0x0, 0x4, 0x11, 0x0, 0x20002020};
#define QuicConnScheduleState_value 0x1403
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnExecOper;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnExecOper = {0x1404, 0x0, 0x0, 0x5, 0x11, 0x0, 0x20000020};
#define QuicConnExecOper_value 0x1404
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnExecApiOper;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnExecApiOper = {0x1405, 0x0, 0x0, 0x5, 0x11, 0x0, 0x20000020};
#define QuicConnExecApiOper_value 0x1405
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnExecTimerOper;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnExecTimerOper = {0x1406, 0x0, 0x0, 0x5, 0x11, 0x0, 0x20000020};
#define QuicConnExecTimerOper_value 0x1406
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnLocalAddrAdded;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnLocalAddrAdded = {0x1407, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnLocalAddrAdded_value 0x1407
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnRemoteAddrAdded;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnRemoteAddrAdded = {0x1408, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnRemoteAddrAdded_value 0x1408
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnLocalAddrRemoved;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnLocalAddrRemoved = {0x1409, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnLocalAddrRemoved_value 0x1409
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnRemoteAddrRemoved;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnRemoteAddrRemoved = {0x140a, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnRemoteAddrRemoved_value 0x140a
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnAssignWorker;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnAssignWorker = {0x140b, 0x0, 0x0, 0x4, 0x11, 0x0, 0x20000020};
#define QuicConnAssignWorker_value 0x140b
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnHandshakeStart;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnHandshakeStart = {0x140c, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnHandshakeStart_value 0x140c
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnRegistered;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnRegistered = {0x140d, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnRegistered_value 0x140d
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnUnregistered;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnUnregistered = {0x140e, 0x0, 0x0, 0x5, 0x11, 0x0, 0x80000020};
#define QuicConnUnregistered_value 0x140e
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnTransportShutdown;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnTransportShutdown = {0x140f, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnTransportShutdown_value 0x140f
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnAppShutdown;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnAppShutdown = {0x1410, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnAppShutdown_value 0x1410
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnInitializeComplete;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnInitializeComplete = {0x1411, 0x0, 0x0, 0x5, 0x11, 0x0, 0x80000020};
#define QuicConnInitializeComplete_value 0x1411
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnHandleClosed;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnHandleClosed = {0x1412, 0x0, 0x0, 0x5, 0x11, 0x0, 0x80000020};
#define QuicConnHandleClosed_value 0x1412
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnVersionSet;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnVersionSet = {0x1413, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnVersionSet_value 0x1413
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnOutFlowStats;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnOutFlowStats = {0x1414, 0x0, 0x0, 0x5, 0x11, 0x0, 0x40000020};
#define QuicConnOutFlowStats_value 0x1414
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnOutFlowBlocked;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnOutFlowBlocked = {0x1415, 0x0, 0x0, 0x4, 0x11, 0x0, 0x40000020};
#define QuicConnOutFlowBlocked_value 0x1415
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnInFlowStats;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnInFlowStats = {0x1416, 0x0, 0x0, 0x5, 0x11, 0x0, 0x40000020};
#define QuicConnInFlowStats_value 0x1416
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnCubic;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnCubic = {0x1417, 0x0, 0x0, 0x5, 0x11, 0x0, 0x40000020};
#define QuicConnCubic_value 0x1417
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnCongestion;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnCongestion = {0x1418, 0x0, 0x0, 0x4, 0x11, 0x0, 0xc0000020};
#define QuicConnCongestion_value 0x1418
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnPersistentCongestion;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnPersistentCongestion = {0x1419, 0x0, 0x0, 0x2, 0x11, 0x0, 0xc0000020};
#define QuicConnPersistentCongestion_value 0x1419
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnRecoveryExit;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnRecoveryExit = {0x141a, 0x0, 0x0, 0x4, 0x11, 0x0, 0x40000020};
#define QuicConnRecoveryExit_value 0x141a
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnRundown;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnRundown = {0x141b, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnRundown_value 0x141b
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnSourceCidAdded;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnSourceCidAdded = {0x141c, 0x0, 0x0, 0x5, 0x11, 0x0, 0x80002020};
#define QuicConnSourceCidAdded_value 0x141c
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnDestCidAdded;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnDestCidAdded = {0x141d, 0x0, 0x0, 0x5, 0x11, 0x0, 0x80002020};
#define QuicConnDestCidAdded_value 0x141d
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnSourceCidRemoved;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnSourceCidRemoved = {0x141e, 0x0, 0x0, 0x5, 0x11, 0x0, 0x80000020};
#define QuicConnSourceCidRemoved_value 0x141e
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnDestCidRemoved;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnDestCidRemoved = {0x141f, 0x0, 0x0, 0x5, 0x11, 0x0, 0x80000020};
#define QuicConnDestCidRemoved_value 0x141f
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnLossDetectionTimerSet;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnLossDetectionTimerSet = {0x1420, 0x0, 0x0, 0x4, 0x11, 0x0, 0x20};
#define QuicConnLossDetectionTimerSet_value 0x1420
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnLossDetectionTimerCancel;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnLossDetectionTimerCancel = {0x1421, 0x0, 0x0, 0x4, 0x11, 0x0, 0x20};
#define QuicConnLossDetectionTimerCancel_value 0x1421
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnDropPacket;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnDropPacket = {0x1422, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80002120};
#define QuicConnDropPacket_value 0x1422
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnDropPacketEx;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnDropPacketEx = {0x1423, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80002120};
#define QuicConnDropPacketEx_value 0x1423
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnError = {0x1424, 0x0, 0x0, 0x2, 0x11, 0x0, 0x80000020};
#define QuicConnError_value 0x1424
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnErrorStatus;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnErrorStatus = {0x1425, 0x0, 0x0, 0x2, 0x11, 0x0, 0x80000020};
#define QuicConnErrorStatus_value 0x1425
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnNewPacketKeys;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnNewPacketKeys = {0x1426, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnNewPacketKeys_value 0x1426
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnKeyPhaseChange;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnKeyPhaseChange = {0x1427, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnKeyPhaseChange_value 0x1427
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnStats;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnStats = {0x1428, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnStats_value 0x1428
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnShutdownComplete;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnShutdownComplete = {0x1429, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnShutdownComplete_value 0x1429
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnReadKeyUpdated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnReadKeyUpdated = {0x142a, 0x0, 0x0, 0x5, 0x11, 0x0, 0x80000020};
#define QuicConnReadKeyUpdated_value 0x142a
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnWriteKeyUpdated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnWriteKeyUpdated = {0x142b, 0x0, 0x0, 0x5, 0x11, 0x0, 0x80000020};
#define QuicConnWriteKeyUpdated_value 0x142b
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnPacketSent;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnPacketSent = {0x142c, 0x0, 0x0, 0x5, 0x11, 0x0, 0x120};
#define QuicConnPacketSent_value 0x142c
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnPacketRecv;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnPacketRecv = {0x142d, 0x0, 0x0, 0x5, 0x11, 0x0, 0x120};
#define QuicConnPacketRecv_value 0x142d
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnPacketLost;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnPacketLost = {0x142e, 0x0, 0x0, 0x4, 0x11, 0x0, 0x120};
#define QuicConnPacketLost_value 0x142e
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnPacketACKed;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnPacketACKed = {0x142f, 0x0, 0x0, 0x5, 0x11, 0x0, 0x120};
#define QuicConnPacketACKed_value 0x142f
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnLogError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnLogError = {0x1430, 0x0, 0x0, 0x2, 0x11, 0x0, 0x1020};
#define QuicConnLogError_value 0x1430
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnLogWarning;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnLogWarning = {0x1431, 0x0, 0x0, 0x3, 0x11, 0x0, 0x1020};
#define QuicConnLogWarning_value 0x1431
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnLogInfo;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnLogInfo = {0x1432, 0x0, 0x0, 0x4, 0x11, 0x0, 0x1020};
#define QuicConnLogInfo_value 0x1432
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnLogVerbose;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnLogVerbose = {0x1433, 0x0, 0x0, 0x5, 0x11, 0x0, 0x1020};
#define QuicConnLogVerbose_value 0x1433
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnQueueSendFlush;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnQueueSendFlush = {0x1434, 0x0, 0x0, 0x5, 0x11, 0x0, 0x20000020};
#define QuicConnQueueSendFlush_value 0x1434
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnOutFlowStreamStats;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnOutFlowStreamStats = {0x1435, 0x0, 0x0, 0x5, 0x11, 0x0, 0x40000020};
#define QuicConnOutFlowStreamStats_value 0x1435
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnPacketStats;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnPacketStats = {0x1436, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnPacketStats_value 0x1436
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnServerResumeTicket;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnServerResumeTicket = {0x1437, 0x0, 0x0, 0x4, 0x11, 0x0, 0x20};
#define QuicConnServerResumeTicket_value 0x1437
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnVNEOtherVersionList;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnVNEOtherVersionList = {0x1438, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnVNEOtherVersionList_value 0x1438
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnClientReceivedVersionList;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnClientReceivedVersionList = {0x1439, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnClientReceivedVersionList_value 0x1439
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnServerSupportedVersionList;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnServerSupportedVersionList = {0x143a, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnServerSupportedVersionList_value 0x143a
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnSpuriousCongestion;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnSpuriousCongestion = {0x143b, 0x0, 0x0, 0x4, 0x11, 0x0, 0xc0000020};
#define QuicConnSpuriousCongestion_value 0x143b
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnNoListenerIp;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnNoListenerIp = {0x143c, 0x0, 0x0, 0x2, 0x11, 0x0, 0x80000020};
#define QuicConnNoListenerIp_value 0x143c
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnNoListenerAlpn;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnNoListenerAlpn = {0x143d, 0x0, 0x0, 0x2, 0x11, 0x0, 0x80000020};
#define QuicConnNoListenerAlpn_value 0x143d
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnFlushSend;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnFlushSend = {0x143e, 0x0, 0x0, 0x5, 0x11, 0x0, 0x40000020};
#define QuicConnFlushSend_value 0x143e
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnSetTimer;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnSetTimer = {0x143f, 0x0, 0x0, 0x5, 0x11, 0x0, 0x20000020};
#define QuicConnSetTimer_value 0x143f
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnCancelTimer;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnCancelTimer = {0x1440, 0x0, 0x0, 0x5, 0x11, 0x0, 0x20000020};
#define QuicConnCancelTimer_value 0x1440
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnExpiredTimer;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnExpiredTimer = {0x1441, 0x0, 0x0, 0x5, 0x11, 0x0, 0x20000020};
#define QuicConnExpiredTimer_value 0x1441
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnBbr;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnBbr = {0x1442, 0x0, 0x0, 0x5, 0x11, 0x0, 0x40000020};
#define QuicConnBbr_value 0x1442
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnEcnCapable;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnEcnCapable = {0x1443, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnEcnCapable_value 0x1443
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnEcnFailed;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnEcnFailed = {0x1444, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnEcnFailed_value 0x1444
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnCongestionV2;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnCongestionV2 = {0x1445, 0x0, 0x0, 0x4, 0x11, 0x0, 0xc0000020};
#define QuicConnCongestionV2_value 0x1445
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnStatsV2;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnStatsV2 = {0x1446, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnStatsV2_value 0x1446
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnHyStartStateChange;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnHyStartStateChange = {0x1447, 0x0, 0x0, 0x4, 0x11, 0x0, 0x40000020};
#define QuicConnHyStartStateChange_value 0x1447
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnRecvUdpDatagrams;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnRecvUdpDatagrams = {0x1448, 0x0, 0x0, 0x4, 0x11, 0x0, 0x40000020};
#define QuicConnRecvUdpDatagrams_value 0x1448
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnOutFlowStatsV2;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnOutFlowStatsV2 = {0x1449, 0x0, 0x0, 0x5, 0x11, 0x0, 0x40000020};
#define QuicConnOutFlowStatsV2_value 0x1449
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnStatsV3;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnStatsV3 = {0x144a, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnStatsV3_value 0x144a
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicConnDelayCloseApplicationError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicConnDelayCloseApplicationError = {0x144b, 0x0, 0x0, 0x4, 0x11, 0x0, 0x80000020};
#define QuicConnDelayCloseApplicationError_value 0x144b
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamCreated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamCreated = {0x1800, 0x0, 0x0, 0x4, 0x12, 0x0, 0x80002040};
#define QuicStreamCreated_value 0x1800
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamDestroyed;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamDestroyed = {0x1801, 0x0, 0x0, 0x4, 0x12, 0x0, 0x80002040};
#define QuicStreamDestroyed_value 0x1801
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamOutFlowBlocked;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamOutFlowBlocked = {0x1802, 0x0, 0x0, 0x4, 0x12, 0x0, 0x40000040};
#define QuicStreamOutFlowBlocked_value 0x1802
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamRundown;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamRundown = {0x1803, 0x0, 0x0, 0x4, 0x12, 0x0, 0x80000040};
#define QuicStreamRundown_value 0x1803
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamSendState;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamSendState = {0x1804, 0x0, 0x0, 0x4, 0x12, 0x0, 0x80002040};
#define QuicStreamSendState_value 0x1804
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamRecvState;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamRecvState = {0x1805, 0x0, 0x0, 0x4, 0x12, 0x0, 0x80002040};
#define QuicStreamRecvState_value 0x1805
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamError = {0x1806, 0x0, 0x0, 0x2, 0x12, 0x0, 0x80000040};
#define QuicStreamError_value 0x1806
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamErrorStatus;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamErrorStatus = {0x1807, 0x0, 0x0, 0x2, 0x12, 0x0, 0x80000040};
#define QuicStreamErrorStatus_value 0x1807
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamLogError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamLogError = {0x1808, 0x0, 0x0, 0x2, 0x12, 0x0, 0x1040};
#define QuicStreamLogError_value 0x1808
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamLogWarning;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamLogWarning = {0x1809, 0x0, 0x0, 0x3, 0x12, 0x0, 0x1040};
#define QuicStreamLogWarning_value 0x1809
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamLogInfo;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamLogInfo = {0x180a, 0x0, 0x0, 0x4, 0x12, 0x0, 0x1040};
#define QuicStreamLogInfo_value 0x180a
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamLogVerbose;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamLogVerbose = {0x180b, 0x0, 0x0, 0x5, 0x12, 0x0, 0x1040};
#define QuicStreamLogVerbose_value 0x180b
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamAlloc;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamAlloc = {0x180c, 0x0, 0x0, 0x5, 0x12, 0x0, 0x2040};
#define QuicStreamAlloc_value 0x180c
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamWriteFrames;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamWriteFrames = {0x180d, 0x0, 0x0, 0x5, 0x12, 0x0, 0x2040};
#define QuicStreamWriteFrames_value 0x180d
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamReceiveFrame;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamReceiveFrame = {0x180e, 0x0, 0x0, 0x5, 0x12, 0x0, 0x2040};
#define QuicStreamReceiveFrame_value 0x180e
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamAppReceive;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamAppReceive = {0x180f, 0x0, 0x0, 0x5, 0x12, 0x0, 0x2040};
#define QuicStreamAppReceive_value 0x180f
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamAppReceiveComplete;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamAppReceiveComplete = {0x1810, 0x0, 0x0, 0x5, 0x12, 0x0, 0x2040};
#define QuicStreamAppReceiveComplete_value 0x1810
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamAppSend;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamAppSend = {0x1811, 0x0, 0x0, 0x5, 0x12, 0x0, 0x2040};
#define QuicStreamAppSend_value 0x1811
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamReceiveFrameComplete;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamReceiveFrameComplete = {0x1812, 0x0, 0x0, 0x5, 0x12, 0x0, 0x2040};
#define QuicStreamReceiveFrameComplete_value 0x1812
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicStreamAppReceiveCompleteCall;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicStreamAppReceiveCompleteCall = {0x1813, 0x0, 0x0, 0x5, 0x12, 0x0, 0x2040};
#define QuicStreamAppReceiveCompleteCall_value 0x1813
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicBindingCreated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicBindingCreated = {0x1c00, 0x0, 0x0, 0x4, 0x10, 0x0, 0x80000010};
#define QuicBindingCreated_value 0x1c00
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicBindingRundown;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicBindingRundown = {0x1c01, 0x0, 0x0, 0x4, 0x10, 0x0, 0x80000010};
#define QuicBindingRundown_value 0x1c01
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicBindingDestroyed;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicBindingDestroyed = {0x1c02, 0x0, 0x0, 0x4, 0x10, 0x0, 0x80000010};
#define QuicBindingDestroyed_value 0x1c02
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicBindingCleanup;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicBindingCleanup = {0x1c03, 0x0, 0x0, 0x5, 0x10, 0x0, 0x80000010};
#define QuicBindingCleanup_value 0x1c03
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicBindingDropPacket;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicBindingDropPacket = {0x1c04, 0x0, 0x0, 0x4, 0x10, 0x0, 0x80002110};
#define QuicBindingDropPacket_value 0x1c04
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicBindingDropPacketEx;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicBindingDropPacketEx = {0x1c05, 0x0, 0x0, 0x4, 0x10, 0x0, 0x80002110};
#define QuicBindingDropPacketEx_value 0x1c05
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicBindingError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicBindingError = {0x1c06, 0x0, 0x0, 0x2, 0x10, 0x0, 0x80000010};
#define QuicBindingError_value 0x1c06
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicBindingErrorStatus;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicBindingErrorStatus = {0x1c07, 0x0, 0x0, 0x2, 0x10, 0x0, 0x80000010};
#define QuicBindingErrorStatus_value 0x1c07
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicBindingExecOper;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicBindingExecOper = {0x1c08, 0x0, 0x0, 0x5, 0x10, 0x0, 0x20000010};
#define QuicBindingExecOper_value 0x1c08
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicTlsError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicTlsError = {0x2000, 0x0, 0x0, 0x2, 0x11, 0x0, 0x80000200};
#define QuicTlsError_value 0x2000
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicTlsErrorStatus;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicTlsErrorStatus = {0x2001, 0x0, 0x0, 0x2, 0x11, 0x0, 0x80000200};
#define QuicTlsErrorStatus_value 0x2001
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicTlsMessage;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicTlsMessage = {0x2002, 0x0, 0x0, 0x5, 0x11, 0x0, 0x200};
#define QuicTlsMessage_value 0x2002
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicDatapathSend;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicDatapathSend = {0x2401, 0x0, 0x0, 0x5, 0x13, 0x0, 0x40000080};
#define QuicDatapathSend_value 0x2401
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicDatapathRecv;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicDatapathRecv = {0x2402, 0x0, 0x0, 0x5, 0x13, 0x0, 0x40000080};
#define QuicDatapathRecv_value 0x2402
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicDatapathError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicDatapathError = {0x2403, 0x0, 0x0, 0x2, 0x13, 0x0, 0x80000080};
#define QuicDatapathError_value 0x2403
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicDatapathErrorStatus;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicDatapathErrorStatus = {0x2404, 0x0, 0x0, 0x2, 0x13, 0x0, 0x80000080};
#define QuicDatapathErrorStatus_value 0x2404
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicDatapathCreated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicDatapathCreated = {0x2405, 0x0, 0x0, 0x4, 0x13, 0x0, 0x80000080};
#define QuicDatapathCreated_value 0x2405
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicDatapathDestroyed;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicDatapathDestroyed = {0x2406, 0x0, 0x0, 0x4, 0x13, 0x0, 0x80000080};
#define QuicDatapathDestroyed_value 0x2406
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicDatapathGetRouteStart;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicDatapathGetRouteStart = {0x2407, 0x0, 0x0, 0x4, 0x13, 0x0, 0x80000080};
#define QuicDatapathGetRouteStart_value 0x2407
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicDatapathGetRouteComplete;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicDatapathGetRouteComplete = {0x2408, 0x0, 0x0, 0x4, 0x13, 0x0, 0x80000080};
#define QuicDatapathGetRouteComplete_value 0x2408
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicDatapathSendTcpControl;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicDatapathSendTcpControl = {0x2409, 0x0, 0x0, 0x4, 0x13, 0x0, 0x80000080};
#define QuicDatapathSendTcpControl_value 0x2409
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLogError;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLogError = {0x2800, 0x0, 0x0, 0x2, 0xb, 0x0, 0x1000};
#define QuicLogError_value 0x2800
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLogWarning;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLogWarning = {0x2801, 0x0, 0x0, 0x3, 0xb, 0x0, 0x1000};
#define QuicLogWarning_value 0x2801
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLogInfo;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLogInfo = {0x2802, 0x0, 0x0, 0x4, 0xb, 0x0, 0x1000};
#define QuicLogInfo_value 0x2802
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicLogVerbose;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicLogVerbose = {0x2803, 0x0, 0x0, 0x5, 0xb, 0x0, 0x1000};
#define QuicLogVerbose_value 0x2803
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicPacketCreated;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicPacketCreated = {0x2c00, 0x0, 0x0, 0x5, 0xb, 0x0, 0x2000};
#define QuicPacketCreated_value 0x2c00
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicPacketEncrypt;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicPacketEncrypt = {0x2c01, 0x0, 0x0, 0x5, 0xb, 0x0, 0x2000};
#define QuicPacketEncrypt_value 0x2c01
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicPacketFinalize;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicPacketFinalize = {0x2c02, 0x0, 0x0, 0x5, 0xb, 0x0, 0x2000};
#define QuicPacketFinalize_value 0x2c02
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicPacketBatchSent;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicPacketBatchSent = {0x2c03, 0x0, 0x0, 0x5, 0xb, 0x0, 0x2000};
#define QuicPacketBatchSent_value 0x2c03
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicPacketReceive;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicPacketReceive = {0x2c04, 0x0, 0x0, 0x5, 0xb, 0x0, 0x2000};
#define QuicPacketReceive_value 0x2c04
MCGEN_DECLARE const EVENT_DESCRIPTOR QuicPacketDecrypt;
MCGEN_DEFINE const EVENT_DESCRIPTOR QuicPacketDecrypt = {0x2c05, 0x0, 0x0, 0x5, 0xb, 0x0, 0x2000};
#define QuicPacketDecrypt_value 0x2c05

#ifdef __cplusplus
}
#endif

#define MSG_Etw_LibraryInitialized 0xB0000001L
#define MSG_Etw_LibraryUninitialized 0xB0000002L
#define MSG_Etw_LibraryAddRef 0xB0000003L
#define MSG_Etw_LibraryRelease 0xB0000004L
#define MSG_Etw_LibraryServerInit 0xB0000005L
#define MSG_Etw_AllocFailure 0xB0000006L
#define MSG_Etw_LibraryRundown 0xB0000007L
#define MSG_Etw_LibraryError 0xB0000008L
#define MSG_Etw_LibraryErrorStatus 0xB0000009L
#define MSG_Etw_LibraryAssert 0xB000000AL
#define MSG_Etw_ApiEnter 0xB000000BL
#define MSG_Etw_ApiExit 0xB000000CL
#define MSG_Etw_ApiExitStatus 0xB000000DL
#define MSG_Etw_ApiWaitOperation 0xB000000EL
#define MSG_Etw_PerfCountersRundown 0xB000000FL
#define MSG_Etw_LibrarySendRetryStateUpdated 0xB0000010L
#define MSG_Etw_LibraryVersion 0xB0000011L
#define MSG_Etw_ApiError 0xB0000012L
#define MSG_Etw_LibraryInitializedV2 0xB0000013L
#define MSG_Etw_DataPathInitialized 0xB0000014L
#define MSG_Etw_LibraryRundownV2 0xB0000015L
#define MSG_Etw_DataPathRundown 0xB0000016L
#define MSG_Etw_LibraryInitializedV3 0xB0000017L
#define MSG_Etw_RegistrationCreated 0xB0000400L
#define MSG_Etw_RegistrationDestroyed 0xB0000401L
#define MSG_Etw_RegistrationCleanup 0xB0000402L
#define MSG_Etw_RegistrationRundown 0xB0000403L
#define MSG_Etw_RegistrationError 0xB0000404L
#define MSG_Etw_RegistrationErrorStatus 0xB0000405L
#define MSG_Etw_RegistrationShutdown 0xB0000406L
#define MSG_Etw_RegistrationCreatedV2 0xB0000407L
#define MSG_Etw_RegistrationRundownV2 0xB0000408L
#define MSG_Etw_WorkerCreated 0xB0000800L
#define MSG_Etw_WorkerStart 0xB0000801L
#define MSG_Etw_WorkerStop 0xB0000802L
#define MSG_Etw_WorkerActivityStateUpdated 0xB0000803L
#define MSG_Etw_WorkerQueueDelayUpdated 0xB0000804L
#define MSG_Etw_WorkerDestroyed 0xB0000805L
#define MSG_Etw_WorkerCleanup 0xB0000806L
#define MSG_Etw_WorkerError 0xB0000807L
#define MSG_Etw_WorkerErrorStatus 0xB0000808L
#define MSG_Etw_ConfigurationCreated 0xB0000C00L
#define MSG_Etw_ConfigurationDestroyed 0xB0000C01L
#define MSG_Etw_ConfigurationCleanup 0xB0000C02L
#define MSG_Etw_ConfigurationRundown 0xB0000C04L
#define MSG_Etw_ConfigurationError 0xB0000C05L
#define MSG_Etw_ConfigurationErrorStatus 0xB0000C06L
#define MSG_Etw_ListenerCreated 0xB0001000L
#define MSG_Etw_ListenerDestroyed 0xB0001001L
#define MSG_Etw_ListenerStarted 0xB0001002L
#define MSG_Etw_ListenerStopped 0xB0001003L
#define MSG_Etw_ListenerRundown 0xB0001004L
#define MSG_Etw_ListenerError 0xB0001005L
#define MSG_Etw_ListenerErrorStatus 0xB0001006L
#define MSG_Etw_ConnCreated 0xB0001400L
#define MSG_Etw_ConnDestroyed 0xB0001401L
#define MSG_Etw_ConnHandshakeComplete 0xB0001402L
#define MSG_Etw_ConnScheduleState 0xB0001403L
#define MSG_Etw_ConnExecOper 0xB0001404L
#define MSG_Etw_ConnLocalAddrAdd 0xB0001407L
#define MSG_Etw_ConnRemoteAddrAdd 0xB0001408L
#define MSG_Etw_ConnLocalAddrRemove 0xB0001409L
#define MSG_Etw_ConnRemoteAddrRemove 0xB000140AL
#define MSG_Etw_ConnAssignWorker 0xB000140BL
#define MSG_Etw_ConnHandshakeStart 0xB000140CL
#define MSG_Etw_ConnRegistered 0xB000140DL
#define MSG_Etw_ConnUnregistered 0xB000140EL
#define MSG_Etw_ConnTransportShutdown 0xB000140FL
#define MSG_Etw_ConnAppShutdown 0xB0001410L
#define MSG_Etw_ConnInitializeComplete 0xB0001411L
#define MSG_Etw_ConnHandleClosed 0xB0001412L
#define MSG_Etw_ConnVersionSet 0xB0001413L
#define MSG_Etw_ConnOutFlowStats 0xB0001414L
#define MSG_Etw_ConnOutFlowBlocked 0xB0001415L
#define MSG_Etw_ConnInFlowStats 0xB0001416L
#define MSG_Etw_Cubic 0xB0001417L
#define MSG_Etw_CongestionEvent 0xB0001418L
#define MSG_Etw_PersistentCongestionEvent 0xB0001419L
#define MSG_Etw_RecoveryExit 0xB000141AL
#define MSG_Etw_ConnRundown 0xB000141BL
#define MSG_Etw_ConnSourceCidAdd 0xB000141CL
#define MSG_Etw_ConnDestCidAdd 0xB000141DL
#define MSG_Etw_ConnSourceCidRemove 0xB000141EL
#define MSG_Etw_ConnDestCidRemove 0xB000141FL
#define MSG_Etw_ConnLossDetectionTimerSet 0xB0001420L
#define MSG_Etw_ConnLossDetectionTimerCancel 0xB0001421L
#define MSG_Etw_ConnDropPacket 0xB0001422L
#define MSG_Etw_ConnDropPacketEx 0xB0001423L
#define MSG_Etw_ConnError 0xB0001424L
#define MSG_Etw_ConnErrorStatus 0xB0001425L
#define MSG_Etw_ConnNewPacketKeys 0xB0001426L
#define MSG_Etw_ConnKeyPhaseChange 0xB0001427L
#define MSG_Etw_ConnStats 0xB0001428L
#define MSG_Etw_ConnShutdownComplete 0xB0001429L
#define MSG_Etw_ConnReadKeyUpdated 0xB000142AL
#define MSG_Etw_ConnWriteKeyUpdated 0xB000142BL
#define MSG_Etw_ConnPacketSent 0xB000142CL
#define MSG_Etw_ConnPacketRecv 0xB000142DL
#define MSG_Etw_ConnPacketLost 0xB000142EL
#define MSG_Etw_ConnPacketAcked 0xB000142FL
#define MSG_Etw_ConnMessage 0xB0001430L
#define MSG_Etw_ConnQueueSendFlush 0xB0001434L
#define MSG_Etw_ConnOutFlowStreamStats 0xB0001435L
#define MSG_Etw_ConnPacketStats 0xB0001436L
#define MSG_Etw_ConnServerResumeTicket 0xB0001437L
#define MSG_Etw_ConnVNEOtherVersionList 0xB0001438L
#define MSG_Etw_ConnClientReceivedVersionList 0xB0001439L
#define MSG_Etw_ConnServerSupportedVersionList 0xB000143AL
#define MSG_Etw_SpuriousCongestionEvent 0xB000143BL
#define MSG_Etw_ConnNoListenerIp 0xB000143CL
#define MSG_Etw_ConnNoListenerAlpn 0xB000143DL
#define MSG_Etw_ConnFlushSend 0xB000143EL
#define MSG_Etw_ConnSetTimer 0xB000143FL
#define MSG_Etw_ConnCancelTimer 0xB0001440L
#define MSG_Etw_ConnExpiredTimer 0xB0001441L
#define MSG_Etw_Bbr 0xB0001442L
#define MSG_Etw_ConnEcnCapable 0xB0001443L
#define MSG_Etw_ConnEcnFailed 0xB0001444L
#define MSG_Etw_CongestionEventV2 0xB0001445L
#define MSG_Etw_ConnStatsV2 0xB0001446L
#define MSG_Etw_CubicHyStart 0xB0001447L
#define MSG_Etw_ConnRecvUdpDatagrams 0xB0001448L
#define MSG_Etw_ConnOutFlowStatsV2 0xB0001449L
#define MSG_Etw_ConnDelayCloseApplicationError 0xB000144BL
#define MSG_Etw_StreamCreated 0xB0001800L
#define MSG_Etw_StreamDestroyed 0xB0001801L
#define MSG_Etw_StreamOutFlowBlocked 0xB0001802L
#define MSG_Etw_StreamRundown 0xB0001803L
#define MSG_Etw_StreamSendState 0xB0001804L
#define MSG_Etw_StreamRecvState 0xB0001805L
#define MSG_Etw_StreamError 0xB0001806L
#define MSG_Etw_StreamErrorStatus 0xB0001807L
#define MSG_Etw_StreamMessage 0xB0001808L
#define MSG_Etw_StreamAlloc 0xB000180CL
#define MSG_Etw_StreamWriteFrames 0xB000180DL
#define MSG_Etw_StreamReceiveFrame 0xB000180EL
#define MSG_Etw_StreamAppReceive 0xB000180FL
#define MSG_Etw_StreamAppReceiveComplete 0xB0001810L
#define MSG_Etw_StreamAppSend 0xB0001811L
#define MSG_Etw_StreamReceiveFrameComplete 0xB0001812L
#define MSG_Etw_StreamAppReceiveCompleteCall 0xB0001813L
#define MSG_Etw_BindingCreated 0xB0001C00L
#define MSG_Etw_BindingRundown 0xB0001C01L
#define MSG_Etw_BindingDestroyed 0xB0001C02L
#define MSG_Etw_BindingCleanup 0xB0001C03L
#define MSG_Etw_BindingDropPacket 0xB0001C04L
#define MSG_Etw_BindingDropPacketEx 0xB0001C05L
#define MSG_Etw_BindingError 0xB0001C06L
#define MSG_Etw_BindingErrorStatus 0xB0001C07L
#define MSG_Etw_BindingExecOper 0xB0001C08L
#define MSG_Etw_TlsError 0xB0002000L
#define MSG_Etw_TlsErrorStatus 0xB0002001L
#define MSG_Etw_TlsMessage 0xB0002002L
#define MSG_Etw_DatapathSend 0xB0002401L
#define MSG_Etw_DatapathRecv 0xB0002402L
#define MSG_Etw_DatapathError 0xB0002403L
#define MSG_Etw_DatapathErrorStatus 0xB0002404L
#define MSG_Etw_DatapathCreated 0xB0002405L
#define MSG_Etw_DatapathDestroyed 0xB0002406L
#define MSG_Etw_DatapathGetRouteStart 0xB0002407L
#define MSG_Etw_DatapathGetRouteComplete 0xB0002408L
#define MSG_Etw_DatapathSendTcpControl 0xB0002409L
#define MSG_Etw_Message 0xB0002800L
#define MSG_Etw_PacketCreated 0xB0002C00L
#define MSG_Etw_PacketEncrypt 0xB0002C01L
#define MSG_Etw_PacketFinalize 0xB0002C02L
#define MSG_Etw_PacketBatchSent 0xB0002C03L
#define MSG_Etw_PacketReceive 0xB0002C04L
#define MSG_Etw_PacketDecrypt 0xB0002C05L
#define MSG_Enum_QUIC_SCHEDULE_STATE_IDLE 0xD0000001L
#define MSG_Enum_QUIC_SCHEDULE_STATE_QUEUED 0xD0000002L
#define MSG_Enum_QUIC_SCHEDULE_STATE_PROCESSING 0xD0000003L
#define MSG_Enum_QUIC_OPERATION_TYPE_API_CALL 0xD0000004L
#define MSG_Enum_QUIC_OPERATION_TYPE_FLUSH_RECV 0xD0000005L
#define MSG_Enum_QUIC_OPERATION_TYPE_UNREACHABLE 0xD0000006L
#define MSG_Enum_QUIC_OPERATION_TYPE_FLUSH_STREAM_RECV 0xD0000007L
#define MSG_Enum_QUIC_OPERATION_TYPE_FLUSH_SEND 0xD0000008L
#define MSG_Enum_QUIC_OPERATION_TYPE_TLS_COMPLETE 0xD0000009L
#define MSG_Enum_QUIC_OPERATION_TYPE_TIMER_EXPIRED 0xD000000AL
#define MSG_Enum_QUIC_OPERATION_TYPE_TRACE_RUNDOWN 0xD000000BL
#define MSG_Enum_QUIC_OPERATION_TYPE_VERSION_NEGOTIATION 0xD000000CL
#define MSG_Enum_QUIC_OPERATION_TYPE_STATELESS_RESET 0xD000000DL
#define MSG_Enum_QUIC_OPERATION_TYPE_RETRY 0xD000000EL
#define MSG_Enum_QUIC_API_TYPE_CONN_CLOSE 0xD000000FL
#define MSG_Enum_QUIC_API_TYPE_CONN_SHUTDOWN 0xD0000010L
#define MSG_Enum_QUIC_API_TYPE_CONN_START 0xD0000011L
#define MSG_Enum_QUIC_API_TYPE_SET_CONFIGURATION 0xD0000012L
#define MSG_Enum_QUIC_API_TYPE_SEND_RESUMPTION_TICKET 0xD0000013L
#define MSG_Enum_QUIC_API_TYPE_STRM_CLOSE 0xD0000014L
#define MSG_Enum_QUIC_API_TYPE_STRM_SHUTDOWN 0xD0000015L
#define MSG_Enum_QUIC_API_TYPE_STRM_START 0xD0000016L
#define MSG_Enum_QUIC_API_TYPE_STRM_SEND 0xD0000017L
#define MSG_Enum_QUIC_API_TYPE_STRM_RECV_COMPLETE 0xD0000018L
#define MSG_Enum_QUIC_API_TYPE_STRM_RECV_SET_ENABLED 0xD0000019L
#define MSG_Enum_QUIC_API_TYPE_SET_PARAM 0xD000001AL
#define MSG_Enum_QUIC_API_TYPE_GET_PARAM 0xD000001BL
#define MSG_Enum_QUIC_API_TYPE_DATAGRAM_SEND 0xD000001CL
#define MSG_Enum_QUIC_API_TYPE_CONN_COMPLETE_RESUMPTION_TICKET_VALIDATION 0xD000001DL
#define MSG_Enum_QUIC_API_TYPE_CONN_COMPLETE_CERTIFICATE_VALIDATION 0xD000001EL
#define MSG_Enum_QUIC_API_TYPE_STRM_PROVIDE_RECV_BUFFERS 0xD000001FL
#define MSG_Enum_QUIC_CONN_TIMER_TYPE_PACING 0xD0000020L
#define MSG_Enum_QUIC_CONN_TIMER_TYPE_ACK_DELAY 0xD0000021L
#define MSG_Enum_QUIC_CONN_TIMER_TYPE_LOSS_DETECTION 0xD0000022L
#define MSG_Enum_QUIC_CONN_TIMER_TYPE_KEEP_ALIVE 0xD0000023L
#define MSG_Enum_QUIC_CONN_TIMER_TYPE_IDLE 0xD0000024L
#define MSG_Enum_QUIC_CONN_TIMER_TYPE_SHUTDOWN 0xD0000025L
#define MSG_Enum_QUIC_LOSS_TIMER_TYPE_INITIAL 0xD0000026L
#define MSG_Enum_QUIC_LOSS_TIMER_TYPE_RACK 0xD0000027L
#define MSG_Enum_QUIC_LOSS_TIMER_TYPE_PROBE 0xD0000028L
#define MSG_Enum_QUIC_STREAM_SEND_STATE_DISABLED 0xD0000029L
#define MSG_Enum_QUIC_STREAM_SEND_STATE_STARTED 0xD000002AL
#define MSG_Enum_QUIC_STREAM_SEND_STATE_RESET 0xD000002BL
#define MSG_Enum_QUIC_STREAM_SEND_STATE_RESET_ACKED 0xD000002CL
#define MSG_Enum_QUIC_STREAM_SEND_STATE_FIN 0xD000002DL
#define MSG_Enum_QUIC_STREAM_SEND_STATE_FIN_ACKED 0xD000002EL
#define MSG_Enum_QUIC_STREAM_SEND_STATE_RELIABLE_RESET 0xD000002FL
#define MSG_Enum_QUIC_STREAM_SEND_STATE_RELIABLE_RESET_ACKED 0xD0000030L
#define MSG_Enum_QUIC_STREAM_RECV_STATE_DISABLED 0xD0000031L
#define MSG_Enum_QUIC_STREAM_RECV_STATE_STARTED 0xD0000032L
#define MSG_Enum_QUIC_STREAM_RECV_STATE_PAUSED 0xD0000033L
#define MSG_Enum_QUIC_STREAM_RECV_STATE_STOPPED 0xD0000034L
#define MSG_Enum_QUIC_STREAM_RECV_STATE_RESET 0xD0000035L
#define MSG_Enum_QUIC_STREAM_RECV_STATE_FIN 0xD0000036L
#define MSG_Enum_QUIC_STREAM_RECV_STATE_RELIABLE_RESET 0xD0000037L
#define MSG_Enum_QUIC_TRACE_PACKET_TYPE_VERSION_NEGOTIATION 0xD0000038L
#define MSG_Enum_QUIC_TRACE_PACKET_TYPE_INITIAL 0xD0000039L
#define MSG_Enum_QUIC_TRACE_PACKET_TYPE_ZERO_RTT 0xD000003AL
#define MSG_Enum_QUIC_TRACE_PACKET_TYPE_HANDSHAKE 0xD000003BL
#define MSG_Enum_QUIC_TRACE_PACKET_TYPE_RETRY 0xD000003CL
#define MSG_Enum_QUIC_TRACE_PACKET_TYPE_ONE_RTT 0xD000003DL
#define MSG_Enum_QUIC_TRACE_PACKET_LOSS_REASON_RACK 0xD000003EL
#define MSG_Enum_QUIC_TRACE_PACKET_LOSS_REASON_FACK 0xD000003FL
#define MSG_Enum_QUIC_TRACE_PACKET_LOSS_REASON_PROBE 0xD0000040L
#define MSG_Enum_QUIC_TRACE_API_TYPE_SET_PARAM 0xD0000041L
#define MSG_Enum_QUIC_TRACE_API_TYPE_GET_PARAM 0xD0000042L
#define MSG_Enum_QUIC_TRACE_API_TYPE_REGISTRATION_OPEN 0xD0000043L
#define MSG_Enum_QUIC_TRACE_API_TYPE_REGISTRATION_CLOSE 0xD0000044L
#define MSG_Enum_QUIC_TRACE_API_TYPE_REGISTRATION_SHUTDOWN 0xD0000045L
#define MSG_Enum_QUIC_TRACE_API_TYPE_CONFIGURATION_OPEN 0xD0000046L
#define MSG_Enum_QUIC_TRACE_API_TYPE_CONFIGURATION_CLOSE 0xD0000047L
#define MSG_Enum_QUIC_TRACE_API_TYPE_CONFIGURATION_LOAD_CREDENTIAL 0xD0000048L
#define MSG_Enum_QUIC_TRACE_API_TYPE_LISTENER_OPEN 0xD0000049L
#define MSG_Enum_QUIC_TRACE_API_TYPE_LISTENER_CLOSE 0xD000004AL
#define MSG_Enum_QUIC_TRACE_API_TYPE_LISTENER_START 0xD000004BL
#define MSG_Enum_QUIC_TRACE_API_TYPE_LISTENER_STOP 0xD000004CL
#define MSG_Enum_QUIC_TRACE_API_TYPE_CONNECTION_OPEN 0xD000004DL
#define MSG_Enum_QUIC_TRACE_API_TYPE_CONNECTION_CLOSE 0xD000004EL
#define MSG_Enum_QUIC_TRACE_API_TYPE_CONNECTION_SHUTDOWN 0xD000004FL
#define MSG_Enum_QUIC_TRACE_API_TYPE_CONNECTION_START 0xD0000050L
#define MSG_Enum_QUIC_TRACE_API_TYPE_CONNECTION_SET_CONFIGURATION 0xD0000051L
#define MSG_Enum_QUIC_TRACE_API_TYPE_CONNECTION_SEND_RESUMPTION_TICKET 0xD0000052L
#define MSG_Enum_QUIC_TRACE_API_TYPE_STREAM_OPEN 0xD0000053L
#define MSG_Enum_QUIC_TRACE_API_TYPE_STREAM_CLOSE 0xD0000054L
#define MSG_Enum_QUIC_TRACE_API_TYPE_STREAM_START 0xD0000055L
#define MSG_Enum_QUIC_TRACE_API_TYPE_STREAM_SHUTDOWN 0xD0000056L
#define MSG_Enum_QUIC_TRACE_API_TYPE_STREAM_SEND 0xD0000057L
#define MSG_Enum_QUIC_TRACE_API_TYPE_STREAM_RECEIVE_COMPLETE 0xD0000058L
#define MSG_Enum_QUIC_TRACE_API_TYPE_STREAM_RECEIVE_SET_ENABLED 0xD0000059L
#define MSG_Enum_QUIC_TRACE_API_TYPE_DATAGRAM_SEND 0xD000005AL
#define MSG_Enum_QUIC_TRACE_API_TYPE_COMPLETE_RESUMPTION_TICKET_VALIDATION 0xD000005BL
#define MSG_Enum_QUIC_TRACE_API_TYPE_COMPLETE_CERTIFICATE_VALIDATION 0xD000005CL
#define MSG_Enum_QUIC_TRACE_API_TYPE_STREAM_PROVIDE_RECEIVE_BUFFERS 0xD000005DL
#define MSG_Enum_QUIC_TRACE_API_TYPE_CONNECTION_POOL_CREATE 0xD000005EL
#define MSG_Enum_QUIC_TRACE_API_TYPE_EXECUTION_CREATE 0xD000005FL
#define MSG_Enum_QUIC_TRACE_API_TYPE_EXECUTION_DELETE 0xD0000060L
#define MSG_Enum_QUIC_TRACE_API_TYPE_EXECUTION_POLL 0xD0000061L
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_CONNECTION_FLAGS 0xD0000062L
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_STREAM_FLAGS 0xD0000063L
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_PROBE 0xD0000064L
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_LOSS 0xD0000065L
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_ACK 0xD0000066L
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_TRANSPORT_PARAMETERS 0xD0000067L
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_CONGESTION_CONTROL 0xD0000068L
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_CONNECTION_FLOW_CONTROL 0xD0000069L
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_NEW_KEY 0xD000006AL
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_STREAM_FLOW_CONTROL 0xD000006BL
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_STREAM_ID_FLOW_CONTROL 0xD000006CL
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_AMPLIFICATION_PROTECTION 0xD000006DL
#define MSG_Enum_QUIC_SEND_FLUSH_REASON_SCHEDULING 0xD000006EL
#define MSG_Enum_QUIC_EXECUTION_PROFILE_QUIC_EXECUTION_PROFILE_LOW_LATENCY 0xD000006FL
#define MSG_Enum_QUIC_EXECUTION_PROFILE_QUIC_EXECUTION_PROFILE_TYPE_MAX_THROUGHPUT 0xD0000070L
#define MSG_Enum_QUIC_EXECUTION_PROFILE_QUIC_EXECUTION_PROFILE_TYPE_SCAVENGER 0xD0000071L
#define MSG_Enum_QUIC_EXECUTION_PROFILE_QUIC_EXECUTION_PROFILE_TYPE_REAL_TIME 0xD0000072L
#define MSG_Enum_QUIC_CUBIC_HYSTART_STATE_NOT_STARTED 0xD0000073L
#define MSG_Enum_QUIC_CUBIC_HYSTART_STATE_ACTIVE 0xD0000074L
#define MSG_Enum_QUIC_CUBIC_HYSTART_STATE_DONE 0xD0000075L
