/*
 * Priorities and names of threads, condition variables, thread-local storage and 64-bit interlocked functions. Included by etw_windows.h;
 * programs that use it link with -lpthread.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 */
#ifndef ETW_WINDOWS_SCHEDULING_H
#define ETW_WINDOWS_SCHEDULING_H

#ifdef __cplusplus
extern "C++" {
#endif

/* ---- Priorities: Linux lets only root raise them, so they stay as they are ---- */
#define THREAD_PRIORITY_IDLE (-15)
#define THREAD_PRIORITY_LOWEST (-2)
#define THREAD_PRIORITY_BELOW_NORMAL (-1)
#define THREAD_PRIORITY_NORMAL 0
#define THREAD_PRIORITY_ABOVE_NORMAL 1
#define THREAD_PRIORITY_HIGHEST 2
#define THREAD_PRIORITY_TIME_CRITICAL 15
#define NORMAL_PRIORITY_CLASS 0x20u
#define IDLE_PRIORITY_CLASS 0x40u
#define HIGH_PRIORITY_CLASS 0x80u
#define REALTIME_PRIORITY_CLASS 0x100u
#define BELOW_NORMAL_PRIORITY_CLASS 0x4000u
#define ABOVE_NORMAL_PRIORITY_CLASS 0x8000u
static inline BOOL SetThreadPriority(HANDLE thread, int priority)
{
    (void)thread, (void)priority;
    return TRUE;
}
static inline int GetThreadPriority(HANDLE thread)
{
    (void)thread;
    return THREAD_PRIORITY_NORMAL;
}
static inline BOOL SetPriorityClass(HANDLE process, DWORD priority)
{
    (void)process, (void)priority;
    return TRUE;
}
static inline DWORD GetPriorityClass(HANDLE process)
{
    (void)process;
    return NORMAL_PRIORITY_CLASS;
}
/* Names the calling thread, with at most 15 bytes. Other threads keep their names. */
static inline HRESULT SetThreadDescription(HANDLE thread, const WCHAR *name)
{
    char bytes[ETW_PATH_BYTES];
    if (thread != GetCurrentThread() || WideCharToMultiByte(CP_UTF8, 0, name, -1, bytes, sizeof bytes, NULL, NULL) == 0)
        return S_OK;
    bytes[15] = 0;
    syscall(SYS_prctl, 15L, bytes, 0L, 0L, 0L); /* PR_SET_NAME */
    return S_OK;
}

/* ---- Condition variables, over a futex: a wait may end early, as on Windows ---- */
typedef struct _RTL_CONDITION_VARIABLE {
    uint32_t Changes;
} RTL_CONDITION_VARIABLE, *PRTL_CONDITION_VARIABLE, CONDITION_VARIABLE, *PCONDITION_VARIABLE;
#define RTL_CONDITION_VARIABLE_INIT {0}
#define CONDITION_VARIABLE_INIT RTL_CONDITION_VARIABLE_INIT
#define CONDITION_VARIABLE_LOCKMODE_SHARED 1u
static inline void InitializeConditionVariable(PCONDITION_VARIABLE variable) { variable->Changes = 0; }
static inline void WakeConditionVariable(PCONDITION_VARIABLE variable)
{
    __atomic_add_fetch(&variable->Changes, 1, __ATOMIC_SEQ_CST);
    WakeByAddressSingle(&variable->Changes);
}
static inline void WakeAllConditionVariable(PCONDITION_VARIABLE variable)
{
    __atomic_add_fetch(&variable->Changes, 1, __ATOMIC_SEQ_CST);
    WakeByAddressAll(&variable->Changes);
}
static inline BOOL SleepConditionVariableCS(PCONDITION_VARIABLE variable, LPCRITICAL_SECTION section, DWORD ms)
{
    uint32_t changes = __atomic_load_n(&variable->Changes, __ATOMIC_SEQ_CST);
    BOOL is_done;
    LeaveCriticalSection(section);
    is_done = WaitOnAddress(&variable->Changes, &changes, sizeof changes, ms);
    EnterCriticalSection(section);
    return is_done;
}
static inline BOOL SleepConditionVariableSRW(PCONDITION_VARIABLE variable, PSRWLOCK lock, DWORD ms, ULONG flags)
{
    uint32_t changes = __atomic_load_n(&variable->Changes, __ATOMIC_SEQ_CST);
    BOOL is_done;
    ReleaseSRWLockExclusive(lock);
    is_done = WaitOnAddress(&variable->Changes, &changes, sizeof changes, ms);
    if ((flags & CONDITION_VARIABLE_LOCKMODE_SHARED) != 0)
        AcquireSRWLockShared(lock);
    else
        AcquireSRWLockExclusive(lock);
    return is_done;
}
static inline BOOLEAN TryAcquireSRWLockExclusive(PSRWLOCK lock) { return pthread_rwlock_trywrlock(&lock->Lock) == 0; }
static inline BOOLEAN TryAcquireSRWLockShared(PSRWLOCK lock) { return pthread_rwlock_tryrdlock(&lock->Lock) == 0; }
#define InitializeCriticalSectionEx(section, spins, flags) ((void)(flags), InitializeCriticalSectionAndSpinCount((section), (spins)))

/* ---- Thread-local storage ---- */
#define TLS_OUT_OF_INDEXES 0xffffffffu
static inline DWORD TlsAlloc(void)
{
    pthread_key_t key;
    return pthread_key_create(&key, NULL) == 0 ? (DWORD)key : TLS_OUT_OF_INDEXES;
}
static inline LPVOID TlsGetValue(DWORD index)
{
    SetLastError(ERROR_SUCCESS);
    return pthread_getspecific((pthread_key_t)index);
}
static inline BOOL TlsSetValue(DWORD index, LPVOID value) { return pthread_setspecific((pthread_key_t)index, value) == 0; }
static inline BOOL TlsFree(DWORD index) { return pthread_key_delete((pthread_key_t)index) == 0; }

/* Fibers do not exist here: each thread has one, whose values the callback receives when the thread ends. */
typedef void (*PFLS_CALLBACK_FUNCTION)(PVOID);
#define FLS_OUT_OF_INDEXES 0xffffffffu
static inline DWORD FlsAlloc(PFLS_CALLBACK_FUNCTION callback)
{
    pthread_key_t key;
    return pthread_key_create(&key, callback) == 0 ? (DWORD)key : FLS_OUT_OF_INDEXES;
}
#define FlsGetValue TlsGetValue
#define FlsSetValue TlsSetValue
#define FlsFree TlsFree

/* ---- Interlocked functions ---- */
#define InterlockedAdd64 InterlockedAdd
#define InterlockedExchange64 InterlockedExchange
#define InterlockedExchangeAdd64 InterlockedExchangeAdd
#define InterlockedCompareExchange64 InterlockedCompareExchange
#define InterlockedAnd64 InterlockedAnd
#define InterlockedOr64 InterlockedOr
#define InterlockedXor(to, value) __atomic_fetch_xor((to), (value), __ATOMIC_SEQ_CST)
#define InterlockedXor64 InterlockedXor
#define InterlockedIncrement16 InterlockedIncrement
#define InterlockedDecrement16 InterlockedDecrement
#define InterlockedIncrementNoFence(to) __atomic_add_fetch((to), 1, __ATOMIC_RELAXED)
#define InterlockedDecrementNoFence(to) __atomic_sub_fetch((to), 1, __ATOMIC_RELAXED)
#define MemoryBarrier() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#if defined(__x86_64__) || defined(__i386__)
#define YieldProcessor() __builtin_ia32_pause()
#else
#define YieldProcessor() ((void)0)
#endif

/* ---- Names of winnt.h and winbase.h ---- */
typedef HANDLE *PHANDLE, *LPHANDLE;
typedef WCHAR *PWCH, *LPWCH;
typedef const WCHAR *PCWCH, *LPCWCH;
typedef int8_t *PINT8;
typedef int16_t *PINT16;
typedef int32_t *PINT32;
typedef int64_t *PINT64;
typedef uint8_t *PUINT8;
typedef uint16_t *PUINT16;
typedef uint32_t *PUINT32;
typedef uint64_t *PUINT64;
typedef ULONG_PTR KAFFINITY;
typedef struct _LIST_ENTRY {
    struct _LIST_ENTRY *Flink, *Blink;
} LIST_ENTRY, *PLIST_ENTRY;
typedef struct _SINGLE_LIST_ENTRY {
    struct _SINGLE_LIST_ENTRY *Next;
} SINGLE_LIST_ENTRY, *PSINGLE_LIST_ENTRY;
typedef struct _PROCESSOR_NUMBER {
    WORD Group;
    BYTE Number;
    BYTE Reserved;
} PROCESSOR_NUMBER, *PPROCESSOR_NUMBER;
static inline void GetCurrentProcessorNumberEx(PPROCESSOR_NUMBER to)
{
    const DWORD processor = GetCurrentProcessorNumber();
    to->Group = (WORD)(processor / 64);
    to->Number = (BYTE)(processor % 64);
    to->Reserved = 0;
}
#define ALL_PROCESSOR_GROUPS 0xffff
static inline DWORD GetActiveProcessorCount(WORD group)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    (void)group;
    return processors > 0 ? (DWORD)processors : 1;
}
#define CONTAINING_RECORD(address, type, field) ((type *)((char *)(address) - offsetof(type, field)))
#define DECLARE_HANDLE(name)  \
    struct name##__ {         \
        int unused;           \
    };                        \
    typedef struct name##__ *name
#ifndef RTL_NUMBER_OF
#define RTL_NUMBER_OF(array) (sizeof(array) / sizeof((array)[0]))
#endif
#define UNREFERENCED_LOCAL_VARIABLE(v) (void)(v)
#define DBG_UNREFERENCED_LOCAL_VARIABLE(v) (void)(v)
#define MAXLONG 0x7fffffff
#define MAXLONGLONG 0x7fffffffffffffffll
#define MAXULONGLONG (~(ULONGLONG)0)
#define MAXDWORD64 MAXULONGLONG
#define __min(a, b) ((a) < (b) ? (a) : (b))
#define __max(a, b) ((a) > (b) ? (a) : (b))
/* C++ programs use std::min and std::max, which macros would break. */
#if !defined(__cplusplus) && !defined(NOMINMAX)
#define min __min
#define max __max
#endif
#define FACILITY_NT_BIT 0x10000000
#define HRESULT_FROM_NT(status) ((HRESULT)((status) | FACILITY_NT_BIT))
#ifndef __FILEW__
#define __FILEW__ ETW_W(__FILE__)
#endif
#define _CRT_WIDE(text) ETW_W(text)

/* ---- Files and texts of the C library ---- */
static inline errno_t fopen_s(FILE **file, const char *path, const char *mode)
{
    *file = fopen(path, mode);
    return *file != NULL ? 0 : errno;
}
static inline FILE *_wfopen(const WCHAR *path, const WCHAR *mode)
{
    char path_bytes[ETW_PATH_BYTES], mode_bytes[ETW_PATH_BYTES];
    return etw_path_bytes(path, path_bytes) && etw_path_bytes(mode, mode_bytes) ? fopen(path_bytes, mode_bytes) : (FILE *)NULL;
}
static inline errno_t _wfopen_s(FILE **file, const WCHAR *path, const WCHAR *mode)
{
    *file = _wfopen(path, mode);
    return *file != NULL ? 0 : errno;
}
static inline errno_t memmove_s(void *to, size_t room, const void *from, size_t size)
{
    if (size > room)
        return ERANGE;
    memmove(to, from, size);
    return 0;
}
#ifdef __cplusplus
}
#endif
#endif
