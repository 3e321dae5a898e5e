/* Part of openetw: see ../etw_windows_oleauto.h. */
#include "../etw_windows_oleauto.h"
