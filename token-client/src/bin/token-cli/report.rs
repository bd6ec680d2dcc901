//! What the user sees.

use std::{
    io::{self, Write},
    process::ExitCode,
    time::Duration,
};

/// How the command ended; the worst of several decisions counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    Passed,
    Refused,
    NoDecision,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Passed => 0,
            Exit::Refused => 1,
            // 2 is a wrong command line.
            Exit::NoDecision => 3,
        })
    }
}

/// Writes one line to stdout.
pub(crate) fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// Writes an error to stderr. A stderr that is gone leaves nobody to tell.
pub(crate) fn complain(error: &anyhow::Error) {
    let _gone = writeln!(io::stderr(), "error: {error:#}");
}

/// A time as people read it: three digits.
pub(crate) fn shown(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..999.5 => format!("{micros:.0} us"),
        ..9_995.0 => format!("{:.2} ms", micros / 1e3),
        ..99_950.0 => format!("{:.1} ms", micros / 1e3),
        ..999_500.0 => format!("{:.0} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (micros, text) in [
            (7, "7 us"),
            (999, "999 us"),
            (1_234, "1.23 ms"),
            (12_340, "12.3 ms"),
            (123_400, "123 ms"),
            (1_234_000, "1.23 s"),
        ] {
            assert_eq!(shown(Duration::from_micros(micros)), text);
        }
    }
}
