//! The floor of what a server with our I/O costs: the same connection loop, with a handler that
//! cuts frames and answers each with a fixed OK under the request's number. It decides nothing and
//! counts nothing.

use std::{io::Write, net::Ipv4Addr};

use anyhow::Result;
use bytes::{Buf, BytesMut};
use protocol::Deframer;
use token_server::{
    Close, Options,
    io::{Handler, serve_connection},
    prepare,
};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

/// Answers every frame with OK.
#[derive(Debug)]
struct Echo(Deframer);

impl Handler for Echo {
    fn batch(&mut self, input: &mut BytesMut, out: &mut BytesMut) -> Result<(), Close> {
        let mut rest = &input[..];
        out.reserve(rest.len());
        while let Some(body) = self.0.next(&mut rest)? {
            let Some([a, b, c, d]) = body.first_chunk() else { continue };
            // Length, number, type, status, remaining, wait.
            out.extend_from_slice(&[0, 14, *a, *b, *c, *d, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        }
        let taken = input.len() - rest.len();
        input.advance(taken);
        Ok(())
    }
}

/// Prints `token ADDR:PORT` when it listens, and serves until it is ended.
#[tokio::main]
async fn main() -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    writeln!(std::io::stdout(), "token {}", listener.local_addr()?)?;
    let Options { patience, keep_alive, .. } = Options::default();
    let stop = CancellationToken::new();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                prepare(&stream, keep_alive)?;
                let stop = stop.child_token();
                connections.spawn(async move {
                    let mut echo = Echo(Deframer::requests());
                    serve_connection(stream, &mut echo, patience, &stop).await
                });
            }
        }
    }
}
