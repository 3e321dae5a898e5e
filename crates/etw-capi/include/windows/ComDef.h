/* Part of openetw: see ../etw_windows.h. */
#ifndef ETW_WINDOWS_COMDEF_H
#define ETW_WINDOWS_COMDEF_H
#include "../etw_windows.h"
#include "oleauto.h"
#endif
