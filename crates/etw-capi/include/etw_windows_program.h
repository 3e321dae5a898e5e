/*
 * The program and its machine: console events, processors, names, one-time initialisation, texts of UUIDs. Included by etw_windows.h; programs that
 * use it link with -lpthread.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 */
#ifndef ETW_WINDOWS_PROGRAM_H
#define ETW_WINDOWS_PROGRAM_H
#include <signal.h>

#ifdef __cplusplus
extern "C++" {
#endif

/* ---- Console events are signals. As on Windows, handlers run on a thread of their own, the newest first. ---- */
#define CTRL_C_EVENT 0u
#define CTRL_BREAK_EVENT 1u
#define CTRL_CLOSE_EVENT 2u
#define CTRL_LOGOFF_EVENT 5u
#define CTRL_SHUTDOWN_EVENT 6u
typedef BOOL (*PHANDLER_ROUTINE)(DWORD);
typedef struct etw_console_state {
    pthread_mutex_t lock;
    int pipe[2];
    int count;
    PHANDLER_ROUTINE handlers[16];
} etw_console_state;
/* One state for all files of the program. */
__attribute__((weak)) etw_console_state etw_console = {PTHREAD_MUTEX_INITIALIZER, {-1, -1}, 0, {NULL}};

static inline void etw_console_signal(int number)
{
    const int saved = errno;
    const unsigned char byte = (unsigned char)number;
    if (write(etw_console.pipe[1], &byte, 1) != 1)
        _exit(128 + number);
    errno = saved;
}
static inline DWORD etw_console_event(int number)
{
    return number == SIGINT    ? CTRL_C_EVENT
           : number == SIGQUIT ? CTRL_BREAK_EVENT
           : number == SIGHUP  ? CTRL_CLOSE_EVENT
                               : CTRL_SHUTDOWN_EVENT;
}
static inline void *etw_console_run(void *none)
{
    unsigned char number;
    while (read(etw_console.pipe[0], &number, 1) == 1) {
        PHANDLER_ROUTINE handlers[16];
        int count, is_handled = 0;
        pthread_mutex_lock(&etw_console.lock);
        count = etw_console.count;
        memcpy(handlers, etw_console.handlers, sizeof handlers);
        pthread_mutex_unlock(&etw_console.lock);
        while (!is_handled && count > 0)
            is_handled = handlers[--count] == NULL || handlers[count](etw_console_event(number));
        if (!is_handled) {
            signal(number, SIG_DFL);
            kill(getpid(), number);
        }
    }
    return none;
}
static inline int etw_console_start(void)
{
    static const int signals[] = {SIGINT, SIGQUIT, SIGHUP, SIGTERM};
    struct sigaction action;
    sigset_t all, before;
    pthread_t thread;
    int failed;
    if (pipe(etw_console.pipe) != 0)
        return 0;
    fcntl(etw_console.pipe[0], F_SETFD, FD_CLOEXEC);
    fcntl(etw_console.pipe[1], F_SETFD, FD_CLOEXEC);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread, NULL, etw_console_run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0)
        return 0;
    pthread_detach(thread);
    memset(&action, 0, sizeof action);
    action.sa_handler = etw_console_signal;
    action.sa_flags = SA_RESTART;
    for (int n = 0; n < 4; n++)
        sigaction(signals[n], &action, NULL);
    return 1;
}
/* NULL as the handler: Ctrl+C is ignored. */
static inline BOOL SetConsoleCtrlHandler(PHANDLER_ROUTINE handler, BOOL add)
{
    BOOL is_done = FALSE;
    pthread_mutex_lock(&etw_console.lock);
    if (handler == NULL) {
        signal(SIGINT, add ? SIG_IGN : etw_console.pipe[0] < 0 ? SIG_DFL : etw_console_signal);
        is_done = TRUE;
    } else if (add && etw_console.count < 16 && (etw_console.pipe[0] >= 0 || etw_console_start())) {
        etw_console.handlers[etw_console.count++] = handler;
        is_done = TRUE;
    }
    for (int n = etw_console.count - 1; !add && !is_done && n >= 0; n--) {
        if (etw_console.handlers[n] != handler)
            continue;
        etw_console.count--;
        memmove(etw_console.handlers + n, etw_console.handlers + n + 1,
                (size_t)(etw_console.count - n) * sizeof(PHANDLER_ROUTINE));
        is_done = TRUE;
    }
    pthread_mutex_unlock(&etw_console.lock);
    if (!is_done)
        SetLastError(ERROR_INVALID_PARAMETER);
    return is_done;
}

/* ---- The machine ---- */
typedef struct _SYSTEM_INFO {
    WORD wProcessorArchitecture;
    WORD wReserved;
    DWORD dwPageSize;
    LPVOID lpMinimumApplicationAddress;
    LPVOID lpMaximumApplicationAddress;
    DWORD_PTR dwActiveProcessorMask;
    DWORD dwNumberOfProcessors;
    DWORD dwProcessorType;
    DWORD dwAllocationGranularity;
    WORD wProcessorLevel;
    WORD wProcessorRevision;
} SYSTEM_INFO, *LPSYSTEM_INFO;
#define PROCESSOR_ARCHITECTURE_INTEL 0
#define PROCESSOR_ARCHITECTURE_AMD64 9
#define PROCESSOR_ARCHITECTURE_ARM64 12
#define PROCESSOR_ARCHITECTURE_UNKNOWN 0xffff
static inline void GetSystemInfo(LPSYSTEM_INFO info)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    memset(info, 0, sizeof *info);
#if defined(__x86_64__)
    info->wProcessorArchitecture = PROCESSOR_ARCHITECTURE_AMD64;
#elif defined(__aarch64__)
    info->wProcessorArchitecture = PROCESSOR_ARCHITECTURE_ARM64;
#else
    info->wProcessorArchitecture = PROCESSOR_ARCHITECTURE_UNKNOWN;
#endif
    info->dwNumberOfProcessors = processors > 0 ? (DWORD)processors : 1;
    info->dwActiveProcessorMask = processors >= 64 ? ~(DWORD_PTR)0 : ((DWORD_PTR)1 << info->dwNumberOfProcessors) - 1;
    info->dwPageSize = info->dwAllocationGranularity = (DWORD)sysconf(_SC_PAGESIZE);
}
#define GetNativeSystemInfo GetSystemInfo
static inline DWORD GetCurrentProcessorNumber(void)
{
    unsigned processor = 0;
    syscall(SYS_getcpu, &processor, NULL, NULL);
    return processor;
}
#define MAX_COMPUTERNAME_LENGTH 63
static inline BOOL GetComputerNameA(char *to, DWORD *size)
{
    char name[256] = "";
    DWORD length;
    gethostname(name, sizeof name - 1);
    length = (DWORD)strlen(name);
    if (length >= *size) {
        *size = length + 1;
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return FALSE;
    }
    memcpy(to, name, length + 1);
    *size = length;
    return TRUE;
}
static inline BOOL GetComputerNameW(WCHAR *to, DWORD *size)
{
    char name[256];
    const BOOL fits = *size <= sizeof name && GetComputerNameA(name, size);
    if (fits) {
        for (DWORD n = 0; n <= *size; n++)
            to[n] = (WCHAR)(unsigned char)name[n];
    }
    return fits;
}
typedef enum _COMPUTER_NAME_FORMAT {
    ComputerNameNetBIOS,
    ComputerNameDnsHostname,
    ComputerNameDnsDomain,
    ComputerNameDnsFullyQualified,
    ComputerNamePhysicalNetBIOS,
    ComputerNamePhysicalDnsHostname,
    ComputerNamePhysicalDnsDomain,
    ComputerNamePhysicalDnsFullyQualified,
    ComputerNameMax
} COMPUTER_NAME_FORMAT;
/* The name of the host in every format; a domain is empty. */
static inline BOOL GetComputerNameExA(COMPUTER_NAME_FORMAT format, char *to, DWORD *size)
{
    if (format != ComputerNameDnsDomain && format != ComputerNamePhysicalDnsDomain)
        return GetComputerNameA(to, size);
    if (*size > 0)
        *to = 0;
    *size = *size == 0;
    return *size == 0;
}
static inline BOOL GetComputerNameExW(COMPUTER_NAME_FORMAT format, WCHAR *to, DWORD *size)
{
    if (format != ComputerNameDnsDomain && format != ComputerNamePhysicalDnsDomain)
        return GetComputerNameW(to, size);
    if (*size > 0)
        *to = 0;
    *size = *size == 0;
    return *size == 0;
}
#ifdef UNICODE
#define GetComputerNameEx GetComputerNameExW
#else
#define GetComputerNameEx GetComputerNameExA
#endif
/* Nothing debugs the program. */
#define OutputDebugStringA(text) ((void)(text))
#define OutputDebugStringW(text) ((void)(text))
static inline LONG CompareFileTime(const FILETIME *a, const FILETIME *b)
{
    const uint64_t first = (uint64_t)a->dwHighDateTime << 32 | a->dwLowDateTime;
    const uint64_t second = (uint64_t)b->dwHighDateTime << 32 | b->dwLowDateTime;
    return first < second ? -1 : first > second;
}
#define lstrlenA(text) ((int)strlen(text))
#define lstrlenW(text) ((int)etw_wcslen(text))
#define InterlockedExchangePointer InterlockedExchange
#define InterlockedCompareExchangePointer InterlockedCompareExchange
#define InterlockedAnd(to, value) __atomic_fetch_and((to), (value), __ATOMIC_SEQ_CST)
#define InterlockedOr(to, value) __atomic_fetch_or((to), (value), __ATOMIC_SEQ_CST)

/* ---- One-time initialisation ---- */
typedef union _RTL_RUN_ONCE {
    PVOID Ptr;
} INIT_ONCE, *PINIT_ONCE, *LPINIT_ONCE;
#define INIT_ONCE_STATIC_INIT {NULL}
typedef BOOL (*PINIT_ONCE_FN)(PINIT_ONCE, PVOID, PVOID *);
__attribute__((weak)) pthread_mutex_t etw_init_once = PTHREAD_MUTEX_INITIALIZER;
/* The pointer is 0 before, and 2 plus the context after; Windows reserves the two lowest bits of the context, too. */
static inline BOOL InitOnceExecuteOnce(PINIT_ONCE once, PINIT_ONCE_FN function, PVOID parameter, LPVOID *context)
{
    PVOID found = NULL;
    BOOL is_done = __atomic_load_n(&once->Ptr, __ATOMIC_ACQUIRE) != NULL;
    if (!is_done) {
        pthread_mutex_lock(&etw_init_once);
        is_done = once->Ptr != NULL;
        if (!is_done && function(once, parameter, &found)) {
            __atomic_store_n(&once->Ptr, (PVOID)((uintptr_t)found | 2), __ATOMIC_RELEASE);
            is_done = TRUE;
        }
        pthread_mutex_unlock(&etw_init_once);
    }
    if (is_done && context != NULL)
        *context = (PVOID)((uintptr_t)once->Ptr & ~(uintptr_t)3);
    return is_done;
}

/* ---- Texts of UUIDs: as those of GUIDs, in lower case and without braces ---- */
typedef unsigned char *RPC_CSTR;
typedef unsigned short *etw_rpc_units;
#if __SIZEOF_WCHAR_T__ == 2 && defined(__cplusplus)
typedef WCHAR *RPC_WSTR;
#else
typedef etw_rpc_units RPC_WSTR;
#endif
static inline RPC_STATUS UuidToStringA(const UUID *uuid, RPC_CSTR *text)
{
    const uint8_t *d = uuid->Data4;
    *text = (RPC_CSTR)malloc(37);
    if (*text == NULL)
        return 14; /* RPC_S_OUT_OF_MEMORY */
    snprintf((char *)*text, 37, "%08x-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x", (unsigned)uuid->Data1, uuid->Data2, uuid->Data3,
             d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7]);
    return RPC_S_OK;
}
static inline RPC_STATUS UuidToStringW(const UUID *uuid, RPC_WSTR *text)
{
    RPC_CSTR bytes;
    const RPC_STATUS status = UuidToStringA(uuid, &bytes);
    if (status != RPC_S_OK)
        return status;
    *text = (RPC_WSTR)malloc(37 * sizeof **text);
    for (int n = 0; *text != NULL && n < 37; n++)
        (*text)[n] = bytes[n];
    free(bytes);
    return *text != NULL ? RPC_S_OK : 14;
}
/* No text is the UUID of zeros. */
static inline RPC_STATUS UuidFromStringW(RPC_WSTR text, UUID *uuid)
{
    WCHAR braced[39] = {'{'};
    size_t length = 0;
    memset(uuid, 0, sizeof *uuid);
    if (text == NULL)
        return RPC_S_OK;
    for (; length < 37 && text[length] != 0; length++)
        braced[length + 1] = (WCHAR)text[length];
    if (length != 36)
        return RPC_S_INVALID_STRING_UUID;
    braced[37] = '}';
    return CLSIDFromString(braced, uuid) == S_OK ? RPC_S_OK : RPC_S_INVALID_STRING_UUID;
}
static inline RPC_STATUS UuidFromStringA(RPC_CSTR text, UUID *uuid)
{
    WCHAR wide[38] = {0};
    for (size_t n = 0; text != NULL && n < 37 && text[n] != 0; n++)
        wide[n] = text[n];
    return UuidFromStringW(text != NULL ? (RPC_WSTR)(PVOID)wide : (RPC_WSTR)NULL, uuid);
}
static inline RPC_STATUS RpcStringFreeA(RPC_CSTR *text)
{
    free(*text);
    *text = NULL;
    return RPC_S_OK;
}
static inline RPC_STATUS RpcStringFreeW(RPC_WSTR *text)
{
    free(*text);
    *text = NULL;
    return RPC_S_OK;
}
#ifdef UNICODE
#define GetComputerName GetComputerNameW
#define OutputDebugString OutputDebugStringW
#define lstrlen lstrlenW
#define UuidToString UuidToStringW
#define UuidFromString UuidFromStringW
#define RpcStringFree RpcStringFreeW
#else
#define GetComputerName GetComputerNameA
#define OutputDebugString OutputDebugStringA
#define lstrlen lstrlenA
#define UuidToString UuidToStringA
#define UuidFromString UuidFromStringA
#define RpcStringFree RpcStringFreeA
#endif

#ifdef __cplusplus
}
#endif
#endif
