/* Part of openetw: see ../etw_windows.h. */
#ifndef ETW_WINDOWS_VERSIONHELPERS_H
#define ETW_WINDOWS_VERSIONHELPERS_H
#include "../etw_windows.h"
#define IsWindows7OrGreater() TRUE
#define IsWindows8OrGreater() TRUE
#define IsWindows8Point1OrGreater() TRUE
#define IsWindows10OrGreater() TRUE
#define IsWindowsVistaOrGreater() TRUE
#endif
