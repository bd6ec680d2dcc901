//! Patterns that a whole name must match: Java's `Matcher.matches`.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// Most memory of one compiled pattern, in bytes. `\w{64}` takes most of it, with all letters of
/// Unicode; `[a-z]{64}` a thousandth.
const SIZE_MAX: usize = 1 << 22;

/// A regular expression that a text matches as a whole or not at all, in time that grows with the
/// text and never explodes, whatever the expression.
///
/// What Java's expressions have and these do not: look-around, back-references, possessive
/// quantifiers, `\Q…\E`. In Java `\d`, `\w` and `\s` are ASCII; here they are Unicode.
#[derive(Clone)]
pub struct Pattern {
    written: Box<str>,
    whole: Regex,
}

impl Pattern {
    /// Compiles `written`.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in one line.
    pub fn new(written: &str) -> Result<Self, String> {
        // By itself first: `a)|(b` is none, though it would be one between parentheses.
        compile(written)?;
        let whole = compile(&format!(r"\A(?:{written})\z"))
            .or_else(|_| compile(&format!("\\A(?:{written}\n)\\z")))?;
        Ok(Self { written: written.into(), whole })
    }

    /// The expression as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Whether all of `text` matches.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.whole.is_match(text)
    }
}

fn compile(written: &str) -> Result<Regex, String> {
    let compiled = RegexBuilder::new(written).size_limit(SIZE_MAX).build();
    compiled.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the pattern takes too much memory".into(),
        error => {
            // The message draws the place over several lines; what is wrong stands on the last.
            let said = error.to_string();
            let reason = said.lines().last().unwrap_or_default();
            format!("no such pattern: {}", reason.trim_start_matches("error: "))
        }
    })
}

/// The same expression is the same pattern.
impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.written == other.written
    }
}

impl Eq for Pattern {}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.written).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_match(pattern: &str, text: &str) -> bool {
        Pattern::new(pattern).unwrap().is_match(text)
    }

    #[test]
    fn the_whole_text_must_match() {
        for (pattern, text, expected) in [
            ("/user/.*", "/user/1", true),
            ("/user/.*", "x/user/1", false),
            ("/user/[0-9]", "/user/12", false),
            ("a|ab", "ab", true),
            ("a|b", "ab", false),
            ("", "", true),
            ("", "a", false),
            ("a$", "a\n", false),
            ("(?x) a # the letter", "a", true),
            ("(?x) a # the letter", "a\n", false),
            ("(?i)ab", "AB", true),
        ] {
            assert_eq!(is_match(pattern, text), expected, "{pattern} on {text:?}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_said_in_one_line() {
        for (pattern, said) in [
            ("K08[", "no such pattern: unclosed character class"),
            ("a)|(b", "no such pattern: unopened group"),
            (r"(a)\1", "no such pattern: backreferences are not supported"),
            (
                "a(?=b)",
                "no such pattern: look-around, including look-ahead and look-behind, is not \
                 supported",
            ),
            (r"\w{9999}", "the pattern takes too much memory"),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap_err(), said, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_that_names_need_has_room() {
        assert!(is_match(r"/\w{1,64}/\d{1,20}/.*", "/größe/7/x"));
        assert!(is_match(r"(a*)*", &"a".repeat(10_000)));
        assert!(!is_match(r"(a*)*", &format!("{}b", "a".repeat(10_000))));
    }
}
