//! Values as they are written, whether in the file, in a variable or behind a flag.

use std::{fmt, ops::RangeInclusive, str::FromStr, time::Duration};

/// A value as it was given.
#[derive(Debug)]
pub(crate) enum Given<'a> {
    /// One value: any scalar of the file, or the text of a variable or flag.
    Text(&'a str),
    /// A list, which only the file can have.
    List(Vec<&'a str>),
}

/// What would do instead of the value that was given.
pub(crate) type Remedy = String;

impl fmt::Display for Given<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::List(items) => write!(f, "{items:?}"),
        }
    }
}

impl<'a> Given<'a> {
    /// The one value.
    pub(crate) fn text(&self) -> Result<&'a str, Remedy> {
        match self {
            Self::Text(text) => Ok(text.trim()),
            Self::List(_) => Err("one value, not a list".into()),
        }
    }

    /// The values of a list; a text is split at its commas, an empty one is the empty list.
    pub(crate) fn list<T>(
        &self,
        read: impl Fn(&str) -> Result<T, Remedy>,
    ) -> Result<Vec<T>, Remedy> {
        let items: &mut dyn Iterator<Item = &str> = match self {
            Self::Text(text) => &mut text.split(',').filter(|item| !item.trim().is_empty()),
            Self::List(items) => &mut items.iter().copied(),
        };
        items.map(|item| read(item.trim())).collect()
    }

    /// A value of a type that can read itself.
    pub(crate) fn parse<T: FromStr>(&self, remedy: &str) -> Result<T, Remedy> {
        self.text()?.parse().map_err(|_| remedy.into())
    }

    /// `off` as `None`, or what `read` makes of it.
    pub(crate) fn or_off<T>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, Remedy>,
    ) -> Result<Option<T>, Remedy> {
        if self.text()? == "off" { Ok(None) } else { read(self).map(Some) }
    }

    /// A whole number in `range`.
    pub(crate) fn whole(&self, range: RangeInclusive<usize>) -> Result<usize, Remedy> {
        let remedy = || format!("a whole number from {} to {}", range.start(), range.end());
        // `1_000` is a number in TOML.
        let digits = self.text()?.replace('_', "");
        let number = digits.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(remedy)
    }

    /// A number that is not negative, nor infinite.
    pub(crate) fn number(&self) -> Result<f64, Remedy> {
        let digits = self.text()?.replace('_', "");
        let number = digits.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0);
        number.ok_or_else(|| "a number, 0 or more".into())
    }

    /// A time of at least one millisecond.
    pub(crate) fn millis(&self) -> Result<Duration, Remedy> {
        self.whole(1..=DAY_MS).map(|ms| Duration::from_millis(ms as u64))
    }

    /// A time in seconds; 0 is `None`.
    pub(crate) fn seconds_or_never(&self, max: usize) -> Result<Option<Duration>, Remedy> {
        let seconds = self.whole(0..=max)? as u64;
        Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
    }
}

/// Longest time that a time-out may be set to.
const DAY_MS: usize = 24 * 3_600 * 1_000;
