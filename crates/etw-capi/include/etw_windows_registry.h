/*
 * The registry of Windows, as far as event sources and settings of programs need it: keys and values that the process itself has set, in its
 * memory. Everything else is absent (ERROR_FILE_NOT_FOUND). Included by etw_windows.h.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 */
#ifndef ETW_WINDOWS_REGISTRY_H
#define ETW_WINDOWS_REGISTRY_H

#ifdef __cplusplus
extern "C++" {
#endif

#define HKEY_CLASSES_ROOT ((HKEY)(ULONG_PTR)0x80000000u)
#define HKEY_CURRENT_USER ((HKEY)(ULONG_PTR)0x80000001u)
#define HKEY_LOCAL_MACHINE ((HKEY)(ULONG_PTR)0x80000002u)
#define HKEY_USERS ((HKEY)(ULONG_PTR)0x80000003u)
#define KEY_QUERY_VALUE 0x0001
#define KEY_SET_VALUE 0x0002
#define KEY_CREATE_SUB_KEY 0x0004
#define KEY_ENUMERATE_SUB_KEYS 0x0008
#define KEY_NOTIFY 0x0010
#define KEY_WOW64_64KEY 0x0100
#define KEY_WOW64_32KEY 0x0200
#define KEY_READ 0x20019
#define KEY_WRITE 0x20006
#define KEY_ALL_ACCESS 0xf003f
#define REG_OPTION_NON_VOLATILE 0u
#define REG_OPTION_VOLATILE 1u
#define REG_CREATED_NEW_KEY 1u
#define REG_OPENED_EXISTING_KEY 2u
#define REG_NONE 0u
#define REG_SZ 1u
#define REG_EXPAND_SZ 2u
#define REG_BINARY 3u
#define REG_DWORD 4u
#define REG_MULTI_SZ 7u
#define REG_QWORD 11u
typedef HKEY *PHKEY;
typedef DWORD REGSAM;

typedef struct etw_registry_value {
    struct etw_registry_value *next;
    char *name;
    DWORD type, size;
    BYTE *bytes; /* Texts have 16-bit units. */
} etw_registry_value;
typedef struct etw_registry_key {
    struct etw_registry_key *next;
    char *path;
    etw_registry_value *values;
} etw_registry_key;
/* One for all files of the program. */
__attribute__((weak)) etw_registry_key *etw_registry;
__attribute__((weak)) pthread_mutex_t etw_registry_lock = PTHREAD_MUTEX_INITIALIZER;

static inline BOOL etw_registry_path(char *to, size_t room, HKEY under, const char *name)
{
    const ULONG_PTR root = (ULONG_PTR)under;
    const BOOL is_root = root >= 0x80000000u && root <= 0x80000006u;
    const BOOL has_name = name != NULL && *name != 0;
    const int length = is_root ? snprintf(to, room, "%x%s%s", (unsigned)root, has_name ? "\\" : "", has_name ? name : "")
                               : snprintf(to, room, "%s%s%s", ((etw_registry_key *)under)->path, has_name ? "\\" : "", has_name ? name : "");
    return length > 0 && (size_t)length < room;
}
static inline LSTATUS RegCloseKey(HKEY key) { return key == NULL ? (LSTATUS)ERROR_INVALID_HANDLE : 0; }
static inline LSTATUS etw_registry_open(HKEY under, const char *name, BOOL creates, HKEY *key, DWORD *disposition)
{
    char path[4096];
    etw_registry_key *found;
    if (under == NULL || key == NULL || !etw_registry_path(path, sizeof path, under, name))
        return (LSTATUS)ERROR_INVALID_PARAMETER;
    pthread_mutex_lock(&etw_registry_lock);
    for (found = etw_registry; found != NULL && strcasecmp(found->path, path) != 0; found = found->next)
        ;
    if (disposition != NULL)
        *disposition = found == NULL ? REG_CREATED_NEW_KEY : REG_OPENED_EXISTING_KEY;
    if (found == NULL && creates && (found = (etw_registry_key *)calloc(1, sizeof *found)) != NULL) {
        found->path = strdup(path);
        found->next = etw_registry;
        etw_registry = found;
    }
    pthread_mutex_unlock(&etw_registry_lock);
    *key = (HKEY)found;
    return found != NULL ? 0 : creates ? (LSTATUS)ERROR_NOT_ENOUGH_MEMORY : (LSTATUS)ERROR_FILE_NOT_FOUND;
}
static inline etw_registry_value **etw_registry_find(HKEY key, const char *name)
{
    etw_registry_value **at = &((etw_registry_key *)key)->values;
    while (*at != NULL && strcasecmp((*at)->name, name == NULL ? "" : name) != 0)
        at = &(*at)->next;
    return at;
}
static inline BOOL etw_registry_is_key(HKEY key) { return (ULONG_PTR)key > 0x8000ffffu; }
static inline BOOL etw_registry_is_text(DWORD type) { return type == REG_SZ || type == REG_EXPAND_SZ || type == REG_MULTI_SZ; }
static inline LSTATUS etw_registry_set(HKEY key, const char *name, DWORD type, const void *bytes, DWORD size)
{
    etw_registry_value **at, *value;
    BYTE *copy = (BYTE *)malloc(size + 1);
    if (!etw_registry_is_key(key) || copy == NULL) {
        free(copy);
        return (LSTATUS)(copy == NULL ? ERROR_NOT_ENOUGH_MEMORY : ERROR_INVALID_HANDLE);
    }
    if (size > 0)
        memcpy(copy, bytes, size);
    pthread_mutex_lock(&etw_registry_lock);
    at = etw_registry_find(key, name);
    if (*at == NULL && (value = (etw_registry_value *)calloc(1, sizeof *value)) != NULL) {
        value->name = strdup(name == NULL ? "" : name);
        *at = value;
    }
    if (*at != NULL) {
        free((*at)->bytes);
        (*at)->bytes = copy;
        (*at)->type = type;
        (*at)->size = size;
    }
    pthread_mutex_unlock(&etw_registry_lock);
    return 0;
}
/* Texts of bytes (is_wide 0) become those, and are counted in bytes of UTF-8. */
static inline LSTATUS etw_registry_get(HKEY key, const char *name, BOOL is_wide, DWORD *type, void *to, DWORD *size)
{
    etw_registry_value *value;
    LSTATUS status = (LSTATUS)ERROR_FILE_NOT_FOUND;
    if (!etw_registry_is_key(key))
        return (LSTATUS)ERROR_FILE_NOT_FOUND;
    pthread_mutex_lock(&etw_registry_lock);
    value = *etw_registry_find(key, name);
    if (value != NULL) {
        const BOOL converts = !is_wide && etw_registry_is_text(value->type);
        const DWORD needed = converts ? (DWORD)WideCharToMultiByte(CP_UTF8, 0, (const WCHAR *)(void *)value->bytes, (int)(value->size / 2), NULL, 0, NULL, NULL)
                                      : value->size;
        status = to == NULL || size == NULL || *size >= needed ? 0 : (LSTATUS)ERROR_MORE_DATA;
        if (status == 0 && to != NULL && converts)
            WideCharToMultiByte(CP_UTF8, 0, (const WCHAR *)(void *)value->bytes, (int)(value->size / 2), (char *)to, (int)needed, NULL, NULL);
        else if (status == 0 && to != NULL)
            memcpy(to, value->bytes, needed);
        if (size != NULL)
            *size = needed;
        if (type != NULL)
            *type = value->type;
    }
    pthread_mutex_unlock(&etw_registry_lock);
    return status;
}
static inline LSTATUS etw_registry_remove_value(HKEY key, const char *name)
{
    etw_registry_value **at, *value;
    if (!etw_registry_is_key(key))
        return (LSTATUS)ERROR_FILE_NOT_FOUND;
    pthread_mutex_lock(&etw_registry_lock);
    at = etw_registry_find(key, name);
    value = *at;
    if (value != NULL)
        *at = value->next;
    pthread_mutex_unlock(&etw_registry_lock);
    if (value == NULL)
        return (LSTATUS)ERROR_FILE_NOT_FOUND;
    free(value->name);
    free(value->bytes);
    free(value);
    return 0;
}
/* The memory of a removed key stays: another thread may have its handle. */
static inline LSTATUS etw_registry_remove(HKEY under, const char *name)
{
    HKEY key;
    const LSTATUS status = etw_registry_open(under, name, FALSE, &key, NULL);
    if (status == 0) {
        pthread_mutex_lock(&etw_registry_lock);
        for (etw_registry_key **at = &etw_registry; *at != NULL; at = &(*at)->next) {
            if (*at == (etw_registry_key *)key) {
                *at = (*at)->next;
                break;
            }
        }
        pthread_mutex_unlock(&etw_registry_lock);
    }
    return status;
}

static inline LSTATUS RegCreateKeyExA(HKEY under, LPCSTR name, DWORD reserved, LPSTR class_name, DWORD options, REGSAM access,
                                      const LPSECURITY_ATTRIBUTES security, PHKEY key, LPDWORD disposition)
{
    (void)reserved, (void)class_name, (void)options, (void)access, (void)security;
    return etw_registry_open(under, name, TRUE, key, disposition);
}
static inline LSTATUS RegOpenKeyExA(HKEY under, LPCSTR name, DWORD options, REGSAM access, PHKEY key)
{
    (void)options, (void)access;
    return etw_registry_open(under, name, FALSE, key, NULL);
}
static inline LSTATUS RegSetValueExA(HKEY key, LPCSTR name, DWORD reserved, DWORD type, const BYTE *bytes, DWORD size)
{
    (void)reserved;
    if (etw_registry_is_text(type) && size > 0) {
        const int units = MultiByteToWideChar(CP_UTF8, 0, (const char *)bytes, (int)size, NULL, 0);
        WCHAR *text = (WCHAR *)malloc(((size_t)units + 1) * sizeof *text);
        LSTATUS status;
        if (text == NULL)
            return (LSTATUS)ERROR_NOT_ENOUGH_MEMORY;
        MultiByteToWideChar(CP_UTF8, 0, (const char *)bytes, (int)size, text, units);
        status = etw_registry_set(key, name, type, text, (DWORD)units * 2);
        free(text);
        return status;
    }
    return etw_registry_set(key, name, type, bytes, size);
}
static inline LSTATUS RegQueryValueExA(HKEY key, LPCSTR name, LPDWORD reserved, LPDWORD type, BYTE *to, LPDWORD size)
{
    (void)reserved;
    return etw_registry_get(key, name, FALSE, type, to, size);
}
static inline LSTATUS RegDeleteValueA(HKEY key, LPCSTR name) { return etw_registry_remove_value(key, name); }
static inline LSTATUS RegDeleteKeyA(HKEY under, LPCSTR name) { return etw_registry_remove(under, name); }

/* A name in UTF-8; "" for NULL. Names of keys and values have at most 255 and 16,383 characters. */
static inline const char *etw_registry_name(LPCWSTR name, char *to, int room)
{
    if (name == NULL || WideCharToMultiByte(CP_UTF8, 0, name, -1, to, room, NULL, NULL) == 0)
        *to = 0;
    return to;
}
static inline LSTATUS RegCreateKeyExW(HKEY under, LPCWSTR name, DWORD reserved, LPWSTR class_name, DWORD options, REGSAM access,
                                      const LPSECURITY_ATTRIBUTES security, PHKEY key, LPDWORD disposition)
{
    char bytes[1024];
    (void)reserved, (void)class_name, (void)options, (void)access, (void)security;
    return etw_registry_open(under, etw_registry_name(name, bytes, sizeof bytes), TRUE, key, disposition);
}
static inline LSTATUS RegOpenKeyExW(HKEY under, LPCWSTR name, DWORD options, REGSAM access, PHKEY key)
{
    char bytes[1024];
    (void)options, (void)access;
    return etw_registry_open(under, etw_registry_name(name, bytes, sizeof bytes), FALSE, key, NULL);
}
static inline LSTATUS RegSetValueExW(HKEY key, LPCWSTR name, DWORD reserved, DWORD type, const BYTE *bytes, DWORD size)
{
    char value[1024];
    (void)reserved;
    return etw_registry_set(key, etw_registry_name(name, value, sizeof value), type, bytes, size);
}
static inline LSTATUS RegQueryValueExW(HKEY key, LPCWSTR name, LPDWORD reserved, LPDWORD type, BYTE *to, LPDWORD size)
{
    char value[1024];
    (void)reserved;
    return etw_registry_get(key, etw_registry_name(name, value, sizeof value), TRUE, type, to, size);
}
static inline LSTATUS RegDeleteValueW(HKEY key, LPCWSTR name)
{
    char value[1024];
    return etw_registry_remove_value(key, etw_registry_name(name, value, sizeof value));
}
static inline LSTATUS RegDeleteKeyW(HKEY under, LPCWSTR name)
{
    char bytes[1024];
    return etw_registry_remove(under, etw_registry_name(name, bytes, sizeof bytes));
}
static inline LSTATUS RegCreateKeyA(HKEY under, LPCSTR name, PHKEY key) { return etw_registry_open(under, name, TRUE, key, NULL); }
static inline LSTATUS RegOpenKeyA(HKEY under, LPCSTR name, PHKEY key) { return etw_registry_open(under, name, FALSE, key, NULL); }
static inline LSTATUS RegCreateKeyW(HKEY under, LPCWSTR name, PHKEY key) { return RegCreateKeyExW(under, name, 0, NULL, 0, 0, NULL, key, NULL); }
static inline LSTATUS RegOpenKeyW(HKEY under, LPCWSTR name, PHKEY key) { return RegOpenKeyExW(under, name, 0, 0, key); }
static inline LSTATUS RegFlushKey(HKEY key) { return key == NULL ? (LSTATUS)ERROR_INVALID_HANDLE : 0; }
#ifdef UNICODE
#define RegCreateKey RegCreateKeyW
#define RegOpenKey RegOpenKeyW
#define RegCreateKeyEx RegCreateKeyExW
#define RegOpenKeyEx RegOpenKeyExW
#define RegSetValueEx RegSetValueExW
#define RegQueryValueEx RegQueryValueExW
#define RegDeleteValue RegDeleteValueW
#define RegDeleteKey RegDeleteKeyW
#else
#define RegCreateKey RegCreateKeyA
#define RegOpenKey RegOpenKeyA
#define RegCreateKeyEx RegCreateKeyExA
#define RegOpenKeyEx RegOpenKeyExA
#define RegSetValueEx RegSetValueExA
#define RegQueryValueEx RegQueryValueExA
#define RegDeleteValue RegDeleteValueA
#define RegDeleteKey RegDeleteKeyA
#endif

#ifdef __cplusplus
}
#endif
#endif
