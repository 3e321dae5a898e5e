/* Part of openetw: see ../etw_windows_lowio.h. */
#ifndef ETW_WINDOWS_IO_H
#define ETW_WINDOWS_IO_H
#include "../etw_windows_lowio.h"
#endif
