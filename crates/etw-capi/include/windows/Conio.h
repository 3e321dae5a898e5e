/* Part of openetw: see ../etw_windows.h. */
#ifndef ETW_WINDOWS_CONIO_H
#define ETW_WINDOWS_CONIO_H
#include "../etw_windows.h"
#define _getch getchar
#define _getwch getchar
#define _getwche getchar
#define _getche getchar
#define getch getchar
/* There is no way to test for a key without waiting, so no key was pressed. */
#define _kbhit() 0
#endif
