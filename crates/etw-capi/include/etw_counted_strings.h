/*
 * Counted strings of the Windows API: UNICODE_STRING, ANSI_STRING and CSTRING. Lengths are in bytes, and a NUL at the end is optional.
 *
 * Part of openetw. Written to Microsoft's documentation; names and layouts are theirs.
 */
#ifndef ETW_COUNTED_STRINGS_H
#define ETW_COUNTED_STRINGS_H

#include "etw_base.h"

typedef struct _UNICODE_STRING {
    USHORT Length;
    USHORT MaximumLength;
    PWSTR Buffer;
} UNICODE_STRING, *PUNICODE_STRING;
typedef const UNICODE_STRING *PCUNICODE_STRING;

typedef struct _STRING {
    USHORT Length;
    USHORT MaximumLength;
    PCHAR Buffer;
} STRING, *PSTRING, ANSI_STRING, *PANSI_STRING;
typedef const ANSI_STRING *PCANSI_STRING;

typedef struct _CSTRING {
    USHORT Length;
    USHORT MaximumLength;
    const char *Buffer;
} CSTRING, *PCSTRING;

#endif
