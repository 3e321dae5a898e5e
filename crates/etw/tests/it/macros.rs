//! What the macros expand to, seen without a session: nothing is enabled.

use etw::{define_provider, write_event};

define_provider!(pub PROVIDER, "MyCompany.MyComponent");

#[test]
fn nothing_is_evaluated_while_disabled() {
    let _registration = PROVIDER.register();
    let mut evaluated = 0;
    let mut value = || {
        evaluated += 1;
        7u32
    };
    let status = write_event!(PROVIDER, "E", level(Warning), u32("a", &value()), str8("s", "x"));
    assert!(status.is_success());
    assert_eq!(evaluated, 0);
}
