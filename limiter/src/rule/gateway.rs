//! The rule of an API gateway.

use super::{ControlBehavior, Grade, Pattern};

/// A validated gateway rule (Sentinel's `GatewayFlowRule.java`, with its defaults). It is enforced
/// as a hot-parameter rule whose argument is a part of the request.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayFlowRule {
    /// The id of a route, or the name of an API group; not blank.
    pub resource: Box<str>,
    /// Which of the two it is.
    pub mode: ResourceMode,
    /// What `count` counts.
    pub grade: Grade,
    /// The threshold; at least 0.
    pub count: f64,
    /// The window in seconds; at least 1.
    pub interval_sec: u64,
    /// What happens to a call over the threshold: refused or paced.
    pub behavior: ControlBehavior,
    /// Tokens that may be saved up beyond the count.
    pub burst: u32,
    /// Longest wait of a paced call in milliseconds.
    pub max_queueing_timeout_ms: u32,
    /// The part of the request whose values count each by itself; `None` counts all calls together.
    pub param_item: Option<GatewayParamItem>,
}

/// `resourceMode`: what a gateway rule's resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ResourceMode {
    /// 0: the id of a route.
    #[default]
    Route,
    /// 1: the name of a group of APIs, an [`ApiDefinition`](super::ApiDefinition).
    ApiGroup,
}

/// `paramItem`: which part of a request, and which of its values.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayParamItem {
    /// The part.
    pub source: GatewayParam,
    /// The values that the rule is for; `None`: all. Other values pass.
    pub values: Option<ValuePattern>,
}

/// `parseStrategy` with its `fieldName`: a part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayParam {
    /// 0: the address of the client.
    ClientIp,
    /// 1: the host that the client asked for.
    Host,
    /// 2: a header.
    Header(Box<str>),
    /// 3: a parameter of the URL.
    UrlParam(Box<str>),
    /// 4: a cookie.
    Cookie(Box<str>),
}

/// `matchStrategy` with its `pattern`: some values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValuePattern {
    /// 0: this one.
    Exact(Box<str>),
    /// 1: those that begin with it. Sentinel takes every value.
    Prefix(Box<str>),
    /// 2: those that match as a whole.
    Regex(Pattern),
    /// 3: those that contain it.
    Contains(Box<str>),
}

impl ValuePattern {
    /// Whether `value` is one of them.
    #[must_use]
    pub fn matches(&self, value: &str) -> bool {
        match self {
            Self::Exact(text) => value == &**text,
            Self::Prefix(text) => value.starts_with(&**text),
            Self::Regex(pattern) => pattern.is_match(value),
            Self::Contains(text) => value.contains(&**text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The recorded answers of the real classes, but for the prefix, which they do not look at.
    #[test]
    fn each_strategy_takes_its_values() {
        let values = ["vip", "v.p", "v.px", "xv.p", ""];
        for (pattern, taken) in [
            (ValuePattern::Exact("v.p".into()), [false, true, false, false, false]),
            (ValuePattern::Prefix("v.p".into()), [false, true, true, false, false]),
            (ValuePattern::Regex(Pattern::new("v.p").unwrap()), [true, true, false, false, false]),
            (ValuePattern::Contains("v.p".into()), [false, true, true, true, false]),
        ] {
            assert_eq!(values.map(|value| pattern.matches(value)), taken, "{pattern:?}");
        }
    }
}
