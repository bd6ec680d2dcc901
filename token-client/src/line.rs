//! One connection as its callers and its task share it: the calls that wait, and the bytes that
//! are to be sent.
//!
//! A caller writes its frame into the queue and takes a slot in one critical section; the
//! connection's task sends whatever the queue holds with one write, and settles every answer of
//! one read in one critical section. No call has a timer or a channel of its own.

use std::{
    num::NonZeroU64,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::BytesMut;
use protocol::{Deframer, EncodeError, FrameError, Request, Response, feature};
use tokio::{sync::Notify, time::Instant};

use crate::{
    Extension, NoAnswer,
    pending::{Matched, Pending},
    reply::Reply,
    sync::lock,
    time::now,
};

/// Most bytes that wait to be written, beyond which calls are [`Busy`](NoAnswer::Busy): 50 000
/// requests of a flow, far more than a server that reads leaves standing.
const QUEUE_MAX: usize = 1 << 20;

/// The same for what gives tokens back, which has room of its own: a client that is too busy to ask
/// for more can still say what it no longer holds.
const RETURNS_MAX: usize = 2 * QUEUE_MAX;

/// The shared half of one connection; it outlives the connection and serves the next one.
#[derive(Debug)]
pub(crate) struct Line {
    timeout: Duration,
    state: Mutex<State>,
    greeted: Notify,
}

#[derive(Debug)]
struct State {
    /// Whether calls are taken.
    up: bool,
    pending: Pending,
    queue: BytesMut,
    /// The connection's task, while it has nothing to send or nothing to wait for.
    task: Option<Waker>,
    /// When the last frame came.
    heard: Instant,
    /// Since when the server has been silent although it was asked: from the last frame, or from
    /// the first call after it that ran out of time.
    silent_since: Option<Instant>,
    /// Number of the greeting that may be answered on this connection.
    hello: Option<i32>,
    extension: Option<Extension>,
    /// Digest of the rules that the client enforces; 0 for none.
    rules: u64,
    /// Whether the server that answered last grants leases; known also when its connection has ended.
    lends: bool,
    /// How many connections there have been.
    connections: u64,
    tally: Tally,
}

/// What happened on a line since the client was made; each only rises but `waiting`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) sent: u64,
    pub(crate) answered: u64,
    pub(crate) timed_out: u64,
    pub(crate) unreachable: u64,
    pub(crate) busy: u64,
    pub(crate) cancelled: u64,
    pub(crate) stray: u64,
    pub(crate) mismatched: u64,
    pub(crate) malformed: u64,
    pub(crate) waiting: u64,
}

impl Line {
    pub(crate) fn new(timeout: Duration, pending_max: usize) -> Self {
        let state = State {
            up: false,
            pending: Pending::new(pending_max),
            queue: BytesMut::new(),
            task: None,
            heard: now(),
            silent_since: None,
            hello: None,
            extension: None,
            rules: 0,
            lends: false,
            connections: 0,
            tally: Tally::default(),
        };
        Self { timeout, state: Mutex::new(state), greeted: Notify::new() }
    }

    /// A number for the greeting of a new connection.
    pub(crate) fn hello(&self) -> i32 {
        let state = &mut *lock(&self.state);
        let xid = state.pending.number();
        state.hello = Some(xid);
        xid
    }

    /// Takes calls until the result is dropped, which also happens when the connection's task is
    /// stopped in the middle: without it nobody would end a call that is out of time.
    pub(crate) fn open(self: &Arc<Self>) -> Open {
        let state = &mut *lock(&self.state);
        (state.up, state.silent_since) = (true, None);
        state.connections += 1;
        if state.extension.is_some() {
            self.greeted.notify_one();
            state.greet_with_rules();
        }
        Open(Arc::clone(self))
    }

    /// Resolves once for every connection that takes calls and whose server knows extension frames.
    pub(crate) async fn greeted(&self) {
        self.greeted.notified().await;
    }

    /// The number of the connection that carries calls which need `features`; `None` when none
    /// does now.
    pub(crate) fn session(&self, features: u32) -> Option<NonZeroU64> {
        let state = &*lock(&self.state);
        let serves = state.up && state.serves(features);
        serves.then(|| NonZeroU64::new(state.connections)).flatten()
    }

    /// Ends every call and takes no more: the connection is gone.
    fn close(&self) {
        let mut wake = Vec::new();
        {
            let state = &mut *lock(&self.state);
            state.up = false;
            state.queue.clear();
            (state.hello, state.extension) = (None, None);
            state.tally.unreachable += state.pending.fail_all(NoAnswer::Unreachable, &mut wake);
        }
        wake.into_iter().for_each(Waker::wake);
    }

    /// How long a call may take.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether the server that answered last grants leases, also after its connection has ended: what
    /// it said is still to be acted upon then.
    pub(crate) fn lends(&self) -> bool {
        lock(&self.state).lends
    }

    /// What the server said about extension frames on this connection.
    pub(crate) fn extension(&self) -> Option<Extension> {
        lock(&self.state).extension
    }

    pub(crate) fn tally(&self) -> Tally {
        let state = &*lock(&self.state);
        Tally { waiting: state.pending.len() as u64, ..state.tally }
    }

    /// Makes a call: its frame is queued and its slot taken, or neither.
    fn submit<E>(
        &self,
        kind: i8,
        needs: Needs,
        encode: &mut E,
        waker: &Waker,
    ) -> Result<i32, NoAnswer>
    where
        E: FnMut(i32, &mut BytesMut) -> Result<(), EncodeError>,
    {
        let deadline = now() + self.timeout;
        let (xid, task) = {
            let state = &mut *lock(&self.state);
            if !state.up {
                return Err(NoAnswer::Unreachable);
            }
            if needs.session.is_some_and(|session| !state.is_session(session)) {
                return Err(NoAnswer::Unreachable);
            }
            if !state.serves(needs.features) {
                return Err(NoAnswer::Unsupported);
            }
            if state.queue.len() >= QUEUE_MAX {
                state.tally.busy += 1;
                return Err(NoAnswer::Busy);
            }
            let Some(xid) = state.pending.add(kind, deadline, waker.clone()) else {
                state.tally.busy += 1;
                return Err(NoAnswer::Busy);
            };
            if let Err(error) = encode(xid, &mut state.queue) {
                // The waker is the caller's own, so dropping it here ends no task.
                state.pending.remove(xid);
                return Err(error.into());
            }
            state.tally.sent += 1;
            (xid, state.task.take())
        };
        if let Some(task) = task {
            task.wake();
        }
        Ok(xid)
    }

    fn poll(&self, xid: i32, waker: &Waker) -> Poll<Result<Reply, NoAnswer>> {
        let mut replaced = None;
        lock(&self.state).pending.poll(xid, waker, &mut replaced)
    }

    /// Nobody waits for the call any more. What it has been granted is given back; what it may yet
    /// be granted is, when the answer comes.
    fn forget(&self, xid: i32) {
        let (_waker, task) = {
            let state = &mut *lock(&self.state);
            let (waker, unseen) = state.pending.remove(xid);
            state.tally.cancelled += u64::from(waker.is_some());
            (waker, unseen.and_then(|unseen| state.unwanted(&unseen)))
        };
        task.into_iter().for_each(Waker::wake);
    }

    /// Queues the return of a concurrency token in front of every later call. No answer is waited
    /// for: either it is written to the server, or the connection ends and its tokens with it.
    /// False when it was not queued, since no server is connected that knows such tokens, or far too
    /// much is queued.
    pub(crate) fn release(&self, token_id: i64) -> bool {
        self.tell(|state| state.release(token_id))
    }

    /// The same for a lease, of which `used` tokens were spent, over the connection that it came
    /// from: false when that has ended.
    pub(crate) fn give_back(
        &self,
        session: NonZeroU64,
        flow_id: i64,
        returned: i64,
        used: u32,
    ) -> bool {
        let request = |xid| Request::Lease { xid, flow_id, want: 0, returned, used };
        self.tell(|state| state.is_session(session) && state.tell(feature::LEASE, request))
    }

    /// Tells this server and every later one which rules the client enforces, by their digest.
    pub(crate) fn enforce(&self, digest: u64) {
        self.tell(|state| {
            let changed = std::mem::replace(&mut state.rules, digest) != digest;
            changed && state.tell_rules()
        });
    }

    fn tell(&self, tell: impl FnOnce(&mut State) -> bool) -> bool {
        let (queued, task) = {
            let state = &mut *lock(&self.state);
            let queued = tell(state);
            (queued, queued.then(|| state.task.take()).flatten())
        };
        task.into_iter().for_each(Waker::wake);
        queued
    }

    /// Resolves once there is something to send.
    pub(crate) fn poll_queued(&self, cx: &mut Context<'_>) -> Poll<()> {
        let state = &mut *lock(&self.state);
        if state.queue.is_empty() {
            state.task = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Swaps the queue for `sent`, which is empty.
    pub(crate) fn take_queue(&self, sent: &mut BytesMut) {
        std::mem::swap(&mut lock(&self.state).queue, sent);
    }

    /// When the next call runs out of time: resolves once there is a call.
    pub(crate) fn poll_deadline(&self, cx: &mut Context<'_>) -> Poll<Instant> {
        let state = &mut *lock(&self.state);
        match state.pending.first_deadline() {
            Some(deadline) => Poll::Ready(deadline),
            None => {
                state.task = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Ends the calls that are out of time, and says for how long the server has been silent
    /// although it was asked.
    pub(crate) fn expire(&self, wake: &mut Vec<Waker>) -> Duration {
        let now = now();
        let silence = {
            let state = &mut *lock(&self.state);
            let expired = state.pending.expire(now, wake);
            state.tally.timed_out += expired;
            if expired > 0 {
                // The first of them was made a time-out ago.
                let asked = now.checked_sub(self.timeout).unwrap_or(now);
                state.silent_since.get_or_insert(asked.max(state.heard));
            }
            state.silent_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
        };
        wake.drain(..).for_each(Waker::wake);
        silence
    }

    /// Settles every whole frame in `input`, which is moved behind them.
    pub(crate) fn settle(
        &self,
        deframer: &mut Deframer,
        input: &mut &[u8],
        wake: &mut Vec<Waker>,
    ) -> Result<(), FrameError> {
        let heard = now();
        let result = {
            let state = &mut *lock(&self.state);
            let malformed = deframer.malformed();
            let knew = state.extension;
            let result = loop {
                match deframer.next(input) {
                    // A body that the deframer gives has a head.
                    Ok(Some(body)) => {
                        (state.heard, state.silent_since) = (heard, None);
                        Reply::decode(body).into_iter().for_each(|r| state.settle(r, wake));
                    }
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            state.tally.malformed += deframer.malformed() - malformed;
            if state.up && knew.is_none() && state.extension.is_some() {
                self.greeted.notify_one();
            }
            result
        };
        wake.drain(..).for_each(Waker::wake);
        result
    }
}

/// A line that takes calls, since a connection carries them.
#[derive(Debug)]
pub(crate) struct Open(Arc<Line>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl State {
    fn settle(&mut self, reply: Reply, wake: &mut Vec<Waker>) {
        if let Reply::Plain(Response::Hello { xid, version, features, revision }) = reply
            && self.hello == Some(xid)
        {
            self.extension = Some(Extension { version, features, revision });
            self.lends = self.serves(feature::LEASE);
            if self.greet_with_rules() {
                wake.extend(self.task.take());
            }
            return;
        }
        match self.pending.complete(reply) {
            Matched::Call(waker) => {
                self.lends = self.serves(feature::LEASE);
                self.tally.answered += 1;
                wake.push(waker);
            }
            // Nobody waits for the answer to what gave something back.
            Matched::Stray(reply) if reply.is_receipt() => {}
            Matched::Stray(reply) => {
                self.tally.stray += 1;
                wake.extend(self.unwanted(&reply));
            }
            Matched::Mismatch => self.tally.mismatched += 1,
        }
    }

    /// Whether the server said that it has all of `features`; no features are had by any.
    fn serves(&self, features: u32) -> bool {
        self.extension.map_or(0, |extension| extension.features) & features == features
    }

    /// Whether this is the connection of that number.
    fn is_session(&self, session: NonZeroU64) -> bool {
        self.connections == session.get()
    }

    /// Gives back the token of an answer that nobody takes: its caller is gone, or had no more time.
    /// A lease that nobody takes ends by itself.
    fn unwanted(&mut self, reply: &Reply) -> Option<Waker> {
        self.release(reply.granted()?).then(|| self.task.take()).flatten()
    }

    fn release(&mut self, token_id: i64) -> bool {
        self.tell(feature::CONCURRENCY, |xid| Request::ConcurrentRelease { xid, token_id })
    }

    /// Tells a new server which rules the client enforces, if there are any.
    fn greet_with_rules(&mut self) -> bool {
        self.rules != 0 && self.tell_rules()
    }

    /// Tells the server which rules the client enforces, if it wants to know.
    fn tell_rules(&mut self) -> bool {
        let digest = self.rules;
        self.tell(feature::RULES, |xid| Request::Rules { xid, digest })
    }

    /// Queues a request whose answer nobody waits for, if the server has `features` and there is
    /// room.
    fn tell(&mut self, features: u32, request: impl FnOnce(i32) -> Request<'static>) -> bool {
        if !self.up || !self.serves(features) || self.queue.len() >= RETURNS_MAX {
            return false;
        }
        let xid = self.pending.number();
        request(xid).encode(&mut self.queue).is_ok()
    }
}

/// What a call needs of its connection.
#[derive(Clone, Copy, Debug, Default)]
struct Needs {
    /// What the server must have said that it has.
    features: u32,
    /// The only connection that will do.
    session: Option<NonZeroU64>,
}

/// One call: made when it is first polled, over the first of its lines that is up. Its slot is
/// freed when it is dropped, so a late answer finds nobody.
#[derive(Debug)]
pub(crate) struct Call<'a, E> {
    kind: i8,
    needs: Needs,
    encode: E,
    lines: &'a [Arc<Line>],
    first: usize,
    made: Option<(&'a Line, i32)>,
}

impl<'a, E> Call<'a, E>
where
    E: FnMut(i32, &mut BytesMut) -> Result<(), EncodeError> + Unpin,
{
    /// A call of type `kind`, whose frame `encode` appends or refuses to append. It tries all of
    /// `lines`, starting with the one at `first`.
    pub(crate) fn new(kind: i8, encode: E, lines: &'a [Arc<Line>], first: usize) -> Self {
        Self { kind, needs: Needs::default(), encode, lines, first, made: None }
    }

    /// Makes the call only over a line whose server said that it has `features`.
    pub(crate) fn needing(mut self, features: u32) -> Self {
        self.needs.features = features;
        self
    }

    /// Makes the call only over the connection of that number.
    pub(crate) fn over(mut self, session: NonZeroU64) -> Self {
        self.needs.session = Some(session);
        self
    }

    fn make(&mut self, waker: &Waker) -> Poll<Result<Reply, NoAnswer>> {
        let (before, after) = self.lines.split_at(self.first.min(self.lines.len()));
        let mut unsupported = false;
        for line in after.iter().chain(before) {
            match line.submit(self.kind, self.needs, &mut self.encode, waker) {
                Ok(xid) => {
                    self.made = Some((line, xid));
                    return Poll::Pending;
                }
                Err(NoAnswer::Unreachable) => {}
                Err(NoAnswer::Unsupported) => unsupported = true,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        if unsupported {
            return Poll::Ready(Err(NoAnswer::Unsupported));
        }
        if let Some(line) = self.lines.first() {
            lock(&line.state).tally.unreachable += 1;
        }
        Poll::Ready(Err(NoAnswer::Unreachable))
    }
}

impl<E> Future for Call<'_, E>
where
    E: FnMut(i32, &mut BytesMut) -> Result<(), EncodeError> + Unpin,
{
    type Output = Result<Reply, NoAnswer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some((line, xid)) = self.made else { return self.make(cx.waker()) };
        let outcome = line.poll(xid, cx.waker());
        if outcome.is_ready() {
            self.made = None;
        }
        outcome
    }
}

impl<E> Drop for Call<'_, E> {
    fn drop(&mut self) {
        if let Some((line, xid)) = self.made {
            line.forget(xid);
        }
    }
}
