/* Part of openetw: see ../etw_windows.h. */
#ifndef ETW_WINDOWS_WS2TCPIP_H
#define ETW_WINDOWS_WS2TCPIP_H
#include "../etw_windows.h"
#endif
