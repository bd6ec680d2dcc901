//! How a request ended, and whether the service failed.

/// How a request ended that was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this HTTP status.
    Http(u16),
    /// With this gRPC code.
    Grpc(u32),
}

/// gRPC codes that say that the service failed: unknown, deadline exceeded, internal, unavailable
/// and data loss. The other codes are about what the caller asked for.
const FAILED: [u32; 5] = [2, 4, 13, 14, 15];

impl Ended {
    /// Whether it counts as an error unless [`Protect::errors`](super::Protect::errors) says
    /// otherwise: HTTP from 500 on, and the gRPC codes 2, 4, 13, 14 and 15.
    #[must_use]
    pub fn is_error(self) -> bool {
        match self {
            Self::Http(status) => status >= 500,
            Self::Grpc(code) => FAILED.contains(&code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caller_did_wrong_is_no_error_of_the_service() {
        let http = [200, 404, 429, 499, 500, 503].map(|status| Ended::Http(status).is_error());
        assert_eq!(http, [false, false, false, false, true, true]);
        let errors: Vec<u32> = (0..=17).filter(|code| Ended::Grpc(*code).is_error()).collect();
        assert_eq!(errors, FAILED);
    }
}
