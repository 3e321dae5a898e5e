/* StorPort's functions from C, into a private session: STORPORT_OUT names its file. Compiled as C and as C++. */
#include <etw_session.h>
#include <storport_etw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static const GUID provider = {0xc4636a1e, 0x7986, 0x4646, {0xbf, 0x10, 0x7b, 0xc3, 0xb4, 0xa7, 0x6e, 0x8e}};

#define STREAM(extension, address, channel, description, length, data)                            \
    StorPortEtwLogByteStream(extension, address, channel, 7, description,                         \
                             STORPORT_ETW_EVENT_KEYWORD_IO, StorportEtwLevelError,                \
                             StorportEtwEventOpcodeSend, length, data)

int main(void)
{
    ETW_SESSION session;
    int extension = 0;
    unsigned char data[5000] = {1, 2, 3};
    STOR_ADDR_BTL8 unit = {STOR_ADDRESS_TYPE_BTL8, 0, STOR_ADDR_BTL8_ADDRESS_LENGTH, 1, 2, 3, 0};
    PSTOR_ADDRESS address = (PSTOR_ADDRESS)(void *)&unit;
    const ULONG invalid = STOR_STATUS_INVALID_PARAMETER;
    CHECK(sizeof(STOR_ADDR_BTL8), 12);
    CHECK(etw_session_start("storport", getenv("STORPORT_OUT"), &session), 0);
    CHECK(etw_session_enable(session, &provider, 5, 0, 0), 0);
    CHECK(etw_storport_set_adapter(&extension, 4, "mini"), 0);

    CHECK(STREAM(&extension, address, StorportEtwEventOperational, ETW_W("stream"), 3, data), 0);
    CHECK(STREAM(&extension, NULL, StorportEtwEventDiagnostic,
                 ETW_W("12345678901234567890123456789012"), 4096, data), 0);
    CHECK(STREAM(NULL, address, StorportEtwEventHealth, ETW_W("x"), 3, data), invalid);
    CHECK(STREAM(&extension, address, StorportEtwEventHealth, NULL, 3, data), invalid);
    CHECK(STREAM(&extension, address, StorportEtwEventHealth, ETW_W("x"), 3, NULL), invalid);
    CHECK(STREAM(&extension, address, StorportEtwEventHealth, ETW_W("x"), 0, data), invalid);
    CHECK(STREAM(&extension, address, StorportEtwEventHealth, ETW_W("x"), 4097, data), invalid);
    CHECK(STREAM(&extension, address, StorportEtwEventIoPerformance, ETW_W("x"), 3, data), invalid);
    CHECK(STREAM(&extension, address, StorportEtwEventHealth,
                 ETW_W("123456789012345678901234567890123"), 3, data), invalid);
    unit.Type = 2;
    CHECK(STREAM(&extension, address, StorportEtwEventHealth, ETW_W("x"), 3, data), invalid);
    unit.Type = STOR_ADDRESS_TYPE_BTL8;

    CHECK(StorPortEtwEvent2(&extension, address, 8, ETW_W("two"), 0, StorportEtwLevelInformational,
                            StorportEtwEventOpcodeInfo, NULL, ETW_W("a"), 1, NULL, 2), 0);
    CHECK(StorPortEtwEvent4(&extension, NULL, 8, ETW_W("four"), 0, StorportEtwLevelInformational,
                            StorportEtwEventOpcodeInfo, NULL, ETW_W("a"), 1, ETW_W("b"), 2,
                            ETW_W("c"), 3, ETW_W("d"), 4), 0);
    CHECK(StorPortEtwEvent8(&extension, address, 8, ETW_W("eight"), 0, StorportEtwLevelInformational,
                            StorportEtwEventOpcodeInfo, &extension, ETW_W("a"), 1, ETW_W("b"), 2,
                            ETW_W("c"), 3, ETW_W("d"), 4, ETW_W("e"), 5, ETW_W("f"), 6, ETW_W("g"),
                            7, ETW_W("h"), 8), 0);
    CHECK(StorPortEtwEvent2(&extension, address, 8, ETW_W("two"), 0, StorportEtwLevelInformational,
                            StorportEtwEventOpcodeInfo, NULL, ETW_W("12345678901234567"), 1, NULL, 2),
          invalid);
    CHECK(StorPortEtwLogError(&extension, NULL, 9, ETW_W("error"), 3, data), 0);
    CHECK(StorPortEtwLogError(&extension, NULL, 9, ETW_W("error"), 3, NULL), invalid);
    CHECK(etw_session_stop(session, NULL), 0);
    return 0;
}
