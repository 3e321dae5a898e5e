/* Part of openetw: DEFINE_GUID defines from here on. No guard: see ../etw_define_guid.h. */
#ifndef INITGUID
#define INITGUID
#endif
#include "../etw_windows.h"
#include "../etw_define_guid.h"
