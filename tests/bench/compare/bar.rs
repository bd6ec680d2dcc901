//! What a measurement must reach.

use crate::spread::Spread;

/// One number, what it must be, and what it was.
#[derive(Debug)]
pub(crate) struct Bar {
    pub(crate) what: String,
    limit: f64,
    /// Whether the number must be the limit at least, or at most.
    at_least: bool,
    /// Digits behind the point: two of a ratio.
    digits: usize,
    /// `None` when it could not be measured: a peer was skipped, say.
    pub(crate) measured: Option<Spread>,
    /// What else is to be known.
    pub(crate) note: Option<String>,
    /// Another bar decides, for the reason in `note`.
    pub(crate) undecided: bool,
}

impl Bar {
    /// A ratio that must be `limit` at least.
    pub(crate) fn at_least(what: String, limit: f64, measured: Option<Spread>) -> Self {
        Self { at_least: true, ..Self::at_most(what, limit, measured) }
    }

    /// A ratio that must be `limit` at most.
    pub(crate) fn at_most(what: String, limit: f64, measured: Option<Spread>) -> Self {
        Self { what, limit, at_least: false, digits: 2, measured, note: None, undecided: false }
    }

    /// The same of a number of something whole.
    pub(crate) fn whole(self) -> Self {
        Self { digits: 0, ..self }
    }

    /// Whether it is reached; `None`: not measured, or not decided here.
    pub(crate) fn reached(&self) -> Option<bool> {
        let measured = self.measured.filter(|_| !self.undecided)?.median;
        Some(if self.at_least { measured >= self.limit } else { measured <= self.limit })
    }

    /// A line of the page.
    pub(crate) fn show(&self) -> String {
        let Self { what, limit, digits, measured, note, .. } = self;
        let verdict = match self.reached() {
            Some(true) => "pass",
            Some(false) => "**FAIL**",
            None if self.undecided => "undecided",
            None => "not measured",
        };
        let sign = if self.at_least { '≥' } else { '≤' };
        let measured =
            measured.map_or(String::new(), |spread| format!(": measured {}", spread.show(*digits)));
        let note = note.as_ref().map_or(String::new(), |note| format!("; {note}"));
        format!("- {verdict}: {what}, bar {sign} {limit:.digits$}{measured}{note}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(median: f64) -> Option<Spread> {
        Some(Spread { median, min: 1.0, max: 9.0 })
    }

    #[test]
    fn a_bar_is_reached_from_its_side_and_at_it() {
        let at_most = |median| Bar::at_most("x".into(), 2.0, spread(median)).reached();
        assert_eq!([1.9, 2.0, 2.1].map(at_most), [Some(true), Some(true), Some(false)]);
        let at_least = |median| Bar::at_least("x".into(), 2.0, spread(median)).reached();
        assert_eq!([1.9, 2.0, 2.1].map(at_least), [Some(false), Some(true), Some(true)]);
        assert_eq!(Bar::at_most("x".into(), 2.0, None).reached(), None);
    }

    #[test]
    fn ratios_have_digits_and_whole_things_none() {
        let bar = Bar::at_most("x".into(), 2.0, spread(3.0));
        assert_eq!(bar.show(), "- **FAIL**: x, bar ≤ 2.00: measured 3.00 (1.00–9.00)");
        assert_eq!(bar.whole().show(), "- **FAIL**: x, bar ≤ 2: measured 3 (1–9)");
        assert_eq!(Bar::at_least("x".into(), 2.0, None).show(), "- not measured: x, bar ≥ 2.00");
    }
}
