/*
 * Texts, times, GUIDs, SIDs, messages and modules of the headers for Windows programs. Compiled as C and as C++; in C++, windows.h is included in
 * extern "C", as in some programs. Prints the lines whose check fails.
 */
#ifdef __cplusplus
extern "C" {
#endif
#include <windows.h>
#include <strsafe.h>
#include <sddl.h>
#include <winsock2.h>
#include <tchar.h>
#ifdef __cplusplus
}
#endif
#define INITGUID /* after windows.h, as in many programs */
#include <evntrace.h>
#undef INITGUID
#include <Tdh.h>
#include <guiddef.h>
#include <stdio.h>
#ifdef __cplusplus
#include <comutil.h>
#include <string>
#include <vector>
#endif
#include "count_wrong.h"

/* A GUID of the program. */
static const GUID GUID_NULL = {0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}};

/* Definitions in the form of mc.exe. */
EXTERN_C __declspec(selectany) const EVENT_DESCRIPTOR Selected = {7, 0, 0, 4, 0, 0, 0x5};
EXTERN_C __declspec(selectany) DECLSPEC_CACHEALIGN ULONG SelectedBits[1];
__declspec(selectany) REGHANDLE SelectedHandle = (REGHANDLE)0;

typedef ULONG(__stdcall *FORMAT)(PTRACE_EVENT_INFO, PEVENT_MAP_INFO, ULONG, USHORT, USHORT, USHORT, USHORT, PBYTE, PULONG,
                                 PWCHAR, PUSHORT);
typedef LPWSTR(NTAPI *IPV6)(const IN6_ADDR *, LPWSTR);

static int vformat(PWSTR to, size_t count, PCWSTR format, ...)
{
    va_list arguments;
    int length;
    va_start(arguments, format);
    length = vswprintf_s(to, count, format, arguments);
    va_end(arguments);
    return length;
}

static DWORD vmessage(PWSTR to, DWORD room, PCWSTR text, ...)
{
    va_list arguments;
    DWORD length;
    va_start(arguments, text);
    length = FormatMessageW(FORMAT_MESSAGE_FROM_STRING, text, 0, 0, to, room, &arguments);
    va_end(arguments);
    return length;
}

/* The messages of status codes and HRESULTs, in either width, counted, cut and allocated. */
static void check_system_messages(void)
{
    const DWORD system = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS;
    const DWORD string = FORMAT_MESSAGE_FROM_STRING | FORMAT_MESSAGE_ARGUMENT_ARRAY;
    ULONG_PTR inserts[] = {(ULONG_PTR)(void *)"bytes", 7, (ULONG_PTR)(void *)L"wide"};
    WCHAR units[64], *text = NULL;
    char bytes[64], *copy = NULL;
    CHECK(FormatMessageW(system, NULL, ERROR_ACCESS_DENIED, 0, units, 64, NULL) == 31);
    CHECK(wcscmp(units, L"The caller has no permission.\r\n") == 0);
    CHECK(FormatMessageW(system | FORMAT_MESSAGE_FROM_HMODULE, NULL, (DWORD)E_ACCESSDENIED, 0, units, 64, NULL) == 31);
    CHECK(FormatMessageW(system | FORMAT_MESSAGE_MAX_WIDTH_MASK, NULL, ERROR_FILE_NOT_FOUND, 0, units, 64, NULL) == 25);
    CHECK(FormatMessageW(system, NULL, ERROR_FILE_NOT_FOUND, 0, units, 10, NULL) == 0);
    CHECK(GetLastError() == ERROR_INSUFFICIENT_BUFFER);
    CHECK(FormatMessageW(system | FORMAT_MESSAGE_ALLOCATE_BUFFER, NULL, 4201, 0, (LPWSTR)(void *)&text, 0, NULL) == 39);
    CHECK(text != NULL && text[0] == 'T' && text[38] == '\n' && text[39] == 0);
    LocalFree(text);
    CHECK(FormatMessageA(system, NULL, ERROR_ACCESS_DENIED, 0, bytes, 64, NULL) == 31);
    CHECK(strcmp(bytes, "The caller has no permission.\r\n") == 0);
    CHECK(FormatMessageA(system | FORMAT_MESSAGE_ALLOCATE_BUFFER, NULL, ERROR_CANCELLED, 0, (LPSTR)(void *)&copy, 0, NULL) == 30);
    CHECK(copy != NULL && strcmp(copy, "The operation was cancelled.\r\n") == 0);
    LocalFree(copy);
    CHECK(FormatMessageA(system, NULL, ERROR_ACCESS_DENIED, 0, bytes, 31, NULL) == 0);
    CHECK(GetLastError() == ERROR_INSUFFICIENT_BUFFER);
    /* A text of bytes, with inserts of bytes. */
    CHECK(FormatMessageA(string, "%1 %2!03u! %1!s! %3!ws!", 0, 0, bytes, 64, (va_list *)(void *)inserts) == 20);
    CHECK(strcmp(bytes, "bytes 007 bytes wide") == 0);
    CHECK(FormatMessageA(string | FORMAT_MESSAGE_IGNORE_INSERTS, "%1", 0, 0, bytes, 64, NULL) == 2 && strcmp(bytes, "%1") == 0);
    CHECK(FormatMessageA(string, NULL, 0, 0, bytes, 64, NULL) == 0 && GetLastError() == ERROR_INVALID_PARAMETER);
    /* A code without a text. */
    CHECK(FormatMessageW(system, NULL, 0xdeadbeef, 0, units, 64, NULL) == 0 && GetLastError() == ERROR_MR_MID_NOT_FOUND);
    CHECK(FormatMessageA(system, NULL, 0xdeadbeef, 0, bytes, 64, NULL) == 0 && GetLastError() == ERROR_MR_MID_NOT_FOUND);
}

static void check_texts(void)
{
    WCHAR units[64], *end, *copy;
    char bytes[64];
    size_t left = 0;
    ULONGLONG large = 1;
    large <<= 40;
    CHECK(swprintf_s(units, 64, L"%s|%S|%hs|%ls|%ws|%c|%C", L"a", "b", "c", L"d", L"e", 'f', 'g') == 13);
    CHECK(wcscmp(units, L"a|b|c|d|e|f|g") == 0);
    CHECK(swprintf_s(units, 64, L"%lu %I64u %llx %hu %hd %05d %-4d| %.2x %*s", (ULONG)-1, large, large, 65537, -1, 42, 7, 10,
                     3, L"x") > 0);
    CHECK(wcscmp(units, L"4294967295 1099511627776 10000000000 1 -1 00042 7   | 0a   x") == 0);
    CHECK(_snprintf(bytes, sizeof bytes, "%lu %I64u %s %S %ls %hs", (ULONG)-1, large, "n", L"ü", L"l", "h") == 33);
    CHECK(strcmp(bytes, "4294967295 1099511627776 n ü l h") == 0);
    CHECK(vformat(units, 64, L"%.*s", 2, L"abc") == 2 && wcscmp(units, L"ab") == 0);
    CHECK(_scwprintf(L"%d", 12345) == 5);
    CHECK(StringCbPrintfExW(units, 8, &end, &left, 0, L"%d", 12) == S_OK && end == units + 2 && left == 4);
    CHECK(StringCchPrintfW(units, 3, L"%d", 1234) == STRSAFE_E_INSUFFICIENT_BUFFER && wcscmp(units, L"12") == 0);
    CHECK(StringCchPrintfA(bytes, 8, "%d!", 5) == S_OK && strcmp(bytes, "5!") == 0);
    CHECK(StringCchCopyW(units, 4, L"abcdef") == STRSAFE_E_INSUFFICIENT_BUFFER && wcslen(units) == 3);
    CHECK(StringCbLengthA("abc", 3, &left) != S_OK && StringCbLengthA("abc", 4, &left) == S_OK && left == 3);
    CHECK(wcscpy_s(units, 64, L"one") == 0 && wcscat_s(units, 64, L"-two") == 0 && wcsncpy_s(units, 64, L"three", 2) == 0);
    CHECK(wcscmp(units, L"th") == 0 && _wcsicmp(L"ABC", L"abc") == 0 && wcsncmp(L"abc", L"abd", 2) == 0);
    CHECK(*wcschr(L"a=b", L'=') == L'=' && wcsrchr(L"a/b/c", L'/')[1] == L'c' && wcsstr(L"haystack", L"st") != NULL);
    CHECK(wcsstr(L"haystack", L"no") == NULL && wcstoul(L"0x10 ", &end, 16) == 16 && *end == L' ' && _wtoi(L"-3") == -3);
    copy = _wcsdup(L"copied");
    CHECK(wcscmp(copy, L"copied") == 0);
    free(copy);
    CHECK(_tcslen(_T("four")) == 4 && _tcsicmp(_T("Four"), _T("fOUR")) == 0);
    CHECK(MultiByteToWideChar(CP_UTF8, 0, "ü\xF0\x9F\x98\x80", -1, units, 64) == 4 && units[1] == 0xd83d && units[3] == 0);
    CHECK(MultiByteToWideChar(CP_UTF8, 0, "abc", 3, NULL, 0) == 3 && MultiByteToWideChar(CP_UTF8, 0, "abc", 3, units, 2) == 0);
    CHECK(GetLastError() == ERROR_INSUFFICIENT_BUFFER);
    CHECK(MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, "\xff", 1, units, 64) == 0);
    CHECK(MultiByteToWideChar(CP_UTF8, 0, "\xe2\x82", 2, units, 64) == 2 && units[0] == 0xfffd);
    CHECK(WideCharToMultiByte(CP_UTF8, 0, L"ü€", -1, bytes, sizeof bytes, NULL, NULL) == 6 && strcmp(bytes, "ü€") == 0);
}

static void check_times_and_guids(void)
{
    static const GUID guid = {0x12345678, 0x9abc, 0xdef0, {1, 2, 3, 4, 5, 6, 7, 8}};
    SYSTEMTIME time = {2026, 3, 2, 3, 14, 5, 9, 7};
    WCHAR text[64], *made = NULL;
    GUID read;
    CHECK(GetDateFormatW(LOCALE_USER_DEFAULT, 0, &time, L"yyyy'-'MM'-'dd", text, 64) == 11);
    CHECK(wcscmp(text, L"2026-03-03") == 0);
    CHECK(GetDateFormatW(LOCALE_USER_DEFAULT, 0, &time, L"ddd d MMMM yy", text, 64) == 15);
    CHECK(wcscmp(text, L"Tue 3 March 26") == 0);
    CHECK(GetTimeFormatW(LOCALE_USER_DEFAULT, 0, &time, L"HH':'mm':'ss h tt", text, 64) == 14);
    CHECK(wcscmp(text, L"14:05:09 2 PM") == 0);
    time.wMonth = 13;
    CHECK(GetDateFormatW(LOCALE_USER_DEFAULT, 0, &time, L"d", text, 64) == 0 && GetLastError() == ERROR_INVALID_PARAMETER);
#ifdef __cplusplus
    CHECK(StringFromCLSID(guid, &made) == S_OK);
#else
    CHECK(StringFromCLSID(&guid, &made) == S_OK);
#endif
    CHECK(wcscmp(made, L"{12345678-9ABC-DEF0-0102-030405060708}") == 0);
    CHECK(CLSIDFromString(made, &read) == S_OK && memcmp(&read, &guid, sizeof guid) == 0);
    made[5] = 'g';
    CHECK(CLSIDFromString(made, &read) == CO_E_CLASSSTRING);
    CoTaskMemFree(made);
    CHECK(memcmp(&read, &GUID_NULL, sizeof read) == 0 && EventTraceGuid.Data1 == 0x68fdd900);
    CHECK(Selected.Id == 7 && ((ULONG_PTR)SelectedBits & 63) == 0 && SelectedBits[0] == 0 && SelectedHandle == 0);
    CHECK(HRESULT_CODE(HRESULT_FROM_WIN32(ERROR_NOT_FOUND)) == ERROR_NOT_FOUND && MAKEWORD(0x34, 0x12) == 0x1234);
    CHECK(_byteswap_ushort(0x1234) == 0x3412 && ntohs(0x1234) == 0x3412);
}

static void check_sids(void)
{
    /* S-1-22-1-0: this machine's user 0. */
    BYTE user[] = {1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0, 0, 0, 0, 0}, sid[SECURITY_MAX_SID_SIZE];
    WCHAR name[64], domain[64], *text = NULL;
    DWORD names = 64, domains = 64, size = 4;
    SID_NAME_USE use;
    CHECK(!CreateWellKnownSid(WinBuiltinUsersSid, NULL, sid, &size) && GetLastError() == ERROR_INSUFFICIENT_BUFFER);
    CHECK(size == 16 && CreateWellKnownSid(WinBuiltinUsersSid, NULL, sid, &size) && GetLengthSid(sid) == 16);
    CHECK(ConvertSidToStringSid(sid, &text) && wcscmp(text, L"S-1-5-32-545") == 0);
    LocalFree(text);
    CHECK(LookupAccountSid(NULL, sid, name, &names, domain, &domains, &use) && wcscmp(name, L"Users") == 0);
    CHECK(names == 5 && wcscmp(domain, L"BUILTIN") == 0);
    names = domains = 64;
    CHECK(LookupAccountSid(NULL, user, name, &names, domain, &domains, &use) && use == SidTypeUser);
    CHECK(wcscmp(domain, L"Unix User") == 0 && wcscmp(name, L"root") == 0);
    user[7] = 99;
    CHECK(!LookupAccountSid(NULL, user, name, &names, domain, &domains, &use) && GetLastError() == ERROR_NONE_MAPPED);
    user[0] = 9;
    CHECK(!ConvertSidToStringSid(user, &text) && GetLastError() == ERROR_INVALID_SID);
}

static void check_messages_and_modules(void)
{
    const WCHAR *items[] = {L"one", L"two"};
    WCHAR *text = NULL, units[64];
    HMODULE module = LoadLibraryW(L"Tdh.dll");
    FORMAT format = (FORMAT)GetProcAddress(module, "TdhFormatProperty");
    IPV6 ipv6 = (IPV6)GetProcAddress(GetModuleHandle(L"ntdll"), "RtlIpv6AddressToStringW");
    static const IN6_ADDR address = {{{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}};
    OSVERSIONINFO version;
    DWORD flags = FORMAT_MESSAGE_ALLOCATE_BUFFER | FORMAT_MESSAGE_FROM_STRING | FORMAT_MESSAGE_ARGUMENT_ARRAY;
    CHECK(FormatMessageW(flags, L"%2, %1!5s!.%n%%%0 not", 0, 0, (LPWSTR)(void *)&text, 0, (va_list *)(void *)items) == 14);
    CHECK(text != NULL && wcscmp(text, L"two,   one.\r\n%") == 0);
    LocalFree(text);
    CHECK(vmessage(units, 64, L"%2!u! of %1", L"x", 7) == 6 && wcscmp(units, L"7 of x") == 0);
    CHECK(vmessage(units, 3, L"%1", L"long") == 0 && GetLastError() == ERROR_INSUFFICIENT_BUFFER);
    check_system_messages();
    CHECK(module != NULL && format == TdhFormatProperty && FreeLibrary(module));
    CHECK(GetProcAddress(module, "TdhNothing") == NULL && GetLastError() == ERROR_PROC_NOT_FOUND);
    CHECK(LoadLibraryW(L"other.dll") == NULL && GetLastError() == ERROR_MOD_NOT_FOUND);
    CHECK(ipv6 != NULL && ipv6(&address, units) == units + 11 && wcscmp(units, L"2001:db8::1") == 0);
    memset(&version, 0, sizeof version);
    version.dwOSVersionInfoSize = sizeof version;
    CHECK(GetVersionEx(&version) && version.dwMajorVersion == 10);
}

#ifdef __cplusplus
static ULONG annotated(__in ULONG value, __out PULONG to, __in_opt PVOID none)
{
    *to = value + (none != nullptr);
    return ERROR_SUCCESS;
}

static void check_cpp()
{
    WCHAR units[8];
    ULONG value = 0;
    std::wstring text = L"abc";
    for (int n = 0; n < 100; n++)
        text += L"def";
    CHECK(text.size() == 303 && text.find(L"cdef") == 2 && text.substr(300) == L"def" && text < L"abd");
    CHECK(wcslen(text.c_str()) == 303 && std::wcslen(L"four") == 4 && std::stoi(std::wstring(L"12")) == 12);
    CHECK(swprintf_s(units, L"%d", 1234567) == 7 && wcscpy_s(units, L"eight888") == ERANGE);
    CHECK(annotated(4, &value, NULL) == ERROR_SUCCESS && value == 4);
    PWSTR literal = L"a literal"; // Without a warning.
    CHECK(std::vector<WCHAR>(literal, literal + 9).size() == 9);
}
#endif

int wmain(int argc, WCHAR **argv)
{
    CHECK(argc == 1 && argv[0] != NULL);
    check_texts();
    check_times_and_guids();
    check_sids();
    check_messages_and_modules();
#ifdef __cplusplus
    check_cpp();
#endif
    return wrong;
}
