/*
 * Part of openetw: see etw_windows.h. Texts, variants and arrays of OLE automation, for programs that query MOF classes through WMI.
 */
#ifndef ETW_WINDOWS_OLEAUTO_H
#define ETW_WINDOWS_OLEAUTO_H
#include "etw_windows.h"
#ifdef __cplusplus
extern "C++" {
#endif

typedef USHORT VARTYPE;
typedef SHORT VARIANT_BOOL;
typedef LONG CIMTYPE;
enum VARENUM {
    VT_EMPTY = 0,
    VT_NULL = 1,
    VT_I2 = 2,
    VT_I4 = 3,
    VT_R4 = 4,
    VT_R8 = 5,
    VT_BSTR = 8,
    VT_BOOL = 11,
    VT_UI1 = 17,
    VT_UI4 = 19,
    VT_ARRAY = 0x2000
};
typedef struct tagSAFEARRAYBOUND {
    ULONG cElements;
    LONG lLbound;
} SAFEARRAYBOUND;
typedef struct tagSAFEARRAY {
    USHORT cDims;
    USHORT fFeatures;
    ULONG cbElements;
    ULONG cLocks;
    PVOID pvData;
    SAFEARRAYBOUND rgsabound[1];
} SAFEARRAY, *LPSAFEARRAY;
typedef struct tagVARIANT {
    VARTYPE vt;
    WORD wReserved1, wReserved2, wReserved3;
    __extension__ union {
        LONGLONG llVal;
        LONG lVal;
        INT intVal;
        UINT uintVal;
        ULONG ulVal;
        SHORT iVal;
        BYTE bVal;
        FLOAT fltVal;
        DOUBLE dblVal;
        VARIANT_BOOL boolVal;
        BSTR bstrVal;
        SAFEARRAY *parray;
        PVOID byref;
        PVOID reserved[2];
    };
} VARIANT, *LPVARIANT, VARIANTARG;

/* A text follows its length in bytes. */
static inline BSTR SysAllocString(const OLECHAR *text)
{
    const size_t size = text == NULL ? 0 : etw_wcslen(text) * sizeof(OLECHAR);
    char *memory = text == NULL ? (char *)NULL : (char *)malloc(8 + size + sizeof(OLECHAR));
    const uint32_t length = (uint32_t)size;
    if (memory == NULL)
        return NULL;
    memcpy(memory + 4, &length, sizeof length);
    memcpy(memory + 8, text, size + sizeof(OLECHAR));
    return (BSTR)(void *)(memory + 8);
}
static inline void SysFreeString(BSTR text)
{
    if (text != NULL)
        free((char *)(void *)text - 8);
}
static inline UINT SysStringLen(BSTR text)
{
    uint32_t length = 0;
    if (text != NULL)
        memcpy(&length, (char *)(void *)text - 4, sizeof length);
    return (UINT)(length / sizeof(OLECHAR));
}
static inline HRESULT SafeArrayDestroy(SAFEARRAY *array)
{
    if (array != NULL)
        free(array->pvData);
    free(array);
    return S_OK;
}
/* Arrays have one dimension. */
static inline HRESULT SafeArrayGetElement(SAFEARRAY *array, LONG *place, void *element)
{
    LONG at;
    if (array == NULL || place == NULL || element == NULL)
        return E_INVALIDARG;
    at = *place - array->rgsabound[0].lLbound;
    if (array->cDims != 1 || at < 0 || (ULONG)at >= array->rgsabound[0].cElements)
        return (HRESULT)0x8002000b; /* DISP_E_BADINDEX */
    memcpy(element, (char *)array->pvData + (size_t)at * array->cbElements, array->cbElements);
    return S_OK;
}
static inline void VariantInit(VARIANT *variant) { memset(variant, 0, sizeof *variant); }
static inline HRESULT VariantClear(VARIANT *variant)
{
    if (variant == NULL)
        return E_INVALIDARG;
    if (variant->vt == VT_BSTR)
        SysFreeString(variant->bstrVal);
    else if ((variant->vt & VT_ARRAY) != 0)
        SafeArrayDestroy(variant->parray);
    memset(variant, 0, sizeof *variant);
    return S_OK;
}

#ifdef __cplusplus
}
#endif
#endif
