//! Which resources have series of their own, and what those have counted that share one.
//!
//! A counter must not go back. So what a resource counts while it is among the others stays there,
//! and its own series, if it gets one, begins with what comes after.

use std::collections::{HashMap, HashSet};

use limiter::local::{OVERFLOW, ParamReading, ResourceReading, TOTAL_INBOUND};

use super::{RESOURCES_SHOWN_MAX, Rows};

/// What a resource counts for as long as it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) param_missing: u64,
    pub(super) values_over: u64,
}

#[derive(Debug, Default)]
pub(super) struct Names {
    /// Those with series of their own, each with what it had counted before, among the others. They
    /// stay while the engine has them.
    own: HashMap<Box<str>, Counted>,
    /// What each of the others had counted at the last scrape.
    others: HashMap<Box<str>, Counted>,
    /// The same of this scrape, as far as it has come.
    coming: HashMap<Box<str>, Counted>,
    /// What all others were shown to have counted, those that are gone included.
    shown: Counted,
}

impl Counted {
    pub(super) fn of(params: &ParamReading) -> Self {
        Self { param_missing: params.param_missing, values_over: params.overflow_uses }
    }

    pub(super) fn add(&mut self, more: Self) {
        self.param_missing += more.param_missing;
        self.values_over += more.values_over;
    }

    /// Each number by itself.
    fn each(self, other: Self, of: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            param_missing: of(self.param_missing, other.param_missing),
            values_over: of(self.values_over, other.values_over),
        }
    }
}

impl Names {
    /// Forgets the names of resources that the engine has no more.
    pub(super) fn begin(&mut self, resources: &[ResourceReading]) {
        let known: HashSet<&str> = resources.iter().map(|resource| &*resource.name).collect();
        self.own.retain(|name, _| known.contains(&**name));
    }

    /// The name that a resource has in a series: its own, or that of all others.
    pub(super) fn shown_as(&mut self, name: Box<str>, counted: Counted) -> Box<str> {
        if self.own.contains_key(&name) {
            return name;
        }
        if self.own.len() < RESOURCES_SHOWN_MAX && ![OVERFLOW, TOTAL_INBOUND].contains(&&*name) {
            let before = self.others.get(&name).copied().unwrap_or_default();
            self.own.insert(name.clone(), before);
            return name;
        }
        self.coming.entry(name).or_default().add(counted);
        OVERFLOW.into()
    }

    /// Brings what all resources have counted, in rows of their names, to what is shown.
    pub(super) fn end(&mut self, rows: &mut Rows, gone: Counted) {
        let mut others = gone;
        for (name, before) in &mut self.own {
            let Some(row) = rows.get_mut(name) else { continue };
            // A resource that went and came back has counted less: the rest is in what is gone.
            *before = before.each(row.counted, u64::min);
            row.counted = row.counted.each(*before, u64::saturating_sub);
            others.add(*before);
        }
        if let Some(row) = rows.get(OVERFLOW) {
            others.add(row.counted);
        }
        // What went while it was read is missing until the next scrape.
        self.shown = self.shown.each(others, u64::max);
        if self.shown != Counted::default() {
            rows.entry(OVERFLOW.into()).or_default().counted = self.shown;
        }
        self.others = std::mem::take(&mut self.coming);
    }
}
