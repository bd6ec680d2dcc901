//! Slots of the user's in the chain.

use std::{borrow::Cow, fmt::Debug};

use super::{Arg, EntryType};
use crate::Tick;

/// A check of the user's at a position of the chain; see
/// [`LocalEngine::insert_slot`](super::LocalEngine::insert_slot).
///
/// No lock of the engine is held while a slot runs, so it may take its time and may make calls of
/// its own; limits before it that compare counters are looked at once more when it has let through,
/// since others may have passed meanwhile. Each `enter` that lets through is followed by exactly one
/// `exit`, on whatever thread. A panic goes to whoever made the call or ended it, after all others
/// have heard of the end; but one of `exit` while another unwinds ends there, as that of an
/// [`Observer`](super::Observer).
pub trait Slot: Debug + Send + Sync {
    /// Lets the call through, or refuses it with what the caller is told.
    ///
    /// # Errors
    ///
    /// The refusal.
    fn enter(&self, now: Tick, call: &Seen<'_>) -> Result<(), Cow<'static, str>>;

    /// The call has ended, was refused further down, or was given up.
    fn exit(&self, now: Tick, done: &Done<'_>) {
        let _ = (now, done);
    }
}

/// A call as a slot sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Seen<'a> {
    /// The resource that is called.
    pub resource: &'a str,
    /// The context that it is called in.
    pub context: &'a str,
    /// The caller; empty when unknown.
    pub origin: &'a str,
    /// Inbound or outbound.
    pub entry_type: EntryType,
    /// Tokens asked for.
    pub count: u32,
    /// Whether it may borrow.
    pub prioritized: bool,
    /// Its arguments.
    pub args: &'a [Arg<'a>],
}

/// What became of a call that a slot let through.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Done<'a> {
    /// The resource that was called.
    pub resource: &'a str,
    /// Tokens of the exit.
    pub count: u32,
    /// Milliseconds since the call was first made.
    pub rt_ms: u64,
    /// How it ended.
    pub outcome: Outcome,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was made and ended well.
    Success,
    /// It was made and ended with an error.
    Error,
    /// A later slot refused it.
    Refused,
    /// The caller went away before it was let through.
    GivenUp,
}
