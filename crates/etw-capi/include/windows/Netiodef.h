/* Part of openetw: see ../etw_windows_packets.h. */
#ifndef ETW_WINDOWS_NETIODEF_H
#define ETW_WINDOWS_NETIODEF_H
#include "../etw_windows_packets.h"
#endif
