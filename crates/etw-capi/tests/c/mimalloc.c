/* Allocations through mimalloc, whose events a session of this program records. */
#include <etw_session.h>
#include "mimalloc.h"
#include <stdlib.h>

static const GUID MIMALLOC = {0x138f4dbb, 0xee04, 0x4899, {0xaa, 0x0a, 0x57, 0x2a, 0xd4, 0x47, 0x57, 0x79}};

int main(void)
{
    ETW_SESSION session;
    ULONGLONG lost;
    void *block;
    if (etw_session_start("mimalloc", getenv("DRIVER_OUT"), &session) != 0)
        return 1;
    mi_free(mi_malloc(8));
    if (etw_session_enable(session, &MIMALLOC, 5, 0, 0) != 0)
        return 2;
    block = mi_malloc(1000);
    mi_free(block);
    block = mi_malloc(5000000);
    mi_free(block);
    return etw_session_stop(session, &lost) != 0 || lost != 0 ? 3 : 0;
}
