/*
 * Private sessions: a process records itself to an .etl file. For systems other than Windows; link with -letw.
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

/* Starts a session that records to a file. An existing file is replaced. Returns 0, or the status that StartTrace would return: 183,
 * ERROR_ALREADY_EXISTS, if another private session of the process has the name, in whatever case. */
ULONG etw_session_start(const char *name, const char *file, ETW_SESSION *session);

/* Options of a session. A member of 0 has its default, which stands behind it. */
typedef struct ETW_SESSION_OPTIONS {
    ULONG Size;         /* sizeof(ETW_SESSION_OPTIONS) */
    ULONG BufferSizeKB; /* 4 to 16384; default 64 */
    ULONG Buffers;      /* default 64 */
    ULONG PoolStartKB;  /* size of the pool that threads write to, at the start; default 1024 */
    ULONG PoolLimitKB;  /* largest size of the pool; default 16384 */
} ETW_SESSION_OPTIONS;

/* Starts a session with options, which may be NULL. If file is NULL, the session's buffers keep the last events in memory, and
 * etw_session_snapshot writes them to a file. */
ULONG etw_session_start_ex(const char *name, const char *file, const ETW_SESSION_OPTIONS *options, ETW_SESSION *session);

/* Enables a provider: events up to a level, with at least one keyword of any (0: every event) and with all keywords of all. */
ULONG etw_session_enable(ETW_SESSION session, const GUID *provider, UCHAR level, ULONGLONG any,
                         ULONGLONG all);

/* Writes the events of a session in memory to a file, which is replaced if it exists. The session continues. A session with a file returns
 * ERROR_NOT_SUPPORTED. */
ULONG etw_session_snapshot(ETW_SESSION session, const char *file);

/* Counts the events that were written before the call: those in buffers or files, and those that were lost. Each pointer may be NULL. */
ULONG etw_session_query(ETW_SESSION session, ULONGLONG *stored, ULONGLONG *lost);

/* Stops the session, finalises its file and frees the session. lost receives the number of lost events; it may be NULL. */
ULONG etw_session_stop(ETW_SESSION session, ULONGLONG *lost);

#ifdef __cplusplus
}
#endif

#endif
