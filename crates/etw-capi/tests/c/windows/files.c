/*
 * Files, folders, the environment, privileges, priorities, condition variables, thread-local storage and Nt names of the headers for Windows
 * programs. Compiled as C and as C++. Prints the lines whose check fails.
 */
#include <windows.h>
#include <process.h>
#include <winternl.h>
#include <ntstatus.h>
#include <stdio.h>
#include "count_wrong.h"

static CRITICAL_SECTION section;
static SRWLOCK lock = SRWLOCK_INIT;
static CONDITION_VARIABLE changed = CONDITION_VARIABLE_INIT;
static int step;

static DWORD WINAPI other(LPVOID context)
{
    const DWORD index = *(DWORD *)context;
    CHECK(TlsGetValue(index) == NULL && TlsSetValue(index, &step) && TlsGetValue(index) == &step);
    CHECK(SUCCEEDED(SetThreadDescription(GetCurrentThread(), L"a name of more than 15 bytes")));
    EnterCriticalSection(&section);
    step = 1;
    LeaveCriticalSection(&section);
    WakeConditionVariable(&changed);
    AcquireSRWLockExclusive(&lock);
    while (step != 2)
        SleepConditionVariableSRW(&changed, &lock, INFINITE, 0);
    step = 3;
    ReleaseSRWLockExclusive(&lock);
    WakeAllConditionVariable(&changed);
    return 0;
}

static void check_files(void)
{
    WCHAR folder[MAX_PATH] = {0}, path[MAX_PATH] = {0}, inner[MAX_PATH] = {0}, full[MAX_PATH] = {0}, *name = NULL;
    char bytes[MAX_PATH] = {0};
    FILE *file = NULL;
    const DWORD length = GetTempPathW(MAX_PATH, folder);
    CHECK(length > 0 && length == wcslen(folder) && folder[length - 1] == L'/');
    CHECK(GetTempPathW(1, folder + length) == length + 1 && GetTempPathA(MAX_PATH, bytes) == length);
    CHECK(GetTempFileNameW(folder, L"etw\u00fc", 0, path) != 0);
    CHECK(GetFileAttributesW(path) == FILE_ATTRIBUTE_NORMAL && PathFileExistsW(path));
    CHECK(_wfopen_s(&file, path, L"wb") == 0 && file != NULL && fputs("text", file) >= 0 && fclose(file) == 0);
    CHECK(GetFullPathNameW(path, MAX_PATH, full, &name) == wcslen(path) && wcscmp(full, path) == 0);
    CHECK(name != NULL && wcsncmp(name, L"etw", 3) == 0);
    CHECK(DeleteFileW(path) && !PathFileExistsW(path) && GetLastError() == ERROR_FILE_NOT_FOUND);
    /* A number makes a name and no file. */
    CHECK(GetTempFileNameW(folder, L"etwlong", 0x12ab, inner) == 0x12ab && wcsstr(inner, L"etw12AB.tmp") != NULL);
    CHECK(CreateDirectoryW(path, NULL) && GetFileAttributesW(path) == FILE_ATTRIBUTE_DIRECTORY);
    CHECK(!CreateDirectoryW(path, NULL) && GetLastError() == ERROR_ALREADY_EXISTS);
    CHECK(GetTempFileNameW(path, L"x", 0, inner) != 0 && !RemoveDirectoryW(path) && GetLastError() == ERROR_DIR_NOT_EMPTY);
    CHECK(DeleteFileW(inner) && RemoveDirectoryW(path));
    CHECK(GetTempFileNameW(path, L"x", 0, inner) == 0 && GetLastError() == ERROR_FILE_NOT_FOUND);
    CHECK(GetCurrentDirectoryW(MAX_PATH, full) == wcslen(full) && full[0] == L'/');
    CHECK(GetFullPathNameA("a/b", MAX_PATH, bytes, NULL) == strlen(bytes) && strcmp(bytes + strlen(bytes) - 4, "/a/b") == 0);
}

static void check_environment(void)
{
    WCHAR value[16] = {0};
    CHECK(SetEnvironmentVariableW(L"ETW_TEST_NAME", L"v\u00e4lue"));
    CHECK(GetEnvironmentVariableW(L"ETW_TEST_NAME", value, 16) == 5 && wcscmp(value, L"v\u00e4lue") == 0);
    CHECK(GetEnvironmentVariableW(L"ETW_TEST_NAME", value, 5) == 6);
    CHECK(SetEnvironmentVariableW(L"ETW_TEST_NAME", NULL));
    CHECK(GetEnvironmentVariableW(L"ETW_TEST_NAME", value, 16) == 0 && GetLastError() == ERROR_ENVVAR_NOT_FOUND);
}

static void check_command_line(void)
{
    int count = 0;
    WCHAR **arguments = CommandLineToArgvW(GetCommandLineW(), &count);
    CHECK(count == 1 && wcsstr(arguments[0], L"program") != NULL && arguments[1] == NULL);
    LocalFree(arguments);
    arguments = CommandLineToArgvW(L"a\\b  \"c d\"\te\\\"f \"\" \"g\\\\\" \u00fc", &count);
    CHECK(count == 6 && wcscmp(arguments[0], L"a\\b") == 0 && wcscmp(arguments[1], L"c d") == 0);
    CHECK(wcscmp(arguments[2], L"e\"f") == 0 && arguments[3][0] == 0 && wcscmp(arguments[4], L"g\\") == 0);
    CHECK(wcscmp(arguments[5], L"\u00fc") == 0);
    LocalFree(arguments);
}

/* As samples of the kernel's session do before StartTrace. */
static void check_privileges(void)
{
    HANDLE token = NULL;
    TOKEN_PRIVILEGES privileges;
    CHECK(OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY, &token));
    CHECK(LookupPrivilegeValue(NULL, SE_SYSTEM_PROFILE_NAME, &privileges.Privileges[0].Luid));
    privileges.PrivilegeCount = 1;
    privileges.Privileges[0].Attributes = SE_PRIVILEGE_ENABLED;
    SetLastError(ERROR_NOT_SUPPORTED);
    CHECK(AdjustTokenPrivileges(token, FALSE, &privileges, sizeof privileges, NULL, NULL) && GetLastError() == ERROR_SUCCESS);
    {
        TOKEN_ELEVATION elevation;
        TOKEN_ELEVATION_TYPE type;
        DWORD size = 0;
        BOOL is_wow64 = TRUE;
        CHECK(GetTokenInformation(token, TokenElevation, &elevation, sizeof elevation, &size) && size == sizeof elevation);
        CHECK(elevation.TokenIsElevated == (geteuid() == 0));
        CHECK(GetTokenInformation(token, TokenElevationType, &type, sizeof type, &size) && size == sizeof type);
        CHECK(type == (geteuid() == 0 ? TokenElevationTypeFull : TokenElevationTypeLimited));
        CHECK(!GetTokenInformation(token, TokenElevationType, &type, 3, &size) && GetLastError() == ERROR_INSUFFICIENT_BUFFER);
        CHECK(!GetTokenInformation(token, TokenPrivileges, &type, sizeof type, &size) && GetLastError() == ERROR_NOT_SUPPORTED);
        CHECK(IsWow64Process(GetCurrentProcess(), &is_wow64) && !is_wow64);
        CHECK(MAKELANGID(LANG_ENGLISH, SUBLANG_ENGLISH_US) == 0x409);
    }
    CloseHandle(token);
}

static void check_threads(void)
{
    DWORD index = TlsAlloc();
    HANDLE thread;
    CHECK(index != TLS_OUT_OF_INDEXES && TlsSetValue(index, &index));
    InitializeCriticalSection(&section);
    thread = CreateThread(NULL, 0, other, &index, 0, NULL);
    CHECK(thread != NULL && SetThreadPriority(thread, THREAD_PRIORITY_TIME_CRITICAL) && SetPriorityClass(GetCurrentProcess(), HIGH_PRIORITY_CLASS));
    EnterCriticalSection(&section);
    while (step != 1)
        SleepConditionVariableCS(&changed, &section, INFINITE);
    LeaveCriticalSection(&section);
    AcquireSRWLockExclusive(&lock);
    CHECK(!TryAcquireSRWLockExclusive(&lock) && !TryAcquireSRWLockShared(&lock));
    step = 2;
    WakeAllConditionVariable(&changed);
    while (step != 3)
        SleepConditionVariableSRW(&changed, &lock, INFINITE, 0);
    CHECK(!SleepConditionVariableSRW(&changed, &lock, 1, 0) && GetLastError() == ERROR_TIMEOUT);
    ReleaseSRWLockExclusive(&lock);
    CHECK(TryAcquireSRWLockExclusive(&lock));
    ReleaseSRWLockExclusive(&lock);
    CHECK(WaitForSingleObject(thread, INFINITE) == WAIT_OBJECT_0 && CloseHandle(thread));
    CHECK(TlsGetValue(index) == &index && TlsFree(index));
}

typedef struct {
    LIST_ENTRY links;
    int number;
} Listed;

static void check_names(void)
{
    static LONG64 counter = 40;
    Listed listed = {{NULL, NULL}, 7};
    PLIST_ENTRY links = &listed.links;
    UNICODE_STRING text;
    PROCESSOR_NUMBER processor;
    ULONG needed = 1;
    CHECK(InterlockedAdd64(&counter, 2) == 42 && InterlockedExchangeAdd64(&counter, 1) == 42 && InterlockedXor64(&counter, 1) == 43);
    CHECK(InterlockedCompareExchange64(&counter, 5, 42) == 42 && counter == 5);
    MemoryBarrier();
    YieldProcessor();
    CHECK(CONTAINING_RECORD(links, Listed, links)->number == 7);
    CHECK(RTL_NUMBER_OF("abc") == 4 && __max(2, 3) == 3 && __min(2, 3) == 2 && MAXLONG == LONG_MAX);
    RtlInitUnicodeString(&text, L"abc");
    CHECK(text.Length == 6 && text.MaximumLength == 8 && text.Buffer[2] == L'c');
    GetCurrentProcessorNumberEx(&processor);
    CHECK(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS) > 0 && processor.Reserved == 0);
    CHECK(NT_SUCCESS(STATUS_SUCCESS) && !NT_SUCCESS(STATUS_ACCESS_DENIED) && HRESULT_FROM_NT(STATUS_ACCESS_DENIED) < 0);
    CHECK(NtQuerySystemInformation(SystemBasicInformation, &needed, sizeof needed, &needed) == STATUS_INVALID_INFO_CLASS);
    CHECK(GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "NtSetSystemInformation") != NULL);
}

int main(void)
{
    check_files();
    check_environment();
    check_command_line();
    check_privileges();
    check_threads();
    check_names();
    return wrong;
}
