/*
 * Headers of network packets, as Windows' netiodef.h names them. Numbers of more than a byte are in the network's order.
 *
 * Part of openetw. Written to Microsoft's documentation and the protocols' RFCs; names and layouts are theirs.
 */
#ifndef ETW_WINDOWS_PACKETS_H
#define ETW_WINDOWS_PACKETS_H

#include "etw_windows_addresses.h"

#ifdef __cplusplus
extern "C++" {
#endif
/* A part of a byte or a word is a bit-field, as on Windows; the compilers of Linux pack them in the same order on little-endian machines. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"

/* ---- Ethernet ---- */
#define DL_ADDRESS_LENGTH_MAXIMUM 32
typedef union _DL_EUI48 {
    UINT8 Byte[6];
    struct {
        UINT8 Oui[3];
        UINT8 Ei48[3];
    };
} DL_EUI48, *PDL_EUI48;
#define ETHERNET_TYPE_MINIMUM 0x0600
#define ETHERNET_TYPE_IPV4 0x0800
#define ETHERNET_TYPE_ARP 0x0806
#define ETHERNET_TYPE_IPV6 0x86dd
#define ETHERNET_TYPE_802_1Q 0x8100
#define ETHERNET_TYPE_802_1AD 0x88a8
typedef struct _ETHERNET_HEADER {
    DL_EUI48 Destination;
    DL_EUI48 Source;
    union {
        UINT16 Type;
        UINT16 Length;
    };
} ETHERNET_HEADER, *PETHERNET_HEADER;
typedef struct _VLAN_TAG {
    union {
        UINT16 Tag;
        struct {
            UINT16 VLANID : 12;
            UINT16 CFI : 1;
            UINT16 UserPriority : 3;
        };
    };
    UINT16 Type;
} VLAN_TAG, *PVLAN_TAG;

/* ---- IP ---- */
#define IPV4_VERSION 4
#define IPV6_VERSION 6
typedef struct _IPV4_HEADER {
    union {
        UINT8 VersionAndHeaderLength;
        struct {
            UINT8 HeaderLength : 4;
            UINT8 Version : 4;
        };
    };
    union {
        UINT8 TypeOfServiceAndEcnField;
        struct {
            UINT8 EcnField : 2;
            UINT8 TypeOfService : 6;
        };
    };
    UINT16 TotalLength;
    UINT16 Identification;
    union {
        UINT16 FlagsAndOffset;
        struct {
            UINT16 DontUse1 : 5;
            UINT16 MoreFragments : 1;
            UINT16 DontFragment : 1;
            UINT16 Reserved : 1;
            UINT16 DontUse2 : 8;
        };
    };
    UINT8 TimeToLive;
    UINT8 Protocol;
    UINT16 HeaderChecksum;
    IN_ADDR SourceAddress;
    IN_ADDR DestinationAddress;
} IPV4_HEADER, *PIPV4_HEADER;
typedef struct _IPV6_HEADER {
    union {
        UINT32 VersionClassFlow;
        struct {
            UINT32 DontUse1 : 4;
            UINT32 Version : 4;
            UINT32 DontUse2 : 24;
        };
    };
    UINT16 PayloadLength;
    UINT8 NextHeader;
    UINT8 HopLimit;
    IN6_ADDR SourceAddress;
    IN6_ADDR DestinationAddress;
} IPV6_HEADER, *PIPV6_HEADER;
typedef struct _IPV6_FRAGMENT_HEADER {
    UINT8 NextHeader;
    UINT8 Reserved;
    union {
        struct {
            UINT16 DontUse1 : 8;
            UINT16 MoreFragments : 1;
            UINT16 ReservedBits : 2;
            UINT16 DontUse2 : 5;
        };
        UINT16 OffsetAndFlags;
    };
    UINT32 Id;
} IPV6_FRAGMENT_HEADER, *PIPV6_FRAGMENT_HEADER;

/* ---- Transport ---- */
typedef struct tcp_hdr {
    UINT16 th_sport;
    UINT16 th_dport;
    UINT32 th_seq;
    UINT32 th_ack;
    UINT8 th_x2 : 4;
    UINT8 th_len : 4;
    UINT8 th_flags;
    UINT16 th_win;
    UINT16 th_sum;
    UINT16 th_urp;
} TCP_HDR, *PTCP_HDR;
typedef struct udp_hdr {
    UINT16 uh_sport;
    UINT16 uh_dport;
    UINT16 uh_ulen;
    UINT16 uh_sum;
} UDP_HDR, *PUDP_HDR;
typedef struct _ICMP_HEADER {
    UINT8 Type;
    UINT8 Code;
    UINT16 Checksum;
} ICMP_HEADER, *PICMP_HEADER;

#pragma GCC diagnostic pop
#ifdef __cplusplus
}
#endif
#endif
