/* Part of openetw: the same with the capital that programs for Windows often give it. */
#include "../evntprov.h"
