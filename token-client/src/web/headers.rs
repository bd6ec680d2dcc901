//! Header fields that tell a client what is left.

use std::{borrow::Cow, fmt::Write, time::Duration};

use limiter::local::Quota;

/// Which draft of the IETF's `draft-ietf-httpapi-ratelimit-headers` is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Draft {
    /// Draft 3: `RateLimit-Limit: 100, 100;w=60`, `RateLimit-Remaining`, `RateLimit-Reset`.
    Three,
    /// Drafts 4 to 6: `RateLimit-Limit: 100`, `RateLimit-Policy: 100;w=60`, `RateLimit-Remaining`,
    /// `RateLimit-Reset`.
    Six,
    /// Draft 7: `RateLimit: limit=100, remaining=9, reset=30`, `RateLimit-Policy: 100;w=60`.
    Seven,
    /// Drafts 8 to 11, which is the current one: `RateLimit-Policy: "name";q=100;w=60`,
    /// `RateLimit: "name";r=9;t=30`.
    Eleven,
}

/// The header fields of every answer that tell what is left: of the rule that leaves least. The
/// name of the policy is that of the resource.
///
/// Times are whole seconds, rounded up. A time of reset is the time until more is left than now, for
/// a request that was refused the same as its `Retry-After`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitHeaders {
    draft: Option<Draft>,
    with_x: bool,
}

/// The largest integer of a structured field.
const INTEGER_MAX: u64 = 999_999_999_999_999;

pub(crate) type Fields = Vec<(Cow<'static, str>, String)>;

impl Default for RateLimitHeaders {
    /// The current draft.
    fn default() -> Self {
        Self::of(Draft::Eleven)
    }
}

impl RateLimitHeaders {
    /// None at all.
    pub const NONE: Self = Self { draft: None, with_x: false };

    /// Those of a draft.
    #[must_use]
    pub const fn of(draft: Draft) -> Self {
        Self { draft: Some(draft), with_x: false }
    }

    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset` (seconds from now, as
    /// Envoy has it), too; for these alone `RateLimitHeaders::NONE.and_x()`.
    #[must_use]
    pub const fn and_x(mut self) -> Self {
        self.with_x = true;
        self
    }

    pub(super) fn is_none(self) -> bool {
        self == Self::NONE
    }

    /// Adds the fields for a quota of the policy `name`.
    pub(super) fn add(self, fields: &mut Fields, name: &str, quota: &Quota) {
        let shown = Shown::of(quota);
        let Shown { limit, remaining, reset, .. } = shown;
        let mut add = |name: &'static str, value: String| fields.push((name.into(), value));
        match self.draft {
            None => {}
            Some(Draft::Three) => {
                add("ratelimit-limit", format!("{limit}, {}", shown.policy()));
                add("ratelimit-remaining", remaining.to_string());
                add("ratelimit-reset", reset.to_string());
            }
            Some(Draft::Six) => {
                add("ratelimit-limit", limit.to_string());
                add("ratelimit-policy", shown.policy());
                add("ratelimit-remaining", remaining.to_string());
                add("ratelimit-reset", reset.to_string());
            }
            Some(Draft::Seven) => {
                let text = format!("limit={limit}, remaining={remaining}, reset={reset}");
                add("ratelimit", text);
                add("ratelimit-policy", shown.policy());
            }
            Some(Draft::Eleven) => {
                let mut policy = quoted(name);
                let mut left = String::with_capacity(policy.len() + 16);
                left.push_str(&policy);
                shown.end_policy(&mut policy);
                shown.end_left(&mut left);
                add("ratelimit-policy", policy);
                add("ratelimit", left);
            }
        }
        if self.with_x {
            add("x-ratelimit-limit", limit.to_string());
            add("x-ratelimit-remaining", remaining.to_string());
            add("x-ratelimit-reset", reset.to_string());
        }
    }
}

/// A quota in the numbers that are shown.
#[derive(Clone, Copy)]
struct Shown {
    limit: u64,
    /// `None` for calls in progress.
    window: Option<u64>,
    remaining: u64,
    more_in: Option<u64>,
    /// The same for those who must have a number: what nobody knows is a second.
    reset: u64,
}

impl Shown {
    fn of(quota: &Quota) -> Self {
        let more_in = quota.more_in.map(whole_seconds);
        let unknown = u64::from(quota.remaining < quota.limit);
        Self {
            limit: quota.limit.min(INTEGER_MAX),
            window: quota.window.map(whole_seconds),
            remaining: quota.remaining.min(INTEGER_MAX),
            more_in,
            reset: more_in.unwrap_or(unknown),
        }
    }

    fn policy(self) -> String {
        let window = self.window.map_or(String::new(), |window| format!(";w={window}"));
        format!("{}{window}", self.limit)
    }

    /// What stands behind the name of a policy.
    fn end_policy(self, text: &mut String) {
        put(text, ";q=", self.limit);
        match self.window {
            Some(window) => put(text, ";w=", window),
            None => text.push_str(";qu=\"concurrent-requests\""),
        }
    }

    /// The same for what is left of it.
    fn end_left(self, text: &mut String) {
        put(text, ";r=", self.remaining);
        if let Some(more_in) = self.more_in {
            put(text, ";t=", more_in);
        }
    }
}

/// Appends a number without `write!`, which takes longer: this is done for every answer.
fn put(text: &mut String, before: &str, number: u64) {
    text.push_str(before);
    let mut place = 1;
    while number / place >= 10 {
        place *= 10;
    }
    while place > 0 {
        let digit = u8::try_from(number / place % 10).unwrap_or(0);
        text.push(char::from(b'0' + digit));
        place /= 10;
    }
}

/// Whole seconds, rounded up.
pub(super) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs().saturating_add(u64::from(time.subsec_nanos() > 0)).min(INTEGER_MAX)
}

/// A string of a structured field (RFC 9651): what it can not hold is percent-encoded.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 24);
    quoted.push('"');
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        quoted.push_str(text);
    } else {
        quote(text, &mut quoted);
    }
    quoted.push('"');
    quoted
}

fn quote(text: &str, quoted: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', byte.into()]),
            b' '..=b'~' => quoted.push(byte.into()),
            _ => {
                let _ = write!(quoted, "%{byte:02X}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sfv::{BareItem, ListEntry, Parser};

    use super::*;

    const QUOTA: Quota = Quota {
        window: Some(Duration::from_secs(60)),
        limit: 100,
        remaining: 9,
        more_in: Some(Duration::from_millis(29_001)),
    };

    fn fields(headers: RateLimitHeaders, name: &str, quota: &Quota) -> Vec<String> {
        let mut fields = Fields::new();
        headers.add(&mut fields, name, quota);
        fields.iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn each_draft_has_its_form() {
        let of = |draft| fields(RateLimitHeaders::of(draft), "p", &QUOTA);
        let eleven = [r#"ratelimit-policy: "p";q=100;w=60"#, r#"ratelimit: "p";r=9;t=30"#];
        assert_eq!(of(Draft::Eleven), eleven);
        let seven = ["ratelimit: limit=100, remaining=9, reset=30", "ratelimit-policy: 100;w=60"];
        assert_eq!(of(Draft::Seven), seven);
        let [limit, remaining, reset] =
            ["ratelimit-limit: 100", "ratelimit-remaining: 9", "ratelimit-reset: 30"];
        assert_eq!(of(Draft::Six), [limit, "ratelimit-policy: 100;w=60", remaining, reset]);
        assert_eq!(of(Draft::Three), ["ratelimit-limit: 100, 100;w=60", remaining, reset]);
        let x = ["x-ratelimit-limit: 100", "x-ratelimit-remaining: 9", "x-ratelimit-reset: 30"];
        assert_eq!(fields(RateLimitHeaders::NONE.and_x(), "p", &QUOTA), x);
        assert!(fields(RateLimitHeaders::NONE, "p", &QUOTA).is_empty());
    }

    #[test]
    fn a_number_is_put_as_it_is_written() {
        for number in [0, 1, 9, 10, 101, 999, 1_000, INTEGER_MAX, u64::MAX] {
            let mut text = String::new();
            put(&mut text, "n=", number);
            assert_eq!(text, format!("n={number}"));
        }
    }

    #[test]
    fn calls_in_progress_have_no_window_and_nobody_knows_when_they_end() {
        let quota = Quota { window: None, limit: 3, remaining: 0, more_in: None };
        let eleven =
            [r#"ratelimit-policy: "p";q=3;qu="concurrent-requests""#, r#"ratelimit: "p";r=0"#];
        assert_eq!(fields(RateLimitHeaders::default(), "p", &quota), eleven);
        let three = fields(RateLimitHeaders::of(Draft::Three), "p", &quota);
        assert_eq!(
            three,
            ["ratelimit-limit: 3, 3", "ratelimit-remaining: 0", "ratelimit-reset: 1"]
        );
    }

    /// Whatever the name of the resource and the numbers, another's parser reads what was meant.
    #[test]
    fn a_parser_of_structured_fields_reads_every_name_and_number() {
        let largest = Quota {
            window: Some(Duration::MAX),
            limit: u64::MAX,
            remaining: u64::MAX,
            more_in: Some(Duration::MAX),
        };
        for name in ["", r#"say "a\b""#, "GET:/größe/{id}\n", "/package.Service/Method", "tab\t"]
        {
            for quota in [QUOTA, largest] {
                let mut fields = Fields::new();
                RateLimitHeaders::default().add(&mut fields, name, &quota);
                for (_, value) in &fields {
                    let list = Parser::new(value).parse::<sfv::List>().unwrap();
                    let [ListEntry::Item(item)] = &list[..] else { panic!("{value}") };
                    let BareItem::String(read) = &item.bare_item else { panic!("{value}") };
                    assert!(read.as_str().is_ascii(), "{value}");
                    if name.is_ascii() && !name.contains(['\n', '\t']) {
                        assert_eq!(read.as_str(), name);
                    }
                    let known = ["q", "w", "r", "t"];
                    let numbers = item.params.iter().all(|(key, value)| {
                        known.contains(&key.as_str()) && matches!(value, BareItem::Integer(_))
                    });
                    assert!(numbers, "{value}");
                }
            }
        }
    }
}
