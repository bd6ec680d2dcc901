//! Errors as `application/problem+json` (RFC 9457).

use axum::{
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde_json::json;

/// An error as the caller gets it.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    /// `detail` says what was wrong with this request, and what would do.
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        // No `type`: then it is `about:blank`, and the title is the status's own.
        let body = json!({
            "status": self.status.as_u16(),
            "title": self.status.canonical_reason(),
            "detail": self.detail,
        });
        let content_type = (CONTENT_TYPE, "application/problem+json");
        (self.status, [content_type], body.to_string()).into_response()
    }
}
