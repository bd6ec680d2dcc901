//! Values of parameters, as the vectors write them: a tag for the Java type, and the text.

use std::borrow::Cow;

use limiter::{Param, rule::ItemValue};
use serde_json::Value;

/// A value that is equal to another exactly when Java's boxed values are: type, then text with
/// one NaN and two zeros.
pub(crate) type Key = (&'static str, String);

/// The values of one step.
pub(crate) fn read(list: &Value) -> Result<Vec<Param<'_>>, String> {
    let list = list.as_array().ok_or("column 2 is no list of values")?;
    let read = list.iter().map(|pair| param(pair).ok_or(format!("{pair} is no value")));
    read.collect()
}

fn param(pair: &Value) -> Option<Param<'_>> {
    let [tag, value] = pair.as_array()?.as_slice() else { return None };
    let text = value.as_str().map_or_else(|| Cow::Owned(value.to_string()), Cow::Borrowed);
    Some(match tag.as_str()? {
        "i" => Param::Int(text.parse().ok()?),
        "l" => Param::Long(text.parse().ok()?),
        "b" => Param::Byte(text.parse().ok()?),
        "d" => Param::Double(text.parse().ok()?),
        "f" => Param::Float(text.parse().ok()?),
        "s" => Param::Short(text.parse().ok()?),
        "z" => Param::Bool(text.parse().ok()?),
        "t" => Param::Str(text),
        _ => return None,
    })
}

pub(crate) fn key(param: &Param<'_>) -> Key {
    match param {
        Param::Int(v) => ("i", v.to_string()),
        Param::Long(v) => ("l", v.to_string()),
        Param::Byte(v) => ("b", v.to_string()),
        Param::Double(v) if v.is_nan() => ("d", "nan".into()),
        Param::Double(v) => ("d", format!("{:x}", v.to_bits())),
        Param::Float(v) if v.is_nan() => ("f", "nan".into()),
        Param::Float(v) => ("f", format!("{:x}", v.to_bits())),
        Param::Short(v) => ("s", v.to_string()),
        Param::Bool(v) => ("z", v.to_string()),
        Param::Str(v) => ("t", v.to_string()),
    }
}

pub(crate) fn item_key(value: &ItemValue) -> Key {
    key(&value.into())
}
