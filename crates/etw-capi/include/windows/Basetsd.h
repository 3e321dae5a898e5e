/* Part of openetw: see ../etw_windows.h. */
#ifndef ETW_WINDOWS_BASETSD_H
#define ETW_WINDOWS_BASETSD_H
#include "../etw_windows.h"
#endif
