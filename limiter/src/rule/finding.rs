//! A mistake in a rule set, said so that an operator can mend it without reading code.

use std::fmt;

/// One mistake (or warning) and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, or what else the text was called.
    pub source: Box<str>,
    /// Line in the text, from 1; `None` when the mistake is in no one place.
    pub line: Option<u32>,
    /// Position of the rule in its list, from 0; `None` when the text as a whole is wrong.
    pub index: Option<usize>,
    /// Path of the field, such as `clusterConfig.flowId`, cut to 60 characters; empty when no field
    /// is to blame.
    pub field: Box<str>,
    /// The value as it was written, cut to its first line and to 60 characters; empty when it is
    /// absent.
    pub value: Box<str>,
    /// What is wrong with it and what would do.
    pub remedy: Box<str>,
}

impl Finding {
    /// A mistake of a whole set, in no one place.
    pub(crate) fn of_set(source: &str, remedy: &str) -> Self {
        Self {
            source: source.into(),
            line: None,
            index: None,
            field: "".into(),
            value: "".into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        f.write_str(": ")?;
        if let Some(index) = self.index {
            write!(f, "rule {index}: ")?;
        }
        if !self.field.is_empty() {
            f.write_str(&self.field)?;
            if !self.value.is_empty() {
                write!(f, " = {}", self.value)?;
            }
            f.write_str(": ")?;
        }
        f.write_str(&self.remedy)
    }
}

/// Every mistake of a refused rule set; never empty. The rules in force stay as they were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleErrors(pub Vec<Finding>);

impl fmt::Display for RuleErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, finding) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RuleErrors {}
