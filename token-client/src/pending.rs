//! Calls that wait for their answers, found by the numbers of their requests.
//!
//! A call's slot is its number modulo the size of the table. Numbers are given in order, so the
//! calls also stand in the order of their deadlines, and one timer serves them all. A slot that is
//! still taken when the numbers come round to it is passed over, number and all.

use std::task::{Poll, Waker};

use tokio::time::Instant;

use crate::{NoAnswer, reply::Reply};

/// The last number before they start again at 1 (`NettyTransportClient.java`).
pub(crate) const XID_MAX: i32 = 999_999_999;

/// Slots of a new table; it doubles when they are all taken.
const SLOTS_FIRST: usize = 64;

/// The calls of one connection, and the numbers of its requests.
#[derive(Debug)]
pub(crate) struct Pending {
    /// A power of two of them.
    slots: Box<[Slot]>,
    /// Slots that are not free.
    taken: usize,
    /// Most calls at once.
    max: usize,
    /// The number that is given next.
    next: i32,
    /// No call that waits has a number given before this one.
    oldest: i32,
}

#[derive(Debug, Default)]
struct Slot {
    /// 0 when the slot is free; no call has that number.
    xid: i32,
    kind: i8,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Free,
    Waiting {
        deadline: Instant,
        waker: Waker,
    },
    /// Decided, and not yet seen by the caller.
    Done(Result<Reply, NoAnswer>),
}

/// What became of an answer.
#[derive(Debug)]
pub(crate) enum Matched {
    /// It decided a call, whose task is to be woken.
    Call(Waker),
    /// No call waits for it: it is late, a duplicate, or nobody's.
    Stray(Reply),
    /// The call of its number asked for something else; the call still waits.
    Mismatch,
}

impl Pending {
    pub(crate) fn new(max: usize) -> Self {
        Self { slots: slots(SLOTS_FIRST), taken: 0, max, next: 1, oldest: 1 }
    }

    /// A number for a request whose answer nobody waits for here.
    pub(crate) fn number(&mut self) -> i32 {
        let xid = self.next;
        self.next = successor(xid);
        xid
    }

    /// Calls whose slots are taken.
    pub(crate) fn len(&self) -> usize {
        self.taken
    }

    /// A number for a call, whose slot is taken until [`remove`](Self::remove) or
    /// [`poll`](Self::poll) frees it; `None` when there are too many. Deadlines must not fall from
    /// one call to the next.
    pub(crate) fn add(&mut self, kind: i8, deadline: Instant, waker: Waker) -> Option<i32> {
        if self.taken >= self.max {
            return None;
        }
        if self.taken == self.slots.len() {
            self.grow();
        }
        // Ends, since a slot is free and consecutive numbers have consecutive slots.
        loop {
            let xid = self.number();
            let slot = self.slot(xid)?;
            if slot.xid == 0 {
                *slot = Slot { xid, kind, state: State::Waiting { deadline, waker } };
                self.taken += 1;
                return Some(xid);
            }
        }
    }

    /// Gives `reply` to the call that it answers.
    pub(crate) fn complete(&mut self, reply: Reply) -> Matched {
        let xid = reply.xid();
        match self.slot(xid) {
            Some(slot) if xid != 0 && slot.xid == xid => {
                if !matches!(slot.state, State::Waiting { .. }) {
                    return Matched::Stray(reply);
                }
                if slot.kind != reply.kind() {
                    return Matched::Mismatch;
                }
                slot.finish(Ok(reply)).map_or(Matched::Mismatch, Matched::Call)
            }
            Some(_) | None => Matched::Stray(reply),
        }
    }

    /// The outcome of a call, whose slot is free then. Until there is one, `waker` is the task to
    /// wake; the waker it replaces comes back to be dropped outside of any lock.
    pub(crate) fn poll(
        &mut self,
        xid: i32,
        waker: &Waker,
        replaced: &mut Option<Waker>,
    ) -> Poll<Result<Reply, NoAnswer>> {
        let Some(slot) = self.slot(xid).filter(|slot| slot.xid == xid) else {
            // Never: a slot is freed by its own call only.
            return Poll::Ready(Err(NoAnswer::Unreachable));
        };
        if let State::Waiting { waker: old, .. } = &mut slot.state {
            if !old.will_wake(waker) {
                *replaced = Some(std::mem::replace(old, waker.clone()));
            }
            return Poll::Pending;
        }
        let State::Done(outcome) = std::mem::take(slot).state else {
            return Poll::Ready(Err(NoAnswer::Unreachable));
        };
        self.taken -= 1;
        Poll::Ready(outcome)
    }

    /// Frees the slot of a call that nobody waits for any more. Its waker, if it still had one,
    /// comes back to be dropped outside of any lock; if it was answered already, the answer does.
    pub(crate) fn remove(&mut self, xid: i32) -> (Option<Waker>, Option<Reply>) {
        let Some(slot) = self.slot(xid).filter(|slot| slot.xid == xid) else { return (None, None) };
        let state = std::mem::take(slot).state;
        self.taken -= 1;
        match state {
            State::Waiting { waker, .. } => (Some(waker), None),
            State::Done(Ok(unseen)) => (None, Some(unseen)),
            State::Free | State::Done(Err(_)) => (None, None),
        }
    }

    /// When the first call that waits has waited long enough; `None` when no call waits.
    pub(crate) fn first_deadline(&mut self) -> Option<Instant> {
        while self.oldest != self.next {
            let oldest = self.oldest;
            if let Some(Slot { xid, state: State::Waiting { deadline, .. }, .. }) =
                self.slot(oldest)
                && *xid == oldest
            {
                return Some(*deadline);
            }
            self.oldest = successor(oldest);
        }
        None
    }

    /// Ends every call whose deadline has come; the tasks to wake are put into `wake`.
    pub(crate) fn expire(&mut self, now: Instant, wake: &mut Vec<Waker>) -> u64 {
        let mut expired = 0;
        while self.first_deadline().is_some_and(|deadline| deadline <= now) {
            let oldest = self.oldest;
            wake.extend(self.slot(oldest).and_then(|slot| slot.finish(Err(NoAnswer::TimedOut))));
            expired += 1;
        }
        expired
    }

    /// Ends every call that waits; the tasks to wake are put into `wake`.
    pub(crate) fn fail_all(&mut self, error: NoAnswer, wake: &mut Vec<Waker>) -> u64 {
        let before = wake.len();
        wake.extend(self.slots.iter_mut().filter_map(|slot| slot.finish(Err(error))));
        (wake.len() - before) as u64
    }

    fn slot(&mut self, xid: i32) -> Option<&mut Slot> {
        let mask = self.slots.len() - 1;
        self.slots.get_mut(usize::try_from(xid).ok()? & mask)
    }

    /// Doubles the table. No two calls meet in a slot: they did not meet in half as many.
    fn grow(&mut self) {
        let size = self.slots.len() * 2;
        for old in std::mem::replace(&mut self.slots, slots(size)) {
            if let Some(slot) = self.slot(old.xid) {
                *slot = old;
            }
        }
    }
}

impl Slot {
    /// Decides the call, if it still waits.
    fn finish(&mut self, outcome: Result<Reply, NoAnswer>) -> Option<Waker> {
        if !matches!(self.state, State::Waiting { .. }) {
            return None;
        }
        match std::mem::replace(&mut self.state, State::Done(outcome)) {
            State::Waiting { waker, .. } => Some(waker),
            State::Free | State::Done(_) => None,
        }
    }
}

fn slots(count: usize) -> Box<[Slot]> {
    std::iter::repeat_with(Slot::default).take(count).collect()
}

fn successor(xid: i32) -> i32 {
    if xid >= XID_MAX { 1 } else { xid + 1 }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::{Response, Status, kind};

    use super::*;
    use crate::time::now;

    fn answer(xid: i32) -> Reply {
        Reply::Plain(Response::Flow { xid, status: Status::Ok, remaining: xid, wait_ms: 0 })
    }

    fn add(pending: &mut Pending, deadline: Instant) -> Option<i32> {
        pending.add(kind::FLOW, deadline, Waker::noop().clone())
    }

    fn poll(pending: &mut Pending, xid: i32) -> Poll<Result<Reply, NoAnswer>> {
        pending.poll(xid, Waker::noop(), &mut None)
    }

    #[test]
    fn an_answer_decides_its_call_once() {
        let mut pending = Pending::new(8);
        let xid = add(&mut pending, now()).unwrap();
        assert!(poll(&mut pending, xid).is_pending());
        assert!(matches!(pending.complete(answer(xid)), Matched::Call(_)));
        assert!(matches!(pending.complete(answer(xid)), Matched::Stray(_)), "a duplicate");
        assert_eq!(poll(&mut pending, xid), Poll::Ready(Ok(answer(xid))));
        assert!(matches!(pending.complete(answer(xid)), Matched::Stray(_)), "a late duplicate");
        assert_eq!(pending.len(), 0);
    }

    #[test]
    fn an_answer_to_another_question_leaves_the_call_waiting() {
        let mut pending = Pending::new(8);
        let xid = add(&mut pending, now()).unwrap();
        let other = Response::Param { xid, status: Status::Ok, remaining: 1, wait_ms: 0 };
        assert!(matches!(pending.complete(Reply::Plain(other)), Matched::Mismatch));
        let other = Response::Head { xid, kind: 99, status: Status::Ok };
        assert!(matches!(pending.complete(Reply::Plain(other)), Matched::Mismatch));
        assert!(matches!(pending.complete(answer(xid)), Matched::Call(_)));
    }

    #[test]
    fn an_answer_with_nobodys_number_is_stray() {
        let mut pending = Pending::new(8);
        add(&mut pending, now()).unwrap();
        for xid in [0, -1, i32::MIN, 2, 65, i32::MAX] {
            assert!(matches!(pending.complete(answer(xid)), Matched::Stray(_)), "{xid}");
        }
    }

    #[test]
    fn numbers_start_again_at_one() {
        let mut pending = Pending::new(8);
        (pending.next, pending.oldest) = (XID_MAX, XID_MAX);
        let deadline = now();
        assert_eq!(add(&mut pending, deadline), Some(XID_MAX));
        assert_eq!(add(&mut pending, deadline), Some(1));
        let mut wake = Vec::new();
        assert_eq!(pending.expire(deadline, &mut wake), 2, "in order over the end");
    }

    #[test]
    fn a_slot_that_is_taken_is_passed_over_with_its_number() {
        let mut pending = Pending::new(64);
        let deadline = now();
        let first = add(&mut pending, deadline).unwrap();
        for _ in 0..63 {
            let xid = add(&mut pending, deadline).unwrap();
            pending.remove(xid);
        }
        assert_eq!(add(&mut pending, deadline), Some(66), "65 would share the slot of 1");
        assert!(matches!(pending.complete(answer(65)), Matched::Stray(_)));
        assert!(matches!(pending.complete(answer(first)), Matched::Call(_)));
    }

    #[test]
    fn the_table_grows_to_its_bound_and_not_beyond() {
        let mut pending = Pending::new(200);
        let deadline = now();
        let xids: Vec<i32> = (0..200).map_while(|_| add(&mut pending, deadline)).collect();
        assert_eq!(xids.len(), 200);
        assert_eq!(add(&mut pending, deadline), None);
        for &xid in xids.iter().rev() {
            assert!(matches!(pending.complete(answer(xid)), Matched::Call(_)));
            assert_eq!(poll(&mut pending, xid), Poll::Ready(Ok(answer(xid))));
        }
        assert_eq!((pending.len(), pending.slots.len()), (0, 256));
    }

    #[test]
    fn calls_expire_in_the_order_they_were_made() {
        let mut pending = Pending::new(8);
        let start = now();
        let at = |ms| start + Duration::from_millis(ms);
        let a = add(&mut pending, at(20)).unwrap();
        let b = add(&mut pending, at(21)).unwrap();
        let c = add(&mut pending, at(22)).unwrap();
        pending.remove(a);
        assert_eq!(pending.first_deadline(), Some(at(21)));
        let mut wake = Vec::new();
        assert_eq!(pending.expire(at(21), &mut wake), 1);
        assert_eq!(poll(&mut pending, b), Poll::Ready(Err(NoAnswer::TimedOut)));
        assert!(matches!(pending.complete(answer(b)), Matched::Stray(_)), "late");
        assert_eq!(pending.first_deadline(), Some(at(22)));
        assert_eq!(pending.fail_all(NoAnswer::Unreachable, &mut wake), 1);
        assert_eq!(poll(&mut pending, c), Poll::Ready(Err(NoAnswer::Unreachable)));
        assert_eq!((pending.first_deadline(), wake.len(), pending.len()), (None, 2, 0));
    }

    /// A call's number, its deadline, and what it should come to.
    type Expected = (i32, Instant, Option<Result<Reply, NoAnswer>>);

    /// Against a list of what should be there, from any number on, the last one too.
    #[test]
    fn any_sequence_of_events_leaves_each_call_with_its_own_outcome() {
        for seed in 0..300 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut pending = Pending::new(random.usize(1..150));
            let first = if random.bool() { XID_MAX - random.i32(0..300) } else { 1 };
            (pending.next, pending.oldest) = (first, first);
            let (start, mut step) = (now(), 0);
            let mut model: Vec<Expected> = Vec::new();
            for _ in 0..2_000 {
                step += random.u64(0..3);
                let at = start + Duration::from_millis(step);
                let nth = random.usize(0..=model.len());
                match (random.u32(0..100), model.get_mut(nth)) {
                    (0..45, _) => match add(&mut pending, at + Duration::from_millis(40)) {
                        Some(xid) => {
                            assert!((1..=XID_MAX).contains(&xid));
                            assert!(model.iter().all(|call| call.0 != xid), "in use");
                            model.push((xid, at + Duration::from_millis(40), None));
                        }
                        None => assert_eq!(model.len(), pending.max),
                    },
                    (45..70, Some((xid, _, outcome))) => {
                        let called = matches!(pending.complete(answer(*xid)), Matched::Call(_));
                        assert_eq!(called, outcome.is_none());
                        outcome.get_or_insert(Ok(answer(*xid)));
                    }
                    (70..80, Some((xid, ..))) => {
                        pending.remove(*xid);
                        model.swap_remove(nth);
                    }
                    (80..90, Some((xid, _, outcome))) => {
                        match (poll(&mut pending, *xid), outcome) {
                            (Poll::Pending, None) => {}
                            (Poll::Ready(seen), Some(expected)) => {
                                assert_eq!(seen, *expected);
                                model.swap_remove(nth);
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                    _ => {
                        let mut due = 0;
                        for (_, deadline, outcome) in &mut model {
                            if outcome.is_none() && *deadline <= at {
                                *outcome = Some(Err(NoAnswer::TimedOut));
                                due += 1;
                            }
                        }
                        assert_eq!(pending.expire(at, &mut Vec::new()), due);
                        let waits = model.iter().filter(|call| call.2.is_none());
                        assert_eq!(pending.first_deadline(), waits.map(|call| call.1).min());
                    }
                }
                assert_eq!(pending.len(), model.len());
            }
        }
    }
}
