/*
 * Settings of the program's compilation that reach the log sink: LOG_SINK_ETW_PROVIDER_GUID, and the size of wchar_t. Logs one text of
 * wchar_t, directly followed by other memory.
 */
#define LOG_SINK_ETW_PROVIDER_GUID (0x41fc493d, 0x1bc2, 0x4ea6, 0xbb, 0x02, 0xd9, 0xde, 0xf0, 0xd7, 0xaf, 0x9e)
#include <etw_log.h>
#include <etw_session.h>
#include <stdio.h>
#include <stdlib.h>

static const GUID provider = {0x41fc493d, 0x1bc2, 0x4ea6, {0xbb, 0x02, 0xd9, 0xde, 0xf0, 0xd7, 0xaf, 0x9e}};

int main(void)
{
    static const struct {
        wchar_t text[5];
        wchar_t foreign[9];
    } memory = {L"w\u00fcde", L"foreign!"};
    const LOG_CONTEXT_PROPERTY_VALUE_PAIR pairs[] = {
        ETW_LOG_STRUCT("s", 1), ETW_LOG_PROPERTY(wchar_t_ptr, "w", memory.text)};
    LOG_CONTEXT context = {NULL, 0, (LOG_CONTEXT_PROPERTY_VALUE_PAIR *)(uintptr_t)pairs, 2};
    ETW_SESSION session;
    if (etw_session_start("compilation", getenv("LOG_SINK_OUT"), &session) != 0 ||
        etw_session_enable(session, &provider, 5, 0, 0) != 0 || log_sink_etw.init() != 0)
        return 1;
    ETW_LOG(LOG_LEVEL_INFO, &context, "x");
    log_sink_etw.deinit();
    return (int)etw_session_stop(session, NULL);
}
