//! A purse by hand, a moment at a time.

use super::*;

const MS: Duration = Duration::from_millis(1);
const HERE: Option<NonZeroU64> = Some(NonZeroU64::MIN);
const ELSEWHERE: Option<NonZeroU64> = NonZeroU64::new(2);

/// A purse, and milliseconds since it was made.
struct Hand {
    purse: Purse,
    start: Instant,
}

impl Hand {
    /// Leases of 100 ms and at most 40 tokens.
    fn new(fixed: Option<u32>) -> Self {
        let start = crate::time::now();
        let terms = Terms { max: 40, max_for_call: 40, ttl: 100 * MS, fixed, only_over: false };
        Self { purse: Purse::new(terms, start), start }
    }

    /// Shares of 40 tokens in a window of a second, of which 4 are taken at a time.
    fn of_share() -> Self {
        let mut hand = Self::new(None);
        let terms = Terms { max: 4, max_for_call: 40, ttl: 100 * MS, fixed: None, only_over: true };
        hand.purse.set_terms(terms);
        hand
    }

    /// Whether the keeper is called for a call that the server refused.
    fn refused(&mut self, ms: f64) -> bool {
        self.refused_of(ms, 1)
    }

    /// The same for a call of so many tokens.
    fn refused_of(&mut self, ms: f64, count: u32) -> bool {
        self.purse.refused(self.at(ms), count)
    }

    /// Whether a call is not to be sent.
    fn is_over(&mut self, ms: f64) -> bool {
        self.purse.spend(self.at(ms), 1).over
    }

    fn at(&self, ms: f64) -> Instant {
        self.start + Duration::from_secs_f64(ms / 1_000.0)
    }

    /// Whether it was taken, and whether the keeper is called.
    fn spend(&mut self, ms: f64, count: u32) -> (bool, bool) {
        let Spent { taken, call, .. } = self.purse.spend(self.at(ms), count);
        (taken, call)
    }

    fn look(&mut self, ms: f64, session: Option<NonZeroU64>) -> Look {
        self.purse.look(self.at(ms), session)
    }

    fn settle(&mut self, ms: f64, sent: f64, answered: Answered) {
        self.purse.settle(self.at(ms), self.at(sent), NonZeroU64::MIN, answered, 1.0);
    }

    /// Has asked at 0 and 1 ms, and been granted `tokens` as lease 7 that was asked for at 1 ms.
    fn with_lease(tokens: u32) -> Self {
        let mut hand = Self::new(None);
        hand.spend(0.0, 1);
        hand.spend(1.0, 1);
        assert!(hand.look(1.0, HERE).ask.is_some());
        hand.settle(2.0, 1.0, granted(7, tokens));
        assert_eq!(hand.look(2.0, HERE).ask, None);
        hand
    }
}

fn granted(id: i64, tokens: u32) -> Answered {
    Answered::Granted { id, tokens, ttl: 100 * MS }
}

fn ask(want: u32, back: Option<Back>) -> Option<Ask> {
    Some(Ask { session: NonZeroU64::MIN, want, back })
}

#[test]
fn a_flow_that_is_called_again_within_a_period_asks_for_what_it_needed_and_once() {
    let mut hand = Hand::new(None);
    assert_eq!(hand.spend(0.0, 3), (false, false));
    assert_eq!(hand.spend(60.0, 3), (false, false), "the period was over");
    assert_eq!(hand.spend(61.0, 4), (false, true));
    assert_eq!(hand.spend(61.0, 1), (false, false), "the keeper is called once");
    assert_eq!(hand.look(62.0, HERE).ask, ask(8, None));
    assert_eq!(hand.spend(62.0, 1), (false, false), "a request is on its way");
    assert_eq!(hand.look(62.0, HERE).ask, None);
}

#[test]
fn a_lease_is_as_large_as_it_may_be_or_as_it_was_configured() {
    for (fixed, of, want) in
        [(None, 40, 40), (Some(5), 1, 5), (Some(5), 8, 8), (Some(5), 41, 5), (Some(100), 1, 40)]
    {
        let mut hand = Hand::new(fixed);
        hand.spend(0.0, 1);
        hand.spend(0.0, 1);
        hand.spend(0.0, of);
        assert_eq!(hand.look(0.0, HERE).ask, ask(want, None), "{fixed:?} {of}");
    }
}

#[test]
fn the_next_lease_is_asked_for_when_less_than_half_is_left_or_half_of_the_time() {
    let mut hand = Hand::with_lease(10);
    assert_eq!(hand.spend(3.0, 5), (true, false));
    assert_eq!(hand.spend(3.0, 6), (false, false), "more than there is is asked plainly");
    assert_eq!(hand.spend(3.0, 1), (true, true));
    assert_eq!(hand.look(3.0, HERE).ask, ask(14, None), "nothing is done with");
    hand.settle(4.0, 3.0, granted(8, 14));
    assert_eq!(hand.spend(4.0, 4), (true, false), "there is another");
    assert_eq!(hand.spend(5.0, 8), (true, true), "of the next");
    let back = Back { id: 7, used: 10, unspent: 0 };
    assert_eq!(hand.look(5.0, HERE).ask, ask(26, Some(back)));

    let mut hand = Hand::with_lease(10);
    assert_eq!(hand.spend(50.9, 1), (true, false));
    assert_eq!(hand.spend(51.0, 1), (true, true));
}

#[test]
fn a_lease_ends_a_time_to_live_after_it_was_asked_for_however_late_it_came() {
    let mut hand = Hand::with_lease(10);
    assert_eq!(hand.spend(100.8, 1), (true, false), "less a thousandth, for clocks differ");
    assert_eq!(hand.spend(100.9, 1), (false, true));
    let look = hand.look(101.0, HERE);
    assert_eq!((look.lost, look.back), (9, vec![]));

    hand.settle(300.0, 101.0, granted(8, 10));
    assert_eq!(hand.spend(300.0, 1), (false, false), "it ended on its way");
    assert_eq!(hand.spend(301.0, 1), (false, false), "and so would the next");
    assert_eq!(hand.look(301.0, HERE), Look { lost: 10, ..Look::default() });
    hand.spend(5_301.0, 1);
    assert_eq!(hand.spend(5_302.0, 1), (false, true));
}

#[test]
fn what_nobody_asks_for_goes_back_after_a_period_and_is_spent_no_more() {
    let mut hand = Hand::with_lease(10);
    hand.spend(10.0, 3);
    let alarm = Some(hand.at(60.0));
    assert_eq!(hand.look(59.9, HERE), Look { alarm, ..Look::default() });
    let back = vec![Back { id: 7, used: 3, unspent: 7 }];
    assert_eq!(hand.look(60.0, HERE), Look { back, ..Look::default() });
    assert_eq!(hand.spend(60.0, 1), (false, true));
}

#[test]
fn what_is_left_goes_back_before_its_end() {
    let mut hand = Hand::with_lease(10);
    for ms in [45.0, 88.4] {
        hand.spend(ms, 1);
    }
    let look = hand.look(88.5, HERE);
    let back = Back { id: 7, used: 2, unspent: 8 };
    assert_eq!((look.back, look.ask), (vec![], ask(3, Some(back))), "with the request");
    hand.settle(88.5, 88.5, Answered::Nothing);
    assert_eq!(hand.spend(88.5, 1), (false, false));
}

#[test]
fn alarms_are_set_for_what_comes_first() {
    let mut hand = Hand::new(None);
    hand.spend(0.0, 1);
    hand.spend(1.0, 1);
    hand.look(1.0, HERE);
    hand.settle(2.0, 1.0, granted(7, 10));
    assert_eq!(hand.look(2.0, HERE).alarm, Some(hand.at(51.0)), "a period after the last call");
    hand.spend(3.0, 1);
    assert_eq!(hand.look(3.0, HERE).alarm, None, "one is set already");
    hand.spend(50.0, 1);
    assert_eq!(hand.look(51.0, None).alarm, Some(hand.at(100.9)), "its end");
    assert_eq!(hand.look(51.0, HERE).alarm, Some(hand.at(88.5)), "before its end");
}

#[test]
fn who_is_refused_waits_and_gives_back_at_once_what_is_spent() {
    let mut hand = Hand::with_lease(4);
    hand.spend(3.0, 3);
    assert!(hand.look(3.0, HERE).ask.is_some());
    assert_eq!(hand.spend(3.0, 1), (true, false));
    hand.settle(4.0, 3.0, Answered::Nothing);
    let back = vec![Back { id: 7, used: 4, unspent: 0 }];
    assert_eq!(hand.look(4.0, HERE), Look { back, ..Look::default() });
    assert_eq!(hand.spend(28.9, 1), (false, false));
    assert_eq!(hand.spend(29.0, 1), (false, true), "a quarter of a lease's life later");
    hand.look(29.0, HERE);
    for (answered, pause) in [(Answered::Never, 5_000.0), (Answered::NoAnswer, 1_000.0)] {
        let mut hand = Hand::new(None);
        hand.settle(0.0, 0.0, answered);
        hand.spend(pause - 1.0, 1);
        assert_eq!(hand.spend(pause - 0.1, 1), (false, false));
        assert_eq!(hand.spend(pause, 1), (false, true));
    }
}

#[test]
fn a_lease_goes_back_only_where_it_came_from_and_is_spent_all_the_same() {
    for session in [None, ELSEWHERE] {
        let mut hand = Hand::with_lease(10);
        assert_eq!(hand.spend(3.0, 1), (true, false));
        let look = hand.look(60.0, session);
        assert_eq!(look, Look { alarm: Some(hand.at(100.9)), ..Look::default() });
        assert_eq!(hand.spend(60.0, 9), (true, true));
        let look = hand.look(61.0, session);
        let ask = session.map(|session| Ask { session, want: 9, back: None });
        assert_eq!((look.back, look.ask, look.lost), (vec![], ask, 0));
        assert!(hand.purse.leases.is_empty());
    }
}

#[test]
fn without_a_server_that_knows_leases_the_keeper_is_not_called_all_the_time() {
    let mut hand = Hand::new(None);
    hand.spend(0.0, 1);
    assert_eq!(hand.spend(1.0, 1), (false, true));
    assert_eq!(hand.look(1.0, None), Look::default());
    assert_eq!(hand.spend(2.0, 1), (false, false));
    hand.spend(1_000.0, 1);
    assert_eq!(hand.spend(1_001.0, 1), (false, true));
}

#[test]
fn a_closed_purse_gives_everything_back_also_what_is_granted_later() {
    let mut hand = Hand::with_lease(10);
    hand.spend(3.0, 6);
    assert!(hand.look(3.0, HERE).ask.is_some());
    hand.purse.close();
    assert_eq!(hand.spend(3.0, 1), (false, false));
    let back = vec![Back { id: 7, used: 6, unspent: 4 }];
    assert_eq!(hand.look(3.0, HERE).back, back);
    hand.settle(4.0, 3.0, granted(8, 5));
    assert_eq!(hand.spend(4.0, 1), (false, false));
    let back = vec![Back { id: 8, used: 0, unspent: 5 }];
    assert_eq!(hand.look(4.0, HERE), Look { back, ..Look::default() });
    hand.settle(5.0, 4.0, granted(9, 5));
    assert_eq!(hand.look(5.0, ELSEWHERE), Look { lost: 5, ..Look::default() });
}

#[test]
fn nothing_is_taken_for_a_call_without_a_count() {
    let mut hand = Hand::with_lease(10);
    assert_eq!(hand.spend(3.0, 0), (false, false));
    assert_eq!(hand.spend(3.0, 10), (true, true));
}

#[test]
fn a_share_is_asked_for_when_the_server_refuses_and_not_before() {
    let mut hand = Hand::of_share();
    for ms in 0..40 {
        assert_eq!(hand.spend(f64::from(ms), 1), (false, false));
    }
    assert!(hand.refused(40.0), "the first is enough");
    assert!(!hand.refused(40.0), "the keeper is called once");
    assert_eq!(hand.look(40.0, HERE).ask, ask(4, None));
    assert!(!hand.refused(41.0) && hand.purse.is_coming(), "a request is on its way");
    hand.settle(42.0, 40.0, granted(7, 4));
    assert!(!hand.purse.is_coming());
    assert_eq!(hand.spend(42.0, 3), (true, false));
}

#[test]
fn a_single_call_may_need_more_than_a_part_of_the_share_but_not_more_than_the_share() {
    for (count, want) in [(1, 2), (3, 3), (5, 5), (40, 40)] {
        let mut hand = Hand::of_share();
        hand.spend(0.0, count);
        hand.spend(0.0, count);
        assert!(hand.refused_of(0.0, count));
        assert_eq!(hand.look(0.0, HERE).ask, ask(want, None));
    }
    let mut hand = Hand::of_share();
    hand.spend(0.0, 41);
    hand.spend(0.0, 1);
    hand.spend(0.0, 1);
    assert!(!hand.refused_of(0.0, 41) && !hand.purse.wait(41), "what it cannot get");
    assert!(hand.refused(0.0) && hand.purse.wait(1) && !hand.purse.wait(41));
    let mut hand = Hand::of_share();
    for _ in 0..9 {
        hand.spend(0.0, 1);
    }
    hand.refused(0.0);
    assert_eq!(hand.look(0.0, HERE).ask, ask(4, None), "many small ones do not");
}

/// Otherwise a small call would wait for what only a large one before it needs.
#[test]
fn a_share_is_asked_for_as_the_call_needs_it_that_is_to_wait() {
    let mut hand = Hand::of_share();
    hand.spend(0.0, 30);
    hand.spend(1.0, 7);
    assert!(hand.refused_of(1.0, 7));
    assert_eq!(hand.look(1.0, HERE).ask, ask(7, None));
}

#[test]
fn where_all_calls_are_of_one_size_a_lease_is_for_some_of_them_and_nothing_else() {
    let mut hand = Hand::new(None);
    for _ in 0..9 {
        hand.spend(0.0, 7);
    }
    assert_eq!(hand.look(0.0, HERE).ask, ask(35, None), "of 40");
}

#[test]
fn tokens_that_no_call_fits_go_back_at_once() {
    let mut hand = Hand::of_share();
    hand.spend(0.0, 5);
    hand.spend(0.0, 5);
    hand.refused_of(0.0, 5);
    hand.look(0.0, HERE);
    hand.settle(1.0, 0.0, granted(7, 4));
    let back = vec![Back { id: 7, used: 0, unspent: 4 }];
    assert_eq!(hand.look(1.0, HERE), Look { back, ..Look::default() }, "all that there was");

    let mut hand = Hand::with_lease(9);
    hand.spend(60.0, 4);
    hand.spend(112.0, 4);
    hand.look(112.0, HERE);
    hand.settle(112.0, 112.0, granted(8, 10));
    assert_eq!(hand.spend(113.0, 4), (true, false));
    assert_eq!(hand.spend(113.0, 4), (true, true), "the keeper is called");
    let back = Back { id: 8, used: 8, unspent: 2 };
    assert_eq!(hand.look(113.0, HERE).ask, ask(12, Some(back)), "with the request");
    hand.settle(114.0, 113.0, granted(9, 3));
    let back = vec![Back { id: 9, used: 0, unspent: 3 }];
    assert_eq!(hand.look(114.0, HERE), Look { back, ..Look::default() });
    assert_eq!(hand.spend(138.9, 4), (false, false), "as if there had been none");
    assert_eq!(hand.spend(139.0, 4), (false, true));
}

#[test]
fn nothing_goes_back_before_those_who_wait_for_it_have_had_the_pick() {
    let mut hand = Hand::of_share();
    hand.spend(0.0, 3);
    hand.spend(0.0, 3);
    hand.refused_of(0.0, 3);
    assert!(hand.purse.wait(3) && hand.purse.wait(1));
    assert!(hand.look(60.0, HERE).ask.is_some(), "also when it is late");
    hand.settle(155.0, 60.0, granted(7, 4));
    let alarm = Some(hand.at(159.9));
    assert_eq!(hand.look(155.0, HERE), Look { alarm, ..Look::default() }, "its end");
    assert!(hand.purse.take(hand.at(155.0), 3));
    assert!(!hand.purse.leave() && hand.purse.leave(), "then the keeper looks again");
    let back = vec![Back { id: 7, used: 3, unspent: 1 }];
    assert_eq!(hand.look(155.0, HERE), Look { back, ..Look::default() });
}

#[test]
fn while_the_namespace_is_over_its_limit_a_share_is_asked_for_once_in_half_of_its_life() {
    for answered in [granted(7, 4), Answered::Nothing] {
        let mut hand = Hand::of_share();
        hand.spend(0.0, 4);
        hand.spend(0.0, 5);
        hand.refused(0.0);
        assert!(hand.look(0.0, HERE).ask.is_some());
        hand.settle(1.0, 0.0, answered);
        hand.look(1.0, HERE);
        hand.spend(1.0, 4);
        assert_eq!(hand.spend(50.9, 1), (false, false), "{answered:?}");
        assert!(hand.is_over(50.9));
        assert_eq!(hand.spend(51.0, 1), (false, true), "{answered:?}");
    }
}

#[test]
fn a_pause_is_stretched_as_is_said() {
    for (stretch, ends) in [(0.8, 41.0), (1.2, 61.0)] {
        let mut hand = Hand::of_share();
        hand.spend(0.0, 1);
        hand.spend(0.0, 1);
        hand.refused(0.0);
        hand.look(0.0, HERE);
        let (now, sent) = (hand.at(1.0), hand.at(0.0));
        hand.purse.settle(now, sent, NonZeroU64::MIN, Answered::Nothing, stretch);
        assert_eq!(hand.spend(ends - 0.1, 1), (false, false));
        assert_eq!(hand.spend(ends, 1), (false, true));
    }
}

#[test]
fn no_share_is_asked_for_where_no_second_call_comes_within_its_life() {
    let mut hand = Hand::of_share();
    for ms in [0.0, 100.0, 300.0] {
        hand.spend(ms, 1);
        assert!(!hand.refused(ms), "{ms}");
    }
    assert_eq!(hand.spend(399.0, 1), (false, true));
}

#[test]
fn the_server_is_asked_again_a_lease_s_life_after_it_refused() {
    let mut hand = Hand::of_share();
    assert!(!hand.is_over(0.0));
    hand.refused(0.0);
    assert!(hand.is_over(99.9));
    assert!(!hand.is_over(100.0));
    assert_eq!(hand.spend(100.0, 1), (false, false), "and no lease is asked for");
    hand.refused(100.0);
    assert!(hand.is_over(199.9));
    assert_eq!(hand.spend(199.9, 1), (false, false), "the keeper has been called");
}

#[test]
fn without_an_answer_or_a_connection_the_server_is_asked_again() {
    let asked_for = || {
        let mut hand = Hand::of_share();
        hand.spend(0.0, 1);
        hand.spend(0.0, 1);
        hand.refused(0.0);
        hand
    };
    let mut hand = asked_for();
    assert!(hand.look(0.0, HERE).ask.is_some());
    hand.settle(20.0, 0.0, Answered::NoAnswer);
    assert!(!hand.is_over(20.0));
    assert!(!hand.refused(69.9) && hand.refused(70.0), "half of a lease's life later");

    let mut hand = asked_for();
    assert_eq!(hand.look(0.0, None).ask, None);
    assert!(!hand.is_over(0.0));
}

#[test]
fn a_rule_with_leases_of_its_own_asks_for_them_for_calls_that_are_refused_though_they_come_seldom()
{
    let mut hand = Hand::new(None);
    assert_eq!(hand.spend(0.0, 3), (false, false));
    assert_eq!(hand.spend(60.0, 3), (false, false));
    assert!(hand.refused(60.0));
    assert_eq!(hand.look(60.0, HERE).ask, ask(3, None));
    hand.settle(61.0, 60.0, granted(7, 3));
    assert_eq!(hand.spend(61.0, 3), (true, false));
    assert!(hand.is_over(110.9));
    assert_eq!(hand.spend(111.0, 1), (false, true));
}

#[test]
fn a_share_that_is_spent_goes_back_with_the_next_request_or_not_at_all() {
    let spent = || {
        let mut hand = Hand::of_share();
        hand.spend(0.0, 2);
        hand.spend(0.0, 2);
        hand.refused(0.0);
        hand.look(0.0, HERE);
        hand.settle(1.0, 0.0, granted(7, 4));
        assert_eq!(hand.spend(1.0, 4), (true, false));
        hand
    };
    let mut hand = spent();
    assert_eq!(hand.look(1.0, HERE), Look { alarm: Some(hand.at(99.9)), ..Look::default() });
    assert_eq!(hand.look(90.0, HERE), Look::default(), "though nobody asks, and its end is near");
    assert_eq!(hand.look(99.9, HERE), Look::default());
    assert!(hand.purse.leases.is_empty());

    let mut hand = spent();
    assert_eq!(hand.spend(51.0, 1), (false, true));
    let back = Back { id: 7, used: 4, unspent: 0 };
    assert_eq!(hand.look(51.0, HERE).ask, ask(4, Some(back)));

    let mut hand = spent();
    hand.purse.close();
    assert_eq!(hand.look(2.0, HERE).back, vec![back]);
}
