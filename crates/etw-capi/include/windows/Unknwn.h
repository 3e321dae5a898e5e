/* Part of openetw: see ../etw_windows_unknwn.h. */
#include "../etw_windows_unknwn.h"
