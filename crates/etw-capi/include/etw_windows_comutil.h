/* Part of openetw: see etw_windows.h. _bstr_t, an OLE automation text that frees itself. */
#ifndef ETW_WINDOWS_COMUTIL_H
#define ETW_WINDOWS_COMUTIL_H
#include "windows/specstrings.h"
#include "etw_windows_oleauto.h"
#ifdef __cplusplus
extern "C++" {
class _bstr_t
{
public:
    _bstr_t() : m_text(NULL) {}
    _bstr_t(const OLECHAR *text) : m_text(SysAllocString(text)) {}
    _bstr_t(const _bstr_t &other) : m_text(SysAllocString(other.m_text)) {}
    _bstr_t &operator=(const _bstr_t &other)
    {
        if (this != &other) {
            SysFreeString(m_text);
            m_text = SysAllocString(other.m_text);
        }
        return *this;
    }
    ~_bstr_t() { SysFreeString(m_text); }
    operator OLECHAR *() const { return m_text; }
    /* The place for a function's result, which this object then owns. */
    BSTR *GetAddress()
    {
        SysFreeString(m_text);
        m_text = NULL;
        return &m_text;
    }
    unsigned length() const { return SysStringLen(m_text); }

private:
    BSTR m_text;
};
}
#endif
#endif
