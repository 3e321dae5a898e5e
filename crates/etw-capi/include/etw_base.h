/*
 * Types of the Windows API that the ETW headers use, for other systems. ULONG, LONG and DWORD have 32 bits; WCHAR has 16.
 *
 * Part of openetw. Written to Microsoft's documentation; names and layouts are theirs.
 */
#ifndef ETW_BASE_H
#define ETW_BASE_H

/* Programs for Windows may define _WIN32 here themselves, for their own conditions. */
#if defined(_WIN32) && !defined(__linux__)
#error "On Windows use the headers of the Windows SDK."
#endif

/* With -std=c11, the C library declares what these headers need only if a program asks. */
#if defined(__STRICT_ANSI__) && !defined(_FEATURES_H) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1
#endif

#ifdef __cplusplus
extern "C++" {
#endif
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>
#ifndef __cplusplus
#include <uchar.h>
#endif
#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
#define ETW_EXTERN extern "C"
#else
#define ETW_EXTERN extern
#endif

typedef uint8_t UCHAR, BYTE, BOOLEAN, *PUCHAR, *PBYTE, *PBOOLEAN;
typedef char CHAR, *PCHAR, *PSTR, *LPSTR;
typedef const char *PCSTR, *LPCSTR;
typedef uint16_t USHORT, WORD, *PUSHORT;
typedef int16_t SHORT;
typedef uint32_t ULONG, DWORD, UINT, *PULONG, *LPDWORD, *PDWORD;
typedef int32_t LONG, INT, BOOL, *PLONG;
typedef uint64_t ULONGLONG, ULONG64, DWORD64, UINT64, *PULONGLONG, *PULONG64;
typedef int64_t LONGLONG, LONG64, INT64;
typedef uint8_t UINT8;
typedef uint16_t UINT16;
typedef uint32_t UINT32;
typedef int8_t INT8;
typedef int16_t INT16;
typedef int32_t INT32;
typedef uintptr_t ULONG_PTR, UINT_PTR, SIZE_T, DWORD_PTR;
typedef intptr_t LONG_PTR, INT_PTR;
typedef void VOID, *PVOID, *LPVOID, *HANDLE;
typedef const void *PCVOID, *LPCVOID;
#if __SIZEOF_WCHAR_T__ == 2
typedef wchar_t WCHAR, *PWCHAR, *PWSTR, *LPWSTR;
typedef const wchar_t *PCWSTR, *LPCWSTR;
#else
typedef char16_t WCHAR, *PWCHAR, *PWSTR, *LPWSTR;
typedef const char16_t *PCWSTR, *LPCWSTR;
#endif

typedef union _LARGE_INTEGER {
    __extension__ struct {
        DWORD LowPart;
        LONG HighPart;
    };
    struct {
        DWORD LowPart;
        LONG HighPart;
    } u;
    LONGLONG QuadPart;
} LARGE_INTEGER, *PLARGE_INTEGER;

typedef struct _FILETIME {
    DWORD dwLowDateTime;
    DWORD dwHighDateTime;
} FILETIME, *PFILETIME, *LPFILETIME;

#ifndef ETW_SYSTEMTIME_DEFINED
#define ETW_SYSTEMTIME_DEFINED
typedef struct _SYSTEMTIME {
    uint16_t wYear, wMonth, wDayOfWeek, wDay, wHour, wMinute, wSecond, wMilliseconds;
} SYSTEMTIME, *PSYSTEMTIME;
#endif

typedef struct _TIME_ZONE_INFORMATION {
    LONG Bias;
    WCHAR StandardName[32];
    SYSTEMTIME StandardDate;
    LONG StandardBias;
    WCHAR DaylightName[32];
    SYSTEMTIME DaylightDate;
    LONG DaylightBias;
} TIME_ZONE_INFORMATION, *PTIME_ZONE_INFORMATION, *LPTIME_ZONE_INFORMATION;

#ifndef GUID_DEFINED
#define GUID_DEFINED
typedef struct _GUID {
    uint32_t Data1;
    uint16_t Data2;
    uint16_t Data3;
    uint8_t Data4[8];
} GUID;
#endif
typedef GUID *LPGUID;
typedef const GUID *LPCGUID;
#ifdef __cplusplus
typedef const GUID &REFGUID;
#else
typedef const GUID *REFGUID;
#endif

#include "etw_define_guid.h"

/* ETW_W("text") is a text of WCHAR. */
#if __SIZEOF_WCHAR_T__ == 2
#define ETW_W_(text) L##text
#else
#define ETW_W_(text) u##text
#endif
#define ETW_W(text) ETW_W_(text)

#ifndef TRUE
#define TRUE 1
#define FALSE 0
#endif
#ifndef INVALID_HANDLE_VALUE
#define INVALID_HANDLE_VALUE ((HANDLE)(intptr_t)-1)
#endif
/* Macros of winbase.h that samples of providers and controllers use. */
#ifndef ZeroMemory
#define ZeroMemory(Destination, Length) memset((Destination), 0, (Length))
#define FillMemory(Destination, Length, Fill) memset((Destination), (Fill), (Length))
#define CopyMemory(Destination, Source, Length) memcpy((Destination), (Source), (Length))
#define MoveMemory(Destination, Source, Length) memmove((Destination), (Source), (Length))
#endif
#ifndef WINAPI
#define WINAPI
#define APIENTRY
#define CALLBACK
#define NTAPI
#endif
#ifndef FAR
#define FAR
#define NEAR
#endif
#define EVNTAPI

#define ERROR_SUCCESS 0u
#define ERROR_INVALID_FUNCTION 1u
#define ERROR_FILE_NOT_FOUND 2u
#define ERROR_PATH_NOT_FOUND 3u
#define ERROR_ACCESS_DENIED 5u
#define ERROR_INVALID_HANDLE 6u
#define ERROR_NOT_ENOUGH_MEMORY 8u
#define ERROR_INVALID_DATA 13u
#define ERROR_BAD_LENGTH 24u
#define ERROR_NOT_SUPPORTED 50u
#define ERROR_INVALID_PARAMETER 87u
#define ERROR_DISK_FULL 112u
#define ERROR_INSUFFICIENT_BUFFER 122u
#define ERROR_BAD_PATHNAME 161u
#define ERROR_ALREADY_EXISTS 183u
#define ERROR_INVALID_FLAG_NUMBER 186u
#define ERROR_MORE_DATA 234u
#define ERROR_ARITHMETIC_OVERFLOW 534u
#define ERROR_NOACCESS 998u
#define ERROR_NOT_FOUND 1168u
#define ERROR_CANCELLED 1223u
#define ERROR_FILE_CORRUPT 1392u
#define ERROR_NO_SYSTEM_RESOURCES 1450u
#define ERROR_TIMEOUT 1460u
#define ERROR_XML_PARSE_ERROR 1465u
#define ERROR_INVALID_TIME 1901u
#define ERROR_WMI_INSTANCE_NOT_FOUND 4201u
#define ERROR_WMI_ALREADY_ENABLED 4206u
#define ERROR_CTX_CLOSE_PENDING 7007u
#define ERROR_EVT_INVALID_EVENT_DATA 15005u

#ifdef __cplusplus
extern "C" {
#endif
/* The status of the calling thread's last failed call, for calls that return no status: OpenTrace, GetTraceLoggerHandle and others. */
DWORD GetLastError(void);
VOID SetLastError(DWORD dwErrCode);
#ifdef __cplusplus
}
#endif

/* Converts a name of wchar_t to UTF-16. A name that is too long is truncated at a length that the library still rejects as too long. */
#define ETW_NAME_UNITS 1026

static inline PCWSTR etw_name_of_wide(WCHAR *Units, const wchar_t *Text)
{
    size_t length = 0;
    if (Text == NULL)
        return NULL;
    for (; *Text != 0 && length + 2 < ETW_NAME_UNITS; Text++) {
        uint32_t unit = (uint32_t)*Text;
        if (sizeof(wchar_t) == 2 || unit < 0x10000u) {
            Units[length++] = (WCHAR)unit;
        } else {
            Units[length++] = (WCHAR)(0xd800u + (((unit - 0x10000u) >> 10) & 0x3ffu));
            Units[length++] = (WCHAR)(0xdc00u + ((unit - 0x10000u) & 0x3ffu));
        }
    }
    Units[length] = 0;
    return Units;
}

#ifdef __cplusplus
/* Selects the overloads for names of wchar_t. NULL has no such type, so it selects the other overload. */
extern "C++" {
template <typename Unit> struct etw_wide {
};
#if __SIZEOF_WCHAR_T__ == 4
template <> struct etw_wide<wchar_t> {
    typedef ULONG status;
};
#endif
}
#elif __SIZEOF_WCHAR_T__ == 4
#define ETW_BY_NAME(name, of, wide) \
    _Generic((name), wchar_t *: wide, const wchar_t *: wide, default: of)
#endif

#endif
