/*
 * Windows' winternl.h: the calls by which programs for Windows 7 read and set the system events of a session (krabsetw, for example). Other
 * programs use TraceQueryInformation and TraceSetInformation.
 *
 * Part of openetw. Written to Microsoft's documentation; names and values are theirs.
 */
#ifndef ETW_WINDOWS_WINTERNL_H
#define ETW_WINDOWS_WINTERNL_H

#include "etw_windows.h"

#ifdef __cplusplus
extern "C" {
#endif
typedef enum _SYSTEM_INFORMATION_CLASS {
    SystemBasicInformation = 0,
    SystemPerformanceInformation = 2,
    SystemTimeOfDayInformation = 3,
    SystemProcessInformation = 5,
    SystemProcessorPerformanceInformation = 8,
    SystemInterruptInformation = 23,
    SystemExceptionInformation = 33,
    SystemRegistryQuotaInformation = 37,
    SystemLookasideInformation = 45,
    SystemCodeIntegrityInformation = 103,
    SystemPolicyInformation = 134
} SYSTEM_INFORMATION_CLASS;

/* Classes other than 31, SystemPerformanceTraceInformation, return STATUS_INVALID_INFO_CLASS. */
NTSTATUS NTAPI NtQuerySystemInformation(SYSTEM_INFORMATION_CLASS SystemInformationClass, PVOID SystemInformation,
                                        ULONG SystemInformationLength, PULONG ReturnLength);
#ifdef __cplusplus
}
#endif

#define NT_SUCCESS(status) ((NTSTATUS)(status) >= 0)
#define NT_ERROR(status) ((ULONG)(status) >> 30 == 3)
static inline void RtlInitUnicodeString(PUNICODE_STRING to, const WCHAR *text)
{
    const size_t length = text == NULL ? 0 : etw_wcslen(text) * sizeof *text;
    to->Length = (USHORT)(length > 0xfffc ? 0xfffc : length);
    to->MaximumLength = (USHORT)(text == NULL ? 0 : to->Length + sizeof *text);
    to->Buffer = (PWSTR)(uintptr_t)text;
}
static inline void RtlInitAnsiString(PANSI_STRING to, const char *text)
{
    const size_t length = text == NULL ? 0 : strlen(text);
    to->Length = (USHORT)(length > 0xfffe ? 0xfffe : length);
    to->MaximumLength = (USHORT)(text == NULL ? 0 : to->Length + 1);
    to->Buffer = (PSTR)(uintptr_t)text;
}

#endif
