//! What can be given as `activity_id` and `related_id`.

use etw_types::Guid;

use crate::Activity;

/// Something that is an activity id, or perhaps is one.
pub trait Id {
    /// The id; `None` means what leaving the option out means.
    fn __etw_id(&self) -> Option<Guid>;
}

impl Id for Guid {
    #[inline(always)]
    fn __etw_id(&self) -> Option<Guid> {
        Some(*self)
    }
}

impl Id for [u8; 16] {
    #[inline(always)]
    fn __etw_id(&self) -> Option<Guid> {
        Some(Guid(*self))
    }
}

impl Id for Activity {
    #[inline(always)]
    fn __etw_id(&self) -> Option<Guid> {
        Some(self.id())
    }
}

impl<T: Id> Id for Option<T> {
    #[inline(always)]
    fn __etw_id(&self) -> Option<Guid> {
        self.as_ref().and_then(T::__etw_id)
    }
}

impl<T: Id> Id for &T {
    #[inline(always)]
    fn __etw_id(&self) -> Option<Guid> {
        T::__etw_id(self)
    }
}
