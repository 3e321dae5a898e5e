/* Part of openetw: see ../etw_windows.h. */
#ifndef ETW_WINDOWS_FILEAPI_H
#define ETW_WINDOWS_FILEAPI_H
#include "../etw_windows.h"
#endif
