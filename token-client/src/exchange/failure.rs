//! Errors of calls that had no answer.

use std::{convert::Infallible, error::Error, io};

use crate::{RunError, adaptive::AdaptiveError, bulkhead::BulkheadError};

/// Why a call had no answer.
#[diagnostic::on_unimplemented(
    note = "for an error of another crate: `.map_err(token_client::exchange::Sent)`"
)]
pub trait Failure {
    /// Whether a layer refused the call, and nothing was sent. It would be refused again: a retry
    /// changes nothing.
    fn is_refusal(&self) -> bool;
}

/// An error of another crate, which says that something was sent, or was tried to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct Sent<E>(pub E);

impl<E> Failure for Sent<E> {
    fn is_refusal(&self) -> bool {
        false
    }
}

impl<E: Failure> Failure for RunError<E> {
    fn is_refusal(&self) -> bool {
        match self {
            Self::Blocked(_) => true,
            Self::Failed(error) => error.is_refusal(),
        }
    }
}

impl<E: Failure> Failure for AdaptiveError<E> {
    fn is_refusal(&self) -> bool {
        match self {
            Self::Full => true,
            Self::TimedOut(_) => false,
            Self::Failed(error) => error.is_refusal(),
        }
    }
}

impl<E: Failure> Failure for BulkheadError<E> {
    fn is_refusal(&self) -> bool {
        match self {
            Self::Refused(_) => true,
            Self::Failed(error) => error.is_refusal(),
        }
    }
}

impl Failure for Infallible {
    fn is_refusal(&self) -> bool {
        match *self {}
    }
}

impl Failure for io::Error {
    fn is_refusal(&self) -> bool {
        false
    }
}

/// What is in the box is not looked at.
impl Failure for Box<dyn Error + Send + Sync> {
    fn is_refusal(&self) -> bool {
        false
    }
}
