//! What was found wrong in one rule, each with the line it stands on.

use std::cell::OnceCell;

use super::Finding;

/// Where the rule stands, and what was found wrong so far.
#[derive(Debug)]
pub(super) struct Report<'a> {
    source: &'a str,
    index: usize,
    /// The rule's own text and the line it starts on.
    text: &'a str,
    first_line: u32,
    /// Where the lines of `text` end. Looked for when the first finding asks.
    breaks: OnceCell<Vec<usize>>,
    pub(super) errors: &'a mut Vec<Finding>,
    pub(super) warnings: &'a mut Vec<Finding>,
}

impl<'a> Report<'a> {
    pub(super) fn new(
        source: &'a str,
        (index, text, first_line): (usize, &'a str, u32),
        errors: &'a mut Vec<Finding>,
        warnings: &'a mut Vec<Finding>,
    ) -> Self {
        Self { source, index, text, first_line, breaks: OnceCell::new(), errors, warnings }
    }

    /// Notes a mistake on the line of `at`, which is a part of the rule's text.
    pub(super) fn error(&mut self, at: &str, field: &str, value: &str, remedy: &str) {
        let finding = self.finding(at, field, value, remedy);
        self.errors.push(finding);
    }

    /// Notes what is odd and does no harm.
    pub(super) fn warn(&mut self, at: &str, field: &str, value: &str, remedy: &str) {
        let finding = self.finding(at, field, value, remedy);
        self.warnings.push(finding);
    }

    fn finding(&self, at: &str, field: &str, value: &str, remedy: &str) -> Finding {
        Finding {
            source: self.source.into(),
            line: Some(self.line(at)),
            index: Some(self.index),
            field: cut(field),
            value: cut(value),
            remedy: remedy.into(),
        }
    }

    fn line(&self, at: &str) -> u32 {
        let breaks = self
            .breaks
            .get_or_init(|| self.text.match_indices('\n').map(|(offset, _)| offset).collect());
        let offset = at.as_ptr().addr().saturating_sub(self.text.as_ptr().addr());
        let before = breaks.partition_point(|&end| end < offset);
        self.first_line.saturating_add(u32::try_from(before).unwrap_or(u32::MAX))
    }
}

/// A value or a name as a message shows it: its first line, and at most 60 characters of it.
fn cut(value: &str) -> Box<str> {
    let line = value.lines().next().unwrap_or("").trim_end();
    let end = line.char_indices().nth(60).map_or(line.len(), |(end, _)| end);
    let shown = line.get(..end).unwrap_or("");
    if shown.len() == value.len() { shown.into() } else { format!("{shown}…").into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_value_is_cut_and_stays_on_one_line() {
        assert_eq!(&*cut("7"), "7");
        assert_eq!(&*cut(&"é".repeat(60)), "é".repeat(60));
        assert_eq!(&*cut(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
        assert_eq!(&*cut("{\r\n  \"a\": 1\r\n}"), "{…");
    }

    #[test]
    fn a_place_is_on_the_line_that_its_first_byte_is_on() {
        let (mut errors, mut warnings) = (Vec::new(), Vec::new());
        let text = "a\nb\n\nc";
        let report = Report::new("s", (0, text, 10), &mut errors, &mut warnings);
        let lines: Vec<u32> = [0, 1, 2, 4, 5].map(|at| report.line(&text[at..])).into();
        assert_eq!(lines, [10, 10, 11, 12, 13]);
    }
}
