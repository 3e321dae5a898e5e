//! The macros as users see them: documentation, and `$crate` for what does the work.

/// Defines a static [`Provider`](crate::Provider).
#[macro_export]
macro_rules! define_provider {
    ($($tokens:tt)*) => {
        $crate::rt::define_provider! { $crate $($tokens)* }
    };
}

/// Writes an event.
#[macro_export]
macro_rules! write_event {
    ($($tokens:tt)*) => {
        $crate::rt::write_event! { $crate $($tokens)* }
    };
}

/// Whether an event would be written.
#[macro_export]
macro_rules! provider_enabled {
    ($($tokens:tt)*) => {
        $crate::rt::provider_enabled! { $crate $($tokens)* }
    };
}
