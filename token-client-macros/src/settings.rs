//! What stands between the brackets.

use syn::{
    Expr, Ident, LitStr, Path, Token,
    parse::{Parse, ParseStream},
};

/// The settings of one `#[guard]`.
#[derive(Default)]
pub(crate) struct Settings {
    pub(crate) resource: Option<Expr>,
    pub(crate) engine: Option<Expr>,
    pub(crate) key: Option<LitStr>,
    pub(crate) origin: Option<Expr>,
    pub(crate) fallback: Option<Path>,
    pub(crate) inbound: bool,
}

const KNOWN: &str = "resource, engine, key, origin, fallback and inbound";

impl Parse for Settings {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let mut settings = Self::default();
        while !input.is_empty() {
            let name: Ident = input.parse()?;
            if name == "inbound" {
                settings.inbound = true;
            } else {
                settings.read(&name, input)?;
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        if settings.resource.is_none() {
            return Err(input.error("a guard needs the name of its resource: resource = \"…\""));
        }
        Ok(settings)
    }
}

impl Settings {
    fn read(&mut self, name: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        let is = |known: &str| name == known;
        let is_twice = match () {
            () if is("resource") => set(&mut self.resource, input)?,
            () if is("engine") => set(&mut self.engine, input)?,
            () if is("key") => set(&mut self.key, input)?,
            () if is("origin") => set(&mut self.origin, input)?,
            () if is("fallback") => set(&mut self.fallback, input)?,
            () => {
                let text = format!("`{name}` is no setting of a guard, which has {KNOWN}");
                return Err(syn::Error::new(name.span(), text));
            }
        };
        if is_twice {
            return Err(syn::Error::new(name.span(), format!("`{name}` stands twice")));
        }
        Ok(())
    }
}

/// Reads a value; true if there was one before.
fn set<T: Parse>(value: &mut Option<T>, input: ParseStream<'_>) -> syn::Result<bool> {
    input.parse::<Token![=]>()?;
    Ok(value.replace(input.parse()?).is_some())
}
