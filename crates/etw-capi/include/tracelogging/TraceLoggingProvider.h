/*
 * Part of openetw: the path and the activity functions of Microsoft's TraceLogging for LTTng, so that its programs need only another
 * include path. An activity id is 16 bytes.
 */
#ifndef ETW_TRACELOGGING_LTTNG_H
#define ETW_TRACELOGGING_LTTNG_H

#ifndef __cplusplus
#include <stdbool.h>
#include <uchar.h>
#endif
#include <string.h>

#include "../TraceLoggingProvider.h"

/* The calling thread's activity id. */
static inline void lttngh_ActivityIdGet(void *id)
{
    GUID now;
    EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_ID, &now);
    memcpy(id, &now, sizeof now);
}
static inline void lttngh_ActivityIdSet(const void *id)
{
    GUID next;
    memcpy(&next, id, sizeof next);
    EventActivityIdControl(EVENT_ACTIVITY_CTRL_SET_ID, &next);
}
/* A new id; the thread's own does not change. */
static inline void lttngh_ActivityIdCreate(void *id)
{
    GUID next;
    EventActivityIdControl(EVENT_ACTIVITY_CTRL_CREATE_ID, &next);
    memcpy(id, &next, sizeof next);
}
#endif
