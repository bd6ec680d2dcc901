//! The middleware for actix-web around an application in this process.

use actix_web::{
    App, HttpResponse,
    error::{ErrorBadGateway, ErrorNotFound},
    http::header::HeaderMap,
    rt::System,
    test::{TestRequest, call_service, init_service, read_body, try_call_service},
    web::get,
};

use super::engine::{ended, node, with_flow};
use crate::{
    actix::GuardMiddleware,
    web::{UNMATCHED, header},
};

fn field<'a>(fields: &'a HeaderMap, name: &str) -> &'a str {
    fields.get(name).map_or("", |value| value.to_str().unwrap())
}

#[test]
fn a_call_lasts_until_its_body_has_ended_if_that_is_wished() {
    System::new().block_on(async {
        let engine = with_flow(r#"[{"resource": "GET:/a/{id}", "count": 1, "grade": 0}]"#);
        let guard = GuardMiddleware::new(&engine).until_body_ends();
        let app = App::new().wrap(guard).route("/a/{id}", get().to(|| async { "text" }));
        let app = init_service(app).await;
        let ask = async || call_service(&app, TestRequest::get().uri("/a/7").to_request()).await;
        let first = ask().await;
        assert_eq!((first.status().as_u16(), ended(&engine, "GET:/a/{id}")), (200, (1, 0, 0)));
        let refused = ask().await;
        assert_eq!(
            (refused.status().as_u16(), field(refused.headers(), "retry-after")),
            (429, "1")
        );
        let policy = r#""GET:/a/{id}";q=1;qu="concurrent-requests""#;
        assert_eq!(field(refused.headers(), "ratelimit-policy"), policy);
        assert_eq!(read_body(refused).await, "too many requests");
        assert_eq!(read_body(first).await, "text");
        assert_eq!(ended(&engine, "GET:/a/{id}"), (0, 1, 0));
        drop(ask().await);
        assert_eq!(ended(&engine, "GET:/a/{id}"), (0, 2, 0));
    });
}

#[test]
fn what_a_handler_fails_with_counts_by_its_status() {
    System::new().block_on(async {
        let engine = with_flow("[]");
        let broken = || async { Err::<HttpResponse, _>(ErrorBadGateway("no answer")) };
        let missing = || async { Err::<HttpResponse, _>(ErrorNotFound("no such order")) };
        let app = App::new()
            .wrap(GuardMiddleware::new(&engine))
            .route("/broken", get().to(broken))
            .route("/missing", get().to(missing))
            .route("/full", get().to(|| async { HttpResponse::InsufficientStorage().finish() }));
        let app = init_service(app).await;
        for path in ["/broken", "/missing", "/full", "/.env", "/admin.php"] {
            let _ = try_call_service(&app, TestRequest::get().uri(path).to_request()).await;
        }
        let names = ["GET:/broken", "GET:/missing", "GET:/full", UNMATCHED];
        let expected = [(0, 1, 1), (0, 1, 0), (0, 1, 1), (0, 2, 0)];
        assert_eq!(names.map(|name| ended(&engine, name)), expected);
    });
}

#[test]
fn tiers_and_callers_are_told_apart() {
    System::new().block_on(async {
        let engine = with_flow(r#"[{"resource": "GET:/a@vip", "count": 0, "limitApp": "shop"}]"#);
        let guard = GuardMiddleware::new(&engine)
            .origin(header("x-caller"))
            .tier(|request| request.headers().contains_key("x-paid").then_some("vip"));
        let app = App::new().wrap(guard).route("/a", get().to(|| async { "text" }));
        let app = init_service(app).await;
        let ask = async |caller: &str, tier: &'static str| {
            let request = TestRequest::get().uri("/a").insert_header(("x-caller", caller));
            let request = request.insert_header((tier, "1")).to_request();
            call_service(&app, request).await.status().as_u16()
        };
        let statuses =
            [ask("shop", "x-paid").await, ask("desk", "x-paid").await, ask("shop", "x-no").await];
        assert_eq!(statuses, [429, 200, 200]);
        assert_eq!(node(&engine, "GET:/a@vip").total_pass, 1);
    });
}
