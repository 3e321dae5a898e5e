/*
 * Part of openetw: see ../etw_windows.h. No guard: see ../etw_define_guid.h.
 *
 * GUID_NULL belongs to cguid.h; a program that includes this header may have its own.
 */
#include "../etw_windows.h"
#include "../etw_define_guid.h"
#undef GUID_NULL
