//! The arguments of a call, as hot-parameter rules look at them.

use crate::Param;

/// One argument of a call: what a hot-parameter rule finds at its index.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg<'a> {
    /// There is none: rules on it let the call pass, as if the call had fewer arguments.
    Null,
    /// One value.
    One(Param<'a>),
    /// A collection or an array: a rule holds each element to its count, one after the other. An
    /// empty one passes.
    Many(&'a [Param<'a>]),
}

impl<'a> From<Param<'a>> for Arg<'a> {
    fn from(value: Param<'a>) -> Self {
        Self::One(value)
    }
}

impl<'a> From<Option<Param<'a>>> for Arg<'a> {
    fn from(value: Option<Param<'a>>) -> Self {
        value.map_or(Self::Null, Self::One)
    }
}

impl<'a> From<&'a [Param<'a>]> for Arg<'a> {
    fn from(values: &'a [Param<'a>]) -> Self {
        Self::Many(values)
    }
}

/// The values of the argument at `index`, which counts from the end when it is negative; `None`
/// when the call has no such argument, or it is null.
///
/// Sentinel resolves a negative index once, with the arguments of the first call, and looks at that
/// place ever after (`ParamFlowSlot.applyRealParamIdx`). Here each call is resolved by itself.
pub(super) fn values_at<'a>(args: &'a [Arg<'a>], index: i32) -> Option<&'a [Param<'a>]> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    let place = if index < 0 { args.len().checked_sub(distance)? } else { distance };
    match args.get(place)? {
        Arg::Null => None,
        Arg::One(value) => Some(std::slice::from_ref(value)),
        Arg::Many(values) => Some(values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_counts_from_the_front_or_from_the_end_of_each_call() {
        let values = [Param::Int(8), Param::Int(9)];
        let args = [Arg::One(Param::Int(1)), Arg::Null, Arg::Many(&values)];
        let one = [Param::Int(1)];
        let cases = [
            (0, Some(&one[..])),
            (1, None),
            (2, Some(&values[..])),
            (3, None),
            (-1, Some(&values[..])),
            (-2, None),
            (-3, Some(&one[..])),
            (-4, None),
            (i32::MAX, None),
            (i32::MIN, None),
        ];
        for (index, found) in cases {
            assert_eq!(values_at(&args, index), found, "{index}");
        }
        assert_eq!(values_at(&args[..1], -1), Some(&one[..]));
        assert_eq!(values_at(&[], 0), None);
        assert_eq!(values_at(&[], -1), None);
    }

    #[test]
    fn what_may_be_missing_is_null() {
        assert_eq!(Arg::from(None), Arg::Null);
        assert_eq!(Arg::from(Some(Param::Bool(true))), Arg::from(Param::Bool(true)));
    }
}
