/* Part of openetw: see ../etw_windows.h. */
#ifndef ETW_WINDOWS_DRIVERSPECS_H
#define ETW_WINDOWS_DRIVERSPECS_H
#include "../etw_windows.h"
#include "specstrings.h"
#endif
