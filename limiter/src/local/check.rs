//! Flow rules alone, for who limits a rate and has no call to guard.

use std::time::Duration;

use super::{
    Block, Call, LocalEngine,
    block::By,
    flow::{Ask, FlowPlace, FlowVerdict},
    observer::Telling,
    passage::{lock_ready, seat},
};
use crate::Tick;

/// What the flow rules of a resource say, asked by [`LocalEngine::check`].
#[derive(Clone, Debug, PartialEq)]
#[must_use = "nothing else is told of a refusal"]
pub enum Checked {
    /// Go.
    Pass,
    /// Go after the wait, which is not zero. Nothing is left to be asked then.
    Wait(Duration),
    /// Do not go.
    Blocked(Block),
}

impl LocalEngine {
    /// Asks the flow rules of `resource` for `n` tokens at `now`, and takes them: a rate limit and no
    /// more, at less than half the price of [`Self::enter`].
    ///
    /// No other slot is asked, and no token server: rules with `clusterMode` are checked here, as
    /// without one. Nothing is in progress afterwards, so rules on calls in progress see
    /// only guarded ones; and no response time, success or error is counted. The tokens count as
    /// those of a call without origin in the default context.
    ///
    /// Tokens that must wait for a turn are counted as passed when they are asked for, and every
    /// rule is compared then. A guarded call is counted and compared when its turn has come.
    pub fn check(&self, now: Tick, resource: &str, n: u32) -> Checked {
        if !self.shared.is_enabled() {
            return Checked::Pass;
        }
        let call = Call::new(resource).count(n);
        let context = self.shared.default_context();
        let resource = self.resource(&call, now);
        let mut state = lock_ready(self, &resource, &call, &mut None, true, now);
        let body = &mut state.body;
        let now = body.see(now);
        let seat = seat(body, &self.shared, &call, context);
        body.nodes.each(seat, |stat| stat.advance(now));
        let n = n.into();
        let ask = Ask {
            now,
            seat,
            origin: "",
            context: &context.name,
            n,
            prioritized: false,
            asks_servers: false,
        };
        let (mut longest, mut place) = (Duration::ZERO, FlowPlace::default());
        let refused = loop {
            match body.flow.check(&mut body.nodes, &ask, &mut place) {
                FlowVerdict::Wait(wait) => longest = longest.max(wait),
                // Only what has priority borrows, and only who wants to asks.
                FlowVerdict::Pass | FlowVerdict::Borrow(_) | FlowVerdict::Ask(_) => break None,
                FlowVerdict::Block(rule) => break Some(Block(By::Flow(rule))),
            }
        };
        let Some(block) = refused else {
            body.nodes.each(seat, |stat| {
                stat.take(n);
                stat.end();
            });
            return if longest.is_zero() { Checked::Pass } else { Checked::Wait(longest) };
        };
        body.nodes.each(seat, |stat| stat.block(n));
        drop(state);
        let mut telling = Telling::default();
        let seen = call.seen(context);
        self.shared.tell(&mut telling, |observer| observer.blocked(now, &seen, &block));
        telling.end();
        Checked::Blocked(block)
    }
}
