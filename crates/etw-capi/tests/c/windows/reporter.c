/* Reports as a service for Windows writes them. Prints 1 for each call that worked. */
#include <stdio.h>
#include <windows.h>

int wmain(int argc, wchar_t **argv)
{
    const WCHAR *strings[2] = {L"first", L"gr\u00fc\u00dfe"};
    const char *bytes[1] = {"plain"};
    unsigned char data[3] = {1, 2, 3};
    HANDLE source = RegisterEventSource(NULL, L"Reporter");
    (void)argc;
    (void)argv;
    printf("%d", source != NULL);
    printf("%d", ReportEvent(source, EVENTLOG_ERROR_TYPE, 3, 0xC0000007, NULL, 2, 3, strings, data));
    printf("%d", ReportEventA(source, EVENTLOG_WARNING_TYPE, 0, 8, NULL, 1, 0, bytes, NULL));
    printf("%d", !ReportEvent(NULL, EVENTLOG_SUCCESS, 0, 1, NULL, 0, 0, NULL, NULL) &&
                     GetLastError() == ERROR_INVALID_HANDLE);
    printf("%d\n", DeregisterEventSource(source));
    return 0;
}
