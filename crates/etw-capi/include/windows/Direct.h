/* Part of openetw: see ../etw_windows.h. */
#ifndef ETW_WINDOWS_DIRECT_H
#define ETW_WINDOWS_DIRECT_H
#include "../etw_windows.h"
#include <sys/stat.h>
static inline int _mkdir(const char *path) { return mkdir(path, 0777); }
static inline int _rmdir(const char *path) { return rmdir(path); }
static inline int _chdir(const char *path) { return chdir(path); }
static inline char *_getcwd(char *to, int size) { return getcwd(to, (size_t)size); }
#endif
