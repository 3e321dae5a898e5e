/*
 * DEFINE_GUID declares a GUID. If INITGUID is defined, it defines the GUID, and several files of a program may contain the definition. Each
 * include of this header decides again, since programs define INITGUID before evntrace.h, after windows.h, or by initguid.h.
 *
 * Part of openetw.
 */
#undef DEFINE_GUID
#ifdef INITGUID
#ifdef __cplusplus
#define DEFINE_GUID(name, l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8) \
    extern "C" const GUID name __attribute__((weak));                \
    const GUID name = {l, w1, w2, {b1, b2, b3, b4, b5, b6, b7, b8}}
#else
#define DEFINE_GUID(name, l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8) \
    __attribute__((weak)) const GUID name = {l, w1, w2, {b1, b2, b3, b4, b5, b6, b7, b8}}
#endif
#else
#define DEFINE_GUID(name, l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8) ETW_EXTERN const GUID name
#endif
