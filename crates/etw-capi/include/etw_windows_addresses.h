/*
 * Addresses of networks and their texts, and the socket functions of programs that log addresses. Linux has the structures; these are
 * Windows' names for them. windows.h does not include this file, since programs may define struct in6_addr themselves.
 *
 * Part of openetw. Written to Microsoft's documentation; names and meaning are theirs.
 */
#ifndef ETW_WINDOWS_ADDRESSES_H
#define ETW_WINDOWS_ADDRESSES_H

#include "etw_windows.h"
#ifdef __cplusplus
extern "C++" {
#endif
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

typedef struct in6_addr IN6_ADDR, *PIN6_ADDR, *LPIN6_ADDR;
typedef struct in_addr IN_ADDR, *PIN_ADDR, *LPIN_ADDR;
typedef struct sockaddr SOCKADDR, *PSOCKADDR, *LPSOCKADDR;
typedef struct sockaddr_in SOCKADDR_IN, *PSOCKADDR_IN, *LPSOCKADDR_IN;
typedef struct sockaddr_in6 SOCKADDR_IN6, *PSOCKADDR_IN6, *LPSOCKADDR_IN6;
typedef struct sockaddr_storage SOCKADDR_STORAGE, *PSOCKADDR_STORAGE, *LPSOCKADDR_STORAGE;
typedef USHORT ADDRESS_FAMILY;

/* ---- Sockets, which are descriptors here ---- */
typedef int SOCKET;
#define INVALID_SOCKET (-1)
#define SOCKET_ERROR (-1)
typedef struct WSAData {
    WORD wVersion, wHighVersion;
    char szDescription[257], szSystemStatus[129];
} WSADATA, *LPWSADATA;
static inline int WSAStartup(WORD version, LPWSADATA data)
{
    memset(data, 0, sizeof *data);
    data->wVersion = data->wHighVersion = version;
    return 0;
}
static inline int WSACleanup(void) { return 0; }
static inline int WSAGetLastError(void) { return errno; }
static inline int closesocket(SOCKET socket) { return close(socket); }

/* ---- Texts of addresses: these functions return the end of the text ---- */
static inline char *RtlIpv6AddressToStringA(const IN6_ADDR *address, char *to) { return etw_ipv6_text(address, to); }
static inline char *RtlIpv4AddressToStringA(const IN_ADDR *address, char *to) { return etw_ipv4_text(address, to); }
static inline WCHAR *RtlIpv6AddressToStringW(const IN6_ADDR *address, WCHAR *to)
{
    return etw_ipv6_wide_text(address, to);
}
static inline WCHAR *RtlIpv4AddressToStringW(const IN_ADDR *address, WCHAR *to)
{
    return etw_ipv4_wide_text(address, to);
}
#ifdef UNICODE
#define RtlIpv6AddressToString RtlIpv6AddressToStringW
#define RtlIpv4AddressToString RtlIpv4AddressToStringW
#else
#define RtlIpv6AddressToString RtlIpv6AddressToStringA
#define RtlIpv4AddressToString RtlIpv4AddressToStringA
#endif

#ifdef __cplusplus
}
#endif
#endif
