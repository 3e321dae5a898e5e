/* What programs do wrong, and at the limits: stale handles, nested callbacks, NULL, sizes, levels, threads that end, and libraries that are
 * unloaded. FOLDER names a folder; the arguments are two libraries. Compiled as C and as C++. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define INITGUID
#include <TraceLoggingProvider.h>
#include <dlfcn.h>
#include <etw_session.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

DEFINE_GUID(Plain, 0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 0x30);
DEFINE_GUID(Inner, 0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 0x31);
DEFINE_GUID(LibraryId, 0x5b4b4b4b, 0x1111, 0x2222, 1, 2, 3, 4, 5, 6, 7, 0x32);

static const char *in_folder(const char *name)
{
    static char path[512];
    CHECK(snprintf(path, sizeof path, "%s/%s", getenv("FOLDER"), name) < (int)sizeof path, 1);
    return path;
}

static ETW_SESSION start(const char *name, const char *file, ULONG buffer_size_kb)
{
    ETW_SESSION_OPTIONS options = {sizeof options, buffer_size_kb, 0, 0, 0};
    ETW_SESSION session = NULL;
    CHECK(etw_session_start_ex(name, file, &options, &session), ERROR_SUCCESS);
    return session;
}

static void stop(ETW_SESSION session, ULONGLONG wanted)
{
    ULONGLONG stored = 0, lost = 99;
    CHECK(etw_session_query(session, &stored, &lost), ERROR_SUCCESS);
    CHECK(stored, wanted);
    CHECK(etw_session_stop(session, &lost), ERROR_SUCCESS);
}

static void handles(void)
{
    REGHANDLE handle = 0, many[200];
    EVENT_DESCRIPTOR d;
    const REGHANDLE wrong[] = {0, 1, 2047, 2048, ~0ull, 1ull << 63};
    EventDescCreate(&d, 1, 0, 0, 4, 0, 0, 2);
    CHECK(EventRegister(&Plain, NULL, NULL, &handle), ERROR_SUCCESS);
    CHECK(EventUnregister(handle), ERROR_SUCCESS);
    for (unsigned n = 0; n <= sizeof wrong / sizeof wrong[0]; n++) {
        const REGHANDLE stale = n == 0 ? handle : wrong[n - 1];
        CHECK(EventWrite(stale, &d, 0, NULL), ERROR_INVALID_HANDLE);
        CHECK(EtwEventWrite(stale, &d, 0, NULL), ERROR_INVALID_HANDLE);
        CHECK(EventWriteEx(stale, &d, 0, 0, NULL, NULL, 0, NULL), ERROR_INVALID_HANDLE);
        CHECK(EventWriteString(stale, 0, 0, ETW_W("text")), ERROR_INVALID_HANDLE);
        CHECK(EventProviderEnabled(stale, 0, 0), 0);
        CHECK(EventEnabled(stale, &d), 0);
        CHECK(EventSetInformation(stale, EventProviderBinaryTrackInfo, NULL, 0), ERROR_INVALID_HANDLE);
        CHECK(EventUnregister(stale), ERROR_INVALID_HANDLE);
    }
    for (int n = 0; n < 200; n++) {
        CHECK(EventRegister(&Plain, NULL, NULL, &many[n]), ERROR_SUCCESS);
        CHECK_TRUE(many[n] != handle && many[n] != 0);
    }
    for (int n = 0; n < 200; n++)
        CHECK(EventUnregister(many[n]), ERROR_SUCCESS);
}

static ETW_SESSION nested_session;
static REGHANDLE outer, inner;
static int depth, deepest, calls;

static VOID NTAPI nest(LPCGUID source, ULONG control, UCHAR level, ULONGLONG any, ULONGLONG all,
                       PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    (void)source, (void)control, (void)any, (void)all, (void)filter, (void)context;
    calls++;
    if (++depth > deepest)
        deepest = depth;
    /* Changes another provider, and this one. */
    if (depth == 1 && level == 5) {
        CHECK(EventRegister(&Inner, nest, NULL, &inner), ERROR_SUCCESS);
        CHECK(etw_session_enable(nested_session, &Inner, 4, 0, 0), ERROR_SUCCESS);
        CHECK(etw_session_enable(nested_session, &Plain, 3, 0, 0), ERROR_SUCCESS);
        CHECK(EventUnregister(inner), ERROR_SUCCESS);
    }
    depth--;
}

static VOID NTAPI end_itself(LPCGUID source, ULONG control, UCHAR level, ULONGLONG any, ULONGLONG all,
                             PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    (void)source, (void)control, (void)level, (void)any, (void)all, (void)filter;
    CHECK(EventUnregister(*(REGHANDLE *)context), ERROR_SUCCESS);
}

static void nested(void)
{
    nested_session = start("nested", NULL, 64);
    CHECK(EventRegister(&Plain, nest, NULL, &outer), ERROR_SUCCESS);
    CHECK(etw_session_enable(nested_session, &Plain, 5, 0, 0), ERROR_SUCCESS);
    CHECK(calls, 3);
    CHECK(deepest, 2);
    CHECK(EventProviderEnabled(outer, 3, 0), 1);
    CHECK(EventProviderEnabled(outer, 4, 0), 0);
    CHECK(EventUnregister(outer), ERROR_SUCCESS);
    /* A callback that unregisters its own registration does not wait for itself. */
    CHECK(EventRegister(&LibraryId, end_itself, &outer, &outer), ERROR_SUCCESS);
    CHECK(etw_session_enable(nested_session, &LibraryId, 4, 0, 0), ERROR_SUCCESS);
    CHECK(EventUnregister(outer), ERROR_INVALID_HANDLE);
    stop(nested_session, 0);
}

static void sizes(void)
{
    enum { HEADER = 80, LARGEST = 65535 - HEADER };
    static char bytes[70000];
    ETW_SESSION session = start("sizes", NULL, 128);
    REGHANDLE handle = 0;
    EVENT_DESCRIPTOR d;
    EVENT_DATA_DESCRIPTOR data[129];
    ULONGLONG stored = 0;
    volatile ULONG count = 1; /* No constant: the library's function. */
    EventDescCreate(&d, 1, 0, 0, 4, 0, 0, 2);
    CHECK(EventRegister(&Plain, NULL, NULL, &handle), ERROR_SUCCESS);
    CHECK(EventWrite(handle, &d, 5, NULL), ERROR_SUCCESS); /* No session enabled it. */
    CHECK(etw_session_enable(session, &Plain, 5, 0, 0), ERROR_SUCCESS);
    CHECK(EventWrite(handle, NULL, 0, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EtwEventWrite(handle, &d, 1, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EventWriteEx(handle, &d, 0, 0, NULL, NULL, 1, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EventWriteString(handle, 0, 0, (PCWSTR)NULL), ERROR_INVALID_PARAMETER);
    CHECK(EventWrite(handle, &d, 0, data), ERROR_SUCCESS);
    stored++;
    CHECK(EtwEventWrite(handle, &d, 0, NULL), ERROR_SUCCESS);
    stored++;
    for (int n = 0; n < 129; n++)
        EventDataDescCreate(&data[n], NULL, 0);
    CHECK(EventWrite(handle, &d, 3, data), ERROR_SUCCESS);
    stored++;
    CHECK(EtwEventWrite(handle, &d, 128, data), ERROR_SUCCESS);
    stored++;
    CHECK(EventWriteEx(handle, &d, 0, 0, NULL, NULL, 128, data), ERROR_SUCCESS);
    stored++;
    CHECK(EtwEventWrite(handle, &d, 129, data), ERROR_INVALID_PARAMETER);
    CHECK(EtwEventWrite(handle, &d, ~0u, data), ERROR_INVALID_PARAMETER);
    for (int n = 0; n < 4; n++) {
        static const ULONG of[] = {LARGEST, LARGEST + 1, 65536, 70000};
        const ULONG status = n == 0 ? ERROR_SUCCESS : ERROR_ARITHMETIC_OVERFLOW;
        EventDataDescCreate(&data[0], bytes, of[n]);
        CHECK(EventWrite(handle, &d, 1, data), status);
        CHECK(EventWrite(handle, &d, count, data), status);
        CHECK(EventWriteEx(handle, &d, 0, 0, NULL, NULL, 1, data), status);
        stored += n == 0 ? 3 : 0;
        /* In pieces. */
        EventDataDescCreate(&data[0], bytes, of[n] - 7);
        EventDataDescCreate(&data[1], bytes, 7);
        CHECK(EventWrite(handle, &d, 2, data), status);
        stored += n == 0;
    }
    /* Sizes that are not there are not read. */
    for (int n = 0; n < 128; n++)
        EventDataDescCreate(&data[n], bytes, ~0u);
    CHECK(EventWrite(handle, &d, 1, data), ERROR_ARITHMETIC_OVERFLOW);
    CHECK(EtwEventWrite(handle, &d, 128, data), ERROR_ARITHMETIC_OVERFLOW);
    CHECK(EventWriteEx(handle, &d, 0, 0, NULL, NULL, 128, data), ERROR_ARITHMETIC_OVERFLOW);
    CHECK(EventUnregister(handle), ERROR_SUCCESS);
    stop(session, stored);
}

static void levels(void)
{
    static const UCHAR of[] = {0, 1, 5, 254, 255};
    static const ULONGLONG masks[] = {0, 1, 1ull << 47, 1ull << 48, 1ull << 63, ~0ull};
    ETW_SESSION session = start("levels", NULL, 64);
    REGHANDLE handle = 0;
    ULONGLONG stored = 0;
    CHECK(EventRegister(&Plain, NULL, NULL, &handle), ERROR_SUCCESS);
    for (int l = 0; l < 5; l++)
        for (int m = 0; m < 6; m++) {
            CHECK(etw_session_enable(session, &Plain, of[l], masks[m], 0), ERROR_SUCCESS);
            for (int level = 0; level < 5; level++)
                for (int keyword = 0; keyword < 6; keyword++) {
                    const int wanted = (of[l] == 0 || of[level] <= of[l]) &&
                                       (masks[keyword] == 0 || masks[m] == 0 || (masks[keyword] & masks[m]) != 0);
                    EVENT_DESCRIPTOR d;
                    EventDescCreate(&d, 1, 0, 0, of[level], 0, 0, masks[keyword]);
                    CHECK(EventEnabled(handle, &d), wanted);
                    CHECK(EventProviderEnabled(handle, of[level], masks[keyword]), wanted);
                    CHECK(EventWrite(handle, &d, 0, NULL), ERROR_SUCCESS);
                    stored += (ULONGLONG)wanted;
                }
        }
    CHECK(EventUnregister(handle), ERROR_SUCCESS);
    stop(session, stored);
}

static int is_zero(const GUID *id)
{
    static const GUID zero = {0, 0, 0, {0}};
    return memcmp(id, &zero, sizeof zero) == 0;
}

static void activity_codes(void)
{
    GUID ours = {1, 2, 3, {4}}, id = ours, made;
    for (ULONG code = 0; code < 8; code++)
        CHECK(EventActivityIdControl(code, NULL), ERROR_INVALID_PARAMETER);
    CHECK(EventActivityIdControl(0, &id), ERROR_INVALID_PARAMETER);
    CHECK(EventActivityIdControl(6, &id), ERROR_INVALID_PARAMETER);
    CHECK(EventActivityIdControl(~0u, &id), ERROR_INVALID_PARAMETER);
    CHECK(memcmp(&id, &ours, sizeof id), 0);
    CHECK(EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_SET_ID, &id), ERROR_SUCCESS);
    CHECK(is_zero(&id), 1);
    CHECK(EventActivityIdControl(EVENT_ACTIVITY_CTRL_CREATE_ID, &made), ERROR_SUCCESS);
    CHECK(is_zero(&made), 0);
    CHECK(EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_ID, &id), ERROR_SUCCESS);
    CHECK(memcmp(&id, &ours, sizeof id), 0);
    CHECK(EventActivityIdControl(EVENT_ACTIVITY_CTRL_CREATE_SET_ID, &id), ERROR_SUCCESS);
    CHECK(memcmp(&id, &ours, sizeof id), 0);
    CHECK(EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_ID, &id), ERROR_SUCCESS);
    CHECK_TRUE(!is_zero(&id) && memcmp(&id, &ours, sizeof id) != 0 && memcmp(&id, &made, sizeof id) != 0);
    memset(&id, 0, sizeof id);
    CHECK(EventActivityIdControl(EVENT_ACTIVITY_CTRL_SET_ID, &id), ERROR_SUCCESS);
}

static REGHANDLE shared;
static ULONGLONG written;

/* A thread that ends with its last event. */
static void *write_and_end(void *unused)
{
    EVENT_DESCRIPTOR d;
    EventDescCreate(&d, 1, 0, 0, 4, 0, 0, 2);
    for (int n = 0; n < 20; n++) {
        const ULONG status = EventWrite(shared, &d, 0, NULL);
        CHECK_TRUE(status == ERROR_SUCCESS || status == ERROR_INVALID_HANDLE);
    }
    __atomic_add_fetch(&written, 20, __ATOMIC_RELAXED);
    return unused;
}

static void ending_threads(void)
{
    for (int round = 0; round < 30; round++) {
        ETW_SESSION session = start("threads", NULL, 64), other = start("other", NULL, 64);
        pthread_t threads[16];
        ULONGLONG stored = 0, lost = 99;
        written = 0;
        CHECK(EventRegister(&Plain, NULL, NULL, &shared), ERROR_SUCCESS);
        CHECK(etw_session_enable(session, &Plain, 5, 0, 0), ERROR_SUCCESS);
        CHECK(etw_session_enable(other, &Plain, 5, 0, 0), ERROR_SUCCESS);
        for (int n = 0; n < 16; n++)
            CHECK(pthread_create(&threads[n], NULL, write_and_end, NULL), 0);
        /* One session stops while the threads write and end, and in each third round the registration ends. */
        CHECK(etw_session_stop(other, &lost), ERROR_SUCCESS);
        CHECK(lost, 0);
        if (round % 3 == 0)
            CHECK(EventUnregister(shared), ERROR_SUCCESS);
        for (int n = 0; n < 16; n++)
            CHECK(pthread_join(threads[n], NULL), 0);
        CHECK(etw_session_query(session, &stored, &lost), ERROR_SUCCESS);
        CHECK(lost, 0);
        if (round % 3 != 0) {
            CHECK(stored, written);
            CHECK(EventUnregister(shared), ERROR_SUCCESS);
        }
        CHECK(etw_session_stop(session, &lost), ERROR_SUCCESS);
        CHECK(lost, 0);
    }
}

/* Libraries come and go, mostly to the same addresses. */
static void libraries(char **paths)
{
    ETW_SESSION session = start("libraries", in_folder("libraries.etl"), 64);
    CHECK(etw_session_enable(session, &LibraryId, 5, 0, 0), ERROR_SUCCESS);
    for (int round = 0; round < 20; round++) {
        void *library = dlopen(paths[round % 2], RTLD_NOW | RTLD_LOCAL);
        union {
            void *address;
            int (*call)(int);
        } run;
        CHECK_TRUE(library != NULL);
        run.address = dlsym(library, "run");
        CHECK_TRUE(run.address != NULL);
        CHECK(run.call(round), 0);
        CHECK(dlclose(library), 0);
        /* Nothing leads into the library any more. */
        CHECK(etw_session_enable(session, &LibraryId, (UCHAR)(4 + round % 2), 0, 0), ERROR_SUCCESS);
    }
    CHECK(etw_session_stop(session, NULL), ERROR_SUCCESS);
}

int main(int count, char **arguments)
{
    CHECK(count, 3);
    handles();
    nested();
    sizes();
    levels();
    activity_codes();
    ending_threads();
    libraries(arguments + 1);
    return 0;
}
