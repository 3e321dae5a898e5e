/* A second source of the program: its messages have a GUID of their own. */
#include <evntrace.h>
#include "trace.h"
#include "other.tmh"

int other_file(void)
{
    return DoTraceMessage(Orders, "from another file") ? 0 : 1;
}
