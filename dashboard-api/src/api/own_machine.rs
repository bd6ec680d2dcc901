//! What only the machine itself may do.

use std::net::{IpAddr, SocketAddr};

use axum::{
    extract::{ConnectInfo, FromRequestParts},
    http::{StatusCode, header::HOST, request::Parts, uri::Authority},
};

use super::problem::Problem;

/// Proof that a request comes from the machine itself: the peer is a loopback address, and the
/// host that it asks for is one, too.
///
/// The second is against DNS rebinding: a page from elsewhere, shown by a browser on this machine,
/// comes from a loopback peer and names its own host. A proxy on this machine that sends requests
/// on under a loopback name is taken for the machine; it must not send these on.
pub(super) struct OwnMachine;

impl<S: Sync> FromRequestParts<S> for OwnMachine {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let refused = |detail: String| Problem::new(StatusCode::FORBIDDEN, detail);
        let Some(ConnectInfo(peer)) = parts.extensions.get::<ConnectInfo<SocketAddr>>() else {
            return Err(refused("the peer's address is not known".into()));
        };
        if !peer.ip().to_canonical().is_loopback() {
            let detail = format!("only the machine itself may do this, {} is not", peer.ip());
            return Err(refused(detail));
        }
        let named = parts.headers.get_all(HOST).iter().map(|host| host.to_str().ok());
        let hosts: Vec<_> = named.chain(parts.uri.authority().map(|a| Some(a.as_str()))).collect();
        if hosts.is_empty() || !hosts.iter().all(|host| host.is_some_and(is_loopback)) {
            return Err(refused(
                "the Host header must name localhost or a loopback address".into(),
            ));
        }
        Ok(Self)
    }
}

/// Whether `host`, with or without a port, is a loopback name or address.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    match address.parse::<IpAddr>() {
        Ok(ip) => ip.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_and_addresses_are_told_from_others() {
        for host in [
            "localhost",
            "LocalHost:8719",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]",
            "[::ffff:127.0.0.1]:9",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.0.2.1",
            "0.0.0.0",
            "[::]",
            "[::1",
            "localhost@evil.example",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
