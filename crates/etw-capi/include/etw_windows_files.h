/*
 * Files, folders, the environment and tokens, as far as programs with ETW use them: names for trace files, folders for them, privileges of
 * a controller. Included by etw_windows.h. Paths are Linux's; a backslash is a character of a name.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 */
#ifndef ETW_WINDOWS_FILES_H
#define ETW_WINDOWS_FILES_H

#include <sys/stat.h>

#ifdef __cplusplus
extern "C++" {
#endif

/* ---- Texts of paths ---- */
#define ETW_PATH_BYTES 4096
/* The path as UTF-8, in to. 0 if it is too long. */
static inline int etw_path_bytes(const WCHAR *path, char *to)
{
    const int is_done = path != NULL && WideCharToMultiByte(CP_UTF8, 0, path, -1, to, ETW_PATH_BYTES, NULL, NULL) != 0;
    if (!is_done)
        SetLastError(path != NULL ? ERROR_FILENAME_EXCED_RANGE : ERROR_INVALID_PARAMETER);
    return is_done;
}
/* Windows' result of calls that return texts: the length, or the room that the text needs, with its NUL. */
static inline DWORD etw_text_result(const char *text, char *to, DWORD room)
{
    const size_t length = strlen(text);
    if (to == NULL || length >= room)
        return (DWORD)length + 1;
    memcpy(to, text, length + 1);
    return (DWORD)length;
}
static inline DWORD etw_wide_result(const char *text, WCHAR *to, DWORD room)
{
    const int needed = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    if (to == NULL || (DWORD)needed > room)
        return (DWORD)needed;
    MultiByteToWideChar(CP_UTF8, 0, text, -1, to, (int)room);
    return (DWORD)needed - 1;
}
static inline BOOL etw_file_result(int result)
{
    if (result == 0)
        return TRUE;
    SetLastError(errno == ENOENT      ? ERROR_FILE_NOT_FOUND
                 : errno == ENOTDIR   ? ERROR_PATH_NOT_FOUND
                 : errno == EEXIST    ? ERROR_ALREADY_EXISTS
                 : errno == ENOTEMPTY ? ERROR_DIR_NOT_EMPTY
                                      : ERROR_ACCESS_DENIED);
    return FALSE;
}

/* The folder of the system's libraries. */
static inline UINT GetSystemDirectoryA(LPSTR to, UINT room) { return etw_text_result("/usr/lib", to, room); }
static inline UINT GetSystemDirectoryW(LPWSTR to, UINT room) { return etw_wide_result("/usr/lib", to, room); }
#ifdef UNICODE
#define GetSystemDirectory GetSystemDirectoryW
#else
#define GetSystemDirectory GetSystemDirectoryA
#endif

/* ---- Temporary files ---- */
/* TMPDIR, or /tmp, with a separator behind it. */
static inline const char *etw_temporary_folder(char *to)
{
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || folder[0] == 0 || strlen(folder) > ETW_PATH_BYTES - 2)
        folder = "/tmp";
    strcpy(to, folder);
    if (to[strlen(to) - 1] != '/')
        strcat(to, "/");
    return to;
}
static inline DWORD GetTempPathA(DWORD room, char *to)
{
    char folder[ETW_PATH_BYTES];
    return etw_text_result(etw_temporary_folder(folder), to, room);
}
static inline DWORD GetTempPathW(DWORD room, WCHAR *to)
{
    char folder[ETW_PATH_BYTES];
    return etw_wide_result(etw_temporary_folder(folder), to, room);
}
/* A path of at most MAX_PATH - 1 bytes. If number is 0, the file is created; else the number is in its name. */
static inline UINT GetTempFileNameA(const char *folder, const char *prefix, UINT number, char *to)
{
    const size_t length = strlen(folder);
    const char *separator = length > 0 && folder[length - 1] == '/' ? "" : "/";
    for (UINT tries = 0; tries < 0x10000; tries++) {
        struct timespec now;
        UINT chosen = number & 0xffff;
        int file;
        clock_gettime(CLOCK_REALTIME, &now);
        if (number == 0)
            chosen = ((UINT)(now.tv_nsec >> 7) + (UINT)getpid() + tries) & 0xffff;
        if (chosen == 0)
            chosen = 1;
        if (length + 12 > MAX_PATH) {
            SetLastError(ERROR_BUFFER_OVERFLOW);
            return 0;
        }
        sprintf(to, "%s%s%.3s%X.tmp", folder, separator, prefix, chosen);
        if (number != 0)
            return chosen;
        file = open(to, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
        if (file >= 0) {
            close(file);
            return chosen;
        }
        if (errno != EEXIST) {
            etw_file_result(-1);
            return 0;
        }
    }
    SetLastError(ERROR_FILE_EXISTS);
    return 0;
}
static inline UINT GetTempFileNameW(const WCHAR *folder, const WCHAR *prefix, UINT number, WCHAR *to)
{
    char folder_bytes[ETW_PATH_BYTES], prefix_bytes[ETW_PATH_BYTES], path[MAX_PATH];
    UINT chosen = 0;
    if (etw_path_bytes(folder, folder_bytes) && etw_path_bytes(prefix, prefix_bytes))
        chosen = GetTempFileNameA(folder_bytes, prefix_bytes, number, path);
    if (chosen != 0)
        etw_wide_result(path, to, MAX_PATH);
    return chosen;
}

/* ---- Folders and attributes ---- */
#define FILE_ATTRIBUTE_READONLY 0x01u
#define FILE_ATTRIBUTE_HIDDEN 0x02u
#define FILE_ATTRIBUTE_SYSTEM 0x04u
#define FILE_ATTRIBUTE_DIRECTORY 0x10u
#define FILE_ATTRIBUTE_NORMAL 0x80u
#define FILE_ATTRIBUTE_TEMPORARY 0x100u
#define INVALID_FILE_ATTRIBUTES 0xffffffffu
static inline DWORD GetFileAttributesA(const char *path)
{
    struct stat status;
    DWORD attributes;
    if (!etw_file_result(stat(path, &status)))
        return INVALID_FILE_ATTRIBUTES;
    attributes = S_ISDIR(status.st_mode) ? FILE_ATTRIBUTE_DIRECTORY : 0;
    if ((status.st_mode & 0222) == 0)
        attributes |= FILE_ATTRIBUTE_READONLY;
    return attributes != 0 ? attributes : FILE_ATTRIBUTE_NORMAL;
}
static inline DWORD GetFileAttributesW(const WCHAR *path)
{
    char bytes[ETW_PATH_BYTES];
    return etw_path_bytes(path, bytes) ? GetFileAttributesA(bytes) : INVALID_FILE_ATTRIBUTES;
}
#define PathFileExistsA(path) (GetFileAttributesA(path) != INVALID_FILE_ATTRIBUTES)
#define PathFileExistsW(path) (GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES)
static inline BOOL CreateDirectoryA(const char *path, LPVOID security)
{
    (void)security;
    return etw_file_result(mkdir(path, 0777));
}
static inline BOOL CreateDirectoryW(const WCHAR *path, LPVOID security)
{
    char bytes[ETW_PATH_BYTES];
    return etw_path_bytes(path, bytes) && CreateDirectoryA(bytes, security);
}
static inline BOOL RemoveDirectoryA(const char *path) { return etw_file_result(rmdir(path)); }
static inline BOOL RemoveDirectoryW(const WCHAR *path)
{
    char bytes[ETW_PATH_BYTES];
    return etw_path_bytes(path, bytes) && RemoveDirectoryA(bytes);
}
static inline DWORD GetCurrentDirectoryA(DWORD room, char *to)
{
    char folder[ETW_PATH_BYTES];
    return getcwd(folder, sizeof folder) == NULL ? 0 : etw_text_result(folder, to, room);
}
static inline DWORD GetCurrentDirectoryW(DWORD room, WCHAR *to)
{
    char folder[ETW_PATH_BYTES];
    return getcwd(folder, sizeof folder) == NULL ? 0 : etw_wide_result(folder, to, room);
}
/* The path behind the current folder, unless it is absolute. The last argument becomes the name of the file. */
static inline DWORD GetFullPathNameA(const char *path, DWORD room, char *to, char **name)
{
    char full[2 * ETW_PATH_BYTES] = "";
    DWORD length;
    if (path[0] != '/' && (getcwd(full, ETW_PATH_BYTES) == NULL || strlen(path) >= ETW_PATH_BYTES))
        return 0;
    if (path[0] != '/')
        strcat(full, "/");
    if (strlen(path) >= ETW_PATH_BYTES)
        return 0;
    strcat(full, path);
    length = etw_text_result(full, to, room);
    if (name != NULL && length < room)
        *name = strrchr(to, '/') + 1;
    return length;
}
static inline DWORD GetFullPathNameW(const WCHAR *path, DWORD room, WCHAR *to, WCHAR **name)
{
    char bytes[ETW_PATH_BYTES], full[2 * ETW_PATH_BYTES];
    DWORD length;
    if (!etw_path_bytes(path, bytes))
        return 0;
    length = GetFullPathNameA(bytes, sizeof full, full, NULL);
    if (length == 0 || length >= sizeof full)
        return 0;
    length = etw_wide_result(full, to, room);
    for (DWORD n = 0; name != NULL && length < room && n < length; n++)
        if (to[n] == '/')
            *name = to + n + 1;
    return length;
}

/* ---- The environment and the process ---- */
static inline DWORD GetEnvironmentVariableA(const char *name, char *to, DWORD room)
{
    const char *value = getenv(name);
    if (value == NULL)
        SetLastError(ERROR_ENVVAR_NOT_FOUND);
    return value == NULL ? 0 : etw_text_result(value, to, room);
}
static inline DWORD GetEnvironmentVariableW(const WCHAR *name, WCHAR *to, DWORD room)
{
    char bytes[ETW_PATH_BYTES];
    const char *value = etw_path_bytes(name, bytes) ? getenv(bytes) : NULL;
    if (value == NULL)
        SetLastError(ERROR_ENVVAR_NOT_FOUND);
    return value == NULL ? 0 : etw_wide_result(value, to, room);
}
static inline BOOL SetEnvironmentVariableA(const char *name, const char *value)
{
    return (value == NULL ? unsetenv(name) : setenv(name, value, 1)) == 0;
}
static inline BOOL SetEnvironmentVariableW(const WCHAR *name, const WCHAR *value)
{
    char name_bytes[ETW_PATH_BYTES], value_bytes[ETW_PATH_BYTES];
    if (!etw_path_bytes(name, name_bytes) || (value != NULL && !etw_path_bytes(value, value_bytes)))
        return FALSE;
    return SetEnvironmentVariableA(name_bytes, value == NULL ? (const char *)NULL : value_bytes);
}
static inline DECLSPEC_NORETURN void ExitProcess(UINT code) { exit((int)code); }

/* ---- The command line, with Windows' rules of quotation ---- */
/* The arguments of the process as one text. An argument with a space or a quotation mark is in quotation marks. */
static inline WCHAR *GetCommandLineW(void)
{
    static WCHAR line[4 * ETW_PATH_BYTES];
    char bytes[ETW_PATH_BYTES];
    size_t length = 0, size = 0;
    const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t part = 1;
    while (file >= 0 && part > 0 && size < sizeof bytes - 1) {
        part = read(file, bytes + size, sizeof bytes - 1 - size);
        size += part > 0 ? (size_t)part : 0;
    }
    if (file >= 0)
        close(file);
    bytes[size] = 0;
    for (size_t at = 0; at < size; at += strlen(bytes + at) + 1) {
        const char *argument = bytes + at;
        const int is_quoted = argument[0] == 0 || strpbrk(argument, " \t\"") != NULL;
        size_t slashes = 0;
        if (length > 0)
            line[length++] = ' ';
        if (is_quoted)
            line[length++] = '"';
        for (const char *c = argument; *c != 0; c++) {
            const int is_mark = *c == '"';
            for (size_t n = 0; is_mark && n < slashes + 1; n++)
                line[length++] = '\\';
            slashes = *c == '\\' ? slashes + 1 : 0;
            line[length++] = (WCHAR)(unsigned char)*c;
        }
        for (size_t n = 0; is_quoted && n < slashes; n++)
            line[length++] = '\\';
        if (is_quoted)
            line[length++] = '"';
    }
    line[length] = 0;
    /* The bytes are UTF-8. */
    for (size_t n = 0; n < length; n++) {
        if (line[n] >= 0x80) {
            char text[4 * ETW_PATH_BYTES];
            for (size_t m = 0; m <= length; m++)
                text[m] = (char)line[m];
            MultiByteToWideChar(CP_UTF8, 0, text, -1, line, (int)(sizeof line / sizeof line[0]));
            break;
        }
    }
    return line;
}
/* The caller frees the array, which contains its texts, with LocalFree. */
static inline WCHAR **CommandLineToArgvW(const WCHAR *line, int *count)
{
    const size_t length = etw_wcslen(line);
    WCHAR **arguments = (WCHAR **)malloc((length + 2) * sizeof *arguments + (length + 2) * sizeof **arguments);
    WCHAR *to = (WCHAR *)(arguments + length + 2);
    *count = 0;
    if (arguments == NULL) {
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return arguments;
    }
    for (;;) {
        int is_quoted = 0;
        while (*line == ' ' || *line == '\t')
            line++;
        if (*line == 0)
            break;
        arguments[(*count)++] = to;
        for (; *line != 0 && (is_quoted || (*line != ' ' && *line != '\t')); line++) {
            size_t slashes = 0;
            while (line[slashes] == '\\')
                slashes++;
            if (line[slashes] == '"') {
                /* Two before a quotation mark are one; an odd one makes the mark a character. */
                for (size_t n = 0; n < slashes / 2; n++)
                    *to++ = '\\';
                line += slashes;
                if (slashes % 2 != 0)
                    *to++ = '"';
                else
                    is_quoted = !is_quoted;
            } else {
                *to++ = *line;
            }
        }
        *to++ = 0;
    }
    arguments[*count] = NULL;
    return arguments;
}

/* ---- Tokens: Linux has no privileges to enable, so enabling one succeeds; the host of sessions decides who may start them ---- */
#define TOKEN_QUERY 0x0008u
#define TOKEN_ADJUST_PRIVILEGES 0x0020u
#define SE_PRIVILEGE_ENABLED 0x00000002u
#define SE_PRIVILEGE_REMOVED 0x00000004u
#define SE_SYSTEM_PROFILE_NAME TEXT("SeSystemProfilePrivilege")
#define SE_DEBUG_NAME TEXT("SeDebugPrivilege")
#define SE_SECURITY_NAME TEXT("SeSecurityPrivilege")
typedef struct _LUID {
    DWORD LowPart;
    LONG HighPart;
} LUID, *PLUID;
typedef struct _LUID_AND_ATTRIBUTES {
    LUID Luid;
    DWORD Attributes;
} LUID_AND_ATTRIBUTES, *PLUID_AND_ATTRIBUTES;
#ifndef ANYSIZE_ARRAY
#define ANYSIZE_ARRAY 1
#endif
typedef struct _TOKEN_PRIVILEGES {
    DWORD PrivilegeCount;
    LUID_AND_ATTRIBUTES Privileges[ANYSIZE_ARRAY];
} TOKEN_PRIVILEGES, *PTOKEN_PRIVILEGES;
/* The token is a pseudo-handle. Closing it fails, which programs ignore. */
static inline BOOL OpenProcessToken(HANDLE process, DWORD access, HANDLE *token)
{
    (void)process, (void)access;
    *token = (HANDLE)(LONG_PTR)-4;
    return TRUE;
}
typedef enum _TOKEN_INFORMATION_CLASS {
    TokenUser = 1,
    TokenPrivileges = 3,
    TokenElevationType = 18,
    TokenElevation = 20,
    TokenIntegrityLevel = 25
} TOKEN_INFORMATION_CLASS;
typedef enum _TOKEN_ELEVATION_TYPE {
    TokenElevationTypeDefault = 1,
    TokenElevationTypeFull,
    TokenElevationTypeLimited
} TOKEN_ELEVATION_TYPE;
typedef struct _TOKEN_ELEVATION {
    DWORD TokenIsElevated;
} TOKEN_ELEVATION, *PTOKEN_ELEVATION;
typedef struct _SID_AND_ATTRIBUTES {
    PSID Sid;
    DWORD Attributes;
} SID_AND_ATTRIBUTES, *PSID_AND_ATTRIBUTES;
typedef struct _TOKEN_USER {
    SID_AND_ATTRIBUTES User;
} TOKEN_USER, *PTOKEN_USER;
/* The SID of the program's user, S-1-22-1-uid, lies behind the structure. */
static inline BOOL etw_token_user(PVOID to, DWORD room, PDWORD size)
{
    static const BYTE head[] = {1, 2, 0, 0, 0, 0, 0, 22};
    const DWORD parts[] = {1, (DWORD)geteuid()};
    TOKEN_USER user;
    BYTE *sid = (BYTE *)to + sizeof user;
    *size = sizeof user + sizeof head + sizeof parts;
    if (to == NULL || room < *size) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return FALSE;
    }
    user.User.Sid = (PSID)sid;
    user.User.Attributes = 0;
    memcpy(to, &user, sizeof user);
    memcpy(sid, head, sizeof head);
    memcpy(sid + sizeof head, parts, sizeof parts);
    return TRUE;
}
/* Of the classes, the user, and those that say whether the program is elevated, which root is. */
static inline BOOL GetTokenInformation(HANDLE token, TOKEN_INFORMATION_CLASS of, PVOID to, DWORD room, PDWORD size)
{
    const BOOL is_root = geteuid() == 0;
    /* Both classes have a value of four bytes. */
    const TOKEN_ELEVATION_TYPE type = is_root ? TokenElevationTypeFull : TokenElevationTypeLimited;
    const DWORD value = of == TokenElevation ? (DWORD)is_root : (DWORD)type;
    (void)token;
    if (of == TokenUser)
        return etw_token_user(to, room, size);
    *size = sizeof value;
    if (of != TokenElevation && of != TokenElevationType) {
        *size = 0;
        SetLastError(ERROR_NOT_SUPPORTED);
        return FALSE;
    }
    if (room < sizeof value) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return FALSE;
    }
    memcpy(to, &value, sizeof value);
    return TRUE;
}
/* There are no 32-bit programs on a 64-bit Windows. */
static inline BOOL IsWow64Process(HANDLE process, PBOOL is_wow64)
{
    (void)process;
    *is_wow64 = FALSE;
    return TRUE;
}
static inline BOOL LookupPrivilegeValueW(const WCHAR *system, const WCHAR *name, PLUID luid)
{
    (void)system, (void)name;
    luid->LowPart = 11;
    luid->HighPart = 0;
    return TRUE;
}
static inline BOOL LookupPrivilegeValueA(const char *system, const char *name, PLUID luid)
{
    (void)system, (void)name;
    return LookupPrivilegeValueW(NULL, NULL, luid);
}
static inline BOOL AdjustTokenPrivileges(HANDLE token, BOOL disables_all, PTOKEN_PRIVILEGES wanted, DWORD size, PTOKEN_PRIVILEGES before,
                                         DWORD *needed)
{
    (void)token, (void)disables_all, (void)wanted, (void)size, (void)before;
    if (needed != NULL)
        *needed = 0;
    SetLastError(ERROR_SUCCESS);
    return TRUE;
}

#ifdef UNICODE
#define GetTempPath GetTempPathW
#define GetTempFileName GetTempFileNameW
#define GetFileAttributes GetFileAttributesW
#define PathFileExists PathFileExistsW
#define CreateDirectory CreateDirectoryW
#define RemoveDirectory RemoveDirectoryW
#define GetCurrentDirectory GetCurrentDirectoryW
#define GetFullPathName GetFullPathNameW
#define GetEnvironmentVariable GetEnvironmentVariableW
#define SetEnvironmentVariable SetEnvironmentVariableW
#define LookupPrivilegeValue LookupPrivilegeValueW
#else
#define GetTempPath GetTempPathA
#define GetTempFileName GetTempFileNameA
#define GetFileAttributes GetFileAttributesA
#define PathFileExists PathFileExistsA
#define CreateDirectory CreateDirectoryA
#define RemoveDirectory RemoveDirectoryA
#define GetCurrentDirectory GetCurrentDirectoryA
#define GetFullPathName GetFullPathNameA
#define GetEnvironmentVariable GetEnvironmentVariableA
#define SetEnvironmentVariable SetEnvironmentVariableA
#define LookupPrivilegeValue LookupPrivilegeValueA
#endif

#ifdef __cplusplus
}
#endif
#endif
