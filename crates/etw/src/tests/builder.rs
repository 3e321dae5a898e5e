//! `EventBuilder`: its bytes are those of Microsoft's `tracelogging_dynamic`.
