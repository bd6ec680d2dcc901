//! Tokens of one rule, as the calls that ask more than "may I?" name them.

use bytes::BytesMut;
use protocol::{EncodeError, Params};

use crate::{BadCall, Param, RuleId, answer::check_tokens};

/// Tokens of a flow rule, or of each of some values under a hot-parameter rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What<'a> {
    /// Tokens of a flow rule.
    Flow {
        /// The rule's flow id.
        id: i64,
        /// How many, from 1 to `i32::MAX`.
        count: u32,
    },
    /// Tokens of a hot-parameter rule.
    Param {
        /// The rule's flow id.
        id: i64,
        /// How many for each value, from 1 to `i32::MAX`.
        count: u32,
        /// The values, at least one.
        params: &'a [Param<'a>],
    },
}

impl<'a> What<'a> {
    /// Tokens of a flow rule.
    #[must_use]
    pub fn flow(id: i64, count: u32) -> Self {
        Self::Flow { id, count }
    }

    /// Tokens of each of `params` under a hot-parameter rule.
    #[must_use]
    pub fn param(id: i64, count: u32, params: &'a [Param<'a>]) -> Self {
        Self::Param { id, count, params }
    }

    /// The rule.
    #[must_use]
    pub fn rule(&self) -> RuleId {
        match self {
            Self::Flow { id, .. } => RuleId::Flow(*id),
            Self::Param { id, .. } => RuleId::Param(*id),
        }
    }

    /// The count as the wire carries it, if this can be asked for at all.
    pub(crate) fn check(&self) -> Result<i32, BadCall> {
        match *self {
            Self::Flow { id, count } => check_tokens(id, count),
            Self::Param { params: [], .. } => Err(EncodeError::NoParams.into()),
            Self::Param { id, count, .. } => check_tokens(id, count),
        }
    }

    /// The same as a frame has it; `buf` is where its values are written.
    pub(crate) fn on_wire<'b>(
        &self,
        count: i32,
        buf: &'b mut BytesMut,
    ) -> Result<protocol::What<'b>, EncodeError> {
        let (flow_id, params) = match *self {
            Self::Flow { id, .. } => (id, None),
            Self::Param { id, params, .. } => (id, Some(Params::write(params, buf)?)),
        };
        Ok(protocol::What { flow_id, count, params })
    }
}
