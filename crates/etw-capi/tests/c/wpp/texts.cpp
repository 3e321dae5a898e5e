// Strings of C++, a class and a lambda.
#include <evntrace.h>
#include "trace.h"
#include "texts.tmh"

namespace shop {
class Till {
public:
    explicit Till(int start) : total{start} {}
    void add(int price) { DoTraceMessage(Orders, "%!FUNC! %d", total += price); }
    ~Till() noexcept;

private:
    int total;
};

Till::~Till() noexcept
{
    auto last = [&] {
        DoTraceMessage(Orders, "%!FUNC! %d", total);
    };
    last();
}
} // namespace shop

extern "C" int other_file(void)
{
    const std::string narrow = "narrow";
    const std::basic_string<WCHAR> wide(narrow.begin(), narrow.end());
    DoTraceMessage(Orders, "%!str!|%!wstr!|%!sv!|%!wsv!|%!sv!", narrow, wide, std::string_view(narrow),
                   std::basic_string_view<WCHAR>(wide), std::string_view());
    shop::Till till(1);
    till.add(2);
    return DoTraceMessage(Orders, "from another file") ? 0 : 1;
}
