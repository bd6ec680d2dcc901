//! What a token server says about a request, in one byte.

/// Outcome of a request: Sentinel's `TokenResultStatus`, one signed byte on the wire.
///
/// Every byte is a status: what Sentinel has not assigned is [`Unknown`](Self::Unknown), which
/// `From<i8>` gives for no assigned value.
// The discriminants are the bytes on the wire, which makes both conversions a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i8)]
pub enum Status {
    /// The request made no sense: an id or a count below 1, no parameters, or bytes that are no
    /// request.
    BadRequest = -4,
    /// The namespace asks more often than its server lets it.
    TooManyRequest = -2,
    /// The server could not decide. In an answer to a ping: the namespace is refused.
    Fail = -1,
    /// The tokens are granted.
    Ok = 0,
    /// The tokens are refused.
    Blocked = 1,
    /// The tokens are granted from a later bucket: go on after the wait of the answer.
    ShouldWait = 2,
    /// The server has no rule of that id.
    NoRuleExists = 3,
    /// Assigned by Sentinel, sent by nobody.
    NoRefRuleExists = 4,
    /// Assigned by Sentinel, sent by nobody.
    NotAvailable = 5,
    /// The concurrency token has been given back.
    ReleaseOk = 6,
    /// The concurrency token had been given back, or had ended, before.
    AlreadyRelease = 7,
    /// A value that Sentinel has not assigned.
    Unknown(i8) = 8,
}

impl From<i8> for Status {
    #[inline]
    fn from(code: i8) -> Self {
        match code {
            -4 => Self::BadRequest,
            -2 => Self::TooManyRequest,
            -1 => Self::Fail,
            0 => Self::Ok,
            1 => Self::Blocked,
            2 => Self::ShouldWait,
            3 => Self::NoRuleExists,
            4 => Self::NoRefRuleExists,
            5 => Self::NotAvailable,
            6 => Self::ReleaseOk,
            7 => Self::AlreadyRelease,
            other => Self::Unknown(other),
        }
    }
}

impl From<Status> for i8 {
    #[inline]
    fn from(status: Status) -> Self {
        match status {
            Status::Unknown(code) => code,
            assigned => assigned.discriminant(),
        }
    }
}

impl Status {
    /// The byte of an assigned value. Apart from the unknown ones, so that the compiler sees the
    /// copy that it is, and no jump by value stands in the way of each answer.
    #[inline]
    const fn discriminant(self) -> i8 {
        match self {
            Self::BadRequest => -4,
            Self::TooManyRequest => -2,
            Self::Fail => -1,
            Self::Ok => 0,
            Self::Blocked => 1,
            Self::ShouldWait => 2,
            Self::NoRuleExists => 3,
            Self::NoRefRuleExists => 4,
            Self::NotAvailable => 5,
            Self::ReleaseOk => 6,
            Self::AlreadyRelease => 7,
            Self::Unknown(_) => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_a_status_and_comes_back() {
        for code in i8::MIN..=i8::MAX {
            assert_eq!(i8::from(Status::from(code)), code);
        }
    }

    #[test]
    fn only_unassigned_bytes_are_unknown() {
        let unknown: Vec<i8> =
            (-5..=8).filter(|&code| matches!(Status::from(code), Status::Unknown(_))).collect();
        assert_eq!(unknown, [-5, -3, 8]);
    }
}
