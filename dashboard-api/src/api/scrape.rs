//! `/metrics`, in the format that the scraper asks for.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{
        HeaderMap, StatusCode,
        header::{ACCEPT, CONTENT_TYPE},
    },
    response::IntoResponse,
};
use prometheus_client::encoding::{prometheus_text, text};

use super::{Shared, problem::Problem};

/// The type of OpenMetrics text, which a scraper must name to get it.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// All metrics now. One scrape at a time, and not on a thread that serves connections: it takes
/// tens of milliseconds with many flows.
pub(super) async fn metrics(
    State(shared): State<Shared>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let open = accepts.into_iter().any(|accept| accept.contains(OPEN_METRICS));

    let failed = |e: &dyn std::fmt::Display| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("metrics cannot be written: {e}"))
    };
    let permit = Arc::clone(&shared.scraping).acquire_owned().await.map_err(|e| failed(&e))?;
    let written = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let mut page = String::new();
        let registry = &shared.api.metrics;
        let done = if open {
            text::encode(&mut page, registry)
        } else {
            prometheus_text::encode(&mut page, registry)
        };
        done.map(|()| page)
    });
    let page = written.await.map_err(|e| failed(&e))?.map_err(|e| failed(&e))?;
    let content_type = if open {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        prometheus_text::CONTENT_TYPE
    };
    Ok(([(CONTENT_TYPE, content_type)], page))
}
