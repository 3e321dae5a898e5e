//! The part of the header that all providers share: enablement, registration, the write.
//!
//! Its names and guards are those that programs and other headers know; a header that `mc` made may stand before or
//! behind it in one translation unit.

use super::Registration;

/// Contexts that programs allocate: several registrations of one provider. `sizes`: words and number of the enable bits.
pub fn for_context(
    sym: &str,
    name: &str,
    names: &Registration,
    [words, bits]: [usize; 2],
) -> String {
    let Registration { suffix, handle, control } = names;
    format!(
        "#ifdef MCGEN_ENABLE_FORCONTEXT_CODE_GENERATION\n\
         typedef struct tagMcGenContext_{name} {{\n    MCGEN_TRACE_CONTEXT Context;\n    ULONG EnableBits[{words}];\n\
         }} McGenContext_{name};\n\
         #define EventRegister{suffix}_ForContext(pContext) \\\n    McGenRegisterForContext_{name}(&{control}, pContext)\n\
         #define EventRegisterByGuid{suffix}_ForContext(Guid, pContext) \\\n    McGenRegisterForContext_{name}(&(Guid), pContext)\n\
         #define EventUnregister{suffix}_ForContext(pContext) \\\n    McGenEventUnregister(&(pContext)->Context.RegistrationHandle)\n\
         #define {handle}Handle_ForContext(pContext) ((pContext)->Context.RegistrationHandle)\n\
         /* Clears and registers a context. */\n\
         MCGEN_FUNCTION ULONG McGenRegisterForContext_{name}(LPCGUID ProviderId,\n    McGenContext_{name}* pContext)\n{{\n\
         \x20   unsigned char* Bytes = (unsigned char*)pContext;\n\
         \x20   size_t Index;\n\
         \x20   for (Index = 0; Index < sizeof(*pContext); Index++) {{\n        Bytes[Index] = 0;\n    }}\n\
         \x20   pContext->Context.Logger = (ULONG_PTR){sym}_Traits;\n\
         \x20   pContext->Context.EnableBitsCount = {bits};\n\
         \x20   pContext->Context.EnableBitMask = pContext->EnableBits;\n\
         \x20   pContext->Context.EnableKeyWords = {name}Keywords;\n\
         \x20   pContext->Context.EnableLevel = {name}Levels;\n\
         \x20   return McGenEventRegisterContext(ProviderId, MCGEN_PENABLECALLBACK, &pContext->Context, &pContext->Context);\n\
         }}\n\
         /* Compiles for contexts of this provider alone. */\n\
         MCGEN_FUNCTION McGenContext_{name}* McGenCheckContext_{name}(McGenContext_{name}* pContext)\n{{\n    return pContext;\n}}\n\
         #endif\n"
    )
}

/// Hooks, which a program may define before the header.
pub const HOOKS: &str = r"
#ifndef MCGEN_USE_KERNEL_MODE_APIS
#ifdef _ETW_KM_
#define MCGEN_USE_KERNEL_MODE_APIS 1
#else
#define MCGEN_USE_KERNEL_MODE_APIS 0
#endif
#endif
/* 0: providers do not tell ETW their traits. */
#ifndef MCGEN_HAVE_EVENTSETINFORMATION
#define MCGEN_HAVE_EVENTSETINFORMATION 1
#endif
#if MCGEN_USE_KERNEL_MODE_APIS
#ifndef MCGEN_EVENTREGISTER
#define MCGEN_EVENTREGISTER EtwRegister
#endif
#ifndef MCGEN_EVENTUNREGISTER
#define MCGEN_EVENTUNREGISTER EtwUnregister
#endif
#ifndef MCGEN_EVENTSETINFORMATION
#define MCGEN_EVENTSETINFORMATION EtwSetInformation
#endif
#ifndef MCGEN_EVENTWRITETRANSFER
#define MCGEN_EVENTWRITETRANSFER EtwWriteTransfer
#endif
#else
#ifndef MCGEN_EVENTREGISTER
#define MCGEN_EVENTREGISTER EventRegister
#endif
#ifndef MCGEN_EVENTUNREGISTER
#define MCGEN_EVENTUNREGISTER EventUnregister
#endif
#ifndef MCGEN_EVENTSETINFORMATION
#define MCGEN_EVENTSETINFORMATION EventSetInformation
#endif
#ifndef MCGEN_EVENTWRITETRANSFER
#define MCGEN_EVENTWRITETRANSFER EventWriteTransfer
#endif
#endif
#ifndef MCGEN_EVENT_ENABLED
#define MCGEN_EVENT_ENABLED(EventName) EventEnabled##EventName()
#endif
#ifndef MCGEN_EVENT_ENABLED_FORCONTEXT
#define MCGEN_EVENT_ENABLED_FORCONTEXT(pContext, EventName) EventEnabled##EventName##_ForContext(pContext)
#endif
#ifndef MCGEN_EVENT_BIT_SET
#define MCGEN_EVENT_BIT_SET(EnableBits, BitPosition) \
    (((EnableBits)[(BitPosition) / 32] & (1u << ((BitPosition) % 32))) != 0)
#endif
#ifndef MCGEN_ENABLE_CHECK
#define MCGEN_ENABLE_CHECK(Context, Descriptor) \
    ((Context).IsEnabled && McGenEventEnabled(&(Context), &(Descriptor)))
#endif
#ifndef MCGEN_GETLENGTHSID
#define MCGEN_GETLENGTHSID(Sid) (8u + 4u * ((const unsigned char*)(Sid))[1])
#endif
#ifndef _mcgen_PASTE2
#define _mcgen_PASTE2(a, b) _mcgen_PASTE2_imp(a, b)
#define _mcgen_PASTE2_imp(a, b) a##b
#endif
#ifndef ETW_INLINE
#define ETW_INLINE DECLSPEC_NOINLINE __inline
#endif
#ifndef MCGEN_FUNCTION
#if defined(__GNUC__) || defined(__clang__)
#define MCGEN_FUNCTION static __inline__ __attribute__((unused))
#else
#define MCGEN_FUNCTION static __inline
#endif
#endif
/* Functions of the write. Inside of their caller, the compiler knows the number and mostly the sizes of an event's values. */
#ifndef MCGEN_INLINED
#if defined(__GNUC__) && defined(__OPTIMIZE__) && !defined(__OPTIMIZE_SIZE__)
#define MCGEN_INLINED static __inline__ __attribute__((unused, always_inline))
#else
#define MCGEN_INLINED MCGEN_FUNCTION
#endif
#endif
";

/// The context of a provider.
pub const CONTEXT: &str = r"
#ifndef MCGEN_TRACE_CONTEXT_DEF
#define MCGEN_TRACE_CONTEXT_DEF
typedef struct _MCGEN_TRACE_CONTEXT {
    ULONGLONG RegistrationHandle;
    ULONGLONG Logger; /* Address of the provider's traits, or 0 */
    ULONGLONG MatchAnyKeyword;
    ULONGLONG MatchAllKeyword;
    ULONG Flags;
    ULONG IsEnabled;
    UCHAR Level;
    UCHAR Reserve;
    USHORT EnableBitsCount;
    PULONG EnableBitMask;
    const ULONGLONG* EnableKeyWords;
    const UCHAR* EnableLevel;
} MCGEN_TRACE_CONTEXT, *PMCGEN_TRACE_CONTEXT;
#endif

#ifndef MCGEN_LEVEL_KEYWORD_ENABLED_DEF
#define MCGEN_LEVEL_KEYWORD_ENABLED_DEF
/* Whether a session wants events of this level and keyword. Level 0 and keyword 0 pass always. */
MCGEN_FUNCTION BOOLEAN McGenLevelKeywordEnabled(PMCGEN_TRACE_CONTEXT Context, UCHAR Level,
                                                ULONGLONG Keyword)
{
    if (Level > Context->Level && Context->Level != 0) {
        return 0;
    }
    return Keyword == 0 || ((Keyword & Context->MatchAnyKeyword) != 0 &&
                            (Keyword & Context->MatchAllKeyword) == Context->MatchAllKeyword);
}
#endif

#ifndef MCGEN_EVENT_ENABLED_DEF
#define MCGEN_EVENT_ENABLED_DEF
MCGEN_FUNCTION BOOLEAN McGenEventEnabled(PMCGEN_TRACE_CONTEXT Context, PCEVENT_DESCRIPTOR Descriptor)
{
    return McGenLevelKeywordEnabled(Context, Descriptor->Level, Descriptor->Keyword);
}
#endif

#ifndef MCGEN_CONTROL_CALLBACK
#define MCGEN_CONTROL_CALLBACK
/* Called when sessions enable or disable the provider: sets a bit for each pair of level and keyword. */
MCGEN_FUNCTION void NTAPI McGenControlCallbackV2(LPCGUID SourceId, ULONG ControlCode, UCHAR Level,
                                                 ULONGLONG MatchAnyKeyword,
                                                 ULONGLONG MatchAllKeyword,
                                                 PEVENT_FILTER_DESCRIPTOR FilterData,
                                                 PVOID CallbackContext)
{
    PMCGEN_TRACE_CONTEXT Context = (PMCGEN_TRACE_CONTEXT)CallbackContext;
    unsigned Bit;
    (void)SourceId;
    (void)FilterData;
    if (Context == NULL) {
        return;
    }
    switch (ControlCode) {
    case EVENT_CONTROL_CODE_ENABLE_PROVIDER:
        Context->Level = Level;
        Context->MatchAnyKeyword = MatchAnyKeyword;
        Context->MatchAllKeyword = MatchAllKeyword;
        Context->IsEnabled = EVENT_CONTROL_CODE_ENABLE_PROVIDER;
        for (Bit = 0; Bit < Context->EnableBitsCount; Bit++) {
            if (McGenLevelKeywordEnabled(Context, Context->EnableLevel[Bit],
                                         Context->EnableKeyWords[Bit])) {
                Context->EnableBitMask[Bit / 32] |= 1u << (Bit % 32);
            } else {
                Context->EnableBitMask[Bit / 32] &= ~(1u << (Bit % 32));
            }
        }
        break;
    case EVENT_CONTROL_CODE_DISABLE_PROVIDER:
        Context->IsEnabled = EVENT_CONTROL_CODE_DISABLE_PROVIDER;
        Context->Level = 0;
        Context->MatchAnyKeyword = 0;
        Context->MatchAllKeyword = 0;
        for (Bit = 0; Bit < Context->EnableBitsCount; Bit += 32) {
            Context->EnableBitMask[Bit / 32] = 0;
        }
        break;
    default:
        break;
    }
#ifdef MCGEN_PRIVATE_ENABLE_CALLBACK_V2
    MCGEN_PRIVATE_ENABLE_CALLBACK_V2(SourceId, ControlCode, Level, MatchAnyKeyword, MatchAllKeyword,
                                     FilterData, CallbackContext);
#endif
}
#endif
";

/// Registration and the write.
pub const WRITE: &str = r"
#ifndef McGenSetTraits_def
#define McGenSetTraits_def
/* Tells ETW the traits of a provider that has some. */
MCGEN_FUNCTION void McGenSetTraits(PMCGEN_TRACE_CONTEXT Context, REGHANDLE RegHandle)
{
#if MCGEN_HAVE_EVENTSETINFORMATION
    if (Context != NULL && Context->Logger != 0) {
        PVOID Traits = (PVOID)(ULONG_PTR)Context->Logger;
        USHORT Size = (USHORT)(((const UCHAR*)Traits)[0] | ((const UCHAR*)Traits)[1] << 8);
        (void)MCGEN_EVENTSETINFORMATION(RegHandle, EventProviderSetTraits, Traits, Size);
    }
#else
    (void)Context;
    (void)RegHandle;
#endif
}
#endif

#ifndef McGenEventRegisterContext_def
#define McGenEventRegisterContext_def
/* Registers a provider with traits. One that is registered stays so: status 0. */
MCGEN_FUNCTION ULONG McGenEventRegisterContext(LPCGUID ProviderId, PENABLECALLBACK EnableCallback,
                                               PVOID CallbackContext,
                                               MCGEN_TRACE_CONTEXT* Context)
{
    ULONG Status;
    if (Context->RegistrationHandle != 0) {
        return 0;
    }
    Status = MCGEN_EVENTREGISTER(ProviderId, EnableCallback, CallbackContext,
                                 &Context->RegistrationHandle);
    if (Status == 0) {
        McGenSetTraits(Context, Context->RegistrationHandle);
    }
    return Status;
}
#endif

#ifndef McGenEventRegisterUnregister
#define McGenEventRegisterUnregister
/* Registers a provider. One that is registered stays so: status 0. */
MCGEN_FUNCTION ULONG McGenEventRegister(LPCGUID ProviderId, PENABLECALLBACK EnableCallback,
                                        PVOID CallbackContext, PREGHANDLE RegHandle)
{
    ULONG Status;
    if (*RegHandle != 0) {
        return 0;
    }
    Status = MCGEN_EVENTREGISTER(ProviderId, EnableCallback, CallbackContext, RegHandle);
    if (Status == 0) {
        McGenSetTraits((PMCGEN_TRACE_CONTEXT)CallbackContext, *RegHandle);
    }
    return Status;
}

/* Ends a registration. Without one: status 0. */
MCGEN_FUNCTION ULONG McGenEventUnregister(PREGHANDLE RegHandle)
{
    ULONG Status;
    if (*RegHandle == 0) {
        return 0;
    }
    Status = MCGEN_EVENTUNREGISTER(*RegHandle);
    *RegHandle = 0;
    return Status;
}
#endif

#ifndef McGenEventWrite_def
#define McGenEventWrite_def
/* Writes an event. EventData[0] is for the provider's traits; the fields begin at EventData[1]. */
MCGEN_INLINED ULONG McGenEventWrite(PMCGEN_TRACE_CONTEXT Context, PCEVENT_DESCRIPTOR Descriptor,
                                    LPCGUID ActivityId, ULONG EventDataCount,
                                    EVENT_DATA_DESCRIPTOR* EventData)
{
    const UCHAR* Traits = (const UCHAR*)(ULONG_PTR)Context->Logger;
    if (Traits == NULL) {
        EventDataDescCreate(&EventData[0], NULL, 0);
    } else {
        EventDataDescCreate(&EventData[0], Traits, (ULONG)(Traits[0] | Traits[1] << 8));
        EventData[0].Reserved = 2; /* EVENT_DATA_DESCRIPTOR_TYPE_PROVIDER_METADATA */
    }
    return MCGEN_EVENTWRITETRANSFER(Context->RegistrationHandle, Descriptor, ActivityId, NULL,
                                    EventDataCount, EventData);
}
#endif

#ifndef McGenText_def
#define McGenText_def
/* Text that is NULL is written as the text NULL, a SID that is NULL as eight zero bytes. */
MCGEN_FUNCTION const void* McGenText16(PCWSTR Text)
{
    static const WCHAR Null[] = {'N', 'U', 'L', 'L', 0};
    return Text != NULL ? (const void*)Text : (const void*)Null;
}

MCGEN_FUNCTION ULONG McGenTextSize16(PCWSTR Text)
{
    const WCHAR* End = Text;
    if (Text == NULL) {
        return 5 * (ULONG)sizeof(WCHAR);
    }
    while (*End != 0) {
        End++;
    }
    return (ULONG)((End - Text) + 1) * (ULONG)sizeof(WCHAR);
}

MCGEN_FUNCTION const void* McGenText8(PCSTR Text)
{
    static const char Null[] = {'N', 'U', 'L', 'L', 0};
    return Text != NULL ? (const void*)Text : (const void*)Null;
}

MCGEN_FUNCTION ULONG McGenTextSize8(PCSTR Text)
{
    return Text != NULL ? (ULONG)strlen(Text) + 1 : 5;
}

MCGEN_FUNCTION const void* McGenSid(const void* Sid)
{
    static const unsigned char Null[8] = {0};
    return Sid != NULL ? Sid : (const void*)Null;
}

MCGEN_FUNCTION ULONG McGenSidSize(const void* Sid)
{
    return Sid != NULL ? (ULONG)MCGEN_GETLENGTHSID(Sid) : 8u;
}
#endif
";
