/* A session in memory, and payloads of every size through the fast paths of writes. SESSION_CALLS_OUT names the snapshot. */
#define INITGUID
#include <TraceLoggingProvider.h>
#include <etw_session.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

DEFINE_GUID(Provider, 0x12345678, 0x9abc, 0xdef0, 1, 2, 3, 4, 5, 6, 7, 9);
TRACELOGGING_DEFINE_PROVIDER(Sized, "OpenEtw.Test.Sized", (0x12345678, 0x9abc, 0xdef0, 1, 2, 3, 4, 5, 6, 7, 10));

int main(void)
{
    static unsigned char bytes[4096];
    const char *out = getenv("SESSION_CALLS_OUT");
    const GUID sized = TraceLoggingProviderId(Sized);
    ETW_SESSION_OPTIONS options = {sizeof options, 64, 100, 2048, 4096};
    ETW_SESSION session = NULL;
    ULONGLONG stored = 99, lost = 99;
    EVENT_DESCRIPTOR d;
    EVENT_DATA_DESCRIPTOR data[128];
    REGHANDLE handle = 0;
    unsigned written = 0;
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 7 + 1);
    EventDescCreate(&d, 1, 0, 0, 4, 0, 0, 2);

    CHECK(EventRegister(&Provider, NULL, NULL, &handle), ERROR_SUCCESS);
    CHECK(TraceLoggingRegister(Sized), ERROR_SUCCESS);
    CHECK(etw_session_start_ex("m", NULL, &options, NULL), ERROR_INVALID_PARAMETER);
    CHECK(etw_session_start_ex(NULL, NULL, &options, &session), ERROR_INVALID_PARAMETER);
    CHECK(etw_session_start("m", NULL, &session), ERROR_INVALID_PARAMETER);
    options.Size = 4;
    CHECK(etw_session_start_ex("m", NULL, &options, &session), ERROR_INVALID_PARAMETER);
    options.Size = sizeof options;
    CHECK(etw_session_start_ex("m", NULL, &options, &session), ERROR_SUCCESS);
    CHECK(etw_session_enable(NULL, &Provider, 5, 0, 0), ERROR_INVALID_PARAMETER);
    CHECK(etw_session_enable(session, NULL, 5, 0, 0), ERROR_INVALID_PARAMETER);
    CHECK(etw_session_enable(session, &Provider, 5, 0, 0), ERROR_SUCCESS);
    CHECK(etw_session_enable(session, &sized, 5, 0, 0), ERROR_SUCCESS);

    /* Payloads of each size, in pieces of three sizes; then each number of pieces. */
    for (unsigned size = 0; size < 700; size++) {
        EventDataDescCreate(&data[0], bytes, size / 5);
        EventDataDescCreate(&data[1], bytes + size / 5, size / 2);
        EventDataDescCreate(&data[2], bytes + size / 5 + size / 2, size - size / 5 - size / 2);
        CHECK(EventWriteTransfer(handle, &d, NULL, NULL, 3, data), ERROR_SUCCESS);
        written++;
    }
    d.Id = 2;
    for (unsigned count = 0; count <= 128; count++) {
        for (unsigned i = 0, at = 0; i < count; at += i % 9, i++)
            EventDataDescCreate(&data[i], bytes + at, i % 9);
        CHECK(EventWrite(handle, &d, count, data), ERROR_SUCCESS);
        written++;
    }
    for (uint16_t size = 0; size < 300; size++) {
        TraceLoggingWrite(Sized, "Sized", TraceLoggingLevel(4), TraceLoggingBinary(bytes, size, "Bytes"),
                          TraceLoggingUInt16(size, "Size"));
        /* As a program does that was compiled before etw_begin_site. */
        ETW_TLG_WRITE(CHECK(etw_write_site(etw_provider->RegHandle, &etw_site, (ULONG)etw_pieces_size(etw_data, etw_count),
                                           etw_count, etw_data),
                            ERROR_SUCCESS),
                      Sized, "Sized", TraceLoggingLevel(4), TraceLoggingBinary(bytes, size, "Bytes"),
                      TraceLoggingUInt16(size, "Size"));
        written += 2;
    }
    CHECK(etw_session_query(session, &stored, &lost), ERROR_SUCCESS);
    CHECK(stored, written);
    CHECK(lost, 0);
    CHECK(etw_session_query(session, NULL, NULL), ERROR_SUCCESS);
    CHECK(etw_session_query(NULL, &stored, &lost), ERROR_INVALID_PARAMETER);
    CHECK(etw_session_snapshot(session, NULL), ERROR_INVALID_PARAMETER);
    CHECK(etw_session_snapshot(session, out), ERROR_SUCCESS);
    CHECK(etw_session_stop(session, &lost), ERROR_SUCCESS);
    CHECK(lost, 0);
    CHECK(etw_session_start("f", getenv("SESSION_CALLS_FILE"), &session), ERROR_SUCCESS);
    CHECK(etw_session_snapshot(session, out), ERROR_NOT_SUPPORTED);
    CHECK(etw_session_stop(session, NULL), ERROR_SUCCESS);
    TraceLoggingUnregister(Sized);
    return 0;
}
