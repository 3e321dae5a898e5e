/* Part of openetw: see etw_windows.h. */
#ifndef ETW_WINDOWS_TCHAR_H
#define ETW_WINDOWS_TCHAR_H
#include "etw_windows.h"
#ifdef UNICODE
#define _tmain wmain
#define _tprintf wprintf
#define _tprintf_s wprintf
#define _ftprintf fwprintf
#define _vtprintf vwprintf
#define _stprintf_s swprintf_s
#define _sntprintf _snwprintf
#define _tcslen wcslen
#define _tcsnlen wcsnlen
#define _tcscpy wcscpy
#define _tcscpy_s wcscpy_s
#define _tcsncpy wcsncpy
#define _tcsncpy_s wcsncpy_s
#define _tcscat wcscat
#define _tcscat_s wcscat_s
#define _tcscmp wcscmp
#define _tcsncmp wcsncmp
#define _tcsicmp _wcsicmp
#define _tcsnicmp _wcsnicmp
#define _tcschr wcschr
#define _tcsrchr wcsrchr
#define _tcsstr wcsstr
#define _tcsdup _wcsdup
#define _tcstol wcstol
#define _tcstoul wcstoul
#define _ttoi _wtoi
#define _ttol _wtoi
#define _tfullpath _wfullpath
#define _putts _putws
#else
#define _tmain main
#define _tprintf printf
#define _tprintf_s printf
#define _ftprintf fprintf
#define _vtprintf vprintf
#define _stprintf_s sprintf_s
#define _sntprintf snprintf
#define _tcslen strlen
#define _tcsnlen strnlen
#define _tcscpy strcpy
#define _tcscpy_s strcpy_s
#define _tcsncpy strncpy
#define _tcsncpy_s strncpy_s
#define _tcscat strcat
#define _tcscat_s strcat_s
#define _tcscmp strcmp
#define _tcsncmp strncmp
#define _tcsicmp _stricmp
#define _tcsnicmp _strnicmp
#define _tcschr strchr
#define _tcsrchr strrchr
#define _tcsstr strstr
#define _tcsdup strdup
#define _tcstol strtol
#define _tcstoul strtoul
#define _ttoi atoi
#define _ttol atol
#define _tfullpath _fullpath
#define _putts puts
#endif
#endif
