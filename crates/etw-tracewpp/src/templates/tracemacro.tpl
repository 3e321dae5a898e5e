
#ifdef WPP_ALREADY_INCLUDED
#undef WPP_LOCAL_TraceGuids
#else

#define WPP_FLATTEN(...) __VA_ARGS__
#define WPP_GLUE5(a, b, c, d, e) a##b##c##d##e
#define WPP_XGLUE5(a, b, c, d, e) WPP_GLUE5(a, b, c, d, e)
#define WPP_(Id) WPP_XGLUE5(WPP_, Id, _, WPP_THIS_FILE, __LINE__)

#ifndef WPP_INLINE
#define WPP_INLINE static inline
#endif
#if !defined(NO_CHECK_FOR_NULL_STRING) && !defined(WPP_CHECK_FOR_NULL_STRING)
#define WPP_CHECK_FOR_NULL_STRING
#endif

#ifndef WPP_TRACE_OPTIONS
enum {
    WPP_TRACE_OPTIONS = TRACE_MESSAGE_SEQUENCE | TRACE_MESSAGE_GUID | TRACE_MESSAGE_SYSTEMINFO |
                        TRACE_MESSAGE_TIMESTAMP
};
#endif

/* Pairs of address and size, for TraceMessage. */
#ifndef WPP_LOGPAIR_SEPARATOR
#define WPP_LOGPAIR_SEPARATOR ,
#endif
#ifndef WPP_LOGPAIR_SIZET
#define WPP_LOGPAIR_SIZET SIZE_T
#endif
#ifndef WPP_LOGPAIR
#define WPP_LOGPAIR(_Size, _Addr) (_Addr), ((WPP_LOGPAIR_SIZET)(_Size))WPP_LOGPAIR_SEPARATOR
#endif
#define WPP_LOGTYPEVAL(_Type, _Value) WPP_LOGPAIR(sizeof(_Type), &(_Value))
#define WPP_LOGTYPEPTR(_Value) WPP_LOGPAIR(sizeof(*(_Value)), (_Value))
#ifndef WPP_LOGPGUID
#define WPP_LOGPGUID(_Value) WPP_LOGPAIR(sizeof(GUID), (_Value))
#endif

#ifdef WPP_CHECK_FOR_NULL_STRING
#define WPP_OR_NULL(_Value, _Text) ((_Value) ? (const void *)(_Value) : (const void *)(_Text))
#define WPP_HAS(_Value) ((_Value) != NULL)
#else
#define WPP_OR_NULL(_Value, _Text) ((const void *)(_Value))
#define WPP_HAS(_Value) 1
#endif

WPP_INLINE SIZE_T WppWideSize(LPCWSTR Text)
{
    SIZE_T Count = 0;
    while (Text[Count] != 0)
        Count++;
    return (Count + 1) * sizeof(*Text);
}
/* A SID that is none is logged as the text NULL. */
WPP_INLINE SIZE_T WppSidSize(const void *Sid)
{
    const UCHAR *Bytes = (const UCHAR *)Sid;
    return Bytes != NULL && Bytes[0] == 1 && Bytes[1] <= 15 ? 8 + 4 * (SIZE_T)Bytes[1] : 5;
}
WPP_INLINE const void *WppSid(const void *Sid)
{
    return WppSidSize(Sid) == 5 ? (const void *)"NULL" : Sid;
}
#define WPP_IsValidSid(_Sid) (WppSidSize(_Sid) != 5)
#define WPP_GetLengthSid(_Sid) ((ULONG)WppSidSize(_Sid))

#ifndef WPP_LOGASTR
#define WPP_LOGASTR(_Value) \
    WPP_LOGPAIR(WPP_HAS(_Value) ? strlen(_Value) + 1 : 5, WPP_OR_NULL(_Value, "NULL"))
#endif
#ifndef WPP_LOGWSTR
#define WPP_LOGWSTR(_Value) \
    WPP_LOGPAIR(WPP_HAS(_Value) ? WppWideSize(_Value) : 10, WPP_OR_NULL(_Value, u"NULL"))
#endif
#ifndef WPP_LOGPSID
#define WPP_LOGPSID(_Value) WPP_LOGPAIR(WppSidSize(_Value), WppSid(_Value))
#endif
/* Counted strings: two bytes of size, and the text. */
#ifndef WPP_LOGCSTR
#define WPP_LOGCSTR(_Value)                        \
    WPP_LOGPAIR(sizeof(USHORT), &(_Value).Length) \
    WPP_LOGPAIR((_Value).Length, (_Value).Length ? (const void *)(_Value).Buffer : (const void *)"")
#endif
#ifndef WPP_LOGUSTR
#define WPP_LOGUSTR(_Value) WPP_LOGCSTR(_Value)
#endif
static const USHORT WPP_NULL_SIZES[2] = {4, 8};
#ifdef WPP_CHECK_FOR_NULL_STRING
#define WPP_LOGCOUNTED(_Value, _Size, _Text)                                                          \
    WPP_LOGPAIR(sizeof(USHORT), (_Value) ? &(_Value)->Length : &WPP_NULL_SIZES[(_Size) / 8])          \
    WPP_LOGPAIR((_Value) ? (_Value)->Length : (_Size),                                                \
                (_Value) && (_Value)->Length ? (const void *)(_Value)->Buffer : (const void *)(_Text))
#else
#define WPP_LOGCOUNTED(_Value, _Size, _Text) WPP_LOGCSTR(*(_Value))
#endif
#ifndef WPP_LOGPUSTR
#define WPP_LOGPUSTR(_Value) WPP_LOGCOUNTED(_Value, 8, u"NULL")
#endif
#ifndef WPP_LOGPCSTR
#define WPP_LOGPCSTR(_Value) WPP_LOGCOUNTED(_Value, 4, "NULL")
#endif
#ifdef __cplusplus
/* A number that lives until the end of the call. */
struct WppSizeOfText {
    USHORT Size;
    explicit WppSizeOfText(SIZE_T Bytes) : Size((USHORT)(Bytes < 65534 ? Bytes : 65534)) {}
    const USHORT *get() const { return &Size; }
};
#define WPP_LOGTEXTOBJECT(_Value, _Data)                                                        \
    WPP_LOGPAIR(sizeof(USHORT), WppSizeOfText((_Value).size() * sizeof(*(_Data))).get())        \
    WPP_LOGPAIR(WppSizeOfText((_Value).size() * sizeof(*(_Data))).Size,                         \
                (_Value).size() ? (const void *)(_Data) : (const void *)"")
#ifndef WPP_LOGCPPSTR
#define WPP_LOGCPPSTR(_Value) WPP_LOGTEXTOBJECT(_Value, (_Value).c_str())
#endif
#ifndef WPP_LOGCPPVEC
#define WPP_LOGCPPVEC(_Value) WPP_LOGTEXTOBJECT(_Value, (_Value).data())
#endif
#endif

/* The value of a trace call that wrote: compilers then miss no use of it. */
WPP_INLINE int WppWritten(void) { return 1; }

/* WPP_LOG_ALWAYS(EX, MSG, ...) stands before each call, and brings its own comma or semicolon. */
#ifndef WPP_LOG_ALWAYS
#define WPP_LOG_ALWAYS(...)
#endif
/* WPP_DEBUG((MSG, ...)) is evaluated for each message that is enabled. */
#ifdef WPP_DEBUG
#define WPP_INVOKE_WPP_DEBUG(MsgArgs) WPP_DEBUG(MsgArgs)
#else
#define WPP_INVOKE_WPP_DEBUG(MsgArgs) (void)0
#endif

#endif /* WPP_ALREADY_INCLUDED */

`IF TraceGuids !Empty`
#ifdef WPP_USER_MSG_GUID
#define WPP_LOCAL_MSG_VAR(Guid) WPP_XGLUE3(WPP_, WPP_GUID_NORM Guid, _Traceguids)
static const GUID WPP_LOCAL_MSG_VAR(WPP_USER_MSG_GUID)[] = {WPP_GUID_STRUCT WPP_USER_MSG_GUID};
#define WPP_LOCAL_TraceGuids WPP_LOCAL_MSG_VAR(WPP_USER_MSG_GUID)
#else
#define WPP_LOCAL_TraceGuids WPP_`FORALL Guid IN TraceGuids``Guid.Normalized`_`ENDFOR`Traceguids
#ifndef WPP_`SourceFile.CanonicalName`_TraceGuids_def
#define WPP_`SourceFile.CanonicalName`_TraceGuids_def
static const GUID WPP_LOCAL_TraceGuids[] = {`FORALL Guid IN TraceGuids``Guid.Struct`, `ENDFOR`};
#endif
#endif

/* The formats of the messages, in a section of the program: readers find them there. */
#if !defined(WPP_NO_ANNOTATIONS) && !defined(WPP_USER_MSG_GUID) && \
    !defined(WPP_`SourceFile.CanonicalName`_formats_def)
#define WPP_`SourceFile.CanonicalName`_formats_def
#ifndef WPP_FORMAT_SECTION
#if defined(__has_attribute)
#if __has_attribute(retain)
#define WPP_FORMAT_SECTION __attribute__((used, retain, section(".etw.tmf"), aligned(1)))
#endif
#endif
#ifndef WPP_FORMAT_SECTION
#define WPP_FORMAT_SECTION __attribute__((used, section(".etw.tmf"), aligned(1)))
#endif
#endif
static const char WPP_`SourceFile.CanonicalName`_formats[] WPP_FORMAT_SECTION =
`FORALL Block IN Formats`
`IF Block.Flag`
#ifdef WPP_PUBLIC_`Block.Flag`
`FORALL Line IN Block.Public`
    `Line.Text`
`ENDFOR`
#else
`ENDIF`
`FORALL Line IN Block.Lines`
    `Line.Text`
`ENDFOR`
`IF Block.Flag`
#endif
`ENDIF`
`ENDFOR`
    "";
#endif
`ENDIF`

`FORALL i IN TypeSigSet`
#ifndef WPP_SF_`i.Name`_def
#define WPP_SF_`i.Name`_def
WPP_INLINE void WPP_SF_`i.Name`(WPP_LOGGER_ARG unsigned short id, LPCGUID TraceGuid`i.Arguments`)
{
    WPP_TRACE(WPP_GET_LOGGER, WPP_TRACE_OPTIONS, TraceGuid, id, `i.LogArgs`(void *)0);
}
#endif
`ENDFOR`
`FORALL r IN Reorder`
#undef WPP_R`r.Name`
#define WPP_R`r.Name`(`r.Arguments`) `r.Permutation`
`ENDFOR`

`FORALL i IN Messages`
#ifndef WPP`i.GooId`_PRE
#define WPP`i.GooId`_PRE(`i.GooArgs`)
#endif
#ifndef WPP`i.GooId`_POST
#define WPP`i.GooId`_POST(`i.GooArgs`)
#endif
`ENDFOR`
`FORALL i IN Messages WHERE !MsgArgs`
#define WPP_CALL_`i.Name`(`i.FixedArgs``i.MacroArgs`) \
    WPP_LOG_ALWAYS(WPP_EX`i.GooId`(`i.GooVals`), `i.DbgMacroArgs`) \
    WPP`i.GooId`_PRE(`i.GooVals`) \
    ((WPP_CHECK_INIT `i.MsgVal`WPP`i.GooId`_ENABLED(`i.GooVals`)) \
         ? (WPP_INVOKE_WPP_DEBUG((`i.DbgMacroArgs`)), \
            WPP_SF_`i.TypeSig`(WPP`i.GooId`_LOGGER(`i.GooVals`) `i.MsgNo`, WPP_LOCAL_TraceGuids`i.MacroExprs`), \
            WppWritten()) \
         : 0) \
    WPP`i.GooId`_POST(`i.GooVals`)
`FORALL a IN i.Aliases`
#define WPP_CALL_`a.Name` WPP_CALL_`i.Name`
`ENDFOR`
`ENDFOR`
`FORALL i IN Messages WHERE MsgArgs`
#define WPP_CALL_`i.Name`(`i.FixedArgs`MSGARGS) \
    WPP_LOG_ALWAYS(WPP_EX`i.GooId`(`i.GooVals`), WPP_FLATTEN MSGARGS) \
    WPP`i.GooId`_PRE(`i.GooVals`) \
    ((WPP_CHECK_INIT `i.MsgVal`WPP`i.GooId`_ENABLED(`i.GooVals`)) \
         ? (WPP_INVOKE_WPP_DEBUG(MSGARGS), \
            WPP_SF_`i.TypeSig`(WPP`i.GooId`_LOGGER(`i.GooVals`) `i.MsgNo`, \
                               WPP_LOCAL_TraceGuids`i.SyntheticExprs` WPP_R`i.ReorderSig` MSGARGS), \
            WppWritten()) \
         : 0) \
    WPP`i.GooId`_POST(`i.GooVals`)
`FORALL a IN i.Aliases`
#define WPP_CALL_`a.Name` WPP_CALL_`i.Name`
`ENDFOR`
`ENDFOR`

/* The trace functions. */
`FORALL f IN Funcs WHERE !DoubleP && !MsgArgs`
#undef `f.Name`
#define `f.Name` WPP_(CALL)
`ENDFOR`
`FORALL f IN Funcs WHERE DoubleP`
#undef `f.Name`
#define `f.Name`(ARGS) WPP_(CALL) ARGS
`ENDFOR`
`FORALL f IN Funcs WHERE MsgArgs`
#undef `f.Name`
#define `f.Name`(`f.FixedArgs`MSGARGS) WPP_(CALL)(`f.FixedArgs`MSGARGS)
`ENDFOR`
