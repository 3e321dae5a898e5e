
#ifndef WPP_ALREADY_INCLUDED

#define WPP_EVAL(x) x
#define WPP_STR(x) #x
#define WPP_STRINGIZE(x) WPP_STR(x)
#define WPP_GLUE(a, b) a##b
#define WPP_GLUE3(a, b, c) a##b##c
#define WPP_GLUE4(a, b, c, d) a##b##c##d
#define WPP_XGLUE(a, b) WPP_GLUE(a, b)
#define WPP_XGLUE3(a, b, c) WPP_GLUE3(a, b, c)
#define WPP_XGLUE4(a, b, c, d) WPP_GLUE4(a, b, c, d)

#ifndef WPP_NO_CONTROL_GUIDS

/*
 * WPP_CONTROL_GUIDS lists the providers and their flags:
 *
 *     #define WPP_CONTROL_GUIDS                                                       \
 *         WPP_DEFINE_CONTROL_GUID(Shop, (c1a551c0,1111,2222,3333,010203040506),       \
 *             WPP_DEFINE_BIT(Orders)                                                  \
 *             WPP_DEFINE_BIT(Stock))
 */
#ifdef WPP_DEFAULT_CONTROL_GUID
#ifdef WPP_CONTROL_GUIDS
#error "Define WPP_CONTROL_GUIDS or WPP_DEFAULT_CONTROL_GUID, not both."
#endif
#define WPP_CONTROL_GUIDS                                        \
    WPP_DEFINE_CONTROL_GUID(Default, (WPP_DEFAULT_CONTROL_GUID), \
                            WPP_DEFINE_BIT(Error) WPP_DEFINE_BIT(Unusual) WPP_DEFINE_BIT(Noise))
#endif
#ifndef WPP_CONTROL_GUIDS
#error "Define WPP_CONTROL_GUIDS before this header: the providers and their flags."
#endif

#define WPP_GUID_NORM(l, w1, w2, w3, ll) l##w1##w2##w3##ll
#define WPP_GUID_TEXT(l, w1, w2, w3, ll) #l "-" #w1 "-" #w2 "-" #w3 "-" #ll
#define WPP_EXTRACT_BYTE(val, n) ((UCHAR)((0x##val##ull >> (8 * (n))) & 0xff))
#define WPP_GUID_STRUCT(l, w1, w2, w3, ll)                        \
    {                                                             \
        0x##l, 0x##w1, 0x##w2,                                    \
        {                                                         \
            WPP_EXTRACT_BYTE(w3, 1), WPP_EXTRACT_BYTE(w3, 0),     \
                WPP_EXTRACT_BYTE(ll, 5), WPP_EXTRACT_BYTE(ll, 4), \
                WPP_EXTRACT_BYTE(ll, 3), WPP_EXTRACT_BYTE(ll, 2), \
                WPP_EXTRACT_BYTE(ll, 1), WPP_EXTRACT_BYTE(ll, 0)  \
        }                                                         \
    }

#ifndef WPP_FORCEINLINE
#define WPP_FORCEINLINE static inline __attribute__((always_inline))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* WPP_CTL_x: the number of a control GUID. */
#define WPP_DEFINE_CONTROL_GUID(Name, Guid, Bits) WPP_XGLUE(WPP_CTL_, WPP_EVAL(Name)),
enum WPP_CTL_NAMES { WPP_CONTROL_GUIDS WPP_LAST_CTL };
#undef WPP_DEFINE_CONTROL_GUID

#define WPP_DEFINE_CONTROL_GUID(Name, Guid, Bits)                                      \
    extern WPP_SHARED const GUID WPP_XGLUE4(WPP_, ThisDir, _CTLGUID_, WPP_EVAL(Name)); \
    const GUID WPP_XGLUE4(WPP_, ThisDir, _CTLGUID_, WPP_EVAL(Name)) = WPP_GUID_STRUCT Guid;
WPP_CONTROL_GUIDS
#undef WPP_DEFINE_CONTROL_GUID

/* WPP_BIT_x: the control GUID in the upper half, the flag's number from 1 in the lower. */
#define WPP_DEFINE_CONTROL_GUID(Name, Guid, Bits)                                              \
    WPP_XGLUE(WPP_BLOCK_START_, WPP_EVAL(Name)) = WPP_XGLUE(WPP_CTL_, WPP_EVAL(Name)) * 0x10000, \
    Bits WPP_XGLUE(WPP_BLOCK_END_, WPP_EVAL(Name)),
#define WPP_DEFINE_BIT(Name) WPP_BIT_##Name,
enum WPP_DEFINE_BIT_NAMES { WPP_CONTROL_GUIDS WPP_LAST_BIT };
#undef WPP_DEFINE_BIT
#undef WPP_DEFINE_CONTROL_GUID

#define WPP_MASK(CTL) (1u << (((CTL)-1) & 31))
#define WPP_FLAG_NO(CTL) ((0xffff & ((CTL)-1)) / 32)
#define WPP_CTRL_NO(CTL) ((CTL) >> 16)

/* A control GUID has at most 32 flags: WPP_TOO_MANY_FLAGS has a negative size otherwise. */
#define WPP_DEFINE_BIT(Name)
#define WPP_DEFINE_CONTROL_GUID(Name, Guid, Bits) \
    &&((WPP_XGLUE(WPP_BLOCK_END_, WPP_EVAL(Name)) & 0xffff) < 34)
typedef char WPP_TOO_MANY_FLAGS[(1 WPP_CONTROL_GUIDS) ? 1 : -1];
#undef WPP_DEFINE_CONTROL_GUID
#undef WPP_DEFINE_BIT
enum { WPP_FLAG_LEN = 1 };

#ifndef WPP_CB
#define WPP_CB WPP_GLOBAL_Control
#endif
#ifndef WPP_CB_TYPE
#define WPP_CB_TYPE WPP_PROJECT_CONTROL_BLOCK
#endif
#ifndef WPP_CHECK_INIT
#define WPP_CHECK_INIT (WPP_CB != (WPP_CB_TYPE *)(void *)&WPP_CB) &&
#endif

typedef union {
    WPP_TRACE_CONTROL_BLOCK Control;
} WPP_CB_TYPE;

/* Its own address before WPP_INIT_TRACING and after WPP_CLEANUP. */
extern WPP_SHARED WPP_CB_TYPE *WPP_CB;
WPP_CB_TYPE *WPP_CB = (WPP_CB_TYPE *)(void *)&WPP_CB;

#ifdef __cplusplus
}
#endif

#define WPP_CONTROL(CTL) (WPP_CB[WPP_CTRL_NO(CTL)].Control)

/* DoTraceMessage's LEVEL is a flag, unless WPP_USE_TRACE_LEVELS is defined. */
#ifdef WPP_USE_TRACE_LEVELS
#ifndef WPP_LEVEL_LOGGER
#define WPP_LEVEL_LOGGER(lvl) (WPP_CONTROL(WPP_BIT_##DUMMY).Logger),
#endif
#ifndef WPP_LEVEL_ENABLED
#define WPP_LEVEL_ENABLED(lvl) (WPP_CONTROL(WPP_BIT_##DUMMY).Level >= lvl)
#endif
#else
#ifndef WPP_LEVEL_LOGGER
#define WPP_LEVEL_LOGGER(CTL) (WPP_CONTROL(WPP_BIT_##CTL).Logger),
#endif
#ifndef WPP_LEVEL_ENABLED
#define WPP_LEVEL_ENABLED(CTL) \
    (WPP_CONTROL(WPP_BIT_##CTL).Flags[WPP_FLAG_NO(WPP_BIT_##CTL)] & WPP_MASK(WPP_BIT_##CTL))
#endif
#endif
#ifndef WPP_FLAG_LOGGER
#define WPP_FLAG_LOGGER(CTL) (WPP_CONTROL(WPP_BIT_##CTL).Logger),
#endif
#ifndef WPP_FLAG_ENABLED
#define WPP_FLAG_ENABLED(CTL) \
    (WPP_CONTROL(WPP_BIT_##CTL).Flags[WPP_FLAG_NO(WPP_BIT_##CTL)] & WPP_MASK(WPP_BIT_##CTL))
#endif
#ifndef WPP_ENABLED
#define WPP_ENABLED() 1
#endif
#ifndef WPP_LOGGER
#define WPP_LOGGER() (WPP_CB[0].Control.Logger),
#endif

#endif /* WPP_NO_CONTROL_GUIDS */

#ifndef WPP_GET_LOGGER
#define WPP_GET_LOGGER Logger
#endif
#ifndef WPP_LOGGER_ARG
#define WPP_LOGGER_ARG TRACEHANDLE Logger,
#endif

#endif /* WPP_ALREADY_INCLUDED */
