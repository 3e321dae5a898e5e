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

/* What a session can be set up with; 0: as without. */
typedef struct ETW_SESSION_OPTIONS {
    ULONG Size;         /* of this structure */
    ULONG BufferSizeKB; /* 4 to 16384; 64 */
    ULONG Buffers;      /* 64 */
    ULONG PoolStartKB;  /* memory that threads write to, at the start; 1024 */
    ULONG PoolLimitKB;  /* and at most; 16384 */
} ETW_SESSION_OPTIONS;

/* The same with options, which may be NULL. Without a file (NULL), as many buffers as there are keep the last events in memory,
 * for etw_session_snapshot. */
ULONG etw_session_start_ex(const char *name, const char *file, const ETW_SESSION_OPTIONS *options, ETW_SESSION *session);

/* Wants events of a provider up to a level, with one of the keywords of any (0: all) and every keyword of all. */
ULONG etw_session_enable(ETW_SESSION session, const GUID *provider, UCHAR level, ULONGLONG any,
                         ULONGLONG all);

/* Writes what a session in memory holds to a file, made anew, without stopping it. ERROR_NOT_SUPPORTED of a session with a file. */
ULONG etw_session_snapshot(ETW_SESSION session, const char *file);

/* Counts of all that was written before the call: events that are in buffers or files, and those that were lost. Each may be NULL. */
ULONG etw_session_query(ETW_SESSION session, ULONGLONG *stored, ULONGLONG *lost);

/* Stops it and completes the file; the session is not to be used any more. lost: NULL, or events that were lost. */
ULONG etw_session_stop(ETW_SESSION session, ULONGLONG *lost);

#ifdef __cplusplus
}
#endif

#endif
