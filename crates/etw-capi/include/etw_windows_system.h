/*
 * Functions of the system that ETW programs for Windows call: modules, SIDs, files, dates as texts, messages, COM's texts of GUIDs. Included
 * by etw_windows.h.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 *
 * Calls for absent things fail with a status: COM classes (REGDB_E_CLASSNOTREG), the system's message texts (ERROR_MR_MID_NOT_FOUND), unknown
 * accounts (ERROR_NONE_MAPPED).
 */
#ifndef ETW_WINDOWS_SYSTEM_H
#define ETW_WINDOWS_SYSTEM_H

#include "etw_counted_strings.h"
#include <wctype.h>
#include <pwd.h>

#ifdef __cplusplus
extern "C++" {
#endif

/* ---- Modules: every module name that ETW programs use means libetw ---- */
typedef HANDLE HMODULE, HINSTANCE, HLOCAL, HGLOBAL;
/* A function type that compilers convert to any other without a warning. */
typedef void (*FARPROC)(void);
ETW_EXTERN const void *etw_procedure(const char *name);

/* Windows' windows.h declares these with its sockets. */
ETW_EXTERN uint32_t htonl(uint32_t) __THROW __attribute__((__const__));
ETW_EXTERN uint32_t ntohl(uint32_t) __THROW __attribute__((__const__));
ETW_EXTERN uint16_t htons(uint16_t) __THROW __attribute__((__const__));
ETW_EXTERN uint16_t ntohs(uint16_t) __THROW __attribute__((__const__));

/* The functions that ntdll.dll has for texts of addresses: they return the end of the text. etw_windows_addresses.h names them. */
ETW_EXTERN const char *inet_ntop(int, const void *, char *, __socklen_t) __THROW;
static inline char *etw_ipv6_text(const void *address, char *to)
{
    return inet_ntop(10, address, to, 46) == NULL ? to : to + strlen(to);
}
static inline char *etw_ipv4_text(const void *address, char *to)
{
    return inet_ntop(2, address, to, 16) == NULL ? to : to + strlen(to);
}
static inline WCHAR *etw_widened(const char *text, WCHAR *to)
{
    do
        *to++ = (WCHAR)(unsigned char)*text;
    while (*text++ != 0);
    return to - 1;
}
static inline WCHAR *etw_ipv6_wide_text(const void *address, WCHAR *to)
{
    char text[46] = "";
    etw_ipv6_text(address, text);
    return etw_widened(text, to);
}
static inline WCHAR *etw_ipv4_wide_text(const void *address, WCHAR *to)
{
    char text[16] = "";
    etw_ipv4_text(address, text);
    return etw_widened(text, to);
}

static inline HMODULE GetModuleHandleA(const char *name)
{
    static const char *const known[] = {"advapi32", "kernel32", "kernelbase", "ntdll", "sechost", "tdh"};
    const size_t length = name == NULL ? 0 : strcspn(name, ".");
    if (name == NULL)
        return (HMODULE)(ULONG_PTR)1;
    for (size_t n = 0; n < sizeof known / sizeof known[0]; n++)
        if (strlen(known[n]) == length && strncasecmp(name, known[n], length) == 0 &&
            (name[length] == 0 || strcasecmp(name + length, ".dll") == 0))
            return (HMODULE)(ULONG_PTR)(n + 2);
    SetLastError(ERROR_MOD_NOT_FOUND);
    return NULL;
}
static inline HMODULE GetModuleHandleW(const WCHAR *name)
{
    char bytes[64] = "?";
    if (name != NULL && etw_wcslen(name) < 16)
        WideCharToMultiByte(CP_UTF8, 0, name, -1, bytes, sizeof bytes, NULL, NULL);
    return GetModuleHandleA(name == NULL ? (const char *)NULL : bytes);
}
#define LoadLibraryA GetModuleHandleA
#define LoadLibraryW GetModuleHandleW
#define LoadLibraryExA(name, file, flags) GetModuleHandleA(name)
#define LoadLibraryExW(name, file, flags) GetModuleHandleW(name)
static inline BOOL FreeLibrary(HMODULE module) { return module != NULL; }
/* Finds a function of libetw by name. Every module has the same functions. */
static inline FARPROC GetProcAddress(HMODULE module, const char *name)
{
    FARPROC procedure = NULL;
    const void *address = NULL;
    if (module != NULL && name != NULL) {
        if (strcmp(name, "RtlIpv6AddressToStringW") == 0)
            procedure = (FARPROC)etw_ipv6_wide_text;
        else if (strcmp(name, "RtlIpv6AddressToStringA") == 0)
            procedure = (FARPROC)etw_ipv6_text;
        else if (strcmp(name, "RtlIpv4AddressToStringW") == 0)
            procedure = (FARPROC)etw_ipv4_wide_text;
        else if (strcmp(name, "RtlIpv4AddressToStringA") == 0)
            procedure = (FARPROC)etw_ipv4_text;
        else
            address = etw_procedure(name);
        if (address != NULL)
            memcpy(&procedure, &address, sizeof procedure);
    }
    if (procedure == NULL)
        SetLastError(ERROR_PROC_NOT_FOUND);
    return procedure;
}
static inline DWORD GetModuleFileNameA(HMODULE module, char *to, DWORD count)
{
    const ssize_t length = count == 0 ? -1 : readlink("/proc/self/exe", to, count - 1);
    (void)module;
    if (length < 0)
        return 0;
    to[length] = 0;
    return (DWORD)length;
}
static inline DWORD GetModuleFileNameW(HMODULE module, WCHAR *to, DWORD count)
{
    char path[4096];
    const DWORD length = GetModuleFileNameA(module, path, sizeof path);
    return length == 0 ? 0 : (DWORD)MultiByteToWideChar(CP_UTF8, 0, path, -1, to, (int)count) - 1;
}
#ifdef UNICODE
#define GetModuleHandle GetModuleHandleW
#define GetModuleFileName GetModuleFileNameW
#define LoadLibrary LoadLibraryW
#define LoadLibraryEx LoadLibraryExW
#else
#define GetModuleHandle GetModuleHandleA
#define GetModuleFileName GetModuleFileNameA
#define LoadLibrary LoadLibraryA
#define LoadLibraryEx LoadLibraryExA
#endif

/* ---- Version: the Windows whose calls libetw implements ---- */
typedef struct _OSVERSIONINFOA {
    DWORD dwOSVersionInfoSize, dwMajorVersion, dwMinorVersion, dwBuildNumber, dwPlatformId;
    CHAR szCSDVersion[128];
} OSVERSIONINFOA, *POSVERSIONINFOA, *LPOSVERSIONINFOA;
typedef struct _OSVERSIONINFOW {
    DWORD dwOSVersionInfoSize, dwMajorVersion, dwMinorVersion, dwBuildNumber, dwPlatformId;
    WCHAR szCSDVersion[128];
} OSVERSIONINFOW, *POSVERSIONINFOW, *LPOSVERSIONINFOW;
#define VER_PLATFORM_WIN32_NT 2u
static inline BOOL GetVersionExA(OSVERSIONINFOA *version)
{
    version->dwMajorVersion = 10;
    version->dwMinorVersion = 0;
    version->dwBuildNumber = 0;
    version->dwPlatformId = VER_PLATFORM_WIN32_NT;
    version->szCSDVersion[0] = 0;
    return TRUE;
}
static inline BOOL GetVersionExW(OSVERSIONINFOW *version)
{
    version->dwMajorVersion = 10;
    version->dwMinorVersion = 0;
    version->dwBuildNumber = 0;
    version->dwPlatformId = VER_PLATFORM_WIN32_NT;
    version->szCSDVersion[0] = 0;
    return TRUE;
}
#ifdef UNICODE
#define OSVERSIONINFO OSVERSIONINFOW
#define GetVersionEx GetVersionExW
#else
#define OSVERSIONINFO OSVERSIONINFOA
#define GetVersionEx GetVersionExA
#endif

/* ---- SIDs ---- */
typedef PVOID PSID;
typedef struct _SID_IDENTIFIER_AUTHORITY {
    BYTE Value[6];
} SID_IDENTIFIER_AUTHORITY, *PSID_IDENTIFIER_AUTHORITY;
typedef struct _SID {
    BYTE Revision;
    BYTE SubAuthorityCount;
    SID_IDENTIFIER_AUTHORITY IdentifierAuthority;
    DWORD SubAuthority[1];
} SID, *PISID;
#define SID_REVISION 1
#define SID_MAX_SUB_AUTHORITIES 15
#define SECURITY_MAX_SID_SIZE 68
typedef enum _SID_NAME_USE {
    SidTypeUser = 1,
    SidTypeGroup,
    SidTypeDomain,
    SidTypeAlias,
    SidTypeWellKnownGroup,
    SidTypeDeletedAccount,
    SidTypeInvalid,
    SidTypeUnknown,
    SidTypeComputer,
    SidTypeLabel
} SID_NAME_USE, *PSID_NAME_USE;
typedef enum {
    WinNullSid = 0,
    WinWorldSid = 1,
    WinLocalSid = 2,
    WinCreatorOwnerSid = 3,
    WinInteractiveSid = 11,
    WinAuthenticatedUserSid = 17,
    WinLocalSystemSid = 22,
    WinLocalServiceSid = 23,
    WinNetworkServiceSid = 24,
    WinBuiltinAdministratorsSid = 26,
    WinBuiltinUsersSid = 27
} WELL_KNOWN_SID_TYPE;

static inline BOOL IsValidSid(PSID sid)
{
    return sid != NULL && ((const BYTE *)sid)[0] == SID_REVISION && ((const BYTE *)sid)[1] <= SID_MAX_SUB_AUTHORITIES;
}
static inline DWORD GetLengthSid(PSID sid) { return 8 + 4 * (DWORD)((const BYTE *)sid)[1]; }
static inline BOOL EqualSid(PSID a, PSID b)
{
    return GetLengthSid(a) == GetLengthSid(b) && memcmp(a, b, GetLengthSid(a)) == 0;
}
static inline BOOL CopySid(DWORD room, PSID to, PSID from)
{
    const DWORD size = GetLengthSid(from);
    if (room < size) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return FALSE;
    }
    memcpy(to, from, size);
    return TRUE;
}
static inline int etw_sid_text(PSID sid, char *text, size_t room)
{
    const BYTE *bytes = (const BYTE *)sid;
    uint64_t authority = 0;
    int length;
    for (int n = 2; n < 8; n++)
        authority = authority << 8 | bytes[n];
    length = snprintf(text, room, authority >> 32 != 0 ? "S-1-0x%012llx" : "S-1-%llu", (unsigned long long)authority);
    for (int n = 0; n < bytes[1]; n++) {
        DWORD part;
        memcpy(&part, bytes + 8 + 4 * n, sizeof part);
        length += snprintf(text + length, room - (size_t)length, "-%u", (unsigned)part);
    }
    return length;
}
/* The caller frees the text with LocalFree. */
static inline BOOL ConvertSidToStringSidA(PSID sid, char **text)
{
    char bytes[256];
    if (!IsValidSid(sid) || text == NULL) {
        SetLastError(sid != NULL && text != NULL ? ERROR_INVALID_SID : ERROR_INVALID_PARAMETER);
        return FALSE;
    }
    etw_sid_text(sid, bytes, sizeof bytes);
    *text = strdup(bytes);
    return *text != NULL;
}
static inline BOOL ConvertSidToStringSidW(PSID sid, WCHAR **text)
{
    char *bytes = NULL;
    if (text == NULL || !ConvertSidToStringSidA(sid, &bytes))
        return FALSE;
    *text = (WCHAR *)malloc((strlen(bytes) + 1) * sizeof(WCHAR));
    if (*text != NULL)
        etw_widened(bytes, *text);
    free(bytes);
    return *text != NULL;
}
static inline BOOL CreateWellKnownSid(WELL_KNOWN_SID_TYPE type, PSID domain, PSID sid, DWORD *size)
{
    /* The authority, then the sub-authorities. */
    static const struct {
        BYTE type, authority, count;
        uint16_t parts[2];
    } all[] = {{WinNullSid, 0, 1, {0, 0}},
               {WinWorldSid, 1, 1, {0, 0}},
               {WinLocalSid, 2, 1, {0, 0}},
               {WinCreatorOwnerSid, 3, 1, {0, 0}},
               {WinInteractiveSid, 5, 1, {4, 0}},
               {WinAuthenticatedUserSid, 5, 1, {11, 0}},
               {WinLocalSystemSid, 5, 1, {18, 0}},
               {WinLocalServiceSid, 5, 1, {19, 0}},
               {WinNetworkServiceSid, 5, 1, {20, 0}},
               {WinBuiltinAdministratorsSid, 5, 2, {32, 544}},
               {WinBuiltinUsersSid, 5, 2, {32, 545}}};
    (void)domain;
    for (size_t n = 0; n < sizeof all / sizeof all[0]; n++) {
        const DWORD needed = 8 + 4 * (DWORD)all[n].count;
        BYTE *bytes = (BYTE *)sid;
        if (all[n].type != (BYTE)type)
            continue;
        if (sid == NULL || *size < needed) {
            *size = needed;
            SetLastError(ERROR_INSUFFICIENT_BUFFER);
            return FALSE;
        }
        *size = needed;
        memset(bytes, 0, needed);
        bytes[0] = SID_REVISION;
        bytes[1] = all[n].count;
        bytes[7] = all[n].authority;
        for (int part = 0; part < all[n].count; part++) {
            const DWORD value = all[n].parts[part];
            memcpy(bytes + 8 + 4 * part, &value, sizeof value);
        }
        return TRUE;
    }
    SetLastError(ERROR_INVALID_PARAMETER);
    return FALSE;
}
/* Users of this machine are S-1-22-1-uid, as Samba and sessions write them. A few of Windows' well-known SIDs have names, too. */
static inline BOOL LookupAccountSidA(const char *system, PSID sid, char *name, DWORD *name_count, char *domain,
                                     DWORD *domain_count, SID_NAME_USE *use)
{
    static const struct {
        const char *sid, *domain, *name;
    } known[] = {{"S-1-1-0", "", "Everyone"},
                 {"S-1-5-11", "NT AUTHORITY", "Authenticated Users"},
                 {"S-1-5-18", "NT AUTHORITY", "SYSTEM"},
                 {"S-1-5-19", "NT AUTHORITY", "LOCAL SERVICE"},
                 {"S-1-5-20", "NT AUTHORITY", "NETWORK SERVICE"},
                 {"S-1-5-32-544", "BUILTIN", "Administrators"},
                 {"S-1-5-32-545", "BUILTIN", "Users"}};
    char text[256], user[256];
    const char *found = NULL, *found_in = "Unix User";
    (void)system;
    if (!IsValidSid(sid)) {
        SetLastError(ERROR_INVALID_SID);
        return FALSE;
    }
    etw_sid_text(sid, text, sizeof text);
    *use = SidTypeWellKnownGroup;
    for (size_t n = 0; n < sizeof known / sizeof known[0]; n++) {
        if (strcmp(text, known[n].sid) == 0) {
            found = known[n].name;
            found_in = known[n].domain;
        }
    }
    if (strncmp(text, "S-1-22-1-", 9) == 0) {
        const struct passwd *entry = getpwuid((uid_t)strtoul(text + 9, NULL, 10));
        if (entry != NULL) {
            snprintf(user, sizeof user, "%s", entry->pw_name);
            found = user;
            *use = SidTypeUser;
        }
    }
    if (found == NULL) {
        SetLastError(ERROR_NONE_MAPPED);
        return FALSE;
    }
    if (strlen(found) >= *name_count || strlen(found_in) >= *domain_count) {
        *name_count = (DWORD)strlen(found) + 1;
        *domain_count = (DWORD)strlen(found_in) + 1;
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return FALSE;
    }
    *name_count = (DWORD)strlen(strcpy(name, found));
    *domain_count = (DWORD)strlen(strcpy(domain, found_in));
    return TRUE;
}
static inline BOOL LookupAccountSidW(const WCHAR *system, PSID sid, WCHAR *name, DWORD *name_count, WCHAR *domain,
                                     DWORD *domain_count, SID_NAME_USE *use)
{
    char names[256], domains[256];
    DWORD length = sizeof names, domain_length = sizeof domains;
    (void)system;
    if (!LookupAccountSidA(NULL, sid, names, &length, domains, &domain_length, use))
        return FALSE;
    if (MultiByteToWideChar(CP_UTF8, 0, names, -1, name, (int)*name_count) == 0 || *name_count == 0 ||
        MultiByteToWideChar(CP_UTF8, 0, domains, -1, domain, (int)*domain_count) == 0 || *domain_count == 0) {
        *name_count = length + 1;
        *domain_count = domain_length + 1;
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return FALSE;
    }
    *name_count = (DWORD)etw_wcslen(name);
    *domain_count = (DWORD)etw_wcslen(domain);
    return TRUE;
}
#ifdef UNICODE
#define ConvertSidToStringSid ConvertSidToStringSidW
#define LookupAccountSid LookupAccountSidW
#else
#define ConvertSidToStringSid ConvertSidToStringSidA
#define LookupAccountSid LookupAccountSidA
#endif

/* ---- Files: programs remove the trace files that they made ---- */
static inline BOOL DeleteFileA(const char *path)
{
    if (unlink(path) == 0)
        return TRUE;
    SetLastError(errno == ENOENT      ? ERROR_FILE_NOT_FOUND
                 : errno == ENOTDIR   ? ERROR_PATH_NOT_FOUND
                 : errno == ENAMETOOLONG ? ERROR_FILENAME_EXCED_RANGE
                                      : ERROR_ACCESS_DENIED);
    return FALSE;
}
static inline BOOL DeleteFileW(const WCHAR *path)
{
    char bytes[4096];
    if (WideCharToMultiByte(CP_UTF8, 0, path, -1, bytes, sizeof bytes, NULL, NULL) == 0) {
        SetLastError(ERROR_FILENAME_EXCED_RANGE);
        return FALSE;
    }
    return DeleteFileA(bytes);
}
#ifdef UNICODE
#define DeleteFile DeleteFileW
#else
#define DeleteFile DeleteFileA
#endif

/* ---- Dates and times by picture, in English; the picture NULL is that of the United States ---- */
typedef DWORD LCID;
typedef WORD LANGID;
#define LOCALE_USER_DEFAULT 0x0400u
#define LOCALE_SYSTEM_DEFAULT 0x0800u
#define LOCALE_INVARIANT 0x007fu
#define LANG_NEUTRAL 0
#define LANG_ENGLISH 0x09
#define SUBLANG_NEUTRAL 0
#define SUBLANG_DEFAULT 1
#define SUBLANG_ENGLISH_US 1
#define MAKELANGID(language, sub) ((WORD)((WORD)(sub) << 10 | (WORD)(language)))
static inline int etw_by_picture(const SYSTEMTIME *time, const WCHAR *picture, const char *letters, WCHAR *to, int room)
{
    static const char *const days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
    static const char *const months[] = {"January", "February", "March",     "April",   "May",      "June",
                                         "July",    "August",   "September", "October", "November", "December"};
    char text[256];
    int length = 0, needed;
    SYSTEMTIME now;
    if (time == NULL) {
        FILETIME file;
        GetSystemTimeAsFileTime(&file);
        etw_system_time((ULONGLONG)file.dwHighDateTime << 32 | file.dwLowDateTime, &now, 1);
        time = &now;
    }
    if (time->wMonth < 1 || time->wMonth > 12 || time->wDayOfWeek > 6 || time->wDay < 1 || time->wDay > 31 ||
        time->wHour > 23 || time->wMinute > 59 || time->wSecond > 59 || room < 0) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return 0;
    }
    while (*picture != 0 && length < 200) {
        const WCHAR unit = *picture;
        int count = 0, value = -1;
        const char *name = NULL;
        if (unit == '\'') {
            for (picture++; *picture != 0 && *picture != '\'' && length < 200;)
                text[length++] = (char)*picture++;
            picture += *picture == '\'';
            continue;
        }
        if (unit >= 0x80 || strchr(letters, unit) == NULL) {
            text[length++] = (char)unit;
            picture++;
            continue;
        }
        for (; *picture == unit; picture++)
            count++;
        if (unit == 'd' && count > 2)
            name = days[time->wDayOfWeek];
        else if (unit == 'd')
            value = time->wDay;
        else if (unit == 'M' && count > 2)
            name = months[time->wMonth - 1];
        else if (unit == 'M')
            value = time->wMonth;
        else if (unit == 'y')
            value = count > 2 ? time->wYear : time->wYear % 100;
        else if (unit == 'H')
            value = time->wHour;
        else if (unit == 'h')
            value = (time->wHour + 11) % 12 + 1;
        else if (unit == 'm')
            value = time->wMinute;
        else if (unit == 's')
            value = time->wSecond;
        else
            name = time->wHour < 12 ? "AM" : "PM";
        if (name == NULL)
            length += snprintf(text + length, 16, "%0*d", count > 4 ? 4 : count, value);
        else
            length += snprintf(text + length, 16, "%.*s", unit == 't' ? count : count == 3 ? 3 : 15, name);
    }
    needed = length + 1;
    text[length] = 0;
    if (room != 0 && needed > room) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return 0;
    }
    if (room != 0)
        etw_widened(text, to);
    return needed;
}
static inline int GetDateFormatW(LCID locale, DWORD flags, const SYSTEMTIME *time, const WCHAR *picture, WCHAR *to,
                                 int room)
{
    (void)locale, (void)flags;
    return etw_by_picture(time, picture == NULL ? (const WCHAR *)ETW_W("M/d/yyyy") : picture, "dMy", to, room);
}
static inline int GetTimeFormatW(LCID locale, DWORD flags, const SYSTEMTIME *time, const WCHAR *picture, WCHAR *to,
                                 int room)
{
    (void)locale, (void)flags;
    return etw_by_picture(time, picture == NULL ? (const WCHAR *)ETW_W("h:mm:ss tt") : picture, "hHmst", to, room);
}
#ifdef UNICODE
#define GetDateFormat GetDateFormatW
#define GetTimeFormat GetTimeFormatW
#endif
static inline void GetSystemTime(SYSTEMTIME *time)
{
    FILETIME file;
    GetSystemTimeAsFileTime(&file);
    FileTimeToSystemTime(&file, time);
}
static inline void GetLocalTime(SYSTEMTIME *time)
{
    FILETIME file;
    GetSystemTimeAsFileTime(&file);
    etw_system_time((ULONGLONG)file.dwHighDateTime << 32 | file.dwLowDateTime, time, 1);
}
#define GetSystemTimePreciseAsFileTime GetSystemTimeAsFileTime

/* ---- Messages ---- */
#define FORMAT_MESSAGE_ALLOCATE_BUFFER 0x0100u
#define FORMAT_MESSAGE_IGNORE_INSERTS 0x0200u
#define FORMAT_MESSAGE_FROM_STRING 0x0400u
#define FORMAT_MESSAGE_FROM_HMODULE 0x0800u
#define FORMAT_MESSAGE_FROM_SYSTEM 0x1000u
#define FORMAT_MESSAGE_ARGUMENT_ARRAY 0x2000u
#define FORMAT_MESSAGE_MAX_WIDTH_MASK 0x00ffu
#include "etw_windows_messages.h"
/* Writes a unit if it fits, and counts it. */
static inline void etw_message_unit(WCHAR *to, size_t room, size_t *written, WCHAR unit)
{
    if (*written + 1 < room)
        to[*written] = unit;
    ++*written;
}
/* A flag of etw_message alone: inserts are texts of bytes, as those of FormatMessageA. */
#define ETW_MESSAGE_BYTES 0x80000000u
static inline size_t etw_message(WCHAR *to, size_t room, const WCHAR *text, DWORD flags, const ULONG_PTR *values, int count)
{
    const BOOL has_bytes = (flags & ETW_MESSAGE_BYTES) != 0;
    size_t written = 0;
    while (*text != 0) {
        WCHAR format[36], insert[1024];
        int number, length, needed;
        if (*text != '%' || text[1] == 0 || (flags & FORMAT_MESSAGE_IGNORE_INSERTS) != 0) {
            etw_message_unit(to, room, &written, *text++);
            continue;
        }
        text++;
        if (*text == '0')
            break;
        if (*text < '1' || *text > '9') {
            if (*text == 'n' || *text == 'r')
                etw_message_unit(to, room, &written, '\r');
            if (*text != 'r')
                etw_message_unit(to, room, &written, *text == 'n' ? '\n' : *text == 't' ? '\t' : *text);
            text++;
            continue;
        }
        number = *text++ - '0';
        if (*text >= '0' && *text <= '9')
            number = number * 10 + (*text++ - '0');
        format[0] = '%';
        format[1] = has_bytes ? 'h' : 's';
        format[2] = 's';
        length = has_bytes ? 2 : 1;
        if (*text == '!') {
            length = 0;
            for (text++; *text != 0 && *text != '!'; text++) {
                if (has_bytes && length < 32 && *text == 's' && (text[1] == 0 || text[1] == '!') && text[-1] != 'h' && text[-1] != 'w' &&
                    text[-1] != 'l')
                    format[++length] = 'h';
                if (length < 32 && *text != '*')
                    format[++length] = *text;
            }
            text += *text == '!';
        }
        format[length + 1] = 0;
        if (values == NULL || number > count)
            return (size_t)-1;
        needed = etw_swprintf(insert, sizeof insert / sizeof insert[0], format, values[number - 1]);
        if (needed < 0 && format[1] == 's') {
            /* The insert is longer than the array: copy the text without its format. */
            for (const WCHAR *at = (const WCHAR *)values[number - 1]; *at != 0; at++)
                etw_message_unit(to, room, &written, *at);
            continue;
        }
        for (const WCHAR *at = insert; *at != 0; at++)
            etw_message_unit(to, room, &written, *at);
    }
    if (room > 0)
        to[written < room ? written : room - 1] = 0;
    return written;
}
/* The message of FORMAT_MESSAGE_FROM_STRING or of a status code, in memory of malloc. NULL: none, and the last error says why. */
static inline WCHAR *etw_formatted_message(DWORD flags, const WCHAR *source, DWORD id, va_list *arguments)
{
    ULONG_PTR values[99];
    const ULONG_PTR *array = NULL;
    size_t length;
    int count = 99;
    WCHAR message[128], *formatted;
    if ((flags & FORMAT_MESSAGE_FROM_STRING) == 0) {
        const char *text = (flags & FORMAT_MESSAGE_FROM_SYSTEM) != 0 ? etw_system_text(id) : NULL;
        char bytes[128];
        DWORD at, size;
        if (text == NULL) {
            SetLastError(ERROR_MR_MID_NOT_FOUND);
            return NULL;
        }
        size = etw_system_message(flags, text, bytes);
        for (at = 0; at <= size; at++)
            message[at] = (WCHAR)(unsigned char)bytes[at];
        source = message;
        flags |= FORMAT_MESSAGE_IGNORE_INSERTS;
    }
    if (source == NULL) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return NULL;
    }
    if (arguments != NULL && (flags & FORMAT_MESSAGE_ARGUMENT_ARRAY) != 0) {
        array = (const ULONG_PTR *)(const void *)arguments;
    } else if (arguments != NULL && (flags & FORMAT_MESSAGE_IGNORE_INSERTS) == 0) {
        const WCHAR *at = source;
        count = 0; /* Read as many arguments as the text names. */
        for (; *at != 0; at++) {
            if (*at == '%' && at[1] >= '1' && at[1] <= '9') {
                const int number = at[2] >= '0' && at[2] <= '9' ? (at[1] - '0') * 10 + (at[2] - '0') : at[1] - '0';
                count = number > count ? number : count;
            }
            at += *at == '%' && at[1] != 0;
        }
        for (int n = 0; n < count; n++)
            values[n] = va_arg(*arguments, ULONG_PTR);
        array = values;
    }
    length = etw_message(NULL, 0, source, flags, array, count);
    if (length == (size_t)-1) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return NULL;
    }
    formatted = (WCHAR *)malloc((length + 1) * sizeof *formatted);
    if (formatted == NULL)
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
    else
        etw_message(formatted, length + 1, source, flags, array, count);
    return formatted;
}
/* Copies a message of so many characters, and a NUL, to where a program wants it. Returns their number, or 0 with the last error. */
static inline DWORD etw_give_message(DWORD flags, const void *message, size_t length, size_t unit, void *to, DWORD room)
{
    if (to == NULL) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return 0;
    }
    if ((flags & FORMAT_MESSAGE_ALLOCATE_BUFFER) != 0) {
        void *memory = malloc((length + 1 > room ? length + 1 : room) * unit);
        memcpy(to, &memory, sizeof memory);
        if (memory == NULL) {
            SetLastError(ERROR_NOT_ENOUGH_MEMORY);
            return 0;
        }
        to = memory;
    } else if (length >= room) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return 0;
    }
    memcpy(to, message, (length + 1) * unit);
    return (DWORD)length;
}
/* Formats messages of FORMAT_MESSAGE_FROM_STRING, and those of status codes. */
static inline DWORD FormatMessageW(DWORD flags, const void *source, DWORD id, DWORD language, WCHAR *to, DWORD room,
                                   va_list *arguments)
{
    WCHAR *message = etw_formatted_message(flags & ~ETW_MESSAGE_BYTES, (const WCHAR *)source, id, arguments);
    DWORD length = 0;
    (void)language;
    if (message != NULL)
        length = etw_give_message(flags, message, etw_wcslen(message), sizeof *message, to, room);
    free(message);
    return length;
}
static inline DWORD FormatMessageA(DWORD flags, const void *source, DWORD id, DWORD language, char *to, DWORD room, va_list *arguments)
{
    WCHAR *text = NULL, *message;
    char *bytes = NULL;
    DWORD length = 0;
    (void)language;
    if ((flags & FORMAT_MESSAGE_FROM_STRING) != 0 && source != NULL) {
        const int units = MultiByteToWideChar(CP_UTF8, 0, (const char *)source, -1, NULL, 0);
        text = (WCHAR *)malloc(((size_t)units + 1) * sizeof *text);
        if (text != NULL)
            MultiByteToWideChar(CP_UTF8, 0, (const char *)source, -1, text, units);
    }
    message = etw_formatted_message(flags | ETW_MESSAGE_BYTES, text, id, arguments);
    if (message != NULL) {
        const int size = WideCharToMultiByte(CP_UTF8, 0, message, -1, NULL, 0, NULL, NULL);
        bytes = (char *)malloc((size_t)size + 1);
        if (bytes == NULL) {
            SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        } else {
            WideCharToMultiByte(CP_UTF8, 0, message, -1, bytes, size, NULL, NULL);
            length = etw_give_message(flags, bytes, strlen(bytes), 1, to, room);
        }
    }
    free(bytes);
    free(message);
    free(text);
    return length;
}
#ifdef UNICODE
#define FormatMessage FormatMessageW
#else
#define FormatMessage FormatMessageA
#endif

/* ---- COM: memory and texts of GUIDs; there are no classes ---- */
#define CO_E_CLASSSTRING ((HRESULT)0x800401f3)
#define REGDB_E_CLASSNOTREG ((HRESULT)0x80040154)
#define COINIT_MULTITHREADED 0x0
#define COINIT_APARTMENTTHREADED 0x2
#define CLSCTX_INPROC_SERVER 0x1
#define CLSCTX_INPROC_HANDLER 0x2
#define CLSCTX_LOCAL_SERVER 0x4
#define CLSCTX_REMOTE_SERVER 0x10
#define CLSCTX_SERVER (CLSCTX_INPROC_SERVER | CLSCTX_LOCAL_SERVER | CLSCTX_REMOTE_SERVER)
#define CLSCTX_ALL (CLSCTX_SERVER | CLSCTX_INPROC_HANDLER)
typedef WCHAR OLECHAR, *LPOLESTR, *BSTR;
typedef const WCHAR *LPCOLESTR;
static inline HRESULT CoInitialize(LPVOID reserved)
{
    (void)reserved;
    return S_OK;
}
static inline HRESULT CoInitializeEx(LPVOID reserved, DWORD how)
{
    (void)reserved, (void)how;
    return S_OK;
}
static inline void CoUninitialize(void) {}
static inline LPVOID CoTaskMemAlloc(SIZE_T size) { return malloc(size); }
static inline LPVOID CoTaskMemRealloc(LPVOID memory, SIZE_T size) { return realloc(memory, size); }
static inline void CoTaskMemFree(LPVOID memory) { free(memory); }
static inline HRESULT CoCreateInstance(REFGUID class_id, LPVOID outer, DWORD context, REFGUID interface_id, LPVOID *object)
{
    (void)class_id, (void)outer, (void)context, (void)interface_id;
    if (object == NULL)
        return E_POINTER;
    *object = NULL;
    return REGDB_E_CLASSNOTREG;
}
static inline HRESULT StringFromCLSID(REFGUID guid, LPOLESTR *text)
{
    if (text == NULL)
        return E_INVALIDARG;
    *text = (LPOLESTR)CoTaskMemAlloc(39 * sizeof(OLECHAR));
    if (*text == NULL)
        return E_OUTOFMEMORY;
    StringFromGUID2(guid, *text, 39);
    return S_OK;
}
#define StringFromIID StringFromCLSID
/* {XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX} */
static inline HRESULT CLSIDFromString(const WCHAR *text, GUID *guid)
{
    static const char form[] = "{xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx}";
    uint8_t bytes[16];
    int digits = 0;
    if (guid == NULL)
        return E_INVALIDARG;
    memset(guid, 0, sizeof *guid);
    if (text == NULL)
        return S_OK;
    for (int n = 0; n < 39; n++) {
        const WCHAR unit = text[n];
        const int digit = unit >= '0' && unit <= '9'   ? unit - '0'
                          : unit >= 'a' && unit <= 'f' ? unit - 'a' + 10
                          : unit >= 'A' && unit <= 'F' ? unit - 'A' + 10
                                                       : -1;
        if (form[n] == 'x' ? digit < 0 : unit != (WCHAR)form[n])
            return CO_E_CLASSSTRING;
        if (form[n] == 'x') {
            bytes[digits / 2] = (uint8_t)(digits % 2 == 0 ? digit << 4 : bytes[digits / 2] | digit);
            digits++;
        }
    }
    guid->Data1 = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    guid->Data2 = (uint16_t)(bytes[4] << 8 | bytes[5]);
    guid->Data3 = (uint16_t)(bytes[6] << 8 | bytes[7]);
    memcpy(guid->Data4, bytes + 8, 8);
    return S_OK;
}
#define IIDFromString CLSIDFromString

#ifdef __cplusplus
}
#endif
#endif
