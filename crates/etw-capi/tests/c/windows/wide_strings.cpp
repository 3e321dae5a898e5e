/*
 * std::wstring with -fshort-wchar. If WINDOWS_H is 1, windows.h is included before the C++ library's headers; if 2, after them; if 0, not at
 * all. A program has one file of each kind.
 */
#if WINDOWS_H == 1
#include <windows.h>
#endif
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>
#if WINDOWS_H == 2
#include <windows.h>
#endif

#define NAME_(n) check_##n
#define NAME(n) NAME_(n)
#define CHECK(is_right)                                                          \
    do {                                                                         \
        if (!(is_right)) {                                                       \
            std::fprintf(stderr, "windows.h %d, line %d: %s\n", WINDOWS_H, __LINE__, #is_right); \
            wrong++;                                                             \
        }                                                                        \
    } while (0)

int NAME(WINDOWS_H)()
{
    int wrong = 0;
    const std::wstring text(L"a text that is longer than the memory inside of a string object");
    std::wstring copy(text), part = text.substr(2, 4), number = std::to_wstring(42);
    std::map<std::wstring, int> map;
    CHECK(text.size() == 63 && sizeof(wchar_t) == 2);
    CHECK(text.find(L"longer") == 15 && text.rfind(L't') == 62 && text.find_first_of(L"xyz") == 4);
    CHECK(text.find(L"shorter") == std::wstring::npos);
    CHECK(copy == text && !(copy != text) && copy.compare(L"b") < 0);
    CHECK(part == L"text" && part != L"texts" && part < L"u");
    copy += L", and more";
    CHECK(copy.size() == 73 && copy != text && copy.compare(0, text.size(), text) == 0);
    copy.insert(0, L">>").replace(2, 1, 3, L'b').erase(5, 5).push_back(L'!');
    CHECK(copy.substr(0, 8) == L">>bbb th");
    CHECK(copy.back() == L'!' && copy[copy.size() - 2] == L'e');
    CHECK(number == L"42" && std::stoi(std::wstring(L"17")) == 17);
    map[text] = 1;
    map[copy] = 2;
    CHECK(map.size() == 2 && map[std::wstring(text.c_str())] == 1);
    copy.assign(200, L'x');
    CHECK(copy.size() == 200 && copy.find_first_not_of(L'x') == std::wstring::npos);
    CHECK(std::char_traits<wchar_t>::length(L"four") == 4);
    CHECK(std::hash<std::wstring>()(text) == std::hash<std::wstring>()(std::wstring(text.begin(), text.end())));
    return wrong;
}

#if WINDOWS_H == 0
int check_1();
int check_2();

int main()
{
    return check_0() + check_1() + check_2();
}
#endif
