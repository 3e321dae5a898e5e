//! The macros compile in every position of a program and do not change its control flow. No session enables the providers.
//!
//! The lints are those that a user may have, and that an expansion must not wake.
#![deny(unused, unused_must_use, missing_docs, warnings)]
#![forbid(unsafe_code)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery)]

use std::cell::Cell;

use etw::{Status, define_provider, provider_enabled, write_event};

define_provider!(
    /// Seen from everywhere.
    pub PROVIDER,
    "MyCompany.MyComponent"
);

define_provider!(pub(crate) IN_CRATE, "In.Crate");
define_provider!(PRIVATE, "Private");

/// OV-14: values are not evaluated while nobody wants them.
#[test]
fn nothing_is_evaluated_while_disabled() {
    let _registration = PROVIDER.register();
    let evaluated = Cell::new(0);
    let value = || {
        evaluated.set(evaluated.get() + 1);
        7u8
    };
    let status = write_event!(
        PROVIDER,
        "E",
        level(LogAlways),
        u8("a", &value()),
        opt_u8("b", &Some(value())),
        struct_slice("s", 0..value(), |x| { u8("x", &x) }),
        activity_id(&etw::Guid([value(); 16])),
    );
    assert!(status.is_success());
    assert_eq!(evaluated.get(), 0);
    assert!(!provider_enabled!(PROVIDER, LogAlways, 0));
}

/// OV-13
#[test]
fn the_guid_is_made_of_the_name() {
    assert_eq!(PROVIDER.id().to_string(), "ce5fa4ea-ab00-5402-8b76-9f76ac858fb5");
    assert_eq!(PROVIDER.id(), etw::Guid::from_name(PROVIDER.name()));
    assert_eq!(IN_CRATE.id(), etw::Guid::from_name("In.Crate"));
}

#[test]
fn a_status_may_be_ignored() {
    write_event!(PROVIDER, "E");
    write_event!(crate::macros::PROVIDER, "E", u8("a", &1));
    let _: Status = write_event!(PRIVATE, "E");
}

mod inner {
    pub(super) fn write<const N: usize, T: AsRef<[u8]>>(
        array: &[u32; N],
        text: &T,
    ) -> super::Status {
        super::write_event!(
            super::IN_CRATE,
            "E",
            u32_slice("a", array),
            str8("b", text),
            str8_slice("c", &[text])
        )
    }
}

#[test]
fn in_generic_functions() {
    assert!(inner::write(&[1, 2, 3], &"x").is_success());
    assert!(inner::write(&[], &String::new()).is_success());
}

fn question_mark(text: &str) -> Result<(), std::num::ParseIntError> {
    write_event!(PROVIDER, "E", u32("n", &text.parse()?));
    Ok(())
}

/// A `return` in a value leaves the surrounding function, not a closure.
#[test]
fn in_functions_that_return_errors() {
    // Disabled: not even parsed.
    assert!(question_mark("no number").is_ok());
}

const fn is_send<F: Send>(future: F) -> F {
    future
}

#[test]
fn in_closures_and_futures() {
    let name = String::from("x");
    let write = move |n: u64| write_event!(PROVIDER, "E", u64("n", &n), str8("name", &name));
    assert!(write(1).is_success());
    let future = async {
        let n = std::future::ready(5u8).await;
        let status = write_event!(PROVIDER, "E", u8("n", &n));
        std::future::ready(()).await;
        status
    };
    let mut future = std::pin::pin!(is_send(future));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(status) = future.as_mut().poll(&mut context) else { panic!() };
    assert!(status.is_success());
}

/// The expansion's own names are not seen by the user's expressions, nor the other way round.
#[test]
fn names_do_not_meet() {
    let (provider, room, out, routes, a0, a1) = (1u8, 2u8, 3u8, 4u8, 5u8, 6u8);
    let status = write_event!(
        PROVIDER,
        "E",
        u8("a", &provider),
        u8("b", &room),
        u8("c", &routes),
        u8("d", &a1),
        u8("e", &a0),
        struct_slice("s", [out], |a0| { u8("f", &a0), u8("g", &out), u8("h", &a1) }),
    );
    assert!(status.is_success());
}

mod no_prelude {
    #![no_implicit_prelude]

    #[allow(dead_code, non_camel_case_types)]
    mod shadowed {
        pub(super) struct Option;
        pub(super) struct u8;
        pub(super) struct etw;
        pub(super) struct core;
        pub(super) struct std;
    }

    #[allow(unused_imports)]
    use shadowed::{Option, core, etw, std, u8};

    const LEVEL: ::core::primitive::u8 = 3;
    const KEYWORD: ::core::primitive::u64 = 3;
    const COUNT: ::core::primitive::usize = 2;

    pub(super) fn write() -> super::Status {
        ::etw::write_event!(
            super::PROVIDER,
            "E",
            level(LEVEL),
            keyword(KEYWORD),
            u32("a", &7),
            usize("b", &7),
            activity_id(&[0; 16]),
            u16_array("c", &[1, 2], count(COUNT)),
            struct_slice("s", [1], |x| { u64("x", &x) })
        )
    }
}

#[test]
fn without_a_prelude() {
    assert!(no_prelude::write().is_success());
}

macro_rules! log {
    ($level:ident, $name:literal $(, $field:ident = $value:expr)* $(,)?) => {
        write_event!(PROVIDER, $name, level($level) $(, str8(stringify!($field), $value))*)
    };
}

macro_rules! provider {
    ($vis:vis $symbol:ident, $name:literal, $id:literal) => {
        define_provider!($vis $symbol, $name, id($id));
    };
}

provider!(pub(self) MADE, "Made", "{ce5fa4ea-ab00-5402-8b76-9f76ac858fb5}");

#[test]
fn inside_other_macros() {
    let x = String::from("x");
    assert!(log!(Warning, "E", a = &x, b = "b",).is_success());
    assert_eq!(MADE.id(), PROVIDER.id());
    assert_eq!(MADE.name(), "Made");
}

/// A macro of another name, as a crate that re-exports `etw` has it.
mod facade {
    pub use etw as renamed;
}

#[test]
fn through_a_re_export() {
    facade::renamed::define_provider!(ELSEWHERE, "Elsewhere");
    assert!(facade::renamed::write_event!(ELSEWHERE, "E", u8("a", &1)).is_success());
    assert!(!facade::renamed::provider_enabled!(&ELSEWHERE, 5, 1));
}

#[test]
fn providers_may_be_local_or_borrowed() -> Result<(), Status> {
    let id = etw::Guid::from_name("Dynamic");
    let shared = etw::Provider::dynamic("Dynamic", id, None)?;
    assert!(write_event!(shared, "E", u8("a", &1)).is_success());
    assert!(write_event!(&shared, "E").is_success());
    assert!(write_event!(std::sync::Arc::clone(&shared), "E").is_success());
    shared.register_shared(None).provider();
    Ok(())
}
