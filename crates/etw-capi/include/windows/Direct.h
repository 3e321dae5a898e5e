/* Part of openetw: see ../etw_windows_lowio.h. */
#ifndef ETW_WINDOWS_DIRECT_H
#define ETW_WINDOWS_DIRECT_H
#include "../etw_windows_lowio.h"
#endif
