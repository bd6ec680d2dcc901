//! The network as a connection needs it; a script in tests.

use std::{io, net::SocketAddr, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{
        TcpStream, lookup_host,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::ServerName;

/// How long a connection may be idle before the kernel asks whether the server is still there,
/// and how often it asks then.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Resolves names and opens connections.
pub(crate) trait Dial: Send + Sync + 'static {
    type Read: AsyncRead + Unpin + Send;
    type Write: AsyncWrite + Unpin + Send;

    /// The addresses of a server, in the order in which to try them.
    fn resolve(
        &self,
        server: &ServerName,
    ) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;

    fn connect(
        &self,
        address: SocketAddr,
    ) -> impl Future<Output = io::Result<(Self::Read, Self::Write)>> + Send;
}

/// The system's resolver, and TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tcp;

impl Dial for Tcp {
    type Read = OwnedReadHalf;
    type Write = OwnedWriteHalf;

    async fn resolve(&self, server: &ServerName) -> io::Result<Vec<SocketAddr>> {
        Ok(lookup_host((server.host(), server.port())).await?.collect())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<(OwnedReadHalf, OwnedWriteHalf)> {
        let stream = TcpStream::connect(address).await?;
        // A request is answered before the next one fills a segment.
        stream.set_nodelay(true)?;
        let keepalive =
            TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        Ok(stream.into_split())
    }
}
