/*
 * Names and layouts that programs for Windows rely on: with _WIN32, structures that a program declares ahead, values of threads with a
 * callback, headers of packets, and a struct in6_addr of its own.
 */
#ifndef _WIN32
#error "this program is compiled with -D_WIN32"
#endif
struct _RTL_CRITICAL_SECTION;
struct _RTL_SRWLOCK;
struct _RTL_CONDITION_VARIABLE;
#ifdef OWN_ADDRESSES
#include <windows.h>
#include <evntcons.h>
#include <tdh.h>
/* Wireshark's etw_message.h has this. */
typedef struct in6_addr {
    union {
        UCHAR Byte[16];
        USHORT Word[8];
    } u;
} IN6_ADDR, *PIN6_ADDR, FAR *LPIN6_ADDR;
int main(void)
{
    IN6_ADDR address = {{{1}}};
    LPIN6_ADDR same = &address;
    return same->u.Byte[0] == 1 && htons(0x1234) == 0x3412 ? 0 : 1;
}
#else
#include <windows.h>
#include <direct.h>
#include <inaddr.h>
#include <io.h>
#include <ip2string.h>
#include <netiodef.h>
#include <winsock2.h>
#include <ws2tcpip.h>
#include <stdlib.h>

#define CHECK(it) ((it) ? (void)0 : (fprintf(stderr, "%s\n", #it), exit(1)))

static struct _RTL_CRITICAL_SECTION section;
static struct _RTL_SRWLOCK lock = RTL_SRWLOCK_INIT;
static SRWLOCK other = SRWLOCK_INIT;
static struct _RTL_CONDITION_VARIABLE variable = RTL_CONDITION_VARIABLE_INIT;
static DWORD fls, freed;

static VOID WINAPI at_end(PVOID value) { freed = *(DWORD *)value; }

static DWORD WINAPI thread(LPVOID value)
{
    FlsSetValue(fls, value);
    return FlsGetValue(fls) == value;
}

static void locks_and_values(void)
{
    DWORD number = 7;
    HANDLE handle;
    InitializeCriticalSection(&section);
    EnterCriticalSection(&section);
    CHECK(TryEnterCriticalSection(&section));
    CHECK(!SleepConditionVariableCS(&variable, &section, 1));
    LeaveCriticalSection(&section);
    LeaveCriticalSection(&section);
    DeleteCriticalSection(&section);
    AcquireSRWLockExclusive(&lock);
    CHECK(!TryAcquireSRWLockShared(&lock));
    ReleaseSRWLockExclusive(&lock);
    AcquireSRWLockShared(&other);
    CHECK(TryAcquireSRWLockShared(&other) && !TryAcquireSRWLockExclusive(&other));
    fls = FlsAlloc(at_end);
    CHECK(fls != FLS_OUT_OF_INDEXES);
    handle = CreateThread(NULL, 0, thread, &number, 0, NULL);
    WaitForSingleObject(handle, INFINITE);
    CloseHandle(handle);
    /* The callback runs before the thread's handle is signaled, or soon after. */
    for (int turn = 0; turn < 10000 && freed != 7; turn++)
        Sleep(1);
    CHECK(freed == 7);
    CHECK(FlsFree(fls));
}

static void packets(void)
{
    UCHAR packet[54] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00, 0x45, 0x03, 0x00, 0x28, 0, 1, 0x20, 0, 64, 6, 0, 0, 127, 0, 0, 1};
    PETHERNET_HEADER ethernet = (PETHERNET_HEADER)packet;
    PIPV4_HEADER ip;
    char text[46], *end;
    IN6_ADDR loopback;
    CHECK(sizeof(ETHERNET_HEADER) == 14 && sizeof(IPV4_HEADER) == 20 && sizeof(IPV6_HEADER) == 40);
    CHECK(sizeof(TCP_HDR) == 20 && sizeof(UDP_HDR) == 8 && sizeof(IPV6_FRAGMENT_HEADER) == 8 && sizeof(VLAN_TAG) == 4);
    CHECK(ntohs(ethernet->Type) == ETHERNET_TYPE_IPV4 && ethernet->Source.Byte[5] == 12);
    ip = (PIPV4_HEADER)(void *)(packet + sizeof(ETHERNET_HEADER));
    CHECK(ip->Version == IPV4_VERSION && ip->HeaderLength == 5 && ip->EcnField == 3 && ip->MoreFragments);
    CHECK(!ip->DontFragment && ntohs(ip->TotalLength) == 40 && ip->Protocol == IPPROTO_TCP);
    end = RtlIpv4AddressToStringA(&ip->SourceAddress, text);
    CHECK(strcmp(text, "127.0.0.1") == 0 && end == text + 9);
    memset(&loopback, 0, sizeof loopback);
    loopback.s6_addr[15] = 1;
    end = RtlIpv6AddressToStringA(&loopback, text);
    CHECK(strcmp(text, "::1") == 0 && end == text + 3);
}

static void registry_and_users(void)
{
    const WCHAR path[] = {'S', '\\', 'A', 0}, lower[] = {'s', '\\', 'a', 0}, file[] = {'F', 0}, text[] = {'x', 0xe4, 0};
    HKEY key, again;
    DWORD how, type, size, number = 7;
    BYTE room[64], user[128], copy[64];
    HANDLE token;
    CHECK(RegOpenKeyExW(HKEY_LOCAL_MACHINE, path, 0, KEY_READ, &key) == (LSTATUS)ERROR_FILE_NOT_FOUND);
    CHECK(RegCreateKeyExW(HKEY_LOCAL_MACHINE, path, 0, NULL, REG_OPTION_NON_VOLATILE, KEY_ALL_ACCESS, NULL, &key, &how) == 0);
    CHECK(how == REG_CREATED_NEW_KEY);
    CHECK(RegSetValueExW(key, file, 0, REG_SZ, (const BYTE *)text, sizeof text) == 0);
    CHECK(RegSetValueExA(key, "T", 0, REG_DWORD, (const BYTE *)&number, sizeof number) == 0);
    CHECK(RegCreateKeyExW(HKEY_LOCAL_MACHINE, lower, 0, NULL, 0, KEY_READ, NULL, &again, &how) == 0 && again == key);
    CHECK(how == REG_OPENED_EXISTING_KEY);
    size = 0;
    CHECK(RegQueryValueExA(again, "f", NULL, &type, NULL, &size) == 0 && size == 4 && type == REG_SZ);
    CHECK(RegQueryValueExA(again, "f", NULL, &type, room, &size) == 0 && memcmp(room, "x\xc3\xa4", 4) == 0);
    size = 2;
    CHECK(RegQueryValueExW(again, file, NULL, NULL, room, &size) == (LSTATUS)ERROR_MORE_DATA && size == sizeof text);
    size = sizeof room;
    CHECK(RegQueryValueExA(again, "T", NULL, &type, room, &size) == 0 && size == 4 && room[0] == 7);
    CHECK(RegDeleteValueA(again, "t") == 0 && RegDeleteValueA(again, "t") == (LSTATUS)ERROR_FILE_NOT_FOUND);
    CHECK(RegDeleteKeyW(HKEY_LOCAL_MACHINE, lower) == 0 && RegCloseKey(key) == 0);
    CHECK(RegOpenKeyExA(HKEY_LOCAL_MACHINE, "S\\A", 0, KEY_READ, &key) == (LSTATUS)ERROR_FILE_NOT_FOUND);
    CHECK(OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token));
    CHECK(!GetTokenInformation(token, TokenUser, NULL, 0, &size) && GetLastError() == ERROR_INSUFFICIENT_BUFFER);
    CHECK(size <= sizeof user && GetTokenInformation(token, TokenUser, user, size, &size));
    CHECK(IsValidSid(((PTOKEN_USER)(void *)user)->User.Sid));
    CHECK(CopySid(sizeof copy, copy, ((PTOKEN_USER)(void *)user)->User.Sid) && copy[1] == 2 && copy[7] == 22 && copy[8] == 1);
}

static void files(const char *folder)
{
    char path[64], moved[64], bytes[16];
    DWORD count;
    LARGE_INTEGER at, size;
    HANDLE file;
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(moved, sizeof moved, "%s/moved", folder);
    CHECK(CreateFileA(path, GENERIC_READ, 0, NULL, OPEN_EXISTING, 0, NULL) == INVALID_HANDLE_VALUE);
    CHECK(GetLastError() == ERROR_FILE_NOT_FOUND);
    file = CreateFileA(path, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ, NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
    CHECK(file != INVALID_HANDLE_VALUE && WriteFile(file, "0123456789", 10, &count, NULL) && count == 10);
    at.QuadPart = 4;
    CHECK(SetFilePointerEx(file, at, &at, FILE_BEGIN) && at.QuadPart == 4);
    CHECK(ReadFile(file, bytes, sizeof bytes, &count, NULL) && count == 6 && memcmp(bytes, "456789", 6) == 0);
    CHECK(GetFileSizeEx(file, &size) && size.QuadPart == 10 && GetFileSize(file, NULL) == 10 && FlushFileBuffers(file));
    CHECK(CloseHandle(file));
    CHECK(CreateFileA(path, GENERIC_WRITE, 0, NULL, CREATE_NEW, 0, NULL) == INVALID_HANDLE_VALUE && GetLastError() == ERROR_FILE_EXISTS);
    file = CreateFileA(path, FILE_APPEND_DATA, 0, NULL, OPEN_ALWAYS, 0, NULL);
    CHECK(file != INVALID_HANDLE_VALUE && GetLastError() == ERROR_ALREADY_EXISTS && WriteFile(file, "x", 1, NULL, NULL));
    CHECK(GetFileSize(file, NULL) == 11 && CloseHandle(file) && !WriteFile(INVALID_HANDLE_VALUE, "x", 1, &count, NULL));
    CHECK(MoveFileExA(path, moved, MOVEFILE_REPLACE_EXISTING) && DeleteFileA(moved) && !DeleteFileA(path));
}

int main(void)
{
    WSADATA data;
    char folder[32] = "", *here = NULL;
    SSIZE_T minus = -1;
    PSSIZE_T less = &minus;
    CHECK(sizeof(SSIZE_T) == sizeof(void *) && *less < 0);
    CHECK(WSAStartup(0x0202, &data) == 0 && data.wVersion == 0x0202 && WSACleanup() == 0);
    snprintf(folder, sizeof folder, "/tmp/etw-shapes-%d", (int)GetCurrentProcessId());
    CHECK(_mkdir(folder) == 0 && _access(folder, 0) == 0);
    files(folder);
    CHECK(_rmdir(folder) == 0 && _access(folder, 0) != 0);
    here = _getcwd(NULL, 0);
    CHECK(here != NULL && _fileno(stderr) == 2);
    free(here);
    locks_and_values();
    packets();
    registry_and_users();
    return 0;
}
#endif
