/* Part of openetw: see ../etw_windows.h. */
#ifndef ETW_WINDOWS_STRINGAPISET_H
#define ETW_WINDOWS_STRINGAPISET_H
#include "../etw_windows.h"
#endif
