//! Layers for services that others call: each request is a call of a resource, and one that is
//! refused is answered with when to come back.
//!
//! `GuardLayer` is for services on tower: axum, tonic, hyper (feature `tower`). The middleware for
//! actix-web is `actix::GuardMiddleware` (feature `actix`). Both are a [`Protect`], so all that is
//! said there holds for either.
//!
//! | what             | is                                                                          |
//! |------------------|-----------------------------------------------------------------------------|
//! | a resource       | `METHOD:matched-route`, of gRPC `/package.Service/Method`                   |
//! | the origin       | what a function says, for `limitApp` and authority rules                    |
//! | arguments        | what functions say, for hot-parameter rules                                 |
//! | a tier           | `@tier` behind the name, with rules of its own                              |
//! | an error         | HTTP 5xx, or a gRPC code that says that the service failed                  |
//! | a refusal        | 429, 503 or 403, of gRPC its code, with `Retry-After` and what is left      |
//!
//! Rules that make calls wait hold a request back before the service sees it. A request whose client
//! has gone is over at once, wherever it is.

mod answer;
#[cfg(feature = "tower")]
mod body;
mod ended;
mod headers;
mod names;
mod protect;
mod request;
#[cfg(feature = "tower")]
mod tower;

pub use self::{
    answer::{Answer, Refusal},
    ended::Ended,
    headers::{Draft, RateLimitHeaders},
    names::{SHARED, UNMATCHED},
    protect::Protect,
    request::{WebRequest, header},
};
#[cfg(feature = "tower")]
pub use self::{
    body::GuardBody,
    tower::{GuardLayer, GuardService},
};
#[cfg(feature = "actix")]
pub(crate) use self::{headers::Fields, protect::Admitted};
