/*
 * A client of msquic with its own events: msquic's core and platform are its unmodified sources, TLS is one that never answers.
 */
#include "quic_platform.h"
#include "quic_tls.h"
#include "msquic.h"
#include "quic_trace.h"

#define CHECK(call)                                                        \
    do {                                                                   \
        QUIC_STATUS status = (call);                                       \
        if (QUIC_FAILED(status)) {                                         \
            fprintf(stderr, "line %d: %u\n", __LINE__, (unsigned)status);  \
            return 1;                                                      \
        }                                                                  \
    } while (0)

struct CXPLAT_TLS {
    int nothing;
};

static struct CXPLAT_TLS tls;
uint16_t CxPlatTlsTPHeaderSize = 0;

QUIC_TLS_PROVIDER CxPlatTlsGetProvider(void)
{
    return QUIC_TLS_PROVIDER_OPENSSL;
}

QUIC_STATUS CxPlatTlsSecConfigCreate(const QUIC_CREDENTIAL_CONFIG *credentials, CXPLAT_TLS_CREDENTIAL_FLAGS flags,
                                     const CXPLAT_TLS_CALLBACKS *callbacks, void *context,
                                     CXPLAT_SEC_CONFIG_CREATE_COMPLETE_HANDLER complete)
{
    (void)flags;
    (void)callbacks;
    complete(credentials, context, QUIC_STATUS_SUCCESS, (CXPLAT_SEC_CONFIG *)&tls);
    return QUIC_STATUS_SUCCESS;
}

void CxPlatTlsSecConfigDelete(CXPLAT_SEC_CONFIG *config)
{
    (void)config;
}

QUIC_STATUS CxPlatTlsSecConfigSetTicketKeys(CXPLAT_SEC_CONFIG *config, QUIC_TICKET_KEY_CONFIG *keys, uint8_t count)
{
    (void)config;
    (void)keys;
    (void)count;
    return QUIC_STATUS_SUCCESS;
}

QUIC_STATUS CxPlatTlsInitialize(const CXPLAT_TLS_CONFIG *config, CXPLAT_TLS_PROCESS_STATE *state, CXPLAT_TLS **context)
{
    (void)config;
    (void)state;
    *context = &tls;
    return QUIC_STATUS_SUCCESS;
}

void CxPlatTlsUninitialize(CXPLAT_TLS *context)
{
    (void)context;
}

void CxPlatTlsUpdateHkdfLabels(CXPLAT_TLS *context, const QUIC_HKDF_LABELS *const labels)
{
    (void)context;
    (void)labels;
}

/* Two hundred bytes as the first flight. */
CXPLAT_TLS_RESULT_FLAGS CxPlatTlsProcessData(CXPLAT_TLS *context, CXPLAT_TLS_DATA_TYPE type, const uint8_t *buffer,
                                             uint32_t *size, CXPLAT_TLS_PROCESS_STATE *state)
{
    (void)context;
    (void)type;
    (void)buffer;
    (void)size;
    if (state->BufferTotalLength != 0)
        return CXPLAT_TLS_RESULT_CONTINUE;
    memset(state->Buffer, 7, 200);
    state->BufferLength = 200;
    state->BufferTotalLength = 200;
    return CXPLAT_TLS_RESULT_DATA;
}

QUIC_STATUS CxPlatTlsParamSet(CXPLAT_TLS *context, uint32_t parameter, uint32_t size, const void *buffer)
{
    (void)context;
    (void)parameter;
    (void)size;
    (void)buffer;
    return QUIC_STATUS_NOT_SUPPORTED;
}

QUIC_STATUS CxPlatTlsParamGet(CXPLAT_TLS *context, uint32_t parameter, uint32_t *size, void *buffer)
{
    (void)context;
    (void)parameter;
    (void)size;
    (void)buffer;
    return QUIC_STATUS_NOT_SUPPORTED;
}

BOOLEAN QuicTlsPopulateOffloadKeys(CXPLAT_TLS *context, const QUIC_PACKET_KEY *const key, const char *const name,
                                   CXPLAT_QEO_CONNECTION *offload)
{
    (void)context;
    (void)key;
    (void)name;
    (void)offload;
    return FALSE;
}

/* crypt_openssl.c starts the whole library; libcrypto alone is linked. */
int OPENSSL_init_ssl(uint64_t options, const void *settings)
{
    (void)options;
    (void)settings;
    return 1;
}

/* As msquic's platform_winuser.c. */
void NTAPI QuicEtwCallback(LPCGUID source, ULONG code, UCHAR level, ULONGLONG any, ULONGLONG all,
                           PEVENT_FILTER_DESCRIPTOR filter, PVOID context)
{
    (void)source;
    (void)level;
    (void)any;
    (void)all;
    (void)filter;
    (void)context;
    if (QuicTraceRundownCallback && code != EVENT_CONTROL_CODE_DISABLE_PROVIDER)
        QuicTraceRundownCallback();
}

static volatile int shut_down;

static QUIC_STATUS QUIC_API on_connection(HQUIC connection, void *context, QUIC_CONNECTION_EVENT *event)
{
    (void)connection;
    (void)context;
    if (event->Type == QUIC_CONNECTION_EVENT_SHUTDOWN_COMPLETE)
        shut_down = 1;
    return QUIC_STATUS_SUCCESS;
}

int main(void)
{
    static const QUIC_BUFFER alpn = {4, (uint8_t *)"test"};
    static const QUIC_REGISTRATION_CONFIG application = {"shop", QUIC_EXECUTION_PROFILE_LOW_LATENCY};
    const QUIC_API_TABLE *quic;
    HQUIC registration, configuration, connection;
    QUIC_SETTINGS settings = {0};
    QUIC_CREDENTIAL_CONFIG credentials = {0};
    int turn;
    settings.IdleTimeoutMs = 200;
    settings.IsSet.IdleTimeoutMs = TRUE;
    credentials.Flags = QUIC_CREDENTIAL_FLAG_CLIENT;
    CHECK(EventRegisterMicrosoft_Quic());
    CHECK(MsQuicOpenVersion(2, (const void **)&quic));
    CHECK(quic->RegistrationOpen(&application, &registration));
    CHECK(quic->ConfigurationOpen(registration, &alpn, 1, &settings, sizeof settings, NULL, &configuration));
    CHECK(quic->ConfigurationLoadCredential(configuration, &credentials));
    CHECK(quic->ConnectionOpen(registration, on_connection, NULL, &connection));
    CHECK(quic->ConnectionStart(connection, configuration, QUIC_ADDRESS_FAMILY_INET, "127.0.0.1", 9));
    quic->ConnectionShutdown(connection, QUIC_CONNECTION_SHUTDOWN_FLAG_NONE, 0);
    for (turn = 0; turn < 6000 && !shut_down; turn++)
        usleep(10000);
    quic->ConnectionClose(connection);
    quic->ConfigurationClose(configuration);
    quic->RegistrationClose(registration);
    MsQuicClose(quic);
    CHECK(EventUnregisterMicrosoft_Quic());
    return 0;
}
