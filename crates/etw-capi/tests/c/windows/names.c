/*
 * Names from the headers of Windows: capitalised headers, annotations, status codes, functions of threads. Compiled as C and as C++. Prints the
 * lines whose check fails.
 */
#if defined(__x86_64__)
#include <x86intrin.h> /* It defines _rotl as a macro. */
#endif
#include <Windows.h>
#include <SDKDDKVer.h>
#include <WinDef.h>
#include <TCHAR.h>
#include <tchar.h>
#include <Process.h>
#include <WinSock2.h>
#include <WS2tcpip.h>
#include <StrSafe.h>
#include <Evntrace.h>
#include <EvntProv.h>
#include <TraceLoggingProvider.h>
#include <conio.h>
#include <intrin.h>
#include <stdio.h>
#include <winmeta.h>
#include "count_wrong.h"

/* An assertion of the form that Windows' headers have: its texts are tokens that only Microsoft's compiler joins. */
#define ASSERTION(exp, text) \
    ((void)(!(exp) ? (__annotation(L"Debug", L"AssertFail", L"" L#exp L" : " L##text), DbgRaiseAssertionFailure(), 0) : 0))

_Check_return_ _Ret_opt_bytecount_(size) static PVOID annotated(_In_count_x_(4) const int *numbers, _In_ SIZE_T size,
                                                                _Pre_cap_(size) _Post_z_ char *text,
                                                                _Inout_updates_bytes_to_opt_(size, 0) PVOID out)
{
    (void)numbers, (void)size, (void)text;
    return out;
}
_Ret_ _Ret_bytecount_(4) static PVOID none(void) { return NULL; }

/* In the form of mc.exe's headers: callable in each C file, without -fgnu89-inline. */
DECLSPEC_NOINLINE __inline VOID __stdcall McGenCallback(_Inout_opt_ PVOID context)
{
    if (context != NULL)
        ++*(int *)context;
}

/* ETW_INLINE of mc.exe's headers: each C file gets a definition, without an ETW_INLINE of the program's own. */
#ifndef ETW_INLINE
#define ETW_INLINE __inline
#endif
ETW_INLINE ULONG McTemplate(PVOID context)
{
    McGenCallback(context);
    return 1;
}

typedef struct {
    ULONG count;
    USHORT items[1];
} List;

static HANDLE started, finish;
static LONG word;

static DWORD WINAPI run(LPVOID parameter)
{
    SetEvent(started);
    CHECK(WaitForSingleObject(finish, INFINITE) == WAIT_OBJECT_0);
    *(LONG *)parameter = 7;
    InterlockedExchange(&word, 1);
    WakeByAddressAll(&word);
    return 42;
}

static void check_threads(void)
{
    LONG seen = 0, zero = 0;
    DWORD id = 0, code = 0;
    HANDLE both[2], mutex, thread;
    SRWLOCK lock = SRWLOCK_INIT;
    CRITICAL_SECTION section;
    started = CreateEvent(NULL, FALSE, FALSE, NULL);
    finish = CreateEventW(NULL, TRUE, FALSE, NULL);
    CHECK(WaitForSingleObject(started, 1) == WAIT_TIMEOUT);
    thread = CreateThread(NULL, 0, run, &seen, 0, &id);
    CHECK(thread != NULL && id != 0 && GetThreadId(thread) == id);
    CHECK(WaitForSingleObject(started, 10000) == WAIT_OBJECT_0);
    CHECK(WaitForSingleObject(started, 0) == WAIT_TIMEOUT); /* The wait resets the event. */
    CHECK(WaitForSingleObject(thread, 0) == WAIT_TIMEOUT);
    CHECK(GetExitCodeThread(thread, &code) && code == STILL_ACTIVE);
    SetEvent(finish);
    while (InterlockedCompareExchange(&word, 0, 0) == 0)
        WaitOnAddress(&word, &zero, sizeof word, INFINITE);
    both[0] = thread;
    both[1] = finish;
    CHECK(WaitForMultipleObjects(2, both, TRUE, 10000) == WAIT_OBJECT_0);
    both[0] = started;
    CHECK(WaitForMultipleObjects(2, both, FALSE, 10000) == WAIT_OBJECT_0 + 1);
    CHECK(GetExitCodeThread(thread, &code) && code == 42 && seen == 7);
    CHECK(CloseHandle(thread) && CloseHandle(started) && CloseHandle(finish));
    CHECK(!CloseHandle(NULL) && GetLastError() == ERROR_INVALID_HANDLE && !CloseHandle(INVALID_HANDLE_VALUE));
    CHECK(!WaitOnAddress(&word, &word, sizeof word, 1) && GetLastError() == ERROR_TIMEOUT);
    mutex = CreateMutex(NULL, TRUE, NULL);
    CHECK(WaitForSingleObject(mutex, 0) == WAIT_OBJECT_0 && ReleaseMutex(mutex) && ReleaseMutex(mutex) && !ReleaseMutex(mutex));
    CloseHandle(mutex);
    AcquireSRWLockShared(&lock);
    ReleaseSRWLockShared(&lock);
    InitializeCriticalSection(&section);
    EnterCriticalSection(&section);
    CHECK(TryEnterCriticalSection(&section));
    LeaveCriticalSection(&section);
    LeaveCriticalSection(&section);
    DeleteCriticalSection(&section);
}

static LONG handled, passed;

static BOOL WINAPI stops(DWORD event)
{
    InterlockedExchange(&handled, (LONG)event + 1);
    WakeByAddressAll(&handled);
    return TRUE;
}

static BOOL WINAPI passes(DWORD event)
{
    (void)event;
    InterlockedIncrement(&passed);
    return FALSE;
}

static BOOL CALLBACK initialise(PINIT_ONCE once, PVOID parameter, PVOID *context)
{
    (void)once;
    ++*(int *)parameter;
    *context = parameter;
    return TRUE;
}

/* Console events, the machine, one-time initialisation, texts of UUIDs. */
static void check_program(void)
{
    static INIT_ONCE once = INIT_ONCE_STATIC_INIT;
    const UUID uuid = {0x57e47923, 0xa549, 0x476f, {0x86, 0xca, 0x50, 0x3d, 0x57, 0xf5, 0x9e, 0x62}};
    const FILETIME early = {1, 2}, late = {0, 3};
    UUID read;
    RPC_CSTR bytes = NULL;
    RPC_WSTR units = NULL;
    SYSTEM_INFO info;
    PVOID context = NULL, other = NULL;
    LONG zero = 0;
    char name[MAX_COMPUTERNAME_LENGTH + 1];
    WCHAR wide[MAX_COMPUTERNAME_LENGTH + 1];
    DWORD size = sizeof name, wide_size = MAX_COMPUTERNAME_LENGTH + 1, small = 0;
    int times __attribute__((aligned(8))) = 0;

    CHECK(SetConsoleCtrlHandler(stops, TRUE) && SetConsoleCtrlHandler(passes, TRUE));
    CHECK(kill(getpid(), SIGINT) == 0);
    while (InterlockedCompareExchange(&handled, 0, 0) == 0)
        WaitOnAddress(&handled, &zero, sizeof handled, INFINITE);
    CHECK(handled == CTRL_C_EVENT + 1 && passed == 1); /* The newest handler runs first. */
    CHECK(SetConsoleCtrlHandler(passes, FALSE) && !SetConsoleCtrlHandler(passes, FALSE));
    CHECK(GetLastError() == ERROR_INVALID_PARAMETER);
    GetSystemInfo(&info);
    CHECK(info.dwNumberOfProcessors > 0 && info.dwPageSize >= 4096 && (info.dwActiveProcessorMask & 1) != 0);
    CHECK(GetCurrentProcessorNumber() < 0x10000);
    CHECK(GetComputerNameA(name, &size) && size == strlen(name) && GetComputerNameW(wide, &wide_size) && wide_size == size);
    CHECK((DWORD)lstrlenW(wide) == size && (DWORD)lstrlenA(name) == size);
    CHECK(!GetComputerNameA(name, &small) && small == size + 1 && GetLastError() == ERROR_INSUFFICIENT_BUFFER);
    size = sizeof name;
    wide_size = sizeof wide / sizeof wide[0];
    CHECK(GetComputerNameExA(ComputerNameDnsHostname, name, &size) && size == strlen(name));
    CHECK(GetComputerNameExW(ComputerNameNetBIOS, wide, &wide_size) && wide_size == size);
    CHECK(GetComputerNameExA(ComputerNameDnsDomain, name, &size) && size == 0 && name[0] == 0);
    CHECK(CompareFileTime(&early, &late) == -1 && CompareFileTime(&late, &early) == 1 && CompareFileTime(&late, &late) == 0);
    CHECK(InitOnceExecuteOnce(&once, initialise, &times, &context) && InitOnceExecuteOnce(&once, initialise, &times, &other));
    CHECK(times == 1 && context == &times && other == &times);
    CHECK(InterlockedCompareExchangePointer(&other, NULL, context) == context && other == NULL);
    CHECK(UuidToStringA(&uuid, &bytes) == RPC_S_OK && strcmp((char *)bytes, "57e47923-a549-476f-86ca-503d57f59e62") == 0);
    CHECK(UuidFromStringA(bytes, &read) == RPC_S_OK && memcmp(&read, &uuid, sizeof uuid) == 0);
    CHECK(UuidToStringW(&uuid, &units) == RPC_S_OK && units[35] == '2' && units[36] == 0);
    CHECK(UuidFromStringW(units, &read) == RPC_S_OK && memcmp(&read, &uuid, sizeof uuid) == 0);
    units[35] = 'x';
    CHECK(UuidFromStringW(units, &read) == RPC_S_INVALID_STRING_UUID && UuidFromStringW(NULL, &read) == RPC_S_OK);
    CHECK(RpcStringFreeA(&bytes) == RPC_S_OK && bytes == NULL && RpcStringFreeW(&units) == RPC_S_OK);
}

int main(void)
{
    const _TCHAR *text = _T("text");
    char name[256];
    WCHAR wide[8];
    DWORD size = sizeof name;
    HMODULE module = NULL;
    LPARAM parameter = -1;
    LPCBYTE bytes = (LPCBYTE)"x";
    int called = 0;
    CHECK(_tcslen(text) == 4 && bytes[0] == 'x' && parameter < 0);
    CHECK(_WIN32_WINNT == 0x0A00 && WINVER == 0x0A00 && NTDDI_VERSION == 0x0A000000);
    CHECK(annotated(NULL, 0, NULL, NULL) == NULL && none() == NULL);
    McGenCallback(&called);
    CHECK(called == 1 && McTemplate(&called) == 1 && called == 2);
    CHECK(ERROR_SHARING_VIOLATION == 32 && RPC_S_OK == 0 && E_ACCESSDENIED == (HRESULT)0x80070005);
    CHECK(IsEqualGUID(
#ifdef __cplusplus
        GUID_NULL, GUID()
#else
        &GUID_NULL, &GUID_NULL
#endif
            ));
    CHECK(MAKE_HRESULT(SEVERITY_ERROR, FACILITY_WIN32, 5) == E_ACCESSDENIED);
    for (int n = 0; n < 3; n++)
        CHECK(FIELD_OFFSET(List, items[n]) == 4 + 2 * n);
    unsigned int (*rotate)(unsigned int, int) = _rotl, (*rotate_back)(unsigned int, int) = _rotr;
    UINT64 (*rotate_64)(UINT64, int) = _rotl64, (*swap_64)(UINT64) = _byteswap_uint64;
    CHECK(rotate(0x80000001u, 1) == 3 && rotate(5, 0) == 5 && rotate_back(3, 1) == 0x80000001u && rotate_64(1, 64) == 1);
    CHECK(swap_64(1) == 1ull << 56 && _byteswap_ulong(0x01020304) == 0x04030201 && _byteswap_ushort(0x0102) == 0x0201);
    CHECK(_UI64_MAX == UINT64_MAX && _I32_MIN < 0 && _UI8_MAX == 255);
    CHECK(WINEVENT_KEYWORD_RESPONSE_TIME == 1ull << 48 && WINEVENT_KEYWORD_EVENTLOG_CLASSIC == 1ull << 55);
    CHECK(WINEVENT_CHANNEL_TRACELOGGING == 11 && WINEVENT_TASK_NONE == 0);
    CHECK(_ReturnAddress() != NULL && strstr(__FUNCSIG__, "main") != NULL);
    ASSERTION(wrong >= 0, "counts");
    __assume(wrong >= 0);
    CHECK(_rotl(0x80000001u, 1) == 3 && _rotr(3u, 1) == 0x80000001u && _rotl64(1, 63) == 1ull << 63);
    CHECK(LCMapStringEx(LOCALE_NAME_INVARIANT, LCMAP_UPPERCASE, L"a\u00fc7", -1, wide, 8, NULL, NULL, 0) == 4);
    CHECK(wcscmp(wide, L"A\u00dc7") == 0);
    CHECK(LCMapStringEx(LOCALE_NAME_INVARIANT, LCMAP_UPPERCASE | LCMAP_BYTEREV, L"a\u00fc", 2, wide, 8, NULL, NULL, 0) == 2);
    CHECK(wide[0] == 0x4100 && wide[1] == 0xdc00 && wide[2] == L'7');
    CHECK(GetUserNameA(name, &size) && size == strlen(name) + 1);
    CHECK(GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT, NULL, &module) && module != NULL);
    CHECK(!DeleteFileA("no such file") && GetLastError() == ERROR_FILE_NOT_FOUND);
    CHECK(!DeleteFileW(L"names.c/no such file"));
    check_threads();
    check_program();
    return wrong;
}
