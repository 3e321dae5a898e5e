//! Fields: values in every shape.

use std::marker::PhantomData;

use etw_ring::Room;

use super::plain::{Plain, REFUSED, put_plain};
use super::text::Text;

/// A field whose value was evaluated.
pub trait Field {
    /// Bytes in the payload. Saturates.
    fn size(&self) -> usize;
    /// Puts as many bytes.
    fn put<'r>(&self, room: Room<'r>) -> Room<'r>;
}

/// The bytes of one or of many values of a plain codec.
#[derive(Debug)]
pub struct Encoded<B>(B);

impl<B: AsRef<[u8]>> Field for Encoded<B> {
    #[inline(always)]
    fn size(&self) -> usize {
        size_of::<B>()
    }

    #[inline(always)]
    fn put<'r>(&self, room: Room<'r>) -> Room<'r> {
        room.put(self.0.as_ref())
    }
}

/// One value of constant size.
#[inline(always)]
pub fn scalar<P: Plain>(value: &P::Value) -> Encoded<P::Bytes> {
    Encoded(P::encode(value))
}

/// Values whose count is in the metadata.
#[derive(Debug)]
pub struct Array<'a, P: Plain, const N: usize>(&'a [P::Value; N]);

impl<P: Plain, const N: usize> Field for Array<'_, P, N> {
    #[inline(always)]
    fn size(&self) -> usize {
        P::SIZE * N
    }

    #[inline(always)]
    fn put<'r>(&self, room: Room<'r>) -> Room<'r> {
        put_plain::<P>(self.0, room)
    }
}

/// `…_array` of a type of constant size.
#[inline(always)]
pub fn array<P: Plain, const N: usize>(values: &[P::Value; N]) -> Array<'_, P, N> {
    Array(values)
}

/// A `u16` count and as many values.
#[derive(Debug)]
pub struct Slice<'a, P: Plain>(&'a [P::Value]);

impl<P: Plain> Field for Slice<'_, P> {
    #[inline(always)]
    fn size(&self) -> usize {
        self.0.len().saturating_mul(P::SIZE).saturating_add(2)
    }

    #[inline(always)]
    fn put<'r>(&self, room: Room<'r>) -> Room<'r> {
        put_plain::<P>(self.0, room.put(&(self.0.len() as u16).to_le_bytes()))
    }
}

/// `…_slice` of a type of constant size.
#[inline(always)]
pub fn slice<P: Plain>(values: &[P::Value]) -> Slice<'_, P> {
    Slice(values)
}

/// `&Option<T>` and `Option<&T>`.
pub trait Opt<'a, T: ?Sized> {
    #[doc(hidden)]
    fn option(self) -> Option<&'a T>;
}

impl<'a, T> Opt<'a, T> for &'a Option<T> {
    #[inline(always)]
    fn option(self) -> Option<&'a T> {
        self.as_ref()
    }
}

impl<'a, T: ?Sized> Opt<'a, T> for Option<&'a T> {
    #[inline(always)]
    fn option(self) -> Option<&'a T> {
        self
    }
}

/// A `u16` count of 0 or 1, and the value if there is one.
#[derive(Debug)]
pub struct Maybe<F>(Option<F>);

impl<F: Field> Field for Maybe<F> {
    #[inline(always)]
    fn size(&self) -> usize {
        2usize.saturating_add(self.0.as_ref().map_or(0, F::size))
    }

    #[inline(always)]
    fn put<'r>(&self, room: Room<'r>) -> Room<'r> {
        let room = room.put(&u16::from(self.0.is_some()).to_le_bytes());
        match &self.0 {
            Some(field) => field.put(room),
            None => room,
        }
    }
}

/// `opt_…` of a type of constant size.
#[inline(always)]
pub fn opt<'a, P: Plain>(value: impl Opt<'a, P::Value>) -> Maybe<Encoded<P::Bytes>>
where
    P::Value: 'a,
{
    Maybe(value.option().map(scalar::<P>))
}

/// One string, binary or SID.
#[derive(Debug)]
pub struct Piece<'a, T: Text>(&'a [T::Unit]);

impl<T: Text> Field for Piece<'_, T> {
    #[inline(always)]
    fn size(&self) -> usize {
        T::size(self.0)
    }

    #[inline(always)]
    fn put<'r>(&self, room: Room<'r>) -> Room<'r> {
        T::put(self.0, room)
    }
}

/// One value of any size.
#[inline(always)]
pub fn text<T: Text>(value: &[T::Unit]) -> Piece<'_, T> {
    Piece(T::cut(value))
}

/// `opt_…` of a type of any size.
#[inline(always)]
pub fn opt_text<'a, T: Text, V: AsRef<[T::Unit]> + ?Sized + 'a>(
    value: impl Opt<'a, V>,
) -> Maybe<Piece<'a, T>> {
    Maybe(value.option().map(|value| text::<T>(value.as_ref())))
}

/// Values of any size; their count is in the metadata, or in front of them.
#[derive(Debug)]
pub struct Pieces<'a, T: Text, V> {
    values: &'a [V],
    counted: bool,
    codec: PhantomData<T>,
}

impl<T: Text, V: AsRef<[T::Unit]>> Field for Pieces<'_, T, V> {
    #[inline]
    fn size(&self) -> usize {
        let sizes = self.values.iter().map(|value| T::size(T::cut(value.as_ref())));
        sizes.fold(if self.counted { 2 } else { 0 }, usize::saturating_add)
    }

    #[inline]
    fn put<'r>(&self, room: Room<'r>) -> Room<'r> {
        let room = match self.counted {
            true => room.put(&(self.values.len() as u16).to_le_bytes()),
            false => room,
        };
        self.values.iter().fold(room, |room, value| T::put(T::cut(value.as_ref()), room))
    }
}

/// `…_slice` of a type of any size.
#[inline(always)]
pub fn text_slice<T: Text, V: AsRef<[T::Unit]>>(values: &[V]) -> Pieces<'_, T, V> {
    Pieces { values, counted: true, codec: PhantomData }
}

/// `…_array` of a type of any size.
#[inline(always)]
pub fn text_array<T: Text, const N: usize, V: AsRef<[T::Unit]>>(
    values: &[V; N],
) -> Pieces<'_, T, V> {
    Pieces { values, counted: false, codec: PhantomData }
}

/// Bytes that the user encoded.
#[derive(Debug)]
pub struct Raw<'a>(&'a [u8]);

impl Field for Raw<'_> {
    #[inline(always)]
    fn size(&self) -> usize {
        self.0.len()
    }

    #[inline(always)]
    fn put<'r>(&self, room: Room<'r>) -> Room<'r> {
        room.put(self.0)
    }
}

/// `raw_field`, `raw_data`
#[inline(always)]
pub fn raw(bytes: &[u8]) -> Raw<'_> {
    Raw(bytes)
}

/// The target of the members of an array's structs: first a sum of sizes, then the payload.
#[derive(Debug)]
pub struct Out<'r>(Target<'r>);

#[derive(Debug)]
enum Target<'r> {
    Size(usize),
    Room(Room<'r>),
}

impl<'r> Out<'r> {
    /// The next member.
    #[inline(always)]
    pub fn field(self, field: &impl Field) -> Out<'r> {
        Out(match self.0 {
            Target::Size(size) => Target::Size(size.saturating_add(field.size())),
            Target::Room(room) => Target::Room(field.put(room)),
        })
    }
}

/// An array of structs: the iterator runs once for the size, and once for each host that takes the event.
#[derive(Debug)]
pub struct Items<I, F> {
    items: I,
    each: F,
    count: u16,
    size: usize,
}

/// `struct_slice`
#[inline]
pub fn items<I, F>(items: I, each: F) -> Items<I, F>
where
    I: IntoIterator + Clone,
    F: for<'r> Fn(I::Item, Out<'r>) -> Out<'r>,
{
    let mut out = Out(Target::Size(2));
    let mut count = 0usize;
    for item in items.clone() {
        out = each(item, out);
        count += 1;
        if count > u16::MAX.into() {
            // More than the count can hold. Items may have no bytes, so the size would not show it.
            out = Out(Target::Size(REFUSED));
            break;
        }
    }
    let size = match out.0 {
        Target::Size(size) => size,
        Target::Room(_) => REFUSED,
    };
    Items { items, each, count: count as u16, size }
}

impl<I, F> Field for Items<I, F>
where
    I: IntoIterator + Clone,
    F: for<'r> Fn(I::Item, Out<'r>) -> Out<'r>,
{
    #[inline(always)]
    fn size(&self) -> usize {
        self.size
    }

    #[inline]
    fn put<'r>(&self, room: Room<'r>) -> Room<'r> {
        let mut out = Out(Target::Room(room.put(&self.count.to_le_bytes())));
        for item in self.items.clone().into_iter().take(self.count.into()) {
            out = (self.each)(item, out);
        }
        match out.0 {
            Target::Room(room) => room,
            Target::Size(_) => unreachable!("members put into the target that they get"),
        }
    }
}
