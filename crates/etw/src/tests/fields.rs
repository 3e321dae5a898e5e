use etw::{define_provider, write_event};

use crate::capture::one;

define_provider!(PROVIDER, "Test.Fields");

#[test]
fn first() {
    let name = String::from("hello");
    let event = one(&PROVIDER, || {
        write_event!(
            PROVIDER,
            "E",
            level(Warning),
            keyword(3),
            u32("a", &7),
            str8("s", &name),
            cstr16("z", &[65u16, 0, 66])
        )
    });
    assert_eq!(event.payload, b"\x07\0\0\0\x05\0helloA\0\0\0");
    assert_eq!(event.metadata, b"\x0f\0\0E\0a\0\x08s\0\x97\x23z\0\x01");
    assert_eq!(
        (event.descriptor.level.0, event.descriptor.keyword.0, event.descriptor.channel.0),
        (3, 3, 11)
    );
}

#[test]
fn ids() {
    const L: u8 = 2;
    let id = etw::Guid([1; 16]);
    let event = one(&PROVIDER, || {
        write_event!(
            PROVIDER,
            "E",
            level(L),
            keyword(etw::Keyword(4)),
            keyword(1 << 40),
            keyword(2),
            activity_id(&id),
            related_id(Some([2; 16]))
        )
    });
    assert_eq!(event.activity_id, Some(id));
    assert_eq!(event.related_activity_id, Some(etw::Guid([2; 16])));
    assert_eq!((event.descriptor.level.0, event.descriptor.keyword.0), (2, 6 | 1 << 40));
}
