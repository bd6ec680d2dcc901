//! Parameter values: as a request carries them, and as a counter keeps them.

use std::{
    borrow::Cow,
    hash::{Hash, Hasher},
};

use serde::{Deserialize, Serialize};

use crate::rule::ItemValue;

/// One hot-parameter value of a request, with its Java type.
#[derive(Clone, Debug, PartialEq)]
pub enum Param<'a> {
    /// `java.lang.Integer`.
    Int(i32),
    /// `java.lang.Long`.
    Long(i64),
    /// `java.lang.Byte`.
    Byte(i8),
    /// `java.lang.Double`.
    Double(f64),
    /// `java.lang.Float`.
    Float(f32),
    /// `java.lang.Short`.
    Short(i16),
    /// `java.lang.Boolean`.
    Bool(bool),
    /// `java.lang.String`.
    Str(Cow<'a, str>),
}

/// A value as counters are found by it: equal exactly when Java's boxed values are `equals`.
/// Types never mix, 0.0 is not -0.0, and every NaN of a type is the same value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Key {
    Bits(u8, u64),
    Str(Box<str>),
}

/// A [`Key`] that borrows its text, to look up without allocating.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum KeyRef<'a> {
    Bits(u8, u64),
    Str(&'a str),
}

/// Hashes as the [`KeyRef`] does, so that one finds the other.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_ref().hash(state);
    }
}

impl<'a> KeyRef<'a> {
    pub(crate) fn of(param: &'a Param<'_>) -> Self {
        match param {
            Param::Int(v) => Self::Bits(0, u64::from(v.cast_unsigned())),
            Param::Long(v) => Self::Bits(1, v.cast_unsigned()),
            Param::Byte(v) => Self::Bits(2, u64::from(v.cast_unsigned())),
            Param::Double(v) => Self::Bits(3, if v.is_nan() { f64::NAN } else { *v }.to_bits()),
            Param::Float(v) => {
                Self::Bits(4, u64::from(if v.is_nan() { f32::NAN } else { *v }.to_bits()))
            }
            Param::Short(v) => Self::Bits(5, u64::from(v.cast_unsigned())),
            Param::Bool(v) => Self::Bits(6, u64::from(*v)),
            Param::Str(v) => Self::Str(v),
        }
    }

    pub(crate) fn is(self, key: &Key) -> bool {
        match (self, key) {
            (Self::Bits(tag, bits), Key::Bits(t, b)) => tag == *t && bits == *b,
            (Self::Str(text), Key::Str(t)) => text == &**t,
            (Self::Bits(..), Key::Str(_)) | (Self::Str(_), Key::Bits(..)) => false,
        }
    }

    pub(crate) fn to_key(self) -> Key {
        match self {
            Self::Bits(tag, bits) => Key::Bits(tag, bits),
            Self::Str(text) => Key::Str(text.into()),
        }
    }
}

impl hashbrown::Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.is(key)
    }
}

impl Key {
    pub(crate) fn as_ref(&self) -> KeyRef<'_> {
        match self {
            Self::Bits(tag, bits) => KeyRef::Bits(*tag, *bits),
            Self::Str(text) => KeyRef::Str(text),
        }
    }
}

impl Key {
    /// The value itself.
    #[expect(clippy::cast_possible_truncation, reason = "what was put in fits")]
    pub(crate) fn to_value(&self) -> ItemValue {
        match self {
            Self::Bits(0, bits) => ItemValue::Int(*bits as i32),
            Self::Bits(2, bits) => ItemValue::Byte(*bits as i8),
            Self::Bits(3, bits) => ItemValue::Double(f64::from_bits(*bits)),
            Self::Bits(4, bits) => ItemValue::Float(f32::from_bits(*bits as u32)),
            Self::Bits(5, bits) => ItemValue::Short(*bits as i16),
            Self::Bits(6, bits) => ItemValue::Bool(*bits != 0),
            Self::Bits(_, bits) => ItemValue::Long(bits.cast_signed()),
            Self::Str(text) => ItemValue::Str(text.clone()),
        }
    }
}

impl From<&ItemValue> for Key {
    fn from(value: &ItemValue) -> Self {
        KeyRef::of(&value.into()).to_key()
    }
}

impl Param<'_> {
    /// The same value, without its own memory.
    pub(crate) fn borrowed(&self) -> Param<'_> {
        match self {
            Self::Str(text) => Param::Str(Cow::Borrowed(text)),
            // Any other has none.
            other => other.clone(),
        }
    }
}

/// The request's value that a rule's item names.
impl<'a> From<&'a ItemValue> for Param<'a> {
    fn from(value: &'a ItemValue) -> Self {
        match value {
            ItemValue::Int(v) => Self::Int(*v),
            ItemValue::Long(v) => Self::Long(*v),
            ItemValue::Byte(v) => Self::Byte(*v),
            ItemValue::Double(v) => Self::Double(*v),
            ItemValue::Float(v) => Self::Float(*v),
            ItemValue::Short(v) => Self::Short(*v),
            ItemValue::Bool(v) => Self::Bool(*v),
            ItemValue::Str(v) => Self::Str(Cow::Borrowed(v)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(param: &Param<'_>) -> Key {
        KeyRef::of(param).to_key()
    }

    #[test]
    fn the_type_is_part_of_the_value() {
        let ones = [
            Param::Int(1),
            Param::Long(1),
            Param::Byte(1),
            Param::Double(1.0),
            Param::Float(1.0),
            Param::Short(1),
            Param::Bool(true),
            Param::Str("1".into()),
        ];
        for (i, a) in ones.iter().enumerate() {
            for (j, b) in ones.iter().enumerate() {
                assert_eq!(KeyRef::of(a).is(&key(b)), i == j, "{a:?} and {b:?}");
            }
        }
    }

    #[test]
    fn zeros_differ_and_nans_do_not() {
        assert_ne!(key(&Param::Double(0.0)), key(&Param::Double(-0.0)));
        let odd = f64::from_bits(0x7ff8_0000_dead_beef);
        assert_eq!(key(&Param::Double(odd)), key(&Param::Double(f64::NAN)));
        let odd = f32::from_bits(0x7fc0_1234);
        assert_eq!(key(&Param::Float(odd)), key(&Param::Float(f32::NAN)));
    }
}
