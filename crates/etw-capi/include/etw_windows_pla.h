/*
 * Part of openetw: see etw_windows.h. The interfaces of Performance Logs and Alerts with which programs look for a provider by its name. They
 * have no implementation here: CoCreateInstance returns REGDB_E_CLASSNOTREG. TdhEnumerateProviders lists the providers that are known.
 */
#ifndef ETW_WINDOWS_PLA_H
#define ETW_WINDOWS_PLA_H
#include "etw_define_guid.h"
#include "etw_windows_oleauto.h"
#include "etw_windows_unknwn.h"
#ifdef __cplusplus
extern "C++" {
struct IDispatch : IUnknown {
};
struct IValueMap;
struct ITraceDataProvider : IDispatch {
    virtual HRESULT get_DisplayName(BSTR *name) = 0;
    virtual HRESULT put_DisplayName(BSTR name) = 0;
    virtual HRESULT get_Guid(GUID *guid) = 0;
    virtual HRESULT put_Guid(GUID guid) = 0;
    virtual HRESULT get_Level(IValueMap **level) = 0;
    virtual HRESULT get_KeywordsAny(IValueMap **keywords) = 0;
    virtual HRESULT get_KeywordsAll(IValueMap **keywords) = 0;
};
struct ITraceDataProviderCollection : IDispatch {
    virtual HRESULT get_Count(LONG *count) = 0;
    virtual HRESULT get_Item(VARIANT index, ITraceDataProvider **provider) = 0;
    virtual HRESULT GetTraceDataProviders(BSTR server) = 0;
    virtual HRESULT GetTraceDataProvidersByProcess(BSTR server, ULONG process) = 0;

    /* On Windows, long has 32 bits, so programs pass (long *). */
    HRESULT get_Count(long *count)
    {
        LONG found = 0;
        const HRESULT result = get_Count(&found);
        *count = found;
        return result;
    }
};
class TraceDataProvider;
class TraceDataProviderCollection;
ETW_UUID(ITraceDataProvider, 0x03837512, 0x098b, 0x11d8, 0x94, 0x14, 0x50, 0x50, 0x54, 0x50, 0x30, 0x30)
ETW_UUID(ITraceDataProviderCollection, 0x03837510, 0x098b, 0x11d8, 0x94, 0x14, 0x50, 0x50, 0x54, 0x50, 0x30, 0x30)
ETW_UUID(TraceDataProvider, 0x03837513, 0x098b, 0x11d8, 0x94, 0x14, 0x50, 0x50, 0x54, 0x50, 0x30, 0x30)
ETW_UUID(TraceDataProviderCollection, 0x03837511, 0x098b, 0x11d8, 0x94, 0x14, 0x50, 0x50, 0x54, 0x50, 0x30, 0x30)
#define IID_ITraceDataProvider __uuidof(ITraceDataProvider)
#define IID_ITraceDataProviderCollection __uuidof(ITraceDataProviderCollection)
#define CLSID_TraceDataProvider __uuidof(TraceDataProvider)
#define CLSID_TraceDataProviderCollection __uuidof(TraceDataProviderCollection)
}
#endif
#endif
