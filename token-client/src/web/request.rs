//! What is read of a request.

use std::borrow::Cow;

/// A request as [`Protect`](super::Protect) sees it, of whatever framework.
pub trait WebRequest {
    /// The method, as it was sent.
    fn method(&self) -> &str;

    /// The path.
    fn path(&self) -> &str;

    /// A header field that is text; the first if there are several.
    fn header(&self, name: &str) -> Option<&str>;

    /// The route that it matched, if the framework says so without being asked for it by
    /// [`Protect::route`](super::Protect::route).
    fn matched(&self) -> Option<Cow<'_, str>> {
        None
    }
}

/// Reads a header field, for [`Protect::origin`](super::Protect::origin) and
/// [`Protect::key`](super::Protect::key). It is what the client says it is, so it is to be trusted
/// only where something in front has checked it.
pub fn header<R: WebRequest>(
    name: &'static str,
) -> impl for<'r> Fn(&'r R) -> Option<Cow<'r, str>> + Send + Sync + 'static {
    move |request: &R| request.header(name).map(Cow::Borrowed)
}

#[cfg(feature = "tower")]
impl WebRequest for http::request::Parts {
    fn method(&self) -> &str {
        self.method.as_str()
    }

    fn path(&self) -> &str {
        self.uri.path()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// Whether a `content-type` is that of gRPC over HTTP/2, which has its own answers. That of
/// gRPC-Web has those of HTTP.
pub(super) fn is_grpc(content_type: &str) -> bool {
    let rest = content_type.strip_prefix("application/grpc");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';']))
}

/// The method for a resource's name. There are few, whatever is sent, and HEAD is GET: both are
/// answered by the same handler.
pub(super) fn known_method(method: &str) -> &str {
    match method {
        "GET" | "HEAD" => "GET",
        "POST" | "PUT" | "DELETE" | "PATCH" | "OPTIONS" | "CONNECT" | "TRACE" => method,
        _ => "OTHER",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_known_by_its_content_type() {
        let types = ["application/grpc", "application/grpc+proto", "application/grpc;x=y"];
        assert_eq!(types.map(is_grpc), [true; 3]);
        let others = ["application/grpc-web+proto", "application/json", ""];
        assert_eq!(others.map(is_grpc), [false; 3]);
    }

    #[test]
    fn no_method_gets_around_the_rules_of_another_or_makes_names() {
        let methods = ["GET", "HEAD", "PATCH", "get", "X1"];
        assert_eq!(methods.map(known_method), ["GET", "GET", "PATCH", "OTHER", "OTHER"]);
    }
}
