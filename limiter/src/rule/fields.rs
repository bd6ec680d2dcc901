//! A field of each type: its value, or a mistake that names it and a value to go on with.

use super::{COUNT_MAX, object::Object, report::Report};

impl Object<'_> {
    /// A whole number in `min..=max`, or `default` when absent. A wrong one is reported and
    /// `default` goes on in its place.
    pub(super) fn int(
        &mut self,
        report: &mut Report<'_>,
        name: &str,
        default: i64,
        bounds: (i64, i64),
    ) -> i64 {
        self.int_of(report, name, "", default, bounds)
    }

    /// The same with its `unit` in words, for who reads of a mistake.
    pub(super) fn int_of(
        &mut self,
        report: &mut Report<'_>,
        name: &str,
        unit: &str,
        default: i64,
        (min, max): (i64, i64),
    ) -> i64 {
        let Some(value) = self.take(name).filter(|v| !v.is_absent()) else { return default };
        match value.int() {
            Some(n) if (min..=max).contains(&n) => n,
            _ => {
                let of = if unit.is_empty() { "" } else { " of " };
                let need = format!("must be a whole number{of}{unit} from {min} to {max}");
                self.error(report, name, &need);
                default
            }
        }
    }

    /// A whole number in `min..=max`, or `None` when absent. A wrong one is reported, and so is a
    /// fraction: this is for our fields, with which nobody expects Sentinel to cut it off.
    pub(super) fn whole(
        &mut self,
        report: &mut Report<'_>,
        name: &str,
        (min, max): (i64, i64),
    ) -> Option<i64> {
        let value = self.take(name).filter(|v| !v.is_absent())?;
        let is_whole = value.number().is_some_and(|n| n.fract() == 0.0);
        let number = value.int().filter(|n| is_whole && (min..=max).contains(n));
        if number.is_none() {
            self.error(report, name, &format!("must be a whole number from {min} to {max}"));
        }
        number
    }

    /// One of `codes`, each a number with its meaning; `default` when absent. A wrong one is
    /// reported with all that there are.
    pub(super) fn code<T: Copy>(
        &mut self,
        report: &mut Report<'_>,
        name: &str,
        default: T,
        codes: &[(i64, &str, T)],
    ) -> T {
        let Some(value) = self.take(name).filter(|v| !v.is_absent()) else { return default };
        let number = value.int();
        if let Some((.., code)) = codes.iter().find(|(code, ..)| Some(*code) == number) {
            return *code;
        }
        let all: Vec<String> =
            codes.iter().map(|(code, meaning, _)| format!("{code} ({meaning})")).collect();
        self.error(report, name, &format!("must be one of {}", all.join(", ")));
        default
    }

    /// A number in `0..=max`, or `None` when absent. A wrong one is reported with `what` it must be
    /// and how large it may be.
    pub(super) fn measure(
        &mut self,
        report: &mut Report<'_>,
        name: &str,
        what: &str,
        max: f64,
    ) -> Option<f64> {
        let value = self.take(name).filter(|v| !v.is_absent())?;
        let number = value.number().filter(|n| (0.0..=max).contains(n));
        if number.is_none() {
            let power = if max == COUNT_MAX { " (2^53)" } else { "" };
            self.error(report, name, &format!("must be {what}, from 0 to {max}{power}"));
        }
        number
    }

    pub(super) fn bool(&mut self, report: &mut Report<'_>, name: &str, default: bool) -> bool {
        let Some(value) = self.take_flag(name).filter(|v| !v.is_absent()) else { return default };
        value.bool().unwrap_or_else(|| {
            self.error(report, name, "must be true or false");
            default
        })
    }

    /// Text, numbers and booleans included, as written; `None` when absent.
    pub(super) fn text(&mut self, report: &mut Report<'_>, name: &str) -> Option<Box<str>> {
        match self.take(name)?.text() {
            Ok(text) => Some(text.into()),
            Err(wrong) => {
                self.error(report, name, &wrong);
                None
            }
        }
    }

    /// One of `choices`, compared without case; `default` when absent.
    pub(super) fn choice<T: Copy>(
        &mut self,
        report: &mut Report<'_>,
        name: &str,
        default: T,
        choices: &[(&str, T)],
    ) -> T {
        let Some(value) = self.take(name).filter(|v| !v.is_absent()) else { return default };
        let text = value.text().unwrap_or_default();
        if let Some((_, choice)) = choices.iter().find(|(c, _)| c.eq_ignore_ascii_case(&text)) {
            return *choice;
        }
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        self.error(report, name, &format!("must be one of {}", names.join(", ")));
        default
    }

    /// Warns that the field has no effect beside others if it `is_set` to anything but its default,
    /// and says what is in force `instead`.
    pub(super) fn idle(&self, report: &mut Report<'_>, name: &str, is_set: bool, instead: &str) {
        if is_set {
            self.warn(report, name, &format!("not used: {instead}"));
        }
    }

    /// Warns that the field means nothing here if it `is_set` to anything but its default, and
    /// says what happens `instead`.
    pub(super) fn unused(&self, report: &mut Report<'_>, name: &str, is_set: bool, instead: &str) {
        if is_set {
            self.warn(report, name, &format!("not used by a cluster rule: {instead}"));
        }
    }
}
