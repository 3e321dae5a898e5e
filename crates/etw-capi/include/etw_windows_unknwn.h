/*
 * Part of openetw: see etw_windows.h. The base of COM's interfaces, and __uuidof.
 */
#ifndef ETW_WINDOWS_UNKNWN_H
#define ETW_WINDOWS_UNKNWN_H
#include "etw_windows.h"
#ifdef __cplusplus
extern "C++" {
/* __uuidof(type) */
template <typename Type> struct etw_uuid_of;
#define __uuidof(type) (etw_uuid_of<type>::id())
#define ETW_UUID(type, l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8)                       \
    template <> struct etw_uuid_of<type> {                                              \
        static const GUID &id()                                                         \
        {                                                                               \
            static const GUID guid = {l, w1, w2, {b1, b2, b3, b4, b5, b6, b7, b8}};     \
            return guid;                                                                \
        }                                                                               \
    };

struct IUnknown {
    virtual HRESULT QueryInterface(const IID &id, void **object) = 0;
    virtual ULONG AddRef() = 0;
    virtual ULONG Release() = 0;

protected:
    ~IUnknown() {}
};
typedef IUnknown *LPUNKNOWN;
}
#endif
#endif
