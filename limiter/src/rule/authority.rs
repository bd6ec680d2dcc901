//! The rule of who may call.

/// A validated authority rule (Sentinel's `AuthorityRule.java`). A resource has at most one of its
/// name: of several the first counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityRule {
    /// What is protected; not blank.
    pub resource: Box<str>,
    /// Whether `resource` is a pattern.
    pub regex: bool,
    /// What being listed means.
    pub strategy: AuthorityStrategy,
    origins: Box<[Box<str>]>,
}

/// `strategy`: what being listed means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AuthorityStrategy {
    /// 0: only who is listed may call, and who gives no origin.
    #[default]
    White,
    /// 1: who is listed may not call.
    Black,
}

impl AuthorityRule {
    /// A rule for the origins of `limit_app`, which stand between commas. They are compared as they
    /// stand, blanks included.
    #[must_use]
    pub fn new(resource: &str, regex: bool, strategy: AuthorityStrategy, limit_app: &str) -> Self {
        let listed = limit_app.split(',').filter(|origin| !origin.is_empty());
        let mut origins: Box<[Box<str>]> = listed.map(Into::into).collect();
        origins.sort_unstable();
        Self { resource: resource.into(), regex, strategy, origins }
    }

    /// The listed origins, in the order of their bytes.
    #[must_use]
    pub fn origins(&self) -> &[Box<str>] {
        &self.origins
    }

    /// Whether `origin` is listed.
    #[must_use]
    pub fn lists(&self, origin: &str) -> bool {
        self.origins.binary_search_by(|listed| (**listed).cmp(origin)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_listed_is_found_whole_and_as_written() {
        let rule = AuthorityRule::new("r", false, AuthorityStrategy::White, "b,a, c,,b");
        assert_eq!(rule.origins().join("|"), " c|a|b|b");
        assert!(["a", "b", " c"].map(|origin| rule.lists(origin)).iter().all(|&l| l));
        assert!(["", "c", "a,b", "A", "ab"].map(|origin| rule.lists(origin)).iter().all(|&l| !l));
    }
}
