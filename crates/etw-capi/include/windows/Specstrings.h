/*
 * Part of openetw: see ../etw_windows.h. The annotations __in and __out, which are names of the C++ library's own: its headers that have
 * them come first.
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
