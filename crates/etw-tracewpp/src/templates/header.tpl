#ifdef WPP_THIS_FILE
#ifndef WPP_ALREADY_INCLUDED
#define WPP_ALREADY_INCLUDED
#endif
#undef WPP_THIS_FILE
#endif
#define WPP_THIS_FILE `SourceFile.CanonicalName`

#if defined(ENABLE_WPP_RECORDER) && ENABLE_WPP_RECORDER
#error "the WPP recorder is not supported: compile without ENABLE_WPP_RECORDER, and messages go to sessions alone"
#endif

#ifndef WPP_ALREADY_INCLUDED

/* Macros of -D and WPP_FLAGS. */
`FORALL def IN MacroDefinitions`
#define `def.Name` `def.Alias`
`ENDFOR`
`IF ControlGuid`
#if !defined(WPP_CONTROL_GUIDS) && !defined(WPP_DEFAULT_CONTROL_GUID)
#define WPP_DEFAULT_CONTROL_GUID `ControlGuid`
#endif
`ENDIF`

/* This header may be included between the braces of extern "C". */
#ifdef __cplusplus
extern "C++" {
#endif
#ifdef _WIN32
#include <windows.h>
#endif
#include <stddef.h>
#include <string.h>
#include <wmistr.h>
#include <evntrace.h>
#ifndef _WIN32
#include <etw_counted_strings.h>
#endif
#ifdef __cplusplus
#include <string>
#include <string_view>
}
#endif

/* One object for all sources of a program or library, and none for others. */
#ifndef WPP_SHARED
#define WPP_SHARED __attribute__((weak, visibility("hidden")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The state of a control GUID. A callback on another thread changes it. */
typedef struct _WPP_TRACE_CONTROL_BLOCK {
    struct _WPP_TRACE_CONTROL_BLOCK *Next;
    TRACEHANDLE UmRegistrationHandle;
    __extension__ union {
        TRACEHANDLE Logger;
        PVOID Ptr;
        struct _WPP_TRACE_CONTROL_BLOCK *Cb;
    };
    UCHAR FlagsLen;
    UCHAR Level;
    USHORT Options;
    ULONG Flags[1];
    LPCGUID ControlGuid;
} WPP_TRACE_CONTROL_BLOCK, *PWPP_TRACE_CONTROL_BLOCK;

#ifndef WPP_TRACE
#define WPP_TRACE TraceMessage
#endif
#ifndef WPP_REGISTER_TRACE_GUIDS
#define WPP_REGISTER_TRACE_GUIDS RegisterTraceGuidsA
#endif
#ifndef WPP_UNREGISTER_TRACE_GUIDS
#define WPP_UNREGISTER_TRACE_GUIDS UnregisterTraceGuids
#endif
#ifndef WPP_GET_TRACE_LOGGER_HANDLE
#define WPP_GET_TRACE_LOGGER_HANDLE GetTraceLoggerHandle
#endif
#ifndef WPP_GET_TRACE_ENABLE_LEVEL
#define WPP_GET_TRACE_ENABLE_LEVEL GetTraceEnableLevel
#endif
#ifndef WPP_GET_TRACE_ENABLE_FLAGS
#define WPP_GET_TRACE_ENABLE_FLAGS GetTraceEnableFlags
#endif

/* Called after each change of a control GUID's state: WPP_PRIVATE_ENABLE_CALLBACK names a function of this type. */
#ifdef WPP_PRIVATE_ENABLE_CALLBACK
typedef VOID (*PFN_WPP_PRIVATE_ENABLE_CALLBACK)(LPCGUID Guid, TRACEHANDLE Logger, BOOLEAN Enable,
                                                ULONG Flags, UCHAR Level);
#endif
/* Called when a controller asks for the program's state. */
#ifdef WPP_CAPTURE_STATE_CALLBACK
typedef VOID (*PFN_WPP_CAPTURE_STATE_CALLBACK)(LPCGUID Guid, TRACEHANDLE Logger, ULONG Flags,
                                               UCHAR Level);
#endif

VOID WppInitUm(void);
VOID WppCleanupUm(void);
/* Takes the arguments of WPP_INIT_TRACING and WPP_CLEANUP: the application's name, or a driver's object and path. */
static inline void WppIgnore(int First, ...) { (void)First; }
#define WPP_CLEANUP(...) WppCleanupUm()
#define WppLoadTracingSupport

#ifdef __cplusplus
}
#endif

#endif /* WPP_ALREADY_INCLUDED */
