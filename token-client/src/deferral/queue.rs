//! What waits, and the task that lets it go.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt, mem,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use limiter::local::{Block, BlockKind};
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{Drained, NotDeferred, Settings};
use crate::{Engine, Guard, sync::lock};

/// A call that is asked for, and waits for its turn.
pub(crate) type Turn = Pin<Box<dyn Future<Output = Result<Guard, Block>> + Send>>;
/// A call to be made, which says whether it went well.
type Job = Pin<Box<dyn Future<Output = bool> + Send>>;

/// Calls of one resource, in the order in which they came.
pub(super) struct Queue {
    engine: Engine,
    resource: Arc<str>,
    settings: Settings,
    state: Mutex<State>,
    /// For the task that lets calls go: something was put, taken back, or ended.
    changed: Notify,
    /// That task.
    release: TaskTracker,
    /// The calls that it made.
    made: TaskTracker,
    stop: CancellationToken,
}

#[derive(Default)]
struct State {
    /// By ticket, so that the first is the oldest.
    waiting: BTreeMap<u64, Job>,
    next: u64,
    /// Asked for by those who then had to wait. Whoever is first has the first of them, so that one
    /// who is taken back leaves his to the next.
    turns: VecDeque<Turn>,
    /// While the task waits for a turn.
    is_asking: bool,
    is_closed: bool,
}

/// Whether a call may be made now.
pub(super) enum Asked {
    Now(Guard),
    /// Not yet; perhaps it has a turn already.
    Later(Option<Turn>),
    /// Not at any time.
    Refused,
}

impl Queue {
    /// An empty queue, whose task runs until the guard is dropped.
    pub(super) fn start(
        engine: Engine,
        resource: &str,
        settings: Settings,
    ) -> (Arc<Self>, DropGuard) {
        let stop = CancellationToken::new();
        let queue = Arc::new(Self {
            engine,
            resource: resource.into(),
            settings,
            state: Mutex::default(),
            changed: Notify::new(),
            release: TaskTracker::new(),
            made: TaskTracker::new(),
            stop: stop.clone(),
        });
        let release = Arc::clone(&queue).release();
        queue.release.spawn(stop.clone().run_until_cancelled_owned(release));
        (queue, stop.drop_guard())
    }

    fn turn(&self) -> Turn {
        let (engine, resource) = (self.engine.clone(), Arc::clone(&self.resource));
        let is_inbound = self.settings.inbound;
        Box::pin(async move {
            let call = engine.entry(&resource);
            if is_inbound { call.inbound().acquire().await } else { call.acquire().await }
        })
    }

    /// Asks for a call, and waits a moment for its turn. Nobody overtakes those who wait.
    pub(super) async fn ask(&self) -> Asked {
        {
            let state = lock(&self.state);
            if state.is_asking || !state.waiting.is_empty() {
                return Asked::Later(None);
            }
        }
        let mut turn = self.turn();
        match timeout(self.settings.patience, &mut turn).await {
            Ok(Ok(guard)) => Asked::Now(guard),
            Ok(Err(block)) => match block.kind() {
                BlockKind::Authority | BlockKind::Custom(_) => Asked::Refused,
                _ => Asked::Later(None),
            },
            Err(_) => Asked::Later(Some(turn)),
        }
    }

    /// Puts a call behind the others, with the turn that was asked for.
    pub(super) fn put(&self, job: Job, turn: Option<Turn>) -> Result<u64, NotDeferred> {
        let mut state = lock(&self.state);
        if state.is_closed {
            return Err(NotDeferred::Closed);
        }
        if state.waiting.len() >= self.settings.waiting_max {
            return Err(NotDeferred::Full);
        }
        let id = state.next;
        state.next += 1;
        state.waiting.insert(id, job);
        state.turns.extend(turn);
        drop(state);
        self.changed.notify_one();
        Ok(id)
    }

    pub(super) fn ahead(&self, id: u64) -> Option<usize> {
        let waiting = &lock(&self.state).waiting;
        waiting.contains_key(&id).then(|| waiting.range(..id).count())
    }

    pub(super) fn waiting(&self) -> usize {
        lock(&self.state).waiting.len()
    }

    /// Whether another call would be refused.
    pub(super) fn refuses(&self) -> Option<NotDeferred> {
        let state = lock(&self.state);
        let is_full = state.waiting.len() >= self.settings.waiting_max;
        if state.is_closed {
            Some(NotDeferred::Closed)
        } else {
            is_full.then_some(NotDeferred::Full)
        }
    }

    pub(super) fn cancel(&self, id: u64) -> bool {
        // Dropped with nothing locked: it is somebody else's code.
        let job = lock(&self.state).waiting.remove(&id);
        self.changed.notify_one();
        job.is_some()
    }

    pub(super) async fn drain(&self, deadline: Duration) -> Drained {
        lock(&self.state).is_closed = true;
        self.changed.notify_one();
        self.release.close();
        self.made.close();
        let all = async {
            self.release.wait().await;
            self.made.wait().await;
        };
        if timeout(deadline, all).await.is_ok() {
            return Drained::default();
        }
        self.stop.cancel();
        // Which is at once, and then no more calls are made.
        self.release.wait().await;
        let left = mem::take(&mut lock(&self.state).waiting);
        Drained { left: left.into_keys().collect(), running: self.made.len() }
    }

    /// Lets calls go, one after the other, until the queue is closed and empty.
    async fn release(self: Arc<Self>) {
        while self.somebody_waits().await {
            if let Some(guard) = self.next_turn().await {
                self.run_first(guard);
            }
        }
    }

    async fn somebody_waits(&self) -> bool {
        loop {
            // Of those who were taken back. Dropped with nothing locked.
            let turns = {
                let mut state = lock(&self.state);
                state.is_asking = !state.waiting.is_empty();
                if state.is_asking || state.is_closed {
                    return state.is_asking;
                }
                mem::take(&mut state.turns)
            };
            drop(turns);
            self.changed.notified().await;
        }
    }

    /// The next call's turn; `None` if there is none for now, or nobody who waits.
    async fn next_turn(&self) -> Option<Guard> {
        let asked = lock(&self.state).turns.pop_front();
        let mut turn = asked.unwrap_or_else(|| self.turn());
        loop {
            tokio::select! {
                biased;
                said = &mut turn => match said {
                    Ok(guard) => return Some(guard),
                    Err(_) => break,
                },
                () = self.changed.notified() => if lock(&self.state).waiting.is_empty() {
                    return None;
                },
            }
        }
        sleep(self.settings.pause).await;
        None
    }

    fn run_first(&self, mut guard: Guard) {
        let first = lock(&self.state).waiting.pop_first();
        let Some((_, job)) = first else { return };
        self.made.spawn(async move {
            if !job.await {
                guard.fail();
            }
        });
    }
}

#[cfg(test)]
impl Queue {
    pub(super) fn node(&self) -> limiter::local::NodeReading {
        self.engine.local().node(self.engine.now(), &self.resource).unwrap_or_default()
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Queue");
        debug.field("resource", &self.resource).field("settings", &self.settings);
        debug.field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}
