/*
 * Conversions of TraceLogging's values: texts and characters to UTF-16, arrays to the type of their field, and the C++ type of a value to an
 * in-type. TraceLoggingProvider.h includes it.
 *
 * Part of openetw. A long has 64 bits here: fields of TraceLoggingLong and its relatives have 64 bits if the value is a long, and 32 bits if
 * it is a LONG. Arrays whose elements have another size than the field's type do not compile.
 */
#ifndef ETW_TRACELOGGING_VALUES_H
#define ETW_TRACELOGGING_VALUES_H

#include "etw_base.h"

#ifdef __cplusplus
#define ETW_TLG_ASSERT(condition, text) static_assert(condition, text)
/* The static part of an event. C++ would initialise a constant that is none when the event is written first, and never again. */
#define ETW_TLG_CONSTANT static constexpr
#else
#define ETW_TLG_ASSERT(condition, text) _Static_assert(condition, text)
#define ETW_TLG_CONSTANT static const
#endif
/* A reader of the metadata would take a NUL for the end of the name, and what follows for the type of a field. */
#define ETW_TLG_ASSERT_NAME(name) ETW_TLG_ASSERT(!ETW_TLG_HAS_NUL(name), "a name must not contain a NUL");

typedef const void *etw_tlg_pointer;

/* ---- Texts ------------------------------------------------------------------------------------------------------------ */

static inline const char *etw_tlg_text(const char *text) { return text != NULL ? text : ""; }
static inline PCWSTR etw_tlg_wide(PCWSTR text)
{
    static const WCHAR nothing[1] = {0};
    return text != NULL ? text : nothing;
}
static inline size_t etw_tlg_length(PCWSTR text)
{
    size_t length = 0;
    while (text[length] != 0)
        length++;
    return length;
}

/* Converted texts and arrays are in an array on the stack, or in allocated memory if they have more units. */
#define ETW_TLG_UNITS 256
#define ETW_TLG_UNUSED __attribute__((unused))
#define ETW_TLG_UTF16(i, is_wide)                              \
    ETW_TLG_UNUSED WCHAR u_##i[(is_wide) ? ETW_TLG_UNITS : 1]; \
    __attribute__((unused, cleanup(etw_tlg_free))) PWSTR a_##i = NULL;
static inline void etw_tlg_free(PWSTR *memory)
{
    if (*memory != NULL)
        __builtin_free(*memory);
}
/* The array if it has enough units, else allocated memory, or NULL. */
static inline PWSTR etw_tlg_units(PWSTR array, PWSTR *memory, size_t count)
{
    if (count <= ETW_TLG_UNITS)
        return array;
    return *memory = (PWSTR)__builtin_malloc(count * sizeof(WCHAR));
}
/* A text of 32-bit units as UTF-16, without a NUL. *size becomes its bytes; 0 if there is no memory. */
static inline PCWSTR etw_tlg_counted_utf16(PWSTR array, PWSTR *memory, const void *text_of_units, size_t length, size_t *size)
{
    const uint32_t *text = (const uint32_t *)text_of_units;
    const PWSTR to = text != NULL ? etw_tlg_units(array, memory, length * 2) : NULL;
    PWSTR at = to;
    for (size_t n = 0; to != NULL && n < length; n++) {
        uint32_t c = text[n];
        if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
            c = 0xfffd;
        if (c >= 0x10000) {
            *at++ = (WCHAR)(0xd800 + ((c - 0x10000) >> 10));
            c = 0xdc00 + ((c - 0x10000) & 0x3ff);
        }
        *at++ = (WCHAR)c;
    }
    *size = (size_t)(at - to) * sizeof(WCHAR);
    return to;
}
/* The same with a NUL, of a text with a NUL. */
static inline PCWSTR etw_tlg_utf16(PWSTR array, PWSTR *memory, const void *text_of_units)
{
    const uint32_t *text = (const uint32_t *)text_of_units;
    size_t length = 0, size;
    while (text != NULL && text[length] != 0)
        length++;
    return etw_tlg_wide(etw_tlg_counted_utf16(array, memory, text, length + (text != NULL), &size));
}

/* A character as one unit of UTF-16; U+FFFD for one that needs two. Sign bits of a narrower type do not count. */
static inline uint16_t etw_tlg_unit(uint32_t c)
{
    return (uint16_t)(c <= 0xffff || c >= 0xffff8000u ? c : 0xfffd);
}
/* Characters of 32 bits as one unit each. *count becomes 0 if there is no memory. */
static inline const void *etw_tlg_characters(PWSTR array, PWSTR *memory, const void *characters, uint16_t *count)
{
    const PWSTR to = characters != NULL ? etw_tlg_units(array, memory, *count) : NULL;
    if (to == NULL)
        *count = 0;
    for (size_t n = 0; n < *count; n++)
        to[n] = (WCHAR)etw_tlg_unit(((const uint32_t *)characters)[n]);
    return to;
}

static inline const void *etw_tlg_fixed_characters(PWSTR to, const void *characters, size_t count)
{
    for (size_t n = 0; n < count; n++)
        to[n] = (WCHAR)etw_tlg_unit(((const uint32_t *)characters)[n]);
    return to;
}

/* ---- Socket addresses and SIDs ---------------------------------------------------------------------------------------- */

static inline uint16_t etw_tlg_family(const void *address, size_t size)
{
    uint16_t family = 0;
    if (address != NULL)
        memcpy(&family, address, size);
#ifdef __linux__
    if (size == 2 && family == 10)
        family = 23;
#endif
    return family;
}
/* NULL becomes a SID without sub-authorities. */
static inline const void *etw_tlg_sid(const void *sid)
{
    static const uint8_t nothing[8] = {1};
    return sid != NULL ? sid : nothing;
}
/* A SID has 8 bytes, and 4 for each sub-authority. */
static inline size_t etw_tlg_sid_size(const void *sid) { return 8 + 4 * (size_t)((const uint8_t *)sid)[1]; }

/* ---- GUIDs and times, from values or from arrays of their units, as Microsoft's TraceLogging headers for Linux take them ------------ */

#define ETW_TLG_STRUCTS(each) each(GUID, uint8_t) each(FILETIME, uint32_t) each(SYSTEMTIME, uint16_t)
#define ETW_TLG_STRUCT_FUNCTIONS(type, unit)                \
    static inline type etw_tlg_##type##_of(const unit *units) \
    {                                                       \
        type value;                                         \
        memcpy(&value, units, sizeof value);                \
        return value;                                       \
    }
ETW_TLG_STRUCTS(ETW_TLG_STRUCT_FUNCTIONS)

#ifdef __cplusplus
extern "C++" {
#define ETW_TLG_STRUCT_OVERLOADS(type, unit)                                      \
    static inline const type &etw_tlg_struct(const type &value) { return value; } \
    static inline type etw_tlg_struct(const unit *units) { return etw_tlg_##type##_of(units); }
ETW_TLG_STRUCTS(ETW_TLG_STRUCT_OVERLOADS)
#define ETW_TLG_STRUCT(type, value) etw_tlg_struct(value)

static inline LPCGUID etw_tlg_id(LPCGUID id) { return id; }
template <class Byte> LPCGUID etw_tlg_id(const Byte *id)
{
    static_assert(sizeof(Byte) == 1, "an activity id is a GUID, or an array of 16 bytes");
    return reinterpret_cast<LPCGUID>(id);
}
#define ETW_TLG_ID(id) etw_tlg_id(id)

/* ---- C++: texts ------------------------------------------------------------------------------------------------------- */

template <class Text> struct etw_tlg_literal {
    static constexpr bool is_true = false;
};
template <size_t Count> struct etw_tlg_literal<const char (&)[Count]> {
    static constexpr bool is_true = true;
};
#define ETW_TLG_IS_LITERAL(text) etw_tlg_literal<decltype((text))>::is_true
/* By halves, for the limits of compilers on recursion. */
template <class Unit> constexpr bool etw_tlg_has_nul(const Unit *text, size_t from, size_t to)
{
    return to - from < 2 ? to != from && text[from] == 0
                         : etw_tlg_has_nul(text, from, from + (to - from) / 2) ||
                               etw_tlg_has_nul(text, from + (to - from) / 2, to);
}
#define ETW_TLG_HAS_NUL(text) etw_tlg_has_nul(text, 0, sizeof(text) / sizeof((text)[0]) - 1)

template <bool IsTrue> struct etw_tlg_bool {
    static constexpr bool is_true = IsTrue;
};
template <class Unit> struct etw_tlg_text_unit {
    static_assert(sizeof(Unit) == 2, "the text has to be one of WCHAR, char16_t, wchar_t or char32_t");
    typedef etw_tlg_bool<false> is_wide;
};
template <> struct etw_tlg_text_unit<wchar_t> {
    typedef etw_tlg_bool<sizeof(wchar_t) == 4> is_wide;
};
template <> struct etw_tlg_text_unit<char32_t> {
    typedef etw_tlg_bool<true> is_wide;
};
template <> struct etw_tlg_text_unit<void> {
    typedef etw_tlg_bool<false> is_wide;
};
template <class Unit> typename etw_tlg_text_unit<Unit>::is_wide etw_tlg_is_wide(const Unit *);
etw_tlg_bool<false> etw_tlg_is_wide(decltype(nullptr));
/* NULL is an integer in C++. Of integers, only NULL can initialise the pointer to the text. */
template <class Null> struct etw_tlg_null {
};
template <> struct etw_tlg_null<int> {
    typedef etw_tlg_bool<false> type;
};
template <> struct etw_tlg_null<long> {
    typedef etw_tlg_bool<false> type;
};
template <class Null> typename etw_tlg_null<Null>::type etw_tlg_is_wide(Null &&);
/* Does not evaluate the value. */
#define ETW_TLG_IS_WIDE(value) decltype(etw_tlg_is_wide(value))::is_true
#define ETW_TLG_ASSERT_WIDE(value)
#define ETW_TLG_TEXT(value) etw_tlg_text(value)
#define ETW_TLG_ASSERT_TEXT(value)
#ifdef __cpp_char8_t
template <class Unit> struct etw_tlg_utf8 {
};
template <> struct etw_tlg_utf8<char8_t> {
    typedef const char *type;
};
template <class Unit> typename etw_tlg_utf8<Unit>::type etw_tlg_text(const Unit *text)
{
    return etw_tlg_text(reinterpret_cast<const char *>(text));
}
#endif

/* ---- C++: arrays and numbers -------------------------------------------------------------------------------------------- */

template <class T> struct etw_tlg_is_integer : etw_tlg_bool<false> {
};
#define ETW_TLG_INTEGER(type) \
    template <> struct etw_tlg_is_integer<type> : etw_tlg_bool<true> { \
    };
ETW_TLG_INTEGER(bool)
ETW_TLG_INTEGER(char)
ETW_TLG_INTEGER(signed char)
ETW_TLG_INTEGER(unsigned char)
ETW_TLG_INTEGER(short)
ETW_TLG_INTEGER(unsigned short)
ETW_TLG_INTEGER(int)
ETW_TLG_INTEGER(unsigned int)
ETW_TLG_INTEGER(long)
ETW_TLG_INTEGER(unsigned long)
ETW_TLG_INTEGER(long long)
ETW_TLG_INTEGER(unsigned long long)
ETW_TLG_INTEGER(wchar_t)
ETW_TLG_INTEGER(char16_t)
ETW_TLG_INTEGER(char32_t)
#ifdef __cpp_char8_t
ETW_TLG_INTEGER(char8_t)
#endif
/* Whether elements of type From can be stored in a field of type To: integers of one size, pointers, and the units of a structure. */
template <class To, class From>
struct etw_tlg_fits : etw_tlg_bool<sizeof(To) == sizeof(From) && etw_tlg_is_integer<To>::is_true && etw_tlg_is_integer<From>::is_true> {
};
template <class To, class From> struct etw_tlg_fits<To *, From *> : etw_tlg_bool<true> {
};
#define ETW_TLG_UNITS_FIT(type, unit) \
    template <> struct etw_tlg_fits<type, unit> : etw_tlg_bool<true> { \
    };
ETW_TLG_STRUCTS(ETW_TLG_UNITS_FIT)
template <class To> struct etw_tlg_array {
    static const To *of(const To *values) { return values; }
    template <class From> static const To *of(const From *values)
    {
        static_assert(etw_tlg_fits<To, From>::is_true, "the elements of the array have another size or kind than the type of the field");
        return reinterpret_cast<const To *>(values);
    }
};
#define ETW_TLG_ARRAY(type, values) etw_tlg_array<type>::of(values)
#define ETW_TLG_ASSERT_ARRAY(type, values)
#define ETW_TLG_POINTERS(values) (values)

/* The type of a field for a value, and for an array. Not called. */
template <class T> LONG etw_tlg_long(const T &);
int64_t etw_tlg_long(long);
int64_t etw_tlg_long(unsigned long);
template <class T> ULONG etw_tlg_ulong(const T &);
uint64_t etw_tlg_ulong(long);
uint64_t etw_tlg_ulong(unsigned long);
template <class T> struct etw_tlg_long_element {
    typedef LONG is_signed;
    typedef ULONG is_unsigned;
};
template <> struct etw_tlg_long_element<long> {
    typedef int64_t is_signed;
    typedef uint64_t is_unsigned;
};
template <> struct etw_tlg_long_element<unsigned long> : etw_tlg_long_element<long> {
};
template <class T> typename etw_tlg_long_element<T>::is_signed etw_tlg_longs(const T *);
LONG etw_tlg_longs(decltype(nullptr));
template <class T> typename etw_tlg_long_element<T>::is_unsigned etw_tlg_ulongs(const T *);
ULONG etw_tlg_ulongs(decltype(nullptr));
#define ETW_TLG_LONG(value) decltype(etw_tlg_long(value))
#define ETW_TLG_ULONG(value) decltype(etw_tlg_ulong(value))
#define ETW_TLG_LONGS(values) decltype(etw_tlg_longs(values))
#define ETW_TLG_ULONGS(values) decltype(etw_tlg_ulongs(values))
}
#else

/* ---- C ------------------------------------------------------------------------------------------------------------------ */

#define ETW_TLG_STRUCT_GUID(value) \
    _Generic((value), uint8_t *: etw_tlg_GUID_of, const uint8_t *: etw_tlg_GUID_of, default: etw_tlg_GUID)(value)
#define ETW_TLG_STRUCT_FILETIME(value) \
    _Generic((value), uint32_t *: etw_tlg_FILETIME_of, const uint32_t *: etw_tlg_FILETIME_of, default: etw_tlg_FILETIME)(value)
#define ETW_TLG_STRUCT_SYSTEMTIME(value) \
    _Generic((value), uint16_t *: etw_tlg_SYSTEMTIME_of, const uint16_t *: etw_tlg_SYSTEMTIME_of, default: etw_tlg_SYSTEMTIME)(value)
#define ETW_TLG_STRUCT(type, value) ETW_TLG_STRUCT_##type(value)
static inline GUID etw_tlg_GUID(GUID value) { return value; }
static inline FILETIME etw_tlg_FILETIME(FILETIME value) { return value; }
static inline SYSTEMTIME etw_tlg_SYSTEMTIME(SYSTEMTIME value) { return value; }
#define ETW_TLG_ID(id) _Generic((id), uint8_t *: (const void *)(id), const uint8_t *: (const void *)(id), default: (id))

/* An integer that is no NULL has a size that no element has. */
typedef struct etw_tlg_no_pointer {
    char bytes[3];
} etw_tlg_no_pointer;
#define ETW_TLG_NULL(type, values)                                                   \
    _Generic(1 ? (int *)0 : (void *)(intptr_t)(values), int *: (const type *)0, \
             default: (const etw_tlg_no_pointer *)0)
/* The first element of an array; one of the field's type if the array is NULL or has no type. Not evaluated. */
#define ETW_TLG_FIRST(type, values)                                                                                   \
    (*_Generic((values), int: ETW_TLG_NULL(type, values), void *: (const type *)0, const void *: (const type *)0, \
               default: (values)))
/* A literal is an array of char, and no pointer. */
#define ETW_TLG_IS_LITERAL(text)                 \
    (_Generic(&(text)[0], char *: 1, default: 0) && \
     !__builtin_types_compatible_p(__typeof__(text), __typeof__(&(text)[0])))
#define ETW_TLG_HAS_NUL(text) (__builtin_strlen((const char *)(text)) != sizeof(text) - 1)
/* char32_t is another name of uint32_t. */
#if __SIZEOF_WCHAR_T__ == 4
#define ETW_TLG_IS_WIDE(value) \
    _Generic((value), wchar_t *: 1, const wchar_t *: 1, uint32_t *: 1, const uint32_t *: 1, default: 0)
#else
#define ETW_TLG_IS_WIDE(value) _Generic((value), uint32_t *: 1, const uint32_t *: 1, default: 0)
#endif
#define ETW_TLG_ASSERT_WIDE(value)                                                        \
    ETW_TLG_ASSERT(sizeof ETW_TLG_FIRST(WCHAR, value) == 2 || ETW_TLG_IS_WIDE(value), \
                   "the text has to be one of WCHAR, char16_t, wchar_t or char32_t");
#define ETW_TLG_TEXT(value) etw_tlg_text((const char *)(const void *)(value))
#define ETW_TLG_ASSERT_TEXT(value) \
    ETW_TLG_ASSERT(sizeof ETW_TLG_FIRST(char, value) == 1, "the text has to be one of char");
/* Integers of the field's size, whatever their name and sign, are stored as they are. */
#define ETW_TLG_INTEGERS(kind, values) kind *: (const void *)(values), const kind *: (const void *)(values)
#define ETW_TLG_ARRAY(type, values)                                                                         \
    _Generic((values), ETW_TLG_INTEGERS(_Bool, values), ETW_TLG_INTEGERS(char, values),                     \
             ETW_TLG_INTEGERS(signed char, values), ETW_TLG_INTEGERS(unsigned char, values),                \
             ETW_TLG_INTEGERS(short, values), ETW_TLG_INTEGERS(unsigned short, values),                     \
             ETW_TLG_INTEGERS(int, values), ETW_TLG_INTEGERS(unsigned int, values),                         \
             ETW_TLG_INTEGERS(long, values), ETW_TLG_INTEGERS(unsigned long, values),                       \
             ETW_TLG_INTEGERS(long long, values), ETW_TLG_INTEGERS(unsigned long long, values), default: (values))
/* Whether an array has the units of a structure. */
#define ETW_TLG_HAS_UNITS(type, values)                                                                              \
    _Generic(*(const type *)0, GUID: _Generic((values), uint8_t *: 1, const uint8_t *: 1, default: 0),               \
             FILETIME: _Generic((values), uint32_t *: 1, const uint32_t *: 1, default: 0),                           \
             SYSTEMTIME: _Generic((values), uint16_t *: 1, const uint16_t *: 1, default: 0), default: 0)
#define ETW_TLG_ASSERT_ARRAY(type, values)                                                                  \
    ETW_TLG_ASSERT(sizeof ETW_TLG_FIRST(type, values) == sizeof(type) || ETW_TLG_HAS_UNITS(type, values),   \
                   "the elements of the array have another size than the type of the field");
#define ETW_TLG_POINTERS(values) \
    _Generic((values), void **: (const void *)(values), void *const *: (const void *)(values), default: (values))

#define ETW_TLG_LONG(value) __typeof__(_Generic((value), long: (int64_t)0, unsigned long: (int64_t)0, default: (LONG)0))
#define ETW_TLG_ULONG(value) __typeof__(_Generic((value), long: (uint64_t)0, unsigned long: (uint64_t)0, default: (ULONG)0))
#define ETW_TLG_LONGS(values)                                                                   \
    __typeof__(_Generic((values), long *: (int64_t)0, const long *: (int64_t)0, unsigned long *: (int64_t)0, \
                        const unsigned long *: (int64_t)0, default: (LONG)0))
#define ETW_TLG_ULONGS(values)                                                                     \
    __typeof__(_Generic((values), long *: (uint64_t)0, const long *: (uint64_t)0, unsigned long *: (uint64_t)0, \
                        const unsigned long *: (uint64_t)0, default: (ULONG)0))
#endif

#ifdef __cplusplus
/* ---- C++: TraceLoggingValue -------------------------------------------------------------------------------------------------- */

struct _SID;
extern "C++" {
template <class T, uint8_t In, uint8_t Out> struct etw_tlg_scalar {
    static constexpr uint8_t in = In, out = Out;
    T value;
    const void *address() const { return &value; }
    size_t size() const { return sizeof(value); }
};
template <class T, uint8_t In, uint8_t Out> struct etw_tlg_string {
    static constexpr uint8_t in = In, out = Out;
    const T *value;
    const void *address() const { return value; }
    size_t size() const
    {
        size_t length = 0;
        while (value[length] != 0)
            length++;
        return (length + 1) * sizeof(T);
    }
};
#define ETW_TLG_OF(type, in, out) \
    inline etw_tlg_scalar<type, in, out> etw_tlg_of(type value) { return {value}; }
ETW_TLG_OF(signed char, 3, 0)
ETW_TLG_OF(unsigned char, 4, 0)
ETW_TLG_OF(short, 5, 0)
ETW_TLG_OF(unsigned short, 6, 0)
ETW_TLG_OF(int, 7, 0)
ETW_TLG_OF(unsigned int, 8, 0)
ETW_TLG_OF(long, 9, 0)
ETW_TLG_OF(unsigned long, 10, 0)
ETW_TLG_OF(long long, 9, 0)
ETW_TLG_OF(unsigned long long, 10, 0)
ETW_TLG_OF(float, 11, 0)
ETW_TLG_OF(double, 12, 0)
ETW_TLG_OF(bool, 4, 3)
ETW_TLG_OF(char, 4, 2)
ETW_TLG_OF(char16_t, 6, 2)
ETW_TLG_OF(GUID, 15, 0)
ETW_TLG_OF(FILETIME, 17, 0)
ETW_TLG_OF(SYSTEMTIME, 18, 0)
inline etw_tlg_scalar<const void *, 21, 0> etw_tlg_of(const void *value) { return {value}; }
inline etw_tlg_scalar<const void *, 21, 0> etw_tlg_of(decltype(nullptr)) { return {nullptr}; }
/* Without these, the address of a function, and that of a member, would become a bool. */
template <class Result, class... Arguments> etw_tlg_scalar<const void *, 21, 37> etw_tlg_of(Result (*value)(Arguments...))
{
    return {reinterpret_cast<const void *>(value)};
}
template <class Member, class Class> void etw_tlg_of(Member Class::*) = delete;
inline etw_tlg_string<char, 2, 0> etw_tlg_of(const char *value) { return {etw_tlg_text(value)}; }
inline etw_tlg_string<char16_t, 1, 0> etw_tlg_of(const char16_t *value) { return {value != nullptr ? value : u""}; }
#ifdef __cpp_char8_t
inline etw_tlg_scalar<char8_t, 4, 2> etw_tlg_of(char8_t value) { return {value}; }
inline etw_tlg_string<char, 2, 35> etw_tlg_of(const char8_t *value) { return {etw_tlg_text(value)}; }
#endif
struct etw_tlg_sid_value {
    static constexpr uint8_t in = 19, out = 0;
    const void *value;
    const void *address() const { return value; }
    size_t size() const { return etw_tlg_sid_size(value); }
};
inline etw_tlg_sid_value etw_tlg_of(const struct _SID *value) { return {etw_tlg_sid(value)}; }
/* A text of 32-bit units as UTF-16, in this object or, if the text is long, in allocated memory. */
class etw_tlg_converted
{
public:
    static constexpr uint8_t in = 1, out = 0;
    explicit etw_tlg_converted(const void *text) : m_long(NULL)
    {
        const PCWSTR converted = etw_tlg_utf16(m_short, &m_long, text);
        if (converted != m_short && converted != m_long)
            m_short[0] = 0;
    }
    etw_tlg_converted(etw_tlg_converted &&other) : m_long(other.m_long)
    {
        memcpy(m_short, other.m_short, sizeof m_short);
        other.m_long = NULL;
    }
    ~etw_tlg_converted() { etw_tlg_free(&m_long); }
    const void *address() const { return m_long != NULL ? m_long : m_short; }
    size_t size() const { return (etw_tlg_length(static_cast<PCWSTR>(address())) + 1) * sizeof(WCHAR); }

private:
    etw_tlg_converted(const etw_tlg_converted &);
    PWSTR m_long;
    WCHAR m_short[ETW_TLG_UNITS];
};
inline etw_tlg_converted etw_tlg_of(const char32_t *value) { return etw_tlg_converted(value); }
inline etw_tlg_scalar<char16_t, 6, 2> etw_tlg_of(char32_t value) { return {static_cast<char16_t>(etw_tlg_unit(value))}; }
#if __SIZEOF_WCHAR_T__ == 2
ETW_TLG_OF(wchar_t, 6, 2)
inline etw_tlg_string<wchar_t, 1, 0> etw_tlg_of(const wchar_t *value) { return {etw_tlg_wide(value)}; }
#else
inline etw_tlg_converted etw_tlg_of(const wchar_t *value) { return etw_tlg_converted(value); }
inline etw_tlg_scalar<char16_t, 6, 2> etw_tlg_of(wchar_t value)
{
    return {static_cast<char16_t>(etw_tlg_unit(static_cast<uint32_t>(value)))};
}
#endif
/* The name of a function, in the metadata of TraceLoggingFunction. */
template <size_t Size> struct etw_tlg_name {
    char text[Size];
};
#if __cplusplus >= 201402L
template <size_t Size> constexpr etw_tlg_name<Size> etw_tlg_name_of(const char (&text)[Size])
{
    etw_tlg_name<Size> name{};
    for (size_t n = 0; n < Size; n++)
        name.text[n] = text[n];
    return name;
}
#endif
}
#endif

#endif
