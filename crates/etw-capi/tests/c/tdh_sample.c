/*
 * A consumer in the form of Microsoft's documentation: OpenTrace, ProcessTrace, and every property of every event by TdhGetProperty
 * (recursive, by name) or by TdhFormatProperty (walking the payload). Compiled as C and as C++. The test compares its output with the
 * decoder's output for the same records.
 *
 * tdh_sample [-m MANIFEST] [-t TMF-PATH] [-n LIMIT] [-f] [-o] [-r] [-q] [-x] FILE...   -f: format; -o: the older callback; -r: raw
 * times; -q: print nothing but counts; -x: print each TRACE_EVENT_INFO as bytes
 */
#define INITGUID
#include <evntcons.h>
#include <evntrace.h>
#include <tdh.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_format, is_quiet, is_raw_info;
static unsigned long long events, buffers, limit = ~0ull;
static unsigned long long properties;
static volatile unsigned read_units;
static TRACEHANDLE handles[64];
static ULONG handle_count;
static TDH_CONTEXT contexts[2];
static ULONG context_count;
static int context_of_trace;

static void *take(size_t size)
{
    void *memory = malloc(size == 0 ? 1 : size);
    if (memory == NULL)
        exit(9);
    return memory;
}

/* Prints UTF-16 as ASCII, with \uXXXX for other characters. */
static void print_text(const WCHAR *text)
{
    for (; text != NULL && *text != 0; text++) {
        if (is_quiet)
            read_units += *text; /* Reads the whole text, so that a sanitizer checks its end. */
        else if (*text >= 0x20 && *text < 0x7f && *text != '\\')
            putchar((int)*text);
        else
            printf("\\u%04x", (unsigned)*text);
    }
}

static void print_guid(const GUID *guid)
{
    printf("%08x-%04x-%04x-", (unsigned)guid->Data1, (unsigned)guid->Data2, (unsigned)guid->Data3);
    for (int i = 0; i < 8; i++)
        printf(i == 2 ? "-%02x" : "%02x", (unsigned)guid->Data4[i]);
}

static unsigned hash(const void *data, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)data;
    unsigned value = 2166136261u;
    for (size_t i = 0; i < size; i++)
        value = (value ^ bytes[i]) * 16777619u;
    return value;
}

/* The structs around a property, outermost first. */
struct path {
    PROPERTY_DATA_DESCRIPTOR steps[128];
    ULONG count;
};

static PWCHAR name_of(PTRACE_EVENT_INFO info, USHORT property)
{
    return (PWCHAR)(void *)((PBYTE)info + info->EventPropertyInfoArray[property].NameOffset);
}

static void print_path(const struct path *path)
{
    for (ULONG i = 0; i < path->count; i++) {
        if (i > 0 && !is_quiet)
            putchar('.');
        print_text((const WCHAR *)(uintptr_t)path->steps[i].PropertyName);
        if (path->steps[i].ArrayIndex != UINT32_MAX && !is_quiet)
            printf("[%u]", (unsigned)path->steps[i].ArrayIndex);
    }
}

static void push(struct path *path, PWCHAR name, ULONG index)
{
    if (path->count == 128)
        exit(8);
    memset(&path->steps[path->count], 0, sizeof path->steps[0]);
    path->steps[path->count].PropertyName = (ULONGLONG)(uintptr_t)name;
    path->steps[path->count].ArrayIndex = index;
    path->count++;
}

/* The bytes of a property. */
static TDHSTATUS get(PEVENT_RECORD event, struct path *path, PBYTE *data, ULONG *size)
{
    TDHSTATUS status = TdhGetPropertySize(event, context_count, contexts, path->count, path->steps, size);
    if (status != ERROR_SUCCESS)
        return status;
    *data = (PBYTE)take(*size);
    if (*size == 0)
        return ERROR_SUCCESS;
    status = TdhGetProperty(event, context_count, contexts, path->count, path->steps, *size, *data);
    if (status != ERROR_SUCCESS)
        free(*data);
    return status;
}

/* The value of the integer that is a count or length, from the same struct or from the event. */
static TDHSTATUS get_number(PEVENT_RECORD event, PTRACE_EVENT_INFO info, struct path *path,
                            USHORT property, ULONG *value)
{
    struct path other = *path;
    PBYTE data = NULL;
    ULONG size = 0;
    TDHSTATUS status;
    unsigned char bytes[8] = {0};
    if (property < info->TopLevelPropertyCount)
        other.count = 0;
    push(&other, name_of(info, property), UINT32_MAX);
    status = get(event, &other, &data, &size);
    if (status != ERROR_SUCCESS)
        return status;
    memcpy(bytes, data, size < 4 ? size : 4);
    free(data);
    *value = bytes[0] | (ULONG)bytes[1] << 8 | (ULONG)bytes[2] << 16 | (ULONG)bytes[3] << 24;
    return ERROR_SUCCESS;
}

struct walk {
    PEVENT_RECORD event;
    PTRACE_EVENT_INFO info;
    struct path path;
    PBYTE data; /* The rest of the payload */
    ULONG left;
    ULONG pointer_size;
};

static TDHSTATUS print_value(struct walk *walk, const EVENT_PROPERTY_INFO *property)
{
    PEVENT_MAP_INFO map = NULL;
    PBYTE data = walk->data;
    ULONG size = walk->left, length = property->length;
    PWCHAR text = NULL;
    ULONG text_size = 0;
    USHORT taken = 0;
    TDHSTATUS status;

    if ((property->Flags & PropertyHasCustomSchema) != 0) {
        const BYTE *schema = (PBYTE)walk->info + property->customSchemaType.CustomSchemaOffset;
        USHORT head[2]; /* Protocol, size */
        memcpy(head, schema, sizeof head);
        read_units += hash(schema + 4, head[1]);
        if (!is_quiet)
            printf("custom %u %u %08x\n", (unsigned)head[0], (unsigned)head[1], hash(schema + 4, head[1]));
    }
    if ((property->Flags & PropertyParamLength) != 0) {
        struct path around = walk->path;
        around.count--;
        status = get_number(walk->event, walk->info, &around, property->lengthPropertyIndex, &length);
        if (status != ERROR_SUCCESS)
            return status;
    }
    if (!by_format) {
        status = get(walk->event, &walk->path, &data, &size);
        if (status != ERROR_SUCCESS)
            return status;
    }
    if ((property->Flags & PropertyHasCustomSchema) == 0 && property->nonStructType.MapNameOffset != 0) {
        PWCHAR name = (PWCHAR)(void *)((PBYTE)walk->info + property->nonStructType.MapNameOffset);
        ULONG map_size = 0;
        status = TdhGetEventMapInformation(walk->event, name, NULL, &map_size);
        if (status == ERROR_INSUFFICIENT_BUFFER) {
            map = (PEVENT_MAP_INFO)take(map_size);
            status = TdhGetEventMapInformation(walk->event, name, map, &map_size);
        }
        if (status != ERROR_SUCCESS) {
            free(map);
            map = NULL;
        }
    }
    /* The header flags tell the pointer size of a record from a machine of the other width. */
    if ((property->nonStructType.InType == TDH_INTYPE_POINTER || property->nonStructType.InType == TDH_INTYPE_SIZET) &&
        (length == 4 || length == 8))
        walk->pointer_size = length;
    /* A length of 0 differs from an absent length. */
    if ((property->Flags & (PropertyParamLength | PropertyParamFixedLength)) != 0 && length == 0) {
        print_path(&walk->path);
        if (!is_quiet) {
            printf("=%s\n", property->nonStructType.InType == TDH_INTYPE_BINARY ? "0x" : "");
        }
        status = ERROR_SUCCESS;
    } else {
        do {
            free(text);
            text = (PWCHAR)take(text_size);
            status = TdhFormatProperty(walk->info, map, walk->pointer_size,
                                       property->nonStructType.InType, property->nonStructType.OutType,
                                       (USHORT)length, (USHORT)(size > 0xffff ? 0xffff : size), data,
                                       &text_size, text, &taken);
        } while (status == ERROR_INSUFFICIENT_BUFFER);
        if (status == ERROR_SUCCESS) {
            print_path(&walk->path);
            if (!is_quiet)
                putchar('=');
            print_text(text);
            if (!is_quiet)
                putchar('\n');
        }
    }
    properties++;
    free(text);
    free(map);
    if (!by_format) {
        free(data);
    } else if (status == ERROR_SUCCESS) {
        walk->data += taken;
        walk->left -= taken;
    }
    return status;
}

static TDHSTATUS print_property(struct walk *walk, USHORT number)
{
    const EVENT_PROPERTY_INFO *property = &walk->info->EventPropertyInfoArray[number];
    ULONG count = property->count;
    int is_array = (property->Flags & (PropertyParamCount | PropertyParamFixedCount)) != 0 || count > 1;
    TDHSTATUS status;
    if ((property->Flags & PropertyParamCount) != 0) {
        status = get_number(walk->event, walk->info, &walk->path, property->countPropertyIndex, &count);
        if (status != ERROR_SUCCESS)
            return status;
    }
    /* An array of characters is one text. */
    if (is_array && (property->Flags & PropertyStruct) == 0 &&
        (property->nonStructType.InType == TDH_INTYPE_UNICODECHAR ||
         property->nonStructType.InType == TDH_INTYPE_ANSICHAR)) {
        EVENT_PROPERTY_INFO text = *property;
        text.nonStructType.InType = property->nonStructType.InType == TDH_INTYPE_UNICODECHAR
                                        ? (USHORT)TDH_INTYPE_UNICODESTRING
                                        : (USHORT)TDH_INTYPE_ANSISTRING;
        text.Flags = PropertyParamFixedLength;
        text.length = (USHORT)count;
        push(&walk->path, name_of(walk->info, number), UINT32_MAX);
        status = print_value(walk, &text);
        walk->path.count--;
        return status;
    }
    for (ULONG k = 0; k < (is_array ? count : 1); k++) {
        status = ERROR_SUCCESS;
        push(&walk->path, name_of(walk->info, number), is_array ? k : UINT32_MAX);
        if ((property->Flags & PropertyStruct) != 0) {
            USHORT first = property->structType.StructStartIndex;
            for (USHORT m = 0; m < property->structType.NumOfStructMembers && status == ERROR_SUCCESS; m++)
                status = print_property(walk, (USHORT)(first + m));
        } else {
            status = print_value(walk, property);
        }
        walk->path.count--;
        if (status != ERROR_SUCCESS)
            return status;
    }
    return ERROR_SUCCESS;
}

static void print_line(const char *what, PTRACE_EVENT_INFO info, ULONG offset)
{
    if (offset == 0)
        return;
    if (!is_quiet)
        printf("%s ", what);
    print_text((PWCHAR)(void *)((PBYTE)info + offset));
    if (!is_quiet)
        putchar('\n');
}

static void print_info(PTRACE_EVENT_INFO info)
{
    print_line("provider", info, info->ProviderNameOffset);
    if (info->DecodingSource != DecodingSourceWbem)
        print_line("name", info, info->EventNameOffset);
    print_line("level", info, info->LevelNameOffset);
    print_line("channel", info, info->ChannelNameOffset);
    print_line("task", info, info->TaskNameOffset);
    print_line("opcode", info, info->OpcodeNameOffset);
    print_line("message", info, info->EventMessageOffset);
    if (info->KeywordsNameOffset != 0) {
        PWCHAR keyword = (PWCHAR)(void *)((PBYTE)info + info->KeywordsNameOffset);
        while (*keyword != 0) {
            if (!is_quiet)
                printf("keyword ");
            print_text(keyword);
            if (!is_quiet)
                putchar('\n');
            while (*keyword++ != 0) {
            }
        }
    }
}

static void print_event_data(PEVENT_RECORD event)
{
    PTRACE_EVENT_INFO info = NULL;
    ULONG size = 0;
    struct walk walk;
    TDHSTATUS status = TdhGetEventInformation(event, context_count, contexts, NULL, &size);
    if (status == ERROR_INSUFFICIENT_BUFFER) {
        info = (PTRACE_EVENT_INFO)take(size);
        status = TdhGetEventInformation(event, context_count, contexts, info, &size);
    }
    if (!is_quiet)
        printf("schema %u %d\n", (unsigned)status, status == ERROR_SUCCESS ? (int)info->DecodingSource : -1);
    if (status == ERROR_SUCCESS && is_raw_info) {
        printf("info ");
        for (ULONG i = 0; i < size; i++)
            printf("%02x", (unsigned)((PBYTE)info)[i]);
        putchar('\n');
    }
    if (status == ERROR_SUCCESS) {
        print_info(info);
        memset(&walk, 0, sizeof walk);
        walk.event = event;
        walk.info = info;
        walk.data = (PBYTE)event->UserData;
        walk.left = event->UserDataLength;
        walk.pointer_size = (event->EventHeader.Flags & EVENT_HEADER_FLAG_32_BIT_HEADER) != 0 ? 4 : 8;
        for (USHORT i = 0; i < info->TopLevelPropertyCount && status == ERROR_SUCCESS; i++)
            status = print_property(&walk, i);
        if (status != ERROR_SUCCESS && !is_quiet)
            printf("error %u\n", (unsigned)status);
        if (info->DecodingSource == DecodingSourceWPP) {
            static WCHAR formatted[] = {'F', 'o', 'r', 'm', 'a', 't', 't', 'e', 'd', 'S', 't', 'r', 'i', 'n', 'g', 0};
            PBYTE text = NULL;
            memset(&walk.path, 0, sizeof walk.path);
            push(&walk.path, formatted, UINT32_MAX);
            if (get(event, &walk.path, &text, &size) == ERROR_SUCCESS) {
                if (!is_quiet)
                    printf("formatted ");
                print_text((PWCHAR)(void *)text);
                if (!is_quiet)
                    putchar('\n');
                free(text);
            }
        }
    }
    free(info);
}

static void count_event(void)
{
    /* Ends the processing, as another thread or Ctrl-C would. */
    if (++events == limit)
        for (ULONG i = 0; i < handle_count; i++)
            if (CloseTrace(handles[i]) != ERROR_CTX_CLOSE_PENDING)
                exit(7);
}

static VOID WINAPI on_record(PEVENT_RECORD event)
{
    const EVENT_HEADER *h = &event->EventHeader;
    if (event->UserContext != &context_of_trace)
        exit(6);
    if (!is_quiet) {
        printf("event ");
        print_guid(&h->ProviderId);
        printf(" %u %u %u %u %u %u %llx\n", (unsigned)h->EventDescriptor.Id, (unsigned)h->EventDescriptor.Version,
               (unsigned)h->EventDescriptor.Channel, (unsigned)h->EventDescriptor.Level,
               (unsigned)h->EventDescriptor.Opcode, (unsigned)h->EventDescriptor.Task,
               (unsigned long long)h->EventDescriptor.Keyword);
        printf("at %lld %u %u %u %x ", (long long)h->TimeStamp.QuadPart, (unsigned)h->ProcessId,
               (unsigned)h->ThreadId, (unsigned)GetEventProcessorIndex(event),
               (unsigned)(h->Flags & ~(EVENT_HEADER_FLAG_NO_CPUTIME | EVENT_HEADER_FLAG_PRIVATE_SESSION)));
        print_guid(&h->ActivityId);
        printf("\ndata %u %08x\n", (unsigned)event->UserDataLength, hash(event->UserData, event->UserDataLength));
        for (USHORT i = 0; i < event->ExtendedDataCount; i++) {
            const EVENT_HEADER_EXTENDED_DATA_ITEM *item = &event->ExtendedData[i];
            printf("item %u %u %08x %u\n", (unsigned)item->ExtType, (unsigned)item->DataSize,
                   hash((const void *)(uintptr_t)item->DataPtr, item->DataSize), (unsigned)item->Linkage);
        }
    }
    read_units += hash(event->UserData, event->UserDataLength);
    for (USHORT i = 0; i < event->ExtendedDataCount; i++)
        read_units += hash((const void *)(uintptr_t)event->ExtendedData[i].DataPtr, event->ExtendedData[i].DataSize);
    print_event_data(event);
    count_event();
}

static VOID WINAPI on_trace(PEVENT_TRACE event)
{
    if (!is_quiet) {
        printf("trace ");
        print_guid(&event->Header.Guid);
        printf(" %u %u %u %lld %u %u\n", (unsigned)event->Header.Class.Type, (unsigned)event->Header.Class.Level,
               (unsigned)event->Header.Class.Version, (long long)event->Header.TimeStamp.QuadPart,
               (unsigned)event->Header.ProcessId, (unsigned)event->Header.ThreadId);
        printf("data %u %08x\n", (unsigned)event->MofLength, hash(event->MofData, event->MofLength));
    }
    count_event();
}

static ULONG WINAPI on_buffer(PEVENT_TRACE_LOGFILE logfile)
{
    if (logfile->Context != &context_of_trace || logfile->BuffersRead == 0 ||
        (logfile->LogfileHeader.BufferSize != 0 && logfile->Filled > logfile->BufferSize && logfile->Filled < 72))
        exit(5);
    buffers++;
    return TRUE;
}

/* A path from the command line: UTF-16 of ASCII. */
static PWCHAR wide(const char *text)
{
    PWCHAR units = (PWCHAR)take((strlen(text) + 1) * sizeof(WCHAR));
    size_t i = 0;
    for (; text[i] != 0; i++)
        units[i] = (WCHAR)(unsigned char)text[i];
    units[i] = 0;
    return units;
}

int main(int argc, char **argv)
{
    ULONG mode = PROCESS_TRACE_MODE_EVENT_RECORD | PROCESS_TRACE_MODE_ETW_HOST_EVENTS, status;
    PWCHAR kept[64];
    int kept_count = 0;
    for (int i = 1; i < argc; i++) {
        EVENT_TRACE_LOGFILE logfile;
        if (strcmp(argv[i], "-f") == 0) {
            by_format = 1;
        } else if (strcmp(argv[i], "-q") == 0) {
            is_quiet = 1;
        } else if (strcmp(argv[i], "-x") == 0) {
            is_raw_info = 1;
        } else if (strcmp(argv[i], "-o") == 0) {
            mode &= ~PROCESS_TRACE_MODE_EVENT_RECORD;
        } else if (strcmp(argv[i], "-r") == 0) {
            mode |= PROCESS_TRACE_MODE_RAW_TIMESTAMP;
        } else if (strcmp(argv[i], "-n") == 0 && i + 1 < argc) {
            limit = strtoull(argv[++i], NULL, 10);
        } else if (strcmp(argv[i], "-m") == 0 && i + 1 < argc) {
            PWCHAR path = wide(argv[++i]);
            status = TdhLoadManifest(path);
            free(path);
            if (status != ERROR_SUCCESS) {
                printf("manifest %u\n", (unsigned)status);
                return 1;
            }
        } else if (strcmp(argv[i], "-t") == 0 && i + 1 < argc && kept_count < 64) {
            kept[kept_count] = wide(argv[++i]);
            contexts[0].ParameterType = TDH_CONTEXT_WPP_TMFSEARCHPATH;
            contexts[0].ParameterValue = (ULONGLONG)(uintptr_t)kept[kept_count++];
            contexts[0].ParameterSize = 0;
            context_count = 1;
        } else if (handle_count < 64) {
            memset(&logfile, 0, sizeof logfile);
            logfile.LogFileName = argv[i];
            logfile.ProcessTraceMode = mode;
            logfile.BufferCallback = on_buffer;
            logfile.Context = &context_of_trace;
            if ((mode & PROCESS_TRACE_MODE_EVENT_RECORD) != 0)
                logfile.EventRecordCallback = on_record;
            else
                logfile.EventCallback = on_trace;
            handles[handle_count] = OpenTrace(&logfile);
            if (handles[handle_count] == INVALID_PROCESSTRACE_HANDLE) {
                printf("open %u\n", (unsigned)GetLastError());
                return 1;
            }
            handle_count++;
            if (!is_quiet) {
                const TRACE_LOGFILE_HEADER *h = &logfile.LogfileHeader;
                printf("header %u %u %u %u %lld %lld %lld %u %u ", (unsigned)h->BufferSize, (unsigned)h->PointerSize,
                       (unsigned)h->NumberOfProcessors, (unsigned)h->BuffersWritten, (long long)h->StartTime.QuadPart,
                       (long long)h->EndTime.QuadPart, (long long)h->PerfFreq.QuadPart, (unsigned)h->EventsLost,
                       (unsigned)h->ReservedFlags);
                print_text(h->LoggerName);
                putchar(' ');
                print_text(h->LogFileName);
                putchar('\n');
            }
        }
    }
    status = ProcessTrace(handles, handle_count, NULL, NULL);
    printf("processed %u\nevents %llu\nbuffers %llu\n", (unsigned)status, events, buffers);
    for (ULONG i = 0; i < handle_count; i++) {
        ULONG closed = CloseTrace(handles[i]);
        if (closed != (events >= limit ? ERROR_INVALID_HANDLE : ERROR_SUCCESS))
            return 4;
    }
    while (kept_count > 0)
        free(kept[--kept_count]);
    return 0;
}
