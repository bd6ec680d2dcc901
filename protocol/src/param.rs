//! Parameter values: a tag byte, then the value.
//!
//! ```text
//! | tag | value             |        | tag | value              |
//! |  0  | i32               |        |  4  | f32, raw bits      |
//! |  1  | i64               |        |  5  | i16                |
//! |  2  | i8                |        |  6  | bool, one byte     |
//! |  3  | f64, raw bits     |        |  7  | i32 length, text   |
//! ```
//!
//! Sentinel: `ParamFlowRequestDataWriter.java`, `ParamFlowRequestDataDecoder.java`.

use std::borrow::Cow;

use bytes::{Buf, BufMut, BytesMut};

use crate::frame::MAX_BODY_LEN;
use crate::{EncodeError, Malformed};

const INT: i8 = 0;
const LONG: i8 = 1;
const BYTE: i8 = 2;
const DOUBLE: i8 = 3;
const FLOAT: i8 = 4;
const SHORT: i8 = 5;
const BOOL: i8 = 6;
const TEXT: i8 = 7;

/// Bytes of the amount in front of parameters.
const AMOUNT_LEN: usize = 4;

/// One parameter value, in the Java types that Sentinel carries.
///
/// Numbers of different types are different values, as in Java: `Int(7)` is not `Long(7)`.
#[derive(Debug, Clone, PartialEq)]
pub enum Param<'a> {
    /// Java's `Integer`.
    Int(i32),
    /// Java's `Long`.
    Long(i64),
    /// Java's `Byte`.
    Byte(i8),
    /// Java's `Double`. All bits are kept, also those of a NaN.
    Double(f64),
    /// Java's `Float`. All bits are kept, also those of a NaN.
    Float(f32),
    /// Java's `Short`.
    Short(i16),
    /// Java's `Boolean`; read as true from any byte but 0.
    Bool(bool),
    /// Java's `String`, in UTF-8. Bytes that are not UTF-8 are read as U+FFFD.
    Str(Cow<'a, str>),
}

/// A parameter as it lies in a body: text still bytes.
enum Raw<'a> {
    Value(Param<'static>),
    Text(&'a [u8]),
}

impl Param<'_> {
    /// Bytes on the wire, tag included.
    pub(crate) fn wire_len(&self) -> usize {
        match self {
            Self::Byte(_) | Self::Bool(_) => 2,
            Self::Short(_) => 3,
            Self::Int(_) | Self::Float(_) => 5,
            Self::Long(_) | Self::Double(_) => 9,
            Self::Str(text) => text.len().saturating_add(5),
        }
    }

    /// Appends the parameter. A text must be shorter than a frame, or its length is cut.
    pub(crate) fn put(&self, out: &mut BytesMut) {
        match self {
            Self::Int(value) => {
                out.put_i8(INT);
                out.put_i32(*value);
            }
            Self::Long(value) => {
                out.put_i8(LONG);
                out.put_i64(*value);
            }
            Self::Byte(value) => {
                out.put_i8(BYTE);
                out.put_i8(*value);
            }
            Self::Double(value) => {
                out.put_i8(DOUBLE);
                out.put_u64(value.to_bits());
            }
            Self::Float(value) => {
                out.put_i8(FLOAT);
                out.put_u32(value.to_bits());
            }
            Self::Short(value) => {
                out.put_i8(SHORT);
                out.put_i16(*value);
            }
            Self::Bool(value) => {
                out.put_i8(BOOL);
                out.put_u8(u8::from(*value));
            }
            Self::Str(text) => {
                out.put_i8(TEXT);
                out.put_uint(text.len() as u64, 4);
                out.put_slice(text.as_bytes());
            }
        }
    }
}

impl<'a> Raw<'a> {
    /// Takes one parameter off the front of `rest`. `index` is for the error alone.
    fn take(rest: &mut &'a [u8], index: usize) -> Result<Self, Malformed> {
        let short = |e: bytes::TryGetError| Malformed::ParamShort {
            index,
            need: e.requested,
            have: e.available,
        };
        let value = match rest.try_get_i8().map_err(short)? {
            INT => Param::Int(rest.try_get_i32().map_err(short)?),
            LONG => Param::Long(rest.try_get_i64().map_err(short)?),
            BYTE => Param::Byte(rest.try_get_i8().map_err(short)?),
            DOUBLE => Param::Double(f64::from_bits(rest.try_get_u64().map_err(short)?)),
            FLOAT => Param::Float(f32::from_bits(rest.try_get_u32().map_err(short)?)),
            SHORT => Param::Short(rest.try_get_i16().map_err(short)?),
            BOOL => Param::Bool(rest.try_get_u8().map_err(short)? != 0),
            TEXT => {
                let len = rest.try_get_i32().map_err(short)?;
                let text = usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len));
                let Some((text, behind)) = text else {
                    return Err(Malformed::ParamTextLen { index, len, have: rest.len() });
                };
                *rest = behind;
                return Ok(Self::Text(text));
            }
            tag => return Err(Malformed::ParamTag { index, tag }),
        };
        Ok(Self::Value(value))
    }
}

/// Parameters as they lie in a request: checked to be whole, read anew each time they are iterated.
///
/// ```text
/// | amount i32 | parameters |
/// ```
///
/// Iterating allocates nothing, except for a text that is not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params<'a> {
    /// The amount, which is positive, and exactly that many whole parameters.
    bytes: &'a [u8],
}

impl<'a> Params<'a> {
    /// Writes `params` into `buf` in place of what was there, to be part of a request.
    ///
    /// # Errors
    ///
    /// [`EncodeError::NoParams`], and [`EncodeError::TooLong`] when no frame has room for them.
    pub fn write(params: &[Param<'_>], buf: &'a mut BytesMut) -> Result<Self, EncodeError> {
        if params.is_empty() {
            return Err(EncodeError::NoParams);
        }
        let len = params.iter().map(Param::wire_len).fold(AMOUNT_LEN, usize::saturating_add);
        if len > MAX_BODY_LEN {
            return Err(EncodeError::TooLong { len });
        }
        buf.clear();
        buf.put_uint(params.len() as u64, AMOUNT_LEN);
        for param in params {
            param.put(buf);
        }
        Ok(Self { bytes: buf })
    }

    /// Cuts the parameters off the front of `bytes`; gives what is behind them too.
    ///
    /// The announced amount costs nothing: the walk ends where the bytes do.
    pub(crate) fn cut(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let Some((&amount, mut rest)) = bytes.split_first_chunk() else {
            return Err(Malformed::Fields { need: AMOUNT_LEN, have: bytes.len() });
        };
        let amount = i32::from_be_bytes(amount);
        let len = usize::try_from(amount).unwrap_or(0);
        if len == 0 {
            return Err(Malformed::ParamAmount { amount });
        }
        for index in 0..len {
            Raw::take(&mut rest, index)?;
        }
        let (bytes, behind) = bytes.split_at(bytes.len() - rest.len());
        Ok((Self { bytes }, behind))
    }

    /// The parameters in the order of the request.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Param<'a>> + use<'a> {
        let mut rest = self.bytes.get(AMOUNT_LEN..).unwrap_or_default();
        (0..self.len()).map_while(move |index| match Raw::take(&mut rest, index) {
            Ok(Raw::Value(value)) => Some(value),
            Ok(Raw::Text(text)) => Some(Param::Str(String::from_utf8_lossy(text))),
            // Never: the bytes were checked when the value was made.
            Err(_) => None,
        })
    }

    /// How many parameters there are.
    #[must_use]
    pub fn len(&self) -> usize {
        let amount = self.bytes.first_chunk().map_or(0, |amount| i32::from_be_bytes(*amount));
        usize::try_from(amount).unwrap_or(0)
    }

    /// Whether there are none, which is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Amount and parameters as they lie on the wire.
    pub(crate) fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announced(amount: i32, bytes: &[u8]) -> Vec<u8> {
        [&amount.to_be_bytes(), bytes].concat()
    }

    fn reason(amount: i32, bytes: &[u8]) -> Malformed {
        Params::cut(&announced(amount, bytes)).unwrap_err()
    }

    #[test]
    fn parameters_that_do_not_fit_are_refused_by_name() {
        assert_eq!(reason(0, &[0, 0, 0, 0, 1]), Malformed::ParamAmount { amount: 0 });
        assert_eq!(reason(-1, &[0, 0, 0, 0, 1]), Malformed::ParamAmount { amount: -1 });
        assert_eq!(reason(1, &[8, 0]), Malformed::ParamTag { index: 0, tag: 8 });
        assert_eq!(reason(2, &[2, 7, 0xff]), Malformed::ParamTag { index: 1, tag: -1 });
        assert_eq!(reason(3, &[2, 7, 2, 7]), Malformed::ParamShort { index: 2, need: 1, have: 0 });
        assert_eq!(reason(1, &[1, 0]), Malformed::ParamShort { index: 0, need: 8, have: 1 });
        assert_eq!(reason(1, &[7, 0, 0]), Malformed::ParamShort { index: 0, need: 4, have: 2 });
        for (len, have) in [(-1, 0), (i32::MIN, 2), (3, 2), (i32::MAX, 2)] {
            let bytes = [&[7][..], &len.to_be_bytes(), &vec![b'a'; have]].concat();
            assert_eq!(reason(1, &bytes), Malformed::ParamTextLen { index: 0, len, have });
        }
    }

    #[test]
    fn the_announced_amount_decides_nothing_beyond_the_bytes() {
        let bytes = [2, 7].repeat(500);
        assert_eq!(
            reason(i32::MAX, &bytes),
            Malformed::ParamShort { index: 500, need: 1, have: 0 }
        );
        assert_eq!(Params::cut(&announced(500, &bytes)).unwrap().0.len(), 500);
    }

    #[test]
    fn surplus_bytes_are_no_parameters() {
        let bytes = announced(1, &[6, 2, 0xff, 0xfe]);
        let (params, behind) = Params::cut(&bytes).unwrap();
        assert_eq!((params.len(), params.is_empty(), behind), (1, false, &[0xff, 0xfe][..]));
        assert_eq!(params.as_bytes(), [0, 0, 0, 1, 6, 2]);
        assert!(params.iter().eq([Param::Bool(true)]));
        assert!(params.iter().eq([Param::Bool(true)]), "as often as one likes");
    }

    #[test]
    fn text_is_borrowed_unless_it_is_not_utf_8() {
        let bytes = [&[7, 0, 0, 0, 3][..], "né".as_bytes(), &[7, 0, 0, 0, 2, b'n', 0xe9]].concat();
        let bytes = announced(2, &bytes);
        let texts: Vec<_> = Params::cut(&bytes).unwrap().0.iter().collect();
        let [Param::Str(Cow::Borrowed(borrowed)), Param::Str(Cow::Owned(replaced))] = &texts[..]
        else {
            panic!("{texts:?}");
        };
        assert_eq!((*borrowed, &replaced[..]), ("né", "n\u{fffd}"));
        assert!(bytes.as_ptr_range().contains(&borrowed.as_ptr()));
    }

    #[test]
    fn values_are_written_wholly_or_not_at_all() {
        let mut buf = BytesMut::from(&b"before"[..]);
        let written = Params::write(&[Param::Byte(1), Param::Bool(true)], &mut buf).unwrap();
        assert_eq!(written.as_bytes(), [0, 0, 0, 2, 2, 1, 6, 1]);
        assert_eq!(Params::write(&[], &mut buf), Err(EncodeError::NoParams));
        let text = |len| [Param::Str("s".repeat(len).into())];
        assert_eq!(Params::write(&text(1013), &mut buf).unwrap().len(), 1);
        let too_long = Err(EncodeError::TooLong { len: 1023 });
        assert_eq!(Params::write(&text(1014), &mut buf), too_long);
    }
}
