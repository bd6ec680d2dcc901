//! A call on its way into the engine.

use std::time::Duration;

use limiter::{
    local::{Arg, Block, Call, ContextHandle, EntryType, GatewayRequest, Outlook, Step, Trace},
    rule::ResourceMode,
};
use tokio::time::sleep;

use super::{Engine, Guard};
use crate::Verdict;

/// A call that is about to be made: says what it is, then asks for it.
///
/// Nothing is asked before [`acquire`](Self::acquire), [`try_acquire`](Self::try_acquire),
/// [`run`](Self::run) or [`run_with`](Self::run_with).
#[derive(Debug)]
#[must_use = "nothing is asked yet"]
pub struct Attempt<'a> {
    pub(super) engine: &'a Engine,
    pub(super) call: Call<'a>,
}

/// Why [`Attempt::try_acquire`] gave no guard.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotNow {
    /// The call is refused.
    #[error("{0}")]
    Blocked(Block),
    /// The call would have had to wait at least that long, and was given up.
    #[error("the call would have to wait {0:?}")]
    MustWait(Duration),
    /// A token server has to be asked, and the call was given up.
    #[error("a token server has to be asked")]
    MustAsk,
}

/// Why [`Attempt::run`] gave no value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError<E> {
    /// The call was refused, and not made.
    #[error("{0}")]
    Blocked(Block),
    /// The call was made, and failed with this.
    #[error(transparent)]
    Failed(E),
}

impl<'a> Attempt<'a> {
    /// Makes the call in this context rather than that of the outer call, or the default one.
    pub fn context(mut self, context: &'a ContextHandle) -> Self {
        self.call = self.call.context(context);
        self
    }

    /// Says inside of which call it is made: it is in that one's context, unless another is named,
    /// and stands below it in the call tree.
    pub fn inside(mut self, outer: &'a Guard) -> Self {
        if let Some(entry) = outer.entry() {
            self.call = self.call.parent(entry);
        }
        self
    }

    /// Names the caller, for authority rules and rules with a `limitApp`.
    pub fn origin(mut self, origin: &'a str) -> Self {
        self.call = self.call.origin(origin);
        self
    }

    /// Gives the arguments of the call, for hot-parameter rules.
    pub fn args(mut self, args: &'a [Arg<'a>]) -> Self {
        self.call = self.call.args(args);
        self
    }

    /// Says that the call is a request through a gateway, for gateway rules.
    pub fn gateway(mut self, mode: ResourceMode, request: &'a dyn GatewayRequest) -> Self {
        self.call = self.call.gateway(mode, request);
        self
    }

    /// Lets the call borrow from the next half second if this one is used up.
    pub fn prioritized(mut self) -> Self {
        self.call = self.call.prioritized();
        self
    }

    /// Says that it is a request to this service, at which system rules look. Others go out.
    pub fn inbound(mut self) -> Self {
        self.call = self.call.entry_type(EntryType::In);
        self
    }

    /// Classifies the resource, for metrics; see [`Call::resource_type`].
    pub fn resource_type(mut self, resource_type: u8) -> Self {
        self.call = self.call.resource_type(resource_type);
        self
    }

    /// Asks for `count` tokens. It is one call in progress all the same.
    pub fn count(mut self, count: u32) -> Self {
        self.call = self.call.count(count);
        self
    }

    /// Notes what each slot says; see [`Engine::trace`].
    pub fn traced(mut self, trace: &'a mut Trace) -> Self {
        self.call = self.call.trace(trace);
        self
    }

    /// What the call can expect now, without asking for it: how much is left, and when it may be
    /// made; see
    /// [`limiter::local::LocalEngine::outlook`].
    #[must_use]
    pub fn outlook(&self) -> Outlook {
        self.engine.local().outlook(self.engine.now(), &self.call)
    }

    /// Asks for the call, and waits as long as rules make it wait, without blocking the thread.
    ///
    /// Dropped while it waits, the call is given up: nothing of it is in progress, and its turn
    /// stays used.
    ///
    /// # Errors
    ///
    /// The refusal.
    ///
    /// # Panics
    ///
    /// When it has to wait outside of a Tokio runtime with timers.
    pub async fn acquire(self) -> Result<Guard, Block> {
        let Self { engine, call } = self;
        let mut now = engine.now();
        let mut step = engine.local().enter(now, call);
        let mut held = Vec::new();
        loop {
            let waiting = match step {
                Step::Passed(entry) => return Ok(Guard::new(engine, entry, held)),
                Step::Blocked(block) => return Err(block),
                Step::Wait(waiting) => waiting,
                Step::Ask(asking) => {
                    let said = engine.ask(asking.question()).await;
                    held.extend(said.held);
                    now = engine.now().max(now);
                    step = asking.resume(now, said.pass);
                    continue;
                }
            };
            let (wait, due) = (waiting.wait(), now.plus(waiting.wait()));
            sleep(wait).await;
            // The turn is not before its time, whatever the two clocks say.
            now = engine.now().max(due);
            step = waiting.resume(now);
        }
    }

    /// Asks for the call without waiting, in any code. A call that would have to wait is given up;
    /// its turn stays used, so asking again and again only moves the turns of others. A token server
    /// is not asked: only the [client](Engine::connect)'s leases decide, and a server in this
    /// process. While a namespace is over its limit, what is not lent under `overloadPolicy: share`
    /// is refused.
    ///
    /// # Errors
    ///
    /// The refusal, or how long the call would have to wait.
    pub fn try_acquire(self) -> Result<Guard, NotNow> {
        let Self { engine, call } = self;
        let mut step = engine.local().enter(engine.now(), call);
        loop {
            match step {
                Step::Passed(entry) => return Ok(Guard::new(engine, entry, Vec::new())),
                Step::Blocked(block) => return Err(NotNow::Blocked(block)),
                Step::Wait(waiting) => return Err(NotNow::MustWait(waiting.wait())),
                Step::Ask(asking) => {
                    let outcome = engine.ask_now(asking.question()).ok_or(NotNow::MustAsk)?;
                    if let Verdict::Waited(wait) = outcome.verdict {
                        return Err(NotNow::MustWait(wait));
                    }
                    step = asking.resume(engine.now(), Some(outcome.is_pass()));
                }
            }
        }
    }

    /// Asks for the call as [`Self::acquire`] does, and makes it. An `Err` and a panic of it count
    /// as an error.
    ///
    /// Dropped before its end, the call counts as one without error, since nobody knows; a time-out
    /// that is to count as an error belongs into `call`.
    ///
    /// # Errors
    ///
    /// The refusal, in which case `call` is dropped without having run, or the error of `call`.
    ///
    /// # Panics
    ///
    /// As `call`, and as [`Self::acquire`].
    pub async fn run<T, E>(
        self,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, RunError<E>> {
        self.run_with(async move |_: &mut Guard| call.await).await
    }

    /// The same for a call that is only prepared when it may be made, or that has calls
    /// [inside](Self::inside).
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    ///
    /// # Panics
    ///
    /// As [`Self::run`].
    pub async fn run_with<T, E>(
        self,
        call: impl AsyncFnOnce(&mut Guard) -> Result<T, E>,
    ) -> Result<T, RunError<E>> {
        let mut guard = self.acquire().await.map_err(RunError::Blocked)?;
        let result = call(&mut guard).await;
        if result.is_err() {
            guard.fail();
        }
        result.map_err(RunError::Failed)
    }
}
