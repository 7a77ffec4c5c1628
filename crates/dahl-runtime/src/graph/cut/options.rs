//! What cutting goes by, and how people write it: axes with sizes for tiles (`rows=16to64/columns=4096max`),
//! shares of an axis for other codes behind its size (`rows=16+cuda:50%:32`), names for implementations
//! (`fast,matmul=reference`).
//!
//! Bits depend on these options, so they are what a run notes, what calibration chooses and what a user may
//! force. Which axes and implementations there are, only codelets know.

use crate::codelet::CPU;
use crate::codelet::relation::TileSize;
use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::fmt::{self, Write};

/// Axes and the sizes of tiles along them.
pub type Tiling = Vec<(String, TileSize)>;

/// A share of an axis that units of another code than that of cores compute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The axis. Some tiling names it; cores compute what is left of it, and come first.
    pub axis: String,
    /// The code.
    pub code: String,
    /// How much of the axis.
    pub share: Share,
    /// The tiles of that share.
    pub size: TileSize,
}

/// A share of a whole, in hundredths of a percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
    /// Everything.
    pub const WHOLE: Share = Share(10_000);

    /// So many percent, up to 100; the nearest hundredth counts.
    pub fn percent(percent: f64) -> Option<Share> {
        let hundredths = (100.0 * percent).round();
        (0.0..=f64::from(Share::WHOLE.0)).contains(&hundredths).then_some(Share(hundredths as u32))
    }

    /// Several shares together.
    pub(super) fn sum(shares: impl IntoIterator<Item = Share>) -> Share {
        Share(shares.into_iter().fold(0, |sum: u32, share| sum.saturating_add(share.0)))
    }

    /// The elements of this share of an axis, at most all.
    pub(super) fn of(self, extent: usize) -> usize {
        let whole = u128::from(Share::WHOLE.0);
        let elements = (extent as u128 * u128::from(self.0) + whole / 2) / whole;
        extent.min(elements as usize)
    }

    /// Reads what `Display` writes.
    fn parse(text: &str) -> Option<Share> {
        let text = text.strip_suffix('%')?;
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        text.parse().ok().filter(|_| is_number).and_then(Share::percent)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (percent, hundredths) = (self.0 / 100, self.0 % 100);
        match hundredths {
            0 => write!(f, "{percent}%"),
            _ if hundredths % 10 == 0 => write!(f, "{percent}.{}%", hundredths / 10),
            _ => write!(f, "{percent}.{hundredths:02}%"),
        }
    }
}

/// What is known of a cut before it is made: what fusion goes by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prospect {
    /// The codes, beside that of cores, that some tiles are to be computed in, in order. Tasks are only fused
    /// into one that has implementations of all of them.
    pub codes: Vec<String>,
    /// The axes along which tasks are cut, in order.
    pub axes: Vec<String>,
    /// The most partial results of a reduction.
    pub max_groups: usize,
}

/// What the heuristic cut goes by. By default nothing is cut, and of a codelet's implementations the first
/// that fits is taken: whoever knows the codelets says what suits them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutOptions {
    /// Tilings, best first; each names axes and tile sizes. A task is cut by the first tiling that has an
    /// axis along which it can be split, along all axes of that tiling along which it can be split.
    pub tilings: Vec<Tiling>,
    /// Shares of axes that are computed in other codes.
    pub parts: Vec<Part>,
    /// Tiles that are accumulated into one partial result, one after the other. More cost less memory
    /// traffic.
    pub tiles_per_group: usize,
    /// The most partial results of a reduction. More allow more workers.
    pub max_groups: usize,
    /// Names of implementations, best first, among those of each tile's code; and of families of them
    /// ([`Family`](crate::codelet::Family)). Without any, the order of the codelet counts.
    pub implementations: Vec<String>,
    /// Codelets that must be computed by a certain implementation, whatever else is said. A name with a code
    /// before it, as in `code:name`, has all tiles computed in that code.
    pub forced: Vec<(String, String)>,
    /// Whether the graph was fused before it is cut, where there is a codelet for that.
    pub fusion: bool,
}

impl Default for CutOptions {
    fn default() -> Self {
        CutOptions {
            tilings: Vec::new(),
            parts: Vec::new(),
            tiles_per_group: 1,
            max_groups: 16,
            implementations: Vec::new(),
            forced: Vec::new(),
            fusion: true,
        }
    }
}

impl CutOptions {
    /// The tilings as text: axes with sizes, joined by commas; tilings joined by `/`, best first. A size is a
    /// length (`16`), a largest length (`4096max`), a number of tiles (`4parts`), or a length that grows with
    /// the axis (`16to64`). Behind a size follow the shares of other codes, with their own sizes:
    /// `n=16+cuda:50%:32`.
    pub fn tiles(&self) -> String {
        let part = |part: &Part| format!("+{}:{}:{}", part.code, part.share, written(&part.size));
        let axis = |(name, tile): &(String, TileSize)| {
            let parts = self.parts.iter().filter(|part| part.axis == *name).map(part);
            format!("{name}={}{}", written(tile), parts.collect::<String>())
        };
        let tiling = |tiling: &Tiling| tiling.iter().map(axis).collect::<Vec<_>>().join(",");
        self.tilings.iter().map(tiling).collect::<Vec<_>>().join("/")
    }

    /// Takes tilings from text. Those that are not mentioned stay behind: `n=32` alone leaves others as they
    /// were.
    pub fn set_tiles(&mut self, text: &str) -> Result<()> {
        let (mut tilings, mut parts): (Vec<Tiling>, Vec<Part>) = (Vec::new(), Vec::new());
        for tiling in text.split('/') {
            let axes = tiling.split(',').map(|text| axis(text, &mut parts));
            tilings.push(axes.collect::<Result<_>>()?);
        }
        let mentions = |name: &str| tilings.iter().flatten().any(|(mentioned, _)| mentioned == name);
        let mut kept = self.tilings.clone();
        kept.retain(|old| !old.iter().any(|(name, _)| mentions(name)));
        let is_kept = |part: &&Part| kept.iter().flatten().any(|(name, _)| *name == part.axis);
        parts.extend(self.parts.iter().filter(is_kept).cloned());
        (self.tilings, self.parts) = ([tilings, kept].concat(), parts);
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
        let others = self.implementations.iter().filter(|name| !preferred.contains(name));
        let others: Vec<String> = others.cloned().collect();
        (self.implementations, self.forced) = ([preferred, others].concat(), forced);
        Ok(())
    }

    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Result<CutOptions> {
        CutOptions::default().read(text)
    }

    /// The same options, but for what a text says otherwise.
    pub fn read(self, text: &str) -> Result<CutOptions> {
        let mut options = self;
        for word in text.split_whitespace() {
            let unknown = || Error::new(ErrorKind::Usage, format!("'{word}' says nothing about a cut"));
            let number = |value: &str| value.parse().ok().filter(|&n: &usize| n > 0).ok_or_else(unknown);
            match word.split_once(':').ok_or_else(unknown)? {
                ("tiles" | "impl", "") => {}
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

    /// What fusion must know of the cut.
    pub fn prospect(&self) -> Prospect {
        let forced = self.forced.iter().filter_map(|(_, name)| Some(name.split_once(':')?.0));
        let codes = self.parts.iter().map(|part| &part.code[..]).chain(forced);
        let axes = self.tilings.iter().flatten().map(|(name, _)| &name[..]);
        let words = |words: BTreeSet<&str>| words.into_iter().map(String::from).collect();
        let (codes, axes) = (codes.filter(|&code| code != CPU).collect(), axes.collect());
        Prospect { codes: words(codes), axes: words(axes), max_groups: self.max_groups }
    }

    /// Refuses tilings that name an axis twice or ask for tiles of no size, and shares that are not shares of
    /// an axis.
    pub(super) fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Plan, message));
        let is_shared = |name: &str| self.parts.iter().any(|part| part.axis == *name);
        for tiling in &self.tilings {
            for (i, (name, size)) in tiling.iter().enumerate() {
                if tiling[..i].iter().any(|(earlier, _)| earlier == name) {
                    return refuse(format!("a tiling names the axis {name} twice"));
                }
                if size.is_zero() {
                    return refuse(format!("the axis {name} cannot be cut by {size:?}"));
                }
            }
            if let Some((name, _)) = tiling.iter().filter(|(name, _)| is_shared(name)).nth(1) {
                return refuse(format!(
                    "a tiling shares out the axis {name} and another one among codes: share out one of them"
                ));
            }
        }
        for Part { axis, code, size, .. } in &self.parts {
            let is_word = |c: char| c.is_alphanumeric() || "-_.".contains(c);
            if code == CPU || code.is_empty() || !code.chars().all(is_word) {
                return refuse(format!(
                    "'{code}' is no code that a share of the axis {axis} can be given to: name one, in letters and digits, \
                     that is not {CPU}, which has the rest"
                ));
            }
            if size.is_zero() {
                return refuse(format!("the axis {axis} cannot be cut by {size:?}"));
            }
            if !self.tilings.iter().flatten().any(|(name, _)| name == axis) {
                return refuse(format!(
                    "no tiling names the axis {axis}, of which {code} has a share: give it a size"
                ));
            }
            let shares = self.parts.iter().filter(|part| part.axis == *axis).map(|part| part.share);
            if Share::sum(shares) > Share::WHOLE {
                return refuse(format!(
                    "more than 100% of the axis {axis} is given away: use smaller shares"
                ));
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

/// The size of tiles as text.
fn written(size: &TileSize) -> String {
    match size {
        TileSize::Size(size) => size.to_string(),
        TileSize::AtMost(size) => format!("{size}max"),
        TileSize::Count(count) => format!("{count}parts"),
        TileSize::Between(least, most) => format!("{least}to{most}"),
    }
}

/// The size of tiles from text.
fn size(text: &str) -> Option<TileSize> {
    let number = |digits: &str| digits.parse().ok().filter(|&n: &usize| n > 0);
    Some(match (text.strip_suffix("max"), text.strip_suffix("parts"), text.split_once("to")) {
        (Some(digits), ..) => TileSize::AtMost(number(digits)?),
        (_, Some(digits), _) => TileSize::Count(number(digits)?),
        (.., Some((least, most))) => {
            let (least, most) = (number(least)?, number(most)?);
            (least <= most).then_some(TileSize::Between(least, most))?
        }
        _ => TileSize::Size(number(text)?),
    })
}

/// An axis and a size, `n=16`; what other codes have of it is added to `parts`.
fn axis(text: &str, parts: &mut Vec<Part>) -> Result<(String, TileSize)> {
    let parsed = text.split_once('=').filter(|(name, _)| !name.is_empty()).and_then(|(name, sizes)| {
        let mut sizes = sizes.split('+');
        let of_cores = size(sizes.next()?)?;
        for part in sizes {
            let (code, rest) = part.split_once(':')?;
            let (share, tiles) = rest.split_once(':')?;
            let (axis, code) = (name.to_string(), code.to_string());
            parts.push(Part { axis, code, share: Share::parse(share)?, size: size(tiles)? });
        }
        Some((name.to_string(), of_cores))
    });
    parsed.ok_or_else(|| {
        let message = format!(
            "'{text}' is no cut of an axis: write AXIS=16 for tiles of 16 elements, AXIS=16to64 for larger ones on long axes, AXIS=4parts \
             for four tiles, AXIS=4096max for at most so many elements, and behind it +CODE:50%:32 for half of the axis in another code"
        );
        Error::new(ErrorKind::Usage, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Options that say something about everything.
    fn full() -> CutOptions {
        CutOptions::parse("tiles:n=16to64/i=4096max impl:few,lanes,flat,reference").unwrap()
    }

    fn is_read_back(options: &CutOptions) {
        assert_eq!(CutOptions::parse(&options.to_string()).unwrap(), *options, "{options}");
    }

    #[test]
    fn what_is_written_is_read() {
        is_read_back(&CutOptions::default());
        let mut options = full();
        is_read_back(&options);
        options.set_tiles("n=32,k=4parts").unwrap();
        assert_eq!(options.tiles(), "n=32,k=4parts/i=4096max");
        options.set_tiles("i=100max/n=8to24").unwrap();
        assert_eq!(options.tiles(), "i=100max/n=8to24");
        options.set_impls("flat,conv2d=reference").unwrap();
        assert_eq!(options.impls(), "flat,few,lanes,reference,conv2d=reference");
        (options.tiles_per_group, options.fusion) = (4, false);
        is_read_back(&options);
    }

    #[test]
    fn shares_of_an_axis_are_part_of_its_tiling() {
        let mut options = full();
        options.set_tiles("n=16to64+cuda:50%:32+other:12.25%:1parts,k=4").unwrap();
        assert_eq!(options.tiles(), "n=16to64+cuda:50%:32+other:12.25%:1parts,k=4/i=4096max");
        is_read_back(&options);
        options.set_impls("lanes,dense=cuda:fast").unwrap();
        is_read_back(&options);
        assert_eq!(options.prospect().codes, ["cuda", "other"]);
        // They stay with their axis, and go with it.
        options.set_tiles("i=8").unwrap();
        assert_eq!(options.tiles(), "i=8/n=16to64+cuda:50%:32+other:12.25%:1parts,k=4");
        options.set_tiles("n=8").unwrap();
        assert_eq!(options.tiles(), "n=8/i=8");
        assert_eq!((options.parts.len(), options.prospect().codes), (0, vec!["cuda".to_string()]));
    }

    #[test]
    fn shares_are_hundredths_of_a_percent() {
        for (text, of_200) in [("0%", 0), ("100%", 200), ("12.5%", 25), ("0.25%", 1), ("33.3%", 67)] {
            let share = Share::parse(text).unwrap();
            assert_eq!((share.to_string(), share.of(200)), (text.to_string(), of_200));
        }
        for text in ["", "%", "50", "101%", "-1%", "1e1%", "nan%", "5 %"] {
            assert_eq!(Share::parse(text), None, "{text}");
        }
        assert_eq!(Share::WHOLE.of(usize::MAX), usize::MAX);
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
            "n=8+",
            "n=8+4",
            "n=8+cuda",
            "n=8+cuda:50%",
            "n=8+cuda:50:4",
            "n=8+cuda:50%:0",
            "n=8+:50%:4",
            "n=8+cpu:50%:4",
            "n=8+a*b:50%:4",
            "n=8+cuda:60%:4+other:41%:4",
            "n=8+cuda:50%:4,k=8+cuda:50%:4",
        ] {
            assert!(full().set_tiles(text).is_err(), "{text}");
        }
        for text in ["", "a=", "=b", "lanes,,flat"] {
            assert!(full().set_impls(text).is_err(), "{text}");
        }
        for text in ["n=16", "tiles", "groups:0", "group:x", "fusion:maybe", "other:1"] {
            assert!(CutOptions::parse(text).is_err(), "{text}");
        }
        let part = Part { axis: "n".into(), code: "a".into(), share: Share::WHOLE, size: TileSize::Size(1) };
        assert!(CutOptions { parts: vec![part], ..CutOptions::default() }.check().is_err());
    }
}
