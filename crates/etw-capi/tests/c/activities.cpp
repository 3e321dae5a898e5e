// Activities: by hand, of a thread, moved, and ended by their destructors.
#include <stdio.h>
#include <utility>

#include "TraceLoggingActivity.h"
#include "etw_session.h"

TRACELOGGING_DEFINE_PROVIDER(Shop, "Test.Activities",
                             (0x11223344, 0x5566, 0x7788, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x09));

static void function_of_program(int n)
{
    TraceLoggingFunction(Shop, TraceLoggingInt32(n, "n"));
    TraceLoggingWrite(Shop, "InFunction");
}

int main(int, char **argv)
{
    ETW_SESSION session = ETW_SESSION();
    TraceLoggingRegister(Shop);
    {
        TraceLoggingActivity<Shop> early;
        TraceLoggingWriteStart(early, "NobodyListens");
        if (!early.IsStarted() || early.Id()->Data1 != 0)
            return 2;
        TraceLoggingWriteStop(early, "NobodyListens");
    }
    if (etw_session_start("activities", argv[1], &session) != ERROR_SUCCESS ||
        etw_session_enable(session, &Shop->ProviderId, 5, 0, 0) != ERROR_SUCCESS)
        return 3;
    {
        TraceLoggingActivity<Shop, 0x10, 3> parent;
        TraceLoggingWriteStart(parent, "Parent", TraceLoggingInt32(7, "n"));
        TraceLoggingActivity<Shop, 0x20> child;
        child.SetRelatedActivity(parent);
        TraceLoggingWriteTaggedIfStarted(child, "NotStarted");
        TraceLoggingWriteStart(child, "Child");
        TraceLoggingWriteTagged(child, "Tagged", TraceLoggingLevel(4), TraceLoggingKeyword(0x40));
        TraceLoggingActivity<Shop, 0x20> moved(std::move(child));
        if (child.IsStarted() || !moved.IsStarted())
            return 4;
        TraceLoggingWriteStop(parent, "Parent", TraceLoggingInt32(8, "n"));
    }
    {
        TraceLoggingThreadActivity<Shop> outer;
        TraceLoggingWriteStart(outer, "Outer");
        TraceLoggingThreadActivity<Shop> inner;
        TraceLoggingWriteStart(inner, "Inner");
        TraceLoggingWrite(Shop, "InInner");
        TraceLoggingWriteStop(inner, "Inner");
        TraceLoggingWrite(Shop, "InOuter");
        TraceLoggingWriteStop(outer, "Outer");
        TraceLoggingWrite(Shop, "InNone");
        TraceLoggingThreadActivityIdSetter setter(inner);
        TraceLoggingWrite(Shop, "Set");
    }
    function_of_program(7);
    if (etw_session_stop(session, NULL) != ERROR_SUCCESS)
        return 5;
    TraceLoggingUnregister(Shop);
    return 0;
}
