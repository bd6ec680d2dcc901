//! What to say about a text that is no JSON.
//!
//! fastjson takes more than JSON: comments, trailing commas, single quotes, names without quotes
//! and so on. We do not: every other tool of an operator refuses such a file, and what fastjson
//! makes of one is not always what was meant.

use serde_json::{Error, error::Category};

use super::Finding;

/// The mistake that stopped the parser, with its line and, where it is a known one, what to do.
pub(super) fn finding(text: &str, source: &str, error: &Error) -> Finding {
    let line = u32::try_from(error.line()).ok().filter(|&line| line > 0);
    let mut remedy = format!("must be a JSON array of rules: {error}");
    if let Some(hint) = hint(text, error) {
        remedy = format!("{remedy}; {hint}");
    }
    Finding { line, ..Finding::of_set(source, &remedy) }
}

fn hint(text: &str, error: &Error) -> Option<&'static str> {
    if error.classify() != Category::Syntax {
        return None;
    }
    let said = error.to_string();
    if said.starts_with("control character") {
        return Some("write \\t, \\n and the like in text");
    }
    let is_token = said.starts_with("key must be") || said.starts_with("expected value");
    let line = text.lines().nth(error.line().checked_sub(1)?)?;
    let rest = line.get(error.column().checked_sub(1)?..)?;
    Some(match rest.chars().next()? {
        '/' => "take the comment out",
        '\'' => "use double quotes",
        ',' | '}' | ']' => "is there a comma too many?",
        letter if is_token && letter.is_alphabetic() => "put text and names into double quotes",
        _ => return None,
    })
}
