/*
 * Forms of C++ that programs for Windows have, from C++11 on: definitions for several files, handles set to NULL, times from halves of a stamp,
 * a search for a provider through COM.
 */
#include <windows.h>

#include <comutil.h>
#include <evntprov.h>
#include <pla.h>
#include <string>
#include <wbemidl.h>

#include "../check.h"

__declspec(selectany) extern const UINT32 shared[] = {1, 2, 3};

static HRESULT text_of(BSTR *text)
{
    *text = SysAllocString(L"owned");
    return *text == nullptr ? E_OUTOFMEMORY : S_OK;
}

/* The provider with this name, as programs ask for it. */
static HRESULT find(const std::wstring &name, GUID *guid)
{
    ITraceDataProviderCollection *providers = nullptr;
    HRESULT result = CoCreateInstance(CLSID_TraceDataProviderCollection, NULL, CLSCTX_SERVER, IID_ITraceDataProviderCollection,
                                      (void **)&providers);
    if (FAILED(result))
        return result;
    ULONG count = 0;
    result = providers->GetTraceDataProviders(NULL);
    if (SUCCEEDED(result))
        result = providers->get_Count((long *)&count);
    VARIANT index;
    index.vt = VT_UI4;
    for (index.ulVal = 0; SUCCEEDED(result) && index.ulVal < count; index.ulVal++) {
        ITraceDataProvider *provider;
        _bstr_t found;
        result = providers->get_Item(index, &provider);
        if (SUCCEEDED(result))
            result = provider->get_DisplayName(found.GetAddress());
        if (SUCCEEDED(result) && wcscmp(found, name.c_str()) == 0)
            result = provider->get_Guid(guid);
        provider->Release();
    }
    IUnknown *base = providers;
    base->Release();
    return result;
}

int main()
{
    REGHANDLE provider = NULL;
    LARGE_INTEGER stamp;
    stamp.QuadPart = 0x100000002;
    FILETIME time = {stamp.LowPart, static_cast<DWORD>(stamp.HighPart)}, same = {stamp.LowPart, stamp.HighPart};
    CHECK_TRUE(provider == 0 && shared[2] == 3);
    CHECK_TRUE(time.dwLowDateTime == 2 && same.dwHighDateTime == 1);
    _bstr_t text(L"replaced");
    CHECK_TRUE(SUCCEEDED(text_of(text.GetAddress())) && wcscmp(text, L"owned") == 0 && text.length() == 5);
    wchar_t wide[4];
    char bytes[4];
    CHECK_TRUE(wcsncpy_s(wide, L"abcdef", 2) == 0 && wcscmp(wide, L"ab") == 0);
    CHECK_TRUE(strncpy_s(bytes, "abcdef", _TRUNCATE) == 0 && strcmp(bytes, "abc") == 0);
    GUID guid = {0, 0, 0, {0}};
    CHECK_TRUE(find(L"A provider", &guid) == REGDB_E_CLASSNOTREG);
    return 0;
}
