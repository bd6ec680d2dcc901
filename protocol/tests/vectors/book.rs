//! One file of vectors beside its part of `ours.json`.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// What Java did, as recorded.
#[derive(Debug)]
pub(crate) struct Vector {
    /// Name in the file; with the charset of the JVM behind it where the file has several.
    pub name: String,
    /// The whole vector, unless it holds a text that Rust cannot: a lone surrogate.
    pub json: Option<Value>,
    raw: Box<RawValue>,
}

impl Vector {
    /// The bytes Java wrote; none where its encoder threw.
    pub(crate) fn frame_hex(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Frame {
            frame_hex: Option<String>,
        }
        serde_json::from_str::<Frame>(self.raw.get()).expect("a vector has its bytes").frame_hex
    }
}

/// Vectors still to come, our differences, and the mismatches so far.
#[derive(Debug)]
pub(crate) struct Book {
    vectors: std::vec::IntoIter<Vector>,
    ours: Map<String, Value>,
    used: BTreeSet<(String, &'static str)>,
    mismatches: Vec<String>,
}

impl Book {
    pub(crate) fn open(file: &str, text: &str, count: usize) -> Self {
        #[derive(Deserialize)]
        struct File {
            vectors: Vec<Box<RawValue>>,
        }
        #[derive(Deserialize)]
        struct Names {
            name: String,
            jvm_charset: Option<String>,
        }
        let file_json: File = serde_json::from_str(text).expect("the file is JSON");
        assert_eq!(file_json.vectors.len(), count, "vectors in {file}");
        let vectors: Vec<_> = (file_json.vectors.into_iter())
            .map(|raw| {
                let names: Names = serde_json::from_str(raw.get()).expect("a vector has a name");
                let name = match names.jvm_charset {
                    Some(charset) => format!("{} {charset}", names.name),
                    None => names.name,
                };
                Vector { name, json: serde_json::from_str(raw.get()).ok(), raw }
            })
            .collect();
        let mut ours: Map<String, Value> =
            serde_json::from_str(include_str!("../../vectors/ours.json")).expect("JSON");
        let ours = match ours.remove(file) {
            Some(Value::Object(ours)) => ours,
            _ => Map::new(),
        };
        Self { vectors: vectors.into_iter(), ours, used: BTreeSet::new(), mismatches: Vec::new() }
    }

    pub(crate) fn next(&mut self) -> Option<Vector> {
        self.vectors.next()
    }

    /// Checks one side of a vector: `got` has to be our listed value, or else Java's.
    pub(crate) fn check(&mut self, vector: &Vector, side: &'static str, got: &Value, java: &Value) {
        let name = &vector.name;
        let listed = self.ours.get(name).and_then(|ours| ours.get(side));
        if listed.is_some() {
            self.used.insert((name.clone(), side));
        }
        if listed == Some(java) {
            self.mismatches.push(format!("{name}: {side} is listed as ours but is Java's"));
        }
        if got != listed.unwrap_or(java) {
            self.mismatches.push(format!(
                "{name}: {side}\n    got    {got}\n    listed {}\n    java   {java}",
                listed.unwrap_or(&Value::Null)
            ));
        }
    }

    /// Fails with the names of all mismatches.
    pub(crate) fn close(mut self) {
        for (name, entry) in &self.ours {
            let entry = entry.as_object().expect("an entry is an object");
            if entry.get("why").and_then(Value::as_str).is_none_or(str::is_empty) {
                self.mismatches.push(format!("{name}: listed without a reason"));
            }
            for side in entry.keys().filter(|&side| side != "why") {
                if !self.used.iter().any(|(n, s)| n == name && s == side) {
                    self.mismatches.push(format!("{name}: {side} is listed but never compared"));
                }
            }
        }
        let mismatches = &self.mismatches;
        assert!(
            mismatches.is_empty(),
            "{} mismatches:\n{}",
            mismatches.len(),
            mismatches.join("\n")
        );
    }
}
