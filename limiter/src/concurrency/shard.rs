//! Some levels with all their tokens, behind one lock.

use std::{
    hash::{DefaultHasher, Hasher},
    mem,
    time::Duration,
};

use rustc_hash::FxHashMap;

use super::{
    ends::Ends,
    level::Level,
    list::{Chain, List},
    live::{Live, TokensFull},
    slots::{Slots, Token},
    store::Hold,
    token::{OwnerId, Place, Released, TokenId},
};
use crate::{Tick, sync::Arc};

/// Aligned so that two shards share no cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Shard {
    home: usize,
    slots: Slots,
    ends: Ends,
    owners: Owners,
    /// The last tick seen: time does not go back, which keeps the queues in `ends` sorted.
    now: Tick,
    /// Has taken in what nobody else knows; clones of it make tags.
    secret: DefaultHasher,
    tags_made: u64,
    live: Arc<Live>,
}

/// The tokens of each connection that has any here.
type Owners = FxHashMap<OwnerId, List>;

/// What came of asking for a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Token(TokenId),
    /// There is no room.
    Refused,
    /// There may be room once more of what is due has ended.
    Again,
}

impl Shard {
    pub(super) fn new(home: usize, seed: u64, live: Arc<Live>) -> Self {
        let mut secret = DefaultHasher::new();
        secret.write_u64(seed);
        secret.write_usize(home);
        Self {
            home,
            slots: Slots::default(),
            ends: Ends::default(),
            owners: Owners::default(),
            now: Tick::default(),
            secret,
            tags_made: 0,
            live,
        }
    }

    fn advance(&mut self, now: Tick) -> Tick {
        self.now = self.now.max(now);
        self.now
    }

    /// Takes a token if the level has room, once what is due and in the way has ended: at most
    /// `most` tokens, after which the caller is to try again.
    pub(super) fn acquire(
        &mut self,
        now: Tick,
        level: &Arc<Level>,
        threshold: f64,
        hold: Hold,
        most: usize,
    ) -> Result<Taken, TokensFull> {
        let now = self.advance(now);
        let mut ended = 0;
        while !level.fits(hold.count, threshold) {
            if ended == most {
                return Ok(Taken::Again);
            }
            if !self.end_first(now) {
                return Ok(Taken::Refused);
            }
            ended += 1;
        }
        self.live.add(&level.tenant())?;
        level.add(hold.count);
        let tag = self.tag();
        let slot = self.slots.insert(Token {
            level: Arc::clone(level),
            ends: after(now, hold.resource_timeout_ms),
            tag,
            owner: None,
            count: hold.count,
            resource_timeout_ms: hold.resource_timeout_ms,
            client_offline_ms: hold.client_offline_ms,
            term_ms: hold.resource_timeout_ms,
        });
        self.ends.push(&mut self.slots, slot);
        self.own(slot, hold.owner);
        Ok(Taken::Token(Place { home: self.home, slot, tag }.id()))
    }

    pub(super) fn release(&mut self, now: Tick, place: Place) -> Released {
        if !self.is_held(now, place) {
            return Released::AlreadyReleased;
        }
        self.end(place.slot);
        Released::Ok
    }

    pub(super) fn renew(&mut self, now: Tick, place: Place, owner: OwnerId) -> bool {
        if !self.is_held(now, place) {
            return false;
        }
        let slot = place.slot;
        let Some(token) = self.slots.get(slot) else { return false };
        let (term_ms, stays) = (token.resource_timeout_ms, token.owner == Some(owner));
        self.postpone(slot, after(self.now, term_ms), term_ms);
        if !stays {
            self.disown(slot);
            self.own(slot, owner);
        }
        true
    }

    /// Lets at most `most` tokens of `owner` end once it has been gone for as long as they say, and
    /// gives their number.
    pub(super) fn owner_gone(&mut self, now: Tick, owner: OwnerId, most: usize) -> usize {
        let now = self.advance(now);
        let mut left = 0;
        while left < most
            && let Some(slot) = self.owners.get(&owner).map(|tokens| tokens.first)
            && let Some(token) = self.slots.get(slot)
        {
            let term_ms = token.client_offline_ms;
            let ends = after(now, term_ms);
            if ends < token.ends {
                self.postpone(slot, ends, term_ms);
            }
            self.disown(slot);
            left += 1;
        }
        left
    }

    /// Ends at most `most` tokens that are due. Once none is left, memory that they needed comes
    /// with the answer, to be freed outside the lock.
    pub(super) fn expire(&mut self, now: Tick, most: usize) -> (usize, Option<(Slots, Owners)>) {
        let now = self.advance(now);
        let mut ended = 0;
        while ended < most && self.end_first(now) {
            ended += 1;
        }
        let spare = self.slots.is_spare();
        (ended, spare.then(|| (mem::take(&mut self.slots), mem::take(&mut self.owners))))
    }

    /// When the next token ends.
    pub(super) fn next_expiry(&mut self) -> Option<Tick> {
        self.ends.first(&self.slots).map(|(ends, _)| ends)
    }

    /// Ends the token that ends first, if it is due.
    fn end_first(&mut self, now: Tick) -> bool {
        match self.ends.first(&self.slots) {
            Some((ends, slot)) if ends <= now => {
                self.end(slot);
                true
            }
            _ => false,
        }
    }

    /// Whether the token is there and held. One whose time has come ends here.
    fn is_held(&mut self, now: Tick, place: Place) -> bool {
        let now = self.advance(now);
        let token = self.slots.get(place.slot).filter(|token| token.tag == place.tag);
        let Some(token) = token else { return false };
        if token.ends <= now {
            self.end(place.slot);
            return false;
        }
        true
    }

    /// Takes a token out of everything.
    fn end(&mut self, slot: u32) {
        self.ends.remove(&mut self.slots, slot);
        self.disown(slot);
        if let Some(token) = self.slots.remove(slot) {
            token.level.sub(token.count);
            self.live.sub(&token.level.tenant());
        }
    }

    /// Lets a token end at another time: `term_ms` from now.
    fn postpone(&mut self, slot: u32, ends: Tick, term_ms: u32) {
        self.ends.remove(&mut self.slots, slot);
        if let Some(token) = self.slots.get_mut(slot) {
            (token.ends, token.term_ms) = (ends, term_ms);
        }
        self.ends.push(&mut self.slots, slot);
    }

    fn own(&mut self, slot: u32, owner: OwnerId) {
        if let Some(token) = self.slots.get_mut(slot) {
            token.owner = Some(owner);
            self.owners.entry(owner).or_default().push(&mut self.slots, Chain::Owner, slot);
        }
    }

    fn disown(&mut self, slot: u32) {
        let Some(owner) = self.slots.get_mut(slot).and_then(|token| token.owner.take()) else {
            return;
        };
        if let Some(tokens) = self.owners.get_mut(&owner) {
            tokens.remove(&mut self.slots, Chain::Owner, slot);
            if tokens.is_empty() {
                self.owners.remove(&owner);
            }
        }
    }

    fn tag(&mut self) -> u64 {
        self.tags_made += 1;
        let mut hasher = self.secret.clone();
        hasher.write_u64(self.tags_made);
        Place::tag(hasher.finish())
    }
}

fn after(now: Tick, ms: u32) -> Tick {
    now.plus(Duration::from_millis(ms.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLION: u64 = 1_000_000;

    fn token(taken: Taken) -> Option<TokenId> {
        match taken {
            Taken::Token(token) => Some(token),
            Taken::Refused => None,
            Taken::Again => panic!("no bound was given"),
        }
    }

    fn shard() -> (Shard, Arc<Level>) {
        (
            Shard::new(0, 7, Arc::new(Live::new(2 * MILLION))),
            Arc::new(Level::new(0, Arc::default())),
        )
    }

    fn hold(owner: u64, resource_timeout_ms: u32, client_offline_ms: u32) -> Hold {
        let owner = OwnerId::new(owner).unwrap();
        Hold { count: 1, owner, resource_timeout_ms, client_offline_ms }
    }

    fn touched(shard: &mut Shard, mut work: impl FnMut(&mut Shard)) -> u64 {
        let before = shard.slots.touched.get();
        work(shard);
        shard.slots.touched.get() - before
    }

    /// One token a microsecond, from a thousand connections, under four time-outs in turn.
    fn fill(shard: &mut Shard, level: &Arc<Level>, tokens: u64) -> Vec<Place> {
        let timeouts_ms = [2_000, 2_000, 60_000, 3_600_000].into_iter().cycle();
        let take = |(i, timeout_ms)| {
            let hold = hold(1 + i % 1_000, timeout_ms, 700);
            token(shard.acquire(Tick(i * 1_000), level, 1e9, hold, usize::MAX).unwrap())
                .map(Place::of)
                .unwrap()
        };
        (0..tokens).zip(timeouts_ms).map(take).collect()
    }

    #[test]
    fn a_million_tokens_cost_64_bytes_each_and_as_many_steps_as_few_do() {
        let (mut shard, level) = shard();
        let places = fill(&mut shard, &level, MILLION);
        assert!(shard.slots.bytes() as u64 <= MILLION * 64 + MILLION / 8);
        let now = Tick::from_ms(1_000);
        let nothing_due = touched(&mut shard, |s| assert_eq!(s.expire(now, 10).0, 0));
        assert!(nothing_due <= 1, "{nothing_due}");
        let mut most = 0;
        for &place in places.iter().step_by(997) {
            let steps = touched(&mut shard, |s| {
                assert!(s.renew(now, place, OwnerId::new(1).unwrap()));
                assert_eq!(s.release(now, place), Released::Ok);
                assert!(
                    token(s.acquire(now, &level, 1e9, hold(1, 2_000, 700), usize::MAX).unwrap())
                        .is_some()
                );
                assert!(
                    token(s.acquire(now, &level, 1e5, hold(1, 2_000, 700), usize::MAX).unwrap())
                        .is_none()
                );
            });
            most = most.max(steps);
        }
        assert!(most <= 60, "{most} slots looked at by four operations");
    }

    #[test]
    fn a_million_tokens_end_at_their_ticks_and_none_is_looked_at_before() {
        let (mut shard, level) = shard();
        fill(&mut shard, &level, MILLION);
        // Half of them end one by one from 2 000 ms on, two every four microseconds.
        let mut steps = 0;
        for i in (0..MILLION).step_by(4) {
            let before = Tick((2_000_000 + i) * 1_000 - 1);
            let nothing = touched(&mut shard, |s| assert_eq!(s.expire(before, 99).0, 0));
            assert!(nothing <= 1, "{nothing}");
            let at = Tick((2_000_000 + i + 1) * 1_000);
            assert_eq!(shard.next_expiry(), Some(Tick(at.0 - 1_000)));
            steps += touched(&mut shard, |s| assert_eq!(s.expire(at, 99).0, 2));
        }
        assert_eq!((level.in_use(), shard.live.count()), (MILLION / 2, MILLION / 2));
        assert!(steps <= 10 * MILLION / 2, "{steps} slots looked at to end half a million tokens");
    }

    #[test]
    fn a_gone_owner_costs_as_much_as_it_held() {
        let (mut shard, level) = shard();
        fill(&mut shard, &level, 100_000);
        let now = Tick::from_ms(1_000);
        let owner = OwnerId::new(3).unwrap();
        let mut let_go = 0;
        let steps = touched(&mut shard, |s| let_go = s.owner_gone(now, owner, 2_000));
        assert_eq!(let_go, 100, "one in a thousand");
        assert!(steps <= 20 * 100, "{steps} slots looked at to let go of a hundred tokens");
        assert_eq!(shard.expire(Tick::from_ms(1_699), 2_000).0, 0);
        assert_eq!(shard.expire(Tick::from_ms(1_700), 2_000).0, 100);
    }

    #[test]
    fn memory_comes_back_when_all_have_ended() {
        let (mut shard, level) = shard();
        for i in 1..=1_000 {
            token(shard.acquire(Tick(0), &level, 1e9, hold(i, 5, 5), usize::MAX).unwrap());
        }
        let (ended, spare) = shard.expire(Tick::from_ms(5), 999);
        assert!(ended == 999 && spare.is_none());
        let (ended, spare) = shard.expire(Tick::from_ms(5), 999);
        assert!(ended == 1 && spare.is_some());
        assert_eq!(shard.slots.bytes(), 0);
        assert!(
            token(shard.acquire(Tick(0), &level, 1.0, hold(1, 5, 5), usize::MAX).unwrap())
                .is_some()
        );
        assert_eq!(level.in_use(), 1);
    }

    #[test]
    fn ids_are_not_counted_out() {
        let (mut shard, level) = shard();
        let mut tags: Vec<u64> = (0..10_000)
            .map(|_| {
                let id =
                    token(shard.acquire(Tick(0), &level, 1.0, hold(1, 5, 5), usize::MAX).unwrap())
                        .unwrap();
                let place = Place::of(id);
                assert_eq!(shard.release(Tick(0), place), Released::Ok);
                for near in [place.tag - 1, place.tag + 1] {
                    let guess = Place { tag: near, ..place };
                    assert_eq!(shard.release(Tick(0), guess), Released::AlreadyReleased);
                }
                place.tag
            })
            .collect();
        assert!(tags.windows(2).all(|two| two[0].abs_diff(two[1]) > 1));
        tags.sort_unstable();
        tags.dedup();
        assert!(tags.len() >= 9_998, "one slot, a new tag each time");
        let other = Shard::new(0, 8, Arc::new(Live::new(1))).tag();
        let same = Shard::new(0, 7, Arc::new(Live::new(1))).tag();
        assert!(other != same && tags.binary_search(&same).is_ok(), "the seed decides");
    }

    #[test]
    fn an_acquire_ends_no_more_tokens_than_it_may_and_says_to_try_again() {
        let (mut shard, level) = shard();
        for owner in 1..=5 {
            token(shard.acquire(Tick(0), &level, 9.0, hold(owner, 5, 5), 0).unwrap());
        }
        let late = Tick::from_ms(5);
        let mut ask = || shard.acquire(late, &level, 1.0, hold(9, 5, 5), 2).unwrap();
        assert_eq!([ask(), ask()], [Taken::Again; 2]);
        assert!(token(ask()).is_some(), "the fifth is gone, too");
        assert_eq!(ask(), Taken::Refused);
    }
}
