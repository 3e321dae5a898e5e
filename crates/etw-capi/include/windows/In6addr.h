/* Part of openetw: see ../etw_windows_addresses.h. */
#ifndef ETW_WINDOWS_IN6ADDR_H
#define ETW_WINDOWS_IN6ADDR_H
#include "../etw_windows_addresses.h"
#endif
