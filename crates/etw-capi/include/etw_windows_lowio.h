/* Files by number and folders, of <io.h> and <direct.h>. Files have no text mode here. */
#ifndef ETW_WINDOWS_LOWIO_H
#define ETW_WINDOWS_LOWIO_H
#include "etw_windows.h"
#include <sys/stat.h>
#define _O_RDONLY O_RDONLY
#define _O_WRONLY O_WRONLY
#define _O_RDWR O_RDWR
#define _O_APPEND O_APPEND
#define _O_CREAT O_CREAT
#define _O_TRUNC O_TRUNC
#define _O_EXCL O_EXCL
#define _O_BINARY 0
#define _O_TEXT 0
#define _O_U16TEXT 0
#define _O_U8TEXT 0
#define _O_WTEXT 0
#define O_BINARY 0
#define O_TEXT 0
static inline int _access(const char *path, int mode) { return access(path, mode); }
static inline int _isatty(int file) { return isatty(file); }
static inline int _fileno(FILE *file) { return fileno(file); }
static inline int _close(int file) { return close(file); }
static inline int _dup(int file) { return dup(file); }
static inline int _dup2(int file, int to) { return dup2(file, to) < 0 ? -1 : 0; }
static inline int _unlink(const char *path) { return unlink(path); }
static inline int _read(int file, void *to, unsigned size) { return (int)read(file, to, size); }
static inline int _write(int file, const void *from, unsigned size) { return (int)write(file, from, size); }
static inline int _setmode(int file, int mode) { return (void)file, mode; }

static inline int _mkdir(const char *path) { return mkdir(path, 0777); }
static inline int _rmdir(const char *path) { return rmdir(path); }
static inline int _chdir(const char *path) { return chdir(path); }
static inline char *_getcwd(char *to, int size) { return getcwd(to, (size_t)size); }
#endif
