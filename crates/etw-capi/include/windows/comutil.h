/* Part of openetw: see ../etw_windows_comutil.h. */
#include "../etw_windows_comutil.h"
