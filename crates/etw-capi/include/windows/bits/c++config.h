/*
 * Part of openetw: libstdc++'s own configuration, which each of its headers includes first. With -fshort-wchar, std::wstring is compiled
 * into the program, since libstdc++ contains it for a wchar_t of 32 bits.
 */
#pragma GCC system_header
#include_next <bits/c++config.h>
#if __SIZEOF_WCHAR_T__ == 2
#undef _GLIBCXX_EXTERN_TEMPLATE
#define _GLIBCXX_EXTERN_TEMPLATE 0
#endif
