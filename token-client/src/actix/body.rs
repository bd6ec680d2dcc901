//! The body of an answer, which may end the call.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use actix_web::body::{BodySize, MessageBody};
use bytes::Bytes;
use pin_project_lite::pin_project;

use crate::Guard;

pin_project! {
    /// The body of an answer that came through a [`GuardMiddleware`](super::GuardMiddleware).
    #[derive(Debug)]
    pub struct GuardBody<B> {
        #[pin]
        inner: B,
        // Ends with the body.
        call: Option<Guard>,
    }
}

impl<B> GuardBody<B> {
    pub(super) const fn new(inner: B, call: Option<Guard>) -> Self {
        Self { inner, call }
    }
}

impl<B: MessageBody> MessageBody for GuardBody<B> {
    type Error = B::Error;

    fn size(&self) -> BodySize {
        self.inner.size()
    }

    fn poll_next(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, B::Error>>> {
        let this = self.project();
        let next = ready!(this.inner.poll_next(context));
        match &next {
            Some(Ok(_)) => {}
            Some(Err(_)) => {
                if let Some(mut call) = this.call.take() {
                    call.fail();
                }
            }
            None => drop(this.call.take()),
        }
        Poll::Ready(next)
    }
}
