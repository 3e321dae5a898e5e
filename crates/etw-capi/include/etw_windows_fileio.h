/*
 * CreateFile, ReadFile, WriteFile and their like, over descriptors: programs write logs and reports with them. There is no sharing mode, and
 * no overlapped operation. Included by etw_windows.h.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 */
#ifndef ETW_WINDOWS_FILEIO_H
#define ETW_WINDOWS_FILEIO_H

#ifdef __cplusplus
extern "C++" {
#endif

#define GENERIC_READ 0x80000000u
#define GENERIC_WRITE 0x40000000u
#define GENERIC_EXECUTE 0x20000000u
#define GENERIC_ALL 0x10000000u
#define FILE_APPEND_DATA 0x0004u
#define FILE_SHARE_READ 0x1u
#define FILE_SHARE_WRITE 0x2u
#define FILE_SHARE_DELETE 0x4u
#define CREATE_NEW 1u
#define CREATE_ALWAYS 2u
#define OPEN_EXISTING 3u
#define OPEN_ALWAYS 4u
#define TRUNCATE_EXISTING 5u
#define FILE_FLAG_SEQUENTIAL_SCAN 0x08000000u
#define FILE_FLAG_WRITE_THROUGH 0x80000000u
#define FILE_FLAG_NO_BUFFERING 0x20000000u
#define FILE_FLAG_OVERLAPPED 0x40000000u
#define FILE_BEGIN 0u
#define FILE_CURRENT 1u
#define FILE_END 2u
#define INVALID_FILE_SIZE 0xffffffffu
#define MOVEFILE_REPLACE_EXISTING 0x1u
#define MOVEFILE_COPY_ALLOWED 0x2u
#define MOVEFILE_DELAY_UNTIL_REBOOT 0x4u
typedef struct _OVERLAPPED {
    ULONG_PTR Internal;
    ULONG_PTR InternalHigh;
    __extension__ union {
        struct {
            DWORD Offset;
            DWORD OffsetHigh;
        };
        PVOID Pointer;
    };
    HANDLE hEvent;
} OVERLAPPED, *LPOVERLAPPED;

static inline HANDLE CreateFileA(LPCSTR path, DWORD wanted, DWORD shared, LPSECURITY_ATTRIBUTES security, DWORD disposition, DWORD flags,
                                 HANDLE model)
{
    static const int how[] = {0, O_CREAT | O_EXCL, O_CREAT | O_TRUNC, 0, O_CREAT, O_TRUNC};
    const BOOL reads = (wanted & (GENERIC_READ | GENERIC_ALL)) != 0;
    const BOOL writes = (wanted & (GENERIC_WRITE | GENERIC_ALL | FILE_APPEND_DATA)) != 0;
    etw_object *object;
    BOOL existed;
    int file;
    (void)shared, (void)security, (void)model;
    if (path == NULL || disposition < CREATE_NEW || disposition > TRUNCATE_EXISTING || (flags & FILE_FLAG_OVERLAPPED) != 0) {
        SetLastError((flags & FILE_FLAG_OVERLAPPED) != 0 ? ERROR_NOT_SUPPORTED : ERROR_INVALID_PARAMETER);
        return INVALID_HANDLE_VALUE;
    }
    existed = (access(path, F_OK) == 0);
    file = open(path, how[disposition] | (writes ? reads ? O_RDWR : O_WRONLY : O_RDONLY) | ((wanted & FILE_APPEND_DATA) != 0 ? O_APPEND : 0) | O_CLOEXEC,
                0666);
    if (file < 0) {
        if (errno == EEXIST)
            SetLastError(ERROR_FILE_EXISTS);
        else
            etw_file_result(-1);
        return INVALID_HANDLE_VALUE;
    }
    object = etw_new_object(1, 0);
    if (object == NULL) {
        close(file);
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return INVALID_HANDLE_VALUE;
    }
    object->file = file + 1;
    SetLastError((disposition == CREATE_ALWAYS || disposition == OPEN_ALWAYS) && existed ? ERROR_ALREADY_EXISTS : ERROR_SUCCESS);
    return (HANDLE)object;
}
static inline HANDLE CreateFileW(LPCWSTR path, DWORD wanted, DWORD shared, LPSECURITY_ATTRIBUTES security, DWORD disposition, DWORD flags,
                                 HANDLE model)
{
    char bytes[ETW_PATH_BYTES];
    return etw_path_bytes(path, bytes) ? CreateFileA(bytes, wanted, shared, security, disposition, flags, model) : INVALID_HANDLE_VALUE;
}
/* The descriptor of a file, or of a standard stream; -1 with the last error for any other handle. */
static inline int etw_descriptor(HANDLE handle)
{
    const int file = etw_is_object(handle) ? ((etw_object *)handle)->file - 1 : -1;
    if (file < 0)
        SetLastError(ERROR_INVALID_HANDLE);
    return file;
}
static inline BOOL ReadFile(HANDLE handle, LPVOID to, DWORD size, LPDWORD count, LPOVERLAPPED overlapped)
{
    const int file = etw_descriptor(handle);
    const ssize_t got = file < 0 ? -1 : overlapped == NULL ? read(file, to, size) : pread(file, to, size, (off_t)overlapped->OffsetHigh << 32 | overlapped->Offset);
    if (count != NULL)
        *count = got > 0 ? (DWORD)got : 0;
    if (got < 0 && file >= 0)
        SetLastError(ERROR_READ_FAULT);
    return got >= 0;
}
static inline BOOL WriteFile(HANDLE handle, LPCVOID from, DWORD size, LPDWORD count, LPOVERLAPPED overlapped)
{
    const int file = etw_descriptor(handle);
    DWORD done = 0;
    (void)overlapped;
    while (file >= 0 && done < size) {
        const ssize_t put = write(file, (const char *)from + done, size - done);
        if (put < 0 && errno != EINTR)
            break;
        done += put > 0 ? (DWORD)put : 0;
    }
    if (count != NULL)
        *count = done;
    if (file >= 0 && done < size)
        SetLastError(errno == ENOSPC ? ERROR_DISK_FULL : ERROR_WRITE_FAULT);
    return file >= 0 && done == size;
}
static inline BOOL FlushFileBuffers(HANDLE handle)
{
    const int file = etw_descriptor(handle);
    return file >= 0 && etw_file_result(fsync(file));
}
static inline BOOL GetFileSizeEx(HANDLE handle, PLARGE_INTEGER size)
{
    struct stat found;
    const int file = etw_descriptor(handle);
    if (file < 0 || !etw_file_result(fstat(file, &found)))
        return FALSE;
    size->QuadPart = found.st_size;
    return TRUE;
}
static inline DWORD GetFileSize(HANDLE handle, LPDWORD high)
{
    LARGE_INTEGER size;
    if (!GetFileSizeEx(handle, &size))
        return INVALID_FILE_SIZE;
    if (high != NULL)
        *high = (DWORD)(size.QuadPart >> 32);
    return (DWORD)size.QuadPart;
}
static inline BOOL SetFilePointerEx(HANDLE handle, LARGE_INTEGER distance, PLARGE_INTEGER now, DWORD from)
{
    const int file = etw_descriptor(handle);
    const off_t at = file < 0 ? -1 : lseek(file, (off_t)distance.QuadPart, from == FILE_END ? SEEK_END : from == FILE_CURRENT ? SEEK_CUR : SEEK_SET);
    if (now != NULL)
        now->QuadPart = at;
    if (at < 0 && file >= 0)
        SetLastError(ERROR_INVALID_PARAMETER);
    return at >= 0;
}
static inline BOOL MoveFileExA(LPCSTR from, LPCSTR to, DWORD flags)
{
    if ((flags & MOVEFILE_DELAY_UNTIL_REBOOT) != 0 || to == NULL) {
        SetLastError(ERROR_NOT_SUPPORTED);
        return FALSE;
    }
    if ((flags & MOVEFILE_REPLACE_EXISTING) == 0 && (access(to, F_OK) == 0)) {
        SetLastError(ERROR_ALREADY_EXISTS);
        return FALSE;
    }
    return etw_file_result(rename(from, to));
}
static inline BOOL MoveFileExW(LPCWSTR from, LPCWSTR to, DWORD flags)
{
    char source[ETW_PATH_BYTES], target[ETW_PATH_BYTES];
    return etw_path_bytes(from, source) && (to == NULL || etw_path_bytes(to, target)) && MoveFileExA(source, to == NULL ? NULL : target, flags);
}
#ifdef UNICODE
#define CreateFile CreateFileW
#define MoveFileEx MoveFileExW
#define MoveFile(from, to) MoveFileExW((from), (to), MOVEFILE_COPY_ALLOWED)
#else
#define CreateFile CreateFileA
#define MoveFileEx MoveFileExA
#define MoveFile(from, to) MoveFileExA((from), (to), MOVEFILE_COPY_ALLOWED)
#endif

/* ---- Texts of bytes, which are always compared as in the C locale ---- */
#define lstrcmpA strcmp
#define lstrcmpiA strcasecmp
#define lstrcpyA strcpy
#define lstrcatA strcat
#if __SIZEOF_WCHAR_T__ == 2
#define lstrcmpW wcscmp
#define lstrcmpiW _wcsicmp
#endif
#define IsBadStringPtrA(text, size) ((void)(size), (text) == NULL)
#define IsBadStringPtrW(text, size) ((void)(size), (text) == NULL)

#ifdef __cplusplus
}
#endif
#endif
