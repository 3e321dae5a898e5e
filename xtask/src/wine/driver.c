/* Writes an event through a header that `etw mc` made, with Microsoft's names alone: it includes headers of Windows only. */
#include <windows.h>
#include "all_types.h"

int main(void)
{
    static const unsigned char sid[12] = {1, 1, 0, 0, 0, 0, 0, 5, 18};
    static const GUID guid = {1, 2, 3, {4}};
    FILETIME time = {1, 2};
    SYSTEMTIME date = {2024, 1, 1, 15, 0, 0, 0, 0};
    ULONG status = EventRegisterOpenEtw_All_Types();
    if (status != ERROR_SUCCESS) return 1;
    status = EventWriteScalars(L"wide", "ansi", -1, 2, -3, 4, -5, 6, -7, 8, 1.5f, 2.5, TRUE, &guid, &guid, &time, &date, (PSID)sid,
                               10, 11, 4, L"cw", 2, "ca", 2, (const unsigned char *)"cb");
    if (status != ERROR_SUCCESS || EventWriteEmpty() != ERROR_SUCCESS) return 2;
    return EventUnregisterOpenEtw_All_Types() == ERROR_SUCCESS ? 0 : 3;
}
