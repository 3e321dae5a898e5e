/*
 * Texts of WCHAR and formats as Windows has them: lengths, comparisons, numbers, UTF-8 and UTF-16, printf. Included by etw_windows.h; with
 * -fshort-wchar also by windows/cwchar, so that every C++ file of a program has them before std::wstring.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 *
 * Formats are Windows': l is 32 bits, I64 and ll are 64; %s is of the kind of the format, %S of the other kind, %hs bytes, %ls and %ws
 * WCHAR. Bytes are UTF-8, in files and in memory.
 */
#ifndef ETW_WINDOWS_FORMAT_H
#define ETW_WINDOWS_FORMAT_H

#include "etw_base.h"
#ifdef __cplusplus
extern "C++" {
#endif
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline size_t etw_wcslen(const WCHAR *text)
{
    size_t length = 0;
    while (text[length] != 0)
        length++;
    return length;
}
static inline size_t etw_wcsnlen(const WCHAR *text, size_t count)
{
    size_t length = 0;
    while (length < count && text[length] != 0)
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
static inline WCHAR *etw_wcsncpy(WCHAR *to, const WCHAR *from, size_t count)
{
    size_t length = 0;
    for (; length < count && from[length] != 0; length++)
        to[length] = from[length];
    for (; length < count; length++)
        to[length] = 0;
    return to;
}
static inline WCHAR *etw_wcschr(const WCHAR *text, WCHAR unit)
{
    for (; *text != unit; text++)
        if (*text == 0)
            return NULL;
    return (WCHAR *)(uintptr_t)text;
}
static inline WCHAR *etw_wcsrchr(const WCHAR *text, WCHAR unit)
{
    size_t at = etw_wcslen(text) + 1;
    while (at-- > 0)
        if (text[at] == unit)
            return (WCHAR *)(uintptr_t)(text + at);
    return NULL;
}
static inline WCHAR *etw_wcsstr(const WCHAR *text, const WCHAR *part)
{
    const size_t length = etw_wcslen(part);
    for (;; text++) {
        if (etw_wcsncmp(text, part, length, 0) == 0)
            return (WCHAR *)(uintptr_t)text;
        if (*text == 0)
            return NULL;
    }
}
static inline WCHAR *etw_wcsdup(const WCHAR *text)
{
    WCHAR *copy = (WCHAR *)malloc((etw_wcslen(text) + 1) * sizeof *text);
    return copy == NULL ? (WCHAR *)NULL : etw_wcscpy(copy, text);
}
/* Reads the number at the start of a text with a function of the C library for bytes. */
#define ETW_WIDE_NUMBER(name, type, call)                                         \
    static inline type name(const WCHAR *text, WCHAR **end, int base)             \
    {                                                                             \
        char bytes[72], *stop;                                                    \
        size_t count = 0;                                                         \
        type number;                                                              \
        for (; count + 1 < sizeof bytes && text[count] != 0 && text[count] < 0x80; count++) \
            bytes[count] = (char)text[count];                                     \
        bytes[count] = 0;                                                         \
        (void)base;                                                               \
        number = (type)call;                                                      \
        if (end != NULL)                                                          \
            *end = (WCHAR *)(uintptr_t)(text + (stop - bytes));                   \
        return number;                                                            \
    }
ETW_WIDE_NUMBER(etw_wcstoll, long long, strtoll(bytes, &stop, base))
ETW_WIDE_NUMBER(etw_wcstoull, unsigned long long, strtoull(bytes, &stop, base))
ETW_WIDE_NUMBER(etw_wcstod_of, double, strtod(bytes, &stop))
/* Windows' long has 32 bits; a number that does not fit becomes the limit. */
static inline long etw_wcstol(const WCHAR *text, WCHAR **end, int base)
{
    const long long number = etw_wcstoll(text, end, base);
    return number > INT32_MAX ? INT32_MAX : number < INT32_MIN ? INT32_MIN : (long)number;
}
static inline unsigned long etw_wcstoul(const WCHAR *text, WCHAR **end, int base)
{
    const unsigned long long number = etw_wcstoull(text, end, base);
    return number > UINT32_MAX && number < 0xffffffff00000000u ? UINT32_MAX : (unsigned long)(uint32_t)number;
}
static inline double etw_wcstod(const WCHAR *text, WCHAR **end) { return etw_wcstod_of(text, end, 10); }
static inline int etw_wtoi(const WCHAR *text) { return (int)etw_wcstol(text, NULL, 10); }

/* ---- UTF-8 and UTF-16 ---- */

/* Decodes the first character of a text of `count` bytes and stores its size; an invalid byte is U+FFFD. */
static inline uint32_t etw_utf8_next(const char *text, size_t count, size_t *taken)
{
    static const uint32_t smallest[4] = {0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    const size_t more = *at < 0x80 ? 0 : *at >> 5 == 6 ? 1 : *at >> 4 == 14 ? 2 : *at >> 3 == 30 ? 3 : 4;
    uint32_t c;
    *taken = 1;
    if (more == 0)
        return *at;
    if (more == 4 || more >= count)
        return 0xfffd;
    c = *at & (0x3fu >> more);
    for (size_t n = 1; n <= more; n++) {
        if (at[n] >> 6 != 2)
            return 0xfffd;
        c = c << 6 | (at[n] & 0x3fu);
    }
    if (c < smallest[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0xfffd;
    *taken = more + 1;
    return c;
}
/* Encodes a character and returns its size in bytes. */
static inline int etw_utf8_of(uint32_t c, char *to)
{
    if (c < 0x80u) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800u) {
        to[0] = (char)(0xc0u | c >> 6);
        to[1] = (char)(0x80u | (c & 0x3fu));
        return 2;
    }
    if (c < 0x10000u) {
        to[0] = (char)(0xe0u | c >> 12);
        to[1] = (char)(0x80u | (c >> 6 & 0x3fu));
        to[2] = (char)(0x80u | (c & 0x3fu));
        return 3;
    }
    to[0] = (char)(0xf0u | c >> 18);
    to[1] = (char)(0x80u | (c >> 12 & 0x3fu));
    to[2] = (char)(0x80u | (c >> 6 & 0x3fu));
    to[3] = (char)(0x80u | (c & 0x3fu));
    return 4;
}

/* ---- Formatted texts ---- */

/* The destination of a formatted text: a stream, an array of WCHAR or an array of bytes. */
typedef struct etw_out {
    FILE *file;
    WCHAR *units;
    char *bytes;
    size_t room, written;
    uint32_t high; /* the first half of a surrogate pair */
} etw_out;

/* Writes one byte of UTF-8 to a stream or to bytes. */
static inline void etw_put_byte(etw_out *out, char byte)
{
    if (out->file != NULL)
        putc((unsigned char)byte, out->file);
    else if (out->written + 1 < out->room)
        out->bytes[out->written] = byte;
    out->written++;
}
static inline void etw_put(etw_out *out, WCHAR unit)
{
    uint32_t c = unit;
    char utf8[4];
    int count;
    if (out->file == NULL && out->bytes == NULL) {
        if (out->written + 1 < out->room)
            out->units[out->written] = unit;
        out->written++;
        return;
    }
    if ((c & 0xfc00u) == 0xd800u) {
        out->high = c;
        return;
    }
    if ((c & 0xfc00u) == 0xdc00u && out->high != 0)
        c = 0x10000u + ((out->high & 0x3ffu) << 10 | (c & 0x3ffu));
    out->high = 0;
    count = etw_utf8_of(c, utf8);
    for (int n = 0; n < count; n++)
        etw_put_byte(out, utf8[n]);
}
static inline void etw_put_bytes(etw_out *out, const char *text, size_t count)
{
    if (out->file != NULL || out->bytes != NULL) {
        for (; count > 0; count--)
            etw_put_byte(out, *text++);
        return;
    }
    for (size_t taken; count > 0; text += taken, count -= taken) {
        const uint32_t c = etw_utf8_next(text, count, &taken);
        if (c > 0xffff) {
            etw_put(out, (WCHAR)(0xd7c0 + (c >> 10)));
            etw_put(out, (WCHAR)(0xdc00 + (c & 0x3ff)));
        } else {
            etw_put(out, (WCHAR)c);
        }
    }
}
static inline void etw_pad(etw_out *out, int count)
{
    for (; count > 0; count--)
        etw_put(out, ' ');
}

/* A unit of the format, which is bytes or WCHAR. */
#define ETW_UNIT(n) (wide ? (uint32_t)((const WCHAR *)format)[n] : (uint32_t)((const unsigned char *)format)[n])
#define ETW_NEXT(n) (format = (const char *)format + (size_t)(n) * (wide ? sizeof(WCHAR) : 1))

/* Supports flags, width, precision, the sizes h, hh, l, ll, w, I, I32, I64 and z, and d i u x X o c C s S p f F e E g G a A. */
static inline int etw_format(etw_out *out, const void *format, int wide, va_list arguments)
{
    while (ETW_UNIT(0) != 0) {
        char flags[8], spec[40], text[512];
        int flag_count = 0, width = 0, precision = -1, size = 0, is_narrow = 0, is_wide = 0, is_left, length;
        uint32_t kind;
        if (ETW_UNIT(0) != '%' || ETW_UNIT(1) == '%') {
            const int is_percent = ETW_UNIT(0) == '%';
            if (wide)
                etw_put(out, (WCHAR)ETW_UNIT(0));
            else
                etw_put_bytes(out, (const char *)format, 1);
            ETW_NEXT(is_percent ? 2 : 1);
            continue;
        }
        ETW_NEXT(1);
        for (; ETW_UNIT(0) != 0 && ETW_UNIT(0) < 0x80 && strchr("-+ #0", (int)ETW_UNIT(0)) != NULL; ETW_NEXT(1))
            if (flag_count < 5)
                flags[flag_count++] = (char)ETW_UNIT(0);
        flags[flag_count] = 0;
        is_left = strchr(flags, '-') != NULL;
        if (ETW_UNIT(0) == '*') {
            width = va_arg(arguments, int);
            ETW_NEXT(1);
        }
        for (; ETW_UNIT(0) >= '0' && ETW_UNIT(0) <= '9'; ETW_NEXT(1))
            width = width < 1000 ? width * 10 + (int)(ETW_UNIT(0) - '0') : width;
        if (width < 0) {
            is_left = 1;
            flags[flag_count++] = '-';
            flags[flag_count] = 0;
            width = -(width + 1) + 1;
        }
        if (ETW_UNIT(0) == '.') {
            precision = 0;
            ETW_NEXT(1);
            if (ETW_UNIT(0) == '*') {
                precision = va_arg(arguments, int);
                ETW_NEXT(1);
            }
            for (; ETW_UNIT(0) >= '0' && ETW_UNIT(0) <= '9'; ETW_NEXT(1))
                precision = precision < 100000 ? precision * 10 + (int)(ETW_UNIT(0) - '0') : precision;
        }
        for (;; ETW_NEXT(1)) {
            if (ETW_UNIT(0) == 'h') {
                is_narrow = 1;
            } else if (ETW_UNIT(0) == 'l' && ETW_UNIT(1) == 'l') {
                size = 8;
                ETW_NEXT(1);
            } else if (ETW_UNIT(0) == 'l' || ETW_UNIT(0) == 'w') {
                is_wide = 1;
            } else if (ETW_UNIT(0) == 'I' && ETW_UNIT(1) == '6' && ETW_UNIT(2) == '4') {
                size = 8;
                ETW_NEXT(2);
            } else if (ETW_UNIT(0) == 'I' && ETW_UNIT(1) == '3' && ETW_UNIT(2) == '2') {
                ETW_NEXT(2);
            } else if (ETW_UNIT(0) == 'I' || ETW_UNIT(0) == 'z' || ETW_UNIT(0) == 'j' || ETW_UNIT(0) == 't') {
                size = 8;
            } else {
                break;
            }
        }
        kind = ETW_UNIT(0);
        if (kind == 0)
            break;
        ETW_NEXT(1);
        if (kind == 's' || kind == 'S' || kind == 'c' || kind == 'C') {
            /* The argument is of the format's own kind, except for %S and %C, and unless h or l decides. */
            const int is_units = is_narrow ? 0 : is_wide ? 1 : (kind == 's' || kind == 'c') == (wide != 0);
            WCHAR one_unit[2] = {0, 0};
            char one_byte[2] = {0, 0};
            const WCHAR *units = one_unit;
            const char *bytes = one_byte;
            if (kind == 'c' || kind == 'C') {
                const int value = va_arg(arguments, int);
                one_unit[0] = (WCHAR)value;
                one_byte[0] = (char)value;
                length = 1;
            } else {
                const void *argument = va_arg(arguments, const void *);
                units = argument == NULL ? (const WCHAR *)ETW_W("(null)") : (const WCHAR *)argument;
                bytes = argument == NULL ? "(null)" : (const char *)argument;
                for (length = 0; (precision < 0 || length < precision) &&
                                 (is_units ? units[length] != 0 : bytes[length] != 0);)
                    length++;
            }
            if (!is_left)
                etw_pad(out, width - length);
            if (is_units)
                for (int n = 0; n < length; n++)
                    etw_put(out, units[n]);
            else
                etw_put_bytes(out, bytes, (size_t)length);
            if (is_left)
                etw_pad(out, width - length);
            continue;
        }
        width = width > 400 ? 400 : width;
        precision = precision > 100 ? 100 : precision;
        length = snprintf(spec, sizeof spec, precision < 0 ? "%%%s%d" : "%%%s%d.%d", flags, width, precision);
        if (width == 0) /* printf would read a width of 0 as a flag. */
            length = snprintf(spec, sizeof spec, precision < 0 ? "%%%s" : "%%%s.%d", flags, precision);
        if (length < 0 || length > 30)
            break;
        if (kind < 0x80 && strchr("fFeEgGaA", (int)kind) != NULL) {
            spec[length] = (char)kind;
            spec[length + 1] = 0;
            length = snprintf(text, sizeof text, spec, va_arg(arguments, double));
        } else if (kind == 'p') {
            length = snprintf(text, sizeof text, "%016llX", (unsigned long long)(uintptr_t)va_arg(arguments, void *));
        } else if (kind < 0x80 && strchr("diuxXo", (int)kind) != NULL) {
            const int is_signed = kind == 'd' || kind == 'i';
            unsigned long long value;
            if (size == 8)
                value = va_arg(arguments, unsigned long long);
            else if (is_signed)
                value = (unsigned long long)(long long)va_arg(arguments, int);
            else
                value = va_arg(arguments, unsigned int);
            if (is_narrow && size != 8)
                value = is_signed ? (unsigned long long)(long long)(short)value : (unsigned short)value;
            spec[length] = 'l';
            spec[length + 1] = 'l';
            spec[length + 2] = (char)kind;
            spec[length + 3] = 0;
            length = snprintf(text, sizeof text, spec, value);
        } else {
            break;
        }
        for (int n = 0; n < length && n < (int)sizeof text - 1; n++)
            etw_put(out, (WCHAR)(unsigned char)text[n]);
    }
    return (int)out->written;
}
#undef ETW_UNIT
#undef ETW_NEXT

static inline int etw_vfwprintf(FILE *file, const WCHAR *format, va_list arguments)
{
    etw_out out;
    memset(&out, 0, sizeof out);
    out.file = file;
    return etw_format(&out, format, 1, arguments);
}
static inline int etw_vfprintf(FILE *file, const char *format, va_list arguments)
{
    etw_out out;
    memset(&out, 0, sizeof out);
    out.file = file;
    return etw_format(&out, format, 0, arguments);
}
/* Writes as much as fits, with a NUL. Returns the length of the whole text. */
static inline int etw_units(WCHAR *to, size_t count, const WCHAR *format, va_list arguments)
{
    etw_out out;
    int written;
    memset(&out, 0, sizeof out);
    out.units = to;
    out.room = count;
    written = etw_format(&out, format, 1, arguments);
    if (count > 0)
        to[out.written < count ? out.written : count - 1] = 0;
    return written;
}
static inline int etw_bytes(char *to, size_t count, const char *format, va_list arguments)
{
    char none;
    etw_out out;
    int written;
    memset(&out, 0, sizeof out);
    out.bytes = count == 0 ? &none : to;
    out.room = count;
    written = etw_format(&out, format, 0, arguments);
    if (count > 0)
        to[out.written < count ? out.written : count - 1] = 0;
    return written;
}
/* Truncates a text that does not fit, and returns -1. */
static inline int etw_vswprintf(WCHAR *to, size_t count, const WCHAR *format, va_list arguments)
{
    const int written = etw_units(to, count, format, arguments);
    return (size_t)written < count ? written : -1;
}
static inline int etw_vsprintf_s(char *to, size_t count, const char *format, va_list arguments)
{
    const int written = etw_bytes(to, count, format, arguments);
    return (size_t)written < count ? written : -1;
}
/* Returns the length of the whole text, as in C. */
static inline int etw_vsnprintf(char *to, size_t count, const char *format, va_list arguments)
{
    return etw_bytes(to, count, format, arguments);
}
static inline int etw_vscwprintf(const WCHAR *format, va_list arguments) { return etw_units(NULL, 0, format, arguments); }
static inline int etw_vscprintf(const char *format, va_list arguments) { return etw_bytes(NULL, 0, format, arguments); }
static inline int etw_vprintf(const char *format, va_list arguments) { return etw_vfprintf(stdout, format, arguments); }
static inline int etw_vwprintf(const WCHAR *format, va_list arguments)
{
    return etw_vfwprintf(stdout, format, arguments);
}
/* Defines a variadic function by its va_list form. */
#define ETW_VARIADIC(type, name, call, last, ...)     \
    static inline type name(__VA_ARGS__, ...)         \
    {                                                 \
        va_list arguments;                            \
        type result;                                  \
        va_start(arguments, last);                    \
        result = call;                                \
        va_end(arguments);                            \
        return result;                                \
    }
ETW_VARIADIC(int, etw_fwprintf, etw_vfwprintf(file, format, arguments), format, FILE *file, const WCHAR *format)
ETW_VARIADIC(int, etw_wprintf, etw_vfwprintf(stdout, format, arguments), format, const WCHAR *format)
ETW_VARIADIC(int, etw_fprintf, etw_vfprintf(file, format, arguments), format, FILE *file, const char *format)
ETW_VARIADIC(int, etw_printf, etw_vfprintf(stdout, format, arguments), format, const char *format)
ETW_VARIADIC(int, etw_scwprintf, etw_vscwprintf(format, arguments), format, const WCHAR *format)
ETW_VARIADIC(int, etw_scprintf, etw_vscprintf(format, arguments), format, const char *format)
ETW_VARIADIC(int, etw_swprintf, etw_vswprintf(to, count, format, arguments), format, WCHAR *to, size_t count,
             const WCHAR *format)
ETW_VARIADIC(int, etw_sprintf_s, etw_vsprintf_s(to, count, format, arguments), format, char *to, size_t count,
             const char *format)
ETW_VARIADIC(int, etw_snprintf, etw_vsnprintf(to, count, format, arguments), format, char *to, size_t count,
             const char *format)
ETW_VARIADIC(int, etw_sprintf, etw_vsnprintf(to, INT_MAX, format, arguments), format, char *to, const char *format)
static inline int etw_vsprintf(char *to, const char *format, va_list arguments)
{
    return etw_vsnprintf(to, INT_MAX, format, arguments);
}
#ifdef __cplusplus
/* The length of the array is a template argument. */
template <size_t N> static inline int etw_swprintf(WCHAR (&to)[N], const WCHAR *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int written = etw_vswprintf(to, N, format, arguments);
    va_end(arguments);
    return written;
}
template <size_t N> static inline int etw_sprintf_s(char (&to)[N], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int written = etw_vsprintf_s(to, N, format, arguments);
    va_end(arguments);
    return written;
}
#endif

#if __SIZEOF_WCHAR_T__ == 2
/* ---- The functions that the C library has for a wchar_t of 32 bits ---- */
static inline wchar_t *etw_wmemcpy(wchar_t *to, const wchar_t *from, size_t count)
{
    return (wchar_t *)memcpy(to, from, count * sizeof *to);
}
static inline wchar_t *etw_wmemmove(wchar_t *to, const wchar_t *from, size_t count)
{
    return (wchar_t *)memmove(to, from, count * sizeof *to);
}
static inline wchar_t *etw_wmemset(wchar_t *to, wchar_t unit, size_t count)
{
    for (size_t n = 0; n < count; n++)
        to[n] = unit;
    return to;
}
static inline int etw_wmemcmp(const wchar_t *a, const wchar_t *b, size_t count)
{
    for (; count > 0; count--, a++, b++)
        if (*a != *b)
            return *a < *b ? -1 : 1;
    return 0;
}
static inline wchar_t *etw_wmemchr(const wchar_t *text, wchar_t unit, size_t count)
{
    for (; count > 0; count--, text++)
        if (*text == unit)
            return (wchar_t *)(uintptr_t)text;
    return NULL;
}
static inline int etw_wcscmp(const wchar_t *a, const wchar_t *b) { return etw_wcsncmp(a, b, (size_t)-1, 0); }
static inline int etw_wcsncmp_of(const wchar_t *a, const wchar_t *b, size_t count) { return etw_wcsncmp(a, b, count, 0); }
static inline int etw_fputws(const wchar_t *text, FILE *file) { return etw_fwprintf(file, L"%s", text) < 0 ? EOF : 0; }
static inline wint_t etw_putwc(wchar_t unit, FILE *file)
{
    etw_fwprintf(file, L"%c", unit);
    return unit;
}
static inline int etw_putws(const wchar_t *text) { return etw_wprintf(L"%s\n", text) < 0 ? EOF : 0; }
#define wprintf etw_wprintf
#define fwprintf etw_fwprintf
#define vwprintf etw_vwprintf
#define vfwprintf etw_vfwprintf
#define swprintf etw_swprintf
#define vswprintf etw_vswprintf
#define wcslen etw_wcslen
#define wcsnlen etw_wcsnlen
#define wcscpy etw_wcscpy
#define wcsncpy etw_wcsncpy
#define wcscat etw_wcscat
#define wcscmp etw_wcscmp
#define wcsncmp etw_wcsncmp_of
#define wcschr etw_wcschr
#define wcsrchr etw_wcsrchr
#define wcsstr etw_wcsstr
#define wcstol etw_wcstol
#define wcstoul etw_wcstoul
#define wcstoll etw_wcstoll
#define wcstoull etw_wcstoull
#define wcstod etw_wcstod
#define wmemcpy etw_wmemcpy
#define wmemmove etw_wmemmove
#define wmemset etw_wmemset
#define wmemcmp etw_wmemcmp
#define wmemchr etw_wmemchr
#define fputws etw_fputws
#define putwc etw_putwc
#define fputwc etw_putwc
#define putwchar(unit) etw_putwc(unit, stdout)
#ifdef __cplusplus
namespace std
{
using ::etw_fputws;
using ::etw_fwprintf;
using ::etw_putwc;
using ::etw_swprintf;
using ::etw_vfwprintf;
using ::etw_vswprintf;
using ::etw_vwprintf;
using ::etw_wcscat;
using ::etw_wcschr;
using ::etw_wcscmp;
using ::etw_wcscpy;
using ::etw_wcslen;
using ::etw_wcsncmp_of;
using ::etw_wcsncpy;
using ::etw_wcsrchr;
using ::etw_wcsstr;
using ::etw_wcstod;
using ::etw_wcstol;
using ::etw_wcstoll;
using ::etw_wcstoul;
using ::etw_wcstoull;
using ::etw_wmemchr;
using ::etw_wmemcmp;
using ::etw_wmemcpy;
using ::etw_wmemmove;
using ::etw_wmemset;
using ::etw_wprintf;
}
#endif
#endif

#ifdef __cplusplus
}
#endif
#endif
