/*
 * Part of openetw: see ../etw_windows.h. The annotations __in and __out. The C++ library uses the same names, so its headers that do
 * are included first.
 */
#ifndef ETW_WINDOWS_SPECSTRINGS_H
#define ETW_WINDOWS_SPECSTRINGS_H
#include "../etw_windows.h"
#ifdef __cplusplus
extern "C++" {
#include <algorithm>
#include <iostream>
#include <locale>
#include <memory>
#include <regex>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>
}
#define __in
#define __out
#endif
#endif
