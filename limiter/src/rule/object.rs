//! The fields of one JSON object, in the order in which they stand, each with its place.
//!
//! Names are matched as fastjson matches them (`JavaBeanDeserializer.smartMatch`): whatever their
//! case, with `_` and `-` anywhere in them, and a boolean's with `is` before it. Of a field that
//! stands twice the first counts.

use std::borrow::Cow;

use super::{report::Report, value::Value};

/// Room for the fields of a rule as people write it.
const FIELDS_USUAL: usize = 16;

/// One object's fields. What is not taken was unknown.
#[derive(Debug)]
pub(super) struct Object<'t> {
    owner: Owner,
    /// Where the object itself stands.
    at: &'t str,
    fields: Vec<Field<'t>>,
}

/// Whose fields they are, for their paths.
#[derive(Clone, Copy, Debug)]
pub(super) enum Owner {
    Rule,
    ClusterConfig,
    Lease,
    Item(usize),
    ParamItem,
    Predicate(usize),
}

#[derive(Debug)]
struct Field<'t> {
    /// As it is written, in quotes.
    key: &'t str,
    name: Cow<'t, str>,
    value: Value<'t>,
    taken: bool,
}

impl Owner {
    pub(super) fn path(self, name: &str) -> String {
        match self {
            Self::Rule => name.into(),
            Self::ClusterConfig => format!("clusterConfig.{name}"),
            Self::Lease => format!("clusterConfig.lease.{name}"),
            Self::ParamItem => format!("paramItem.{name}"),
            Self::Predicate(index) => format!("predicateItems[{index}].{name}"),
            Self::Item(index) => format!("paramFlowItemList[{index}].{name}"),
        }
    }
}

impl<'t> Object<'t> {
    /// The fields of `value`, which stands at `at`; `None` when it is no object.
    pub(super) fn new(owner: Owner, at: &'t str, value: Value<'t>) -> Option<Self> {
        let mut fields = Vec::with_capacity(FIELDS_USUAL);
        fields.extend(value.members()?.map(|(key, value)| Field {
            key: key.written(),
            // A name that is no text is nobody's.
            name: key.text().unwrap_or_else(|_| key.written().into()),
            value,
            taken: false,
        }));
        Some(Self { owner, at, fields })
    }

    fn find(&self, name: &str) -> Option<&Field<'t>> {
        self.fields.iter().find(|field| same(&field.name, name))
    }

    /// A boolean's field.
    fn find_flag(&self, name: &str) -> Option<&Field<'t>> {
        self.fields.iter().find(|field| is_flag(&field.name, name))
    }

    /// Whether the field stands there, whatever its value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Whether the field has a value, for a field that is not text.
    pub(super) fn gives(&self, name: &str) -> bool {
        self.find(name).is_some_and(|field| !field.value.is_absent())
    }

    /// A boolean's value, without taking it.
    pub(super) fn flag(&self, name: &str) -> Option<Value<'t>> {
        self.find_flag(name).map(|field| field.value)
    }

    /// The field's value, `None` when it is absent or `null`.
    pub(super) fn take(&mut self, name: &str) -> Option<Value<'t>> {
        self.take_if(|written| same(written, name))
    }

    /// The same for a boolean.
    pub(super) fn take_flag(&mut self, name: &str) -> Option<Value<'t>> {
        self.take_if(|written| is_flag(written, name))
    }

    fn take_if(&mut self, is: impl Fn(&str) -> bool) -> Option<Value<'t>> {
        let field = self.fields.iter_mut().find(|field| is(&field.name))?;
        field.taken = true;
        Some(field.value).filter(|value| !value.is_null())
    }

    /// The object in a field; `None` when there is none.
    pub(super) fn object(&mut self, name: &str, owner: Owner) -> Option<Self> {
        let value = self.take(name)?;
        let at = self.find(name).map_or(self.at, |field| field.key);
        Self::new(owner, at, value)
    }

    /// Notes a mistake in the field, or in its absence.
    pub(super) fn error(&self, report: &mut Report<'_>, name: &str, remedy: &str) {
        let (at, value) = self.place(name);
        report.error(at, &self.owner.path(name), value, remedy);
    }

    /// Notes what is odd about the field.
    pub(super) fn warn(&self, report: &mut Report<'_>, name: &str, remedy: &str) {
        let (at, value) = self.place(name);
        report.warn(at, &self.owner.path(name), value, remedy);
    }

    /// Where the field's name stands, and its value; the object and nothing when it is absent.
    pub(super) fn place(&self, name: &str) -> (&'t str, &'t str) {
        match self.find(name).or_else(|| self.find_flag(name)) {
            Some(field) => (field.key, field.value.written()),
            None => (self.at, ""),
        }
    }

    /// Warns of every field that nobody took, but for the `known` ones that mean nothing here.
    pub(super) fn warn_unknown(&self, report: &mut Report<'_>, known: &[&str]) {
        let taken: Vec<&str> = self.fields.iter().filter(|f| f.taken).map(|f| &*f.name).collect();
        let is_one_of = |names: &[&str], name: &str| names.iter().any(|n| same(n, name));
        for field in self.fields.iter().filter(|f| !f.taken && !is_one_of(known, &f.name)) {
            let remedy = if is_one_of(&taken, &field.name) {
                "stands a second time, ignored; the first one counts, as in Sentinel"
            } else {
                "unknown field, ignored"
            };
            // As it is written, since a name may hold anything.
            let path = self.owner.path(field.key.trim_matches('"'));
            report.warn(field.key, &path, field.value.written(), remedy);
        }
    }
}

/// Whether two names are one to fastjson.
fn same(a: &str, b: &str) -> bool {
    a == b || letters(a).eq(letters(b))
}

fn letters(name: &str) -> impl Iterator<Item = u8> {
    let letters = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-'));
    letters.map(|byte| byte.to_ascii_lowercase())
}

fn is_flag(written: &str, name: &str) -> bool {
    same(written, name) || written.strip_prefix("is").is_some_and(|rest| same(rest, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_as_fastjson_matches_them() {
        for (written, name, is_same) in [
            ("flowId", "flowId", true),
            ("FLOWID", "flowId", true),
            ("flow_id", "flowId", true),
            ("-Flow--ID_", "flowId", true),
            ("flow id", "flowId", false),
            ("flowIds", "flowId", false),
            ("flowI", "flowId", false),
            ("", "flowId", false),
        ] {
            assert_eq!(same(written, name), is_same, "{written}");
        }
        assert!(
            is_flag("isClusterMode", "clusterMode") && is_flag("is_cluster_mode", "clusterMode")
        );
        assert!(!is_flag("IsClusterMode", "clusterMode"));
    }
}
