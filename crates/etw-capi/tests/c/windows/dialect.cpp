/*
 * Forms of C++ that Microsoft's compiler accepts and the standard does not; clang accepts them with flags. Prints the lines whose check fails.
 */
#include <windows.h>
#include <evntrace.h>
#include <TraceLoggingProvider.h>
#include <cstdio>
#include <functional>
#include <string>

TRACELOGGING_DEFINE_PROVIDER(Provider, "Dialect", (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));

struct Key {
    int number;
};
namespace std
{
template <> struct std::hash<Key> {
    size_t operator()(const Key &key) const { return (size_t)key.number; }
};
}

template <typename T> class Trace
{
    int m_number = 7;
    template <typename T> friend class Manager;
    friend typename T;
};
template <typename Of> class Manager
{
public:
    static int number(const Trace<Of> &trace) { return trace.m_number; }
};
struct User {
    static int number(const Trace<User> &trace) { return trace.m_number; }
};

struct property {
    int number;
};
struct Schema {
    property property;
};

int main()
{
    const Trace<User> trace;
    const Schema schema = {{3}};
    const std::wstring text(L"a text of 16-bit units");
    const std::wstring numbers[] = {text + L"1", text + L"2"};
    int wrong = 0;
    wrong += User::number(trace) != 7 || Manager<User>::number(trace) != 7;
    wrong += schema.property.number != 3 || std::hash<Key>()(Key{5}) != 5;
    wrong += sizeof(wchar_t) != 2 || text.find(L"16") != 10 || !(numbers[0] < numbers[1]);
    wrong += std::string(__FUNCSIG__).find("main") == std::string::npos || _rotl(1u, 31) != 0x80000000u;
    wrong += TraceLoggingRegister(Provider) != 0;
    TraceLoggingWrite(Provider, "E", TraceLoggingValue(text.c_str(), "t"), TraceLoggingLong(5L));
    TraceLoggingUnregister(Provider);
    if (wrong != 0)
        fprintf(stderr, "%d wrong\n", wrong);
    return wrong;
}
