//! One request: what it asks for, and what it gets.

use std::borrow::Cow;

use limiter::{
    Param,
    local::{Arg, Block},
};

use super::{Protect, Text};
use crate::{
    Attempt, Guard,
    web::{
        Answer, Refusal, UNMATCHED, WebRequest,
        headers::Fields,
        request::{is_grpc, known_method},
    },
};

/// `ResourceTypeConstants.java`.
const TYPE_WEB: u8 = 1;
const TYPE_RPC: u8 = 2;

/// A request that was let through.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) guard: Guard,
    /// Header fields for its answer.
    pub(crate) fields: Fields,
}

/// What a request asks for.
struct Asked<'r> {
    resource: Cow<'static, str>,
    origin: Cow<'r, str>,
    args: Vec<Arg<'r>>,
}

impl<R: WebRequest> Protect<R> {
    /// Asks for a request, and waits if rules say so.
    pub(crate) async fn enter(&self, request: &R) -> Result<Admitted, (Answer, bool)> {
        let asked = self.asked(request);
        match self.attempt(&asked).acquire().await {
            Ok(guard) => Ok(Admitted { guard, fields: self.fields(&asked) }),
            Err(block) => {
                let is_grpc = self.is_rpc || request.header("content-type").is_some_and(is_grpc);
                Err((self.refuse(&asked, &block, is_grpc), is_grpc))
            }
        }
    }

    fn asked<'r>(&self, request: &'r R) -> Asked<'r> {
        let args = |key: &Text<R>| key(request).map(Param::Str).into();
        Asked {
            resource: self.resource(request),
            origin: self.origin.as_ref().and_then(|origin| origin(request)).unwrap_or_default(),
            args: self.keys.iter().map(args).collect(),
        }
    }

    fn resource(&self, request: &R) -> Cow<'static, str> {
        let route = match &self.route {
            Some(route) => route(request),
            None if self.is_rpc => {
                Some(request.path()).filter(|path| is_rpc(path)).map(Cow::Borrowed)
            }
            None => request.matched(),
        };
        let Some(route) = route else { return UNMATCHED.into() };
        let tier = self.tier.as_ref().and_then(|tier| tier(request));
        let method = if self.is_rpc { "" } else { known_method(request.method()) };
        let length = method.len() + 1 + route.len() + tier.map_or(0, |tier| tier.len() + 1);
        let mut name = String::with_capacity(length);
        if !self.is_rpc {
            name.push_str(method);
            name.push(':');
        }
        name.push_str(&route);
        if let Some(tier) = tier {
            name.push('@');
            name.push_str(tier);
        }
        self.names.bounded(name, &self.engine).into()
    }

    fn attempt<'a>(&'a self, asked: &'a Asked<'_>) -> Attempt<'a> {
        let resource_type = if self.is_rpc { TYPE_RPC } else { TYPE_WEB };
        let attempt = self.engine.entry(&asked.resource).inbound().resource_type(resource_type);
        attempt.origin(&asked.origin).args(&asked.args)
    }

    fn fields(&self, asked: &Asked<'_>) -> Fields {
        let mut fields = Fields::new();
        if !self.headers.is_none()
            && let Some(quota) = self.attempt(asked).outlook().quota
        {
            self.headers.add(&mut fields, &asked.resource, &quota);
        }
        fields
    }

    fn refuse(&self, asked: &Asked<'_>, block: &Block, is_grpc: bool) -> Answer {
        let outlook = self.attempt(asked).outlook();
        let refusal = Refusal { resource: &asked.resource, block, outlook: &outlook, is_grpc };
        let mut answer = Answer::to(&refusal);
        if let Some(quota) = outlook.quota {
            self.headers.add(&mut answer.fields, &asked.resource, &quota);
        }
        match &self.respond {
            Some(respond) => respond(&refusal, answer),
            None => answer,
        }
    }
}

/// Whether a path is one of gRPC: a service and a method.
fn is_rpc(path: &str) -> bool {
    let parts = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    parts.is_some_and(|(service, method)| {
        !service.is_empty() && !method.is_empty() && !method.contains('/')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_grpc_is_a_service_and_a_method() {
        let paths = ["/a.B/C", "/a.B/", "/a.B", "//C", "/", "", "/a/b/c"];
        assert_eq!(paths.map(is_rpc), [true, false, false, false, false, false, false]);
    }
}
