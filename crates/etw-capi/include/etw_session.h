/*
 * A private session: this process records itself to an .etl file. For other systems than Windows; link with -letw.
 *
 * Part of openetw; not a Windows API.
 */
#ifndef ETW_SESSION_H
#define ETW_SESSION_H

#include "etw_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void *ETW_SESSION;

/* Starts a session that records to a file, made anew. 0, or the status that StartTrace would give. */
ULONG etw_session_start(const char *name, const char *file, ETW_SESSION *session);

/* Wants events of a provider up to a level, with one of the keywords of any (0: all) and every keyword of all. */
ULONG etw_session_enable(ETW_SESSION session, const GUID *provider, UCHAR level, ULONGLONG any,
                         ULONGLONG all);

/* Stops it and completes the file; the session is not to be used any more. lost: NULL, or events that were lost. */
ULONG etw_session_stop(ETW_SESSION session, ULONGLONG *lost);

#ifdef __cplusplus
}
#endif

#endif
