//! Decoding with limits on items and depth.
//!
//! A decoded list of small items takes many times the memory of its encoding, so a limit on bytes is not enough.
//! [`Bounded`] decodes like the type that it wraps, but refuses more than [`MAX_ITEMS`] items of lists and maps in all,
//! and more than [`MAX_DEPTH`] levels of nesting.

use std::{cell::Cell, fmt};

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

pub(super) use super::MAX_REQUEST_ITEMS as MAX_ITEMS;

/// Error text for too many items.
pub(super) const TOO_MANY: &str = "too many items";
/// Error text for values nested too deep.
pub(super) const TOO_DEEP: &str = "too deep";
/// Maximum nesting depth. No message comes near it.
pub(super) const MAX_DEPTH: usize = 64;

/// A value decoded within the limits.
pub(super) struct Bounded<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Cell::new(MAX_ITEMS);
        T::deserialize(Limited { inner: deserializer, left: RemainingLimits { items: &items, depth: MAX_DEPTH } })
            .map(Self)
    }
}

/// The limits that remain for the values not read yet.
#[derive(Clone, Copy)]
struct RemainingLimits<'c> {
    items: &'c Cell<usize>,
    depth: usize,
}

impl RemainingLimits<'_> {
    fn take_item<E: Error>(self) -> Result<(), E> {
        let left = self.items.get().checked_sub(1);
        self.items.set(left.ok_or_else(|| E::custom(TOO_MANY))?);
        Ok(())
    }

    /// Enters one more level of nesting.
    fn deeper<E: Error>(self) -> Result<Self, E> {
        let depth = self.depth.checked_sub(1);
        let depth = depth.ok_or_else(|| E::custom(TOO_DEEP))?;
        Ok(Self { depth, ..self })
    }
}

/// Wraps any part of serde's interface to enforce the limits.
struct Limited<'c, I> {
    inner: I,
    left: RemainingLimits<'c>,
}

/// A visitor of the wrapped type. `counts_items` is set for lists and maps, not for the members of a struct.
struct WithinVisitor<'c, V> {
    inner: V,
    left: RemainingLimits<'c>,
    counts_items: bool,
}

/// The items of a list or map, or the members of a struct.
struct WithinItems<'c, A> {
    inner: A,
    left: RemainingLimits<'c>,
    counts_items: bool,
}

macro_rules! deserialize {
    ($($method:ident($($name:ident: $kind:ty),*), $counts_items:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($name: $kind,)* visitor: V) -> Result<V::Value, Self::Error> {
            let visitor = WithinVisitor { inner: visitor, left: self.left, counts_items: $counts_items };
            self.inner.$method($($name,)* visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Limited<'_, D> {
    type Error = D::Error;

    deserialize! {
        deserialize_any(), true;
        deserialize_bool(), false;
        deserialize_i8(), false;
        deserialize_i16(), false;
        deserialize_i32(), false;
        deserialize_i64(), false;
        deserialize_i128(), false;
        deserialize_u8(), false;
        deserialize_u16(), false;
        deserialize_u32(), false;
        deserialize_u64(), false;
        deserialize_u128(), false;
        deserialize_f32(), false;
        deserialize_f64(), false;
        deserialize_char(), false;
        deserialize_str(), false;
        deserialize_string(), false;
        deserialize_bytes(), false;
        deserialize_byte_buf(), false;
        deserialize_option(), false;
        deserialize_unit(), false;
        deserialize_unit_struct(name: &'static str), false;
        deserialize_newtype_struct(name: &'static str), false;
        deserialize_seq(), true;
        deserialize_tuple(length: usize), false;
        deserialize_tuple_struct(name: &'static str, length: usize), false;
        deserialize_map(), true;
        deserialize_struct(name: &'static str, fields: &'static [&'static str]), false;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]), false;
        deserialize_identifier(), false;
        deserialize_ignored_any(), true;
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($kind:ty);)*) => {$(
        fn $method<E: Error>(self, value: $kind) -> Result<Self::Value, E> {
            self.inner.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for WithinVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(formatter)
    }

    visit! {
        visit_bool(bool);
        visit_i8(i8);
        visit_i16(i16);
        visit_i32(i32);
        visit_i64(i64);
        visit_i128(i128);
        visit_u8(u8);
        visit_u16(u16);
        visit_u32(u32);
        visit_u64(u64);
        visit_u128(u128);
        visit_f32(f32);
        visit_f64(f64);
        visit_char(char);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
    }

    fn visit_none<E: Error>(self) -> Result<Self::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
        self.inner.visit_some(Limited { inner, left: self.left.deeper()? })
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
        self.inner.visit_newtype_struct(Limited { inner, left: self.left.deeper()? })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<Self::Value, A::Error> {
        self.inner.visit_seq(WithinItems { inner, left: self.left.deeper()?, counts_items: self.counts_items })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<Self::Value, A::Error> {
        self.inner.visit_map(WithinItems { inner, left: self.left.deeper()?, counts_items: self.counts_items })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<Self::Value, A::Error> {
        self.inner.visit_enum(Limited { inner, left: self.left.deeper()? })
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Limited<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<Self::Value, D::Error> {
        self.inner.deserialize(Limited { inner, left: self.left })
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for WithinItems<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, inner: S) -> Result<Option<S::Value>, A::Error> {
        let item = self.inner.next_element_seed(Limited { inner, left: self.left })?;
        if self.counts_items && item.is_some() {
            self.left.take_item()?;
        }
        Ok(item)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for WithinItems<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, inner: S) -> Result<Option<S::Value>, A::Error> {
        let key = self.inner.next_key_seed(Limited { inner, left: self.left })?;
        if self.counts_items && key.is_some() {
            self.left.take_item()?;
        }
        Ok(key)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, inner: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(Limited { inner, left: self.left })
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, 'c, A: EnumAccess<'de>> EnumAccess<'de> for Limited<'c, A> {
    type Error = A::Error;
    type Variant = Limited<'c, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, inner: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.inner.variant_seed(Limited { inner, left: self.left })?;
        Ok((value, Limited { inner: variant, left: self.left }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Limited<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, inner: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(Limited { inner, left: self.left })
    }

    fn tuple_variant<V: Visitor<'de>>(self, length: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(length, WithinVisitor { inner: visitor, left: self.left, counts_items: false })
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.struct_variant(fields, WithinVisitor { inner: visitor, left: self.left, counts_items: false })
    }
}
