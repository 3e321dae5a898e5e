/* Part of openetw: see ../etw_windows.h. */
#ifndef ETW_WINDOWS_CONIO_H
#define ETW_WINDOWS_CONIO_H
#include "../etw_windows.h"
#define _getch getchar
#endif
