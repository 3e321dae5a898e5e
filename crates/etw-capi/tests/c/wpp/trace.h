/* The provider of the WPP test, its functions, and types of its own. */
#ifndef TRACE_H
#define TRACE_H

#define WPP_CONTROL_GUIDS                                                              \
    WPP_DEFINE_CONTROL_GUID(Shop, (c1a551d0, 1111, 2222, 3333, 010203040506),          \
                            WPP_DEFINE_BIT(Orders)                                     \
                            WPP_DEFINE_BIT(Stock)                                      \
                            WPP_DEFINE_BIT(Noise))                                     \
    WPP_DEFINE_CONTROL_GUID(Other, (c1a551d1, 1111, 2222, 3333, 010203040506),         \
                            WPP_DEFINE_BIT(Rest))

#define WPP_LEVEL_FLAGS_LOGGER(lvl, flags) WPP_LEVEL_LOGGER(flags)
#define WPP_LEVEL_FLAGS_ENABLED(lvl, flags) \
    (WPP_LEVEL_ENABLED(flags) && WPP_CONTROL(WPP_BIT_##flags).Level >= lvl)
#define WPP_FLAGS_LEVEL_LOGGER(flags, lvl) WPP_LEVEL_LOGGER(flags)
#define WPP_FLAGS_LEVEL_ENABLED(flags, lvl) WPP_LEVEL_FLAGS_ENABLED(lvl, flags)
#define WPP_LEVEL_FLAGS_EXP_LOGGER(lvl, flags, e) WPP_LEVEL_LOGGER(flags)
#define WPP_LEVEL_FLAGS_EXP_ENABLED(lvl, flags, e) WPP_LEVEL_FLAGS_ENABLED(lvl, flags)

/* The second source's. */
ETW_EXTERN int other_file(void);

/* Bytes with their count. */
typedef struct {
    USHORT size;
    const void *bytes;
} Bytes;
static inline Bytes make_bytes(const void *bytes, int size)
{
    Bytes made;
    made.size = (USHORT)size;
    made.bytes = bytes;
    return made;
}
#define WPP_LOGBYTES(x) WPP_LOGPAIR(2, &(x).size) WPP_LOGPAIR((x).size, (x).bytes)
#define WPP_LOGMAC(x) WPP_LOGPAIR(6, x)
#define WPP_LOGIPV6(x) WPP_LOGPAIR(16, x)

/*
 * begin_wpp config
 * FUNC Log(LEVEL, FLAGS, MSG, ...);
 * FUNC LogError{LEVEL=TRACE_LEVEL_ERROR}(FLAGS, MSG, ...);
 * FUNC Enter{LEVEL=TRACE_LEVEL_VERBOSE}(FLAGS);
 * FUNC Leave{LEVEL=TRACE_LEVEL_VERBOSE}(FLAGS, EXP);
 * FUNC Doubled((LEVEL, FLAGS, MSG, ...));
 * FUNC Inner(FLAGS, LEVEL, (MSG, ...));
 * USEPREFIX(LogError, "%!STDPREFIX!ERROR in %!FUNC! (%!FILE! %!LINE!):%!SPACE!");
 * USEPREFIX(Enter, "%!STDPREFIX!-> %!FUNC!");
 * USEPREFIX(Leave, "%!STDPREFIX!<- %!FUNC!");
 * USESUFFIX(Leave, " = %!STATUS!", EXP);
 * FUNC At{LEVEL=TRACE_LEVEL_ERROR, FLAGS=Stock}(MSG, ...);
 * USEPREFIX(At, "%!STDPREFIX![%s@%u] ", __FILE__, __LINE__);
 * DEFINE_CPLX_TYPE(BYTES, WPP_LOGBYTES, Bytes, ItemHEXDump, "s", _bytes_, 0, 2);
 * DEFINE_CPLX_TYPE(MAC, WPP_LOGMAC, const unsigned char *, ItemMACAddr, "s", _mac_, 0);
 * DEFINE_CPLX_TYPE(IPV6, WPP_LOGIPV6, const unsigned char *, ItemIPV6Addr, "s", _ipv6_, 0);
 * CUSTOM_TYPE(STATE, ItemListLong(Closed,Open,Gone=7));
 * CUSTOM_TYPE(RIGHTS, ItemSetByte(read,write,run));
 * WPP_FLAGS(-DAS_BYTES(p,n)=make_bytes(p,n));
 * end_wpp
 */
#endif
