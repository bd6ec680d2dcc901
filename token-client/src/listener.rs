//! What a program can be told as it happens.

use std::fmt::Debug;

use crate::{ConnectionState, Outcome};

/// Which rule a check was about. Flow rules and hot-parameter rules are two id spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RuleId {
    /// A flow rule.
    Flow(i64),
    /// A hot-parameter rule.
    Param(i64),
}

impl std::fmt::Display for RuleId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flow(id) => write!(f, "flow rule {id}"),
            Self::Param(id) => write!(f, "param rule {id}"),
        }
    }
}

/// Hears what [`Client::check`](crate::Client::check) and [`Client::hold`](crate::Client::hold)
/// decide, and how the connection stands.
///
/// Methods are called where it happens, on the task of the caller or of the connection: they must
/// not block, and must not panic: that would end the connection's task. Each does nothing unless
/// it is written.
pub trait Listener: Debug + Send + Sync {
    /// A check or a hold was refused, whoever decided.
    fn blocked(&self, rule: RuleId, outcome: &Outcome) {
        let _ = (rule, outcome);
    }

    /// A check or a hold was decided without a server's decision; called before
    /// [`blocked`](Self::blocked) when it also refused.
    fn fell_back(&self, rule: RuleId, outcome: &Outcome) {
        let _ = (rule, outcome);
    }

    /// The server no longer holds what a [`Held`](crate::Held) of `count` calls stands for: it was
    /// started anew, or heard nothing of this client for too long. The client asks for it again.
    fn lost(&self, rule: RuleId, count: u32) {
        let _ = (rule, count);
    }

    /// A server holds again what was [lost](Self::lost).
    fn regained(&self, rule: RuleId, count: u32) {
        let _ = (rule, count);
    }

    /// The connection to the servers was made or lost. Failed attempts in a row are one event.
    fn connection(&self, state: &ConnectionState) {
        let _ = state;
    }
}

/// Any number of listeners, heard in order.
#[derive(Debug, Default)]
pub(crate) struct Listeners(pub(crate) Vec<Box<dyn Listener>>);

impl Listeners {
    pub(crate) fn blocked(&self, rule: RuleId, outcome: &Outcome) {
        self.0.iter().for_each(|listener| listener.blocked(rule, outcome));
    }

    pub(crate) fn fell_back(&self, rule: RuleId, outcome: &Outcome) {
        self.0.iter().for_each(|listener| listener.fell_back(rule, outcome));
    }

    pub(crate) fn lost(&self, rule: RuleId, count: u32) {
        self.0.iter().for_each(|listener| listener.lost(rule, count));
    }

    pub(crate) fn regained(&self, rule: RuleId, count: u32) {
        self.0.iter().for_each(|listener| listener.regained(rule, count));
    }

    pub(crate) fn connection(&self, state: &ConnectionState) {
        self.0.iter().for_each(|listener| listener.connection(state));
    }
}
