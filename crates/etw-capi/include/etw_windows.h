/*
 * The parts of Windows' other headers that programs with ETW use: types, annotations, times, GUIDs and texts. For other systems; needs only
 * the C library. The folder windows/ beside this file has headers with Windows' names, which include this one (-I .../windows).
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 *
 * Compile programs that use L"..." as WCHAR with -fshort-wchar. Then wchar_t has 16 bits as on Windows, and wprintf, wcslen and the like
 * come from etw_windows_format.h, since the C library's have 32 bits: %s is a WCHAR text, %hs and %S are bytes, and l means 32 bits. printf
 * and the like have these formats, too. With -I .../windows, std::wstring works in every file, whatever it includes and in whatever order
 * (libstdc++; C++11 to C++23); the wide streams of C++ do not.
 */
#ifndef ETW_WINDOWS_H
#define ETW_WINDOWS_H

#include "etw_base.h"
#ifdef __cplusplus
#if __SIZEOF_WCHAR_T__ == 2 && defined(_BASIC_STRING_H) && !defined(ETW_WINDOWS_FORMAT_H)
#error "-fshort-wchar: give the compiler -I .../windows, or include this header before the C++ library, whose std::wstring has 32-bit units."
#endif
/* A program may include windows.h in extern "C". <cwchar> and <cstdio> come first, because they #undef names that this header defines. */
extern "C++" {
#include <cstddef>
#if __SIZEOF_WCHAR_T__ == 2
/* libstdc++ contains std::wstring for a wchar_t of 32 bits. <cstddef> has set the macro, as has windows/bits/c++config.h. */
#undef _GLIBCXX_EXTERN_TEMPLATE
#define _GLIBCXX_EXTERN_TEMPLATE 0
#endif
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <cwchar>
#endif
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#ifdef __cplusplus
}
#endif
#ifndef CLOCK_MONOTONIC
#error "With -std=c11, give the compiler -D_DEFAULT_SOURCE (or use -std=gnu11), or include this header before the C library's."
#endif

/* Programs have #pragma comment(lib, "..."). g++ before 13 needs -Wno-unknown-pragmas as well. */
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#ifdef __cplusplus
/* Programs write PWSTR text = L"..."; */
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wwritable-strings"
/* Programs write REGHANDLE handle = NULL; */
#pragma GCC diagnostic ignored "-Wnull-conversion"
#else
#pragma GCC diagnostic ignored "-Wwrite-strings"
#pragma GCC diagnostic ignored "-Wconversion-null"
#endif
#endif
#if defined(__cplusplus) && __cplusplus < 201703L && (defined(__clang__) || __GNUC__ >= 12)
/* __declspec(selectany) makes an inline variable. */
#pragma GCC diagnostic ignored "-Wc++17-extensions"
#endif
/* NULL is an integer, as on Windows, since programs set handles, which are numbers, to NULL. */
#ifdef __cplusplus
#undef NULL
#define NULL 0
#endif

#ifdef __cplusplus
extern "C++" {
#endif

typedef float FLOAT, *PFLOAT;
typedef double DOUBLE, *PDOUBLE;
typedef LONG NTSTATUS, LSTATUS;
typedef int32_t HRESULT, LONG32, *PINT, *LPLONG;
typedef uint32_t ULONG32, *PUINT;
typedef uint64_t DWORDLONG, ULONGLONG_PTR;
typedef int64_t *PLONGLONG, *PLONG64;
typedef int16_t *PSHORT;
typedef unsigned char *LPBYTE;
typedef const unsigned char *LPCBYTE, *PCBYTE, *PCUCHAR;
typedef UINT_PTR WPARAM;
typedef LONG_PTR LPARAM, LRESULT;
typedef ULONG_PTR *PULONG_PTR, *PSIZE_T;
typedef LONG_PTR SSIZE_T, *PSSIZE_T, *PLONG_PTR;
typedef uint32_t DWORD32, *PDWORD32;
typedef uint64_t *PDWORD64;
typedef int *LPINT;
typedef LONG SCODE;
typedef HANDLE HWND, HKEY, HRSRC;
typedef int HFILE;
typedef struct tagPOINT {
    LONG x;
    LONG y;
} POINT, *PPOINT, *LPPOINT;
typedef struct tagRECT {
    LONG left;
    LONG top;
    LONG right;
    LONG bottom;
} RECT, *PRECT, *LPRECT;
typedef struct _COORD {
    SHORT X;
    SHORT Y;
} COORD, *PCOORD;
typedef WORD ATOM, *LPWORD, *PWORD;
typedef DWORD COLORREF;
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

/* Windows 10, unless the program says otherwise. */
#ifndef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00
#endif
#ifndef WINVER
#define WINVER _WIN32_WINNT
#endif
#ifndef NTDDI_VERSION
#define NTDDI_VERSION 0x0A000000
#endif

#ifdef UNICODE
typedef WCHAR _TCHAR, _TSCHAR;
#else
typedef char _TCHAR, _TSCHAR;
#endif
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
#ifdef __cplusplus
#define EXTERN_C extern "C"
#define EXTERN_C_START extern "C" {
#define EXTERN_C_END }
#else
#define EXTERN_C extern
#define EXTERN_C_START
#define EXTERN_C_END
#endif
/* Structured exceptions. libstdc++ has a __try of its own. */
#define ETW_NO_SEH _Pragma("GCC error \"__try, __except and __finally are not supported: use a cleanup attribute or a C++ destructor\"")
#ifndef __cplusplus
#define __try ETW_NO_SEH if (1)
#define __leave (void)0
#endif
#define __except(filter) ETW_NO_SEH else
#define __finally ETW_NO_SEH
#define STDAPICALLTYPE
#define WMIAPI
#define UNALIGNED
#define __unaligned
#define __forceinline inline __attribute__((always_inline))
/* __declspec(selectany) and the like. */
#define __declspec(what) ETW_DECLSPEC_##what
/* selectany precedes a definition that several files may contain. On Windows, one with EXTERN_C and without a value is a definition, too;
 * here, extern then belongs to a declaration that nothing uses. */
#ifdef __cplusplus
#define ETW_DECLSPEC_selectany \
    struct etw_selectany;      \
    inline
#else
#define ETW_DECLSPEC_selectany                 \
    int etw_selectany __attribute__((weak));   \
    __attribute__((weak))
#endif
#define ETW_DECLSPEC_dllexport __attribute__((visibility("default")))
#define ETW_DECLSPEC_dllimport
#define ETW_DECLSPEC_noinline __attribute__((noinline))
#define ETW_DECLSPEC_noreturn __attribute__((noreturn))
#define ETW_DECLSPEC_novtable
#define ETW_DECLSPEC_nothrow
#define ETW_DECLSPEC_thread __thread
#define ETW_DECLSPEC_align(n) __attribute__((aligned(n)))
#define ETW_DECLSPEC_allocate(name) __attribute__((section(name)))
#define ETW_DECLSPEC_uuid(text)
#define ETW_DECLSPEC_deprecated __attribute__((deprecated))
#define DECLSPEC_CACHEALIGN __attribute__((aligned(64)))
#define DECLSPEC_ALIGN(n) __attribute__((aligned(n)))
/*
 * Headers of mc.exe define functions with "DECLSPEC_NOINLINE __inline" and "ETW_INLINE". In C (without -fgnu89-inline), __inline alone gives
 * a function no definition that other files can call, so both make the function static: each file has its own copy.
 */
#if defined(__cplusplus) || defined(__GNUC_GNU_INLINE__)
#define DECLSPEC_NOINLINE __attribute__((noinline))
#else
#define DECLSPEC_NOINLINE __attribute__((unused)) static
#ifndef ETW_INLINE
#define ETW_INLINE __attribute__((unused)) static __inline
#endif
#endif
#define DECLSPEC_NORETURN __attribute__((noreturn))
#define DECLSPEC_EXPORT __attribute__((visibility("default")))
#define DECLSPEC_IMPORT
#define NTSYSAPI
#define WINBASEAPI
#define WINADVAPI
#define C_ASSERT(what) typedef char etw_c_assert[(what) ? 1 : -1] __attribute__((unused))
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
/* Accepts an index that is not constant, which g++'s offsetof rejects. With g++, use offsetof in case labels and static_assert. */
#if defined(__cplusplus) && !defined(__clang__)
#define FIELD_OFFSET(type, field) ((LONG)(LONG_PTR)(&((type *)0)->field))
#else
#define FIELD_OFFSET(type, field) ((LONG)__builtin_offsetof(type, field))
#endif
#define UFIELD_OFFSET(type, field) ((DWORD)FIELD_OFFSET(type, field))
#define MAX_PATH 260
#define MAXUSHORT 0xffff
#define MAXULONG 0xffffffffu
#define MAXDWORD 0xffffffffu
/* The limits of Windows' long, which has 32 bits. */
#undef ULONG_MAX
#define ULONG_MAX 0xffffffffu
#undef LONG_MAX
#define LONG_MAX 0x7fffffff
#define INFINITE 0xffffffffu
#include "etw_windows_errors.h"
#define SUCCEEDED(hr) ((HRESULT)(hr) >= 0)
#define FAILED(hr) ((HRESULT)(hr) < 0)
#define HRESULT_CODE(hr) ((hr) & 0xffff)
#define HRESULT_FACILITY(hr) (((hr) >> 16) & 0x1fff)
#define HRESULT_FROM_WIN32(x) ((HRESULT)(x) <= 0 ? (HRESULT)(x) : (HRESULT)(((x) & 0xffffu) | 0x80070000u))
#define LOWORD(x) ((WORD)((DWORD_PTR)(x) & 0xffff))
#define HIWORD(x) ((WORD)((DWORD_PTR)(x) >> 16 & 0xffff))
#define LOBYTE(x) ((BYTE)((DWORD_PTR)(x) & 0xff))
#define HIBYTE(x) ((BYTE)((DWORD_PTR)(x) >> 8 & 0xff))
#define MAKEWORD(a, b) ((WORD)(((BYTE)((DWORD_PTR)(a) & 0xff)) | ((WORD)((BYTE)((DWORD_PTR)(b) & 0xff))) << 8))
#define MAKELONG(a, b) ((LONG)(((WORD)(a)) | ((DWORD)((WORD)(b))) << 16))

#define USHORT_MAX 0xffffu
#define BYTE_MAX 0xffu
#define DWORD_MAX 0xffffffffu

/* Parentheses keep compilers' headers, which may define macros with these names, from changing the definitions. clang has the rotations itself
 * with -fms-extensions. */
#if defined(__clang__) && defined(__has_builtin)
#if __has_builtin(_rotl)
#define ETW_HAS_ROTATIONS
#endif
#endif
#ifndef ETW_HAS_ROTATIONS
static inline unsigned int(_rotl)(unsigned int value, int count) { return value << (count & 31) | value >> (-count & 31); }
static inline unsigned int(_rotr)(unsigned int value, int count) { return value >> (count & 31) | value << (-count & 31); }
static inline UINT64(_rotl64)(UINT64 value, int count) { return value << (count & 63) | value >> (-count & 63); }
static inline UINT64(_rotr64)(UINT64 value, int count) { return value >> (count & 63) | value << (-count & 63); }
#endif
static inline USHORT(_byteswap_ushort)(USHORT value) { return __builtin_bswap16(value); }
static inline DWORD(_byteswap_ulong)(DWORD value) { return __builtin_bswap32(value); }
static inline UINT64(_byteswap_uint64)(UINT64 value) { return __builtin_bswap64(value); }

/* Assertions of Windows' headers: __annotation writes a note for a debugger into the program's symbols. */
#define __annotation(...) ((void)0)
#define DbgRaiseAssertionFailure() __builtin_trap()
#define __debugbreak() __builtin_trap()
#define DebugBreak() __builtin_trap()
#define _ReturnAddress() __builtin_return_address(0)
#define __FUNCSIG__ __PRETTY_FUNCTION__
#define __assume(is_true) ((is_true) ? (void)0 : __builtin_unreachable())

#define _I8_MAX INT8_MAX
#define _I16_MAX INT16_MAX
#define _I32_MAX INT32_MAX
#define _I64_MAX INT64_MAX
#define _I8_MIN INT8_MIN
#define _I16_MIN INT16_MIN
#define _I32_MIN INT32_MIN
#define _I64_MIN INT64_MIN
#define _UI8_MAX UINT8_MAX
#define _UI16_MAX UINT16_MAX
#define _UI32_MAX UINT32_MAX
#define _UI64_MAX UINT64_MAX
#define RtlEqualMemory(a, b, size) (memcmp((a), (b), (size)) == 0)
#define RtlMoveMemory(to, from, size) memmove((to), (from), (size))
#define RtlFillMemory(to, size, fill) memset((to), (fill), (size))

/* ---- Annotations ---- */
#include "etw_windows_sal.h"
/* The C++ library uses these names itself. windows/specstrings.h and comutil.h include its headers and then define them. */
#ifndef __cplusplus
#define __in
#define __out
#endif

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
typedef enum _HEAP_INFORMATION_CLASS {
    HeapCompatibilityInformation = 0,
    HeapEnableTerminationOnCorruption = 1
} HEAP_INFORMATION_CLASS;
/* The C library always ends a program whose heap it finds corrupted. */
static inline BOOL HeapSetInformation(HANDLE heap, HEAP_INFORMATION_CLASS kind, PVOID information, SIZE_T size)
{
    (void)heap, (void)information, (void)size;
    return kind == HeapEnableTerminationOnCorruption;
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
#define LPTR 0x40u
#define LMEM_ZEROINIT 0x40u
#define GPTR 0x40u
static inline HANDLE LocalAlloc(UINT flags, SIZE_T size) { return (flags & LPTR) != 0 ? calloc(1, size) : malloc(size); }
#define GlobalAlloc LocalAlloc
#define GlobalFree LocalFree
static inline LPVOID _aligned_malloc(size_t size, size_t alignment)
{
    void *memory = NULL;
    return posix_memalign(&memory, alignment, size) == 0 ? memory : NULL;
}
#define _aligned_free free

/* ---- Process and time ---- */
#define InterlockedIncrement(to) __atomic_add_fetch((to), 1, __ATOMIC_SEQ_CST)
#define InterlockedDecrement(to) __atomic_sub_fetch((to), 1, __ATOMIC_SEQ_CST)
#define InterlockedIncrement64 InterlockedIncrement
#define InterlockedDecrement64 InterlockedDecrement
#define InterlockedAdd(to, value) __atomic_add_fetch((to), (value), __ATOMIC_SEQ_CST)
#define InterlockedExchangeAdd(to, value) __atomic_fetch_add((to), (value), __ATOMIC_SEQ_CST)
#define InterlockedExchange(to, value) __atomic_exchange_n((to), (value), __ATOMIC_SEQ_CST)
#define InterlockedCompareExchange(to, value, wanted) __sync_val_compare_and_swap((to), (wanted), (value))
static inline DWORD GetCurrentThreadId(void) { return (DWORD)syscall(SYS_gettid); }
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
/* Converts to this machine's time zone, which NULL selects; other zones are not supported. */
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

#ifdef __cplusplus
}
#endif

#include "etw_windows_text.h"
#include "etw_windows_system.h"
#include "etw_windows_threads.h"
#include "etw_windows_eventlog.h"
#include "etw_windows_program.h"
#include "etw_windows_files.h"
#include "etw_windows_scheduling.h"
#include "etw_windows_fileio.h"
#include "etw_windows_registry.h"

/* windows/wmain.h has a main for programs whose beginning is wmain. */
#endif
