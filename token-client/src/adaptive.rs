//! As many calls in progress as a server can take, which nobody has to know: the limits of
//! [`limiter::adaptive`] as a layer.
//!
//! ```
//! use token_client::{adaptive::AdaptiveLayer, limiter::adaptive::{AdaptiveLimiter, Vegas, Windowed}};
//! use tower_layer::Layer;
//!
//! # let service = ();
//! let limiter = AdaptiveLimiter::new(Windowed::averages(Vegas::default()));
//! let limited = AdaptiveLayer::new(limiter).layer(service);
//! ```
//!
//! It stands before a client, or around the handlers of a server, where something like axum's
//! `HandleErrorLayer` makes an answer of its errors. A call above the limit is refused
//! at once, as [`AdaptiveError::Full`]; others are timed, and tell the limit how they went when they
//! end. What a call says is decided by [`outcome`], or by [`AdaptiveLayer::classify`]:
//!
//! | the call | says |
//! |---|---|
//! | was answered, below 500 | *served*, after so long |
//! | was answered 429, 503 or 504, or with the gRPC code 4, 8 or 14 | *dropped*: the server has too much to do |
//! | was answered with another 5xx, or gRPC code 2, 12, 13 or 15 | nothing: it fails fast or slowly for reasons of its own |
//! | had no answer, or none [in time](AdaptiveLayer::timeout) | *dropped* |
//! | was given up by its caller | nothing; it is in progress no more |

mod service;

pub use service::{Adaptive, AdaptiveError, AdaptiveLayer, outcome};
