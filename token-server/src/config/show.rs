//! The configuration in force, and the table of all keys.

use std::fmt::Write;

use super::{Config, KEYS};

/// The values in force as a configuration file with comments; reading it gives the same values.
#[must_use]
pub fn show(config: &Config) -> String {
    let mut text = String::new();
    let default = Config::default();
    for key in KEYS {
        let flag = key.flag.map(|flag| format!(", flag --{flag}")).unwrap_or_default();
        for line in wrapped(key.about) {
            put(&mut text, format_args!("# {line}\n"));
        }
        let (variable, default) = (key.variable(), (key.show)(&default));
        put(&mut text, format_args!("# Default {default}. Variable {variable}{flag}.\n"));
        put(&mut text, format_args!("{} = {}\n\n", key.name, (key.show)(config)));
    }
    text.truncate(text.trim_end().len() + 1);
    text
}

/// All keys as a table in Markdown, which `configuration.md` holds.
#[must_use]
pub fn table() -> String {
    let mut text = String::from("| key | flag | default | meaning |\n|---|---|---|---|\n");
    let default = Config::default();
    for key in KEYS {
        let flag = key.flag.map(|flag| format!("`--{flag}`")).unwrap_or_default();
        let (name, default) = (key.name, (key.show)(&default));
        put(&mut text, format_args!("| `{name}` | {flag} | `{default}` | {} |\n", key.about));
    }
    text
}

fn put(text: &mut String, line: std::fmt::Arguments<'_>) {
    text.write_fmt(line).expect("writing to a string cannot fail");
}

/// The text in lines of at most 78 characters.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + word.len() < 78 {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.into());
        }
    }
    lines
}
