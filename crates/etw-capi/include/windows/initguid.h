/* Part of openetw: from here, DEFINE_GUID defines GUIDs. No include guard: see ../etw_define_guid.h. */
#ifndef INITGUID
#define INITGUID
#endif
#include "../etw_windows.h"
#include "../etw_define_guid.h"
