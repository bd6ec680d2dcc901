//! Sentinel's cluster token protocol as values: bytes in, requests and responses out, and back.
//!
//! A token server reads requests and writes responses; a client does the opposite. Both cut the
//! stream into frames with a [`Deframer`] and read each frame body for itself, so a bad body
//! never harms the next one:
//!
//! ```
//! use bytes::BytesMut;
//! use protocol::{Deframer, Request, Response, Status};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The client asks for one token of flow 101 …
//! let mut sent = BytesMut::new();
//! Request::Flow { xid: 7, flow_id: 101, count: 1, priority: false }.encode(&mut sent)?;
//!
//! // … the server answers every frame that a read has brought …
//! let mut answers = BytesMut::new();
//! let mut deframer = Deframer::requests();
//! let mut input = &sent[..];
//! while let Some(body) = deframer.next(&mut input)? {
//!     let answer = match Request::decode(body) {
//!         Ok(Request::Flow { xid, .. }) => {
//!             Response::Flow { xid, status: Status::Ok, remaining: 9, wait_ms: 0 }
//!         }
//!         Ok(other) => Response::Head { xid: other.xid(), kind: other.kind(), status: Status::Fail },
//!         Err(bad) => bad.answer(),
//!     };
//!     answer.encode(&mut answers);
//! }
//! assert!(input.is_empty(), "what is left is the start of a frame, to be kept for the next read");
//!
//! // … and the client reads the answer.
//! let mut input = &answers[..];
//! let body = Deframer::responses().next(&mut input)?.expect("a whole frame");
//! assert_eq!(
//!     Response::decode(body)?,
//!     Response::Flow { xid: 7, status: Status::Ok, remaining: 9, wait_ms: 0 },
//! );
//! # Ok(())
//! # }
//! ```
//!
//! * [`Deframer`] cuts a stream into frame bodies and knows when a peer is none of ours.
//! * [`Request`] with [`Params`] and [`Param`] is what a client asks; a body that is none is a
//!   [`BadRequest`], which knows its [answer](BadRequest::answer).
//! * [`Response`] with its [`Status`] is what a server answers; three of the extension frames say
//!   more, in an [`ExtendedResponse`].
//!
//! Decoding borrows from the frame body and allocates only for text that is not UTF-8. Encoding
//! writes whole frames into a [`BytesMut`](bytes::BytesMut) and allocates only where that has no
//! room.
//!
//! The layouts are those of Sentinel's `sentinel-cluster` modules, on Sentinel's [`DEFAULT_PORT`].
//! Ours are concurrency tokens under types 3 and 4, which Sentinel numbers but never defined, HELLO
//! under type 16, and the extension frames under 17 to 22 (see [`kind`] and [`feature`]).
//!
//! The crate does no I/O, reads no clock, decides nothing about tokens, and does not match
//! answers to requests.

mod bad_request;
mod extended;
pub mod feature;
mod frame;
pub mod kind;
mod param;
mod request;
mod response;
mod status;
mod what;

pub use bad_request::{BadRequest, Malformed};
pub use extended::{Explained, ExtendedResponse, Mode, Unit};
pub use frame::{BAD_FRAMES_MAX, Deframer, FrameError, MAX_BODY_LEN, PREFIX_LEN};
pub use param::{Param, Params};
pub use request::{ANY_WAIT, Adjustment, EncodeError, Request, encode_param_request};
pub use response::{DecodeError, HELLO_VERSION, Response};
pub use status::Status;
pub use what::{CHECKS_MAX, Check, Checks, What};

/// Port that Sentinel's token server listens on (`ClusterConstants.DEFAULT_CLUSTER_SERVER_PORT`).
pub const DEFAULT_PORT: u16 = 18730;
