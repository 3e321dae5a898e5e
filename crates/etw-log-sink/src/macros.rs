//! `logger_log!` and `logger_log_ex!`.

/// The name of the function that it stands in.
#[doc(hidden)]
#[macro_export]
macro_rules! __function {
    () => {{
        fn here() {}
        $crate::__function_of(here)
    }};
}

#[doc(hidden)]
pub fn __function_of<T>(_: T) -> &'static str {
    let name = std::any::type_name::<T>();
    name.strip_suffix("::here").unwrap_or(name)
}

/// Logs a formatted message: `logger_log!(sink, level, context, "format", …)`, where the context is an
/// `Option<&LogContext>`. Nothing is formatted unless the sink wants the level.
#[macro_export]
macro_rules! logger_log {
    ($sink:expr, $level:expr, $context:expr, $($message:tt)+) => {{
        let (sink, level) = (&$sink, $level);
        if $crate::LogSink::is_enabled(sink, level) {
            $crate::LogSink::log(sink, &$crate::LogRecord {
                level,
                context: $context,
                file: ::core::file!(),
                func: $crate::__function!(),
                line: ::core::line!() as i32,
                message: ::core::format_args!($($message)+),
            });
        }
    }};
}

/// Logs a message with properties of its own: `logger_log_ex!(sink, level, { "name" = value, … }, "format", …)`. They are a
/// structure without a name; without any there is no context. Nothing is evaluated unless the sink wants the level.
#[macro_export]
macro_rules! logger_log_ex {
    ($sink:expr, $level:expr, {} $(,)?) => {
        $crate::logger_log!($sink, $level, ::core::option::Option::None, "")
    };
    ($sink:expr, $level:expr, {}, $($message:tt)+) => {
        $crate::logger_log!($sink, $level, ::core::option::Option::None, $($message)+)
    };
    ($sink:expr, $level:expr, { $($name:literal = $value:expr),+ $(,)? } $(,)?) => {
        $crate::logger_log_ex!($sink, $level, { $($name = $value),+ }, "")
    };
    ($sink:expr, $level:expr, { $($name:literal = $value:expr),+ $(,)? }, $($message:tt)+) => {{
        let (sink, level) = (&$sink, $level);
        if $crate::LogSink::is_enabled(sink, level) {
            let pairs = [
                $crate::Pair::structure("", [$($name),+].len() as u8),
                $($crate::Pair::new($name, $value)),+
            ];
            $crate::LogSink::log(sink, &$crate::LogRecord {
                level,
                context: ::core::option::Option::Some(&$crate::LogContext::from_pairs(&pairs)),
                file: ::core::file!(),
                func: $crate::__function!(),
                line: ::core::line!() as i32,
                message: ::core::format_args!($($message)+),
            });
        }
    }};
}
