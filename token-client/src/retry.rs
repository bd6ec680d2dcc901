//! Retries that do not make it worse: after the time that the server asks for, spread at random,
//! and no more of them than a budget allows.
//!
//! ```text
//! call ─► budget: + percent ─► send ─► refused or failed? ── no ──► answer
//!                               ▲              │ yes
//!                               │     may it be sent again? ─ no ─► answer
//!                               │     budget: − a retry ─── spent ─► answer
//!                               └── Retry-After + random ◄──┘
//! ```
//!
//! ```
//! use token_client::retry::RetryLayer;
//! use tower_layer::Layer;
//!
//! # let client = ();
//! let patient = RetryLayer::default().layer(client);
//! ```
//!
//! **What is sent again.** What was *refused*, whatever its method: an answer 429 or 503 with
//! `Retry-After`, with which a server says that it did nothing and when to come back. And what may be
//! done twice: an *idempotent* method (GET, HEAD, OPTIONS, TRACE, PUT, DELETE) that failed, or was
//! answered 429, 502, 503 or 504. [`RetryLayer::again_if`] decides otherwise. Nothing is sent again
//! whose body can be read only once, or that a layer beneath [refused](crate::exchange::Failure): this
//! one may stand before the others, so that each retry passes through them.
//!
//! **When.** Not before `Retry-After`, in seconds or as an HTTP date, and up to half as long after
//! it, so that those who were refused together do not come back together. Without it, after a random
//! time below a ceiling that doubles. Who would have to wait longer than [`Settings::wait_max`] gets
//! the answer as it is.
//!
//! **How many.** See [`Budget`]: of all retries of a layer and its clones together, at most a tenth
//! of the calls. A service that refuses half of its calls is offered 1.1 times of them, not 1.5.

mod after;
mod budget;
mod policy;
mod service;

pub use budget::{Budget, BudgetSettings};
pub use policy::{RetryLayer, Seen, Settings};
pub use service::Retry;
