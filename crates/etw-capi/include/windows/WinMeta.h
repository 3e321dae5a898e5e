/* Part of openetw: see ../etw_windows_winmeta.h. */
#include "../etw_windows_winmeta.h"
