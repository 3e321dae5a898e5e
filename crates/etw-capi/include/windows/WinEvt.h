/* Part of openetw: this name in Windows' capitalisations, too. */
#include "../winevt.h"
