//! What a guarded function becomes.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Error, Expr, FnArg, Ident, ItemFn, Pat, ReturnType, Signature, spanned::Spanned};

use crate::settings::Settings;

pub(crate) fn expand(settings: TokenStream, function: TokenStream) -> syn::Result<TokenStream> {
    let settings: Settings = syn::parse2(settings)?;
    let function: ItemFn = syn::parse2(function)?;
    let ItemFn { attrs, vis, sig, block } = &function;
    if sig.asyncness.is_none() {
        return Err(Error::new(sig.fn_token.span(), "a guarded function is async: it may wait"));
    }
    let ReturnType::Type(_, output) = &sig.output else {
        let text = "a guarded function gives a `Result`, since it may be refused";
        return Err(Error::new(sig.ident.span(), text));
    };
    let (engine, entry) = (engine(&settings, sig)?, entry(&settings));
    let refused = match &settings.fallback {
        Some(fallback) => {
            let parameters = parameters(sig)?;
            quote_spanned! { fallback.span() =>
                return #fallback(#(#parameters,)* __block).await
            }
        }
        None => quote! {
            return ::core::result::Result::Err(::core::convert::From::from(__block))
        },
    };
    Ok(quote! {
        #(#attrs)*
        #vis #sig {
            let __asked = {
                let __engine: &::token_client::Engine = &#engine;
                #entry
            };
            let mut __guard = match __asked {
                ::core::result::Result::Ok(__guard) => __guard,
                ::core::result::Result::Err(__block) => #refused,
            };
            let __result: #output = (async move #block).await;
            if ::core::result::Result::is_err(&__result) {
                ::token_client::Guard::fail(&mut __guard);
            }
            __result
        }
    })
}

/// The asking, up to its result.
fn entry(settings: &Settings) -> TokenStream {
    let resource = &settings.resource;
    let mut entry = quote! { __engine.entry(#resource) };
    if settings.inbound {
        entry = quote! { #entry.inbound() };
    }
    if let Some(origin) = &settings.origin {
        entry = quote! { #entry.origin(#origin) };
    }
    match &settings.key {
        None => quote! { #entry.acquire().await },
        Some(key) => {
            let key = quote_spanned! { key.span() => ::std::format!(#key) };
            quote! {
                let __key = #key;
                let __args = [::token_client::limiter::local::Arg::One(
                    ::token_client::limiter::Param::Str(::std::borrow::Cow::Borrowed(&__key)),
                )];
                #entry.args(&__args).acquire().await
            }
        }
    }
}

/// The engine that is named, or the one that is at hand.
fn engine(settings: &Settings, sig: &Signature) -> syn::Result<TokenStream> {
    if let Some(engine) = &settings.engine {
        return Ok(quote! { #engine });
    }
    if sig.inputs.iter().any(|input| name(input).is_some_and(|name| name == "engine")) {
        return Ok(quote! { engine });
    }
    if sig.receiver().is_some() {
        return Ok(quote! { self.engine });
    }
    let text = "which engine? name it, `engine = …`, or take a parameter `engine`";
    Err(Error::new(sig.ident.span(), text))
}

fn name(input: &FnArg) -> Option<&Ident> {
    match input {
        FnArg::Typed(input) => match &*input.pat {
            Pat::Ident(pattern) => Some(&pattern.ident),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    }
}

/// All parameters, to be given to another function.
fn parameters(sig: &Signature) -> syn::Result<Vec<Expr>> {
    let parameter = |input: &FnArg| match (input, name(input)) {
        (FnArg::Receiver(_), _) => Ok(syn::parse_quote! { self }),
        (FnArg::Typed(_), Some(name)) => Ok(syn::parse_quote! { #name }),
        (FnArg::Typed(input), None) => {
            let text = "the fallback gets all parameters, so each needs a name";
            Err(Error::new(input.pat.span(), text))
        }
    };
    sig.inputs.iter().map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(settings: TokenStream, function: TokenStream) -> String {
        expand(settings, function).unwrap_err().to_string()
    }

    fn good() -> TokenStream {
        quote! { async fn f(engine: &Engine) -> Result<(), Refused> { Ok(()) } }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let resource = quote! { resource = "r" };
        let cases = [
            (quote! {}, good(), "needs the name of its resource"),
            (quote! { resource = "r", retries = 3 }, good(), "`retries` is no setting"),
            (quote! { resource = "r", resource = "s" }, good(), "`resource` stands twice"),
            (quote! { resource = "r", key = 3 }, good(), "expected string literal"),
            (resource.clone(), quote! { fn f() -> Result<(), E> { Ok(()) } }, "is async"),
            (resource.clone(), quote! { async fn f(engine: Engine) {} }, "gives a `Result`"),
            (resource.clone(), quote! { async fn f() -> Result<(), E> { Ok(()) } }, "which engine"),
            (
                quote! { resource = "r", fallback = g },
                quote! { async fn f(engine: Engine, (a, b): (u8, u8)) -> R { Ok(()) } },
                "each needs a name",
            ),
            (resource, quote! { struct Nothing; }, "expected"),
        ];
        for (settings, function, expected) in cases {
            let error = error(settings, function);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_function_keeps_its_attributes_its_signature_and_its_body() {
        let function = quote! {
            /// Documented.
            pub async fn f<T: Clone>(engine: &Engine, mut t: T) -> io::Result<T> { Ok(t) }
        };
        let expanded = expand(quote! { resource = "r", inbound }, function).unwrap();
        let expanded: ItemFn = syn::parse2(expanded).unwrap();
        let text = quote! { #expanded }.to_string();
        for kept in ["Documented", "pub async fn f < T : Clone >", "{ Ok (t) }", ". inbound ()"] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
    }
}
