//! The flag words of event headers and of trace messages.

flags! {
    /// `EVENT_HEADER.Flags`. On disk Windows sets only `EXTENDED_INFO`; the rest is for consumers.
    #[doc(alias = "EVENT_HEADER_FLAG")]
    EventFlags(u16) {
        /// Extended items stand between header and payload.
        EXTENDED_INFO = 0x0001, "EVENT_HEADER_FLAG_EXTENDED_INFO";
        /// Recorded by a private session.
        PRIVATE_SESSION = 0x0002, "EVENT_HEADER_FLAG_PRIVATE_SESSION";
        /// The payload is one NUL-terminated UTF-16 string.
        STRING_ONLY = 0x0004, "EVENT_HEADER_FLAG_STRING_ONLY";
        /// A WPP message.
        TRACE_MESSAGE = 0x0008, "EVENT_HEADER_FLAG_TRACE_MESSAGE";
        /// The CPU times mean nothing.
        NO_CPUTIME = 0x0010, "EVENT_HEADER_FLAG_NO_CPUTIME";
        /// Pointers are four bytes wide.
        HEADER_32_BIT = 0x0020, "EVENT_HEADER_FLAG_32_BIT_HEADER";
        /// Pointers are eight bytes wide.
        HEADER_64_BIT = 0x0040, "EVENT_HEADER_FLAG_64_BIT_HEADER";
        /// The schema is found under the decode GUID of the provider traits.
        DECODE_GUID = 0x0080, "EVENT_HEADER_FLAG_DECODE_GUID";
        /// A classic event.
        CLASSIC_HEADER = 0x0100, "EVENT_HEADER_FLAG_CLASSIC_HEADER";
        /// The CPU index is sixteen bits wide.
        PROCESSOR_INDEX = 0x0200, "EVENT_HEADER_FLAG_PROCESSOR_INDEX";
    }
}

flags! {
    /// `EVENT_HEADER.EventProperty`, as given to `EtwEventWriteFull`.
    #[doc(alias = "EVENT_HEADER_PROPERTY")]
    EventProperty(u16) {
        /// The payload is XML.
        XML = 0x0001, "EVENT_HEADER_PROPERTY_XML";
        /// The payload is XML forwarded from elsewhere.
        FORWARDED_XML = 0x0002, "EVENT_HEADER_PROPERTY_FORWARDED_XML";
        /// The payload is one string (`EventWriteString`).
        LEGACY_EVENTLOG = 0x0004, "EVENT_HEADER_PROPERTY_LEGACY_EVENTLOG";
        /// May be relogged.
        RELOGGABLE = 0x0008, "EVENT_HEADER_PROPERTY_RELOGGABLE";
    }
}

flags! {
    /// Option flags of a WPP message: which parts stand before its arguments.
    #[doc(alias = "TRACE_MESSAGE")]
    MessageFlags(u16) {
        /// A `u32` sequence number.
        SEQUENCE = 0x0001, "TRACE_MESSAGE_SEQUENCE";
        /// The message GUID.
        GUID = 0x0002, "TRACE_MESSAGE_GUID";
        /// A `u32` component id, in place of the GUID.
        COMPONENT_ID = 0x0004, "TRACE_MESSAGE_COMPONENTID";
        /// A timestamp.
        TIMESTAMP = 0x0008, "TRACE_MESSAGE_TIMESTAMP";
        /// Room for a timestamp, obsolete.
        PERFORMANCE_TIMESTAMP = 0x0010, "TRACE_MESSAGE_PERFORMANCE_TIMESTAMP";
        /// Thread and process id.
        SYSTEM_INFO = 0x0020, "TRACE_MESSAGE_SYSTEMINFO";
        /// Written by a 32-bit program.
        POINTER32 = 0x0040, "TRACE_MESSAGE_POINTER32";
        /// Written by a 64-bit program.
        POINTER64 = 0x0080, "TRACE_MESSAGE_POINTER64";
    }
}
