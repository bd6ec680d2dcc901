//! Calls that a service makes: each one is an entry of the [`Engine`](crate::Engine).
//!
//! ```
//! use token_client::{Engine, limiter::local::LocalSettings, outgoing::OutgoingLayer};
//! use tower_layer::Layer;
//!
//! # let client = ();
//! let engine = Engine::new(LocalSettings::default());
//! let guarded = OutgoingLayer::new(engine).layer(client);
//! ```
//!
//! The resource of a call is [named](name()) after whom it is for, or as
//! [`OutgoingLayer::named`] says. Rules for that resource hold: it waits when they say so, and a
//! refusal is an error of its own, [`RunError::Blocked`](crate::RunError), with which the request was
//! not sent. Circuit breakers hear of answers 5xx, of the codes of gRPC that are like them, and of
//! calls without an answer, also such that a layer beneath refused.
//!
//! A call ends with the head of its answer. What is read of the body later is in no response time,
//! and a gRPC code in the trailers is not seen.

mod name;
mod service;

pub use name::name;
pub use service::{Outgoing, OutgoingLayer, is_failure};
