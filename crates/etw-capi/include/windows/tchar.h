/* Part of openetw: see ../etw_windows_tchar.h. */
#include "../etw_windows_tchar.h"
