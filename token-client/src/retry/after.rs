//! When a server says to come back.

use std::time::{Duration, SystemTime};

use http::{
    HeaderMap,
    header::{DATE, HeaderName, RETRY_AFTER},
};

/// How long the answer asks to wait: `Retry-After` in seconds, or as an HTTP date in any of its three
/// forms. `None` if there is none, or none that can be read. A date that is past is no wait.
///
/// A date is compared with the `Date` of the answer, since the clock of the server made both. `now`
/// stands in if it has none.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let asked = text(headers, RETRY_AFTER)?;
    if asked.bytes().all(|byte| byte.is_ascii_digit()) {
        // More seconds than a u64 holds are more than anybody waits.
        let seconds = asked.bytes().try_fold(0_u64, |sum, digit| {
            sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        });
        return (!asked.is_empty()).then(|| Duration::from_secs(seconds.unwrap_or(u64::MAX)));
    }
    let date = |text| httpdate::parse_http_date(text).ok();
    let now = text(headers, DATE).and_then(date).unwrap_or(now);
    Some(date(asked)?.duration_since(now).unwrap_or_default())
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use http::HeaderValue;

    use super::*;

    fn wait(asked: &str, date: Option<&str>, now_s: u64) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(asked).unwrap());
        if let Some(date) = date {
            headers.insert(DATE, HeaderValue::from_str(date).unwrap());
        }
        retry_after(&headers, UNIX_EPOCH + Duration::from_secs(now_s))
    }

    fn secs(s: u64) -> Option<Duration> {
        Some(Duration::from_secs(s))
    }

    /// 1994-11-06T08:49:37Z.
    const THEN: u64 = 784_111_777;

    #[test]
    fn seconds_are_seconds() {
        assert_eq!(wait("0", None, 0), secs(0));
        assert_eq!(wait(" 120 ", None, 0), secs(120));
        assert_eq!(wait("99999999999999999999", None, 0), secs(u64::MAX));
    }

    #[test]
    fn all_three_forms_of_a_date_are_read() {
        for date in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(wait(date, None, THEN - 7), secs(7), "{date}");
        }
    }

    #[test]
    fn a_date_is_compared_with_the_clock_of_the_server() {
        let later = "Sun, 06 Nov 1994 08:49:47 GMT";
        assert_eq!(wait(later, Some("Sun, 06 Nov 1994 08:49:37 GMT"), 5_000_000_000), secs(10));
        assert_eq!(wait(later, Some("yesterday"), THEN), secs(10), "an unreadable one is none");
    }

    #[test]
    fn a_date_that_is_past_is_no_wait() {
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT", None, THEN + 1), secs(0));
    }

    #[test]
    fn what_is_neither_says_nothing() {
        for asked in ["", "-1", "1.5", "soon", "10 s", "Sun, 06 Foo 1994 08:49:37 GMT"] {
            assert_eq!(wait(asked, None, 0), None, "{asked:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), UNIX_EPOCH), None);
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(retry_after(&headers, UNIX_EPOCH), None);
    }
}
