//! What a flow has used under an algorithm other than the plain sliding window, with that algorithm
//! and its numbers.

use std::time::Duration;

use super::{
    Ask, Namespace,
    ledger::Held,
    machine::{Machine, NEVER, State},
    recipe::Recipe,
    saved::Restart,
};
use crate::{
    Tick,
    algorithm::{Saved, Verdict},
    sync::Arc,
};

/// A state, and the machine that it was used under last. What every decision looks at comes first.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Tuned {
    /// Of the rule that it was used under last.
    recipe: Arc<Recipe>,
    clients: u32,
    /// Nothing passes: the threshold is zero. The machine is the one before it was, or one that
    /// stands in, so that what was used keeps its meaning.
    is_shut: bool,
    machine: Machine,
    state: State,
    past: Option<Box<Past>>,
}

/// What few flows have: another machine before this one, or leases.
#[derive(Debug, Default)]
struct Past {
    /// When the machine took the place of another.
    since: Tick,
    /// What was on lease when the rule came to count so. It is in the state, and here for a rule
    /// that counts in another way again.
    lent: Box<[Held]>,
}

impl Tuned {
    /// Nothing used, under the machine of that rule and so many clients.
    pub(super) fn new(
        recipe: &Arc<Recipe>,
        count: f64,
        clients: u32,
        namespace: &Namespace,
    ) -> Self {
        let machine = recipe.machine(count, clients, namespace);
        let is_shut = machine.is_none();
        let machine = machine.unwrap_or_else(|| recipe.stand_in(namespace));
        let state = machine.fresh();
        Self { recipe: Arc::clone(recipe), clients, is_shut, machine, state, past: None }
    }

    /// Brings it to the machine of that rule and of the clients there are.
    #[inline(always)]
    pub(super) fn tune(
        &mut self,
        recipe: &Arc<Recipe>,
        count: &f64,
        namespace: &Namespace,
        now: Tick,
    ) {
        if recipe.clients(namespace) != self.clients || !Arc::ptr_eq(recipe, &self.recipe) {
            self.retune(recipe, count, namespace, now);
        }
    }

    #[inline(never)]
    fn retune(&mut self, recipe: &Arc<Recipe>, count: &f64, namespace: &Namespace, now: Tick) {
        let clients = recipe.clients(namespace);
        (self.recipe, self.clients) = (Arc::clone(recipe), clients);
        let machine = recipe.machine(*count, clients, namespace);
        self.is_shut = machine.is_none();
        if let Some(machine) = machine {
            machine.adopt(&mut self.state, &self.machine, now);
            self.machine = machine;
            self.past.get_or_insert_default().since = now;
        }
    }

    /// Takes `n` tokens. A refusal may not say when to come back.
    #[inline(always)]
    pub(super) fn take(&mut self, now: Tick, n: u64) -> Verdict {
        if self.is_shut { NEVER } else { self.machine.take(&mut self.state, now, n) }
    }

    /// As [`take`](Self::take), with the time of a refusal, or without taking anything, for one who waits no longer than it
    /// says.
    pub(super) fn ask(&mut self, now: Tick, n: u64, ask: Ask) -> Verdict {
        let Self { machine, state, .. } = self;
        match (self.is_shut, ask.peek) {
            (true, _) => NEVER,
            (false, true) => machine.peek(state, now, n, ask.max_wait),
            (false, false) => machine.take_within(state, now, n, ask.max_wait),
        }
    }

    /// Takes the tokens of those leases, at the latest moment at which any can be spent.
    pub(super) fn take_over(&mut self, leases: &[Held]) {
        let tokens = leases.iter().map(|held| u64::from(held.tokens)).sum();
        if let Some(end) = leases.iter().map(|held| held.until).max() {
            self.charge(end, tokens);
            self.past.get_or_insert_default().lent = leases.into();
        }
    }

    /// The leases that it took over.
    pub(super) fn leases(&self) -> &[Held] {
        self.past.as_ref().map_or(&[], |past| &past.lent)
    }

    pub(super) fn charge(&mut self, now: Tick, n: u64) {
        self.machine.charge(&mut self.state, now, n);
    }

    pub(super) fn granted(&mut self, now: Tick, n: u64, wait: Duration) {
        self.machine.granted(&mut self.state, now, n, wait);
    }

    pub(super) fn give_back(&mut self, now: Tick, n: u64, age: Duration) {
        let since = self.past.as_ref().map_or(Tick(0), |past| past.since);
        self.machine.give_back(&mut self.state, now, n, age, since);
    }

    pub(super) fn used(&self, now: Tick) -> u64 {
        self.machine.used(&self.state, now)
    }

    pub(super) fn is_idle(&self, now: Tick) -> bool {
        self.machine.is_idle(&self.state, now)
    }

    /// Forgets what was used, except for what is still on lease. What was taken before is not given
    /// back to a bucket any more: there it would come out of the leases.
    pub(super) fn reset(&mut self, now: Tick) {
        self.state = self.machine.fresh();
        let out: Vec<Held> =
            self.leases().iter().copied().filter(|held| held.until > now).collect();
        if let Some(past) = &mut self.past {
            past.since = now;
        }
        self.take_over(&out);
    }

    /// Gives back what a log allocates and does not need. What is decided later for a moment before
    /// `now` counts as if it were `now`, as always.
    pub(super) fn give_back_heap(&mut self, now: Tick) {
        self.machine.see(&mut self.state, now);
        if let State::Log(log) = &mut self.state {
            log.give_back_heap();
        }
    }

    /// Bytes that a log allocates.
    #[cfg(test)]
    pub(super) fn log_bytes(&self) -> u64 {
        if let State::Log(log) = &self.state { log.heap_bytes() } else { 0 }
    }

    pub(super) fn save(&self, now: Tick) -> Option<Saved> {
        self.machine.save(&self.state, now)
    }

    /// With what was saved; `None` where that means something else.
    pub(super) fn restored(
        mut self,
        saved: &Saved,
        lent: Vec<Held>,
        restart: Restart,
    ) -> Option<Self> {
        self.state = self.machine.restore(saved, restart.behind)?;
        self.past = Some(Box::new(Past { since: restart.at, lent: lent.into() }));
        Some(self)
    }
}
