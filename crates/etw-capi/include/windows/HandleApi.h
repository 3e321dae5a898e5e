/* Part of openetw: see ../etw_windows.h. */
#ifndef ETW_WINDOWS_HANDLEAPI_H
#define ETW_WINDOWS_HANDLEAPI_H
#include "../etw_windows.h"
#endif
