//! Pictures as they are in their files: PNG, JPEG, PGM and PPM.
//!
//! Decoders are chosen by the first bytes, not by the ending. What comes out is grey or red, green and blue,
//! 8 bits each: palettes are resolved, of 16 bits the upper 8 are taken, transparency and orientation tags
//! are left out. A picture that is not intact to its end is an error. JPEG is decoded without vector
//! instructions, because its pixels must not depend on the machine.

use std::io::Cursor;
use std::path::Path;

use png::{ColorType, Transformations};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::pnm;
use crate::error::{Error, Result};
use crate::file;
use crate::memory;

/// The most values a picture may have: beyond that it is taken for a trap.
pub(super) const MAX_VALUES: usize = 1 << 30;

/// The most bytes of a file: a picture that is not compressed, and its header.
const MAX_FILE_BYTES: u64 = MAX_VALUES as u64 + (1 << 16);

/// The largest width and height.
const MAX_SIDE: usize = 1 << 16;

/// A picture in memory, row by row, its channels side by side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Picture {
    pub width: usize,
    pub height: usize,
    /// 1 (grey) or 3 (red, green, blue).
    pub channels: usize,
    pub values: Vec<u8>,
}

impl Picture {
    /// Reads the file at `path`.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = file::read(path, MAX_FILE_BYTES)?;
        Self::decode(&bytes).map_err(|fault| {
            let sentence = match fault {
                Fault::Damaged(what) => format!(
                    "expected an intact PNG, JPEG, PGM or PPM image, but {what}; replace or remove the file"
                ),
                Fault::NoMemory(sentence) => sentence,
            };
            Error::data(path, sentence)
        })
    }

    /// Decodes a file, or says what is wrong with it.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, Fault> {
        match bytes {
            [] => Err("the file is empty".to_owned().into()),
            [0x89, b'P', b'N', b'G', ..] => decode_png(bytes).map_err(|fault| fault.of("PNG")),
            [0xff, 0xd8, 0xff, ..] => decode_jpeg(bytes).map_err(|fault| fault.of("JPEG")),
            [b'P', b'1'..=b'7', ..] => pnm::decode(bytes).map_err(|fault| fault.of("PGM or PPM")),
            _ => {
                let start: Vec<String> = bytes.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
                Err(format!("the file begins with {}, which is none of them", start.join(" ")).into())
            }
        }
    }

    /// The same picture with 1 or 3 channels: colours become the grey of ITU-R 601, greys become three equal
    /// colours. A sentence if there is not enough memory for it.
    pub fn with_channels(self, channels: usize) -> std::result::Result<Self, String> {
        if self.channels == channels {
            return Ok(self);
        }
        let mut values = memory::room(self.width * self.height * channels, PICTURE)?;
        match channels {
            1 => values.extend(self.values.chunks_exact(3).map(|rgb| grey([rgb[0], rgb[1], rgb[2]]))),
            _ => values.extend(self.values.iter().flat_map(|&value| [value; 3])),
        }
        Ok(Picture { channels, values, ..self })
    }
}

/// What memory is for, in messages.
pub(super) const PICTURE: &str = "a picture";

/// Why a file gives no picture.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// What is wrong with it.
    Damaged(String),
    /// A sentence: nothing is wrong with it, but it is too large for this machine.
    NoMemory(String),
}

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Fault::Damaged(what)
    }
}

impl Fault {
    /// The same, with what the file was read as.
    fn of(self, format: &str) -> Self {
        match self {
            Fault::Damaged(what) => Fault::Damaged(format!("as {format} it fails: {what}")),
            fault => fault,
        }
    }
}

/// 0.299 red + 0.587 green + 0.114 blue in 16-bit fractions, rounded.
fn grey([r, g, b]: [u8; 3]) -> u8 {
    let sum = 19595 * u32::from(r) + 38470 * u32::from(g) + 7471 * u32::from(b);
    ((sum + (1 << 15)) >> 16) as u8
}

/// Refuses sizes that cannot be meant.
pub(super) fn check_size(width: usize, height: usize, channels: usize) -> std::result::Result<usize, String> {
    let values = width.checked_mul(height).and_then(|pixels| pixels.checked_mul(channels));
    values.filter(|&n| n > 0 && n <= MAX_VALUES && width <= MAX_SIDE && height <= MAX_SIDE).ok_or_else(|| {
        format!("it says that it has {width} x {height} pixels, and only 1 to {MAX_SIDE} each way and {MAX_VALUES} values are read")
    })
}

/// What a decoder says, in one line.
fn in_a_line(error: impl std::fmt::Display) -> String {
    error.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn decode_png(bytes: &[u8]) -> std::result::Result<Picture, Fault> {
    let mut options = png::DecodeOptions::default();
    options.set_ignore_adler32(false);
    options.set_ignore_text_chunk(true);
    options.set_ignore_iccp_chunk(true);
    let mut decoder = png::Decoder::new_with_options(Cursor::new(bytes), options);
    decoder.set_limits(png::Limits { bytes: MAX_VALUES });
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info().map_err(in_a_line)?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    check_size(width, height, 4)?;
    let n_bytes = reader.output_buffer_size().ok_or_else(|| "it is too large".to_owned())?;
    let mut values = memory::zeros(n_bytes, PICTURE).map_err(Fault::NoMemory)?;
    let frame = reader.next_frame(&mut values).map_err(in_a_line)?;
    // What follows the pixels must be intact, too: a file without its end was cut off.
    reader.finish().map_err(in_a_line)?;
    values.truncate(frame.buffer_size());
    let (stride, channels) = match frame.color_type {
        ColorType::Grayscale => (1, 1),
        ColorType::GrayscaleAlpha => (2, 1),
        ColorType::Rgb => (3, 3),
        ColorType::Rgba => (4, 3),
        ColorType::Indexed => return Err("its palette cannot be resolved".to_owned().into()),
    };
    if stride != channels {
        // In place: a channel never comes to lie behind where it was.
        let n_pixels = width * height;
        for pixel in 0..n_pixels {
            values.copy_within(pixel * stride..pixel * stride + channels, pixel * channels);
        }
        values.truncate(n_pixels * channels);
    }
    Ok(Picture { width, height, channels, values })
}

fn decode_jpeg(bytes: &[u8]) -> std::result::Result<Picture, Fault> {
    // The decoder makes up what is missing at the end. Within a scan no mark looks like these two, and a
    // preview has its own before.
    let last = |mark: u8| bytes.windows(2).rposition(|pair| pair == [0xff, mark]);
    if last(0xd9) < last(0xda) {
        return Err("its end is missing, so it was cut off".to_owned().into());
    }
    let options = DecoderOptions::default()
        .set_strict_mode(true)
        .set_use_unsafe(false)
        .set_max_width(MAX_SIDE)
        .set_max_height(MAX_SIDE);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(in_a_line)?;
    let is_grey = decoder.input_colorspace() == Some(ColorSpace::Luma);
    let (colours, channels) = if is_grey { (ColorSpace::Luma, 1) } else { (ColorSpace::RGB, 3) };
    let info = decoder.info().ok_or_else(|| "it has no header".to_owned())?;
    let (width, height) = (usize::from(info.width), usize::from(info.height));
    let n_values = check_size(width, height, channels)?;
    decoder.set_options(options.jpeg_set_out_colorspace(colours));
    let values = decoder.decode().map_err(in_a_line)?;
    if values.len() != n_values {
        return Err(format!("{n_values} values were expected and {} came", values.len()).into());
    }
    Ok(Picture { width, height, channels, values })
}
