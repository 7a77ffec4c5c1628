//! The environment variables that dahl looks at: this is the only file that reads any. Settings are
//! arguments; here is only where things are that no argument names.
//!
//! | variable | meaning |
//! |---|---|
//! | `DAHL_CACHE` | the folder for what dahl has measured and may measure again |
//! | `XDG_CACHE_HOME` | otherwise, in it a folder `dahl` |
//! | `HOME` | otherwise, below it `.cache/dahl`, or `Library/Caches/dahl` on macOS |

use std::ffi::OsString;
use std::path::PathBuf;

/// The folder for what dahl has measured and may measure again; nothing if no variable says where.
pub fn cache_folder() -> Option<PathBuf> {
    cache_folder_by(|name| std::env::var_os(name))
}

fn cache_folder_by(value: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| value(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // The specification says that a relative path there is no path.
    let xdg = || folder("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
    let below_home = if cfg!(target_os = "macos") { "Library/Caches/dahl" } else { ".cache/dahl" };
    folder("DAHL_CACHE")
        .or_else(|| xdg().map(|folder| folder.join("dahl")))
        .or_else(|| folder("HOME").map(|home| home.join(below_home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<String> {
        let value =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        cache_folder_by(value).map(|folder| folder.to_string_lossy().into_owned())
    }

    #[test]
    fn the_first_variable_that_is_set_counts() {
        let all = [("DAHL_CACHE", "here"), ("XDG_CACHE_HOME", "/xdg"), ("HOME", "/me")];
        assert_eq!(found(&all).as_deref(), Some("here"));
        assert_eq!(found(&all[1..]).as_deref(), Some("/xdg/dahl"));
        let of_home = if cfg!(target_os = "macos") { "/me/Library/Caches/dahl" } else { "/me/.cache/dahl" };
        assert_eq!(found(&all[2..]).as_deref(), Some(of_home));
        assert_eq!(
            found(&[("DAHL_CACHE", ""), ("XDG_CACHE_HOME", "not/absolute"), all[2]]).as_deref(),
            Some(of_home)
        );
        assert_eq!(found(&[]), None);
    }
}
