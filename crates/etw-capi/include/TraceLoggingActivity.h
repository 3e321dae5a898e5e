/*
 * TraceLogging's activities for C++17: start and stop events with an activity id. For systems other than Windows; link with -letw.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs. The Stop event of TraceLoggingFunction, and of
 * every activity whose object ends before the activity is stopped, is named ActivityStoppedAutomatically.
 *
 *     TraceLoggingActivity<Shop, 0x10, 4> visit; // keyword and level of the start and the stop
 *     TraceLoggingWriteStart(visit, "Visit", TraceLoggingInt32(customer));
 *     TraceLoggingWriteTagged(visit, "Looked", TraceLoggingLevel(4));
 *     TraceLoggingWriteStop(visit, "Visit");
 */
#ifndef TRACELOGGINGACTIVITY_H
#define TRACELOGGINGACTIVITY_H

#include "TraceLoggingProvider.h"

#ifdef __cplusplus
extern "C++" {

/* The base of both kinds: the id of the activity from its start to its stop, and that of the related activity. */
class etw_activity
{
public:
    /* The id of the last start; zeros before it, or if no session enabled it. */
    const GUID *Id() const { return &m_id; }
    bool IsStarted() const { return m_is_started; }

protected:
    etw_activity() : m_id(), m_related(), m_is_started(false), m_has_related(false) {}
    ~etw_activity() {}
    void begin(bool is_wanted)
    {
        m_id = GUID();
        if (is_wanted)
            EventActivityIdControl(EVENT_ACTIVITY_CTRL_CREATE_ID, &m_id);
        m_is_started = true;
    }
    void relate(const GUID &id)
    {
        m_related = id;
        m_has_related = true;
    }
    void take(etw_activity &other)
    {
        m_id = other.m_id;
        m_related = other.m_related;
        m_is_started = other.m_is_started;
        m_has_related = other.m_has_related;
        other.m_is_started = false;
    }

    GUID m_id, m_related;
    bool m_is_started, m_has_related;

private:
    etw_activity(const etw_activity &);
    etw_activity &operator=(const etw_activity &);
};

/* An activity that the program starts, stops and moves. If the object ends first, it writes ActivityStoppedAutomatically. */
template <TraceLoggingHProvider const &provider, UINT64 keyword = 0, UINT8 level = 5>
class TraceLoggingActivity : public etw_activity
{
public:
    static const UINT64 Keyword = keyword;
    static const UINT8 Level = level;

    TraceLoggingActivity() {}
    TraceLoggingActivity(TraceLoggingActivity &&other) { take(other); }
    ~TraceLoggingActivity();
    static TraceLoggingHProvider Provider() { return provider; }
    /* Sets the related activity, before the start. */
    template <typename Other> void SetRelatedActivity(const Other &other) { relate(*other.Id()); }
    void SetRelatedActivityId(const GUID &id) { relate(id); }
    void SetRelatedActivityId(const GUID *id) { relate(*id); }

    void etw_begin() { begin(TraceLoggingProviderEnabled(provider, level, keyword) != 0); }
    void etw_end() { m_is_started = false; }
    const GUID *etw_related() const { return m_has_related ? &m_related : NULL; }
};

/* An activity of a thread: from its start to its stop it is the thread's current activity. The previous one is its related activity. */
template <TraceLoggingHProvider const &provider, UINT64 keyword = 0, UINT8 level = 5>
class TraceLoggingThreadActivity : public etw_activity
{
public:
    static const UINT64 Keyword = keyword;
    static const UINT8 Level = level;

    TraceLoggingThreadActivity() {}
    TraceLoggingThreadActivity(TraceLoggingThreadActivity &&other) { take(other); }
    ~TraceLoggingThreadActivity();
    static TraceLoggingHProvider Provider() { return provider; }

    void etw_begin()
    {
        begin(TraceLoggingProviderEnabled(provider, level, keyword) != 0);
        if (!is_of_zeros(m_id)) {
            GUID id = m_id;
            EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_SET_ID, &id);
            m_related = id;
            m_has_related = true;
        }
    }
    void etw_end()
    {
        m_is_started = false;
        if (m_has_related)
            EventActivityIdControl(EVENT_ACTIVITY_CTRL_SET_ID, &m_related);
        m_has_related = false;
    }
    const GUID *etw_related() const { return m_has_related && !is_of_zeros(m_related) ? &m_related : NULL; }

private:
    static bool is_of_zeros(const GUID &id)
    {
        static const GUID none = {0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}};
        return memcmp(&id, &none, sizeof id) == 0;
    }
};

/* Sets the thread's current activity while the object lives. */
class TraceLoggingThreadActivityIdSetter
{
public:
    explicit TraceLoggingThreadActivityIdSetter(const GUID &id) { set(id); }
    explicit TraceLoggingThreadActivityIdSetter(const GUID *id) { set(*id); }
    template <typename Activity> explicit TraceLoggingThreadActivityIdSetter(const Activity &activity) { set(*activity.Id()); }
    ~TraceLoggingThreadActivityIdSetter() { EventActivityIdControl(EVENT_ACTIVITY_CTRL_SET_ID, &m_before); }

private:
    void set(const GUID &id)
    {
        m_before = id;
        EventActivityIdControl(EVENT_ACTIVITY_CTRL_GET_SET_ID, &m_before);
    }
    TraceLoggingThreadActivityIdSetter(const TraceLoggingThreadActivityIdSetter &);
    TraceLoggingThreadActivityIdSetter &operator=(const TraceLoggingThreadActivityIdSetter &);

    GUID m_before;
};

template <typename Type> struct etw_without_reference {
    typedef Type type;
};
template <typename Type> struct etw_without_reference<Type &> {
    typedef Type type;
};
template <typename Type> using etw_activity_type = typename etw_without_reference<Type>::type;

/* An event with the level and the keyword of the activity. */
#define ETW_TLG_OF_ACTIVITY(activity, name, related, opcode, ...)                                                     \
    TraceLoggingWriteActivity((activity).Provider(), name, (activity).Id(), related,                                  \
                              ETW_TLG_ACTIVITY_OPTIONS(activity, opcode) __VA_OPT__(,) __VA_ARGS__)
#define ETW_TLG_ACTIVITY_OPTIONS(activity, opcode)                                                            \
    TraceLoggingOpcode(opcode), TraceLoggingLevel(etw_activity_type<decltype(activity)>::Level),              \
        TraceLoggingKeyword(etw_activity_type<decltype(activity)>::Keyword)
#define TraceLoggingWriteStart(activity, name, ...)                                                           \
    do {                                                                                                      \
        (activity).etw_begin();                                                                               \
        ETW_TLG_OF_ACTIVITY(activity, name, (activity).etw_related(), 1 __VA_OPT__(,) __VA_ARGS__);           \
    } while (0)
#define TraceLoggingWriteStop(activity, name, ...)                                                            \
    do {                                                                                                      \
        (activity).etw_end();                                                                                 \
        ETW_TLG_OF_ACTIVITY(activity, name, NULL, 2 __VA_OPT__(,) __VA_ARGS__);                               \
    } while (0)
/* A thread activity from here to the end of the scope, with the name of the function (C++14). */
#define TraceLoggingFunction(hProvider, ...)                                                                          \
    TraceLoggingThreadActivity<hProvider> ETW_TLG_CAT(etw_function_, __LINE__);                                       \
    ETW_TLG_FUNCTION(ETW_TLG_CAT(etw_function_, __LINE__) __VA_OPT__(,) __VA_ARGS__)
#define ETW_TLG_FUNCTION(activity, ...)                                                                               \
    do {                                                                                                              \
        typedef etw_tlg_name<sizeof(__func__)> etw_function_name;                                                     \
        (activity).etw_begin();                                                                                       \
        ETW_TLG_WRITE_NAMED(ETW_TLG_SEND_EX(0, 0, (activity).Id(), (activity).etw_related()), (activity).Provider(),  \
                            etw_function_name name, etw_tlg_name_of(__func__),                                        \
                            ETW_TLG_ACTIVITY_OPTIONS(activity, 1) __VA_OPT__(,) __VA_ARGS__);                         \
    } while (0)
/* An event with a level and a keyword of its own, and the id of the activity. */
#define TraceLoggingWriteTagged(activity, name, ...) \
    TraceLoggingWriteActivity((activity).Provider(), name, (activity).Id(), NULL __VA_OPT__(,) __VA_ARGS__)
#define TraceLoggingWriteTaggedIfStarted(activity, name, ...)                          \
    do {                                                                               \
        if ((activity).IsStarted())                                                    \
            TraceLoggingWriteTagged(activity, name __VA_OPT__(,) __VA_ARGS__);         \
    } while (0)

template <TraceLoggingHProvider const &provider, UINT64 keyword, UINT8 level>
TraceLoggingActivity<provider, keyword, level>::~TraceLoggingActivity()
{
    if (m_is_started)
        TraceLoggingWriteStop(*this, "ActivityStoppedAutomatically");
}

template <TraceLoggingHProvider const &provider, UINT64 keyword, UINT8 level>
TraceLoggingThreadActivity<provider, keyword, level>::~TraceLoggingThreadActivity()
{
    if (m_is_started)
        TraceLoggingWriteStop(*this, "ActivityStoppedAutomatically");
}
}
#endif
#endif
