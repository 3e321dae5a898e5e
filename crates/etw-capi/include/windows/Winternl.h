/* Part of openetw: see ../etw_windows_winternl.h. */
#include "../etw_windows_winternl.h"
