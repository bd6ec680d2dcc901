//! What a token server says about a request, in one byte.

/// Outcome of a request: Sentinel's `TokenResultStatus`, one signed byte on the wire.
///
/// Every byte is a status: what Sentinel has not assigned is [`Unknown`](Self::Unknown), which
/// `From<i8>` gives for no assigned value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The request made no sense: an id or a count below 1, no parameters, or bytes that are no
    /// request.
    BadRequest,
    /// The namespace asks more often than its server lets it.
    TooManyRequest,
    /// The server could not decide. In an answer to a ping: the namespace is refused.
    Fail,
    /// The tokens are granted.
    Ok,
    /// The tokens are refused.
    Blocked,
    /// The tokens are granted from a later bucket: go on after the wait of the answer.
    ShouldWait,
    /// The server has no rule of that id.
    NoRuleExists,
    /// Assigned by Sentinel, sent by nobody.
    NoRefRuleExists,
    /// Assigned by Sentinel, sent by nobody.
    NotAvailable,
    /// The concurrency token has been given back.
    ReleaseOk,
    /// The concurrency token had been given back, or had ended, before.
    AlreadyRelease,
    /// A value that Sentinel has not assigned.
    Unknown(i8),
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
            Status::BadRequest => -4,
            Status::TooManyRequest => -2,
            Status::Fail => -1,
            Status::Ok => 0,
            Status::Blocked => 1,
            Status::ShouldWait => 2,
            Status::NoRuleExists => 3,
            Status::NoRefRuleExists => 4,
            Status::NotAvailable => 5,
            Status::ReleaseOk => 6,
            Status::AlreadyRelease => 7,
            Status::Unknown(code) => code,
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
