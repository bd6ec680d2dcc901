//! Where concurrency tokens come from: a server, or the engine in this process.

use std::{num::NonZeroU64, sync::Arc};

use bytes::BytesMut;
use limiter::{Clock, ClusterEngine, OwnerId, Released, TokenId};
use protocol::{Request, Status, feature, kind};

use crate::{
    NoAnswer,
    line::{Call, Line},
    told::status,
};

/// Whom a client's holds are asked of.
#[derive(Debug)]
pub(crate) enum Desk {
    /// The server of the first connection. One connection carries all of it, so that a release
    /// comes before the acquire that was made after it, and the server sees one owner.
    Remote(Arc<Line>),
    /// The engine, of whose owners this client is one.
    Embedded { engine: Arc<ClusterEngine>, clock: Arc<dyn Clock>, owner: OwnerId },
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    Acquire { flow_id: i64, count: i32 },
    Renew { token: i64 },
    Release { token: i64 },
}

/// A server's word, and the token that it granted.
pub(super) type Reply = Result<(Status, Option<i64>), NoAnswer>;

impl Desk {
    /// Which connection can be asked; `None` when none can. A new one has another number.
    pub(super) fn session(&self) -> Option<NonZeroU64> {
        match self {
            Self::Remote(line) => line.session(feature::CONCURRENCY),
            Self::Embedded { .. } => Some(NonZeroU64::MIN),
        }
    }

    /// Resolves when there may be another session.
    pub(super) async fn changed(&self) {
        match self {
            Self::Remote(line) => line.greeted().await,
            Self::Embedded { .. } => std::future::pending().await,
        }
    }

    pub(super) async fn ask(&self, job: Job) -> Reply {
        match self {
            Self::Remote(line) => ask_server(line, job).await,
            Self::Embedded { engine, clock, owner } => {
                Ok(ask_engine(engine, clock.as_ref(), *owner, job))
            }
        }
    }

    /// Gives a token back without waiting for anything; false when there is no way to.
    pub(super) fn release(&self, token: i64) -> bool {
        match self {
            Self::Remote(line) => line.release(token),
            Self::Embedded { engine, clock, .. } => {
                // One that has ended by itself is as good as released.
                let _released = engine.concurrency().release(clock.now(), TokenId(token));
                true
            }
        }
    }
}

async fn ask_server(line: &Arc<Line>, job: Job) -> Reply {
    let kind = match job {
        Job::Acquire { .. } => kind::CONCURRENT_ACQUIRE,
        Job::Renew { .. } => kind::RENEW,
        Job::Release { token } => {
            let queued = line.release(token);
            return queued.then_some((Status::ReleaseOk, None)).ok_or(NoAnswer::Busy);
        }
    };
    let encode = |xid, out: &mut BytesMut| match job {
        Job::Acquire { flow_id, count } => {
            Request::ConcurrentAcquire { xid, flow_id, count }.encode(out)
        }
        Job::Renew { token } | Job::Release { token } => {
            Request::Renew { xid, token_id: token }.encode(out)
        }
    };
    let lines = std::slice::from_ref(line);
    let call = Call::new(kind, encode, lines, 0).needing(feature::CONCURRENCY);
    let reply = call.await?;
    let token = reply.granted();
    Ok(match reply.status() {
        // Granted, but nothing that could be given back.
        Some(Status::Ok) if kind == kind::CONCURRENT_ACQUIRE && token.is_none() => {
            (Status::Fail, None)
        }
        Some(status) => (status, token),
        // A type without a status never completes a request for tokens.
        None => (Status::Fail, None),
    })
}

fn ask_engine(
    engine: &ClusterEngine,
    clock: &dyn Clock,
    owner: OwnerId,
    job: Job,
) -> (Status, Option<i64>) {
    let (now, tokens) = (clock.now(), engine.concurrency());
    match job {
        Job::Acquire { flow_id, count } => {
            match engine.rules().acquire_concurrent(now, flow_id, count, owner) {
                Ok(Some(TokenId(token))) => (Status::Ok, Some(token)),
                Ok(None) => (Status::Blocked, None),
                Err(undecided) => (status(undecided), None),
            }
        }
        Job::Renew { token } => {
            let held = tokens.renew(now, TokenId(token), owner);
            (if held { Status::Ok } else { Status::AlreadyRelease }, None)
        }
        Job::Release { token } => match tokens.release(now, TokenId(token)) {
            Released::Ok => (Status::ReleaseOk, None),
            Released::AlreadyReleased => (Status::AlreadyRelease, None),
        },
    }
}
