//! Types in the numbering of TDH, which manifests, WMI classes and `TRACE_EVENT_INFO` use.

/// How a value is stored (`TDH_INTYPE_*`).
#[doc(alias = "TDH_IN_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InType(pub u16);

/// How a value is meant (`TDH_OUTTYPE_*`).
#[doc(alias = "TDH_OUT_TYPE")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OutType(pub u16);
