/* Part of openetw: see ../etw_windows_ntstatus.h. */
#include "../etw_windows_ntstatus.h"
