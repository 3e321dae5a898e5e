// A second file of a program that defines the GUIDs, too.
#include <windows.h>
#include <initguid.h>
#include <evntrace.h>

EXTERN_C __declspec(selectany) const EVENT_DESCRIPTOR Selected = {7, 0, 0, 4, 0, 0, 0x5};
EXTERN_C __declspec(selectany) DECLSPEC_CACHEALIGN ULONG SelectedBits[1];

const GUID *guid_of_second_file()
{
    return Selected.Id == 7 ? &EventTraceGuid : NULL;
}
