/* Part of openetw: see ../etw_windows_pla.h. */
#include "../etw_windows_pla.h"
