//! Generated headers for Windows programs: the annotations of SAL, and Windows' capitalisations of header names. `ETW_BLESS=1` writes them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::*;

/// Headers and the names that programs write for them. Each name is a copy, so that a file system without case holds either.
const CAPITALISED: &[(&str, &str)] = &[
    ("aclapi.h", "AclAPI.h Aclapi.h"),
    ("basetsd.h", "BaseTsd.h Basetsd.h"),
    ("cguid.h", "Cguid.h CGuid.h"),
    ("combaseapi.h", "Combaseapi.h CombaseApi.h"),
    ("comdef.h", "Comdef.h ComDef.h"),
    ("comutil.h", "Comutil.h ComUtil.h"),
    ("conio.h", "Conio.h"),
    ("consoleapi.h", "Consoleapi.h ConsoleApi.h"),
    ("crtdbg.h", "Crtdbg.h"),
    ("datetimeapi.h", "Datetimeapi.h DateTimeApi.h"),
    ("debugapi.h", "Debugapi.h DebugApi.h"),
    ("direct.h", "Direct.h"),
    ("driverspecs.h", "Driverspecs.h DriverSpecs.h"),
    ("errhandlingapi.h", "Errhandlingapi.h ErrHandlingApi.h"),
    ("evntcons.h", "Evntcons.h EvntCons.h"),
    ("evntprov.h", "Evntprov.h EvntProv.h"),
    ("evntrace.h", "Evntrace.h EvnTrace.h EvntRace.h"),
    ("fileapi.h", "Fileapi.h FileApi.h FileAPI.h"),
    ("guiddef.h", "Guiddef.h GuidDef.h"),
    ("handleapi.h", "Handleapi.h HandleApi.h"),
    ("heapapi.h", "Heapapi.h HeapApi.h"),
    ("in6addr.h", "In6addr.h In6Addr.h"),
    ("inaddr.h", "Inaddr.h"),
    ("initguid.h", "Initguid.h InitGuid.h"),
    ("interlockedapi.h", "Interlockedapi.h InterlockedApi.h"),
    ("intrin.h", "Intrin.h"),
    ("intsafe.h", "Intsafe.h IntSafe.h"),
    ("io.h", "Io.h"),
    ("ioapiset.h", "Ioapiset.h IoApiSet.h"),
    ("ip2string.h", "Ip2string.h"),
    ("libloaderapi.h", "Libloaderapi.h LibLoaderApi.h LibLoaderAPI.h"),
    ("memoryapi.h", "Memoryapi.h MemoryApi.h"),
    ("minwinbase.h", "Minwinbase.h MinWinBase.h"),
    ("minwindef.h", "Minwindef.h MinWinDef.h"),
    ("mstcpip.h", "Mstcpip.h MSTcpIP.h"),
    ("netiodef.h", "Netiodef.h"),
    ("ntstatus.h", "Ntstatus.h NTStatus.h"),
    ("ntverp.h", "Ntverp.h NtVerp.h"),
    ("objbase.h", "Objbase.h ObjBase.h"),
    ("objidl.h", "ObjIdl.h Objidl.h"),
    ("ole2.h", "Ole2.h"),
    ("oleauto.h", "OleAuto.h Oleauto.h"),
    ("pla.h", "Pla.h"),
    ("process.h", "Process.h"),
    ("processenv.h", "Processenv.h ProcessEnv.h"),
    ("processthreadsapi.h", "Processthreadsapi.h ProcessThreadsApi.h"),
    ("processtopologyapi.h", "Processtopologyapi.h ProcessTopologyApi.h"),
    ("profileapi.h", "Profileapi.h ProfileApi.h"),
    ("rpc.h", "Rpc.h"),
    ("rpcdce.h", "Rpcdce.h RpcDce.h"),
    ("sal.h", "Sal.h SAL.h"),
    ("sddl.h", "Sddl.h"),
    ("sdkddkver.h", "SDKDDKVer.h SdkDdkVer.h Sdkddkver.h"),
    ("securitybaseapi.h", "Securitybaseapi.h SecurityBaseApi.h"),
    ("shellapi.h", "ShellAPI.h Shellapi.h ShellApi.h"),
    ("specstrings.h", "Specstrings.h SpecStrings.h"),
    ("stringapiset.h", "Stringapiset.h StringApiSet.h"),
    ("strsafe.h", "Strsafe.h StrSafe.h"),
    ("synchapi.h", "Synchapi.h SynchApi.h"),
    ("sysinfoapi.h", "Sysinfoapi.h SysInfoApi.h"),
    ("tchar.h", "TCHAR.h TChar.h Tchar.h TCHAR.H"),
    ("tdh.h", "Tdh.h TDH.h"),
    ("timezoneapi.h", "Timezoneapi.h TimeZoneApi.h"),
    ("traceloggingactivity.h", "TraceLoggingActivity.h TraceloggingActivity.h"),
    ("traceloggingprovider.h", "TraceLoggingProvider.h TraceloggingProvider.h"),
    ("unknwn.h", "Unknwn.h"),
    ("versionhelpers.h", "VersionHelpers.h Versionhelpers.h"),
    ("wbemidl.h", "Wbemidl.h WbemIdl.h"),
    ("winbase.h", "WinBase.h Winbase.h"),
    ("wincon.h", "WinCon.h Wincon.h"),
    ("windef.h", "WinDef.h Windef.h"),
    ("windows.h", "Windows.h WINDOWS.H WINDOWS.h"),
    ("winerror.h", "WinError.h Winerror.h"),
    ("winevt.h", "WinEvt.h Winevt.h"),
    ("winmeta.h", "WinMeta.h Winmeta.h"),
    ("winnls.h", "WinNls.h Winnls.h"),
    ("winnt.h", "WinNT.h Winnt.h WinNt.h"),
    ("winreg.h", "WinReg.h Winreg.h"),
    ("winsock.h", "WinSock.h Winsock.h"),
    ("winsock2.h", "WinSock2.h Winsock2.h WINSOCK2.H"),
    ("winternl.h", "Winternl.h WinTernl.h"),
    ("winuser.h", "WinUser.h Winuser.h"),
    ("winver.h", "Winver.h WinVer.h"),
    ("wmistr.h", "Wmistr.h WmiStr.h"),
    ("ws2ipdef.h", "Ws2ipdef.h WS2ipdef.h"),
    ("ws2tcpip.h", "WS2tcpip.h Ws2tcpip.h WS2TCPIP.H"),
    ("wtypes.h", "Wtypes.h WTypes.h"),
];

/// Annotations without a rule of their own that take arguments.
const WITH_ARGUMENTS: &str = "_Always_ _Analysis_assume_ _At_ _At_buffer_ _Field_range_ _Field_size_z_ \
    _Function_class_ _Group_ _Acquires_lock_ _Acquires_exclusive_lock_ _Acquires_shared_lock_ \
    _Releases_lock_ _Releases_exclusive_lock_ _Releases_shared_lock_ _Requires_lock_held_ \
    _Requires_lock_not_held_ _Guarded_by_ _Has_lock_kind_ _Has_lock_level_ _Lock_level_order_ \
    _Write_guarded_by_ _Interlocked_ _Create_lock_level_ _IRQL_always_function_max_ \
    _IRQL_always_function_min_ _IRQL_is_cancel_ _IRQL_limited_to_ _IRQL_raises_ _IRQL_requires_ \
    _IRQL_requires_max_ _IRQL_requires_min_ _IRQL_restores_global_ _IRQL_saves_global_ \
    _Kernel_clear_do_init_ _Kernel_float_restored_ _Kernel_float_saved_ _Kernel_float_used_ \
    _Kernel_requires_resource_held_ _Kernel_acquires_resource_ _Kernel_releases_resource_ \
    _On_failure_ _Post_equal_to_ _Post_satisfies_ _Pre_equal_to_ _Pre_satisfies_ _Readable_bytes_ \
    _Readable_elements_ _Ret_range_ _Return_type_success_ _Satisfies_ _Struct_size_bytes_ \
    _Success_ _Unchanged_ _When_ _Writable_bytes_ _Writable_elements_ _Source_code_content_ \
    __analysis_assume __drv_aliasesMem_ __drv_allocatesMem __drv_freesMem __drv_functionClass \
    __drv_maxIRQL __drv_minIRQL __drv_requiresIRQL __drv_raisesIRQL __drv_when __drv_at \
    __drv_preferredFunction __drv_reportError __drv_strictType __drv_strictTypeMatch __drv_isObjectPointer_ \
    __field_bcount __field_bcount_opt __field_bcount_part __field_bcount_full __field_ecount \
    __field_ecount_opt __field_ecount_part __field_ecount_full __struct_bcount \
    __allocator_ __format_string_ __byte_readableTo \
    __byte_writableTo __elem_readableTo __elem_writableTo _Translates_Win32_to_HRESULT_ \
    _Translates_NTSTATUS_to_HRESULT_ _Translates_last_error_to_HRESULT_";
/// Annotations without a rule of their own that stand alone.
const ALONE: &str = "_Check_return_ _Check_return_wat_ _Const_ _Enum_is_bitflag_ _Field_z_ _Frees_ptr_ \
    _Frees_ptr_opt_ _Has_lock_kind_none_ _IRQL_is_cancel _IRQL_requires_same_ _IRQL_restores_ \
    _IRQL_saves_ _IRQL_uses_cancel_ _Interlocked_operand_ _Literal_ _Maybe_raises_SEH_exception_ \
    _Maybenull_ _Maybevalid_ _Must_inspect_result_ _NoReturn_ _Not_null_terminated_ _Notliteral_ \
    _Notnull_ _Notref_ _Notvalid_ _Null_ _Null_terminated_ _NullNull_terminated_ _Points_to_data_ \
    _Post_ptr_invalid_ _Pre_ _Post_ _Printf_format_string_ _Printf_format_string_params_ \
    _Raises_SEH_exception_ _Readonly_ _Reserved_ _Result_nullonfailure_ _Result_zeroonfailure_ \
    _Scanf_format_string_ _Scanf_s_format_string_ _Strict_type_match_ _Unreferenced_parameter_ \
    _Use_decl_annotations_ _User_alternative_annotations_ _Valid_ _Writable_ _Writeonly_ _In_function_ \
    __analysis_noreturn __callback __checkReturn __drv_aliasesMem __drv_inTry __drv_notInTry \
    __drv_unreferenced __drv_constant __drv_nonConstant __drv_strictTypeMatchNone __drv_interlocked \
    __drv_innerMustHoldGlobalLock __field_nullterminated __field_data_source __nullterminated \
    __nullnullterminated __possibly_notnullterminated \
    \
    ";

/// Names of annotations, and whether they take arguments.
fn annotations() -> BTreeMap<String, bool> {
    let mut all = BTreeMap::new();
    let mut add = |name: String, has_arguments: bool| {
        all.insert(name, has_arguments);
    };
    for (prefix, verb) in [("In", "reads"), ("Out", "writes"), ("Inout", "updates")] {
        for kind in ["", "opt_", "z_", "opt_z_"] {
            add(format!("_{prefix}_{kind}"), false);
        }
        for kind in ["range_", "defensive_", "bound_"] {
            add(format!("_{prefix}_{kind}"), true);
        }
        for unit in ["", "bytes_"] {
            for extent in ["", "to_", "all_"] {
                for opt in ["", "opt_"] {
                    add(format!("_{prefix}_{verb}_{unit}{extent}{opt}"), true);
                }
            }
        }
        for kind in
            "z_ opt_z_ or_z_ or_z_opt_ to_ptr_ to_ptr_opt_ to_ptr_z_ to_ptr_opt_z_".split(' ')
        {
            add(format!("_{prefix}_{verb}_{kind}"), true);
        }
    }
    const RESULTS: [&str; 5] =
        ["", "result_maybenull_", "result_z_", "result_maybenull_z_", "result_nullonfailure_"];
    const EXTENTS: [&str; 6] = ["", "maybenull_", "to_", "to_maybenull_", "all_", "all_maybenull_"];
    for opt in ["", "opt_"] {
        for result in RESULTS {
            add(format!("_Outptr_{opt}{result}"), false);
            add(format!("_COM_Outptr_{opt}{result}"), false);
            add(format!("_Outref_{result}"), false);
        }
        for unit in ["buffer_", "bytebuffer_"] {
            for extent in EXTENTS {
                add(format!("_Outptr_{opt}result_{unit}{extent}"), true);
                add(format!("_Outref_result_{unit}{extent}"), true);
            }
        }
    }
    for unit in ["", "bytes_"] {
        for extent in ["", "maybenull_", "to_", "to_maybenull_", "z_", "maybenull_z_"] {
            add(format!("_Ret_writes_{unit}{extent}"), true);
        }
        for extent in ["", "opt_", "part_", "part_opt_", "full_", "full_opt_"] {
            add(format!("_Field_size_{unit}{extent}"), true);
        }
    }
    const STATES: &str = "_ opt_ z_ opt_z_ valid_ opt_valid_ notnull_ maybenull_ maybenull_z_ null_ readonly_ \
        writeonly_ maybevalid_ notvalid_ invalid_";
    let targets = "Pre Post Prepost Deref_pre Deref_post Deref_out Deref_opt_out Deref_inout Deref_ret \
        Deref_prepost Deref_in Deref Deref2_pre Ret";
    for target in targets.split_whitespace() {
        for state in STATES.split_whitespace() {
            add(format!("_{target}_{}", state.trim_start_matches('_')), false);
        }
        add(format!("_{target}_range_"), true);
    }
    // The sizes of SAL 1: a parameter, a constant (c) or an expression (x).
    for target in targets.split_whitespace().chain(["In", "Out", "Inout"]) {
        for opt in ["", "opt_"] {
            for z in ["", "z_"] {
                for unit in
                    "count_ bytecount_ cap_ bytecap_ cap_post_count_ bytecap_post_bytecount_"
                        .split(' ')
                {
                    for kind in ["", "c_", "x_"] {
                        add(format!("_{target}_{opt}{z}{unit}{kind}"), true);
                    }
                }
            }
        }
    }
    for unit in ["byte", "element"] {
        for target in ["Pre_readable", "Pre_writable", "Post_readable", "Post_writable"] {
            add(format!("_{target}_{unit}_size_"), true);
        }
    }
    add_first_annotations(&mut add);
    WITH_ARGUMENTS.split_whitespace().for_each(|name| add(name.to_owned(), true));
    ALONE.split_whitespace().for_each(|name| add(name.to_owned(), false));
    all
}

/// The lower-case annotations of the first SAL.
fn add_first_annotations(add: &mut impl FnMut(String, bool)) {
    for target in
        "in out inout deref_in deref_out deref_inout deref_opt_in deref_opt_out deref_opt_inout \
        deref deref_opt"
            .split_whitespace()
    {
        for kind in ["", "_opt", "_z", "_z_opt", "_opt_z", "_nz", "_nz_opt"] {
            // The C and C++ libraries have names of their own that these would replace.
            if !["in", "out", "deref"].contains(&target) || !kind.is_empty() {
                add(format!("__{target}{kind}"), false);
            }
        }
        for unit in ["ecount", "bcount", "xcount"] {
            for extent in ["", "_part", "_full"] {
                for kind in ["", "_opt", "_z", "_z_opt", "_nz", "_nz_opt"] {
                    add(format!("__{target}_{unit}{extent}{kind}"), true);
                }
            }
        }
    }
}

fn sal() -> String {
    let mut text = "/*\n * Part of openetw: the annotations of Windows' sal.h, specstrings.h and driverspecs.h, which mean nothing to \
        other compilers. Generated by\n * tests/it/windows_headers.rs.\n */\n#ifndef ETW_WINDOWS_SAL_H\n#define ETW_WINDOWS_SAL_H\n\n"
        .to_owned();
    for (name, has_arguments) in annotations() {
        text += &format!("#define {name}{}\n", if has_arguments { "(...)" } else { "" });
    }
    text + "\n#endif\n"
}

/// A file has this text; with `ETW_BLESS`, it gets the text.
fn is_current(path: &Path, text: &str) {
    if std::env::var_os("ETW_BLESS").is_some() {
        std::fs::write(path, text).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == text, "{} is stale: run the tests with ETW_BLESS=1", path.display());
}

#[test]
fn generated_headers_are_current() {
    let include = home().join("include");
    is_current(&include.join("etw_windows_sal.h"), &sal());
    let windows = include.join("windows");
    for (header, names) in CAPITALISED {
        let text = std::fs::read_to_string(windows.join(header)).unwrap_or_else(|_| {
            panic!("windows/{header} is missing");
        });
        names.split(' ').for_each(|name| is_current(&windows.join(name), &text));
    }
    // Each header has Windows' capitalisations, apart from this project's own.
    for entry in std::fs::read_dir(&windows).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_of_windows =
            name.ends_with(".h") && name == name.to_lowercase() && name != "wmain.h";
        let is_listed = CAPITALISED.iter().any(|(header, _)| *header == name);
        assert!(!is_of_windows || is_listed, "{name} is missing in CAPITALISED");
    }
}

/// `FormatMessage` has a text for each status code that the headers name.
#[test]
fn every_status_code_of_the_headers_has_a_message() {
    let text = |name: &str| std::fs::read_to_string(home().join("include").join(name)).unwrap();
    let messages = text("etw_windows_messages.h");
    let mut codes = 0;
    for header in ["etw_base.h", "etw_windows_errors.h"] {
        for line in text(header).lines() {
            let name = line.strip_prefix("#define ").and_then(|rest| rest.split(' ').next());
            let Some(name) = name.filter(|name| name.starts_with("ERROR_")) else { continue };
            codes += 1;
            assert!(messages.contains(&format!("    case {name}: return ")), "{name} has no text");
        }
    }
    assert!(codes > 150, "{codes}");
}
