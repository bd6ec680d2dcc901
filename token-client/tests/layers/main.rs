//! The layers around real clients and servers, over real sockets, on a clock that stands still but
//! for waits.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "what fails here fails the test")]

mod adaptive;
mod deferral;
mod kit;
mod outgoing;
mod retry;
mod stack;
mod surge;
