//! What a call is named after.

use std::fmt::Write;

use crate::exchange::Request;

/// Names a call `METHOD:host/…`, such as `GET:shop.example/*`.
///
/// A port follows the host if the request names one, and so many segments of the path. `/*` stands for
/// the rest of it: paths hold ids, and a name for each of them would count nothing together, so there
/// are as many names as methods and hosts, with the first `segments` of 0. How many names count apart
/// is bounded by the engine ([`LocalSettings`](limiter::local::LocalSettings)); what a rule is for
/// always does.
#[must_use]
pub fn name(request: &dyn Request, segments: usize) -> String {
    let mut name = String::with_capacity(64);
    name.push_str(request.method().as_str());
    name.push(':');
    let start = name.len();
    name.push_str(request.host().unwrap_or_default());
    // Hosts are alike whatever their case.
    if let Some(host) = name.get_mut(start..) {
        host.make_ascii_lowercase();
    }
    if let Some(port) = request.port() {
        let _ = write!(name, ":{port}");
    }
    let mut parts = request.path().split('/').filter(|part| !part.is_empty());
    let shown = name.len();
    for part in parts.by_ref().take(segments) {
        name.push('/');
        name.push_str(part);
    }
    if parts.next().is_some() {
        name.push_str("/*");
    } else if name.len() == shown {
        name.push('/');
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(method: &str, uri: &str, segments: usize) -> String {
        name(&http::Request::builder().method(method).uri(uri).body(()).unwrap(), segments)
    }

    #[test]
    fn a_call_is_named_after_its_method_and_its_host() {
        for (method, uri, name) in [
            ("GET", "http://shop.example/orders/17?x=1", "GET:shop.example/*"),
            ("POST", "https://Shop.Example:8443/v1", "POST:shop.example:8443/*"),
            ("GET", "http://shop.example", "GET:shop.example/"),
            ("GET", "http://[::1]:80/a", "GET:[::1]:80/*"),
            ("GET", "/orders", "GET:/*"),
        ] {
            assert_eq!(named(method, uri, 0), name);
        }
    }

    #[test]
    fn as_many_segments_of_the_path_follow_as_were_asked_for() {
        for (path, name) in [
            ("", "GET:h/"),
            ("/", "GET:h/"),
            ("/v1", "GET:h/v1"),
            ("/v1/orders/", "GET:h/v1/orders"),
            ("//v1//orders/17/items", "GET:h/v1/orders/*"),
        ] {
            assert_eq!(named("GET", &format!("http://h{path}"), 2), name, "{path}");
        }
    }
}
