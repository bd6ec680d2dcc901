//! The requests and answers of reqwest.

use http::{HeaderMap, Method, StatusCode};

use super::{Failure, Repeat, Request, Response};

impl Request for reqwest::Request {
    fn method(&self) -> &Method {
        self.method()
    }

    fn host(&self) -> Option<&str> {
        self.url().host_str()
    }

    fn port(&self) -> Option<u16> {
        self.url().port()
    }

    fn path(&self) -> &str {
        self.url().path()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

impl Repeat for reqwest::Request {
    fn repeat(&self) -> Option<Self> {
        self.try_clone()
    }
}

impl Response for reqwest::Response {
    fn status(&self) -> StatusCode {
        self.status()
    }

    fn headers(&self) -> &HeaderMap {
        self.headers()
    }
}

impl Failure for reqwest::Error {
    fn is_refusal(&self) -> bool {
        // A request that could not be made can not be made again either.
        self.is_builder()
    }
}
