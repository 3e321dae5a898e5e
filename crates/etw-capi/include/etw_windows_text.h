/*
 * Functions for texts: code pages, strsafe.h, and Microsoft's additions to the C library. Included by etw_windows.h.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 */
#ifndef ETW_WINDOWS_TEXT_H
#define ETW_WINDOWS_TEXT_H

#include "etw_windows_format.h"

#ifdef __cplusplus
extern "C++" {
#endif

#define STRSAFE_MAX_CCH 2147483647
#define STRSAFE_E_INSUFFICIENT_BUFFER ((HRESULT)0x8007007a)
#define STRSAFE_E_INVALID_PARAMETER ((HRESULT)0x80070057)
#define STRSAFE_E_END_OF_FILE ((HRESULT)0x80070026)
#define UNICODE_NULL ((WCHAR)0)
#define _TRUNCATE ((size_t)-1)
#ifndef _ERRNO_T_DEFINED
#define _ERRNO_T_DEFINED
typedef int errno_t;
#endif

#define CP_ACP 0u
#define CP_OEMCP 1u
#define CP_UTF8 65001u
#define MB_PRECOMPOSED 0x1u
#define MB_ERR_INVALID_CHARS 0x8u
#define WC_ERR_INVALID_CHARS 0x80u
/* Every code page is treated as UTF-8. */
static inline int MultiByteToWideChar(UINT page, DWORD flags, const char *from, int size, WCHAR *to, int room)
{
    const size_t count = size < 0 ? strlen(from) + 1 : (size_t)size;
    size_t units = 0, taken;
    (void)page;
    if (size == 0 || room < 0) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return 0;
    }
    for (size_t at = 0; at < count; at += taken) {
        const uint32_t c = etw_utf8_next(from + at, count - at, &taken);
        if (c == 0xfffd && taken == 1 && (flags & MB_ERR_INVALID_CHARS) != 0) {
            SetLastError(ERROR_NO_UNICODE_TRANSLATION);
            return 0;
        }
        if (room > 0 && units + (c > 0xffff) < (size_t)room) {
            to[units] = (WCHAR)(c > 0xffff ? 0xd7c0 + (c >> 10) : c);
            if (c > 0xffff)
                to[units + 1] = (WCHAR)(0xdc00 + (c & 0x3ff));
        }
        units += c > 0xffff ? 2 : 1;
    }
    if ((room > 0 && units > (size_t)room) || units > INT_MAX) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return 0;
    }
    return (int)units;
}
static inline int WideCharToMultiByte(UINT page, DWORD flags, const WCHAR *from, int size, char *to, int room,
                                      const char *unknown, BOOL *used_unknown)
{
    const size_t count = size < 0 ? etw_wcslen(from) + 1 : (size_t)size;
    size_t bytes = 0;
    (void)page, (void)unknown;
    if (used_unknown != NULL)
        *used_unknown = FALSE;
    if (size == 0 || room < 0) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return 0;
    }
    for (size_t at = 0; at < count; at++) {
        char utf8[4];
        uint32_t c = from[at];
        int length;
        if ((c & 0xfc00) == 0xd800 && at + 1 < count && (from[at + 1] & 0xfc00) == 0xdc00) {
            c = 0x10000 + ((c & 0x3ff) << 10 | (from[++at] & 0x3ffu));
        } else if ((c & 0xf800) == 0xd800) {
            if ((flags & WC_ERR_INVALID_CHARS) != 0) {
                SetLastError(ERROR_NO_UNICODE_TRANSLATION);
                return 0;
            }
            c = 0xfffd;
        }
        length = etw_utf8_of(c, utf8);
        if (room > 0 && bytes + (size_t)length <= (size_t)room)
            memcpy(to + bytes, utf8, (size_t)length);
        bytes += (size_t)length;
    }
    if ((room > 0 && bytes > (size_t)room) || bytes > INT_MAX) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return 0;
    }
    return (int)bytes;
}

/* ---- strsafe.h: functions that truncate at the capacity and always write a NUL ---- */
static inline HRESULT StringCchLengthW(const WCHAR *text, size_t most, size_t *length)
{
    const size_t found = text == NULL ? most : etw_wcsnlen(text, most);
    if (length != NULL)
        *length = found < most ? found : 0;
    return found < most ? S_OK : STRSAFE_E_INVALID_PARAMETER;
}
static inline HRESULT StringCchLengthA(const char *text, size_t most, size_t *length)
{
    const size_t found = text == NULL ? most : strnlen(text, most);
    if (length != NULL)
        *length = found < most ? found : 0;
    return found < most ? S_OK : STRSAFE_E_INVALID_PARAMETER;
}
static inline HRESULT StringCbLengthA(const char *text, size_t most, size_t *length)
{
    return StringCchLengthA(text, most, length);
}
static inline HRESULT StringCbLengthW(const WCHAR *text, size_t most, size_t *length)
{
    const HRESULT result = StringCchLengthW(text, most / sizeof(WCHAR), length);
    if (length != NULL)
        *length *= sizeof(WCHAR);
    return result;
}
/* Copies at most `most` units of `from`. */
static inline HRESULT StringCchCopyNW(WCHAR *to, size_t count, const WCHAR *from, size_t most)
{
    size_t length = 0;
    if (count == 0)
        return STRSAFE_E_INVALID_PARAMETER;
    for (; length + 1 < count && length < most && from[length] != 0; length++)
        to[length] = from[length];
    to[length] = 0;
    return length == most || from[length] == 0 ? S_OK : STRSAFE_E_INSUFFICIENT_BUFFER;
}
static inline HRESULT StringCchCopyNA(char *to, size_t count, const char *from, size_t most)
{
    size_t length = 0;
    if (count == 0)
        return STRSAFE_E_INVALID_PARAMETER;
    for (; length + 1 < count && length < most && from[length] != 0; length++)
        to[length] = from[length];
    to[length] = 0;
    return length == most || from[length] == 0 ? S_OK : STRSAFE_E_INSUFFICIENT_BUFFER;
}
static inline HRESULT StringCchCopyW(WCHAR *to, size_t count, const WCHAR *from)
{
    return StringCchCopyNW(to, count, from, (size_t)-1);
}
static inline HRESULT StringCchCopyA(char *to, size_t count, const char *from)
{
    return StringCchCopyNA(to, count, from, (size_t)-1);
}
static inline HRESULT StringCbCopyW(WCHAR *to, size_t size, const WCHAR *from)
{
    return StringCchCopyW(to, size / sizeof(WCHAR), from);
}
static inline HRESULT StringCbCopyA(char *to, size_t size, const char *from) { return StringCchCopyA(to, size, from); }
static inline HRESULT StringCchCatW(WCHAR *to, size_t count, const WCHAR *from)
{
    const size_t length = etw_wcsnlen(to, count);
    return length < count ? StringCchCopyW(to + length, count - length, from) : STRSAFE_E_INVALID_PARAMETER;
}
static inline HRESULT StringCchCatA(char *to, size_t count, const char *from)
{
    const size_t length = strnlen(to, count);
    return length < count ? StringCchCopyA(to + length, count - length, from) : STRSAFE_E_INVALID_PARAMETER;
}
static inline HRESULT StringCbCatW(WCHAR *to, size_t size, const WCHAR *from)
{
    return StringCchCatW(to, size / sizeof(WCHAR), from);
}
static inline HRESULT StringCbCatA(char *to, size_t size, const char *from) { return StringCchCatA(to, size, from); }
static inline HRESULT StringCchVPrintfW(WCHAR *to, size_t count, const WCHAR *format, va_list arguments)
{
    if (count == 0)
        return STRSAFE_E_INVALID_PARAMETER;
    return etw_vswprintf(to, count, format, arguments) < 0 ? STRSAFE_E_INSUFFICIENT_BUFFER : S_OK;
}
static inline HRESULT StringCchVPrintfA(char *to, size_t count, const char *format, va_list arguments)
{
    if (count == 0)
        return STRSAFE_E_INVALID_PARAMETER;
    return etw_vsprintf_s(to, count, format, arguments) < 0 ? STRSAFE_E_INSUFFICIENT_BUFFER : S_OK;
}
#define StringCbVPrintfA StringCchVPrintfA
static inline HRESULT StringCbVPrintfW(WCHAR *to, size_t size, const WCHAR *format, va_list arguments)
{
    return StringCchVPrintfW(to, size / sizeof(WCHAR), format, arguments);
}
/* Returns the end of the text and the capacity that remains behind it. */
static inline HRESULT etw_ended(HRESULT result, WCHAR *to, size_t count, WCHAR **end, size_t *left)
{
    const size_t length = count == 0 ? 0 : etw_wcsnlen(to, count);
    if (end != NULL)
        *end = to + length;
    if (left != NULL)
        *left = count - length;
    return result;
}
ETW_VARIADIC(HRESULT, StringCchPrintfW, StringCchVPrintfW(to, count, format, arguments), format, WCHAR *to,
             size_t count, const WCHAR *format)
ETW_VARIADIC(HRESULT, StringCchPrintfA, StringCchVPrintfA(to, count, format, arguments), format, char *to,
             size_t count, const char *format)
ETW_VARIADIC(HRESULT, StringCbPrintfW, StringCbVPrintfW(to, size, format, arguments), format, WCHAR *to, size_t size,
             const WCHAR *format)
ETW_VARIADIC(HRESULT, StringCbPrintfA, StringCchVPrintfA(to, size, format, arguments), format, char *to, size_t size,
             const char *format)
/* Ignores the flags, which concern the memory behind the text. */
ETW_VARIADIC(HRESULT, StringCchPrintfExW,
             etw_ended(StringCchVPrintfW(to, count, format, arguments), to, count, end, left), format, WCHAR *to,
             size_t count, WCHAR **end, size_t *left, DWORD flags __attribute__((unused)), const WCHAR *format)
static inline HRESULT etw_ended_bytes(HRESULT result, WCHAR *to, size_t size, WCHAR **end, size_t *left)
{
    etw_ended(result, to, size / sizeof(WCHAR), end, left);
    if (left != NULL)
        *left = *left * sizeof(WCHAR) + size % sizeof(WCHAR);
    return result;
}
ETW_VARIADIC(HRESULT, StringCbPrintfExW,
             etw_ended_bytes(StringCbVPrintfW(to, size, format, arguments), to, size, end, left), format, WCHAR *to,
             size_t size, WCHAR **end, size_t *left, DWORD flags __attribute__((unused)), const WCHAR *format)
#undef ETW_VARIADIC
#ifdef UNICODE
#define StringCchLength StringCchLengthW
#define StringCbLength StringCbLengthW
#define StringCchCopy StringCchCopyW
#define StringCchCopyN StringCchCopyNW
#define StringCbCopy StringCbCopyW
#define StringCchCat StringCchCatW
#define StringCbCat StringCbCatW
#define StringCchPrintf StringCchPrintfW
#define StringCbPrintf StringCbPrintfW
#define StringCchVPrintf StringCchVPrintfW
#else
#define StringCchLength StringCchLengthA
#define StringCbLength StringCbLengthA
#define StringCchCopy StringCchCopyA
#define StringCchCopyN StringCchCopyNA
#define StringCbCopy StringCbCopyA
#define StringCchCat StringCchCatA
#define StringCbCat StringCbCatA
#define StringCchPrintf StringCchPrintfA
#define StringCbPrintf StringCbPrintfA
#define StringCchVPrintf StringCchVPrintfA
#endif

/* The C library's functions with a capacity. */
static inline errno_t etw_wcscpy_s(WCHAR *to, size_t count, const WCHAR *from)
{
    return StringCchCopyW(to, count, from) == S_OK ? 0 : ERANGE;
}
static inline errno_t etw_wcscat_s(WCHAR *to, size_t count, const WCHAR *from)
{
    return StringCchCatW(to, count, from) == S_OK ? 0 : ERANGE;
}
static inline errno_t etw_wcsncpy_s(WCHAR *to, size_t count, const WCHAR *from, size_t most)
{
    return StringCchCopyNW(to, count, from, most) == S_OK || most == _TRUNCATE ? 0 : ERANGE;
}
static inline errno_t etw_strcpy_s(char *to, size_t count, const char *from)
{
    return StringCchCopyA(to, count, from) == S_OK ? 0 : ERANGE;
}
static inline errno_t etw_strcat_s(char *to, size_t count, const char *from)
{
    return StringCchCatA(to, count, from) == S_OK ? 0 : ERANGE;
}
static inline errno_t etw_strncpy_s(char *to, size_t count, const char *from, size_t most)
{
    return StringCchCopyNA(to, count, from, most) == S_OK || most == _TRUNCATE ? 0 : ERANGE;
}
static inline errno_t memcpy_s(void *to, size_t room, const void *from, size_t count)
{
    if (count > room)
        return ERANGE;
    memcpy(to, from, count);
    return 0;
}
#ifdef __cplusplus
template <size_t N> static inline errno_t etw_wcscpy_s(WCHAR (&to)[N], const WCHAR *from) { return etw_wcscpy_s(to, N, from); }
template <size_t N> static inline errno_t etw_wcscat_s(WCHAR (&to)[N], const WCHAR *from) { return etw_wcscat_s(to, N, from); }
template <size_t N> static inline errno_t etw_wcsncpy_s(WCHAR (&to)[N], const WCHAR *from, size_t most)
{
    return etw_wcsncpy_s(to, N, from, most);
}
template <size_t N> static inline errno_t etw_strncpy_s(char (&to)[N], const char *from, size_t most)
{
    return etw_strncpy_s(to, N, from, most);
}
template <size_t N> static inline errno_t etw_strcpy_s(char (&to)[N], const char *from) { return etw_strcpy_s(to, N, from); }
template <size_t N> static inline errno_t etw_strcat_s(char (&to)[N], const char *from) { return etw_strcat_s(to, N, from); }
#endif
#define strcpy_s etw_strcpy_s
#define strcat_s etw_strcat_s
#define strncpy_s etw_strncpy_s
#define sprintf_s etw_sprintf_s
#define vsprintf_s etw_vsprintf_s
#define _scprintf etw_scprintf
#define _vscprintf etw_vscprintf
#define _stricmp strcasecmp
#define _strnicmp strncasecmp
#define _strdup strdup
static inline char *_fullpath(char *to, const char *path, size_t count)
{
    char folder[4096];
    if (path[0] == '/')
        return StringCchCopyA(to, count, path) == S_OK ? to : (char *)NULL;
    if (getcwd(folder, sizeof folder) == NULL)
        return NULL;
    return StringCchPrintfA(to, count, "%s/%s", folder, path) == S_OK ? to : (char *)NULL;
}
static inline WCHAR *_wfullpath(WCHAR *to, const WCHAR *path, size_t count)
{
    char folder[4096];
    if (path[0] == '/')
        return StringCchCopyW(to, count, path) == S_OK ? to : (WCHAR *)NULL;
    if (getcwd(folder, sizeof folder) == NULL)
        return NULL;
    return StringCchPrintfW(to, count, (const WCHAR *)ETW_W("%hs/%s"), folder, path) == S_OK ? to : (WCHAR *)NULL;
}

#if __SIZEOF_WCHAR_T__ == 2
#define wprintf_s etw_wprintf
#define fwprintf_s etw_fwprintf
#define swprintf_s etw_swprintf
#define vswprintf_s etw_vswprintf
#define _snwprintf etw_swprintf
#define _scwprintf etw_scwprintf
#define _vscwprintf etw_vscwprintf
#define _putws etw_putws
#define _wcsicmp(a, b) etw_wcsncmp(a, b, (size_t)-1, 1)
#define _wcsnicmp(a, b, count) etw_wcsncmp(a, b, count, 1)
#define _wcsdup etw_wcsdup
#define _wtoi etw_wtoi
#define _wtol etw_wtoi
#define _wcstoui64 etw_wcstoull
#define _wcstoi64 etw_wcstoll
#define wcscpy_s etw_wcscpy_s
#define wcscat_s etw_wcscat_s
#define wcsncpy_s etw_wcsncpy_s
/* printf takes Windows' formats: %lu for a ULONG, %I64u, %ws. */
#define printf etw_printf
#define printf_s etw_printf
#define vprintf etw_vprintf
#define fprintf etw_fprintf
#define fprintf_s etw_fprintf
#define vfprintf etw_vfprintf
#define snprintf etw_snprintf
#define _snprintf etw_snprintf
#define vsnprintf etw_vsnprintf
#define _vsnprintf etw_vsnprintf
#define sprintf etw_sprintf
#define vsprintf etw_vsprintf
#ifdef __cplusplus
namespace std
{
using ::etw_fprintf;
using ::etw_printf;
using ::etw_snprintf;
using ::etw_sprintf;
using ::etw_vfprintf;
using ::etw_vprintf;
using ::etw_vsnprintf;
using ::etw_vsprintf;
}
#endif
#endif

#ifdef __cplusplus
}
#endif
#endif
