//! A client of HTTP.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Empty};
use hyper::{
    Request,
    body::Bytes,
    client::conn::http1::{self, SendRequest},
    header::HeaderMap,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, task::JoinSet};

/// One connection; dropped, it closes, whatever it waits for.
#[derive(Debug)]
pub struct Http {
    requests: SendRequest<Empty<Bytes>>,
    _connection: JoinSet<()>,
}

/// What a server answers.
#[derive(Debug)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The body, which is text.
    pub body: String,
    fields: HeaderMap,
}

impl Http {
    /// Connects to a server.
    ///
    /// # Panics
    ///
    /// When nobody listens.
    pub async fn connect(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).await.unwrap();
        let (requests, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move {
            // What goes wrong with it, goes wrong with its requests.
            let _ = connection.await;
        });
        Self { requests, _connection: task }
    }

    /// Asks for a path with header fields.
    ///
    /// # Panics
    ///
    /// When no answer comes.
    pub async fn get(&mut self, path: &str, fields: &[(&str, &str)]) -> HttpAnswer {
        let mut request = Request::get(path).header("host", "localhost");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::new()).unwrap();
        let (head, body) = self.requests.send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.into()).unwrap();
        HttpAnswer { status: head.status.as_u16(), body, fields: head.headers }
    }
}

impl HttpAnswer {
    /// A header field, empty if there is none.
    #[must_use]
    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", |value| value.to_str().unwrap())
    }
}
