//! The request that starts a session, and its JSON form: a session's configuration as messages and files of sessions state it.

use std::path::PathBuf;
use std::time::Duration;

use etw_session::{
    Compression, ConfigError, EnableInfo, Enablement, FileMode, LogMode, ProviderKey, SessionClock,
    SessionConfig, SystemConfig,
};
use etw_types::Guid;
use serde::{Deserialize, Serialize};

/// A session to start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StartJson", into = "StartJson")]
pub struct StartRequest {
    /// The session.
    pub config: SessionConfig,
    /// The session ends with the connection that started it.
    pub leased: bool,
}

impl From<SessionConfig> for StartRequest {
    fn from(config: SessionConfig) -> StartRequest {
        StartRequest { config, leased: false }
    }
}

/// The JSON form. Its keys are those of `sessions.json`.
///
/// It can state more than a session can have; [`StartRequest::try_from`] tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StartJson {
    name: String,
    guid: Guid,
    file: Option<PathBuf>,
    mode: FileMode,
    max_size: Option<u64>,
    preallocate: bool,
    compressed: Compression,
    real_time: bool,
    buffering: bool,
    buffer_size: u32,
    buffers: u32,
    flush_timer_ms: Option<u32>,
    /// 0: the default of the log mode.
    clock: u32,
    no_per_processor: bool,
    independent: bool,
    secure: bool,
    leased: bool,
    enable: Vec<(ProviderKey, EnableInfo)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<SystemConfig>,
}

impl Default for StartJson {
    fn default() -> StartJson {
        let mut json = StartJson::from(StartRequest::default());
        // The default of the log mode, which may differ.
        json.clock = 0;
        json
    }
}

impl StartJson {
    /// The session's name, of one that cannot be started too.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl From<StartRequest> for StartJson {
    fn from(StartRequest { config, leased }: StartRequest) -> StartJson {
        let policy = config.mode.policy();
        StartJson {
            name: config.name,
            guid: config.guid,
            file: config.file,
            mode: config.mode.file_mode().unwrap_or_default(),
            max_size: policy.max_size,
            preallocate: config.preallocate,
            compressed: config.compression,
            real_time: config.real_time,
            buffering: policy.is_in_memory(),
            buffer_size: config.buffer_size,
            buffers: config.buffer_count,
            flush_timer_ms: config.flush_timer.map(milliseconds),
            clock: config.clock.number(),
            no_per_processor: !config.per_processor,
            independent: config.independent,
            secure: config.secure,
            leased,
            enable: config.enable.into_iter().map(|of| (of.provider, of.info)).collect(),
            system: config.system,
        }
    }
}

impl TryFrom<StartJson> for StartRequest {
    type Error = ConfigError;

    /// `Clock`, `MaxSizeMissing`, `MaxSizeUnused`: what [`SessionConfig`] cannot state. Its
    /// [`validate`](SessionConfig::validate) knows the other rules.
    fn try_from(json: StartJson) -> Result<StartRequest, ConfigError> {
        let enablement = |(provider, info)| Enablement { provider, info };
        let mut config = SessionConfig {
            name: json.name,
            guid: json.guid,
            file: json.file,
            mode: LogMode::default(),
            preallocate: json.preallocate,
            compression: json.compressed,
            real_time: json.real_time,
            buffer_size: json.buffer_size,
            buffer_count: json.buffers,
            flush_timer: json.flush_timer_ms.map(|ms| Duration::from_millis(ms.into())),
            clock: SessionClock::of_number(json.clock)?,
            per_processor: !json.no_per_processor,
            independent: json.independent,
            secure: json.secure,
            enable: json.enable.into_iter().map(enablement).collect(),
            system: json.system,
        };
        config.set_log_mode(json.buffering, json.mode, json.max_size)?;
        if json.clock == 0 {
            config.clock = SessionClock::default_of(config.mode);
        }
        Ok(StartRequest { config, leased: json.leased })
    }
}

/// A time as messages state it.
pub fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<StartRequest, serde_json::Error> {
        serde_json::from_str(text)
    }

    #[test]
    fn every_key_of_the_json_form_is_read_and_written_under_its_old_name() {
        let text = concat!(
            r#"{"name":"boot","guid":"00000000-0000-0000-0000-000000000007","file":"/var/log/boot.etl","#,
            r#""mode":"circular","max_size":104857600,"preallocate":true,"compressed":false,"#,
            r#""real_time":true,"buffering":false,"buffer_size":8192,"buffers":32,"flush_timer_ms":500,"#,
            r#""clock":2,"no_per_processor":true,"independent":true,"secure":true,"leased":true,"#,
            r#""enable":[["00000000-0000-0000-0000-000000000003",{"wanted":{"level":4,"any":0,"all":0,"#,
            r#""ignore_keyword_0":false},"properties":0,"filters":null}]]}"#
        );
        let mut info = EnableInfo::default();
        info.wanted.level = etw_types::Level(4);
        let config = SessionConfig {
            name: "boot".to_owned(),
            guid: Guid::from_u128(7),
            file: Some("/var/log/boot.etl".into()),
            mode: LogMode::Circular { max_size: 100 << 20 },
            preallocate: true,
            compression: Compression::Off,
            real_time: true,
            buffer_size: 8192,
            buffer_count: 32,
            flush_timer: Some(Duration::from_millis(500)),
            clock: SessionClock::System,
            per_processor: false,
            independent: true,
            secure: true,
            enable: vec![Enablement::new(Guid::from_u128(3), info)],
            system: None,
        };
        let request = StartRequest { config, leased: true };
        assert_eq!(read(text).unwrap(), request);
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
    }

    #[test]
    fn keys_that_are_left_out_have_their_defaults() {
        let request = read(r#"{"name":"a","buffering":true}"#).unwrap();
        let expected = SessionConfig {
            name: "a".to_owned(),
            mode: LogMode::Buffering,
            ..SessionConfig::default()
        };
        assert_eq!(request, expected.into());
        assert_eq!(read(r#"{"clock":0}"#).unwrap(), StartRequest::default());
        let append = read(r#"{"file":"/a.etl","mode":"append"}"#).unwrap();
        assert_eq!(append.config.clock, SessionClock::System);
    }

    /// A truth value, as in older files, or the third word.
    #[test]
    fn compression_is_off_on_or_auto() {
        for (value, expected) in [
            ("false", Compression::Off),
            ("true", Compression::On),
            ("\"auto\"", Compression::Auto),
        ] {
            let request = read(&format!(r#"{{"file":"/a.etl","compressed":{value}}}"#)).unwrap();
            assert_eq!(request.config.compression, expected);
            let text = serde_json::to_string(&request).unwrap();
            assert!(text.contains(&format!(r#""compressed":{value},"#)), "{text}");
            assert_eq!(read(&text).unwrap(), request);
        }
    }

    #[test]
    fn a_provider_is_named_by_its_guid_or_its_name() {
        let request = read(r#"{"enable":[["Shop",{}],["*Shop",{}]]}"#).unwrap();
        let info = EnableInfo::default;
        let by_name = ProviderKey::Name("Shop".to_owned());
        let expected =
            [Enablement::new(by_name, info()), Enablement::new(Guid::from_name("Shop"), info())];
        assert_eq!(request.config.enable, expected);
        let text = serde_json::to_string(&request).unwrap();
        assert!(text.contains(r#"["Shop",{"#), "{text}");
        assert_eq!(read(&text).unwrap(), request);
    }

    #[test]
    fn contradictions_are_errors_that_name_the_option() {
        for (text, expected) in [
            (r#"{"clock":9}"#, "clock 9"),
            (r#"{"file":"/a","mode":"circular"}"#, "log mode circular needs a maximum size"),
            (r#"{"file":"/a","mode":"append","max_size":9}"#, "append has no maximum size"),
            (r#"{"file":"/a","mode":"spiral"}"#, "spiral"),
            (r#"{"colour":1}"#, "colour"),
            (r#"{"compressed":"often"}"#, "expected false, true or \"auto\""),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
