//! One value as it stands in the text, and what fastjson, the parser of Sentinel 1.8, makes of it
//! in a field of each type (`TypeUtils.castToInt` and its neighbours, 1.2.83).

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::COUNT_MAX;

/// One JSON value, uncut. What is in it was checked for its grammar, and for nothing else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Value<'t>(&'t str);

impl<'t> Value<'t> {
    pub(super) fn new(value: &'t RawValue) -> Self {
        Self(value.get())
    }

    /// The value as somebody wrote it.
    pub(super) fn written(self) -> &'t str {
        self.0
    }

    pub(super) fn is_null(self) -> bool {
        self.0 == "null"
    }

    /// Whether it stands for no value in a field that is not text.
    pub(super) fn is_absent(self) -> bool {
        matches!(self.0, "null" | "\"\"" | "\"null\"" | "\"NULL\"")
    }

    /// A whole number: a fraction is cut off, text is read as the number that stands in it,
    /// `true` is 1. `None` beyond an `i64`, or beyond 2^53 in any but plain digits.
    pub(super) fn int(self) -> Option<i64> {
        let digits = self.digits()?;
        digits.parse().ok().or_else(|| {
            let number: f64 = digits.parse().ok()?;
            #[expect(clippy::cast_possible_truncation, reason = "within 2^53; the cut is Java's")]
            (number.abs() <= COUNT_MAX).then_some(number as i64)
        })
    }

    /// Any number, infinite and not-a-number included.
    pub(super) fn number(self) -> Option<f64> {
        self.digits()?.parse().ok()
    }

    /// `true`, 1 and their spellings; of other numbers Sentinel makes `false`.
    pub(super) fn bool(self) -> Option<bool> {
        if self.0.starts_with('"') {
            let text = self.text().ok()?.to_ascii_lowercase();
            return match &*text {
                "true" | "1" | "t" | "y" => Some(true),
                "false" | "0" | "f" | "n" => Some(false),
                _ => None,
            };
        }
        Some(self.int()? == 1)
    }

    /// Text; of numbers and booleans what is written.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub(super) fn text(self) -> Result<Cow<'t, str>, String> {
        let Some(inside) = self.0.strip_prefix('"') else {
            let nested = self.0.starts_with(['{', '[']);
            return if nested { Err("must be text".into()) } else { Ok(self.0.into()) };
        };
        if !inside.contains('\\') {
            return Ok(inside.strip_suffix('"').unwrap_or(inside).into());
        }
        serde_json::from_str(self.0).map(Cow::Owned).map_err(|error| {
            let said = error.to_string();
            said.split(" at line ").next().unwrap_or(&said).into()
        })
    }

    /// What of a number or of text is read as a number.
    fn digits(self) -> Option<Cow<'t, str>> {
        match self.0 {
            "true" => Some("1".into()),
            "false" => Some("0".into()),
            text if text.starts_with('"') => Some(self.text().ok()?.trim().replace(',', "").into()),
            number => Some(number.into()),
        }
    }

    /// The members of an object in their order, keys as written; `None` for anything else.
    pub(super) fn members(self) -> Option<impl Iterator<Item = (Self, Self)>> {
        let mut rest = self.0.strip_prefix('{')?;
        Some(std::iter::from_fn(move || Some((next(&mut rest)?, next(&mut rest)?))))
    }

    /// The elements of a list; an object stands for a list of one; `None` for anything else.
    pub(super) fn elements(self) -> Option<Vec<Self>> {
        if self.0.starts_with('{') {
            return Some(vec![self]);
        }
        let mut rest = self.0.strip_prefix('[')?;
        Some(std::iter::from_fn(|| next(&mut rest)).collect())
    }
}

/// The first value of `rest`, which from then on starts behind it and behind its separator; `None`
/// at the end of what `rest` is inside of.
fn next<'t>(rest: &mut &'t str) -> Option<Value<'t>> {
    let text = rest.trim_start_matches(is_blank);
    let (value, behind) = text.split_at_checked(len(text.as_bytes())?)?;
    let behind = behind.trim_start_matches(is_blank);
    *rest = behind.strip_prefix([':', ',']).unwrap_or(behind);
    Some(Value(value))
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Bytes of the value that `text` starts with. Its grammar was checked, so what is looked for is
/// only where it ends.
fn len(text: &[u8]) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    loop {
        let part = text.get(at..)?;
        at += match part.first()? {
            b'"' => text_len(part)?,
            b'{' | b'[' => {
                depth += 1;
                1
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                1
            }
            _ if depth > 0 => 1,
            _ => {
                let is_end =
                    |&byte: &u8| matches!(byte, b',' | b':' | b'}' | b']') || is_blank(byte.into());
                part.iter().position(is_end).unwrap_or(part.len())
            }
        };
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The same of text, quotes included.
fn text_len(text: &[u8]) -> Option<usize> {
    let mut bytes = text.iter().enumerate().skip(1);
    loop {
        match bytes.next()? {
            (at, b'"') => return Some(at + 1),
            (_, b'\\') => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_number_has_all_the_forms_that_fastjson_reads() {
        for (written, int) in [
            ("5", Some(5)),
            ("5.9", Some(5)),
            ("-5.9", Some(-5)),
            ("5e2", Some(500)),
            ("\"5\"", Some(5)),
            ("\" +5 \"", Some(5)),
            ("\"1,000\"", Some(1_000)),
            ("\"5.0\"", Some(5)),
            ("true", Some(1)),
            ("false", Some(0)),
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("1e400", None),
            ("\"NaN\"", None),
            ("\"0x10\"", None),
            ("\" \"", None),
            ("[5]", None),
            ("{}", None),
        ] {
            assert_eq!(Value(written).int(), int, "{written}");
        }
    }

    #[test]
    fn a_boolean_has_all_the_forms_that_fastjson_reads() {
        for (written, bool) in [
            ("true", Some(true)),
            ("1", Some(true)),
            ("1.5", Some(true)),
            ("\"TRUE\"", Some(true)),
            ("\"T\"", Some(true)),
            ("\"y\"", Some(true)),
            ("2", Some(false)),
            ("0", Some(false)),
            ("\"F\"", Some(false)),
            ("\"N\"", Some(false)),
            ("\"yes\"", None),
            ("\"2\"", None),
            ("[]", None),
        ] {
            assert_eq!(Value(written).bool(), bool, "{written}");
        }
    }

    #[test]
    fn objects_and_lists_come_apart_whatever_stands_in_them() {
        let object = r#"{ "a" : "}, \"b\": 1" , "c\"d":[1, {"e":2}],"g\\":"\\\"","f":-1.5e3 }"#;
        let members: Vec<_> = Value(object).members().unwrap().collect();
        let written: Vec<_> = members.iter().map(|(k, v)| (k.0, v.0)).collect();
        assert_eq!(
            written,
            [
                (r#""a""#, r#""}, \"b\": 1""#),
                (r#""c\"d""#, r#"[1, {"e":2}]"#),
                (r#""g\\""#, r#""\\\"""#),
                (r#""f""#, "-1.5e3"),
            ]
        );
        let elements = Value(r#"[ 1,"],", [] ,null,{}]"#).elements().unwrap();
        let written: Vec<_> = elements.iter().map(|v| v.0).collect();
        assert_eq!(written, ["1", r#""],""#, "[]", "null", "{}"]);
        assert!(Value("{ }").members().unwrap().next().is_none());
        assert!(Value("[ ]").elements().unwrap().is_empty());
        assert!(Value("[]").members().is_none() && Value("7").elements().is_none());
    }

    #[test]
    fn text_that_is_no_unicode_is_said_so() {
        assert_eq!(Value(r#""a\u00e9""#).text().unwrap(), "aé");
        assert_eq!(Value("5.50").text().unwrap(), "5.50");
        let error = Value(r#""\ud800""#).text().unwrap_err();
        assert_eq!(error, "unexpected end of hex escape");
    }
}
