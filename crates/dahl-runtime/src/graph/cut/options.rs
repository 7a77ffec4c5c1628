//! What cutting goes by, and how people write it: `n=16to64/i=4096max` for tiles, `conv2d=reference,lanes`
//! for implementations.
//!
//! Bits depend on these options, so they are what a run notes, what calibration chooses and what a user may
//! force.

use crate::codelet::relation::TileSize;
use crate::error::{Error, ErrorKind, Result};
use std::fmt::{self, Write};

/// Axes and the sizes of tiles along them.
pub type Tiling = Vec<(String, TileSize)>;

/// Implementations with lanes over samples.
pub(super) const LANES: &str = "lanes";
/// Implementations whose arrays are all in row-major order.
pub(super) const FLAT: &str = "flat";
/// No implementation: the wish for `flat` where samples are few.
pub const FEW: &str = "few";

/// What the heuristic cut goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutOptions {
    /// Tilings, best first; each names axes and tile sizes. A task is cut by the first tiling that has an
    /// axis along which it can be split, along all axes of that tiling along which it can be split.
    pub tilings: Vec<Tiling>,
    /// Tiles that are accumulated into one partial result, one after the other. More cost less memory
    /// traffic.
    pub tiles_per_group: usize,
    /// The most partial results of a reduction. More allow more workers.
    pub max_groups: usize,
    /// Names of implementations, best first. Before `lanes`, `few` stands for `flat` in a graph whose samples
    /// are too few for lanes.
    pub implementations: Vec<String>,
    /// Codelets that must be computed by a certain implementation, whatever else is said.
    pub forced: Vec<(String, String)>,
    /// Whether the graph was fused before it is cut, where there is a codelet for that.
    pub fusion: bool,
}

impl Default for CutOptions {
    fn default() -> Self {
        CutOptions {
            tilings: vec![
                vec![("n".into(), TileSize::Between(16, 64))],
                vec![("i".into(), TileSize::AtMost(4096))],
            ],
            tiles_per_group: 1,
            max_groups: 16,
            implementations: [FEW, LANES, FLAT, "reference"].map(String::from).to_vec(),
            forced: Vec::new(),
            fusion: true,
        }
    }
}

impl CutOptions {
    /// The tilings as text: axes with sizes, joined by commas; tilings joined by `/`, best first. A size is a
    /// length (`16`), a largest length (`4096max`), a number of tiles (`4parts`), or a length that grows with
    /// the axis (`16to64`).
    pub fn tiles(&self) -> String {
        let size = |size: &TileSize| match size {
            TileSize::Size(size) => size.to_string(),
            TileSize::AtMost(size) => format!("{size}max"),
            TileSize::Count(count) => format!("{count}parts"),
            TileSize::Between(least, most) => format!("{least}to{most}"),
        };
        let axis = |(name, tile): &(String, TileSize)| format!("{name}={}", size(tile));
        let tiling = |tiling: &Tiling| tiling.iter().map(axis).collect::<Vec<_>>().join(",");
        self.tilings.iter().map(tiling).collect::<Vec<_>>().join("/")
    }

    /// Takes tilings from text. Those that are not mentioned stay behind: `n=32` alone leaves updates cut as
    /// they were.
    pub fn set_tiles(&mut self, text: &str) -> Result<()> {
        let mut tilings: Vec<Tiling> = Vec::new();
        for part in text.split('/') {
            tilings.push(part.split(',').map(axis).collect::<Result<_>>()?);
        }
        let is_new = |old: &Tiling| {
            old.iter().all(|(name, _)| tilings.iter().flatten().all(|(mentioned, _)| mentioned != name))
        };
        let kept: Vec<Tiling> = CutOptions::default().tilings.into_iter().filter(is_new).collect();
        self.tilings = [tilings, kept].concat();
        self.check()
    }

    /// The implementations as text: names in order of preference, and `codelet=name` where one is forced.
    pub fn impls(&self) -> String {
        let forced = self.forced.iter().map(|(codelet, name)| format!("{codelet}={name}"));
        self.implementations.iter().cloned().chain(forced).collect::<Vec<_>>().join(",")
    }

    /// Takes implementations from text. Names that are not mentioned come after those that are.
    pub fn set_impls(&mut self, text: &str) -> Result<()> {
        let (mut preferred, mut forced) = (Vec::new(), Vec::new());
        for part in text.split(',') {
            match part.split_once('=') {
                Some((codelet, name)) if !codelet.is_empty() && !name.is_empty() => {
                    forced.push((codelet.to_string(), name.to_string()));
                }
                None if !part.is_empty() => preferred.push(part.to_string()),
                _ => {
                    let message = format!(
                        "'{part}' names no implementation: write a name, such as reference, or CODELET=NAME"
                    );
                    return Err(Error::new(ErrorKind::Usage, message));
                }
            }
        }
        let others = CutOptions::default().implementations;
        preferred.extend(others.into_iter().filter(|name| !preferred.contains(name)).collect::<Vec<_>>());
        (self.implementations, self.forced) = (preferred, forced);
        Ok(())
    }

    /// Reads what `Display` writes, as long as the tilings mention all axes that the heuristic's do.
    pub fn parse(text: &str) -> Result<CutOptions> {
        let mut options = CutOptions::default();
        for word in text.split_whitespace() {
            let unknown = || Error::new(ErrorKind::Usage, format!("'{word}' says nothing about a cut"));
            let number = |value: &str| value.parse().ok().filter(|&n: &usize| n > 0).ok_or_else(unknown);
            match word.split_once(':').ok_or_else(unknown)? {
                ("tiles", value) => options.set_tiles(value)?,
                ("impl", value) => options.set_impls(value)?,
                ("group", value) => options.tiles_per_group = number(value)?,
                ("groups", value) => options.max_groups = number(value)?,
                ("fusion", "on") => options.fusion = true,
                ("fusion", "off") => options.fusion = false,
                _ => return Err(unknown()),
            }
        }
        Ok(options)
    }

    /// Refuses tilings that name an axis twice or ask for tiles of no size.
    pub(super) fn check(&self) -> Result<()> {
        for tiling in &self.tilings {
            for (i, (name, size)) in tiling.iter().enumerate() {
                if tiling[..i].iter().any(|(earlier, _)| earlier == name) {
                    return Err(Error::new(ErrorKind::Plan, format!("a tiling names the axis {name} twice")));
                }
                if size.is_zero() {
                    let message = format!("the axis {name} cannot be cut by {size:?}");
                    return Err(Error::new(ErrorKind::Plan, message));
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for CutOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("tiles:{} impl:{}", self.tiles(), self.impls());
        let fusion = if self.fusion { "on" } else { "off" };
        write!(text, " group:{} groups:{} fusion:{fusion}", self.tiles_per_group, self.max_groups)?;
        f.write_str(&text)
    }
}

/// An axis and a size: `n=16`.
fn axis(text: &str) -> Result<(String, TileSize)> {
    let parsed = text.split_once('=').filter(|(name, _)| !name.is_empty()).and_then(|(name, size)| {
        let number = |digits: &str| digits.parse().ok().filter(|&n: &usize| n > 0);
        let size = match (size.strip_suffix("max"), size.strip_suffix("parts"), size.split_once("to")) {
            (Some(digits), ..) => TileSize::AtMost(number(digits)?),
            (_, Some(digits), _) => TileSize::Count(number(digits)?),
            (.., Some((least, most))) => {
                let (least, most) = (number(least)?, number(most)?);
                (least <= most).then_some(TileSize::Between(least, most))?
            }
            _ => TileSize::Size(number(size)?),
        };
        Some((name.to_string(), size))
    });
    parsed.ok_or_else(|| {
        let message = format!(
            "'{text}' is no cut of an axis: write n=16 for tiles of 16 samples, n=16to64 for larger ones in large batches, n=4parts for four tiles, or i=4096max"
        );
        Error::new(ErrorKind::Usage, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut options = CutOptions::default();
        assert_eq!(CutOptions::parse(&options.to_string()).unwrap(), options);
        options.set_tiles("n=32,k=4parts").unwrap();
        assert_eq!(options.tiles(), "n=32,k=4parts/i=4096max");
        options.set_tiles("i=100max/n=8to24").unwrap();
        assert_eq!(options.tiles(), "i=100max/n=8to24");
        options.set_impls("flat,conv2d=reference").unwrap();
        assert_eq!(options.impls(), "flat,few,lanes,reference,conv2d=reference");
        (options.tiles_per_group, options.fusion) = (4, false);
        assert_eq!(CutOptions::parse(&options.to_string()).unwrap(), options);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "",
            "n",
            "n=",
            "=4",
            "n=0",
            "n=-1",
            "n=4partss",
            "n=1,n=2",
            "n=16/",
            "n=max",
            "n=to",
            "n=0to4",
            "n=8to4",
            "n=8to",
        ] {
            assert!(CutOptions::default().set_tiles(text).is_err(), "{text}");
        }
        for text in ["", "a=", "=b", "lanes,,flat"] {
            assert!(CutOptions::default().set_impls(text).is_err(), "{text}");
        }
        for text in ["n=16", "tiles:", "groups:0", "group:x", "fusion:maybe", "other:1"] {
            assert!(CutOptions::parse(text).is_err(), "{text}");
        }
    }
}
