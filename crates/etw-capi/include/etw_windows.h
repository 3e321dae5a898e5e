/*
 * What programs for Windows that use ETW take from its other headers: types, annotations, times, GUIDs and a few texts. For other
 * systems; needs no library but C's. The folder windows/ beside this file has headers of Windows' names that lead here
 * (-I .../windows).
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 *
 * Programs whose texts are L"..." and WCHAR at once are to be compiled with -fshort-wchar. Then wchar_t has 16 bits as on Windows, and
 * wprintf, wcslen and their like are this header's, since the C library's have 32: with %s a WCHAR text, %hs and %S one of bytes, and
 * numbers of l having 32 bits.
 */
#ifndef ETW_WINDOWS_H
#define ETW_WINDOWS_H

#include "etw_base.h"
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* #pragma comment(lib, "..."); where g++ is older than 13, it wants -Wno-unknown-pragmas. */
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
/* As Windows has it: handles are numbers that programs set to NULL. */
#ifdef __cplusplus
#undef NULL
#define NULL 0
#endif

typedef float FLOAT;
typedef double DOUBLE;
typedef int32_t HRESULT, LONG32, *PINT, *LPLONG;
typedef uint32_t ULONG32, *PUINT;
typedef uint64_t DWORDLONG, ULONGLONG_PTR;
typedef int64_t *PLONGLONG, *PLONG64;
typedef int16_t *PSHORT;
typedef unsigned char *LPBYTE;
typedef SYSTEMTIME *LPSYSTEMTIME;
typedef BOOL *PBOOL, *LPBOOL;
typedef wchar_t etw_wchar;
typedef union _ULARGE_INTEGER {
    __extension__ struct {
        DWORD LowPart;
        DWORD HighPart;
    };
    struct {
        DWORD LowPart;
        DWORD HighPart;
    } u;
    ULONGLONG QuadPart;
} ULARGE_INTEGER, *PULARGE_INTEGER;
typedef GUID UUID, CLSID, IID;

#ifdef UNICODE
typedef WCHAR TCHAR, *PTSTR, *LPTSTR;
typedef const WCHAR *PCTSTR, *LPCTSTR;
#define TEXT(text) ETW_W(text)
#else
typedef char TCHAR, *PTSTR, *LPTSTR;
typedef const char *PCTSTR, *LPCTSTR;
#define TEXT(text) text
#endif
#define _T(text) TEXT(text)

#define CONST const
#define IN
#define OUT
#define OPTIONAL
#define __cdecl
#define __stdcall
#define __fastcall
#define __int64 long long
#define FORCEINLINE static inline
#define DECLSPEC_SELECTANY __attribute__((weak))
#define UNREFERENCED_PARAMETER(p) (void)(p)
#define DBG_UNREFERENCED_PARAMETER(p) (void)(p)
#define ARRAYSIZE(array) (sizeof(array) / sizeof((array)[0]))
#ifndef _countof
#define _countof(array) (sizeof(array) / sizeof((array)[0]))
#endif
#define FIELD_OFFSET(type, field) ((LONG)offsetof(type, field))
#define MAX_PATH 260
#define MAXUSHORT 0xffff
#define MAXULONG 0xffffffffu
#define MAXDWORD 0xffffffffu
/* Of Windows' long, which ULONG is. */
#undef ULONG_MAX
#define ULONG_MAX 0xffffffffu
#undef LONG_MAX
#define LONG_MAX 0x7fffffff
#define INFINITE 0xffffffffu
#define NO_ERROR 0u
#define ERROR_OUTOFMEMORY 14u
#define ERROR_GEN_FAILURE 31u
#define ERROR_INVALID_NAME 123u
#define ERROR_RESOURCE_TYPE_NOT_FOUND 1813u
#define ERROR_EVT_MAX_INSERTS_REACHED 15029u
#define S_OK ((HRESULT)0)
#define S_FALSE ((HRESULT)1)
#define E_FAIL ((HRESULT)0x80004005)
#define E_OUTOFMEMORY ((HRESULT)0x8007000e)
#define E_INVALIDARG ((HRESULT)0x80070057)
#define SUCCEEDED(hr) ((HRESULT)(hr) >= 0)
#define FAILED(hr) ((HRESULT)(hr) < 0)
#define HRESULT_FROM_WIN32(x) ((HRESULT)(x) <= 0 ? (HRESULT)(x) : (HRESULT)(((x) & 0xffffu) | 0x80070000u))
#define LOWORD(x) ((WORD)((DWORD_PTR)(x) & 0xffff))
#define HIWORD(x) ((WORD)((DWORD_PTR)(x) >> 16 & 0xffff))
#define LOBYTE(x) ((BYTE)((DWORD_PTR)(x) & 0xff))
#define HIBYTE(x) ((BYTE)((DWORD_PTR)(x) >> 8 & 0xff))
#define MAKELONG(a, b) ((LONG)(((WORD)(a)) | ((DWORD)((WORD)(b))) << 16))

/* ---- Annotations ---- */
#define _In_
#define _In_z_
#define _In_opt_
#define _In_opt_z_
#define _In_reads_(n)
#define _In_reads_opt_(n)
#define _In_reads_bytes_(n)
#define _In_reads_bytes_opt_(n)
#define _In_reads_z_(n)
#define _In_range_(a, b)
#define _Inout_
#define _Inout_opt_
#define _Inout_updates_(n)
#define _Inout_updates_bytes_(n)
#define _Inout_z_
#define _Out_
#define _Out_opt_
#define _Out_writes_(n)
#define _Out_writes_z_(n)
#define _Out_writes_to_(n, m)
#define _Out_writes_bytes_(n)
#define _Out_writes_bytes_opt_(n)
#define _Out_writes_bytes_to_(n, m)
#define _Out_writes_bytes_to_opt_(n, m)
#define _Outptr_
#define _Outptr_opt_
#define _Outptr_result_bytebuffer_(n)
#define _Outptr_result_maybenull_
#define _COM_Outptr_
#define _Ret_maybenull_
#define _Ret_z_
#define _Field_size_(n)
#define _Field_size_bytes_(n)
#define _Field_z_
#define _Null_terminated_
#define _Printf_format_string_
#define _Success_(e)
#define _Check_return_
#define _Must_inspect_result_
#define _Use_decl_annotations_
#define _Pre_
#define _Post_
#define _Post_invalid_
#define _When_(c, a)
#define _Frees_ptr_
#define _Frees_ptr_opt_
#define _Analysis_assume_(e)
#define _Function_class_(n)

/* ---- Memory ---- */
#define RtlZeroMemory(to, size) memset((to), 0, (size))
#define SecureZeroMemory(to, size) memset((to), 0, (size))
#define RtlCopyMemory(to, from, size) memcpy((to), (from), (size))
#define HEAP_ZERO_MEMORY 8u
static inline HANDLE GetProcessHeap(void) { return (HANDLE)(ULONG_PTR)1; }
static inline LPVOID HeapAlloc(HANDLE heap, DWORD flags, SIZE_T size)
{
    (void)heap;
    return (flags & HEAP_ZERO_MEMORY) != 0 ? calloc(1, size) : malloc(size);
}
static inline LPVOID HeapReAlloc(HANDLE heap, DWORD flags, LPVOID memory, SIZE_T size)
{
    (void)heap, (void)flags;
    return realloc(memory, size);
}
static inline BOOL HeapFree(HANDLE heap, DWORD flags, LPVOID memory)
{
    (void)heap, (void)flags;
    free(memory);
    return TRUE;
}
static inline HANDLE LocalFree(HANDLE memory)
{
    free(memory);
    return NULL;
}

/* ---- Process and time ---- */
static inline DWORD GetCurrentProcessId(void) { return (DWORD)getpid(); }
static inline void Sleep(DWORD ms)
{
    struct timespec left;
    left.tv_sec = (time_t)(ms / 1000);
    left.tv_nsec = (long)(ms % 1000) * 1000000;
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}
static inline ULONGLONG GetTickCount64(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (ULONGLONG)now.tv_sec * 1000 + (ULONGLONG)now.tv_nsec / 1000000;
}
static inline DWORD GetTickCount(void) { return (DWORD)GetTickCount64(); }
static inline BOOL QueryPerformanceFrequency(LARGE_INTEGER *frequency)
{
    frequency->QuadPart = 10000000;
    return TRUE;
}
static inline BOOL QueryPerformanceCounter(LARGE_INTEGER *count)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    count->QuadPart = (LONGLONG)now.tv_sec * 10000000 + now.tv_nsec / 100;
    return TRUE;
}
static inline void GetSystemTimeAsFileTime(FILETIME *time)
{
    struct timespec now;
    ULONGLONG ticks;
    clock_gettime(CLOCK_REALTIME, &now);
    ticks = ((ULONGLONG)now.tv_sec + 11644473600u) * 10000000u + (ULONGLONG)now.tv_nsec / 100;
    time->dwLowDateTime = (DWORD)ticks;
    time->dwHighDateTime = (DWORD)(ticks >> 32);
}
static inline BOOL etw_system_time(ULONGLONG ticks, SYSTEMTIME *to, int is_local)
{
    const time_t seconds = (time_t)(ticks / 10000000) - 11644473600;
    struct tm tm;
    if (ticks >> 63 != 0 || (is_local ? localtime_r(&seconds, &tm) : gmtime_r(&seconds, &tm)) == NULL)
        return FALSE;
    to->wYear = (uint16_t)(tm.tm_year + 1900);
    to->wMonth = (uint16_t)(tm.tm_mon + 1);
    to->wDayOfWeek = (uint16_t)tm.tm_wday;
    to->wDay = (uint16_t)tm.tm_mday;
    to->wHour = (uint16_t)tm.tm_hour;
    to->wMinute = (uint16_t)tm.tm_min;
    to->wSecond = (uint16_t)tm.tm_sec;
    to->wMilliseconds = (uint16_t)(ticks / 10000 % 1000);
    return TRUE;
}
static inline BOOL FileTimeToSystemTime(const FILETIME *time, SYSTEMTIME *to)
{
    return etw_system_time((ULONGLONG)time->dwHighDateTime << 32 | time->dwLowDateTime, to, 0);
}
static inline BOOL SystemTimeToFileTime(const SYSTEMTIME *time, FILETIME *to)
{
    struct tm tm;
    ULONGLONG ticks;
    memset(&tm, 0, sizeof tm);
    tm.tm_year = time->wYear - 1900;
    tm.tm_mon = time->wMonth - 1;
    tm.tm_mday = time->wDay;
    tm.tm_hour = time->wHour;
    tm.tm_min = time->wMinute;
    tm.tm_sec = time->wSecond;
    ticks = ((ULONGLONG)timegm(&tm) + 11644473600u) * 10000000u + time->wMilliseconds * 10000u;
    to->dwLowDateTime = (DWORD)ticks;
    to->dwHighDateTime = (DWORD)(ticks >> 32);
    return TRUE;
}
/* In this machine's zone, which is what NULL names; other zones are not known here. */
static inline BOOL SystemTimeToTzSpecificLocalTime(const TIME_ZONE_INFORMATION *zone, const SYSTEMTIME *time,
                                                   SYSTEMTIME *to)
{
    FILETIME file;
    return zone == NULL && SystemTimeToFileTime(time, &file) &&
           etw_system_time((ULONGLONG)file.dwHighDateTime << 32 | file.dwLowDateTime, to, 1);
}
static inline BOOL FileTimeToLocalFileTime(const FILETIME *time, FILETIME *to)
{
    SYSTEMTIME local;
    const ULONGLONG ticks = (ULONGLONG)time->dwHighDateTime << 32 | time->dwLowDateTime;
    ULONGLONG below;
    if (!etw_system_time(ticks, &local, 1) || !SystemTimeToFileTime(&local, to))
        return FALSE;
    below = ((ULONGLONG)to->dwHighDateTime << 32 | to->dwLowDateTime) + ticks % 10000;
    to->dwLowDateTime = (DWORD)below;
    to->dwHighDateTime = (DWORD)(below >> 32);
    return TRUE;
}

/* ---- GUIDs ---- */
#define GUID_NULL etw_guid_null
static const GUID etw_guid_null __attribute__((unused)) = {0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}};
static inline int etw_same_guid(const GUID *a, const GUID *b) { return memcmp(a, b, sizeof *a) == 0; }
#ifdef __cplusplus
static inline BOOL IsEqualGUID(const GUID &a, const GUID &b) { return etw_same_guid(&a, &b); }
static inline bool operator==(const GUID &a, const GUID &b) { return etw_same_guid(&a, &b) != 0; }
static inline bool operator!=(const GUID &a, const GUID &b) { return etw_same_guid(&a, &b) == 0; }
#else
static inline BOOL IsEqualGUID(const GUID *a, const GUID *b) { return etw_same_guid(a, b); }
#endif
#define InlineIsEqualGUID IsEqualGUID
#define IsEqualIID IsEqualGUID
#define IsEqualCLSID IsEqualGUID
/* Version 4: random. */
static inline HRESULT CoCreateGuid(GUID *guid)
{
    FILE *random = fopen("/dev/urandom", "rb");
    const size_t got = random == NULL ? 0 : fread(guid, 1, sizeof *guid, random);
    if (random != NULL)
        fclose(random);
    guid->Data3 = (uint16_t)((guid->Data3 & 0x0fff) | 0x4000);
    guid->Data4[0] = (uint8_t)((guid->Data4[0] & 0x3f) | 0x80);
    return got == sizeof *guid ? S_OK : E_FAIL;
}
static inline LONG UuidCreate(UUID *uuid) { return CoCreateGuid(uuid); }
static inline int StringFromGUID2(REFGUID guid_, WCHAR *to, int count)
{
    char text[39];
#ifdef __cplusplus
    const GUID *guid = &guid_;
#else
    const GUID *guid = guid_;
#endif
    const uint8_t *d = guid->Data4;
    if (count < 39)
        return 0;
    snprintf(text, sizeof text, "{%08X-%04X-%04X-%02X%02X-%02X%02X%02X%02X%02X%02X}", guid->Data1, guid->Data2,
             guid->Data3, d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
    for (int n = 0; n < 39; n++)
        to[n] = (WCHAR)(unsigned char)text[n];
    return 39;
}

/* ---- Texts of WCHAR ---- */
#define STRSAFE_E_INSUFFICIENT_BUFFER ((HRESULT)0x8007007a)
static inline size_t etw_wcslen(const WCHAR *text)
{
    size_t length = 0;
    while (text[length] != 0)
        length++;
    return length;
}
static inline int etw_wcsncmp(const WCHAR *a, const WCHAR *b, size_t count, int ignores_case)
{
    for (; count > 0; count--, a++, b++) {
        int x = *a, y = *b;
        if (ignores_case) {
            x += x >= 'A' && x <= 'Z' ? 32 : 0;
            y += y >= 'A' && y <= 'Z' ? 32 : 0;
        }
        if (x != y || x == 0)
            return x - y;
    }
    return 0;
}
static inline WCHAR *etw_wcscpy(WCHAR *to, const WCHAR *from)
{
    memcpy(to, from, (etw_wcslen(from) + 1) * sizeof *to);
    return to;
}
static inline WCHAR *etw_wcscat(WCHAR *to, const WCHAR *from)
{
    etw_wcscpy(to + etw_wcslen(to), from);
    return to;
}
/* As much as there is room for, with its NUL. */
static inline HRESULT StringCchCopyW(WCHAR *to, size_t count, const WCHAR *from)
{
    size_t length = 0;
    if (count == 0)
        return E_INVALIDARG;
    for (; length + 1 < count && from[length] != 0; length++)
        to[length] = from[length];
    to[length] = 0;
    return from[length] == 0 ? S_OK : STRSAFE_E_INSUFFICIENT_BUFFER;
}
static inline HRESULT StringCbCopyW(WCHAR *to, size_t size, const WCHAR *from)
{
    return StringCchCopyW(to, size / sizeof(WCHAR), from);
}
static inline HRESULT StringCchCatW(WCHAR *to, size_t count, const WCHAR *from)
{
    const size_t length = etw_wcslen(to);
    return length < count ? StringCchCopyW(to + length, count - length, from) : E_INVALIDARG;
}
static inline HRESULT StringCchCopyA(char *to, size_t count, const char *from)
{
    if (count == 0)
        return E_INVALIDARG;
    return (size_t)snprintf(to, count, "%s", from) < count ? S_OK : STRSAFE_E_INSUFFICIENT_BUFFER;
}
static inline HRESULT StringCbCopyA(char *to, size_t size, const char *from) { return StringCchCopyA(to, size, from); }
#ifdef UNICODE
#define StringCchCopy StringCchCopyW
#define StringCbCopy StringCbCopyW
#define StringCchCat StringCchCatW
#else
#define StringCchCopy StringCchCopyA
#define StringCbCopy StringCbCopyA
#endif

#if __SIZEOF_WCHAR_T__ == 2
/* Where a formatted text goes: a stream, in UTF-8, or memory. */
typedef struct etw_out {
    FILE *file;
    WCHAR *to;
    size_t room, written;
    uint32_t high; /* half of a pair */
} etw_out;

static inline void etw_put(etw_out *out, WCHAR unit)
{
    uint32_t c = unit;
    out->written++;
    if (out->file == NULL) {
        if (out->written < out->room)
            out->to[out->written - 1] = unit;
        return;
    }
    if ((c & 0xfc00u) == 0xd800u) {
        out->high = c;
        return;
    }
    if ((c & 0xfc00u) == 0xdc00u && out->high != 0)
        c = 0x10000u + ((out->high & 0x3ffu) << 10 | (c & 0x3ffu));
    out->high = 0;
    if (c < 0x80u) {
        putc((int)c, out->file);
    } else if (c < 0x800u) {
        putc((int)(0xc0u | c >> 6), out->file);
        putc((int)(0x80u | (c & 0x3fu)), out->file);
    } else {
        if (c < 0x10000u) {
            putc((int)(0xe0u | c >> 12), out->file);
        } else {
            putc((int)(0xf0u | c >> 18), out->file);
            putc((int)(0x80u | (c >> 12 & 0x3fu)), out->file);
        }
        putc((int)(0x80u | (c >> 6 & 0x3fu)), out->file);
        putc((int)(0x80u | (c & 0x3fu)), out->file);
    }
}

static inline void etw_pad(etw_out *out, int count)
{
    for (; count > 0; count--)
        etw_put(out, ' ');
}

/* Flags, width, precision, sizes h, hh, l, ll, w, I, I32, I64, z, and d i u x X o c C s S p f F e E g G a A. */
static inline int etw_format(etw_out *out, const WCHAR *format, va_list arguments)
{
    while (*format != 0) {
        char flags[8], spec[40], text[512];
        int flag_count = 0, width = 0, precision = -1, size = 0, is_wide = 1, is_left, length;
        if (*format != '%') {
            etw_put(out, *format++);
            continue;
        }
        if (*++format == '%') {
            etw_put(out, *format++);
            continue;
        }
        for (; *format != 0 && *format < 0x80 && strchr("-+ #0", *format) != NULL; format++)
            if (flag_count < 5)
                flags[flag_count++] = (char)*format;
        flags[flag_count] = 0;
        is_left = strchr(flags, '-') != NULL;
        if (*format == '*') {
            width = va_arg(arguments, int);
            format++;
        }
        for (; *format >= '0' && *format <= '9'; format++)
            width = width < 1000 ? width * 10 + (*format - '0') : width;
        if (width < 0) {
            is_left = 1;
            flags[flag_count++] = '-';
            flags[flag_count] = 0;
            width = -(width + 1) + 1;
        }
        if (*format == '.') {
            precision = 0;
            if (*++format == '*') {
                precision = va_arg(arguments, int);
                format++;
            }
            for (; *format >= '0' && *format <= '9'; format++)
                precision = precision < 100000 ? precision * 10 + (*format - '0') : precision;
        }
        for (;; format++) {
            if (*format == 'h')
                is_wide = 0;
            else if (*format == 'l' && format[1] == 'l')
                size = 8, format++;
            else if (*format == 'l' || *format == 'w')
                is_wide = 1;
            else if (*format == 'I' && format[1] == '6' && format[2] == '4')
                size = 8, format += 2;
            else if (*format == 'I' && format[1] == '3' && format[2] == '2')
                format += 2;
            else if (*format == 'I' || *format == 'z' || *format == 'j')
                size = 8;
            else
                break;
        }
        if (*format == 0)
            break;
        if (*format == 's' || *format == 'S') {
            const int wide = *format == 's' ? is_wide : 0;
            const void *argument = va_arg(arguments, const void *);
            const WCHAR *units = (const WCHAR *)(wide && argument == NULL ? L"(null)" : argument);
            const char *bytes = (const char *)(!wide && argument == NULL ? "(null)" : argument);
            for (length = 0; (precision < 0 || length < precision) && (wide ? units[length] != 0 : bytes[length] != 0);)
                length++;
            if (!is_left)
                etw_pad(out, width - length);
            for (int n = 0; n < length; n++)
                etw_put(out, wide ? units[n] : (WCHAR)(unsigned char)bytes[n]);
            if (is_left)
                etw_pad(out, width - length);
            format++;
            continue;
        }
        if (*format == 'c' || *format == 'C') {
            if (!is_left)
                etw_pad(out, width - 1);
            etw_put(out, (WCHAR)va_arg(arguments, int));
            if (is_left)
                etw_pad(out, width - 1);
            format++;
            continue;
        }
        width = width > 400 ? 400 : width;
        precision = precision > 100 ? 100 : precision;
        length = snprintf(spec, sizeof spec, precision < 0 ? "%%%s%d" : "%%%s%d.%d", flags, width, precision);
        if (width == 0) /* A width of 0 would be a flag. */
            length = snprintf(spec, sizeof spec, precision < 0 ? "%%%s" : "%%%s.%d", flags, precision);
        if (length < 0 || length > 30)
            break;
        if (*format < 0x80 && strchr("fFeEgGaA", *format) != NULL) {
            spec[length] = (char)*format;
            spec[length + 1] = 0;
            length = snprintf(text, sizeof text, spec, va_arg(arguments, double));
        } else if (*format == 'p') {
            length = snprintf(text, sizeof text, "%016llX", (unsigned long long)(uintptr_t)va_arg(arguments, void *));
        } else if (*format < 0x80 && strchr("diuxXo", *format) != NULL) {
            const int is_signed = *format == 'd' || *format == 'i';
            unsigned long long value;
            if (size == 8)
                value = va_arg(arguments, unsigned long long);
            else if (is_signed)
                value = (unsigned long long)(long long)va_arg(arguments, int);
            else
                value = va_arg(arguments, unsigned int);
            spec[length] = 'l';
            spec[length + 1] = 'l';
            spec[length + 2] = (char)*format;
            spec[length + 3] = 0;
            length = snprintf(text, sizeof text, spec, value);
        } else {
            break;
        }
        for (int n = 0; n < length && n < (int)sizeof text - 1; n++)
            etw_put(out, (WCHAR)(unsigned char)text[n]);
        format++;
    }
    return (int)out->written;
}

static inline int etw_vfwprintf(FILE *file, const WCHAR *format, va_list arguments)
{
    etw_out out;
    memset(&out, 0, sizeof out);
    out.file = file;
    return etw_format(&out, format, arguments);
}
static inline int etw_fwprintf(FILE *file, const WCHAR *format, ...)
{
    va_list arguments;
    int written;
    va_start(arguments, format);
    written = etw_vfwprintf(file, format, arguments);
    va_end(arguments);
    return written;
}
static inline int etw_wprintf(const WCHAR *format, ...)
{
    va_list arguments;
    int written;
    va_start(arguments, format);
    written = etw_vfwprintf(stdout, format, arguments);
    va_end(arguments);
    return written;
}
/* What does not fit is left out, and told: -1. */
static inline int etw_vswprintf(WCHAR *to, size_t count, const WCHAR *format, va_list arguments)
{
    etw_out out;
    int written;
    memset(&out, 0, sizeof out);
    out.to = to;
    out.room = count;
    written = etw_format(&out, format, arguments);
    if (count > 0)
        to[out.written < count ? out.written : count - 1] = 0;
    return (size_t)written < count ? written : -1;
}
static inline int etw_swprintf(WCHAR *to, size_t count, const WCHAR *format, ...)
{
    va_list arguments;
    int written;
    va_start(arguments, format);
    written = etw_vswprintf(to, count, format, arguments);
    va_end(arguments);
    return written;
}
static inline HRESULT StringCchPrintfW(WCHAR *to, size_t count, const WCHAR *format, ...)
{
    va_list arguments;
    int written;
    va_start(arguments, format);
    written = etw_vswprintf(to, count, format, arguments);
    va_end(arguments);
    return written < 0 ? STRSAFE_E_INSUFFICIENT_BUFFER : S_OK;
}
#define wprintf etw_wprintf
#define wprintf_s etw_wprintf
#define fwprintf etw_fwprintf
#define fwprintf_s etw_fwprintf
#define vwprintf(format, arguments) etw_vfwprintf(stdout, format, arguments)
#define swprintf etw_swprintf
#define swprintf_s etw_swprintf
#define StringCchPrintf StringCchPrintfW
#define wcslen etw_wcslen
#define wcscpy etw_wcscpy
#define wcscat etw_wcscat
#define wcscmp(a, b) etw_wcsncmp(a, b, (size_t)-1, 0)
#define wcsncmp(a, b, count) etw_wcsncmp(a, b, count, 0)
#define _wcsicmp(a, b) etw_wcsncmp(a, b, (size_t)-1, 1)
#define _wcsnicmp(a, b, count) etw_wcsncmp(a, b, count, 1)
#define wcscpy_s(to, count, from) (StringCchCopyW(to, count, from) == S_OK ? 0 : EINVAL)
#define wcscat_s(to, count, from) (StringCchCatW(to, count, from) == S_OK ? 0 : EINVAL)
#endif

/* windows/wmain.h has a main for programs whose beginning is wmain. */
#endif
