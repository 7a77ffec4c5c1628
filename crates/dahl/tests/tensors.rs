//! Tensor files: what NumPy and PyTorch wrote is read as it was meant, and nothing that is damaged does harm.

use dahl::tensors::half::{BF16, F16};
use dahl::tensors::{Dtype, Format, Number, Tensor, Tensors, UNNAMED};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

/// Written by scripts/tensor_files.py.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tensor_files").join(name)
}

fn load(name: &str) -> Tensors {
    Tensors::load(path(name)).unwrap_or_else(|error| panic!("{error}"))
}

/// The six elements that the script writes in a type.
fn six(dtype: Dtype) -> Vec<f64> {
    (0..6)
        .map(|i| match dtype {
            Dtype::Bool => f64::from(i % 2),
            Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => f64::from(i),
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => f64::from(i - 2),
            Dtype::F16 | Dtype::BF16 | Dtype::F32 | Dtype::F64 => f64::from(i - 2) / 4.0,
        })
        .collect()
}

#[track_caller]
fn assert_six(tensor: Option<&Tensor>, dtype: Dtype) {
    let tensor = tensor.unwrap_or_else(|| panic!("no tensor of {dtype}"));
    assert_eq!((tensor.dtype(), tensor.shape()), (dtype, &[2, 3][..]));
    assert_eq!(tensor.to_f64().expect("exact"), six(dtype), "{dtype}");
}

#[test]
fn arrays_of_numpy_are_read() {
    for name in ["little.npz", "little_deflated.npz", "big.npz", "big_deflated.npz"] {
        let tensors = load(name);
        assert_eq!(tensors.len(), 15, "{name}");
        for (code, dtype) in [
            ("b1", Dtype::Bool),
            ("u1", Dtype::U8),
            ("i1", Dtype::I8),
            ("u2", Dtype::U16),
            ("i2", Dtype::I16),
            ("u4", Dtype::U32),
            ("i4", Dtype::I32),
            ("u8", Dtype::U64),
            ("i8", Dtype::I64),
            ("f2", Dtype::F16),
            ("f4", Dtype::F32),
            ("f8", Dtype::F64),
            ("fortran", Dtype::I32),
        ] {
            assert_six(tensors.get(code), dtype);
        }
        let scalar = tensors.get("scalar").expect("there");
        assert_eq!((scalar.shape(), scalar.get::<f32>()), (&[][..], Some(&[1.5][..])));
        assert_eq!(tensors.get("empty").map(Tensor::shape), Some(&[3, 0][..]));
    }
    for version in 1..=3 {
        assert_six(load(&format!("version{version}.npy")).get(UNNAMED), Dtype::F32);
    }
    let cube = load("fortran.npy");
    let cube = cube.get(UNNAMED).expect("there");
    assert_eq!(cube.shape(), [2, 3, 4]);
    assert_eq!(cube.to_f64().expect("exact"), (0..24).map(|i| f64::from(i) - 2.0).collect::<Vec<_>>());
}

#[test]
fn texts_of_numpy_are_read() {
    assert_eq!(load("spaces.csv").get(UNNAMED).expect("there").to_f64().expect("exact"), six(Dtype::F64));
    assert_six(load("names.csv").get(UNNAMED), Dtype::F64);
    let column = load("column.csv");
    let column = column.get(UNNAMED).expect("there");
    assert_eq!((column.shape(), column.get::<i64>()), (&[6, 1][..], Some(&[-2, -1, 0, 1, 2, 3][..])));
}

#[test]
fn tensors_of_torch_are_read() {
    let tensors = load("torch.safetensors");
    for (name, dtype) in [
        ("bool", Dtype::Bool),
        ("uint8", Dtype::U8),
        ("int8", Dtype::I8),
        ("uint16", Dtype::U16),
        ("int16", Dtype::I16),
        ("uint32", Dtype::U32),
        ("int32", Dtype::I32),
        ("uint64", Dtype::U64),
        ("int64", Dtype::I64),
        ("float16", Dtype::F16),
        ("bfloat16", Dtype::BF16),
        ("float32", Dtype::F32),
        ("float64", Dtype::F64),
    ] {
        assert_six(tensors.get(name), dtype);
    }
    assert_eq!(tensors.get("float16").and_then(|t| t.get::<F16>()).map(|t| t[0]), Some(F16(0xb800)));
    assert_eq!(tensors.get("bfloat16").and_then(|t| t.get::<BF16>()).map(|t| t[0]), Some(BF16(0xbf00)));
    assert_eq!(tensors.len(), 15);
    assert_eq!(tensors.metadata["format"], "pt");

    // What is written again is the same, whatever order it was in.
    let bytes = tensors.to_bytes().expect("written");
    assert_eq!(Tensors::parse(Format::Safetensors, &bytes), Ok(tensors.clone()));
    let mut backwards: Tensors =
        tensors.iter().collect::<Vec<_>>().into_iter().rev().map(|(n, t)| (n, t.clone())).collect();
    backwards.metadata.insert("format".into(), "pt".into());
    assert_eq!(backwards.to_bytes().expect("written"), bytes);

    let error = Tensors::parse(Format::Npz, &fs::read(path("torch.pt")).expect("read")).expect_err("pickle");
    assert!(error.contains("torch.save") && error.contains("save_file"), "{error}");
    let error =
        Tensors::parse(Format::Safetensors, &fs::read(path("torch.pt")).expect("read")).expect_err("zip");
    assert!(error.contains("zip archive"), "{error}");
}

#[test]
fn files_are_told_by_ending_or_by_contents() {
    let bytes = |name: &str| fs::read(path(name)).expect("read");
    let of = |name: &str, bytes: &[u8]| Format::of(Path::new(name), bytes);
    assert_eq!(of("x", &bytes("version1.npy")), Format::Npy);
    assert_eq!(of("x.bin", &bytes("little.npz")), Format::Npz);
    assert_eq!(of("x", &bytes("torch.safetensors")), Format::Safetensors);
    assert_eq!(of("x", &bytes("names.csv")), Format::Csv);
    assert_eq!(of("X.NPY", b""), Format::Npy);
    assert_eq!(of("x.tsv", b"PK"), Format::Csv);
    let error = Tensors::load(path("")).expect_err("a folder").to_string();
    assert!(error.contains("this is a folder"), "{error}");
    let error = Tensors::load(path("none.npy")).expect_err("nothing").to_string();
    assert!(error.contains("none.npy: ") && error.contains("check the path"), "{error}");
}

/// A safetensors file with this header.
fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

#[test]
fn headers_of_safetensors_are_not_believed() {
    let refused = |bytes: &[u8], part: &str| {
        let error = Tensors::parse(Format::Safetensors, bytes).expect_err(part);
        assert!(error.contains(part), "{part}: {error}");
    };
    let tensor = |shape: &str, offsets: &str| {
        format!("{{\"a\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}")
    };
    assert!(Tensors::parse(Format::Safetensors, &with_header(&tensor("[2]", "[0,8]"), &[0; 8])).is_ok());
    refused(b"", "there are 0");
    refused(&u64::MAX.to_le_bytes(), "100 MB");
    refused(&99_999_999u64.to_le_bytes(), "longer than the file");
    refused(&with_header(&tensor("[2]", "[0,8]"), &[0; 7]), "cut off or damaged");
    refused(&with_header(&tensor("[2]", "[0,8]"), &[0; 9]), "cut off or damaged");
    refused(&with_header(&tensor("[3]", "[0,8]"), &[0; 8]), "does not fit its shape");
    refused(&with_header(&tensor("[2]", "[8,0]"), &[0; 8]), "overlaps another one or leaves a gap");
    refused(&with_header(&tensor("[9223372036854775807,4]", "[0,8]"), &[0; 8]), "does not fit its shape");
    refused(&with_header(&tensor("[-1]", "[0,8]"), &[0; 8]), "header cannot be read");
    refused(&with_header("{\"a\":1}", &[]), "header cannot be read");
    refused(&with_header(&"[".repeat(100_000), &[]), "header cannot be read");
    refused(&with_header(&tensor(&format!("[{}1]", "1,".repeat(99)), "[0,4]"), &[0; 4]), "100 dimensions");
    let two = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\
               \"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}";
    refused(&with_header(two, &[0; 6]), "tensor 'b' overlaps another one");
    let eighth = two.replace("\"U8\"", "\"F8_E4M3\"").replace("[2,6]", "[4,8]");
    refused(&with_header(&eighth, &[0; 8]), "tensor 'a' has the element type F8_E4M3");
    refused(&fs::read(path("version1.npy")).expect("read"), "name it .npy");
}

/// A zip archive with one stored member whose sizes and places are 64-bit numbers.
fn zip64(name: &str, contents: &[u8]) -> Vec<u8> {
    let mut crc = flate2::Crc::new();
    crc.update(contents);
    let (checksum, length) = (crc.sum().to_le_bytes(), (contents.len() as u64).to_le_bytes());
    let names = (name.len() as u16).to_le_bytes();
    let mut zip: Vec<u8> = b"PK\x03\x04\x2d\0\0\0\0\0\0\0\0\0".to_vec();
    zip.extend(
        [&checksum[..], &[0xff; 8], &names, &[20, 0], name.as_bytes(), &[1, 0, 16, 0], &length, &length]
            .concat(),
    );
    zip.extend(contents);
    let directory = (zip.len() as u64).to_le_bytes();
    zip.extend(b"PK\x01\x02\x2d\0\x2d\0\0\0\0\0\0\0\0\0");
    zip.extend([&checksum[..], &[0xff; 8], &names, &[36, 0], &[0; 10], &[0xff; 4], name.as_bytes()].concat());
    // Another field comes first, which is none of our business.
    zip.extend([&[9, 9, 4, 0, 1, 2, 3, 4, 1, 0, 24, 0][..], &length, &length, &[0; 8]].concat());
    let end = (zip.len() as u64).to_le_bytes();
    zip.extend([&b"PK\x06\x06"[..], &[44, 0, 0, 0, 0, 0, 0, 0], &[0; 12]].concat());
    zip.extend([&[1, 0, 0, 0, 0, 0, 0, 0][..], &[1, 0, 0, 0, 0, 0, 0, 0], &[0; 8], &directory].concat());
    zip.extend([&b"PK\x06\x07"[..], &[0; 4], &end, &[1, 0, 0, 0]].concat());
    zip.extend([&b"PK\x05\x06"[..], &[0; 4], &[0xff; 4], &[0xff; 8], &[7, 0], b"comment"].concat());
    zip
}

#[test]
fn archives_are_read_and_not_believed() {
    let array = fs::read(path("version1.npy")).expect("read");
    let parse = |bytes: &[u8]| Tensors::parse(Format::Npz, bytes);
    let whole = zip64("x.npy", &array);
    assert_six(parse(&whole).expect("valid").get("x"), Dtype::F32);
    let refused = |bytes: &[u8], part: &str| {
        let error = parse(bytes).expect_err(part);
        assert!(error.contains(part), "{part}: {error}");
    };
    refused(&zip64("notes.txt", b"hello"), "holds 'notes.txt'");
    refused(&zip64("x.npy", &array[..100]), "array 'x': ");
    refused(b"", "is empty");
    refused(&array, "begins with");
    refused(b"PK", "no end of its directory");
    let mut damaged = whole.clone();
    *damaged.iter_mut().rfind(|byte| **byte == 0x3f).expect("a float") ^= 1;
    refused(&damaged, "the checksum of 'x.npy' is wrong");

    let deflated = fs::read(path("little_deflated.npz")).expect("read");
    let entry = deflated.windows(4).position(|window| window == b"PK\x01\x02").expect("a directory");
    let changed = |at: usize, bytes: &[u8]| {
        let mut changed = deflated.clone();
        changed[entry + at..entry + at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    refused(&changed(8, &[1]), "is encrypted");
    refused(&changed(10, &[99]), "compressed by method 99");
    refused(&changed(10, &[0]), "bytes than the");
    refused(&changed(24, &[1, 0, 0, 0]), "more bytes than the 1");
    refused(&changed(24, &[0, 0, 0, 0x7f]), "fewer bytes than the");
    refused(&changed(42, &[5, 0, 0, 0]), "not where it should be");
    let second =
        deflated[entry + 46..].windows(4).position(|window| window == b"PK\x01\x02").expect("another") + 46;
    let start = deflated[entry + second + 42..][..4].to_vec();
    refused(&changed(42, &start), "overlap");
    refused(&changed(24, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff]), "damaged or cut off");
    for n in 0..deflated.len() {
        assert!(parse(&deflated[..n]).is_err(), "the first {n} bytes");
    }
}

#[test]
fn small_archives_do_not_become_large() {
    use std::io::Write;
    // 64 megabytes of zeros that says it has ten bytes: inflating stops there.
    let mut packer = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..64 {
        packer.write_all(&vec![0; 1 << 20]).expect("packed");
    }
    let packed = packer.finish().expect("packed");
    let member = |claimed: u32| {
        let sizes = [(packed.len() as u32).to_le_bytes(), claimed.to_le_bytes()].concat();
        let mut zip: Vec<u8> = b"PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0".to_vec();
        zip.extend([&sizes[..], &[5, 0, 0, 0], b"x.npy", &packed].concat());
        let directory = (zip.len() as u32).to_le_bytes();
        zip.extend(b"PK\x01\x02\x14\0\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0");
        zip.extend([&sizes[..], &[5, 0], &[0; 16], b"x.npy"].concat());
        zip.extend(
            [&b"PK\x05\x06"[..], &[0; 4], &[1, 0, 1, 0], &[51, 0, 0, 0], &directory, &[0, 0]].concat(),
        );
        zip
    };
    let error = Tensors::parse(Format::Npz, &member(10)).expect_err("more");
    assert!(error.contains("more bytes than the 10"), "{error}");
}

/// The files that are changed at random.
const SEEDS: [(&str, Format); 8] = [
    ("little.npz", Format::Npz),
    ("big_deflated.npz", Format::Npz),
    ("torch.pt", Format::Npz),
    ("version1.npy", Format::Npy),
    ("version3.npy", Format::Npy),
    ("fortran.npy", Format::Npy),
    ("names.csv", Format::Csv),
    ("torch.safetensors", Format::Safetensors),
];

const FORMATS: [Format; 4] = [Format::Safetensors, Format::Npy, Format::Npz, Format::Csv];

/// Whatever comes out, it is a sentence or tensors that make sense and no larger than the file allows.
fn is_sane(format: Format, bytes: &[u8]) {
    match Tensors::parse(format, bytes) {
        Err(sentence) => assert!(!sentence.is_empty()),
        Ok(tensors) => {
            let all: usize = tensors.iter().map(|(_, tensor)| tensor.bytes()).sum();
            assert!(all <= 1100 * bytes.len().max(1), "{all} bytes from {}", bytes.len());
            let written = tensors.to_bytes().expect("written");
            assert_eq!(Tensors::parse(Format::Safetensors, &written), Ok(tensors));
        }
    }
}

fn round_trip<T: Number>(values: Vec<T>) -> Tensor {
    let shape = [1, values.len()];
    let tensor = Tensor::new(&shape, values).expect("fits");
    let mut tensors = Tensors::new();
    tensors.insert("x", tensor.clone());
    tensors.insert("\"quoted\"\\\u{7f}\u{1}\n😀", tensor.clone());
    tensors.insert("", tensor.clone());
    tensors.metadata.insert("\t".into(), "\u{0}".into());
    let bytes = tensors.to_bytes().expect("written");
    assert_eq!(bytes.len() % 8, tensor.bytes() * 3 % 8, "data are aligned");
    assert_eq!(Tensors::parse(Format::Safetensors, &bytes), Ok(tensors));
    tensor
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300), which in 0..4usize) {
        is_sane(FORMATS[which], &bytes);
        // Behind the right beginning.
        let begin: &[u8] = match FORMATS[which] {
            Format::Npy => b"\x93NUMPY\x01\x00\x40\x00{'descr': '<f4', 'fortran_order': ",
            Format::Npz => b"PK\x05\x06\0\0\0\0\x01\0\x01\0",
            Format::Safetensors => b"\x20\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",",
            Format::Csv => b"1,2\n",
        };
        is_sane(FORMATS[which], &[begin, &bytes].concat());
    }

    #[test]
    fn changed_files_do_no_harm(
        seed in 0..SEEDS.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (name, format) = SEEDS[seed];
        let mut bytes = fs::read(path(name)).expect("read");
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        is_sane(format, &bytes);
    }

    #[test]
    fn pieces_in_another_order_do_no_harm(
        seed in 0..SEEDS.len(),
        from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(), n in 1..64usize,
    ) {
        let (name, format) = SEEDS[seed];
        let mut bytes = fs::read(path(name)).expect("read");
        let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
        let n = n.min(bytes.len() - from).min(bytes.len() - to);
        bytes.copy_within(from..from + n, to);
        is_sane(format, &bytes);
    }

    #[test]
    fn what_is_written_is_read_with_the_same_bits(
        singles in prop::collection::vec(any::<u32>(), 0..40), doubles in prop::collection::vec(any::<u64>(), 0..9000),
        truths in prop::collection::vec(any::<bool>(), 0..9),
    ) {
        let floats: Vec<f32> = singles.iter().map(|&bits| f32::from_bits(bits)).collect();
        let exact = round_trip(floats.clone()).to_f64().expect("exact");
        prop_assert!(floats.iter().zip(exact).all(|(&x, y)| f64::from(x).to_bits() == y.to_bits() || x.is_nan()));
        round_trip(doubles.iter().map(|&bits| f64::from_bits(bits)).collect::<Vec<f64>>());
        round_trip(doubles);
        round_trip(singles.iter().map(|&bits| BF16(bits as u16)).collect::<Vec<_>>());
        round_trip(singles.iter().map(|&bits| bits as i8).collect::<Vec<_>>());
        round_trip(truths);
    }
}
