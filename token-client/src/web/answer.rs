//! What a client gets whose request is refused.

use std::{borrow::Cow, time::Duration};

use limiter::local::{Block, BlockKind, Outlook, Retry};

use super::headers::{Fields, whole_seconds};

/// A refused request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Refusal<'a> {
    /// The resource that it asked for.
    pub resource: &'a str,
    /// What refused it.
    pub block: &'a Block,
    /// When to come back, and what is left.
    pub outlook: &'a Outlook,
    /// Whether the client speaks gRPC.
    pub is_grpc: bool,
}

/// The answer to a refused request, in no framework's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status of HTTP; one that there is not becomes 500. An answer in gRPC has 200.
    pub status: u16,
    /// The code of gRPC.
    pub grpc_code: u32,
    /// The body, or the message of gRPC.
    pub message: Cow<'static, str>,
    /// The type of the body; an answer in gRPC has its own.
    pub content_type: Cow<'static, str>,
    /// Header fields. One that HTTP does not allow is left out.
    pub fields: Fields,
}

/// What a client waits that asks when nobody knows.
const UNKNOWN: Duration = Duration::from_secs(1);

const TOO_MANY: (u16, u32, &str) = (429, 8, "too many requests");
const UNAVAILABLE: (u16, u32, &str) = (503, 14, "temporarily unavailable");
const FORBIDDEN: (u16, u32, &str) = (403, 7, "forbidden");

impl Answer {
    /// The usual one. It does not tell what refused, which is not the client's business.
    pub(super) fn to(refusal: &Refusal<'_>) -> Self {
        let (status, grpc_code, message) = match refusal.block.kind() {
            BlockKind::Degrade | BlockKind::System(_) => UNAVAILABLE,
            BlockKind::Authority => FORBIDDEN,
            _ => TOO_MANY,
        };
        let mut fields = Fields::new();
        let wait = match refusal.outlook.retry {
            Retry::Never => None,
            Retry::Unknown => Some(UNKNOWN),
            Retry::After(wait) => Some(wait),
        };
        if let Some(wait) = wait {
            // Zero for who was refused a moment ago would only bring it back at once.
            fields.push(("retry-after".into(), whole_seconds(wait).max(1).to_string()));
        }
        if refusal.is_grpc {
            // Clients that retry by themselves follow this, in milliseconds; below zero: do not.
            let pushback = wait.map_or("-1".into(), |wait| {
                let wait = if wait.is_zero() { UNKNOWN } else { wait };
                wait.as_nanos().div_ceil(1_000_000).to_string()
            });
            fields.push(("grpc-retry-pushback-ms".into(), pushback));
        }
        let content_type = "text/plain; charset=utf-8".into();
        Self { status, grpc_code, message: message.into(), content_type, fields }
    }

    /// Status, header fields and body. In gRPC all of it is in the fields, which are trailers then.
    pub(crate) fn into_http(self, is_grpc: bool) -> (u16, Fields, Cow<'static, str>) {
        let Self { status, grpc_code, message, content_type, mut fields } = self;
        if is_grpc {
            fields.push(("content-type".into(), "application/grpc".into()));
            fields.push(("grpc-status".into(), grpc_code.to_string()));
            fields.push(("grpc-message".into(), percent_encoded(&message)));
            (200, fields, "".into())
        } else {
            fields.push(("content-type".into(), content_type.into_owned()));
            (status, fields, message)
        }
    }
}

/// The encoding of `grpc-message`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use limiter::{
        local::{Call, LocalEngine, LocalSettings, Step},
        rule::{Contents, parse},
    };

    use super::*;

    fn block() -> Block {
        let engine = std::sync::Arc::new(LocalEngine::new(LocalSettings::default()));
        let rules = r#"[{"resource": "r", "count": 0}]"#;
        let rules = parse(rules, "test", "", Contents::Flow, false).unwrap().rules;
        engine.load_flow(rules.flow);
        match engine.enter(limiter::Tick::from_ms(1), Call::new("r")) {
            Step::Blocked(block) => block,
            other => panic!("{other:?}"),
        }
    }

    fn fields(retry: Retry, is_grpc: bool) -> Vec<String> {
        let outlook = Outlook { retry, quota: None };
        let refusal = Refusal { resource: "r", block: &block(), outlook: &outlook, is_grpc };
        let answer = Answer::to(&refusal);
        assert_eq!((answer.status, answer.grpc_code), (429, 8));
        answer.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect()
    }

    #[test]
    fn the_time_to_come_back_is_in_whole_seconds_and_never_too_early() {
        let after = |ms| fields(Retry::After(Duration::from_millis(ms)), false);
        assert_eq!(after(1), ["retry-after: 1"]);
        assert_eq!(after(1_000), ["retry-after: 1"]);
        assert_eq!(after(1_001), ["retry-after: 2"]);
        assert_eq!((after(0), fields(Retry::Unknown, false)), (after(1), after(1)));
        assert!(fields(Retry::Never, false).is_empty());
    }

    #[test]
    fn grpc_clients_are_told_in_milliseconds_too() {
        let after = Retry::After(Duration::from_micros(1_500_001));
        assert_eq!(fields(after, true), ["retry-after: 2", "grpc-retry-pushback-ms: 1501"]);
        assert_eq!(fields(Retry::Never, true), ["grpc-retry-pushback-ms: -1"]);
        assert_eq!(percent_encoded("100 % größer"), "100 %25 gr%C3%B6%C3%9Fer");
    }
}
