//! What an extension request is about: some tokens of one rule, or of several.
//!
//! ```text
//! what:    | kind u8 | flow id i64 | count i32 |                         kind 0: a flow rule
//!          | kind u8 | flow id i64 | count i32 | amount i32, parameters | kind 1: a parameter rule
//!
//! checks:  | amount u8 | that many of: flags u8, what |
//! ```

use bytes::{BufMut, BytesMut};

use crate::frame::MAX_BODY_LEN;
use crate::request::{FLOW_FIELDS_LEN, fields, flow_fields};
use crate::{EncodeError, Malformed, Params};

/// Most rules that one request may ask for tokens of all or none.
pub const CHECKS_MAX: usize = 16;

/// Flag: tokens of a later time may be booked.
pub(crate) const PRIORITY: u8 = 1;

const FLOW_RULE: u8 = 0;
const PARAM_RULE: u8 = 1;

/// Some tokens of one rule. Id and count are read as they come, as in the other requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct What<'a> {
    /// The rule. Flow and parameter rules are two id spaces.
    pub flow_id: i64,
    /// How many tokens; for each value of a parameter rule.
    pub count: i32,
    /// The values, which make it a parameter rule; `None`: a flow rule.
    pub params: Option<Params<'a>>,
}

impl<'a> What<'a> {
    /// Cuts one off the front of `data`; gives what is behind it too.
    pub(crate) fn cut(data: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let (&[kind, ref flow @ ..], behind) = fields::<{ 1 + FLOW_FIELDS_LEN }>(data)?;
        let (flow_id, count) = flow_fields(flow);
        let (params, behind) = match kind {
            FLOW_RULE => (None, behind),
            PARAM_RULE => {
                let (params, behind) = Params::cut(behind)?;
                (Some(params), behind)
            }
            kind => return Err(Malformed::RuleKind { kind }),
        };
        Ok((Self { flow_id, count, params }, behind))
    }

    /// Bytes on the wire.
    pub(crate) fn wire_len(&self) -> usize {
        1 + FLOW_FIELDS_LEN + self.params.map_or(0, |params| params.as_bytes().len())
    }

    pub(crate) fn put(&self, out: &mut BytesMut) {
        out.put_u8(if self.params.is_some() { PARAM_RULE } else { FLOW_RULE });
        out.put_i64(self.flow_id);
        out.put_i32(self.count);
        if let Some(params) = self.params {
            out.put_slice(params.as_bytes());
        }
    }
}

/// One of several rules that are asked together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check<'a> {
    /// Whether tokens of a later time may be booked when there are none now.
    pub priority: bool,
    /// The rule, and how many tokens.
    pub what: What<'a>,
}

impl<'a> Check<'a> {
    fn cut(data: &'a [u8]) -> Result<(Self, &'a [u8]), Malformed> {
        let (&[flags], behind) = fields(data)?;
        if flags & !PRIORITY != 0 {
            return Err(Malformed::Flags { flags });
        }
        let (what, behind) = What::cut(behind)?;
        Ok((Self { priority: flags != 0, what }, behind))
    }
}

/// The rules of one request, from 1 to [`CHECKS_MAX`]: checked to be whole, read anew each time
/// they are iterated, which allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks<'a> {
    /// The amount, and exactly that many whole checks.
    bytes: &'a [u8],
}

impl<'a> Checks<'a> {
    /// Writes `checks` into `buf` in place of what was there, to be part of a request.
    ///
    /// # Errors
    ///
    /// [`EncodeError::CheckAmount`] for none or too many, and [`EncodeError::TooLong`] when no frame
    /// has room for them.
    pub fn write(checks: &[Check<'_>], buf: &'a mut BytesMut) -> Result<Self, EncodeError> {
        let amount = checks.len();
        let Some(announced) = u8::try_from(amount).ok().filter(|&amount| is_possible(amount))
        else {
            return Err(EncodeError::CheckAmount { amount });
        };
        let len = checks.iter().map(|check| 1 + check.what.wire_len()).sum::<usize>() + 1;
        if len > MAX_BODY_LEN {
            return Err(EncodeError::TooLong { len });
        }
        buf.clear();
        buf.put_u8(announced);
        for check in checks {
            buf.put_u8(if check.priority { PRIORITY } else { 0 });
            check.what.put(buf);
        }
        Ok(Self { bytes: buf })
    }

    /// Takes the checks at the front of `data`; what is behind them is ignored.
    pub(crate) fn check(data: &'a [u8]) -> Result<Self, Malformed> {
        let (&[amount], mut rest) = fields(data)?;
        if !is_possible(amount) {
            return Err(Malformed::CheckAmount { amount });
        }
        for _ in 0..amount {
            (_, rest) = Check::cut(rest)?;
        }
        let (bytes, _surplus) = data.split_at(data.len() - rest.len());
        Ok(Self { bytes })
    }

    /// The checks in the order of the request.
    pub fn iter(&self) -> impl Iterator<Item = Check<'a>> + use<'a> {
        let mut rest = self.bytes.get(1..).unwrap_or_default();
        (0..self.len()).map_while(move |_| {
            // Never an error: the bytes were checked when the value was made.
            let (check, behind) = Check::cut(rest).ok()?;
            rest = behind;
            Some(check)
        })
    }

    /// How many rules are asked.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.first().map_or(0, |&amount| usize::from(amount))
    }

    /// Whether there are none, which is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Amount and checks as they lie on the wire.
    pub(crate) fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

fn is_possible(amount: u8) -> bool {
    (1..=CHECKS_MAX).contains(&usize::from(amount))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Param;

    fn flow(priority: bool, flow_id: i64) -> Check<'static> {
        Check { priority, what: What { flow_id, count: 3, params: None } }
    }

    #[test]
    fn checks_have_this_layout() {
        let (mut params, mut buf) = (BytesMut::new(), BytesMut::new());
        let params = Params::write(&[Param::Byte(7)], &mut params).unwrap();
        let what = What { flow_id: 2, count: -1, params: Some(params) };
        let both = [flow(true, 1), Check { priority: false, what }];
        let checks = Checks::write(&both, &mut buf).unwrap();
        let flow = [&[1, 0][..], &[0, 0, 0, 0, 0, 0, 0, 1], &[0, 0, 0, 3]].concat();
        let param = [&[0, 1][..], &[0, 0, 0, 0, 0, 0, 0, 2], &[255; 4], &[0, 0, 0, 1, 2, 7]];
        assert_eq!(checks.as_bytes(), [&[2][..], &flow, &param.concat()].concat());
        assert!(checks.iter().eq(both) && checks.iter().eq(both), "as often as one likes");
    }

    #[test]
    fn an_amount_that_may_not_be_is_told_to_either_side() {
        let mut buf = BytesMut::new();
        for amount in [0, 17, 256, 257] {
            let error = Checks::write(&vec![flow(false, 1); amount], &mut buf).unwrap_err();
            assert_eq!(error, EncodeError::CheckAmount { amount });
        }
        for amount in [0, 17, 255] {
            let error = Checks::check(&[&[amount], &[0; 1000][..]].concat()).unwrap_err();
            assert_eq!(error, Malformed::CheckAmount { amount });
        }
        let most = vec![flow(true, 1); CHECKS_MAX];
        let most = Checks::write(&most, &mut buf).unwrap();
        assert_eq!(Checks::check(most.as_bytes()), Ok(most));
    }

    #[test]
    fn more_than_a_frame_holds_is_not_written() {
        let (mut params, mut buf) = (BytesMut::new(), BytesMut::new());
        let text = |len| [Param::Str("s".repeat(len).into())];
        for (len, written) in [(984, Ok(1022)), (985, Err(EncodeError::TooLong { len: 1023 }))] {
            let params = Params::write(&text(len), &mut params).unwrap();
            let what = What { flow_id: 2, count: 1, params: Some(params) };
            let both = [flow(true, 1), Check { priority: true, what }];
            let checks = Checks::write(&both, &mut buf);
            assert_eq!(checks.map(|checks| checks.as_bytes().len()), written);
            // With the head of a request, the former is too long as well, which its encoder says.
        }
    }

    #[test]
    fn what_is_no_check_is_refused_by_name() {
        let reason = |bytes: &[u8]| Checks::check(bytes).unwrap_err();
        assert_eq!(reason(&[]), Malformed::Fields { need: 1, have: 0 });
        assert_eq!(reason(&[1]), Malformed::Fields { need: 1, have: 0 });
        assert_eq!(reason(&[1, 2]), Malformed::Flags { flags: 2 });
        assert_eq!(reason(&[1, 0, 0]), Malformed::Fields { need: 13, have: 1 });
        let kind = |kind| [&[1, 0, kind], &[0; 12][..]].concat();
        assert_eq!(reason(&kind(2)), Malformed::RuleKind { kind: 2 });
        assert_eq!(reason(&kind(1)), Malformed::Fields { need: 4, have: 0 });
        let values = |bytes: &[u8]| [&kind(1), bytes].concat();
        assert_eq!(reason(&values(&[0; 4])), Malformed::ParamAmount { amount: 0 });
        let short = Malformed::ParamShort { index: 0, need: 4, have: 0 };
        assert_eq!(reason(&values(&[0, 0, 0, 1, 0])), short);
        let second = [&[2, 1], &[0; 13][..], &[4]].concat();
        assert_eq!(reason(&second), Malformed::Flags { flags: 4 });
    }

    #[test]
    fn surplus_bytes_are_no_check() {
        let bytes = [&[1, 1, 0], &[0; 12][..], &[9, 9]].concat();
        let checks = Checks::check(&bytes).unwrap();
        assert_eq!((checks.len(), checks.is_empty()), (1, false));
        assert_eq!(checks.as_bytes(), &bytes[..15]);
    }
}
