//! What hot-parameter rules leave a call.

use std::time::Duration;

use super::{
    HotRules,
    keyed::{Decide, Keyed},
    rule::{Check, HotRule},
    threads::Threads,
};
use crate::{
    Tick,
    cluster::key::KeyRef,
    local::{Arg, Outlook, Quota, Retry, arg::values_at},
};

pub(super) const NOW: Retry = Retry::After(Duration::ZERO);

impl HotRules {
    /// What the rules say together to a call of `n` tokens for each of its values. Of those that
    /// ask a server none is looked at.
    pub(crate) fn outlook(&mut self, now: Tick, args: &[Arg<'_>], n: u32) -> Outlook {
        let now = self.see(now);
        let mut outlook = Outlook::FREE;
        for rule in self.rules.iter().filter(|rule| rule.rule.cluster.is_none()) {
            for value in values_at(args, rule.rule.param_idx).unwrap_or_default() {
                outlook = outlook.and(rule.outlook(&self.threads, now, KeyRef::of(value), n));
            }
        }
        outlook
    }
}

impl HotRule {
    fn outlook(&self, threads: &[Threads], now: Tick, key: KeyRef<'_>, n: u32) -> Outlook {
        match &self.check {
            Check::Bucket(values) => self.of_window(&**values, now, key, n),
            Check::Pace(values) => self.of_window(&**values, now, key, n),
            Check::Threads(limits) => {
                let calls = threads.iter().find(|c| c.param_idx == self.rule.param_idx);
                let (limit, open) = (limits.of(key), calls.map_or(0, |calls| calls.open_of(key)));
                let remaining = limit.saturating_sub(open);
                let retry = match (remaining, limit) {
                    (1.., _) => NOW,
                    (0, 1..) => Retry::Unknown,
                    (0, 0) => Retry::Never,
                };
                Outlook::of(retry, Quota { window: None, limit, remaining, more_in: None })
            }
            // A rule of others than this process, or none.
            Check::Client(_) | Check::Nothing => Outlook::FREE,
        }
    }

    fn of_window<D: Decide>(
        &self,
        values: &Keyed<D>,
        now: Tick,
        key: KeyRef<'_>,
        n: u32,
    ) -> Outlook {
        let (numbers, counter) = values.look(key);
        let retry = if numbers.may_pass(n) { numbers.retry(counter, now, n) } else { None };
        let retry = retry.map_or(Retry::Never, Retry::After);
        let (limit, remaining) = numbers.room(counter, now);
        let more = u32::try_from(remaining.saturating_add(1)).unwrap_or(u32::MAX);
        let more_in = if numbers.may_pass(more) { numbers.retry(counter, now, more) } else { None };
        let more_in = more_in.filter(|wait| !wait.is_zero());
        let window = Some(Duration::from_secs(self.rule.duration_sec));
        Outlook::of(retry, Quota { window, limit, remaining, more_in })
    }
}
