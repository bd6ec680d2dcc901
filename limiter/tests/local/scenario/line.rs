//! The words of a line.

use std::str::FromStr;

/// `word name key=value …`.
pub(super) struct Line<'a> {
    pub(super) word: &'a str,
    name: Option<&'a str>,
    values: Vec<(&'a str, &'a str)>,
}

impl<'a> Line<'a> {
    pub(super) fn new(line: &'a str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let word = words.next().ok_or("no word")?;
        let (values, names): (Vec<&str>, Vec<&str>) = words.partition(|word| word.contains('='));
        let values = values.into_iter().filter_map(|word| word.split_once('=')).collect();
        Ok(Self { word, name: names.first().copied(), values })
    }

    pub(super) fn name(&self) -> Result<&'a str, String> {
        self.name.ok_or_else(|| "no name".into())
    }

    pub(super) fn get(&self, key: &str) -> Option<&'a str> {
        self.values.iter().find(|(name, _)| *name == key).map(|(_, value)| *value)
    }

    pub(super) fn number<T: FromStr>(&self, key: &str, default: T) -> Result<T, String> {
        let Some(value) = self.get(key) else { return Ok(default) };
        value.parse().map_err(|_| format!("{key} is no number"))
    }

    /// A list of one rule in JSON, with the fields that stand in the line; those of `fields` by
    /// their long names. With a `flowId` it is a cluster rule.
    pub(super) fn json(&self, fields: &[(&str, &str)]) -> Result<String, String> {
        let (mut rule, mut cluster) = (Vec::new(), Vec::new());
        for (key, value) in &self.values {
            let (_, field) =
                fields.iter().find(|(short, _)| short == key).ok_or(format!("unknown {key}"))?;
            let value = match *field {
                "regex" | "fallbackToLocalWhenFail" => format!("{}", *value == "1"),
                "paramFlowItemList" => items(value),
                _ => format!("{:?}", value.replace("_SP_", " ")),
            };
            let is_cluster = matches!(*field, "flowId" | "fallbackToLocalWhenFail");
            let fields = if is_cluster { &mut cluster } else { &mut rule };
            fields.push(format!("{field:?}: {value}"));
        }
        if !cluster.is_empty() {
            rule.push(format!(
                r#""clusterMode": true, "clusterConfig": {{{}}}"#,
                cluster.join(",")
            ));
        }
        Ok(format!("[{{{}}}]", rule.join(",")))
    }
}

/// `value|count|class`, with `;` between them.
fn items(text: &str) -> String {
    let item = |item: &str| {
        let mut parts = item.split('|');
        let [object, count, class] = [(); 3].map(|()| parts.next().unwrap_or(""));
        format!(r#"{{"object": {object:?}, "count": {count:?}, "classType": {class:?}}}"#)
    };
    format!("[{}]", text.split(';').map(item).collect::<Vec<_>>().join(","))
}
