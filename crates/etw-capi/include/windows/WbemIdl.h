/* Part of openetw: see ../etw_windows_wbemidl.h. */
#include "../etw_windows_wbemidl.h"
