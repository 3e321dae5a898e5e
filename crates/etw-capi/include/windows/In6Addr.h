/* Part of openetw: see ../etw_windows.h. */
#ifndef ETW_WINDOWS_IN6ADDR_H
#define ETW_WINDOWS_IN6ADDR_H
#include "../etw_windows.h"
#include <netinet/in.h>
#endif
