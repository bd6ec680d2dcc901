//! Values with a threshold of their own: `paramFlowItemList`.

/// One entry of `paramFlowItemList`.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamItem {
    /// The value, with its Java type.
    pub value: ItemValue,
    /// Its threshold in place of the rule's; 0 lets nothing pass.
    pub count: f64,
}

/// A parameter value as a rule names it. The type is part of the value: int 1, long 1 and "1" are
/// three different values, as `equals` of Java's boxed types has it.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemValue {
    /// `int` or `java.lang.Integer`.
    Int(i32),
    /// `long` or `java.lang.Long`.
    Long(i64),
    /// `byte` or `java.lang.Byte`.
    Byte(i8),
    /// `double` or `java.lang.Double`.
    Double(f64),
    /// `float` or `java.lang.Float`.
    Float(f32),
    /// `short` or `java.lang.Short`.
    Short(i16),
    /// `boolean` or `java.lang.Boolean`.
    Bool(bool),
    /// Everything else.
    Str(Box<str>),
}

impl ItemValue {
    /// Reads `object` as `class` says (`ParamFlowRuleUtil.parseHotParamExceptionItems`); `None`
    /// when the text is no such value, or the class is `char`, which no request can carry.
    #[must_use]
    pub fn parse(object: &str, class: &str) -> Option<Self> {
        Some(match class {
            "int" | "java.lang.Integer" => Self::Int(object.parse().ok()?),
            "long" | "java.lang.Long" => Self::Long(object.parse().ok()?),
            "byte" | "java.lang.Byte" => Self::Byte(object.parse().ok()?),
            "short" | "java.lang.Short" => Self::Short(object.parse().ok()?),
            "double" | "java.lang.Double" => Self::Double(java_float(object)?.parse().ok()?),
            "float" | "java.lang.Float" => Self::Float(java_float(object)?.parse().ok()?),
            "boolean" | "java.lang.Boolean" => Self::Bool(object.eq_ignore_ascii_case("true")),
            "char" => return None,
            _ => Self::Str(object.into()),
        })
    }
}

/// Java's `Double.parseDouble` trims and takes a `d` or `f` suffix; it does not take `inf`.
fn java_float(text: &str) -> Option<&str> {
    let text = text.trim();
    let text = text.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(text);
    let unsigned = text.trim_start_matches(['+', '-']);
    (unsigned == "NaN" || unsigned == "Infinity" || !unsigned.contains(['i', 'n', 'I', 'N']))
        .then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_reads_its_own_values() {
        let cases = [
            ("5", "int", ItemValue::Int(5)),
            ("-6", "java.lang.Integer", ItemValue::Int(-6)),
            ("7", "long", ItemValue::Long(7)),
            ("8", "java.lang.Byte", ItemValue::Byte(8)),
            ("9", "short", ItemValue::Short(9)),
            ("1.5", "double", ItemValue::Double(1.5)),
            (" 2.5f ", "java.lang.Float", ItemValue::Float(2.5)),
            ("TRUE", "boolean", ItemValue::Bool(true)),
            ("yes", "java.lang.Boolean", ItemValue::Bool(false)),
            ("x", "java.lang.Character", ItemValue::Str("x".into())),
            ("x", "", ItemValue::Str("x".into())),
            ("x", "com.example.Unknown", ItemValue::Str("x".into())),
        ];
        for (object, class, value) in cases {
            assert_eq!(ItemValue::parse(object, class), Some(value), "{object} as {class}");
        }
    }

    #[test]
    fn what_the_class_cannot_hold_is_no_value() {
        for (object, class) in
            [("x", "int"), ("128", "byte"), ("1.5", "long"), ("inf", "double"), ("x", "char")]
        {
            assert_eq!(ItemValue::parse(object, class), None, "{object} as {class}");
        }
    }
}
