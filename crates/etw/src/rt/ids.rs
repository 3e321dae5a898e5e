//! Types that `activity_id` and `related_id` accept.

use etw_types::Guid;

use crate::Activity;

/// An activity id, or an optional one.
pub trait Id {
    /// The id; `None` has the effect of leaving the option out.
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
