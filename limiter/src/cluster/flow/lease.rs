//! Tokens in advance, for a client that asks often.

use std::time::Duration;

use super::Flow;
use crate::{
    Tick,
    cluster::{
        counter::{Lent, Tally},
        ledger::LeaseId,
        limit::whole,
    },
    rule::{Lease, Mode},
    window::Ring,
};

/// Tokens that a client may spend by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased {
    /// `None` when there was nothing to be had, or a rule that counts in another way is in force.
    pub id: Option<LeaseId>,
    /// Tokens to spend.
    pub granted: u32,
    /// How long they may be spent, from the moment at which the request was *sent*: the server
    /// counts from when it came, so it never ends before the client's does.
    pub ttl: Duration,
}

/// The rule grants no leases, or is switched to a mode other than enforce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rule grants no leases")]
pub struct LeaseRefused;

impl Flow {
    /// Takes a lease back of which so many tokens were spent, and grants one of up to `want`
    /// tokens: at most what the rule says (or, under `overloadPolicy: share`, a client's share) and
    /// half of what is left, rounded up, so that one client does not hold everything. Up to its
    /// share it may have all that is left: a single call may need it, and nothing else passes that.
    ///
    /// # Errors
    ///
    /// [`LeaseRefused`], after the old lease was taken back.
    pub(crate) fn lease(
        &self,
        now: Tick,
        want: u32,
        returned: Option<(LeaseId, u32)>,
    ) -> Result<Leased, LeaseRefused> {
        let used = &mut *self.lock();
        used.passed.advance(&mut used.others, now);
        let none = Leased { id: None, granted: 0, ttl: Duration::ZERO };
        let lease = self.lends();
        if let (Tally::Ring(_), None) | (Tally::Tuned(_), _) = (&used.tally, lease) {
            // There is none.
            return if want == 0 { Ok(none) } else { Err(LeaseRefused) };
        }
        used.window(self.sliding.shape, now);
        let Lent { ring, ledger } = used.lent();
        if let Some((id, spent)) = returned
            && let Some(tokens) = ledger.end(id)
        {
            // As if it had been spent just now, which is the latest that it can have been. A lease
            // that has ended was charged whole.
            let spent = u64::from(spent.min(tokens));
            ring.charge(spent);
            used.passed.add_tokens(spent);
        }
        if want == 0 {
            return Ok(none);
        }
        let lease = lease.filter(|_| self.mode() == Mode::Enforce).ok_or(LeaseRefused)?;
        let Lent { ring, ledger } = used.lent();
        let rest = self.rest(ring, ledger.tokens());
        let share = self.rule.share(self.namespace.connected()).map_or(0, |share| share.tokens);
        let granted = want.min(lease.max_tokens).min(rest.min(rest.div_ceil(2).max(share)));
        // That is no request refused: whoever gets no lease asks for each call, and those count.
        if granted == 0 || ledger.is_full() {
            return Ok(none);
        }
        let ttl = Duration::from_millis(lease.ttl_ms.into());
        let seen = now.max(ring.start(self.sliding.shape));
        let id = ledger.grant(seen, now.plus(ttl), granted);
        Ok(Leased { id: Some(id), granted, ttl })
    }

    /// What a lease of the rule may be: as it says by itself, or a client's share.
    pub(super) fn lends(&self) -> Option<Lease> {
        let own = self.rule.cluster.as_ref().and_then(|config| config.lease());
        own.or_else(|| {
            let share = self.rule.share(self.namespace.connected())?;
            Some(Lease { max_tokens: share.tokens, ttl_ms: share.ttl_ms })
        })
    }

    /// Whether the namespace's guard counts leases of the rule apart: clients that it has refused go on
    /// with what they are lent, and one such request stands for many.
    pub(crate) fn lends_in_overload(&self) -> bool {
        self.rule.share(1).is_some()
    }

    /// What is left beside `leased` tokens: in this window and in the next one, since a lease may be
    /// spent there.
    fn rest(&self, ring: &Ring, leased: u64) -> u32 {
        let threshold = self.sliding.limit.threshold(&self.namespace);
        let room = self.sliding.room(ring, leased, threshold, 0);
        let room = room.min(self.sliding.room_next(ring, leased, threshold, 0)).max(0.0);
        u32::try_from(whole(room)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Ask, ClusterEngine, Decision, RuleSet, Settings, What,
        rule::{Contents, merge, parse},
    };

    fn with(settings: Settings, config: &str) -> ClusterEngine {
        let text = format!(
            r#"[{{"resource":"r","count":10,"clusterMode":true,"clusterConfig":{{
                "flowId":1,"thresholdType":1,{config}}}}}]"#
        );
        let engine = ClusterEngine::new(settings);
        let parsed = parse(&text, "test", "ns", Contents::Mixed, true).unwrap();
        engine.replace(merge(vec![parsed]).unwrap()).unwrap();
        engine
    }

    fn engine() -> ClusterEngine {
        let settings = Settings { max_allowed_qps: None, ..Settings::default() };
        with(settings, r#""lease":{"maxTokens":6,"ttlMs":300}"#)
    }

    fn lease(
        engine: &ClusterEngine,
        ms: u64,
        want: u32,
        returned: Option<(LeaseId, u32)>,
    ) -> Leased {
        engine.rules().lease(Tick::from_ms(ms), 1, want, returned).unwrap().unwrap()
    }

    fn take(engine: &ClusterEngine, ms: u64, count: i32) -> Decision {
        engine.rules().acquire_flow(Tick::from_ms(ms), 1, count, false).unwrap()
    }

    /// Whether requests are decided in the usual way, without a look at leases.
    fn is_plain(engine: &ClusterEngine) -> bool {
        matches!(engine.rules().flow(1).unwrap().lock().tally, Tally::Ring(_))
    }

    #[test]
    fn a_lease_that_is_not_to_be_had_is_no_blocked_request() {
        let engine = engine();
        assert_eq!(take(&engine, 5_000, 10), Decision::Pass { remaining: 0 });
        assert_eq!(lease(&engine, 5_000, 3, None).id, None);
        let totals = |engine: &ClusterEngine| engine.rules().flow(1).unwrap().totals();
        assert_eq!((totals(&engine).block_requests, totals(&engine).block_tokens), (0, 0));
        assert_eq!(take(&engine, 5_000, 3), Decision::Block);
        assert_eq!((totals(&engine).block_requests, totals(&engine).block_tokens), (1, 3));
    }

    #[test]
    fn a_flow_of_which_nothing_is_on_lease_any_more_decides_as_one_that_never_lent() {
        let engine = engine();
        take(&engine, 5_000, 1);
        assert!(is_plain(&engine));
        assert_eq!(lease(&engine, 5_010, 4, None).granted, 4);
        take(&engine, 5_250, 1);
        assert!(!is_plain(&engine), "it is out");
        assert_eq!(take(&engine, 5_310, 1), Decision::Pass { remaining: 3 });
        assert!(is_plain(&engine));
        assert_eq!(take(&engine, 6_299, 9), Decision::Block);
        assert_eq!(take(&engine, 6_299, 5), Decision::Pass { remaining: 0 }, "it counts on");
        assert_eq!(take(&engine, 6_300, 5), Decision::Pass { remaining: 0 });
        assert_eq!(lease(&engine, 7_400, 4, None).granted, 4, "and it lends again");
        assert!(!is_plain(&engine));
    }

    const SHARE: &str = r#""overloadPolicy":"share""#;

    #[test]
    fn a_share_is_lent_at_most_and_for_a_tenth_of_the_window() {
        let engine = with(Settings::default(), SHARE);
        let clients: Vec<_> = (0..4).map(|_| engine.join("ns").unwrap()).collect();
        let ttl = Duration::from_millis(100);
        let leased = lease(&engine, 5_000, 9, None);
        assert_eq!((leased.granted, leased.ttl), (3, ttl), "a fourth of 10, rounded up");
        drop(clients);
        assert_eq!(lease(&engine, 5_000, 9, None).granted, 7, "all that is left");
        assert_eq!(take(&engine, 6_099, 1), Decision::Block, "they count until a window later");
        assert_eq!(take(&engine, 6_100, 10), Decision::Pass { remaining: 0 });
    }

    #[test]
    fn a_lease_within_the_share_covers_a_call_that_needs_more_than_half_of_what_is_left() {
        let own = r#""lease":{"maxTokens":9,"ttlMs":300}"#;
        let both = format!("{SHARE},{own}");
        for (config, granted) in [(SHARE, [6, 4]), (&both, [6, 4]), (own, [5, 3])] {
            let engine = with(Settings::default(), config);
            let leased = [(); 2].map(|()| lease(&engine, 5_000, 6, None).granted);
            assert_eq!(leased, granted, "{config}");
        }
    }

    #[test]
    fn a_namespace_over_its_limit_is_lent_to_where_the_rule_shares_and_refused_where_not() {
        let over = || Settings { max_allowed_qps: Some(1.0), ..Settings::default() };
        let own = r#""lease":{"maxTokens":6,"ttlMs":300}"#;
        let both = format!("{SHARE},{own}");
        for (config, granted) in [(SHARE, Some(8)), (&both, Some(6)), (own, None)] {
            let engine = with(over(), config);
            let now = Tick::from_ms(5_000);
            take(&engine, 5_000, 2);
            for _ in 0..2 {
                assert!(engine.rules().acquire_flow(now, 1, 1, false).is_err());
            }
            let leased = engine.rules().lease(now, 1, 9, None);
            assert_eq!(leased.ok().map(|leased| leased.unwrap().granted), granted, "{config}");
            let guard = engine.rules().flow(1).unwrap().guard().clone();
            assert_eq!(guard.refused(), if granted.is_some() { 2 } else { 3 }, "{config}");
        }
    }

    #[test]
    fn a_lease_that_is_not_refused_counts_for_the_namespaces_limit() {
        let settings = Settings { max_allowed_qps: Some(2.0), ..Settings::default() };
        let engine = with(settings, SHARE);
        assert_eq!(lease(&engine, 5_000, 1, None).granted, 1);
        assert_eq!(take(&engine, 5_000, 1), Decision::Pass { remaining: 8 });
        assert!(engine.rules().acquire_flow(Tick::from_ms(5_000), 1, 1, false).is_err());
    }

    #[test]
    fn leases_that_alone_are_more_than_the_namespace_may_ask_are_refused_and_take_back() {
        let settings = Settings { max_allowed_qps: Some(2.0), ..Settings::default() };
        let engine = with(settings, SHARE);
        let ask = |ms, back| engine.rules().lease(Tick::from_ms(ms), 1, 1, back);
        take(&engine, 5_000, 1);
        let ids = [5_000, 5_099].map(|ms| ask(ms, None).unwrap().unwrap().id.unwrap());
        for (ms, id) in std::iter::zip([5_099, 5_999], ids) {
            assert!(ask(ms, Some((id, 0))).is_err(), "whatever else the namespace asked for");
        }
        assert_eq!(ask(6_000, None).unwrap().unwrap().granted, 1, "a second later");
        let flow = engine.rules().flow(1).unwrap().guard().refused();
        assert_eq!(flow, 2);
        assert_eq!(take(&engine, 6_200, 9), Decision::Pass { remaining: 0 }, "they have come back");
    }

    #[test]
    fn without_the_guard_the_rule_decides_by_itself() {
        let settings = Settings { max_allowed_qps: Some(0.0), ..Settings::default() };
        let engine = with(settings, SHARE);
        let (now, what) = (Tick::from_ms(5_000), What::Flow { id: 1, count: 6 });
        let ask = |rules: &RuleSet| rules.ask_unguarded(now, &what, Ask::default());
        assert!(engine.rules().ask(now, &what, Ask::default()).is_err());
        let decided = [(); 2].map(|()| ask(&engine.rules()).unwrap().decision);
        assert_eq!(decided, [Decision::Pass { remaining: 4 }, Decision::Block]);
    }

    #[test]
    fn no_lease_gets_the_id_of_one_before_when_nothing_was_on_lease_in_between() {
        let engine = engine();
        let mut ids = Vec::new();
        // Also with ticks that are older than the last.
        for ms in [5_050, 5_050, 5_101, 5_100, 5_040, 5_100, 5_199, 5_350, 5_320] {
            let leased = lease(&engine, ms, 1, None);
            ids.extend(leased.id);
            lease(&engine, ms, 0, leased.id.map(|id| (id, 0)));
            take(&engine, ms, 1);
        }
        assert_eq!(ids.len(), 9);
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    }
}
