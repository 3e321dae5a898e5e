
/* The source that calls WPP_INIT_TRACING has the state of all control GUIDs. */
#ifndef WPP_INIT_DEFINED
#define WPP_INIT_DEFINED

#ifdef __cplusplus
extern "C" {
#endif

#ifndef WPP_NO_ANNOTATIONS
#ifdef WPP_FORMAT_SECTION
#define WPP_DEFINE_CONTROL_GUID(Name, Guid, Bits) \
    "// TMC: " WPP_GUID_TEXT Guid " " WPP_STRINGIZE(Name) Bits "\n"
#define WPP_DEFINE_BIT(Name) " " #Name
static const char WPP_CONTROL_FORMATS[] WPP_FORMAT_SECTION = WPP_CONTROL_GUIDS;
#undef WPP_DEFINE_BIT
#undef WPP_DEFINE_CONTROL_GUID
#endif
#endif

WPP_SHARED WPP_CB_TYPE WPP_MAIN_CB[WPP_LAST_CTL];
WPP_SHARED LPCGUID WPP_REGISTRATION_GUIDS[WPP_LAST_CTL];

WPP_SHARED ULONG WINAPI WppControlCallback(WMIDPREQUESTCODE RequestCode, PVOID Context, ULONG *Size,
                                           PVOID Buffer)
{
    PWPP_TRACE_CONTROL_BLOCK Ctx = (PWPP_TRACE_CONTROL_BLOCK)Context;
    TRACEHANDLE Logger = 0;
    UCHAR Level = 0;
    ULONG Flags = 0;
    *Size = 0;
    if (RequestCode == WMI_ENABLE_EVENTS) {
        Logger = WPP_GET_TRACE_LOGGER_HANDLE(Buffer);
        Level = WPP_GET_TRACE_ENABLE_LEVEL(Logger);
        Flags = WPP_GET_TRACE_ENABLE_FLAGS(Logger);
#ifdef WPP_CAPTURE_STATE_CALLBACK
    } else if (RequestCode == WMI_CAPTURE_STATE) {
        Logger = WPP_GET_TRACE_LOGGER_HANDLE(Buffer);
        WPP_CAPTURE_STATE_CALLBACK(Ctx->ControlGuid, Logger, WPP_GET_TRACE_ENABLE_FLAGS(Logger),
                                   WPP_GET_TRACE_ENABLE_LEVEL(Logger));
        return 0;
#endif
    } else if (RequestCode != WMI_DISABLE_EVENTS) {
        return 87;
    }
    /* A session without flags wants all of them. */
    if (RequestCode == WMI_ENABLE_EVENTS && Flags == 0)
        Flags = 0xffffffffu;
    /* A message tests the flags first, and then takes the session. */
    if (Flags == 0)
        __atomic_store_n(&Ctx->Flags[0], 0, __ATOMIC_RELEASE);
    __atomic_store_n(&Ctx->Logger, Logger, __ATOMIC_RELEASE);
    __atomic_store_n(&Ctx->Level, Level, __ATOMIC_RELEASE);
    __atomic_store_n(&Ctx->Flags[0], Flags, __ATOMIC_RELEASE);
#ifdef WPP_PRIVATE_ENABLE_CALLBACK
    WPP_PRIVATE_ENABLE_CALLBACK(Ctx->ControlGuid, Logger,
                                (BOOLEAN)(RequestCode == WMI_ENABLE_EVENTS), Flags, Level);
#endif
    return 0;
}

WPP_SHARED VOID WppInitUm(void)
{
    int Index = 0;
    if (WPP_CB == WPP_MAIN_CB)
        return;
#define WPP_DEFINE_BIT(Name)
#define WPP_DEFINE_CONTROL_GUID(Name, Guid, Bits) \
    WPP_REGISTRATION_GUIDS[Index++] = &WPP_XGLUE4(WPP_, ThisDir, _CTLGUID_, WPP_EVAL(Name));
    WPP_CONTROL_GUIDS
#undef WPP_DEFINE_CONTROL_GUID
#undef WPP_DEFINE_BIT
    for (Index = 0; Index < WPP_LAST_CTL; Index++) {
        WPP_TRACE_CONTROL_BLOCK *Block = &WPP_MAIN_CB[Index].Control;
        memset(Block, 0, sizeof(*Block));
        Block->Next = Index + 1 < WPP_LAST_CTL ? &WPP_MAIN_CB[Index + 1].Control : NULL;
        Block->FlagsLen = WPP_FLAG_LEN;
        Block->ControlGuid = WPP_REGISTRATION_GUIDS[Index];
    }
    WPP_CB = WPP_MAIN_CB;
    for (Index = 0; Index < WPP_LAST_CTL; Index++) {
        WPP_TRACE_CONTROL_BLOCK *Block = &WPP_MAIN_CB[Index].Control;
        TRACE_GUID_REGISTRATION Class;
        Class.Guid = Block->ControlGuid;
        Class.RegHandle = NULL;
        if (WPP_REGISTER_TRACE_GUIDS(WppControlCallback, Block, Block->ControlGuid, 1, &Class, NULL,
                                     NULL, &Block->UmRegistrationHandle) != 0 &&
            Block->UmRegistrationHandle == 0)
            Block->Flags[0] = 0;
    }
}

WPP_SHARED VOID WppCleanupUm(void)
{
    int Index;
    if (WPP_CB != WPP_MAIN_CB)
        return;
    WPP_CB = (WPP_CB_TYPE *)(void *)&WPP_CB;
    for (Index = 0; Index < WPP_LAST_CTL; Index++) {
        WPP_TRACE_CONTROL_BLOCK *Block = &WPP_MAIN_CB[Index].Control;
        if (Block->UmRegistrationHandle != 0)
            WPP_UNREGISTER_TRACE_GUIDS(Block->UmRegistrationHandle);
        Block->UmRegistrationHandle = 0;
    }
}

#define WPP_INIT_TRACING(...) (WppIgnore(0, __VA_ARGS__), WppInitUm())

#ifdef __cplusplus
}
#endif

#endif /* WPP_INIT_DEFINED */
