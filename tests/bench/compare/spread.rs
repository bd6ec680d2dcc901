//! Several measurements of one thing.

/// Median, smallest and largest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

/// As our benches write it: median, smallest, largest.
impl From<[f64; 3]> for Spread {
    fn from([median, min, max]: [f64; 3]) -> Self {
        Self { median, min, max }
    }
}

impl Spread {
    /// Of an even number of values the median is between the two in the middle. `None` when
    /// there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let below = values.get(values.len().checked_sub(1)? / 2)?;
        let above = values.get(values.len() / 2)?;
        Some(Self { median: (below + above) / 2.0, min: *values.first()?, max: *values.last()? })
    }

    /// `0.97 (0.95–0.99)`, with `digits` behind the point.
    pub(crate) fn show(&self, digits: usize) -> String {
        let Self { median, min, max } = self;
        format!("{median:.digits$} ({min:.digits$}–{max:.digits$})")
    }

    /// The same of a large number, in thousands or millions.
    pub(crate) fn show_large(&self) -> String {
        let (unit, name) = if self.median >= 1e6 { (1e6, "M") } else { (1e3, "k") };
        let digits = usize::from(self.median / unit < 100.0) + usize::from(unit > 1e3);
        let Self { median, min, max } = self;
        let (median, min, max) = (median / unit, min / unit, max / unit);
        format!("{median:.digits$} {name} ({min:.digits$}–{max:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.5, min: 1.0, max: 4.0 });
        assert_eq!(Spread::of([7.0]).unwrap().median, 7.0);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn numbers_are_shown_with_about_three_digits() {
        let shown = |median| Spread { median, min: 1e3, max: 2e6 }.show_large();
        assert_eq!(shown(220_400.0), "220 k (1–2000)");
        assert_eq!(shown(13_456_000.0), "13.46 M (0.00–2.00)");
        assert_eq!(shown(3_000.0), "3.0 k (1.0–2000.0)");
        assert_eq!(Spread::of([0.951, 0.99]).unwrap().show(2), "0.97 (0.95–0.99)");
    }
}
