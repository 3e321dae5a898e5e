/* A program with c-logging's accessors. The sink reads contexts through these functions alone. */
#include <etw_log.h>
#include <etw_session.h>
#include <stdio.h>
#include <stdlib.h>

static const GUID provider = {42, 0, 0, {0}};
static const unsigned char seven = 7;
static const LOG_CONTEXT_PROPERTY_VALUE_PAIR pairs[] = {
    ETW_LOG_STRUCT("opaque", 1), ETW_LOG_PROPERTY(uint8_t, "n", &seven)};

#ifdef __cplusplus
extern "C" {
#endif
uint32_t log_context_get_property_value_pair_count(const void *context);
const void *log_context_get_property_value_pairs(const void *context);
#ifdef __cplusplus
}
#endif

uint32_t log_context_get_property_value_pair_count(const void *context)
{
    return *(const char *)context == 'c' ? 2 : 0;
}

const void *log_context_get_property_value_pairs(const void *context)
{
    return *(const char *)context == 'c' ? pairs : NULL;
}

int main(void)
{
    ETW_SESSION session;
    char opaque[] = "c";
    if (etw_log_sink_set_provider(&provider, "Test.Opaque") != 0 || etw_log_sink_set_channel(16) != 0 ||
        etw_session_start("opaque", getenv("LOG_SINK_OUT"), &session) != 0 ||
        etw_session_enable(session, &provider, 5, 0, 0) != 0 || log_sink_etw.init() != 0)
        return 1;
    ETW_LOG(LOG_LEVEL_INFO, (LOG_CONTEXT_HANDLE)(void *)opaque, "x");
    opaque[0] = 'd';
    ETW_LOG(LOG_LEVEL_INFO, (LOG_CONTEXT_HANDLE)(void *)opaque, "x");
    log_sink_etw.deinit();
    return (int)etw_session_stop(session, NULL);
}
