//! Parameter values on their way from the wire to the engine.

use limiter::Param;
use protocol::Params;

/// The values of a request in the engine's words, not copied.
pub(crate) fn values<'a>(params: Params<'a>) -> impl Iterator<Item = Param<'a>> {
    params.iter().map(|value| match value {
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
