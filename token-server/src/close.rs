//! Why a connection ended. What a peer causes is a debug log and a metric, never more.

use std::io;

use protocol::FrameError;

/// Why a connection was closed, or was found closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Close {
    /// The peer closed its side; everything it had sent was answered.
    #[error("closed by the peer")]
    PeerClosed,
    /// The network or the peer broke the connection.
    #[error("connection lost: {0}")]
    Lost(io::ErrorKind),
    /// The bytes are no stream of Sentinel frames.
    #[error(transparent)]
    Stream(#[from] FrameError),
    /// A frame was begun and not finished in time.
    #[error("a started frame was not finished in time")]
    SlowFrame,
    /// The peer did not take its answers in time.
    #[error("answers were not read in time")]
    SlowReader,
    /// Nothing came for as long as the operator lets a connection be silent.
    #[error("idle")]
    Idle,
    /// The server is shutting down; everything that was read was answered.
    #[error("server is shutting down")]
    Draining,
}

impl Close {
    /// Every value of the metric label `reason`; [`place`](Self::place) gives its position.
    pub(crate) const REASONS: [&'static str; 8] = [
        "peer",
        "lost",
        "not_a_peer",
        "bad_frames",
        "slow_frame",
        "slow_reader",
        "idle",
        "draining",
    ];

    /// Position of the reason in [`REASONS`](Self::REASONS).
    pub(crate) fn place(self) -> usize {
        match self {
            Self::PeerClosed => 0,
            Self::Lost(_) => 1,
            Self::Stream(FrameError::NotAPeer { .. }) => 2,
            Self::Stream(_) => 3,
            Self::SlowFrame => 4,
            Self::SlowReader => 5,
            Self::Idle => 6,
            Self::Draining => 7,
        }
    }
}

impl From<io::Error> for Close {
    fn from(error: io::Error) -> Self {
        Self::Lost(error.kind())
    }
}
