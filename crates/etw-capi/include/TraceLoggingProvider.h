/*
 * TraceLogging providers for C11 and C++11: self-describing events, whose metadata is built at compile time. For systems other than Windows;
 * link with -letw.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs. Differences:
 * - Wide texts are char16_t (ETW_W("text")). Texts, characters and arrays of wchar_t, which has 32 bits here, are converted.
 * - TraceLoggingLong and its relatives make fields of 64 bits from values of type long, which has 64 bits here.
 * - The tag in an event's metadata has one byte, or five with TraceLoggingEventTag.
 * - TraceLoggingPackedDataEx takes payload only: descriptors of type 0.
 *
 *     TRACELOGGING_DEFINE_PROVIDER(Shop, "MyCompany.Shop",
 *         (0x12345678, 0x1234, 0x1234, 0x12, 0x34, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc));
 *     ...
 *     TraceLoggingRegister(Shop);
 *     TraceLoggingWrite(Shop, "Sold", TraceLoggingLevel(4), TraceLoggingString("tea", "What"), TraceLoggingInt32(count));
 *     TraceLoggingUnregister(Shop);
 */
#ifndef TRACELOGGINGPROVIDER_H
#define TRACELOGGINGPROVIDER_H

#include "evntprov.h"
#include "etw_tracelogging_values.h"
#include <string.h>

/* ---- Providers -------------------------------------------------------------------------------------------------------- */

/* The state of a provider. While it is registered, the library sets the level and keywords of all sessions' enablements together; in the child
 * of a fork, to what the child's sessions ask for. The layout is part of the library's binary interface. */
typedef struct etw_tlg_provider {
    uint32_t LevelPlus1; /* 0: no session enabled the provider */
    uint64_t KeywordAny __attribute__((aligned(8)));
    uint64_t KeywordAll;
    REGHANDLE RegHandle;
    GUID ProviderId;
    const void *Traits;
    uint16_t TraitsSize;
    PENABLECALLBACK Callback;
    PVOID Context;
} etw_tlg_provider;
ETW_TLG_ASSERT(offsetof(etw_tlg_provider, KeywordAll) == 16 && offsetof(etw_tlg_provider, ProviderId) == 32 &&
                   offsetof(etw_tlg_provider, Traits) == 48 &&
                   offsetof(etw_tlg_provider, Context) == 48 + 3 * sizeof(void *),
               "the layout differs from the library's");

typedef etw_tlg_provider *TraceLoggingHProvider;

/* The static part of an event; each TraceLoggingWrite has one. The macro initialises it, and the library owns it. Its layout is part of the
 * library's binary interface: before 1.0, a shared library of another minor version has another name. */
typedef struct etw_event_site {
    const void *Bytes;     /* an EVENT_DESCRIPTOR, then the TraceLogging metadata; constant */
    uint32_t Size;         /* size of Bytes */
    uint32_t MetadataRoom; /* size of the metadata in a stored event: 8 bytes more, rounded up to 8 */
    uint64_t Ids[8] __attribute__((aligned(8))); /* initially 0 */
} etw_event_site;
ETW_TLG_ASSERT(offsetof(etw_event_site, Size) == sizeof(void *) && offsetof(etw_event_site, Ids) == 16 &&
                   sizeof(etw_event_site) == 80,
               "the layout differs from the library's");

#ifdef __cplusplus
extern "C" {
#endif
/* Registers a provider with its traits, its callback and its gate. RegHandle is set before the callback can be called. 183: it is registered. */
ULONG EVNTAPI etw_register_tracelogging(etw_tlg_provider *Provider);
/* The usual write in two halves, between which the macro copies the values: etw_begin_site returns the address of Size bytes, all of which are
 * filled before etw_commit_site is called with the same Size on the same thread. NULL: nothing happened, and etw_write_site writes the event. */
void *EVNTAPI etw_begin_site(REGHANDLE RegHandle, etw_event_site *Site, uint64_t Size);
void EVNTAPI etw_commit_site(uint32_t Size);
/* Writes an event of the thread's current activity. UserData contains its payload: Size bytes in all, in descriptors of type 0. */
ULONG EVNTAPI etw_write_site(REGHANDLE RegHandle, etw_event_site *Site, ULONG Size, ULONG UserDataCount,
                             const EVENT_DATA_DESCRIPTOR *UserData);
/* The same with the parameters of EventWriteEx. */
ULONG EVNTAPI etw_write_site_ex(REGHANDLE RegHandle, etw_event_site *Site, ULONG64 Filter, ULONG Flags,
                                LPCGUID ActivityId, LPCGUID RelatedActivityId, ULONG UserDataCount,
                                const EVENT_DATA_DESCRIPTOR *UserData);
#ifdef __cplusplus
}
#endif

#define ETW_TLG_PACKED __attribute__((packed))
#define ETW_TLG_GUID_(l, w1, w2, b1, b2, b3, b4, b5, b6, b7, b8) \
    {l, w1, w2, {b1, b2, b3, b4, b5, b6, b7, b8}}

#define TRACELOGGING_DECLARE_PROVIDER(hProvider) ETW_EXTERN const TraceLoggingHProvider hProvider

/* The traits contain their size and the name; for a provider group also the size of the trait, its type 1, and the GUID of the group. */
#define TRACELOGGING_DEFINE_PROVIDER(hProvider, providerName, providerId, ...)                      \
    TRACELOGGING_DEFINE_PROVIDER_STORAGE(hProvider##_storage, providerName, providerId __VA_OPT__(,) __VA_ARGS__); \
    ETW_EXTERN const TraceLoggingHProvider hProvider;                                               \
    const TraceLoggingHProvider hProvider = &hProvider##_storage
/* Defines the storage alone, in a file or a function. Its address is the handle. */
#define TRACELOGGING_DEFINE_PROVIDER_STORAGE(storage, providerName, providerId, ...) \
    ETW_TLG_CAT(ETW_TLG_STORAGE_, ETW_TLG_NARGS(__VA_ARGS__))(storage, providerName, providerId __VA_OPT__(,) __VA_ARGS__)
#define ETW_TLG_STORAGE_0(storage, providerName, providerId)                                   \
    ETW_TLG_ASSERT_NAME(providerName)                                                          \
    ETW_TLG_CONSTANT struct {                                                                  \
        uint16_t size;                                                                         \
        char name[sizeof(providerName)];                                                       \
    } ETW_TLG_PACKED storage##_traits = {sizeof(storage##_traits), providerName};              \
    ETW_TLG_STORAGE_(storage, providerId)
#define ETW_TLG_STORAGE_1(storage, providerName, providerId, group)                            \
    ETW_TLG_ASSERT_NAME(providerName)                                                          \
    ETW_TLG_CONSTANT struct {                                                                  \
        uint16_t size;                                                                         \
        char name[sizeof(providerName)];                                                       \
        uint16_t group_size;                                                                   \
        uint8_t group_type;                                                                    \
        GUID group_id;                                                                         \
    } ETW_TLG_PACKED storage##_traits = {sizeof(storage##_traits), providerName, 19, 1, ETW_TLG_GUID_ group}; \
    ETW_TLG_STORAGE_(storage, providerId)
#ifdef __cplusplus
#define ETW_TLG_STORAGE_(storage, providerId)                                                  \
    ETW_TLG_CONSTANT GUID storage##_id = ETW_TLG_GUID_ providerId;                             \
    ETW_TLG_STORAGE_OF(storage, storage##_id)
#else
#define ETW_TLG_STORAGE_(storage, providerId) ETW_TLG_STORAGE_OF(storage, ETW_TLG_GUID_ providerId)
#endif
#define ETW_TLG_STORAGE_OF(storage, ...)                                                       \
    static etw_tlg_provider storage = {                                                        \
        0, 0, 0, 0, __VA_ARGS__, &storage##_traits, sizeof(storage##_traits), NULL, NULL}
#define TraceLoggingOptionGroup(...) (__VA_ARGS__)

/* The library's threads set these values, and the program's threads read them. */
#define ETW_TLG_GET(place, order) __atomic_load_n(&(place), __ATOMIC_##order)
#define ETW_TLG_SET(place, value, order) __atomic_store_n(&(place), value, __ATOMIC_##order)

/* A provider that is registered already keeps its registration, and its callback: 183, ERROR_ALREADY_EXISTS. */
static inline ULONG TraceLoggingRegisterEx(TraceLoggingHProvider hProvider, PENABLECALLBACK pCallback,
                                           PVOID pCallbackContext)
{
    if (hProvider->RegHandle == 0) {
        hProvider->Callback = pCallback;
        hProvider->Context = pCallbackContext;
    }
    return etw_register_tracelogging(hProvider);
}

static inline ULONG TraceLoggingRegister(TraceLoggingHProvider hProvider)
{
    return TraceLoggingRegisterEx(hProvider, NULL, NULL);
}

/* Returns 0, as in Microsoft's TraceLogging headers for Linux; on Windows it has no result. */
static inline ULONG TraceLoggingUnregister(TraceLoggingHProvider hProvider)
{
    REGHANDLE handle = hProvider->RegHandle;
    hProvider->RegHandle = 0;
    ETW_TLG_SET(hProvider->LevelPlus1, 0, RELAXED);
    EventUnregister(handle);
    return ERROR_SUCCESS;
}

static inline ULONG TraceLoggingSetInformation(TraceLoggingHProvider hProvider, EVENT_INFO_CLASS class_,
                                               PVOID pvInformation, ULONG cbInformation)
{
    return EventSetInformation(hProvider->RegHandle, class_, pvInformation, cbInformation);
}

static inline int etw_tlg_has_level(const etw_tlg_provider *p, UCHAR level)
{
    return level < ETW_TLG_GET(p->LevelPlus1, RELAXED);
}

static inline int etw_tlg_has_keyword(const etw_tlg_provider *p, ULONGLONG keyword)
{
    const uint64_t all = ETW_TLG_GET(p->KeywordAll, RELAXED);
    return keyword == 0 || ((keyword & ETW_TLG_GET(p->KeywordAny, RELAXED)) != 0 && (keyword & all) == all);
}

/* TRUE if a session enabled the level (0: any level) and the keyword. */
static inline BOOLEAN TraceLoggingProviderEnabled(TraceLoggingHProvider hProvider, UCHAR eventLevel,
                                                  ULONGLONG eventKeyword)
{
    return (BOOLEAN)(etw_tlg_has_level(hProvider, eventLevel) && etw_tlg_has_keyword(hProvider, eventKeyword));
}

/* As in Microsoft's TraceLogging headers for Linux: TRUE if a session enabled the provider. */
#define TraceLoggingEventEnabled(hProvider, eventName) TraceLoggingProviderEnabled(hProvider, 0, 0)

#define TraceLoggingProviderId(hProvider) ((hProvider)->ProviderId)
/* As in Microsoft's TraceLogging headers for Linux. */
#define TraceLoggingProviderName(hProvider) ((const char *)(hProvider)->Traits + sizeof(uint16_t))

/* ---- Events ----------------------------------------------------------------------------------------------------------- */

#define TraceLoggingLevel(eventLevel) (LEVEL, eventLevel)
#define TraceLoggingKeyword(eventKeyword) (KEYWORD, eventKeyword)
#define TraceLoggingOpcode(eventOpcode) (OPCODE, eventOpcode)
#define TraceLoggingChannel(eventChannel) (CHANNEL, eventChannel)
#define TraceLoggingEventTag(eventTag) (TAG, eventTag)
#define TraceLoggingDescription(description) (NOTHING, description)
#define TraceLoggingCustomAttribute(key, value) (NOTHING, key)

#define TraceLoggingWrite(hProvider, eventName, ...) \
    ETW_TLG_WRITE(ETW_TLG_SEND, hProvider, eventName __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingWriteActivity(hProvider, eventName, pActivityId, pRelatedActivityId, ...)           \
    ETW_TLG_WRITE(ETW_TLG_SEND_EX(0, 0, pActivityId, pRelatedActivityId), hProvider, eventName __VA_OPT__(,) \
                      __VA_ARGS__)
#define TraceLoggingWriteEx(hProvider, eventName, filter, flags, pActivityId, pRelatedActivityId, ...) \
    ETW_TLG_WRITE(ETW_TLG_SEND_EX(filter, flags, pActivityId, pRelatedActivityId), hProvider,          \
                  eventName __VA_OPT__(,) __VA_ARGS__)
/* etw_write_site gets a copy of the descriptors: those whose address no call has seen need no memory. */
#define ETW_TLG_SEND                                                                                                  \
    const uint64_t etw_size = etw_pieces_size(etw_data, etw_count);                                                   \
    void *const etw_room = etw_begin_site(etw_provider->RegHandle, &etw_site, etw_size);                              \
    if (__builtin_expect(etw_room != NULL, 1)) {                                                                      \
        etw_pieces_copy(etw_room, etw_data, etw_count);                                                               \
        etw_commit_site((uint32_t)etw_size);                                                                          \
    } else {                                                                                                          \
        EVENT_DATA_DESCRIPTOR etw_copy[sizeof(etw_data) / sizeof(etw_data)[0]];                                       \
        etw_pieces_assign(etw_copy, etw_data, etw_count);                                                             \
        etw_write_site(etw_provider->RegHandle, &etw_site, (ULONG)etw_size, etw_count, etw_copy);                     \
    }
#define ETW_TLG_SEND_EX(filter, flags, activity, related) \
    etw_write_site_ex(etw_provider->RegHandle, &etw_site, filter, flags, ETW_TLG_ID(activity), ETW_TLG_ID(related), etw_count, etw_data)

/* The last level wins: 5 * 0 + (4) * 0 + (3) is 3. */
#define ETW_TLG_WRITE(send, hProvider, eventName, ...) \
    ETW_TLG_WRITE_NAMED(send, hProvider, ETW_TLG_LITERAL(eventName) char name[sizeof(eventName)], \
                        eventName __VA_OPT__(,) __VA_ARGS__)
#define ETW_TLG_LITERAL(eventName) \
    ETW_TLG_ASSERT(ETW_TLG_IS_LITERAL(eventName), "the name of an event has to be a string literal"); \
    ETW_TLG_ASSERT_NAME(eventName)
#define ETW_TLG_WRITE_NAMED(send, hProvider, nameMember, nameValue, ...)                                   \
    do {                                                                                                   \
        enum {                                                                                             \
            etw_level = 5 ETW_TLG_EACH(LV __VA_OPT__(,) __VA_ARGS__),                                      \
            etw_opcode = 0 ETW_TLG_EACH(OP __VA_OPT__(,) __VA_ARGS__),                                     \
            etw_channel = 11 ETW_TLG_EACH(CH __VA_OPT__(,) __VA_ARGS__)                                    \
        };                                                                                                 \
        ETW_TLG_ASSERT(((etw_level | etw_opcode | etw_channel) & ~255) == 0,                               \
                       "the level, the opcode and the channel of an event are 0 to 255");                  \
        const TraceLoggingHProvider etw_provider = (hProvider);                                            \
        if (etw_tlg_has_level(etw_provider, etw_level) &&                                                  \
            etw_tlg_has_keyword(etw_provider, 0 ETW_TLG_EACH(KW __VA_OPT__(,) __VA_ARGS__))) {             \
            struct etw_meta_t {                                                                            \
                uint16_t size;                                                                             \
                ETW_TLG_EACH(TM __VA_OPT__(,) __VA_ARGS__)                                                 \
                uint8_t tag;                                                                               \
                nameMember;                                                                                \
                ETW_TLG_EACH(MEM __VA_OPT__(,) __VA_ARGS__)                                                \
            } ETW_TLG_PACKED;                                                                              \
            ETW_TLG_CONSTANT struct {                                                                      \
                EVENT_DESCRIPTOR descriptor;                                                               \
                struct etw_meta_t meta;                                                                    \
            } etw_event = {                                                                                \
                {0, 0, etw_channel, etw_level, etw_opcode, 0, 0 ETW_TLG_EACH(KW __VA_OPT__(,) __VA_ARGS__)}, \
                {sizeof(struct etw_meta_t), ETW_TLG_EACH(TI __VA_OPT__(,) __VA_ARGS__) 0, nameValue,       \
                 ETW_TLG_EACH(INI __VA_OPT__(,) __VA_ARGS__)}};                                            \
            static etw_event_site etw_site = {&etw_event, (uint32_t)(16 + sizeof(struct etw_meta_t)),      \
                                              (uint32_t)((8 + sizeof(struct etw_meta_t) + 7) & ~(size_t)7), \
                                              {0}};                                                        \
            ETW_TLG_EACH(DCL __VA_OPT__(,) __VA_ARGS__)                                                    \
            const EVENT_DATA_DESCRIPTOR etw_data[] = {ETW_TLG_EACH(DSC __VA_OPT__(,) __VA_ARGS__){0, 0, {0}}}; \
            const ULONG etw_count = (ULONG)(sizeof(etw_data) / sizeof(etw_data)[0] - 1);                   \
            send;                                                                                          \
        }                                                                                                  \
    } while (0)

/* ---- The expansion of each kind of argument in each pass ------------------------------------------------------------------------- */

#define ETW_TLG_LV_WRONG(...)
#define ETW_TLG_OP_WRONG(...)
#define ETW_TLG_CH_WRONG(...)
#define ETW_TLG_KW_WRONG(...)
#define ETW_TLG_TM_WRONG(...)
#define ETW_TLG_TI_WRONG(...)
#define ETW_TLG_MEM_WRONG(...)
#define ETW_TLG_INI_WRONG(...)
#define ETW_TLG_DSC_WRONG(...)
#define ETW_TLG_DCL_WRONG(i, text) \
    ETW_TLG_ASSERT(0, "TraceLoggingWrite: a name is misspelt, or a comma is missing: " text);

#define ETW_TLG_LV_LEVEL(i, x) * 0 + (x)
#define ETW_TLG_LV_KEYWORD(...)
#define ETW_TLG_LV_OPCODE(...)
#define ETW_TLG_LV_CHANNEL(...)
#define ETW_TLG_LV_TAG(...)
#define ETW_TLG_LV_NOTHING(...)
#define ETW_TLG_LV_SC(...)
#define ETW_TLG_LV_AR(...)
#define ETW_TLG_LV_FA(...)
#define ETW_TLG_LV_TX(...)
#define ETW_TLG_LV_WT(...)
#define ETW_TLG_LV_LP(...)
#define ETW_TLG_LV_LW(...)
#define ETW_TLG_LV_SK(...)
#define ETW_TLG_LV_PT(...)
#define ETW_TLG_LV_ST(...)
#define ETW_TLG_LV_CU(...)
#define ETW_TLG_LV_MD(...)
#define ETW_TLG_LV_DA(...)
#define ETW_TLG_LV_DX(...)
#define ETW_TLG_LV_AV(...)
#define ETW_TLG_LV_AW(...)
#define ETW_TLG_LV_FW(...)
#define ETW_TLG_LV_SA(...)
#define ETW_TLG_OP_LEVEL(...)
#define ETW_TLG_OP_KEYWORD(...)
#define ETW_TLG_OP_OPCODE(i, x) * 0 + (x)
#define ETW_TLG_OP_CHANNEL(...)
#define ETW_TLG_OP_TAG(...)
#define ETW_TLG_OP_NOTHING(...)
#define ETW_TLG_OP_SC(...)
#define ETW_TLG_OP_AR(...)
#define ETW_TLG_OP_FA(...)
#define ETW_TLG_OP_TX(...)
#define ETW_TLG_OP_WT(...)
#define ETW_TLG_OP_LP(...)
#define ETW_TLG_OP_LW(...)
#define ETW_TLG_OP_SK(...)
#define ETW_TLG_OP_PT(...)
#define ETW_TLG_OP_ST(...)
#define ETW_TLG_OP_CU(...)
#define ETW_TLG_OP_MD(...)
#define ETW_TLG_OP_DA(...)
#define ETW_TLG_OP_DX(...)
#define ETW_TLG_OP_AV(...)
#define ETW_TLG_OP_AW(...)
#define ETW_TLG_OP_FW(...)
#define ETW_TLG_OP_SA(...)
#define ETW_TLG_CH_LEVEL(...)
#define ETW_TLG_CH_KEYWORD(...)
#define ETW_TLG_CH_OPCODE(...)
#define ETW_TLG_CH_CHANNEL(i, x) * 0 + (x)
#define ETW_TLG_CH_TAG(...)
#define ETW_TLG_CH_NOTHING(...)
#define ETW_TLG_CH_SC(...)
#define ETW_TLG_CH_AR(...)
#define ETW_TLG_CH_FA(...)
#define ETW_TLG_CH_TX(...)
#define ETW_TLG_CH_WT(...)
#define ETW_TLG_CH_LP(...)
#define ETW_TLG_CH_LW(...)
#define ETW_TLG_CH_SK(...)
#define ETW_TLG_CH_PT(...)
#define ETW_TLG_CH_ST(...)
#define ETW_TLG_CH_CU(...)
#define ETW_TLG_CH_MD(...)
#define ETW_TLG_CH_DA(...)
#define ETW_TLG_CH_DX(...)
#define ETW_TLG_CH_AV(...)
#define ETW_TLG_CH_AW(...)
#define ETW_TLG_CH_FW(...)
#define ETW_TLG_CH_SA(...)
#define ETW_TLG_KW_LEVEL(...)
#define ETW_TLG_KW_KEYWORD(i, x) | (x)
#define ETW_TLG_KW_OPCODE(...)
#define ETW_TLG_KW_CHANNEL(...)
#define ETW_TLG_KW_TAG(...)
#define ETW_TLG_KW_NOTHING(...)
#define ETW_TLG_KW_SC(...)
#define ETW_TLG_KW_AR(...)
#define ETW_TLG_KW_FA(...)
#define ETW_TLG_KW_TX(...)
#define ETW_TLG_KW_WT(...)
#define ETW_TLG_KW_LP(...)
#define ETW_TLG_KW_LW(...)
#define ETW_TLG_KW_SK(...)
#define ETW_TLG_KW_PT(...)
#define ETW_TLG_KW_ST(...)
#define ETW_TLG_KW_CU(...)
#define ETW_TLG_KW_MD(...)
#define ETW_TLG_KW_DA(...)
#define ETW_TLG_KW_DX(...)
#define ETW_TLG_KW_AV(...)
#define ETW_TLG_KW_AW(...)
#define ETW_TLG_KW_FW(...)
#define ETW_TLG_KW_SA(...)
#define ETW_TLG_TM_LEVEL(...)
#define ETW_TLG_TM_KEYWORD(...)
#define ETW_TLG_TM_OPCODE(...)
#define ETW_TLG_TM_CHANNEL(...)
#define ETW_TLG_TM_TAG(i, x) uint8_t tag_##i[4];
#define ETW_TLG_TM_NOTHING(...)
#define ETW_TLG_TM_SC(...)
#define ETW_TLG_TM_AR(...)
#define ETW_TLG_TM_FA(...)
#define ETW_TLG_TM_TX(...)
#define ETW_TLG_TM_WT(...)
#define ETW_TLG_TM_LP(...)
#define ETW_TLG_TM_LW(...)
#define ETW_TLG_TM_SK(...)
#define ETW_TLG_TM_PT(...)
#define ETW_TLG_TM_ST(...)
#define ETW_TLG_TM_CU(...)
#define ETW_TLG_TM_MD(...)
#define ETW_TLG_TM_DA(...)
#define ETW_TLG_TM_DX(...)
#define ETW_TLG_TM_AV(...)
#define ETW_TLG_TM_AW(...)
#define ETW_TLG_TM_FW(...)
#define ETW_TLG_TM_SA(...)
#define ETW_TLG_TI_LEVEL(...)
#define ETW_TLG_TI_KEYWORD(...)
#define ETW_TLG_TI_OPCODE(...)
#define ETW_TLG_TI_CHANNEL(...)
#define ETW_TLG_TI_TAG(i, x) {ETW_TLG_TAG_BYTES(x, 0x80)},
#define ETW_TLG_TI_NOTHING(...)
#define ETW_TLG_TI_SC(...)
#define ETW_TLG_TI_AR(...)
#define ETW_TLG_TI_FA(...)
#define ETW_TLG_TI_TX(...)
#define ETW_TLG_TI_WT(...)
#define ETW_TLG_TI_LP(...)
#define ETW_TLG_TI_LW(...)
#define ETW_TLG_TI_SK(...)
#define ETW_TLG_TI_PT(...)
#define ETW_TLG_TI_ST(...)
#define ETW_TLG_TI_CU(...)
#define ETW_TLG_TI_MD(...)
#define ETW_TLG_TI_DA(...)
#define ETW_TLG_TI_DX(...)
#define ETW_TLG_TI_AV(...)
#define ETW_TLG_TI_AW(...)
#define ETW_TLG_TI_FW(...)
#define ETW_TLG_TI_SA(...)
#define ETW_TLG_MEM_LEVEL(...)
#define ETW_TLG_MEM_KEYWORD(...)
#define ETW_TLG_MEM_OPCODE(...)
#define ETW_TLG_MEM_CHANNEL(...)
#define ETW_TLG_MEM_TAG(...)
#define ETW_TLG_MEM_NOTHING(...)
#define ETW_TLG_INI_LEVEL(...)
#define ETW_TLG_INI_KEYWORD(...)
#define ETW_TLG_INI_OPCODE(...)
#define ETW_TLG_INI_CHANNEL(...)
#define ETW_TLG_INI_TAG(...)
#define ETW_TLG_INI_NOTHING(...)
#define ETW_TLG_DCL_LEVEL(...)
#define ETW_TLG_DCL_KEYWORD(...)
#define ETW_TLG_DCL_OPCODE(...)
#define ETW_TLG_DCL_CHANNEL(...)
#define ETW_TLG_DCL_TAG(...)
#define ETW_TLG_DCL_NOTHING(...)
#define ETW_TLG_DSC_LEVEL(...)
#define ETW_TLG_DSC_KEYWORD(...)
#define ETW_TLG_DSC_OPCODE(...)
#define ETW_TLG_DSC_CHANNEL(...)
#define ETW_TLG_DSC_TAG(...)
#define ETW_TLG_DSC_NOTHING(...)

/* A tag has four bytes of seven bits each. The high bit of a byte is set if another byte follows. */
#define ETW_TLG_TAG_BYTES(t, last) \
    (uint8_t)(0x80 | ((t) >> 21 & 0x7f)), (uint8_t)(0x80 | ((t) >> 14 & 0x7f)), \
        (uint8_t)(0x80 | ((t) >> 7 & 0x7f)), (uint8_t)((last) | ((t) & 0x7f))
/* The bytes of a type: ho is 1 if an out-type follows, ht is 1 if a tag follows. */
#define ETW_TLG_SIZE_00 1
#define ETW_TLG_SIZE_10 2
#define ETW_TLG_SIZE_01 6
#define ETW_TLG_SIZE_11 6
#define ETW_TLG_TYPES_00(in, out, tag) (uint8_t)(in)
#define ETW_TLG_TYPES_10(in, out, tag) (uint8_t)((in) | 0x80), (uint8_t)(out)
#define ETW_TLG_TYPES_01(in, out, tag) (uint8_t)((in) | 0x80), 0x80, ETW_TLG_TAG_BYTES(tag, 0)
#define ETW_TLG_TYPES_11(in, out, tag) (uint8_t)((in) | 0x80), (uint8_t)((out) | 0x80), ETW_TLG_TAG_BYTES(tag, 0)
#define ETW_TLG_FIELD(i, ho, ht, name) \
    ETW_TLG_ASSERT_NAME(name)          \
    char n_##i[sizeof(name)];          \
    uint8_t t_##i[ETW_TLG_SIZE_##ho##ht];
#define ETW_TLG_FIELD_INI(in, ho, out, ht, tag, name) name, {ETW_TLG_TYPES_##ho##ht(in, out, tag)},
#define ETW_TLG_PIECE(address, size) {(ULONGLONG)(uintptr_t)(address), (ULONG)(size), {0}},

/* SC: a value of a type. */
#define ETW_TLG_MEM_SC(i, in, ho, out, type, value, name, ht, tag) ETW_TLG_FIELD(i, ho, ht, name)
#define ETW_TLG_INI_SC(i, in, ho, out, type, value, name, ht, tag) ETW_TLG_FIELD_INI(in, ho, out, ht, tag, name)
#define ETW_TLG_DCL_SC(i, in, ho, out, type, value, name, ht, tag) const type v_##i = (type)(value);
#define ETW_TLG_DSC_SC(i, in, ho, out, type, value, name, ht, tag) ETW_TLG_PIECE(&v_##i, sizeof(v_##i))

/* SA: a structure by value. */
#define ETW_TLG_MEM_SA(i, in, ho, out, type, value, name, ht, tag) ETW_TLG_FIELD(i, ho, ht, name)
#define ETW_TLG_INI_SA(i, in, ho, out, type, value, name, ht, tag) ETW_TLG_FIELD_INI(in, ho, out, ht, tag, name)
#define ETW_TLG_DCL_SA(i, in, ho, out, type, value, name, ht, tag) const type v_##i = ETW_TLG_STRUCT(type, value);
#define ETW_TLG_DSC_SA(i, in, ho, out, type, value, name, ht, tag) ETW_TLG_PIECE(&v_##i, sizeof(v_##i))

/* AR: an array of variable count. */
#define ETW_TLG_MEM_AR(i, in, ho, out, type, value, count, name, ht, tag) ETW_TLG_FIELD(i, ho, ht, name)
#define ETW_TLG_INI_AR(i, in, ho, out, type, value, count, name, ht, tag) ETW_TLG_FIELD_INI((in) | 0x40, ho, out, ht, tag, name)
#define ETW_TLG_DCL_AR(i, in, ho, out, type, value, count, name, ht, tag) \
    ETW_TLG_ASSERT_ARRAY(type, value)                                     \
    const type *v_##i = ETW_TLG_ARRAY(type, value);                       \
    const uint16_t c_##i = (uint16_t)(count);
#define ETW_TLG_DSC_AR(i, in, ho, out, type, value, count, name, ht, tag) \
    ETW_TLG_PIECE(&c_##i, 2) ETW_TLG_PIECE(v_##i, (ULONG)c_##i * sizeof(type))

/* FA: an array of constant count. */
#define ETW_TLG_MEM_FA(i, in, ho, out, type, value, count, name, ht, tag) \
    ETW_TLG_FIELD(i, ho, ht, name)                                        \
    uint16_t c_##i;
#define ETW_TLG_INI_FA(i, in, ho, out, type, value, count, name, ht, tag) \
    ETW_TLG_FIELD_INI((in) | 0x20, ho, out, ht, tag, name)(uint16_t)(count),
#define ETW_TLG_DCL_FA(i, in, ho, out, type, value, count, name, ht, tag) \
    ETW_TLG_ASSERT_ARRAY(type, value)                                     \
    const type *v_##i = ETW_TLG_ARRAY(type, value);
#define ETW_TLG_DSC_FA(i, in, ho, out, type, value, count, name, ht, tag) \
    ETW_TLG_PIECE(v_##i, (ULONG)(count) * sizeof(type))

/* TX: a text with a NUL; NULL is an empty text. */
#define ETW_TLG_MEM_TX(i, in, ho, out, value, name, ht, tag) ETW_TLG_FIELD(i, ho, ht, name)
#define ETW_TLG_INI_TX(i, in, ho, out, value, name, ht, tag) ETW_TLG_FIELD_INI(in, ho, out, ht, tag, name)
#define ETW_TLG_DCL_TX(i, in, ho, out, value, name, ht, tag) \
    ETW_TLG_ASSERT_TEXT(value)                                        \
    const char *v_##i = ETW_TLG_TEXT(value);
#define ETW_TLG_DSC_TX(i, in, ho, out, value, name, ht, tag) ETW_TLG_PIECE(v_##i, strlen(v_##i) + 1)

/* WT: a text of char16_t with a NUL, or of 32-bit units, which is converted. */
#define ETW_TLG_MEM_WT(i, value, name, ht, tag) ETW_TLG_FIELD(i, 0, ht, name)
#define ETW_TLG_INI_WT(i, value, name, ht, tag) ETW_TLG_FIELD_INI(1, 0, 0, ht, tag, name)
#define ETW_TLG_DCL_WT(i, value, name, ht, tag)                                           \
    ETW_TLG_ASSERT_WIDE(value)                                                            \
    ETW_TLG_UTF16(i, ETW_TLG_IS_WIDE(value))                                              \
    const void *w_##i = (value);                                                          \
    const PCWSTR v_##i = ETW_TLG_IS_WIDE(value) ? etw_tlg_utf16(u_##i, &a_##i, w_##i) : etw_tlg_wide((PCWSTR)w_##i);
#define ETW_TLG_DSC_WT(i, value, name, ht, tag) ETW_TLG_PIECE(v_##i, (etw_tlg_length(v_##i) + 1) * 2)

/* AW: an array of characters of 16 bits, variable count. Characters of 32 bits are converted. */
#define ETW_TLG_MEM_AW(i, value, count, name, ht, tag) ETW_TLG_FIELD(i, 1, ht, name)
#define ETW_TLG_INI_AW(i, value, count, name, ht, tag) ETW_TLG_FIELD_INI(6 | 0x40, 1, 2, ht, tag, name)
#define ETW_TLG_DCL_AW(i, value, count, name, ht, tag)  \
    ETW_TLG_ASSERT_WIDE(value)                          \
    ETW_TLG_UTF16(i, ETW_TLG_IS_WIDE(value))            \
    const void *w_##i = (value);                        \
    uint16_t c_##i = (uint16_t)(count);                 \
    const void *v_##i = ETW_TLG_IS_WIDE(value) ? etw_tlg_characters(u_##i, &a_##i, w_##i, &c_##i) : w_##i;
#define ETW_TLG_DSC_AW(i, value, count, name, ht, tag) ETW_TLG_PIECE(&c_##i, 2) ETW_TLG_PIECE(v_##i, (ULONG)c_##i * 2)

/* FW: the same, constant count. */
#define ETW_TLG_MEM_FW(i, value, count, name, ht, tag) \
    ETW_TLG_FIELD(i, 1, ht, name)                      \
    uint16_t c_##i;
#define ETW_TLG_INI_FW(i, value, count, name, ht, tag) ETW_TLG_FIELD_INI(6 | 0x20, 1, 2, ht, tag, name)(uint16_t)(count),
#define ETW_TLG_DCL_FW(i, value, count, name, ht, tag)       \
    ETW_TLG_ASSERT_WIDE(value)                               \
    ETW_TLG_UNUSED WCHAR u_##i[ETW_TLG_IS_WIDE(value) ? (count) : 1]; \
    const void *w_##i = (value);                             \
    const void *v_##i = ETW_TLG_IS_WIDE(value) ? etw_tlg_fixed_characters(u_##i, w_##i, count) : w_##i;
#define ETW_TLG_DSC_FW(i, value, count, name, ht, tag) ETW_TLG_PIECE(v_##i, (ULONG)(count) * 2)

/* LP: a length, then the bytes. */
#define ETW_TLG_MEM_LP(i, in, ho, out, value, size, name, ht, tag) ETW_TLG_FIELD(i, ho, ht, name)
#define ETW_TLG_INI_LP(i, in, ho, out, value, size, name, ht, tag) ETW_TLG_FIELD_INI(in, ho, out, ht, tag, name)
#define ETW_TLG_DCL_LP(i, in, ho, out, value, size, name, ht, tag) \
    const void *v_##i = (value);                                   \
    const size_t s_##i = (size);                                   \
    const uint16_t c_##i = (uint16_t)s_##i;
#define ETW_TLG_DSC_LP(i, in, ho, out, value, size, name, ht, tag) \
    ETW_TLG_PIECE(&c_##i, 2) ETW_TLG_PIECE(v_##i, s_##i)

/* LW: a length, then a text of char16_t, or of 32-bit units, which is converted. */
#define ETW_TLG_MEM_LW(i, value, count, name, ht, tag) ETW_TLG_FIELD(i, 0, ht, name)
#define ETW_TLG_INI_LW(i, value, count, name, ht, tag) ETW_TLG_FIELD_INI(22, 0, 0, ht, tag, name)
#define ETW_TLG_DCL_LW(i, value, count, name, ht, tag)                                                            \
    ETW_TLG_ASSERT_WIDE(value)                                                                                    \
    ETW_TLG_UTF16(i, ETW_TLG_IS_WIDE(value))                                                                      \
    const void *w_##i = (value);                                                                                  \
    size_t s_##i = (size_t)(count) * 2;                                                                           \
    const PCWSTR v_##i = ETW_TLG_IS_WIDE(value) ? etw_tlg_counted_utf16(u_##i, &a_##i, w_##i, s_##i / 2, &s_##i) \
                                                : (PCWSTR)w_##i;                                                  \
    const uint16_t c_##i = (uint16_t)s_##i;
#define ETW_TLG_DSC_LW(i, value, count, name, ht, tag) ETW_TLG_PIECE(&c_##i, 2) ETW_TLG_PIECE(v_##i, s_##i)

/* SK: a length, then a socket address with Windows' address family. Of the families in use, only AF_INET6 differs: it is 23. */
#define ETW_TLG_MEM_SK(i, value, size, name, ht, tag) ETW_TLG_FIELD(i, 1, ht, name)
#define ETW_TLG_INI_SK(i, value, size, name, ht, tag) ETW_TLG_FIELD_INI(14, 1, 10, ht, tag, name)
#define ETW_TLG_DCL_SK(i, value, size, name, ht, tag) \
    const void *v_##i = (value);                      \
    const size_t s_##i = (size);                      \
    const uint16_t c_##i = (uint16_t)s_##i;           \
    const size_t h_##i = s_##i < 2 ? s_##i : 2;       \
    const uint16_t f_##i = etw_tlg_family(v_##i, h_##i);
#define ETW_TLG_DSC_SK(i, value, size, name, ht, tag) \
    ETW_TLG_PIECE(&c_##i, 2) ETW_TLG_PIECE(&f_##i, h_##i) ETW_TLG_PIECE((const char *)v_##i + h_##i, s_##i - h_##i)

/* PT: bytes that contain their own size. */
#define ETW_TLG_MEM_PT(i, in, ho, out, value, size, name, ht, tag) ETW_TLG_FIELD(i, ho, ht, name)
#define ETW_TLG_INI_PT(i, in, ho, out, value, size, name, ht, tag) ETW_TLG_FIELD_INI(in, ho, out, ht, tag, name)
#define ETW_TLG_DCL_PT(i, in, ho, out, value, size, name, ht, tag) const void *v_##i = (value);
#define ETW_TLG_DSC_PT(i, in, ho, out, value, size, name, ht, tag) ETW_TLG_PIECE(v_##i, size)

/* ST: a structure that contains the next fields. */
#define ETW_TLG_MEM_ST(i, in, count, name, ht, tag) ETW_TLG_FIELD(i, 1, ht, name)
#define ETW_TLG_INI_ST(i, in, count, name, ht, tag) ETW_TLG_FIELD_INI(in, 1, count, ht, tag, name)
#define ETW_TLG_DCL_ST(i, in, count, name, ht, tag) ETW_TLG_ASSERT((count) > 0 && (count) < 128, "1 to 127 fields");
#define ETW_TLG_DSC_ST(...)

/* CU: a custom-serialised value, with its schema. */
#define ETW_TLG_CUSTOM_SIZE_0 1
#define ETW_TLG_CUSTOM_SIZE_1 6
#define ETW_TLG_CUSTOM_TYPES_0(protocol, tag) (uint8_t)(((protocol) & 0x1f) | 0x60)
#define ETW_TLG_CUSTOM_TYPES_1(protocol, tag) (uint8_t)(((protocol) & 0x1f) | 0xe0), 0x80, ETW_TLG_TAG_BYTES(tag, 0)
#define ETW_TLG_MEM_CU(i, value, size, protocol, schema, schema_size, name, ht, tag) \
    ETW_TLG_ASSERT_NAME(name)                                                        \
    char n_##i[sizeof(name)];                                                        \
    uint8_t t_##i[ETW_TLG_CUSTOM_SIZE_##ht];                                         \
    uint16_t c_##i;                                                                  \
    uint8_t s_##i[schema_size];
#define ETW_TLG_INI_CU(i, value, size, protocol, schema, schema_size, name, ht, tag) \
    name, {ETW_TLG_CUSTOM_TYPES_##ht(protocol, tag)}, (uint16_t)(schema_size), {ETW_TLG_UNPACK schema},
#define ETW_TLG_DCL_CU(i, value, size, protocol, schema, schema_size, name, ht, tag)                       \
    ETW_TLG_ASSERT(((protocol) >= 5 && (protocol) <= 31) || ((protocol) & ~7) == 0x4d535240,               \
                   "protocols are 5 to 31; Microsoft's have names");                                       \
    ETW_TLG_ASSERT(ETW_TLG_COUNT_OF schema == (schema_size), "cbSchema is not the number of bytes in bSchema"); \
    const void *v_##i = (value);                                                                           \
    const size_t s_##i = (size);                                                                           \
    const uint16_t c_##i = (uint16_t)s_##i;
#define ETW_TLG_DSC_CU(i, value, size, protocol, schema, schema_size, name, ht, tag) \
    ETW_TLG_PIECE(&c_##i, 2) ETW_TLG_PIECE(v_##i, s_##i)

/* MD: a description without data; DA: data without a description. */
#define ETW_TLG_MEM_MD(i, in, ho, out, name, ht, tag) ETW_TLG_FIELD(i, ho, ht, name)
#define ETW_TLG_INI_MD(i, in, ho, out, name, ht, tag) ETW_TLG_FIELD_INI(in, ho, out, ht, tag, name)
#define ETW_TLG_DCL_MD(...)
#define ETW_TLG_DSC_MD(...)
#define ETW_TLG_MEM_DA(...)
#define ETW_TLG_INI_DA(...)
#define ETW_TLG_DCL_DA(i, value, size) const void *v_##i = (value);
#define ETW_TLG_DSC_DA(i, value, size) ETW_TLG_PIECE(v_##i, size)
#define ETW_TLG_MEM_DX(...)
#define ETW_TLG_INI_DX(...)
#define ETW_TLG_DCL_DX(i, value, size, type)                                  \
    ETW_TLG_ASSERT((type) == 0, "data descriptors of an event have type 0"); \
    const void *v_##i = (value);
#define ETW_TLG_DSC_DX(i, value, size, type) ETW_TLG_PIECE(v_##i, size)

/* AV (C++): a value whose type selects the in-type. */
#define ETW_TLG_MEM_AV(i, value, name, ht, tag) ETW_TLG_FIELD(i, 1, ht, name)
#define ETW_TLG_INI_AV(i, value, name, ht, tag) \
    ETW_TLG_FIELD_INI(decltype(etw_tlg_of(value))::in, 1, decltype(etw_tlg_of(value))::out, ht, tag, name)
#define ETW_TLG_DCL_AV(i, value, name, ht, tag) const auto v_##i = etw_tlg_of(value);
#define ETW_TLG_DSC_AV(i, value, name, ht, tag) ETW_TLG_PIECE(v_##i.address(), v_##i.size())

#define ETW_TLG_COUNT_OF(...) sizeof((const unsigned char[]){__VA_ARGS__})
#define ETW_TLG_UNPACK(...) __VA_ARGS__

/* ---- Fields ----------------------------------------------------------------------------------------------------------- */

/* Appends the name to a kind's arguments: the value's source text, or the name, description and tag that the program gave. */
#define ETW_TLG_NAMED(...) ETW_TLG_NAMED_(__VA_ARGS__)
#define ETW_TLG_NAMED_(head, ...) \
    (ETW_TLG_UNPACK head, ETW_TLG_CAT(ETW_TLG_NAME_, ETW_TLG_NARGS(__VA_ARGS__))(__VA_ARGS__))
#define ETW_TLG_NAME_1(own) own, 0, 0
#define ETW_TLG_NAME_2(own, name) name, 0, 0
#define ETW_TLG_NAME_3(own, name, description) name, 0, 0
#define ETW_TLG_NAME_4(own, name, description, tag) name, 1, tag

#ifndef ETW_SYSTEMTIME_DEFINED
#define ETW_SYSTEMTIME_DEFINED
typedef struct _SYSTEMTIME {
    WORD wYear, wMonth, wDayOfWeek, wDay, wHour, wMinute, wSecond, wMilliseconds;
} SYSTEMTIME, *PSYSTEMTIME;
#endif

#define TraceLoggingInt8(value, ...) ETW_TLG_NAMED((SC, 3, 0, 0, int8_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingInt16(value, ...) ETW_TLG_NAMED((SC, 5, 0, 0, int16_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingInt32(value, ...) ETW_TLG_NAMED((SC, 7, 0, 0, int32_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingInt64(value, ...) ETW_TLG_NAMED((SC, 9, 0, 0, int64_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUInt8(value, ...) ETW_TLG_NAMED((SC, 4, 0, 0, uint8_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUInt16(value, ...) ETW_TLG_NAMED((SC, 6, 0, 0, uint16_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUInt32(value, ...) ETW_TLG_NAMED((SC, 8, 0, 0, uint32_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUInt64(value, ...) ETW_TLG_NAMED((SC, 10, 0, 0, uint64_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingLong(value, ...) ETW_TLG_NAMED((SC, sizeof(ETW_TLG_LONG(value)) == 8 ? 9 : 7, 0, 0, ETW_TLG_LONG(value), value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingULong(value, ...) ETW_TLG_NAMED((SC, sizeof(ETW_TLG_ULONG(value)) == 8 ? 10 : 8, 0, 0, ETW_TLG_ULONG(value), value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingIntPtr(value, ...) ETW_TLG_NAMED((SC, 9, 0, 0, intptr_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUIntPtr(value, ...) ETW_TLG_NAMED((SC, 10, 0, 0, uintptr_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingFloat32(value, ...) ETW_TLG_NAMED((SC, 11, 0, 0, float, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingFloat64(value, ...) ETW_TLG_NAMED((SC, 12, 0, 0, double, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexInt8(value, ...) ETW_TLG_NAMED((SC, 4, 1, 4, int8_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUInt8(value, ...) ETW_TLG_NAMED((SC, 4, 1, 4, uint8_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexInt16(value, ...) ETW_TLG_NAMED((SC, 6, 1, 4, int16_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUInt16(value, ...) ETW_TLG_NAMED((SC, 6, 1, 4, uint16_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexInt32(value, ...) ETW_TLG_NAMED((SC, 20, 0, 0, int32_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUInt32(value, ...) ETW_TLG_NAMED((SC, 20, 0, 0, uint32_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexInt64(value, ...) ETW_TLG_NAMED((SC, 21, 0, 0, int64_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUInt64(value, ...) ETW_TLG_NAMED((SC, 21, 0, 0, uint64_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexIntPtr(value, ...) ETW_TLG_NAMED((SC, 21, 0, 0, intptr_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUIntPtr(value, ...) ETW_TLG_NAMED((SC, 21, 0, 0, uintptr_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexLong(value, ...) ETW_TLG_NAMED((SC, sizeof(ETW_TLG_LONG(value)) == 8 ? 21 : 20, 0, 0, ETW_TLG_LONG(value), value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexULong(value, ...) ETW_TLG_NAMED((SC, sizeof(ETW_TLG_ULONG(value)) == 8 ? 21 : 20, 0, 0, ETW_TLG_ULONG(value), value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingBool(value, ...) ETW_TLG_NAMED((SC, 13, 0, 0, int32_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingBoolean(value, ...) ETW_TLG_NAMED((SC, 4, 1, 3, uint8_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingChar(value, ...) ETW_TLG_NAMED((SC, 4, 1, 2, char, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingWChar(value, ...) ETW_TLG_NAMED((SC, 6, 1, 2, WCHAR, etw_tlg_unit((uint32_t)(value))), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingChar16(value, ...) ETW_TLG_NAMED((SC, 6, 1, 2, char16_t, etw_tlg_unit((uint32_t)(value))), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingChar32(value, ...) ETW_TLG_NAMED((SC, 6, 1, 2, char16_t, etw_tlg_unit((uint32_t)(value))), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingGuid(value, ...) ETW_TLG_NAMED((SA, 15, 0, 0, GUID, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPointer(value, ...) ETW_TLG_NAMED((SC, 21, 0, 0, etw_tlg_pointer, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingCodePointer(value, ...) ETW_TLG_NAMED((SC, 21, 1, 37, etw_tlg_pointer, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingFileTime(value, ...) ETW_TLG_NAMED((SA, 17, 0, 0, FILETIME, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingFileTimeUtc(value, ...) ETW_TLG_NAMED((SA, 17, 1, 38, FILETIME, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingSystemTime(value, ...) ETW_TLG_NAMED((SA, 18, 0, 0, SYSTEMTIME, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingSystemTimeUtc(value, ...) ETW_TLG_NAMED((SA, 18, 1, 38, SYSTEMTIME, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPid(value, ...) ETW_TLG_NAMED((SC, 8, 1, 5, uint32_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingTid(value, ...) ETW_TLG_NAMED((SC, 8, 1, 6, uint32_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPort(value, ...) ETW_TLG_NAMED((SC, 6, 1, 7, uint16_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingIPv4Address(value, ...) ETW_TLG_NAMED((SC, 8, 1, 8, uint32_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingWinError(value, ...) ETW_TLG_NAMED((SC, 8, 1, 13, uint32_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingNTStatus(value, ...) ETW_TLG_NAMED((SC, 8, 1, 14, uint32_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHResult(value, ...) ETW_TLG_NAMED((SC, 7, 1, 15, int32_t, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingInt8Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 3, 0, 0, int8_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingInt16Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 5, 0, 0, int16_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingInt32Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 7, 0, 0, int32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingInt64Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 9, 0, 0, int64_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUInt8Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 4, 0, 0, uint8_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUInt16Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 6, 0, 0, uint16_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUInt32Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 8, 0, 0, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUInt64Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 10, 0, 0, uint64_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingLongArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, sizeof(ETW_TLG_LONGS(pValues)) == 8 ? 9 : 7, 0, 0, ETW_TLG_LONGS(pValues), pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingULongArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, sizeof(ETW_TLG_ULONGS(pValues)) == 8 ? 10 : 8, 0, 0, ETW_TLG_ULONGS(pValues), pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingIntPtrArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 9, 0, 0, intptr_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUIntPtrArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 10, 0, 0, uintptr_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingFloat32Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 11, 0, 0, float, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingFloat64Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 12, 0, 0, double, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexInt8Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 4, 1, 4, int8_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUInt8Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 4, 1, 4, uint8_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexInt16Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 6, 1, 4, int16_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUInt16Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 6, 1, 4, uint16_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexInt32Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 20, 0, 0, int32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUInt32Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 20, 0, 0, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexInt64Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 21, 0, 0, int64_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUInt64Array(pValues, cValues, ...) ETW_TLG_NAMED((AR, 21, 0, 0, uint64_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexIntPtrArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 21, 0, 0, intptr_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUIntPtrArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 21, 0, 0, uintptr_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexLongArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, sizeof(ETW_TLG_LONGS(pValues)) == 8 ? 21 : 20, 0, 0, ETW_TLG_LONGS(pValues), pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexULongArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, sizeof(ETW_TLG_ULONGS(pValues)) == 8 ? 21 : 20, 0, 0, ETW_TLG_ULONGS(pValues), pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingBoolArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 13, 0, 0, int32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingBooleanArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 4, 1, 3, uint8_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingCharArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 4, 1, 2, char, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingWCharArray(pValues, cValues, ...) ETW_TLG_NAMED((AW, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingChar16Array(pValues, cValues, ...) ETW_TLG_NAMED((AW, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingChar32Array(pValues, cValues, ...) ETW_TLG_NAMED((AW, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingGuidArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 15, 0, 0, GUID, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPointerArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 21, 0, 0, etw_tlg_pointer, ETW_TLG_POINTERS(pValues), cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingCodePointerArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 21, 1, 37, etw_tlg_pointer, ETW_TLG_POINTERS(pValues), cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingFileTimeArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 17, 0, 0, FILETIME, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingFileTimeUtcArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 17, 1, 38, FILETIME, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingSystemTimeArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 18, 0, 0, SYSTEMTIME, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingSystemTimeUtcArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 18, 1, 38, SYSTEMTIME, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPidArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 8, 1, 5, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingTidArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 8, 1, 6, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPortArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 6, 1, 7, uint16_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingIPv4AddressArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 8, 1, 8, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingWinErrorArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 8, 1, 13, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingNTStatusArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 8, 1, 14, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHResultArray(pValues, cValues, ...) ETW_TLG_NAMED((AR, 7, 1, 15, int32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingInt8FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 3, 0, 0, int8_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingInt16FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 5, 0, 0, int16_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingInt32FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 7, 0, 0, int32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingInt64FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 9, 0, 0, int64_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUInt8FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 4, 0, 0, uint8_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUInt16FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 6, 0, 0, uint16_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUInt32FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 8, 0, 0, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUInt64FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 10, 0, 0, uint64_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingLongFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, sizeof(ETW_TLG_LONGS(pValues)) == 8 ? 9 : 7, 0, 0, ETW_TLG_LONGS(pValues), pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingULongFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, sizeof(ETW_TLG_ULONGS(pValues)) == 8 ? 10 : 8, 0, 0, ETW_TLG_ULONGS(pValues), pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingIntPtrFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 9, 0, 0, intptr_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUIntPtrFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 10, 0, 0, uintptr_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingFloat32FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 11, 0, 0, float, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingFloat64FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 12, 0, 0, double, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexInt8FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 4, 1, 4, int8_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUInt8FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 4, 1, 4, uint8_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexInt16FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 6, 1, 4, int16_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUInt16FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 6, 1, 4, uint16_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexInt32FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 20, 0, 0, int32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUInt32FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 20, 0, 0, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexInt64FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 21, 0, 0, int64_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUInt64FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 21, 0, 0, uint64_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexIntPtrFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 21, 0, 0, intptr_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexUIntPtrFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 21, 0, 0, uintptr_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexLongFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, sizeof(ETW_TLG_LONGS(pValues)) == 8 ? 21 : 20, 0, 0, ETW_TLG_LONGS(pValues), pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHexULongFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, sizeof(ETW_TLG_ULONGS(pValues)) == 8 ? 21 : 20, 0, 0, ETW_TLG_ULONGS(pValues), pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingBoolFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 13, 0, 0, int32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingBooleanFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 4, 1, 3, uint8_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingCharFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 4, 1, 2, char, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingWCharFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FW, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingChar16FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FW, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingChar32FixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FW, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingGuidFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 15, 0, 0, GUID, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPointerFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 21, 0, 0, etw_tlg_pointer, ETW_TLG_POINTERS(pValues), cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingCodePointerFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 21, 1, 37, etw_tlg_pointer, ETW_TLG_POINTERS(pValues), cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingFileTimeFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 17, 0, 0, FILETIME, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingFileTimeUtcFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 17, 1, 38, FILETIME, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingSystemTimeFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 18, 0, 0, SYSTEMTIME, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingSystemTimeUtcFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 18, 1, 38, SYSTEMTIME, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPidFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 8, 1, 5, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingTidFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 8, 1, 6, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPortFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 6, 1, 7, uint16_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingIPv4AddressFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 8, 1, 8, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingWinErrorFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 8, 1, 13, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingNTStatusFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 8, 1, 14, uint32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingHResultFixedArray(pValues, cValues, ...) ETW_TLG_NAMED((FA, 7, 1, 15, int32_t, pValues, cValues), #pValues __VA_OPT__(,) __VA_ARGS__)

#define TraceLoggingString(value, ...) ETW_TLG_NAMED((TX, 2, 0, 0, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUtf8String(value, ...) ETW_TLG_NAMED((TX, 2, 1, 35, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingWideString(value, ...) ETW_TLG_NAMED((WT, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingString16(value, ...) ETW_TLG_NAMED((WT, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingCountedString(value, cch, ...) \
    ETW_TLG_NAMED((LP, 23, 0, 0, value, cch), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingCountedUtf8String(value, cch, ...) \
    ETW_TLG_NAMED((LP, 23, 1, 35, value, cch), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingCountedWideString(value, cch, ...) \
    ETW_TLG_NAMED((LW, value, cch), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingCountedString16(value, cch, ...) \
    ETW_TLG_NAMED((LW, value, cch), #value __VA_OPT__(,) __VA_ARGS__)
/* As in Microsoft's TraceLogging headers for Linux: texts of char32_t, which become UTF-16. */
#define TraceLoggingString32(value, ...) ETW_TLG_NAMED((WT, value), #value __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingCountedString32(value, cch, ...) \
    ETW_TLG_NAMED((LW, value, cch), #value __VA_OPT__(,) __VA_ARGS__)
/* Structures with Length and Buffer: ANSI_STRING, UNICODE_STRING, and the given type. */
#define TraceLoggingBinaryBuffer(pValue, StructType, ...) \
    ETW_TLG_NAMED((LP, 14, 0, 0, ((const StructType *)(pValue))->Buffer, ((const StructType *)(pValue))->Length), #pValue __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingBinaryBufferEx(pValue, StructType, outType, ...) \
    ETW_TLG_NAMED((LP, 14, 1, outType, ((const StructType *)(pValue))->Buffer, ((const StructType *)(pValue))->Length), #pValue __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingAnsiString(pValue, ...) \
    ETW_TLG_NAMED((LP, 23, 0, 0, (pValue)->Buffer, (pValue)->Length), #pValue __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingUnicodeString(pValue, ...) \
    ETW_TLG_NAMED((LP, 22, 0, 0, (pValue)->Buffer, (pValue)->Length), #pValue __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingBinary(pValue, cbValue, ...) \
    ETW_TLG_NAMED((LP, 14, 0, 0, pValue, cbValue), #pValue __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingBinaryEx(pValue, cbValue, outType, ...) \
    ETW_TLG_NAMED((LP, 14, 1, outType, pValue, cbValue), #pValue __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingIPv6Address(pValue, ...) ETW_TLG_NAMED((LP, 14, 1, 9, pValue, 16), #pValue __VA_OPT__(,) __VA_ARGS__)
/* Short names, as in Microsoft's TraceLogging headers for Linux. */
#define TraceLoggingIPv4 TraceLoggingIPv4Address
#define TraceLoggingIPv6 TraceLoggingIPv6Address
#define TraceLoggingSocketAddress(pValue, cbValue, ...) \
    ETW_TLG_NAMED((SK, pValue, cbValue), #pValue __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingSid(pValue, ...) \
    ETW_TLG_NAMED((PT, 19, 0, 0, etw_tlg_sid(pValue), etw_tlg_sid_size(etw_tlg_sid(pValue))), #pValue __VA_OPT__(,) __VA_ARGS__)
/* The next fieldCount fields are members. A nested structure counts as one, with all of its members. */
#define TraceLoggingStruct(fieldCount, ...) \
    ETW_TLG_NAMED((ST, 24, fieldCount), "" __VA_OPT__(,) __VA_ARGS__)

/* Protocols that Microsoft reserves; programs may use 5 to 31. */
#define TRACELOGGING_PROTOCOL_MICROSOFT_RESERVED0 0x4d535240
#define TRACELOGGING_PROTOCOL_MICROSOFT_RESERVED1 0x4d535241
#define TRACELOGGING_PROTOCOL_MICROSOFT_RESERVED2 0x4d535242
#define TRACELOGGING_PROTOCOL_MICROSOFT_RESERVED3 0x4d535243
#define TRACELOGGING_PROTOCOL_MICROSOFT_RESERVED4 0x4d535244
/* bSchema is a list of cbSchema constant bytes in parentheses. Name, description and tag may follow. */
#define TraceLoggingCustom(pValue, cbValue, protocol, bSchema, cbSchema, ...) \
    ETW_TLG_NAMED((CU, pValue, cbValue, protocol, bSchema, cbSchema), #pValue __VA_OPT__(,) __VA_ARGS__)

#define TraceLoggingPackedField(pValue, cbValue, inType, ...) \
    ETW_TLG_NAMED((PT, inType, 0, 0, pValue, cbValue), #pValue __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPackedFieldEx(pValue, cbValue, inType, outType, ...) \
    ETW_TLG_NAMED((PT, inType, 1, outType, pValue, cbValue), #pValue __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPackedMetadata(inType, ...) ETW_TLG_NAMED((MD, inType, 0, 0), "" __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPackedMetadataEx(inType, outType, ...) \
    ETW_TLG_NAMED((MD, inType, 1, outType), "" __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPackedStruct(fieldCount, ...) ETW_TLG_NAMED((ST, 24, fieldCount), "" __VA_OPT__(,) __VA_ARGS__)
/* An array of structures. Its data is the number of elements, in 16 bits, and the members of all elements. */
#define TraceLoggingPackedStructArray(fieldCount, ...) \
    ETW_TLG_NAMED((ST, 24 | 0x40, fieldCount), "" __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingPackedData(pValue, cbValue) (DA, pValue, cbValue)
/* dataDescType must be 0, EVENT_DATA_DESCRIPTOR_TYPE_NONE. */
#define TraceLoggingPackedDataEx(pValue, cbValue, dataDescType) (DX, pValue, cbValue, dataDescType)

/* In-types and out-types for the packed macros. */
enum TlgIn_t {
    TlgInNULL = 0, TlgInUNICODESTRING = 1, TlgInANSISTRING = 2, TlgInINT8 = 3, TlgInUINT8 = 4, TlgInINT16 = 5,
    TlgInUINT16 = 6, TlgInINT32 = 7, TlgInUINT32 = 8, TlgInINT64 = 9, TlgInUINT64 = 10, TlgInFLOAT = 11,
    TlgInDOUBLE = 12, TlgInBOOL32 = 13, TlgInBINARY = 14, TlgInGUID = 15, TlgInFILETIME = 17, TlgInSYSTEMTIME = 18,
    TlgInSID = 19, TlgInHEXINT32 = 20, TlgInHEXINT64 = 21, TlgInCOUNTEDSTRING = 22, TlgInCOUNTEDANSISTRING = 23,
    TlgInCOUNTEDBINARY = 25, TlgInINTPTR = TlgInINT64, TlgInUINTPTR = TlgInUINT64, TlgInPOINTER = TlgInHEXINT64,
    TlgInVcount = 64
};
enum TlgOut_t {
    TlgOutNULL = 0, TlgOutNOPRINT = 1, TlgOutSTRING = 2, TlgOutBOOLEAN = 3, TlgOutHEX = 4, TlgOutPID = 5, TlgOutTID = 6,
    TlgOutPORT = 7, TlgOutIPV4 = 8, TlgOutIPV6 = 9, TlgOutSOCKETADDRESS = 10, TlgOutXML = 11, TlgOutJSON = 12,
    TlgOutWIN32ERROR = 13, TlgOutNTSTATUS = 14, TlgOutHRESULT = 15, TlgOutFILETIME = 16, TlgOutSIGNED = 17,
    TlgOutUNSIGNED = 18, TlgOutUTF8 = 35, TlgOutPKCS7_WITH_TYPE_INFO = 36, TlgOutCODE_POINTER = 37, TlgOutDATETIME_UTC = 38
};

#ifdef __cplusplus
/* A number, bool, pointer, GUID, FILETIME, SYSTEMTIME or text; its C++ type selects the in-type. */
#define TraceLoggingValue(value, ...) ETW_TLG_NAMED((AV, value), #value __VA_OPT__(,) __VA_ARGS__)

#else
#define TraceLoggingValue(...) \
    (DA, __extension__({ ETW_TLG_ASSERT(0, "TraceLoggingValue needs C++: use the macro of the value's type"); (void *)0; }), 0)
#endif

/* ---- Each of up to 99 arguments, numbered downwards --------------------------------------------------------------------- */

#define ETW_TLG_CAT(a, b) ETW_TLG_CAT_(a, b)
#define ETW_TLG_CAT_(a, b) a##b

#define ETW_TLG_NARGS(...) ETW_TLG_NARGS_(_ __VA_OPT__(,) __VA_ARGS__, 99, 98, 97, 96, 95, 94, 93, 92, 91, 90, 89, 88, 87, 86, 85, 84, 83, 82, 81, 80, 79, 78, 77, 76, 75, 74, 73, 72, 71, 70, 69, 68, 67, 66, 65, 64, 63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43, 42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define ETW_TLG_NARGS_(_, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, a57, a58, a59, a60, a61, a62, a63, a64, a65, a66, a67, a68, a69, a70, a71, a72, a73, a74, a75, a76, a77, a78, a79, a80, a81, a82, a83, a84, a85, a86, a87, a88, a89, a90, a91, a92, a93, a94, a95, a96, a97, a98, a99, n, ...) n
/* An argument is a list in parentheses. Anything else is a misspelt name, or two arguments without a comma: an assertion says so, and no
   other pass uses it. */
#define ETW_TLG_CALL(pass, i, argument) ETW_TLG_JOIN(ETW_TLG_CALL_OF_, ETW_TLG_LIST_OR_NOT(argument))(pass, i, argument)
#define ETW_TLG_CALL_OF_LIST(pass, i, list) ETW_TLG_CALL_(pass, i, ETW_TLG_UNPACK list)
#define ETW_TLG_CALL_OF_NO_LIST(pass, i, text) ETW_TLG_CALL_(pass, i, WRONG, #text)
#define ETW_TLG_LIST_OR_NOT(argument) ETW_TLG_BEHIND_LIST(ETW_TLG_REMOVE_LIST argument)
#define ETW_TLG_BEHIND_LIST(...) ETW_TLG_BEHIND_LIST_(__VA_ARGS__)
#define ETW_TLG_BEHIND_LIST_(...) ETW_TLG_JOIN(__VA_OPT__(NO_), LIST)
#define ETW_TLG_REMOVE_LIST(...)
#define ETW_TLG_JOIN(a, b) ETW_TLG_JOIN_(a, b)
#define ETW_TLG_JOIN_(a, b) a##b
#define ETW_TLG_CALL_(pass, i, ...) ETW_TLG_CALL__(pass, i, __VA_ARGS__)
#define ETW_TLG_CALL__(pass, i, kind, ...) ETW_TLG_##pass##_##kind(i, __VA_ARGS__)
#define ETW_TLG_EACH(pass, ...) ETW_TLG_CAT(ETW_TLG_EACH_, ETW_TLG_NARGS(__VA_ARGS__))(pass __VA_OPT__(,) __VA_ARGS__)
#define ETW_TLG_EACH_0(pass)
#define ETW_TLG_EACH_1(pass, a) ETW_TLG_CALL(pass, 1, a)
#define ETW_TLG_EACH_2(pass, a, ...) ETW_TLG_CALL(pass, 2, a) ETW_TLG_EACH_1(pass, __VA_ARGS__)
#define ETW_TLG_EACH_3(pass, a, ...) ETW_TLG_CALL(pass, 3, a) ETW_TLG_EACH_2(pass, __VA_ARGS__)
#define ETW_TLG_EACH_4(pass, a, ...) ETW_TLG_CALL(pass, 4, a) ETW_TLG_EACH_3(pass, __VA_ARGS__)
#define ETW_TLG_EACH_5(pass, a, ...) ETW_TLG_CALL(pass, 5, a) ETW_TLG_EACH_4(pass, __VA_ARGS__)
#define ETW_TLG_EACH_6(pass, a, ...) ETW_TLG_CALL(pass, 6, a) ETW_TLG_EACH_5(pass, __VA_ARGS__)
#define ETW_TLG_EACH_7(pass, a, ...) ETW_TLG_CALL(pass, 7, a) ETW_TLG_EACH_6(pass, __VA_ARGS__)
#define ETW_TLG_EACH_8(pass, a, ...) ETW_TLG_CALL(pass, 8, a) ETW_TLG_EACH_7(pass, __VA_ARGS__)
#define ETW_TLG_EACH_9(pass, a, ...) ETW_TLG_CALL(pass, 9, a) ETW_TLG_EACH_8(pass, __VA_ARGS__)
#define ETW_TLG_EACH_10(pass, a, ...) ETW_TLG_CALL(pass, 10, a) ETW_TLG_EACH_9(pass, __VA_ARGS__)
#define ETW_TLG_EACH_11(pass, a, ...) ETW_TLG_CALL(pass, 11, a) ETW_TLG_EACH_10(pass, __VA_ARGS__)
#define ETW_TLG_EACH_12(pass, a, ...) ETW_TLG_CALL(pass, 12, a) ETW_TLG_EACH_11(pass, __VA_ARGS__)
#define ETW_TLG_EACH_13(pass, a, ...) ETW_TLG_CALL(pass, 13, a) ETW_TLG_EACH_12(pass, __VA_ARGS__)
#define ETW_TLG_EACH_14(pass, a, ...) ETW_TLG_CALL(pass, 14, a) ETW_TLG_EACH_13(pass, __VA_ARGS__)
#define ETW_TLG_EACH_15(pass, a, ...) ETW_TLG_CALL(pass, 15, a) ETW_TLG_EACH_14(pass, __VA_ARGS__)
#define ETW_TLG_EACH_16(pass, a, ...) ETW_TLG_CALL(pass, 16, a) ETW_TLG_EACH_15(pass, __VA_ARGS__)
#define ETW_TLG_EACH_17(pass, a, ...) ETW_TLG_CALL(pass, 17, a) ETW_TLG_EACH_16(pass, __VA_ARGS__)
#define ETW_TLG_EACH_18(pass, a, ...) ETW_TLG_CALL(pass, 18, a) ETW_TLG_EACH_17(pass, __VA_ARGS__)
#define ETW_TLG_EACH_19(pass, a, ...) ETW_TLG_CALL(pass, 19, a) ETW_TLG_EACH_18(pass, __VA_ARGS__)
#define ETW_TLG_EACH_20(pass, a, ...) ETW_TLG_CALL(pass, 20, a) ETW_TLG_EACH_19(pass, __VA_ARGS__)
#define ETW_TLG_EACH_21(pass, a, ...) ETW_TLG_CALL(pass, 21, a) ETW_TLG_EACH_20(pass, __VA_ARGS__)
#define ETW_TLG_EACH_22(pass, a, ...) ETW_TLG_CALL(pass, 22, a) ETW_TLG_EACH_21(pass, __VA_ARGS__)
#define ETW_TLG_EACH_23(pass, a, ...) ETW_TLG_CALL(pass, 23, a) ETW_TLG_EACH_22(pass, __VA_ARGS__)
#define ETW_TLG_EACH_24(pass, a, ...) ETW_TLG_CALL(pass, 24, a) ETW_TLG_EACH_23(pass, __VA_ARGS__)
#define ETW_TLG_EACH_25(pass, a, ...) ETW_TLG_CALL(pass, 25, a) ETW_TLG_EACH_24(pass, __VA_ARGS__)
#define ETW_TLG_EACH_26(pass, a, ...) ETW_TLG_CALL(pass, 26, a) ETW_TLG_EACH_25(pass, __VA_ARGS__)
#define ETW_TLG_EACH_27(pass, a, ...) ETW_TLG_CALL(pass, 27, a) ETW_TLG_EACH_26(pass, __VA_ARGS__)
#define ETW_TLG_EACH_28(pass, a, ...) ETW_TLG_CALL(pass, 28, a) ETW_TLG_EACH_27(pass, __VA_ARGS__)
#define ETW_TLG_EACH_29(pass, a, ...) ETW_TLG_CALL(pass, 29, a) ETW_TLG_EACH_28(pass, __VA_ARGS__)
#define ETW_TLG_EACH_30(pass, a, ...) ETW_TLG_CALL(pass, 30, a) ETW_TLG_EACH_29(pass, __VA_ARGS__)
#define ETW_TLG_EACH_31(pass, a, ...) ETW_TLG_CALL(pass, 31, a) ETW_TLG_EACH_30(pass, __VA_ARGS__)
#define ETW_TLG_EACH_32(pass, a, ...) ETW_TLG_CALL(pass, 32, a) ETW_TLG_EACH_31(pass, __VA_ARGS__)
#define ETW_TLG_EACH_33(pass, a, ...) ETW_TLG_CALL(pass, 33, a) ETW_TLG_EACH_32(pass, __VA_ARGS__)
#define ETW_TLG_EACH_34(pass, a, ...) ETW_TLG_CALL(pass, 34, a) ETW_TLG_EACH_33(pass, __VA_ARGS__)
#define ETW_TLG_EACH_35(pass, a, ...) ETW_TLG_CALL(pass, 35, a) ETW_TLG_EACH_34(pass, __VA_ARGS__)
#define ETW_TLG_EACH_36(pass, a, ...) ETW_TLG_CALL(pass, 36, a) ETW_TLG_EACH_35(pass, __VA_ARGS__)
#define ETW_TLG_EACH_37(pass, a, ...) ETW_TLG_CALL(pass, 37, a) ETW_TLG_EACH_36(pass, __VA_ARGS__)
#define ETW_TLG_EACH_38(pass, a, ...) ETW_TLG_CALL(pass, 38, a) ETW_TLG_EACH_37(pass, __VA_ARGS__)
#define ETW_TLG_EACH_39(pass, a, ...) ETW_TLG_CALL(pass, 39, a) ETW_TLG_EACH_38(pass, __VA_ARGS__)
#define ETW_TLG_EACH_40(pass, a, ...) ETW_TLG_CALL(pass, 40, a) ETW_TLG_EACH_39(pass, __VA_ARGS__)
#define ETW_TLG_EACH_41(pass, a, ...) ETW_TLG_CALL(pass, 41, a) ETW_TLG_EACH_40(pass, __VA_ARGS__)
#define ETW_TLG_EACH_42(pass, a, ...) ETW_TLG_CALL(pass, 42, a) ETW_TLG_EACH_41(pass, __VA_ARGS__)
#define ETW_TLG_EACH_43(pass, a, ...) ETW_TLG_CALL(pass, 43, a) ETW_TLG_EACH_42(pass, __VA_ARGS__)
#define ETW_TLG_EACH_44(pass, a, ...) ETW_TLG_CALL(pass, 44, a) ETW_TLG_EACH_43(pass, __VA_ARGS__)
#define ETW_TLG_EACH_45(pass, a, ...) ETW_TLG_CALL(pass, 45, a) ETW_TLG_EACH_44(pass, __VA_ARGS__)
#define ETW_TLG_EACH_46(pass, a, ...) ETW_TLG_CALL(pass, 46, a) ETW_TLG_EACH_45(pass, __VA_ARGS__)
#define ETW_TLG_EACH_47(pass, a, ...) ETW_TLG_CALL(pass, 47, a) ETW_TLG_EACH_46(pass, __VA_ARGS__)
#define ETW_TLG_EACH_48(pass, a, ...) ETW_TLG_CALL(pass, 48, a) ETW_TLG_EACH_47(pass, __VA_ARGS__)
#define ETW_TLG_EACH_49(pass, a, ...) ETW_TLG_CALL(pass, 49, a) ETW_TLG_EACH_48(pass, __VA_ARGS__)
#define ETW_TLG_EACH_50(pass, a, ...) ETW_TLG_CALL(pass, 50, a) ETW_TLG_EACH_49(pass, __VA_ARGS__)
#define ETW_TLG_EACH_51(pass, a, ...) ETW_TLG_CALL(pass, 51, a) ETW_TLG_EACH_50(pass, __VA_ARGS__)
#define ETW_TLG_EACH_52(pass, a, ...) ETW_TLG_CALL(pass, 52, a) ETW_TLG_EACH_51(pass, __VA_ARGS__)
#define ETW_TLG_EACH_53(pass, a, ...) ETW_TLG_CALL(pass, 53, a) ETW_TLG_EACH_52(pass, __VA_ARGS__)
#define ETW_TLG_EACH_54(pass, a, ...) ETW_TLG_CALL(pass, 54, a) ETW_TLG_EACH_53(pass, __VA_ARGS__)
#define ETW_TLG_EACH_55(pass, a, ...) ETW_TLG_CALL(pass, 55, a) ETW_TLG_EACH_54(pass, __VA_ARGS__)
#define ETW_TLG_EACH_56(pass, a, ...) ETW_TLG_CALL(pass, 56, a) ETW_TLG_EACH_55(pass, __VA_ARGS__)
#define ETW_TLG_EACH_57(pass, a, ...) ETW_TLG_CALL(pass, 57, a) ETW_TLG_EACH_56(pass, __VA_ARGS__)
#define ETW_TLG_EACH_58(pass, a, ...) ETW_TLG_CALL(pass, 58, a) ETW_TLG_EACH_57(pass, __VA_ARGS__)
#define ETW_TLG_EACH_59(pass, a, ...) ETW_TLG_CALL(pass, 59, a) ETW_TLG_EACH_58(pass, __VA_ARGS__)
#define ETW_TLG_EACH_60(pass, a, ...) ETW_TLG_CALL(pass, 60, a) ETW_TLG_EACH_59(pass, __VA_ARGS__)
#define ETW_TLG_EACH_61(pass, a, ...) ETW_TLG_CALL(pass, 61, a) ETW_TLG_EACH_60(pass, __VA_ARGS__)
#define ETW_TLG_EACH_62(pass, a, ...) ETW_TLG_CALL(pass, 62, a) ETW_TLG_EACH_61(pass, __VA_ARGS__)
#define ETW_TLG_EACH_63(pass, a, ...) ETW_TLG_CALL(pass, 63, a) ETW_TLG_EACH_62(pass, __VA_ARGS__)
#define ETW_TLG_EACH_64(pass, a, ...) ETW_TLG_CALL(pass, 64, a) ETW_TLG_EACH_63(pass, __VA_ARGS__)
#define ETW_TLG_EACH_65(pass, a, ...) ETW_TLG_CALL(pass, 65, a) ETW_TLG_EACH_64(pass, __VA_ARGS__)
#define ETW_TLG_EACH_66(pass, a, ...) ETW_TLG_CALL(pass, 66, a) ETW_TLG_EACH_65(pass, __VA_ARGS__)
#define ETW_TLG_EACH_67(pass, a, ...) ETW_TLG_CALL(pass, 67, a) ETW_TLG_EACH_66(pass, __VA_ARGS__)
#define ETW_TLG_EACH_68(pass, a, ...) ETW_TLG_CALL(pass, 68, a) ETW_TLG_EACH_67(pass, __VA_ARGS__)
#define ETW_TLG_EACH_69(pass, a, ...) ETW_TLG_CALL(pass, 69, a) ETW_TLG_EACH_68(pass, __VA_ARGS__)
#define ETW_TLG_EACH_70(pass, a, ...) ETW_TLG_CALL(pass, 70, a) ETW_TLG_EACH_69(pass, __VA_ARGS__)
#define ETW_TLG_EACH_71(pass, a, ...) ETW_TLG_CALL(pass, 71, a) ETW_TLG_EACH_70(pass, __VA_ARGS__)
#define ETW_TLG_EACH_72(pass, a, ...) ETW_TLG_CALL(pass, 72, a) ETW_TLG_EACH_71(pass, __VA_ARGS__)
#define ETW_TLG_EACH_73(pass, a, ...) ETW_TLG_CALL(pass, 73, a) ETW_TLG_EACH_72(pass, __VA_ARGS__)
#define ETW_TLG_EACH_74(pass, a, ...) ETW_TLG_CALL(pass, 74, a) ETW_TLG_EACH_73(pass, __VA_ARGS__)
#define ETW_TLG_EACH_75(pass, a, ...) ETW_TLG_CALL(pass, 75, a) ETW_TLG_EACH_74(pass, __VA_ARGS__)
#define ETW_TLG_EACH_76(pass, a, ...) ETW_TLG_CALL(pass, 76, a) ETW_TLG_EACH_75(pass, __VA_ARGS__)
#define ETW_TLG_EACH_77(pass, a, ...) ETW_TLG_CALL(pass, 77, a) ETW_TLG_EACH_76(pass, __VA_ARGS__)
#define ETW_TLG_EACH_78(pass, a, ...) ETW_TLG_CALL(pass, 78, a) ETW_TLG_EACH_77(pass, __VA_ARGS__)
#define ETW_TLG_EACH_79(pass, a, ...) ETW_TLG_CALL(pass, 79, a) ETW_TLG_EACH_78(pass, __VA_ARGS__)
#define ETW_TLG_EACH_80(pass, a, ...) ETW_TLG_CALL(pass, 80, a) ETW_TLG_EACH_79(pass, __VA_ARGS__)
#define ETW_TLG_EACH_81(pass, a, ...) ETW_TLG_CALL(pass, 81, a) ETW_TLG_EACH_80(pass, __VA_ARGS__)
#define ETW_TLG_EACH_82(pass, a, ...) ETW_TLG_CALL(pass, 82, a) ETW_TLG_EACH_81(pass, __VA_ARGS__)
#define ETW_TLG_EACH_83(pass, a, ...) ETW_TLG_CALL(pass, 83, a) ETW_TLG_EACH_82(pass, __VA_ARGS__)
#define ETW_TLG_EACH_84(pass, a, ...) ETW_TLG_CALL(pass, 84, a) ETW_TLG_EACH_83(pass, __VA_ARGS__)
#define ETW_TLG_EACH_85(pass, a, ...) ETW_TLG_CALL(pass, 85, a) ETW_TLG_EACH_84(pass, __VA_ARGS__)
#define ETW_TLG_EACH_86(pass, a, ...) ETW_TLG_CALL(pass, 86, a) ETW_TLG_EACH_85(pass, __VA_ARGS__)
#define ETW_TLG_EACH_87(pass, a, ...) ETW_TLG_CALL(pass, 87, a) ETW_TLG_EACH_86(pass, __VA_ARGS__)
#define ETW_TLG_EACH_88(pass, a, ...) ETW_TLG_CALL(pass, 88, a) ETW_TLG_EACH_87(pass, __VA_ARGS__)
#define ETW_TLG_EACH_89(pass, a, ...) ETW_TLG_CALL(pass, 89, a) ETW_TLG_EACH_88(pass, __VA_ARGS__)
#define ETW_TLG_EACH_90(pass, a, ...) ETW_TLG_CALL(pass, 90, a) ETW_TLG_EACH_89(pass, __VA_ARGS__)
#define ETW_TLG_EACH_91(pass, a, ...) ETW_TLG_CALL(pass, 91, a) ETW_TLG_EACH_90(pass, __VA_ARGS__)
#define ETW_TLG_EACH_92(pass, a, ...) ETW_TLG_CALL(pass, 92, a) ETW_TLG_EACH_91(pass, __VA_ARGS__)
#define ETW_TLG_EACH_93(pass, a, ...) ETW_TLG_CALL(pass, 93, a) ETW_TLG_EACH_92(pass, __VA_ARGS__)
#define ETW_TLG_EACH_94(pass, a, ...) ETW_TLG_CALL(pass, 94, a) ETW_TLG_EACH_93(pass, __VA_ARGS__)
#define ETW_TLG_EACH_95(pass, a, ...) ETW_TLG_CALL(pass, 95, a) ETW_TLG_EACH_94(pass, __VA_ARGS__)
#define ETW_TLG_EACH_96(pass, a, ...) ETW_TLG_CALL(pass, 96, a) ETW_TLG_EACH_95(pass, __VA_ARGS__)
#define ETW_TLG_EACH_97(pass, a, ...) ETW_TLG_CALL(pass, 97, a) ETW_TLG_EACH_96(pass, __VA_ARGS__)
#define ETW_TLG_EACH_98(pass, a, ...) ETW_TLG_CALL(pass, 98, a) ETW_TLG_EACH_97(pass, __VA_ARGS__)
#define ETW_TLG_EACH_99(pass, a, ...) ETW_TLG_CALL(pass, 99, a) ETW_TLG_EACH_98(pass, __VA_ARGS__)

#endif
