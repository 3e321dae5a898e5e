/* Part of openetw: see ../etw_windows_addresses.h. */
#ifndef ETW_WINDOWS_WS2IPDEF_H
#define ETW_WINDOWS_WS2IPDEF_H
#include "../etw_windows_addresses.h"
#endif
