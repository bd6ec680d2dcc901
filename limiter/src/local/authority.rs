//! Who may call (`AuthorityRuleChecker.passCheck`).

use crate::rule::{AuthorityRule, AuthorityStrategy};

/// Whether a call from `origin` may go on. One that gives no origin always may, under a list of
/// those who may call as well.
pub(crate) fn allows(rule: &AuthorityRule, origin: &str) -> bool {
    origin.is_empty() || rule.lists(origin) == (rule.strategy == AuthorityStrategy::White)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(strategy: AuthorityStrategy, listed: &str, origin: &str) -> bool {
        allows(&AuthorityRule::new("r", false, strategy, listed), origin)
    }

    /// Case I01 of the recorded scenarios.
    #[test]
    fn only_the_listed_and_the_nameless_pass_a_white_list() {
        let allowed = |origin| allowed(AuthorityStrategy::White, "app1,app2", origin);
        assert_eq!(["app1", "app3", "", "app"].map(allowed), [true, false, true, false]);
    }

    #[test]
    fn all_but_the_listed_pass_a_black_list() {
        let allowed = |origin| allowed(AuthorityStrategy::Black, "app1,app2", origin);
        assert_eq!(["app1", "app3", "", "app"].map(allowed), [false, true, true, true]);
    }

    /// Case I03 of the recorded scenarios.
    #[test]
    fn blanks_are_a_part_of_the_name() {
        let allowed = |origin| allowed(AuthorityStrategy::White, "app1, app2", origin);
        assert_eq!(["app2", "app1", " app2"].map(allowed), [false, true, true]);
    }
}
