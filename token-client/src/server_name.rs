//! Where a token server is, as a configuration names it.

use std::{fmt, net::Ipv6Addr, str::FromStr};

use protocol::DEFAULT_PORT;

/// A host and a port: `tokens.internal:18730`, `10.0.0.7`, `[::1]:18730` or `::1`. The port is
/// 18730 unless it is given. Names are resolved at each connect, not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerName {
    host: Box<str>,
    port: u16,
}

/// Why a text names no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no server address: write HOST, HOST:PORT or [IPV6]:PORT, with a port from 1")]
pub struct ServerNameError {
    text: Box<str>,
}

impl ServerName {
    /// The host: a name or an address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port; never 0.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for ServerName {
    type Err = ServerNameError;

    fn from_str(text: &str) -> Result<Self, ServerNameError> {
        let trimmed = text.trim();
        let (host, port) = if let Some(rest) = trimmed.strip_prefix('[') {
            let (host, port) = rest.split_once(']').unwrap_or(("", ""));
            let port =
                if port.is_empty() { None } else { Some(port.strip_prefix(':').unwrap_or("")) };
            // Only an IPv6 address stands in brackets; a zone may follow it.
            let address = host.split('%').next().unwrap_or("");
            (if address.parse::<Ipv6Addr>().is_ok() { host } else { "" }, port)
        } else {
            match trimmed.split_once(':') {
                // More than one colon and no brackets: an IPv6 address without a port.
                Some((_, rest)) if rest.contains(':') => (trimmed, None),
                Some((host, port)) => (host, Some(port)),
                None => (trimmed, None),
            }
        };
        let port =
            port.map_or(Some(DEFAULT_PORT), |port| port.parse().ok().filter(|&port| port > 0));
        let is_name = !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c == '/');
        match port {
            Some(port) if is_name => Ok(Self { host: host.into(), port }),
            _ => Err(ServerNameError { text: text.into() }),
        }
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_may_have_a_port() {
        for (text, host, port, shown) in [
            ("tokens.internal", "tokens.internal", 18730, "tokens.internal:18730"),
            (" tokens:9 ", "tokens", 9, "tokens:9"),
            ("127.0.0.1:1", "127.0.0.1", 1, "127.0.0.1:1"),
            ("::1", "::1", 18730, "[::1]:18730"),
            ("[::1]", "::1", 18730, "[::1]:18730"),
            ("[fe80::1%eth0]:65535", "fe80::1%eth0", 65535, "[fe80::1%eth0]:65535"),
        ] {
            let name: ServerName = text.parse().unwrap();
            assert_eq!((name.host(), name.port(), &*name.to_string()), (host, port, shown));
            assert_eq!(shown.parse(), Ok(name), "what is shown can be read");
        }
    }

    #[test]
    fn what_names_no_server_is_refused_with_a_remedy() {
        for text in [
            "",
            " ",
            ":1",
            "h:",
            "h:0",
            "h:65536",
            "h:-1",
            "h:x",
            "[::1",
            "[::1]1",
            "[::1]:",
            "[h]:1",
            "a b:1",
            "http://h:1",
            "[]:1",
        ] {
            let error = text.parse::<ServerName>().expect_err(text).to_string();
            assert!(error.contains("HOST:PORT") && error.contains(text), "{error}");
        }
    }
}
