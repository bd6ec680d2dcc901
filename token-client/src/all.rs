//! Tokens of several rules at once.

use std::time::Duration;

use bytes::BytesMut;
use limiter::{All, Undecided};
use protocol::{Check, Checks, Explained, Request, Status, feature, kind};
use tokio::task::coop::consume_budget;

use crate::{
    Answer, Client, NoAnswer, What,
    client::Backend,
    reply::{Extended, Reply},
    told::status,
};

/// A server's answer to a request for tokens of several rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllAnswer {
    /// The outcome for all together: everything is taken with [`Status::Ok`] and
    /// [`Status::ShouldWait`], otherwise nothing is.
    pub status: Status,
    /// Index of the first that was not granted; `None` when all were, and when the server does not
    /// say.
    pub failed: Option<usize>,
    /// With [`Status::ShouldWait`], how long to wait before going on; otherwise zero.
    pub wait: Duration,
    /// With [`Status::Blocked`], how long until the one that failed would pass if nobody else asked;
    /// `None`: never.
    pub retry: Option<Duration>,
}

impl AllAnswer {
    fn new(status: Status) -> Self {
        Self { status, failed: None, wait: Duration::ZERO, retry: None }
    }

    fn of_reply(reply: &Reply) -> Self {
        let Reply::Extended(extended) = reply else { return Self::new(Answer::of(reply).status) };
        let Extended::AcquireAll { status, failed, wait_ns, .. } = **extended else {
            return Self::new(Status::Fail);
        };
        let time = Duration::from_nanos(wait_ns);
        Self {
            status,
            failed: failed.map(usize::from),
            wait: if status == Status::ShouldWait { time } else { Duration::ZERO },
            retry: (status == Status::Blocked && wait_ns != Explained::NEVER).then_some(time),
        }
    }

    pub(crate) fn of_engine(decided: Result<All, (usize, Undecided)>) -> Self {
        match decided {
            Ok(All::Taken { wait: Duration::ZERO }) => Self::new(Status::Ok),
            Ok(All::Taken { wait }) => Self { wait, ..Self::new(Status::ShouldWait) },
            Ok(All::Refused { index, retry }) => {
                Self { failed: Some(index), retry, ..Self::new(Status::Blocked) }
            }
            Err((index, why)) => Self { failed: Some(index), ..Self::new(status(why)) },
        }
    }
}

impl Client {
    /// Asks for tokens of 1 to 16 rules, each with or without priority: all are taken or none is.
    /// As [`acquire`](Self::acquire), it neither waits nor falls back.
    ///
    /// # Errors
    ///
    /// [`NoAnswer`], within the time-out; [`NoAnswer::Unsupported`] with a server that has no such
    /// request, as Sentinel's. When the future is dropped, the request is still sent.
    pub async fn acquire_all(&self, all: &[(What<'_>, bool)]) -> Result<AllAnswer, NoAnswer> {
        consume_budget().await;
        let counts = all.iter().map(|(what, _)| what.check()).collect::<Result<Vec<_>, _>>()?;
        let remote = match &self.inner.backend {
            Backend::Remote(remote) => remote,
            Backend::Embedded(embedded) => return Ok(embedded.all(all, &counts)),
        };
        let encode = |xid, out: &mut BytesMut| {
            let mut values = vec![BytesMut::new(); all.len()];
            let mut checks = Vec::with_capacity(all.len());
            for (((what, priority), count), buf) in all.iter().zip(&counts).zip(&mut values) {
                checks.push(Check { priority: *priority, what: what.on_wire(*count, buf)? });
            }
            let mut buf = BytesMut::new();
            let checks = Checks::write(&checks, &mut buf)?;
            Request::AcquireAll { xid, checks }.encode(out)
        };
        let reply = remote.call(kind::ACQUIRE_ALL, feature::ASK, encode).await?;
        Ok(AllAnswer::of_reply(&reply))
    }
}
