/*
 * Prints the events of a trace: time, process, provider, name, and properties as TDH formats them.
 *
 *     cc tdh_dump.c $(pkg-config --cflags --libs etw) -o tdh_dump
 *     ./tdh_dump shop.etl [provider.man]
 */
#include <evntcons.h>
#include <evntrace.h>
#include <tdh.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints UTF-16 as UTF-8, with a dot for each control character. */
static void print_text(const WCHAR *text)
{
    for (; *text != 0; text++) {
        unsigned long c = *text;
        if (c >= 0xd800 && c < 0xdc00 && text[1] >= 0xdc00 && text[1] < 0xe000)
            c = 0x10000 + ((c - 0xd800) << 10) + (*++text - 0xdc00u);
        if (c < 0x20 || (c >= 0x7f && c < 0xa0))
            c = '.';
        if (c < 0x80) {
            putchar((int)c);
        } else if (c < 0x800) {
            printf("%c%c", (int)(0xc0 | c >> 6), (int)(0x80 | (c & 63)));
        } else if (c < 0x10000) {
            printf("%c%c%c", (int)(0xe0 | c >> 12), (int)(0x80 | (c >> 6 & 63)), (int)(0x80 | (c & 63)));
        } else {
            printf("%c%c%c%c", (int)(0xf0 | c >> 18), (int)(0x80 | (c >> 12 & 63)),
                   (int)(0x80 | (c >> 6 & 63)), (int)(0x80 | (c & 63)));
        }
    }
}

/* The rest of an event's payload, and the integers read so far, which may be the lengths or counts of later properties. */
struct walk {
    PEVENT_RECORD event;
    PTRACE_EVENT_INFO info;
    PBYTE data;
    ULONG left;
    ULONG *numbers;
};

static int print_value(struct walk *walk, USHORT number)
{
    const EVENT_PROPERTY_INFO *property = &walk->info->EventPropertyInfoArray[number];
    ULONG pointer_size = (walk->event->EventHeader.Flags & EVENT_HEADER_FLAG_32_BIT_HEADER) != 0 ? 4 : 8;
    ULONG length = property->length, map_size = 0, text_size = 0, status, value = 0;
    PEVENT_MAP_INFO map = NULL;
    PWCHAR text = NULL;
    USHORT taken = 0;

    if ((property->Flags & PropertyParamLength) != 0) {
        length = walk->numbers[property->lengthPropertyIndex];
        if (length == 0)
            return 1;
    }
    if ((property->Flags & PropertyHasCustomSchema) == 0 && property->nonStructType.MapNameOffset != 0) {
        PWSTR name = TEI_MAP_NAME(walk->info, property);
        if (TdhGetEventMapInformation(walk->event, name, NULL, &map_size) == ERROR_INSUFFICIENT_BUFFER &&
            (map = (PEVENT_MAP_INFO)malloc(map_size)) != NULL)
            TdhGetEventMapInformation(walk->event, name, map, &map_size);
    }
    do {
        free(text);
        text = (PWCHAR)malloc(text_size + 2);
        if (text == NULL)
            exit(1);
        status = TdhFormatProperty(walk->info, map, pointer_size, property->nonStructType.InType,
                                   property->nonStructType.OutType, (USHORT)length, (USHORT)walk->left,
                                   walk->data, &text_size, text, &taken);
    } while (status == ERROR_INSUFFICIENT_BUFFER);
    if (status == ERROR_SUCCESS) {
        print_text(text);
        memcpy(&value, walk->data, taken < 4 ? taken : 4);
        walk->numbers[number] = value;
        walk->data += taken;
        walk->left -= taken;
    }
    free(text);
    free(map);
    return status == ERROR_SUCCESS;
}

static int print_property(struct walk *walk, USHORT number)
{
    const EVENT_PROPERTY_INFO *property = &walk->info->EventPropertyInfoArray[number];
    ULONG count = (property->Flags & PropertyParamCount) != 0 ? walk->numbers[property->countPropertyIndex]
                                                              : property->count;
    int is_array = (property->Flags & (PropertyParamCount | PropertyParamFixedCount)) != 0 || count > 1;
    int goes_on = 1;
    putchar(' ');
    print_text(TEI_PROPERTY_NAME(walk->info, property));
    printf(is_array ? "=[" : "=");
    for (ULONG k = 0; k < (is_array ? count : 1) && goes_on; k++) {
        if (k > 0)
            printf(", ");
        if ((property->Flags & PropertyStruct) != 0) {
            USHORT first = property->structType.StructStartIndex;
            putchar('{');
            for (USHORT m = 0; m < property->structType.NumOfStructMembers && goes_on; m++)
                goes_on = print_property(walk, (USHORT)(first + m));
            putchar('}');
        } else {
            goes_on = print_value(walk, number);
        }
    }
    if (is_array)
        putchar(']');
    return goes_on;
}

static void print_name(PTRACE_EVENT_INFO info)
{
    if (TEI_PROVIDER_NAME(info) != NULL)
        print_text(TEI_PROVIDER_NAME(info));
    putchar(' ');
    if (info->DecodingSource != DecodingSourceWbem && TEI_EVENT_NAME(info) != NULL) {
        print_text(TEI_EVENT_NAME(info));
    } else if (TEI_TASK_NAME(info) != NULL) {
        print_text(TEI_TASK_NAME(info));
        if (TEI_OPCODE_NAME(info) != NULL) {
            putchar('/');
            print_text(TEI_OPCODE_NAME(info));
        }
    }
}

static VOID WINAPI on_event(PEVENT_RECORD event)
{
    struct walk walk;
    ULONG size = 0, status = TdhGetEventInformation(event, 0, NULL, NULL, &size);
    printf("%lld pid %u ", (long long)event->EventHeader.TimeStamp.QuadPart,
           (unsigned)event->EventHeader.ProcessId);
    memset(&walk, 0, sizeof walk);
    walk.event = event;
    if (status == ERROR_INSUFFICIENT_BUFFER && (walk.info = (PTRACE_EVENT_INFO)malloc(size)) != NULL)
        status = TdhGetEventInformation(event, 0, NULL, walk.info, &size);
    if (status != ERROR_SUCCESS) {
        printf("event %u of an unknown schema (%u), %u bytes\n",
               (unsigned)event->EventHeader.EventDescriptor.Id, (unsigned)status,
               (unsigned)event->UserDataLength);
        free(walk.info);
        return;
    }
    walk.data = (PBYTE)event->UserData;
    walk.left = event->UserDataLength;
    walk.numbers = (ULONG *)calloc(walk.info->PropertyCount + 1, sizeof(ULONG));
    if (walk.numbers == NULL)
        exit(1);
    print_name(walk.info);
    for (USHORT i = 0; i < walk.info->TopLevelPropertyCount; i++) {
        if (!print_property(&walk, i)) {
            printf(" ...");
            break;
        }
    }
    putchar('\n');
    free(walk.numbers);
    free(walk.info);
}

/* Converts an ASCII path to UTF-16. */
static void load(const char *path)
{
    WCHAR units[1024];
    size_t i = 0;
    for (; path[i] != 0 && i < 1023; i++)
        units[i] = (WCHAR)(unsigned char)path[i];
    units[i] = 0;
    if (TdhLoadManifest(units) != ERROR_SUCCESS)
        fprintf(stderr, "%s: cannot be loaded\n", path);
}

int main(int argc, char **argv)
{
    EVENT_TRACE_LOGFILEA logfile;
    TRACEHANDLE trace;
    ULONG status;
    if (argc < 2) {
        fprintf(stderr, "usage: tdh_dump FILE.etl [MANIFEST]\n");
        return 2;
    }
    if (argc > 2)
        load(argv[2]);
    memset(&logfile, 0, sizeof logfile);
    logfile.LogFileName = argv[1];
    logfile.ProcessTraceMode = PROCESS_TRACE_MODE_EVENT_RECORD;
    logfile.EventRecordCallback = on_event;
    trace = OpenTraceA(&logfile);
    if (trace == INVALID_PROCESSTRACE_HANDLE) {
        fprintf(stderr, "%s: OpenTrace: %u\n", argv[1], (unsigned)GetLastError());
        return 1;
    }
    status = ProcessTrace(&trace, 1, NULL, NULL);
    CloseTrace(trace);
    if (status != ERROR_SUCCESS)
        fprintf(stderr, "%s: ProcessTrace: %u\n", argv[1], (unsigned)status);
    return status != ERROR_SUCCESS;
}
