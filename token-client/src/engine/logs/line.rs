//! One line of a metric log: what a resource counted in one second (`MetricNode.java`).
//!
//! ```text
//! fat:  1700000000000|2023-11-14 22:13:20|GET:/a_b|5|1|5|1|12|0|3|1
//! thin: 1700000000000|GET:/a_b|5|1|5|1|12|0|3|1
//!       milliseconds  resource  pass block success exception rt occupied concurrency classification
//! ```

use std::{borrow::Cow, fmt};

use limiter::local::Second;

use super::local_time::Stamp;

/// What a resource counted in one second, as a metric log has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricLine {
    /// When the second began, in milliseconds since the epoch.
    pub timestamp_ms: u64,
    /// The resource, spelled as in the log: `|` and control characters are `_`.
    pub resource: Box<str>,
    /// Tokens that passed.
    pub pass: u64,
    /// Tokens that were refused.
    pub block: u64,
    /// Tokens of calls that ended.
    pub success: u64,
    /// Tokens of calls that ended with an error.
    pub exception: u64,
    /// Average time of the calls that ended, in milliseconds; if none did, the sum.
    pub rt_ms: u64,
    /// Tokens that were borrowed from the next half second.
    pub occupied: u64,
    /// 0: neither Sentinel nor this crate knows it.
    pub concurrency: u64,
    /// The resource's classification; see
    /// [`Attempt::resource_type`](crate::Attempt::resource_type).
    pub classification: u64,
}

impl MetricLine {
    /// The second since the epoch.
    #[must_use]
    pub const fn second(&self) -> u64 {
        self.timestamp_ms / 1_000
    }

    /// The line as Sentinel's `metric` command answers it, without an end.
    #[must_use]
    pub fn thin(&self) -> String {
        let mut out = format!("{}|{}|", self.timestamp_ms, spelled(&self.resource));
        let numbers = [
            self.pass,
            self.block,
            self.success,
            self.exception,
            self.rt_ms,
            self.occupied,
            self.concurrency,
            self.classification,
        ];
        push_numbers(&mut out, numbers);
        out
    }

    /// Reads a line of a log, without its end; `None` for what is none. The last three fields may be
    /// missing, as older versions of Sentinel left them out.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('|');
        let timestamp_ms = fields.next()?.parse().ok()?;
        let resource = fields.nth(1)?.into();
        let mut numbers = [0_u64; 8];
        let mut given = 0;
        for (number, field) in numbers.iter_mut().zip(fields) {
            *number = field.parse().ok()?;
            given += 1;
        }
        if given < 5 {
            return None;
        }
        let [pass, block, success, exception, rt_ms, occupied, concurrency, classification] =
            numbers;
        Some(Self {
            timestamp_ms,
            resource,
            pass,
            block,
            success,
            exception,
            rt_ms,
            occupied,
            concurrency,
            classification,
        })
    }
}

/// Appends the line of a log for what `resource` counted in a second that began at `stamp`.
pub(super) fn push_fat(
    out: &mut String,
    stamp: &Stamp,
    resource: &str,
    classification: u8,
    counted: &Second,
) {
    push(out, format_args!("{}|{stamp}|{}|", stamp.second * 1_000, spelled(resource)));
    let numbers = [
        counted.pass,
        counted.block,
        counted.success,
        counted.exception,
        counted.rt_for_log(),
        counted.occupied,
        0,
        u64::from(classification),
    ];
    push_numbers(out, numbers);
    out.push('\n');
}

/// A name as it stands in a log. Sentinel replaces `|` only, so that a name with a line feed in it
/// makes a line of its own there.
pub(super) fn spelled(name: &str) -> Cow<'_, str> {
    let is_bad = |c: char| c == '|' || c.is_control();
    if name.contains(is_bad) { name.replace(is_bad, "_").into() } else { name.into() }
}

fn push_numbers(out: &mut String, numbers: [u64; 8]) {
    for (at, number) in numbers.into_iter().enumerate() {
        if at > 0 {
            out.push('|');
        }
        push(out, format_args!("{number}"));
    }
}

pub(super) fn push(out: &mut String, arguments: fmt::Arguments<'_>) {
    // A string takes everything.
    let _ = fmt::Write::write_fmt(out, arguments);
}

#[cfg(test)]
mod tests {
    use super::{super::local_time::LocalTime, *};

    /// What Sentinel 1.8.9 wrote.
    const FAT: &str = "1700000000000|2023-11-14 22:13:20|GET:/a_b|5|1|5|1|12|0|0|1";

    #[test]
    fn a_line_is_written_and_read_as_sentinel_does() {
        let counted = Second {
            second: 1_700_000_000,
            pass: 5,
            block: 1,
            success: 5,
            exception: 1,
            rt_ms: 62,
            occupied: 0,
        };
        let mut out = String::new();
        push_fat(&mut out, &LocalTime::utc().at(1_700_000_000), "GET:/a|b", 1, &counted);
        assert_eq!(out, format!("{FAT}\n"));
        let line = MetricLine::parse(FAT).unwrap();
        assert_eq!(line.thin(), "1700000000000|GET:/a_b|5|1|5|1|12|0|0|1");
        assert_eq!((line.second(), line.rt_ms, line.classification), (1_700_000_000, 12, 1));
    }

    #[test]
    fn a_name_makes_neither_a_field_nor_a_line() {
        assert_eq!(spelled("a|b\r\n1|2\u{7f}ü"), "a_b__1_2_ü");
        assert_eq!(spelled("GET:/a"), "GET:/a");
    }

    #[test]
    fn lines_of_older_versions_are_read_and_others_are_not() {
        let old = MetricLine::parse("1000|x|r|1|2|3|4|5").unwrap();
        assert_eq!((old.rt_ms, old.occupied, old.classification), (5, 0, 0));
        let newer = MetricLine::parse("1000|x|r|1|2|3|4|5|6|7|8|9|what").unwrap();
        assert_eq!((newer.occupied, newer.concurrency, newer.classification), (6, 7, 8));
        for none in
            ["", "1000", "1000|x|r|1|2|3|4", "x|x|r|1|2|3|4|5", "1000|x|r|1|2|3|4|-5", "|||"]
        {
            assert_eq!(MetricLine::parse(none), None, "{none}");
        }
    }
}
