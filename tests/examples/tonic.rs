//! A gRPC service in tonic that protects itself: a limit for each user, and a circuit breaker.
//!
//! ```sh
//! cargo run -p integration-tests --example tonic
//! ```
//!
//! The service is written by hand, with messages that are text, so that it needs no schema; one
//! that is generated is guarded by the same line. The address is an argument, by default
//! 127.0.0.1:8081.
#![expect(clippy::print_stdout, reason = "an example for people")]

use std::{
    convert::Infallible,
    future::{Ready, ready},
    pin::Pin,
    task::{Context, Poll},
};

use support::TextCodec;
use token_client::{
    Engine,
    limiter::{
        local::LocalSettings,
        rule::{Contents, parse, parse_degrade},
    },
    web::{GuardLayer, header},
};
use tokio::net::TcpListener;
use tonic::{
    Request, Response, Status,
    body::Body,
    codegen::{Service, http},
    server::{Grpc, NamedService, UnaryService},
    transport::{Server, server::TcpIncoming},
};

/// Two lists an hour for each user.
const BY_USER: &str = r#"[{"resource": "/shop.Orders/List", "paramIdx": 0, "count": 2,
    "durationInSec": 3600}]"#;
/// Two errors in a minute: nobody calls for a minute.
const BREAKERS: &str = r#"[{"resource": "/shop.Orders/Delete", "grade": 2, "count": 1,
    "minRequestAmount": 1, "statIntervalMs": 60000, "timeWindow": 60}]"#;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8081".into());
    let engine = Engine::new(LocalSettings::default());
    let local = engine.local();
    local.load_param(parse(BY_USER, "rules by user", "", Contents::Param, false)?.rules.param);
    local.load_degrade(parse_degrade(BREAKERS, "breakers")?.rules);

    let guard = GuardLayer::new(&engine).grpc().key(header("x-user"));

    let listener = TcpListener::bind(address).await?;
    println!("grpc {}", listener.local_addr()?);
    let server = Server::builder().layer(guard).add_service(Orders);
    server.serve_with_incoming(TcpIncoming::from(listener)).await?;
    Ok(())
}

/// What a generator would write.
#[derive(Clone)]
struct Orders;

impl NamedService for Orders {
    const NAME: &'static str = "shop.Orders";
}

impl Service<http::Request<Body>> for Orders {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = Grpc::new(TextCodec);
            Ok(match request.uri().path() {
                "/shop.Orders/List" => grpc.unary(List, request).await,
                "/shop.Orders/Delete" => grpc.unary(Delete, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

struct List;

impl UnaryService<String> for List {
    type Response = String;
    type Future = Ready<Result<Response<String>, Status>>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        ready(Ok(Response::new(format!("orders of {}", request.into_inner()))))
    }
}

struct Delete;

impl UnaryService<String> for Delete {
    type Response = String;
    type Future = Ready<Result<Response<String>, Status>>;

    fn call(&mut self, _: Request<String>) -> Self::Future {
        ready(Err(Status::internal("out of order")))
    }
}
