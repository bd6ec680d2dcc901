//! Parameter values on their way from the wire to the engine.

use limiter::Param;
use protocol::Params;

/// The values of a request in the engine's words. Each clone reads them from the body anew.
pub(crate) struct Values<'a, I> {
    params: Params<'a>,
    start: fn(Params<'a>) -> I,
    iter: I,
    taken: usize,
}

/// The values of `params`, not copied.
pub(crate) fn values<'a>(
    params: Params<'a>,
) -> Values<'a, impl Iterator<Item = protocol::Param<'a>>> {
    Values::new(params, |params| params.iter())
}

impl<'a, I> Values<'a, I> {
    fn new(params: Params<'a>, start: fn(Params<'a>) -> I) -> Self {
        Self { params, start, iter: start(params), taken: 0 }
    }
}

impl<'a, I: Iterator<Item = protocol::Param<'a>>> Iterator for Values<'a, I> {
    type Item = Param<'a>;

    fn next(&mut self) -> Option<Param<'a>> {
        let value = self.iter.next()?;
        self.taken += 1;
        Some(match value {
            protocol::Param::Int(v) => Param::Int(v),
            protocol::Param::Long(v) => Param::Long(v),
            protocol::Param::Byte(v) => Param::Byte(v),
            protocol::Param::Double(v) => Param::Double(v),
            protocol::Param::Float(v) => Param::Float(v),
            protocol::Param::Short(v) => Param::Short(v),
            protocol::Param::Bool(v) => Param::Bool(v),
            protocol::Param::Str(v) => Param::Str(v),
        })
    }
}

impl<'a, I: Iterator<Item = protocol::Param<'a>>> Clone for Values<'a, I> {
    fn clone(&self) -> Self {
        let mut iter = (self.start)(self.params);
        if let Some(last) = self.taken.checked_sub(1) {
            iter.nth(last);
        }
        Self { iter, ..*self }
    }
}
