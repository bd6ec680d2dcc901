//! The body of an answer, which may end the call.

use std::{
    borrow::Cow,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::{Ended, GuardLayer};
use crate::Guard;

pin_project! {
    /// The body of an answer that came through a [`GuardLayer`]: the service's, or that of a
    /// refusal.
    #[derive(Debug)]
    pub struct GuardBody<B> {
        #[pin]
        inner: Inner<B>,
        call: Option<Open>,
    }
}

pin_project! {
    #[project = InnerProjection]
    #[derive(Debug)]
    enum Inner<B> {
        Passed { #[pin] body: B },
        Refused { text: Bytes },
    }
}

/// A call that ends with its body.
#[derive(Debug)]
pub(super) struct Open {
    guard: Guard,
    /// What says whether the code at the end is an error; `None` if that is known.
    waits_for_code: Option<Arc<GuardLayer>>,
}

pub(super) fn open(guard: Guard, waits_for_code: Option<Arc<GuardLayer>>) -> Open {
    Open { guard, waits_for_code }
}

impl Open {
    /// The body has ended, with trailers or without.
    fn end(mut self, trailers: Option<&HeaderMap>) {
        let Some(protect) = &self.waits_for_code else { return };
        // Without a code it was cut off.
        let code = trailers.and_then(grpc_code);
        if code.is_none_or(|code| protect.is_error(Ended::Grpc(code))) {
            self.guard.fail();
        }
    }

    fn fail(mut self) {
        self.guard.fail();
    }
}

/// The code of gRPC, if these fields have one.
pub(super) fn grpc_code(fields: &HeaderMap) -> Option<u32> {
    fields.get("grpc-status")?.to_str().ok()?.parse().ok()
}

impl<B> GuardBody<B> {
    pub(super) fn passed(body: B, call: Option<Open>) -> Self {
        Self { inner: Inner::Passed { body }, call }
    }

    pub(super) fn refused(text: Cow<'static, str>) -> Self {
        let text = match text {
            Cow::Borrowed(text) => Bytes::from_static(text.as_bytes()),
            Cow::Owned(text) => text.into(),
        };
        Self { inner: Inner::Refused { text }, call: None }
    }
}

impl<B: Body> Body for GuardBody<B>
where
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let frame = match this.inner.project() {
            InnerProjection::Refused { text } => {
                let text = std::mem::take(text);
                let frame = (!text.is_empty()).then(|| Ok(Frame::data(text.into())));
                return Poll::Ready(frame);
            }
            InnerProjection::Passed { body } => ready!(body.poll_frame(context)),
        };
        match &frame {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref()
                    && let Some(call) = this.call.take()
                {
                    call.end(Some(trailers));
                }
            }
            Some(Err(_)) => {
                if let Some(call) = this.call.take() {
                    call.fail();
                }
            }
            None => {
                if let Some(call) = this.call.take() {
                    call.end(None);
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.inner {
            Inner::Passed { body } => body.is_end_stream(),
            Inner::Refused { text } => text.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Inner::Passed { body } => body.size_hint(),
            Inner::Refused { text } => SizeHint::with_exact(text.len() as u64),
        }
    }
}
