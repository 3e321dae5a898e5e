//! Messages on a host's socket: of programs and hosts, and requests of controllers.

use etw_session::EnableInfo;
use etw_types::LoadedModule;
use etw_wire::message::{FromHost, FromProgram};
use etw_wire::requests::{Request, Response};

/// A message. If it is valid, writing it gives the same bytes: no byte was ignored.
pub fn message(data: &[u8]) {
    let from_program = FromProgram::read(data);
    if let Some(message) = &from_program {
        assert!(message.to_bytes() == data, "{message:?}");
    }
    let from_host = FromHost::read(data);
    if let Some(message) = &from_host {
        assert!(message.to_bytes() == data, "{message:?}");
    }
    if let Some(FromProgram::Modules { modules }) = from_program {
        let mut rest = modules;
        while let Some((module, behind)) = LoadedModule::read(rest) {
            let mut again = Vec::new();
            module.put(&mut again);
            assert!(again == rest[..rest.len() - behind.len()], "{module:?}");
            rest = behind;
        }
    }
    assert!(from_program.is_none() || from_host.is_none(), "a message of both sides");
}

/// A controller's request and a host's answer. Writing and reading a valid one gives the same.
pub fn request(data: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<Request>(data) {
        let infos: Vec<&EnableInfo> = match &request {
            Request::Start(start) => {
                start.config.enable.iter().map(|enable| &enable.info).collect()
            }
            Request::Enable { info, .. } => vec![info],
            _ => Vec::new(),
        };
        for filters in infos.iter().filter_map(|info| info.filters.as_ref()) {
            if let Err(error) = filters.check() {
                assert!(!error.to_string().is_empty());
            }
        }
        let text = serde_json::to_vec(&request).expect("what was read");
        let again = serde_json::from_slice::<Request>(&text).expect("what was just written");
        // Compared as texts: a condition's value may be NaN, which equals nothing.
        let text_again = serde_json::to_vec(&again).expect("what was read");
        assert!(text_again == text, "{request:?} came back as {again:?}");
    }
    if let Ok(response) = serde_json::from_slice::<Response>(data) {
        let text = serde_json::to_vec(&response).expect("what was read");
        let again = serde_json::from_slice::<Response>(&text).expect("what was just written");
        assert!(again == response, "{response:?} came back as {again:?}");
    }
}
