//! Whether the client has a server, and what went wrong when it has none.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

/// The client's connection to its servers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ConnectionState {
    /// No attempt has ended yet.
    Connecting,
    /// A server answers.
    Connected {
        /// Its address.
        server: SocketAddr,
    },
    /// No server answers; the client goes on trying.
    Disconnected {
        /// What happened with each address in the last round, in order.
        errors: Arc<[LinkError]>,
    },
    /// The client was closed.
    Closed,
    /// The process decides by itself, on an engine of its own.
    Embedded,
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting => f.write_str("still connecting"),
            Self::Connected { server } => write!(f, "connected to {server}"),
            Self::Disconnected { errors } => {
                for (i, error) in errors.iter().enumerate() {
                    write!(f, "{}{error}", if i == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Self::Closed => f.write_str("the client was closed"),
            Self::Embedded => f.write_str("embedded"),
        }
    }
}

/// Why there is no connection to a server, or no longer one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The name has no address.
    #[error("{server}: the name does not resolve: {cause}")]
    Resolve {
        /// Host and port as configured.
        server: Box<str>,
        /// What the resolver said.
        cause: Box<str>,
    },
    /// The connection was refused, or could not be made for another reason.
    #[error("{server}: cannot connect: {cause}")]
    Connect {
        /// The address.
        server: SocketAddr,
        /// What the system said.
        cause: Box<str>,
    },
    /// The connection was made, and the first ping was not answered.
    #[error("{server}: accepts connections, but does not answer a ping within {within:?}")]
    Silent {
        /// The address.
        server: SocketAddr,
        /// How long the client waited, from the start of the connect.
        within: Duration,
    },
    /// What came is not the answer to a ping.
    #[error("{server}: is not a token server: it sent \"{bytes}\"")]
    NotATokenServer {
        /// The address.
        server: SocketAddr,
        /// The first bytes that it sent, escaped.
        bytes: Box<str>,
    },
    /// The server closed the connection.
    #[error("{server}: closed the connection")]
    Closed {
        /// The address.
        server: SocketAddr,
    },
    /// The connection broke.
    #[error("{server}: the connection broke: {cause}")]
    Broken {
        /// The address.
        server: SocketAddr,
        /// What the system said.
        cause: Box<str>,
    },
    /// The server stopped sending while calls waited for it.
    #[error("{server}: has sent nothing for {silence:?} while it was asked")]
    Unresponsive {
        /// The address.
        server: SocketAddr,
        /// How long.
        silence: Duration,
    },
    /// What the server sent can no longer be cut into frames.
    #[error("{server}: sent what is no answer: {cause}")]
    Garbage {
        /// The address.
        server: SocketAddr,
        /// What was wrong with it.
        cause: Box<str>,
    },
}

/// No server answered within the time that [`Client::ready`](crate::Client::ready) was given.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no token server within {within:?}: {state}")]
pub struct NotReady {
    /// The time that was given.
    pub within: Duration,
    /// How the connection stood at the end of it.
    pub state: ConnectionState,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_that_failed_is_named() {
        let server = "[::1]:1".parse().unwrap();
        let errors = Arc::new([
            LinkError::Resolve { server: "nowhere:18730".into(), cause: "no such name".into() },
            LinkError::NotATokenServer { server, bytes: "HTTP/1.1 400\\r\\n".into() },
        ]);
        let state = ConnectionState::Disconnected { errors };
        let error = NotReady { within: Duration::from_secs(2), state };
        assert_eq!(
            error.to_string(),
            "no token server within 2s: nowhere:18730: the name does not resolve: no such name; \
             [::1]:1: is not a token server: it sent \"HTTP/1.1 400\\r\\n\""
        );
    }
}
