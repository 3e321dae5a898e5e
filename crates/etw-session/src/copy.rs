//! Copies of payloads, most of which are short.

/// Copies between slices of equal length. Of most payloads, two moves that may overlap are enough.
#[inline(always)]
pub(crate) fn copy(to: &mut [u8], from: &[u8]) {
    /// Copies the first and the last `N` bytes of slices of `N` to twice as many.
    #[inline(always)]
    fn ends<const N: usize>(to: &mut [u8], from: &[u8]) {
        if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk()) {
            *to = *from;
        }
        if let (Some(to), Some(from)) = (to.last_chunk_mut::<N>(), from.last_chunk()) {
            *to = *from;
        }
    }
    match from.len() {
        16..=32 => ends::<16>(to, from),
        33..=64 => ends::<32>(to, from),
        _ => to.copy_from_slice(from),
    }
}
