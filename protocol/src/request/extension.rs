//! Requests with types from 17 up.

use super::{Request, fields};
use crate::{Checks, Malformed, What, kind, what::PRIORITY};

/// The `max_wait_ms` of a client that sits out any wait.
pub const ANY_WAIT: u32 = u32::MAX;

/// Flag: nothing is to be taken.
pub(super) const PEEK: u8 = 2;
/// Bytes of flags and longest wait.
pub(super) const ASK_FIELDS_LEN: usize = 5;
/// Bytes of op and age.
pub(super) const ADJUST_FIELDS_LEN: usize = 5;
/// Bytes of flow id, want, returned lease and used.
pub(super) const LEASE_FIELDS_LEN: usize = 24;

/// How a count is to be corrected.
// The discriminants are the bytes on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Adjustment {
    /// Tokens that were taken and not used come back.
    GiveBack = 0,
    /// Tokens that were used without having been asked for are counted, over the limit too.
    Charge = 1,
    /// What was used is forgotten. The count does not matter.
    Reset = 2,
}

impl TryFrom<u8> for Adjustment {
    type Error = Malformed;

    fn try_from(op: u8) -> Result<Self, Malformed> {
        Ok(match op {
            0 => Self::GiveBack,
            1 => Self::Charge,
            2 => Self::Reset,
            op => return Err(Malformed::Adjustment { op }),
        })
    }
}

impl<'a> Request<'a> {
    pub(super) fn decode_extension(xid: i32, kind: i8, data: &'a [u8]) -> Result<Self, Malformed> {
        Ok(match kind {
            kind::RENEW => Self::Renew { xid, token_id: i64::from_be_bytes(*fields(data)?.0) },
            kind::ASK => {
                let (&[flags, a, b, c, d], behind) = fields::<ASK_FIELDS_LEN>(data)?;
                if flags & !(PRIORITY | PEEK) != 0 {
                    return Err(Malformed::Flags { flags });
                }
                Self::Ask {
                    xid,
                    priority: flags & PRIORITY != 0,
                    peek: flags & PEEK != 0,
                    max_wait_ms: u32::from_be_bytes([a, b, c, d]),
                    what: What::cut(behind)?.0,
                }
            }
            kind::ADJUST => {
                let (&[op, a, b, c, d], behind) = fields::<ADJUST_FIELDS_LEN>(data)?;
                let op = Adjustment::try_from(op)?;
                let age_ms = u32::from_be_bytes([a, b, c, d]);
                Self::Adjust { xid, op, age_ms, what: What::cut(behind)?.0 }
            }
            kind::ACQUIRE_ALL => Self::AcquireAll { xid, checks: Checks::check(data)? },
            kind::LEASE => {
                fields::<LEASE_FIELDS_LEN>(data)?;
                let (&flow_id, data) = fields(data)?;
                let (&want, data) = fields(data)?;
                let (&returned, data) = fields(data)?;
                let (&used, _surplus) = fields(data)?;
                Self::Lease {
                    xid,
                    flow_id: i64::from_be_bytes(flow_id),
                    want: u32::from_be_bytes(want),
                    returned: i64::from_be_bytes(returned),
                    used: u32::from_be_bytes(used),
                }
            }
            kind::RULES => Self::Rules { xid, digest: u64::from_be_bytes(*fields(data)?.0) },
            _ => return Err(Malformed::Type),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Params;

    fn reason(kind: i8, data: &[u8]) -> Malformed {
        let body = [&[0, 0, 0, 1, kind.cast_unsigned()], data].concat();
        Request::decode(&body).unwrap_err().reason
    }

    #[test]
    fn what_is_no_extension_request_is_refused_by_name() {
        let fields = |need, have| Malformed::Fields { need, have };
        assert_eq!(reason(kind::RENEW, &[0; 7]), fields(8, 7));
        assert_eq!(reason(kind::ASK, &[4, 0, 0, 0]), fields(5, 4));
        assert_eq!(reason(kind::ASK, &[4, 0, 0, 0, 0]), Malformed::Flags { flags: 4 });
        assert_eq!(reason(kind::ASK, &[3, 0, 0, 0, 0]), fields(13, 0));
        assert_eq!(reason(kind::ASK, &[9; 18]), Malformed::Flags { flags: 9 });
        assert_eq!(reason(kind::ADJUST, &[0; 17]), fields(13, 12));
        assert_eq!(reason(kind::ADJUST, &[3; 18]), Malformed::Adjustment { op: 3 });
        let kind_3 = [&[2, 0, 0, 0, 0, 3][..], &[0; 12]].concat();
        assert_eq!(reason(kind::ADJUST, &kind_3), Malformed::RuleKind { kind: 3 });
        assert_eq!(reason(kind::ACQUIRE_ALL, &[0]), Malformed::CheckAmount { amount: 0 });
        assert_eq!(reason(kind::LEASE, &[0; 23]), fields(24, 23));
        assert_eq!(reason(kind::RULES, &[0; 7]), fields(8, 7));
        assert_eq!(reason(23, &[0; 30]), Malformed::Type);
    }

    #[test]
    fn flags_and_times_are_read_as_they_come() {
        let zeros = What { flow_id: 0, count: 0, params: None };
        for (flags, priority, peek) in [(0, false, false), (1, true, false), (2, false, true)] {
            let body = [&[0, 0, 0, 1, 18, flags, 255, 255, 255, 255][..], &[0; 13]].concat();
            let ask = Request::Ask { xid: 1, priority, peek, max_wait_ms: ANY_WAIT, what: zeros };
            assert_eq!(Request::decode(&body), Ok(ask));
        }
    }

    #[test]
    fn values_are_borrowed_from_the_body() {
        let what = [&[1][..], &[0; 12], &[0, 0, 0, 1, 2, 7]].concat();
        let body = [&[0, 0, 0, 1, 19, 1, 0, 0, 0, 9][..], &what].concat();
        let Ok(Request::Adjust { op, age_ms, what, .. }) = Request::decode(&body) else { panic!() };
        assert_eq!((op, age_ms), (Adjustment::Charge, 9));
        let bytes = what.params.as_ref().map(Params::as_bytes).unwrap();
        assert!(body.as_ptr_range().contains(&bytes.as_ptr()));
    }
}
