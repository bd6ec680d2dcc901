//! A flow's counter as an object: to give back to, to charge and to reset.

use std::time::Duration;

use super::Flow;
use crate::{Tick, sync::lock};

impl Flow {
    /// Gives back `count` tokens that were taken at most `age` ago and not used. What no longer
    /// counts is not given back, since it is there again already.
    pub(crate) fn give_back(&self, now: Tick, count: u32, age: Duration) {
        let Some(counter) = self.counter.get() else { return };
        let used = &mut *lock(&counter.0);
        match &self.recipe {
            Some(recipe) => self.tuned(used, recipe, now).give_back(now, count.into(), age),
            None => {
                let shape = self.sliding.shape;
                let (ring, _) = used.window(shape, now);
                let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
                let since = Tick(now.0.saturating_sub(age_ns));
                ring.give_back(shape, now, since, count.into());
            }
        }
    }

    /// Takes `count` tokens more, even over the limit; whoever asks next waits until they are gone.
    pub(crate) fn charge(&self, now: Tick, count: u32) {
        let used = &mut *self.lock();
        self.take_more(used, now, count.into());
        used.passed.advance(&mut used.others, now);
        used.passed.add_tokens(count.into());
    }

    /// Takes `count` tokens that were granted elsewhere, to be used after `wait`; see
    /// [`Machine::granted`](crate::cluster::machine::Machine::granted).
    pub(crate) fn granted(&self, now: Tick, count: u32, wait: Duration) {
        let used = &mut *self.lock();
        match &self.recipe {
            Some(recipe) => self.tuned(used, recipe, now).granted(now, count.into(), wait),
            None => used.window(self.sliding.shape, now).0.charge(count.into()),
        }
    }

    /// Forgets what was used. Tokens on lease cannot be called back and count on; calls in
    /// progress do, too.
    pub(crate) fn reset(&self, now: Tick) {
        let Some(counter) = self.counter.get() else { return };
        let used = &mut *lock(&counter.0);
        match &self.recipe {
            Some(recipe) => self.tuned(used, recipe, now).reset(now),
            None => used.window(self.sliding.shape, now).0.clear(),
        }
    }
}
