/*
 * Part of openetw: see etw_windows.h. Interfaces of WMI, for programs that query MOF classes. They have no implementation here:
 * CoCreateInstance returns REGDB_E_CLASSNOTREG. The functions of tdh.h decode MOF classes.
 */
#ifndef ETW_WINDOWS_WBEMIDL_H
#define ETW_WINDOWS_WBEMIDL_H
#include "etw_windows.h"
#include "etw_windows_oleauto.h"
#include "etw_windows_unknwn.h"

#define WBEM_NO_ERROR S_OK
#define WBEM_S_NO_ERROR S_OK
#define WBEM_S_FALSE S_FALSE
#define WBEM_E_FAILED ((HRESULT)0x80041001)
#define WBEM_E_NOT_FOUND ((HRESULT)0x80041002)
#define WBEM_INFINITE ((LONG)-1)
#define WBEM_FLAG_DEEP 0
#define WBEM_FLAG_SHALLOW 1
#define WBEM_FLAG_FORWARD_ONLY 0x20
#define WBEM_FLAG_RETURN_IMMEDIATELY 0x10
#define WBEM_FLAG_LOCAL_ONLY 0x10
#define WBEM_FLAG_USE_AMENDED_QUALIFIERS 0x20000
#define RPC_C_AUTHN_WINNT 10
#define RPC_C_AUTHZ_NONE 0
#define RPC_C_AUTHN_LEVEL_DEFAULT 0
#define RPC_C_AUTHN_LEVEL_CALL 3
#define RPC_C_AUTHN_LEVEL_PKT 4
#define RPC_C_IMP_LEVEL_IMPERSONATE 3
#define EOAC_NONE 0
typedef enum {
    CIM_EMPTY = 0,
    CIM_SINT16 = 2,
    CIM_SINT32 = 3,
    CIM_REAL32 = 4,
    CIM_REAL64 = 5,
    CIM_STRING = 8,
    CIM_BOOLEAN = 11,
    CIM_OBJECT = 13,
    CIM_SINT8 = 16,
    CIM_UINT8 = 17,
    CIM_UINT16 = 18,
    CIM_UINT32 = 19,
    CIM_SINT64 = 20,
    CIM_UINT64 = 21,
    CIM_DATETIME = 101,
    CIM_REFERENCE = 102,
    CIM_CHAR16 = 103,
    CIM_FLAG_ARRAY = 0x2000
} CIMTYPE_ENUMERATION;

#ifdef __cplusplus
extern "C++" {
struct IWbemContext;
struct IWbemCallResult;
struct IWbemQualifierSet : IUnknown {
    virtual HRESULT Get(LPCWSTR name, LONG flags, VARIANT *value, LONG *flavor) = 0;
};
struct IWbemClassObject : IUnknown {
    virtual HRESULT GetQualifierSet(IWbemQualifierSet **set) = 0;
    virtual HRESULT Get(LPCWSTR name, LONG flags, VARIANT *value, CIMTYPE *type, LONG *flavor) = 0;
    virtual HRESULT GetNames(LPCWSTR qualifier, LONG flags, VARIANT *value, SAFEARRAY **names) = 0;
    virtual HRESULT GetPropertyQualifierSet(LPCWSTR property, IWbemQualifierSet **set) = 0;
};
struct IEnumWbemClassObject : IUnknown {
    virtual HRESULT Next(LONG timeout, ULONG count, IWbemClassObject **objects, ULONG *returned) = 0;
};
struct IWbemServices : IUnknown {
    virtual HRESULT CreateClassEnum(const BSTR superclass, LONG flags, IWbemContext *context,
                                    IEnumWbemClassObject **classes) = 0;
    virtual HRESULT GetObject(const BSTR path, LONG flags, IWbemContext *context, IWbemClassObject **object,
                              IWbemCallResult **result) = 0;
};
struct IWbemLocator : IUnknown {
    virtual HRESULT ConnectServer(const BSTR resource, const BSTR user, const BSTR password, const BSTR locale, LONG flags,
                                  const BSTR authority, IWbemContext *context, IWbemServices **services) = 0;
};
class WbemLocator;
ETW_UUID(WbemLocator, 0x4590f811, 0x1d3a, 0x11d0, 0x89, 0x1f, 0x00, 0xaa, 0x00, 0x4b, 0x2e, 0x24)
ETW_UUID(IWbemLocator, 0xdc12a687, 0x737f, 0x11cf, 0x88, 0x4d, 0x00, 0xaa, 0x00, 0x4b, 0x2e, 0x24)

static inline HRESULT CoSetProxyBlanket(IUnknown *, DWORD, DWORD, OLECHAR *, DWORD, DWORD, PVOID, DWORD)
{
    return E_NOINTERFACE;
}
}
#endif
#endif
