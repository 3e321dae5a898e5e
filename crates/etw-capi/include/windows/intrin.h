/* Part of openetw: see ../etw_windows.h. Intrinsics: those that windows.h declares, and the processor's from the compiler's own header. */
#ifndef ETW_WINDOWS_INTRIN_H
#define ETW_WINDOWS_INTRIN_H
#include "../etw_windows.h"
#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>
#endif
#endif
