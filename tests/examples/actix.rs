//! A web service in actix-web that protects itself: limits by route, by API key and by tier, and a
//! circuit breaker.
//!
//! ```sh
//! cargo run -p integration-tests --example actix
//! curl -i -H 'x-api-key: ann' http://127.0.0.1:8080/report
//! ```
//!
//! The address is an argument, by default 127.0.0.1:8080.
#![expect(clippy::print_stdout, reason = "an example for people")]

use actix_web::{
    App, HttpServer,
    dev::ServiceRequest,
    error::ErrorInternalServerError,
    rt::System,
    web::{Path, get},
};
use token_client::{
    Engine,
    actix::GuardMiddleware,
    limiter::{
        local::LocalSettings,
        rule::{Contents, parse, parse_degrade},
    },
    web::header,
};

/// The whole route, whoever calls.
const FLOW: &str = r#"[{"resource": "GET:/orders/{id}", "count": 100}]"#;
/// One report an hour for each API key, three for keys of the tier `vip`.
const BY_KEY: &str = r#"[
    {"resource": "GET:/report", "paramIdx": 0, "count": 1, "durationInSec": 3600},
    {"resource": "GET:/report@vip", "paramIdx": 0, "count": 3, "durationInSec": 3600}
]"#;
/// Two errors in a minute: nobody calls for a minute.
const BREAKERS: &str = r#"[{"resource": "GET:/broken", "grade": 2, "count": 1,
    "minRequestAmount": 1, "statIntervalMs": 60000, "timeWindow": 60}]"#;

/// What an API key has paid for. A service would look into its database.
fn tier(request: &ServiceRequest) -> Option<&'static str> {
    let key = request.headers().get("x-api-key")?.to_str().ok()?;
    key.starts_with("gold-").then_some("vip")
}

async fn order(id: Path<u64>) -> String {
    format!("order {id}")
}

async fn broken() -> actix_web::Result<String> {
    Err(ErrorInternalServerError("out of order"))
}

fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let engine = Engine::new(LocalSettings::default());
    let local = engine.local();
    local.load_flow(parse(FLOW, "flow rules", "", Contents::Flow, false)?.rules.flow);
    local.load_param(parse(BY_KEY, "rules by key", "", Contents::Param, false)?.rules.param);
    local.load_degrade(parse_degrade(BREAKERS, "breakers")?.rules);

    let guard = GuardMiddleware::new(&engine).key(header("x-api-key")).tier(tier);
    let app = move || {
        App::new()
            .wrap(guard.clone())
            .route("/orders/{id}", get().to(order))
            .route("/report", get().to(|| async { "all is well" }))
            .route("/broken", get().to(broken))
    };
    System::new().block_on(async {
        let server = HttpServer::new(app).workers(1).bind(address)?;
        for address in server.addrs() {
            println!("http {address}");
        }
        server.run().await?;
        Ok(())
    })
}
