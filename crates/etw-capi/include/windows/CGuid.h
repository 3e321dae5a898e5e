/* Part of openetw: see ../etw_windows.h. */
#include "../etw_windows.h"
#undef GUID_NULL
#define GUID_NULL etw_guid_null
