/*
 * Threads and synchronisation over pthreads: threads, events, mutexes, critical sections, slim locks, WaitOnAddress. Included by etw_windows.h; programs that use it link with -lpthread.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs. Objects have no names that other processes see.
 */
#ifndef ETW_WINDOWS_THREADS_H
#define ETW_WINDOWS_THREADS_H

#ifdef __cplusplus
extern "C++" {
#endif

#define WAIT_OBJECT_0 0u
#define WAIT_ABANDONED 0x80u
#define WAIT_TIMEOUT 258u
#define WAIT_FAILED 0xffffffffu
#define MAXIMUM_WAIT_OBJECTS 64
#define STILL_ACTIVE 259u
#define CREATE_SUSPENDED 4u
#ifndef INVALID_HANDLE_VALUE
#define INVALID_HANDLE_VALUE ((HANDLE)(LONG_PTR)-1)
#endif

typedef DWORD (*LPTHREAD_START_ROUTINE)(LPVOID);
typedef LPTHREAD_START_ROUTINE PTHREAD_START_ROUTINE;
typedef struct _SECURITY_ATTRIBUTES {
    DWORD nLength;
    LPVOID lpSecurityDescriptor;
    BOOL bInheritHandle;
} SECURITY_ATTRIBUTES, *PSECURITY_ATTRIBUTES, *LPSECURITY_ATTRIBUTES;

/* The object of a handle: signalled when a thread has ended, an event is set, or a mutex has no owner. */
typedef struct etw_object {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_signalled;
    int resets; /* a wait that succeeds resets it */
    int is_mutex;
    int file; /* its descriptor and 1, or 0 */
    int uses; /* the handle, and the thread while it runs */
    DWORD owner, depth;
    DWORD id, code;
    LPTHREAD_START_ROUTINE start;
    LPVOID parameter;
} etw_object;

static inline etw_object *etw_new_object(int is_signalled, int resets)
{
    etw_object *object = (etw_object *)calloc(1, sizeof *object);
    pthread_condattr_t attributes;
    if (object == NULL)
        return object;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&object->lock, NULL);
    pthread_cond_init(&object->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    object->is_signalled = is_signalled;
    object->resets = resets;
    object->uses = 1;
    return object;
}
static inline void etw_release_object(etw_object *object)
{
    int uses;
    pthread_mutex_lock(&object->lock);
    uses = --object->uses;
    pthread_mutex_unlock(&object->lock);
    if (uses > 0)
        return;
    if (object->file > 0)
        close(object->file - 1);
    pthread_cond_destroy(&object->changed);
    pthread_mutex_destroy(&object->lock);
    free(object);
}
static inline BOOL etw_is_object(HANDLE handle)
{
    /* NULL, INVALID_HANDLE_VALUE and the pseudo-handles of this process and thread have no object. */
    if (handle != NULL && (LONG_PTR)handle < 0x1000 && (LONG_PTR)handle > -0x1000)
        handle = NULL;
    if (handle == NULL)
        SetLastError(ERROR_INVALID_HANDLE);
    return handle != NULL;
}
static inline BOOL CloseHandle(HANDLE handle)
{
    if (!etw_is_object(handle))
        return FALSE;
    etw_release_object((etw_object *)handle);
    return TRUE;
}
static inline HANDLE GetCurrentProcess(void) { return (HANDLE)(LONG_PTR)-1; }
static inline HANDLE GetCurrentThread(void) { return (HANDLE)(LONG_PTR)-2; }

/* ---- Events and mutexes ---- */
static inline BOOL etw_signal(HANDLE handle, int is_signalled)
{
    etw_object *object = (etw_object *)handle;
    if (!etw_is_object(handle))
        return FALSE;
    pthread_mutex_lock(&object->lock);
    object->is_signalled = is_signalled;
    pthread_cond_broadcast(&object->changed);
    pthread_mutex_unlock(&object->lock);
    return TRUE;
}
static inline BOOL SetEvent(HANDLE event) { return etw_signal(event, 1); }
static inline BOOL ResetEvent(HANDLE event) { return etw_signal(event, 0); }
static inline HANDLE CreateEventW(LPSECURITY_ATTRIBUTES attributes, BOOL is_manual, BOOL is_set, const WCHAR *name)
{
    (void)attributes, (void)name;
    return etw_new_object(is_set != FALSE, is_manual == FALSE);
}
static inline HANDLE CreateEventA(LPSECURITY_ATTRIBUTES attributes, BOOL is_manual, BOOL is_set, const char *name)
{
    (void)name;
    return CreateEventW(attributes, is_manual, is_set, NULL);
}
static inline HANDLE CreateMutexW(LPSECURITY_ATTRIBUTES attributes, BOOL is_owned, const WCHAR *name)
{
    etw_object *mutex = etw_new_object(is_owned == FALSE, 1);
    (void)attributes, (void)name;
    if (mutex != NULL) {
        mutex->is_mutex = 1;
        mutex->owner = is_owned != FALSE ? GetCurrentThreadId() : 0;
        mutex->depth = is_owned != FALSE;
    }
    return mutex;
}
static inline HANDLE CreateMutexA(LPSECURITY_ATTRIBUTES attributes, BOOL is_owned, const char *name)
{
    (void)name;
    return CreateMutexW(attributes, is_owned, NULL);
}
static inline BOOL ReleaseMutex(HANDLE handle)
{
    etw_object *mutex = (etw_object *)handle;
    BOOL is_owner;
    if (!etw_is_object(handle))
        return FALSE;
    pthread_mutex_lock(&mutex->lock);
    is_owner = mutex->is_mutex && mutex->depth > 0 && mutex->owner == GetCurrentThreadId();
    if (is_owner && --mutex->depth == 0) {
        mutex->owner = 0;
        mutex->is_signalled = 1;
        pthread_cond_broadcast(&mutex->changed);
    }
    pthread_mutex_unlock(&mutex->lock);
    if (!is_owner)
        SetLastError(288u); /* ERROR_NOT_OWNER */
    return is_owner;
}
#ifdef UNICODE
#define CreateEvent CreateEventW
#define CreateMutex CreateMutexW
#else
#define CreateEvent CreateEventA
#define CreateMutex CreateMutexA
#endif

/* ---- Waits ---- */
static inline struct timespec etw_deadline(DWORD ms)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)(ms / 1000);
    end.tv_nsec += (long)(ms % 1000) * 1000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    return end;
}
static inline DWORD WaitForSingleObject(HANDLE handle, DWORD ms)
{
    etw_object *object = (etw_object *)handle;
    const struct timespec end = etw_deadline(ms == INFINITE ? 0 : ms);
    const DWORD self = GetCurrentThreadId();
    int error = 0, is_mine;
    if (!etw_is_object(handle))
        return WAIT_FAILED;
    pthread_mutex_lock(&object->lock);
    is_mine = object->is_mutex && object->depth > 0 && object->owner == self;
    while (!is_mine && !object->is_signalled && error == 0)
        error = ms == INFINITE ? pthread_cond_wait(&object->changed, &object->lock)
                               : pthread_cond_timedwait(&object->changed, &object->lock, &end);
    is_mine = is_mine || object->is_signalled;
    if (is_mine && object->resets)
        object->is_signalled = 0;
    if (is_mine && object->is_mutex) {
        object->owner = self;
        object->depth++;
    }
    pthread_mutex_unlock(&object->lock);
    return is_mine ? WAIT_OBJECT_0 : WAIT_TIMEOUT;
}
#define WaitForSingleObjectEx(handle, ms, alertable) WaitForSingleObject((handle), (ms))
/* Waits for all objects in turn, or polls them each millisecond for the first one. */
static inline DWORD WaitForMultipleObjects(DWORD count, const HANDLE *handles, BOOL waits_for_all, DWORD ms)
{
    const ULONGLONG start = GetTickCount64();
    if (count == 0 || count > MAXIMUM_WAIT_OBJECTS) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return WAIT_FAILED;
    }
    for (DWORD n = 0;;) {
        const ULONGLONG gone = GetTickCount64() - start;
        const DWORD left = ms == INFINITE ? INFINITE : gone < ms ? (DWORD)(ms - gone) : 0;
        const DWORD result = WaitForSingleObject(handles[n], waits_for_all ? left : 0);
        if (result == WAIT_FAILED || (result == WAIT_TIMEOUT && waits_for_all))
            return result;
        if (result == WAIT_OBJECT_0 && (!waits_for_all || n + 1 == count))
            return WAIT_OBJECT_0 + (waits_for_all ? 0 : n);
        if (++n == count) {
            n = 0;
            if (left == 0)
                return WAIT_TIMEOUT;
            Sleep(1);
        }
    }
}

/* ---- Threads ---- */
static inline void *etw_thread(void *context)
{
    etw_object *thread = (etw_object *)context;
    DWORD code;
    pthread_mutex_lock(&thread->lock);
    thread->id = GetCurrentThreadId();
    pthread_cond_broadcast(&thread->changed);
    pthread_mutex_unlock(&thread->lock);
    code = thread->start(thread->parameter);
    pthread_mutex_lock(&thread->lock);
    thread->code = code;
    pthread_mutex_unlock(&thread->lock);
    etw_signal(thread, 1);
    etw_release_object(thread);
    return NULL;
}
static inline HANDLE CreateThread(LPSECURITY_ATTRIBUTES attributes, SIZE_T stack_size, LPTHREAD_START_ROUTINE start,
                                  LPVOID parameter, DWORD flags, DWORD *id)
{
    etw_object *thread;
    pthread_t native;
    (void)attributes, (void)stack_size;
    thread = (flags & CREATE_SUSPENDED) != 0 ? (etw_object *)NULL : etw_new_object(0, 0);
    if (thread == NULL) {
        SetLastError(ERROR_NOT_SUPPORTED);
        return NULL;
    }
    thread->start = start;
    thread->parameter = parameter;
    thread->code = STILL_ACTIVE;
    thread->uses = 2;
    if (pthread_create(&native, NULL, etw_thread, thread) != 0) {
        thread->uses = 1;
        etw_release_object(thread);
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return NULL;
    }
    pthread_detach(native);
    pthread_mutex_lock(&thread->lock);
    while (thread->id == 0)
        pthread_cond_wait(&thread->changed, &thread->lock);
    if (id != NULL)
        *id = thread->id;
    pthread_mutex_unlock(&thread->lock);
    return thread;
}
static inline BOOL GetExitCodeThread(HANDLE handle, DWORD *code)
{
    etw_object *thread = (etw_object *)handle;
    if (!etw_is_object(handle))
        return FALSE;
    pthread_mutex_lock(&thread->lock);
    *code = thread->code;
    pthread_mutex_unlock(&thread->lock);
    return TRUE;
}
static inline DWORD GetThreadId(HANDLE handle) { return etw_is_object(handle) ? ((etw_object *)handle)->id : 0; }
static inline uintptr_t _beginthreadex(void *attributes, unsigned stack_size, unsigned (*start)(void *), void *parameter,
                                       unsigned flags, unsigned *id)
{
    return (uintptr_t)CreateThread((LPSECURITY_ATTRIBUTES)attributes, stack_size, (LPTHREAD_START_ROUTINE)start,
                                   parameter, flags, id);
}
static inline BOOL SwitchToThread(void) { return sched_yield() == 0; }

/* ---- Locks inside a process ---- */
typedef struct _RTL_CRITICAL_SECTION {
    pthread_mutex_t Mutex;
} RTL_CRITICAL_SECTION, *PRTL_CRITICAL_SECTION, CRITICAL_SECTION, *PCRITICAL_SECTION, *LPCRITICAL_SECTION;
static inline void InitializeCriticalSection(LPCRITICAL_SECTION section)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&section->Mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
}
static inline BOOL InitializeCriticalSectionAndSpinCount(LPCRITICAL_SECTION section, DWORD spins)
{
    (void)spins;
    InitializeCriticalSection(section);
    return TRUE;
}
static inline void EnterCriticalSection(LPCRITICAL_SECTION section) { pthread_mutex_lock(&section->Mutex); }
static inline BOOL TryEnterCriticalSection(LPCRITICAL_SECTION section) { return pthread_mutex_trylock(&section->Mutex) == 0; }
static inline void LeaveCriticalSection(LPCRITICAL_SECTION section) { pthread_mutex_unlock(&section->Mutex); }
static inline void DeleteCriticalSection(LPCRITICAL_SECTION section) { pthread_mutex_destroy(&section->Mutex); }

typedef struct _RTL_SRWLOCK {
    pthread_rwlock_t Lock;
} RTL_SRWLOCK, *PRTL_SRWLOCK, SRWLOCK, *PSRWLOCK;
#define RTL_SRWLOCK_INIT {PTHREAD_RWLOCK_INITIALIZER}
#define SRWLOCK_INIT RTL_SRWLOCK_INIT
static inline void InitializeSRWLock(PSRWLOCK lock) { pthread_rwlock_init(&lock->Lock, NULL); }
static inline void AcquireSRWLockExclusive(PSRWLOCK lock) { pthread_rwlock_wrlock(&lock->Lock); }
static inline void ReleaseSRWLockExclusive(PSRWLOCK lock) { pthread_rwlock_unlock(&lock->Lock); }
static inline void AcquireSRWLockShared(PSRWLOCK lock) { pthread_rwlock_rdlock(&lock->Lock); }
static inline void ReleaseSRWLockShared(PSRWLOCK lock) { pthread_rwlock_unlock(&lock->Lock); }

/* Waits until the value at an address differs; the wait may end early. Values of other sizes than 4 bytes are polled each millisecond. */
static inline BOOL WaitOnAddress(volatile void *address, PVOID compare, SIZE_T size, DWORD ms)
{
    struct timespec time;
    DWORD wait = ms;
    uint32_t value;
    if (memcmp((const void *)(uintptr_t)address, compare, size) != 0)
        return TRUE;
    if (size != 4 && ms > 1)
        wait = 1;
    time.tv_sec = (time_t)(wait / 1000);
    time.tv_nsec = (long)(wait % 1000) * 1000000;
    if (size == 4) {
        memcpy(&value, compare, 4);
        if (syscall(SYS_futex, address, FUTEX_WAIT_PRIVATE, value, ms == INFINITE ? NULL : &time, NULL, 0) != 0 &&
            errno == ETIMEDOUT) {
            SetLastError(ERROR_TIMEOUT);
            return FALSE;
        }
        return TRUE;
    }
    nanosleep(&time, NULL);
    if (ms <= 1 && memcmp((const void *)(uintptr_t)address, compare, size) == 0) {
        SetLastError(ERROR_TIMEOUT);
        return FALSE;
    }
    return TRUE;
}
static inline void WakeByAddressSingle(PVOID address) { syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }
static inline void WakeByAddressAll(PVOID address)
{
    syscall(SYS_futex, address, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* ---- Users, modules, texts ---- */
static inline BOOL GetUserNameA(char *to, DWORD *size)
{
    const struct passwd *user = getpwuid(geteuid());
    const char *name = user == NULL ? "unknown" : user->pw_name;
    const DWORD needed = (DWORD)strlen(name) + 1;
    const BOOL fits = needed <= *size;
    *size = needed;
    if (fits)
        memcpy(to, name, needed);
    else
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
    return fits;
}
static inline BOOL GetUserNameW(WCHAR *to, DWORD *size)
{
    char name[256];
    DWORD bytes = sizeof name;
    const int room = (int)*size;
    int needed;
    if (!GetUserNameA(name, &bytes))
        return FALSE;
    needed = MultiByteToWideChar(CP_UTF8, 0, name, -1, NULL, 0);
    *size = (DWORD)needed;
    if (needed > room)
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
    return needed <= room && MultiByteToWideChar(CP_UTF8, 0, name, -1, to, room) > 0;
}
#define GET_MODULE_HANDLE_EX_FLAG_PIN 1u
#define GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT 2u
#define GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS 4u
/* Every address belongs to the module of the program. */
static inline BOOL GetModuleHandleExW(DWORD flags, const WCHAR *name, HMODULE *module)
{
    *module = GetModuleHandleW((flags & GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS) != 0 ? (const WCHAR *)NULL : name);
    return *module != NULL;
}
static inline BOOL GetModuleHandleExA(DWORD flags, const char *name, HMODULE *module)
{
    *module = GetModuleHandleA((flags & GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS) != 0 ? (const char *)NULL : name);
    return *module != NULL;
}
#ifdef UNICODE
#define GetUserName GetUserNameW
#define GetModuleHandleEx GetModuleHandleExW
#else
#define GetUserName GetUserNameA
#define GetModuleHandleEx GetModuleHandleExA
#endif

#define LCMAP_LOWERCASE 0x100u
#define LCMAP_UPPERCASE 0x200u
#define LCMAP_BYTEREV 0x800u
#define LCMAP_LINGUISTIC_CASING 0x1000000u
#define LOCALE_NAME_USER_DEFAULT NULL
#ifndef LOCALE_NAME_INVARIANT
#define LOCALE_NAME_INVARIANT ETW_W("")
#endif
/* Upper and lower case of ASCII, Latin-1, Greek and Cyrillic; other letters and other flags change nothing. */
static inline WCHAR etw_mapped(WCHAR unit, DWORD flags)
{
    const uint32_t c = unit;
    if ((flags & LCMAP_UPPERCASE) != 0) {
        if ((c >= 'a' && c <= 'z') || (c >= 0xe0 && c <= 0xfe && c != 0xf7) || (c >= 0x3b1 && c <= 0x3c9 && c != 0x3c2) ||
            (c >= 0x430 && c <= 0x44f))
            return (WCHAR)(c - 32);
        return c >= 0x450 && c <= 0x45f ? (WCHAR)(c - 80) : c == 0xff ? (WCHAR)0x178 : unit;
    }
    if ((flags & LCMAP_LOWERCASE) != 0) {
        if ((c >= 'A' && c <= 'Z') || (c >= 0xc0 && c <= 0xde && c != 0xd7) || (c >= 0x391 && c <= 0x3a9) ||
            (c >= 0x410 && c <= 0x42f))
            return (WCHAR)(c + 32);
        return c >= 0x400 && c <= 0x40f ? (WCHAR)(c + 80) : unit;
    }
    return unit;
}
static inline int LCMapStringEx(const WCHAR *locale, DWORD flags, const WCHAR *from, int size, WCHAR *to, int room,
                                LPVOID version, LPVOID reserved, LPARAM handle)
{
    const int count = size < 0 ? (int)etw_wcslen(from) + 1 : size;
    (void)locale, (void)version, (void)reserved, (void)handle;
    if (room == 0)
        return count;
    if (room < count) {
        SetLastError(ERROR_INSUFFICIENT_BUFFER);
        return 0;
    }
    for (int n = 0; n < count; n++) {
        const WCHAR unit = etw_mapped(from[n], flags);
        to[n] = (flags & LCMAP_BYTEREV) != 0 ? (WCHAR)__builtin_bswap16((uint16_t)unit) : unit;
    }
    return count;
}

#ifdef __cplusplus
}
#endif
#endif
