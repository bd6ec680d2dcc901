//! The attribute `#[guard]` of `token-client`, which re-exports it with its feature `macros`.

mod expand;
mod settings;

use proc_macro::TokenStream;

/// Makes an async function a guarded call: it is asked for before the function runs, and an `Err`
/// and a panic count as errors.
///
/// ```text
/// #[guard(resource = "create order", key = "order:create:{user_id}", fallback = later)]
/// async fn create(engine: &Engine, user_id: u64) -> Result<Order, Refused> { … }
/// ```
///
/// | setting    | is                                                                                |
/// |------------|-----------------------------------------------------------------------------------|
/// | `resource` | the name of the resource, text or an expression that gives a `&str`               |
/// | `engine`   | an expression that gives the `Engine`, or a reference to one; without it, a parameter `engine`, or `self.engine` in a method |
/// | `key`      | a format string over the parameters: the argument with `paramIdx` 0               |
/// | `origin`   | an expression that gives the caller, a `&str`                                     |
/// | `inbound`  | stands alone; the call is a request to this service                               |
/// | `fallback` | an async function that gives the result of a refused call: it gets all parameters, `self` first, and the `Block` |
///
/// Without a fallback a refusal is turned into the error of the function, which must be `From<Block>`.
///
/// The function is what this writes by hand:
///
/// ```text
/// engine.entry(resource).args(&[key]).run(async move { … }).await
/// ```
#[proc_macro_attribute]
pub fn guard(settings: TokenStream, function: TokenStream) -> TokenStream {
    match expand::expand(settings.into(), function.into()) {
        Ok(expanded) => expanded.into(),
        Err(error) => error.into_compile_error().into(),
    }
}
