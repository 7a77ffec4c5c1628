//! The pages whose programs are compiled, and run unless they say `no_run`, by `cargo test --doc`. The `tidy`
//! test refuses a page with Rust in it that is not in this list.

macro_rules! texts {
    ($($name:ident = $path:literal;)*) => {
        $(#[doc = include_str!($path)] struct $name;)*
    };
}

texts! {
    Readme = "../../../README.md";
    GuideRust = "../../../docs/guide/src/rust.md";
    GuideExtending = "../../../docs/guide/src/extending.md";
}
