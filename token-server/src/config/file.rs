//! The configuration file: TOML, one flat list of keys.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::{Config, ConfigError, Given, KEYS, Origin};

/// Reads `path` into `config`. `named` says who named the file, should it not be readable.
pub(crate) fn read(path: &Path, named: Origin, config: &mut Config, errors: &mut Vec<ConfigError>) {
    match std::fs::read_to_string(path) {
        Ok(text) => parse(&text, path, config, errors),
        Err(error) => {
            let path = path.display().to_string();
            errors.push(ConfigError::new(named, "config", &path, format!("cannot read: {error}")));
        }
    }
}

fn parse(text: &str, path: &Path, config: &mut Config, errors: &mut Vec<ConfigError>) {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count();
    let origin = |line| Origin::File { path: path.into(), line };
    let (table, mut wrong) = DeTable::parse_recoverable(text);
    let at = |error: &toml::de::Error| error.span().map_or(0, |span| span.start);
    wrong.sort_by_key(at);
    // What is left of a line that is no TOML would be a second complaint about it.
    let wrong_lines: Vec<usize> = wrong.iter().map(|error| line(at(error))).collect();
    for (error, line) in wrong.iter().zip(&wrong_lines) {
        errors.push(ConfigError::new(origin(*line), "", "", error.message().into()));
    }
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    for (name, value) in entries {
        let line = line(name.span().start);
        if wrong_lines.contains(&line) {
            continue;
        }
        let mut wrong = |remedy: &str| {
            let value = text.get(value.span()).unwrap_or_default();
            errors.push(ConfigError::new(origin(line), name.get_ref(), value, remedy.into()));
        };
        match KEYS.iter().find(|key| key.name == name.get_ref()) {
            Some(key) => match given(value.get_ref()) {
                Some(given) => config.set(key, &given, || origin(line), errors),
                None => wrong("one value, or a list of such"),
            },
            None => wrong("unknown key; --print-config shows all"),
        }
    }
}

/// The value as text, as a variable would hold it; `None` for tables and lists of lists.
fn given<'a>(value: &'a DeValue<'_>) -> Option<Given<'a>> {
    match value {
        DeValue::Array(items) => {
            items.iter().map(|item| scalar(item.get_ref())).collect::<Option<_>>().map(Given::List)
        }
        value => scalar(value).map(Given::Text),
    }
}

fn scalar<'a>(value: &'a DeValue<'_>) -> Option<&'a str> {
    match value {
        DeValue::String(text) => Some(text),
        // Another radix would be read as decimal.
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str()),
        DeValue::Float(number) => Some(number.as_str()),
        DeValue::Boolean(true) => Some("true"),
        DeValue::Boolean(false) => Some("false"),
        DeValue::Integer(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}
