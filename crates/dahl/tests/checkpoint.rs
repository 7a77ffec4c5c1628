//! Checkpoint files: what is saved is read again or refused, and nothing that was saved is lost.

use dahl::tensors::{Tensor, Tensors};
use dahl::train::Checkpoint;
use dahl::{Error, file};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An empty folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("checkpoint-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("created");
        Folder(path)
    }

    /// The names of the files in it, in order.
    fn names(&self) -> Vec<String> {
        names(&self.0)
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn checkpoint(step: u64) -> Checkpoint {
    let mut tensors = Tensors::new();
    let weights: Vec<f32> = (0..7).map(|i| (i as f32 - 3.0) / step.max(1) as f32).collect();
    tensors.insert("fc1.weight", Tensor::new(&[7, 1], weights).expect("fits"));
    tensors.insert("optimizer.count", Tensor::new(&[], vec![step as i64]).expect("fits"));
    tensors.insert("empty", Tensor::new::<f64>(&[0, 3], vec![]).expect("fits"));
    let settings = [("seed", "1"), ("name", "with \"quotes\"\\ and\nlines\t\u{1}ä"), ("", "")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Checkpoint { step, tensors, settings: settings.into(), plan: "dahl plan 1\ntask \"x\"\n".into() }
}

fn name(step: u64) -> String {
    format!("step-{step:012}.safetensors")
}

fn sentence(result: Result<impl Sized, Error>) -> String {
    match result {
        Ok(_) => panic!("expected an error"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_saved_is_loaded_and_the_last_two_are_kept() -> Result<(), Error> {
    let folder = Folder::new("kept");
    let inside = folder.0.join("made/on/demand");
    for step in [1, 20, 300, 4000] {
        let path = checkpoint(step).save(&inside)?;
        assert_eq!(path, inside.join(name(step)));
        assert_eq!(Checkpoint::load(&path)?.checkpoint, checkpoint(step));
    }
    assert_eq!(names(&inside), [name(300), name(4000)]);
    assert_eq!(Checkpoint::steps(&inside)?, [300, 4000]);
    let newest = Checkpoint::load(&inside)?;
    assert_eq!((newest.checkpoint, newest.refused), (checkpoint(4000), vec![]));
    // The same step again: the file is replaced, and no other is removed.
    checkpoint(4000).save(&inside)?;
    // A run that went on from an older one leaves the later one alone.
    checkpoint(350).save(&inside)?;
    assert_eq!(names(&inside), [name(300), name(350), name(4000)]);
    // Large numbers come after small ones.
    checkpoint(u64::MAX).save(&inside)?;
    assert_eq!(Checkpoint::newest(&inside)?.checkpoint.step, u64::MAX);
    Ok(())
}

#[test]
fn equal_checkpoints_have_equal_bytes_and_are_safetensors() -> Result<(), Error> {
    let folder = Folder::new("bytes");
    let bytes = |folder: PathBuf| fs::read(checkpoint(5).save(folder).expect("saved")).expect("read");
    let first = bytes(folder.0.join("a"));
    assert_eq!(first, bytes(folder.0.join("b")));
    // The crate that others read such files with.
    let read = safetensors::SafeTensors::deserialize(&first).expect("valid safetensors");
    assert_eq!(read.len(), 3);
    let weights = read.tensor("fc1.weight").expect("there");
    assert_eq!((weights.dtype(), weights.shape()), (safetensors::Dtype::F32, &[7, 1][..]));
    assert_eq!(weights.data()[..4], (-0.6f32).to_le_bytes());
    // Reading it as tensors shows the texts too.
    let tensors = Tensors::load(folder.0.join("a").join(name(5)))?;
    assert_eq!(tensors.metadata["setting.seed"], "1");
    assert_eq!(tensors.metadata["dahl.checkpoint"], "1");
    Ok(())
}

#[test]
fn a_file_cut_off_anywhere_or_changed_anywhere_is_refused() -> Result<(), Error> {
    let folder = Folder::new("damage");
    let older = checkpoint(1).save(&folder.0)?;
    let path = checkpoint(2).save(&folder.0)?;
    let whole = fs::read(&path).expect("read");
    let is_refused = |bytes: &[u8], what: &str| {
        fs::write(&path, bytes).expect("written");
        let error = sentence(Checkpoint::load(&path));
        assert!(error.starts_with(&format!("{}: ", path.display())), "{what}: {error}");
        let newest = Checkpoint::newest(&folder.0).expect("the older one");
        assert_eq!((&newest.path, newest.checkpoint.step), (&older, 1), "{what}");
        assert_eq!(newest.refused.len(), 1, "{what}");
        assert_eq!(newest.refused[0].path, path, "{what}");
        assert!(error.ends_with(&newest.refused[0].reason), "{what}: {error}");
    };
    for n in 0..whole.len() {
        is_refused(&whole[..n], &format!("the first {n} bytes"));
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        for flip in [1, 0x20, 0x80, 0xff] {
            changed[at] = whole[at] ^ flip;
            is_refused(&changed, &format!("byte {at} with {flip:02x} flipped"));
        }
    }
    is_refused(&[&whole[..], &[0]].concat(), "a byte more");
    is_refused(&vec![0; whole.len()], "zeros");
    // Blocks that were never written.
    for start in (0..whole.len()).step_by(64) {
        let mut changed = whole.clone();
        let end = whole.len().min(start + 64);
        changed[start..end].fill(0);
        is_refused(&changed, &format!("zeros from {start} to {end}"));
    }
    fs::write(&path, &whole).expect("written");
    assert_eq!(Checkpoint::newest(&folder.0)?.checkpoint, checkpoint(2));
    Ok(())
}

#[test]
fn refusals_say_what_is_wrong() -> Result<(), Error> {
    let folder = Folder::new("refusals");
    let error = sentence(Checkpoint::newest(&folder.0));
    assert!(error.contains("there is none in it"), "{error}");
    let missing = folder.0.join("missing");
    assert!(sentence(Checkpoint::load(&missing)).contains("check the path"));
    assert!(sentence(Checkpoint::newest(&missing)).contains("expected a folder with checkpoints"));

    let path = checkpoint(7).save(&folder.0)?;
    let whole = fs::read(&path).expect("read");
    let version =
        whole.windows(20).position(|window| window == b"dahl.checkpoint\":\"1\"").expect("there") + 18;
    let mut newer = whole.clone();
    newer[version] = b'2';
    fs::write(&path, &newer).expect("written");
    let error = sentence(Checkpoint::load(&path));
    assert!(error.contains("format version 2, and this dahl reads version 1"), "{error}");
    let error = sentence(Checkpoint::newest(&folder.0));
    assert!(error.contains("no checkpoint in this folder is intact"), "{error}");
    assert!(error.contains(&format!("{}: it is a checkpoint of format version 2", name(7))), "{error}");

    checkpoint(7).tensors.save(&path)?;
    let error = sentence(Checkpoint::load(&path));
    assert!(error.contains("safetensors file, but no checkpoint of dahl"), "{error}");
    assert!(sentence(Checkpoint::newest(&path)).contains("name the folder that it is in"));
    Ok(())
}

#[test]
fn a_damaged_one_does_not_count_as_one_of_two() -> Result<(), Error> {
    let folder = Folder::new("damaged-kept");
    checkpoint(1).save(&folder.0)?;
    let damaged = checkpoint(2).save(&folder.0)?;
    fs::write(&damaged, "no longer whole").expect("written");
    checkpoint(3).save(&folder.0)?;
    assert_eq!(folder.names(), [name(1), name(2), name(3)]);
    checkpoint(4).save(&folder.0)?;
    assert_eq!(folder.names(), [name(3), name(4)]);
    Ok(())
}

#[test]
fn what_dead_writers_left_is_removed_and_what_others_write_is_not() -> Result<(), Error> {
    let folder = Folder::new("stale");
    let stale = folder.0.join(format!(".{}.1-0.dahl-tmp", name(1)));
    let (busy, foreign) = (folder.0.join(format!(".{}.2-0.dahl-tmp", name(2))), folder.0.join("notes.tmp"));
    fs::write(&stale, "half").expect("written");
    fs::write(&foreign, "not ours").expect("written");
    let writing = fs::File::create(&busy).expect("created");
    writing.lock().expect("locked");
    checkpoint(9).save(&folder.0)?;
    assert!(!stale.exists() && busy.exists() && foreign.exists(), "{:?}", folder.names());
    drop(writing);
    checkpoint(10).save(&folder.0)?;
    assert!(!busy.exists());
    // Names that only look like checkpoints are neither read nor removed.
    for other in ["step-1.safetensors", "step-00000000000x.safetensors", "step-000000000001.safetensors.bak"]
    {
        fs::write(folder.0.join(other), "mine").expect("written");
    }
    checkpoint(11).save(&folder.0)?;
    assert_eq!(Checkpoint::steps(&folder.0)?, [10, 11]);
    assert_eq!(folder.names().len(), 6);
    Ok(())
}

#[test]
fn places_where_nothing_can_be_written_are_said() {
    let folder = Folder::new("places");
    let plain = folder.0.join("plain");
    fs::write(&plain, "a file").expect("written");
    for path in [plain.clone(), plain.join("below")] {
        let error = sentence(checkpoint(1).save(&path));
        assert!(error.contains("cannot be created") && error.contains("a file is in its place"), "{error}");
    }
    let error = sentence(file::write(folder.0.join("missing/file"), |_| Ok(())));
    assert!(error.contains("its folder does not exist"), "{error}");
    let error = sentence(file::write(&folder.0, |_| Ok(())));
    assert!(error.contains("name a file in it"), "{error}");
    assert_eq!(folder.names(), ["plain"]);

    let mut odd = checkpoint(1);
    odd.tensors.insert("__metadata__", Tensor::new(&[1], vec![1u8]).expect("fits"));
    assert!(sentence(odd.save(folder.0.join("odd"))).contains("no tensor can have the name __metadata__"));
    assert!(names(&folder.0.join("odd")).is_empty());
}

#[cfg(unix)]
#[test]
fn a_folder_without_permission_loses_nothing() -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("permission");
    checkpoint(1).save(&folder.0)?;
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o500)).expect("set");
    if fs::write(folder.0.join("probe"), "").is_ok() {
        println!("skipped: this user may write everywhere");
    } else {
        let error = sentence(checkpoint(2).save(&folder.0));
        assert!(error.contains("cannot be written") && error.contains("check the permissions"), "{error}");
        assert_eq!(Checkpoint::newest(&folder.0)?.checkpoint, checkpoint(1));
    }
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).expect("set");
    Ok(())
}

#[test]
fn a_write_that_fails_changes_nothing() {
    let folder = Folder::new("undone");
    let path = folder.0.join("plan");
    file::write(&path, |out| out.write_all(b"first")).expect("written");
    let error = sentence(file::write(&path, |out| {
        out.write_all(b"second")?;
        Err(std::io::ErrorKind::StorageFull.into())
    }));
    assert!(error.contains("make room on the disk"), "{error}");
    assert_eq!(
        (folder.names(), fs::read_to_string(&path).expect("read")),
        (vec!["plan".to_owned()], "first".into())
    );
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay_and_devices_are_written_directly() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("links");
    let (real, link) = (folder.0.join("real"), folder.0.join("link"));
    fs::write(&real, "old").expect("written");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("set");
    std::os::unix::fs::symlink("real", &link).expect("linked");
    file::write(&link, |out| out.write_all(b"new")).expect("written");
    assert_eq!(fs::read_to_string(&real).expect("read"), "new");
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(fs::metadata(&real).expect("there").permissions().mode() & 0o777, 0o640);
    if Path::new("/dev/full").exists() {
        let error = sentence(file::write("/dev/full", |out| out.write_all(b"x")));
        assert!(error.contains("make room on the disk"), "{error}");
    }
    assert!(sentence(Tensors::load("/dev/null")).contains("this is a device"));
}

/// Called in a process of its own by the tests below, in the folder where it saves.
#[test]
#[ignore = "a part of other tests"]
fn saves_where_it_is_called() {
    let mut large = checkpoint(3);
    large.tensors.insert("large", Tensor::new(&[100_000], vec![1.0f64; 100_000]).expect("fits"));
    match large.save(".") {
        Ok(path) => println!("saved {}", path.display()),
        Err(error) => println!("refused {error}"),
    }
}

/// What the test above says when it is called in `folder`, after a command of the shell.
fn save_in(folder: &Path, before: &str) -> Output {
    let program = std::env::current_exe().expect("this program");
    let script = format!("{before}\nexec \"$0\" --ignored --exact saves_where_it_is_called --nocapture");
    Command::new("sh").args(["-c", &script]).arg(program).current_dir(folder).output().expect("sh runs")
}

#[cfg(unix)]
#[test]
fn a_limit_for_files_loses_nothing() -> Result<(), Error> {
    let folder = Folder::new("limit");
    checkpoint(1).save(&folder.0)?;
    checkpoint(2).save(&folder.0)?;
    // 32 blocks of 512 or 1024 bytes; without the trap, the signal would end the process.
    let output = save_in(&folder.0, "trap '' XFSZ\nulimit -f 32");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("refused ./step-000000000003.safetensors: cannot be written"), "{text}");
    assert!(text.contains("the limit for files is reached"), "{text}");
    assert_eq!(folder.names(), [name(1), name(2)]);
    assert_eq!(Checkpoint::newest(&folder.0)?.checkpoint, checkpoint(2));
    Ok(())
}

/// A small file system of its own.
#[cfg(target_os = "linux")]
struct SmallDisk(Folder);

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0.0).output();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing() -> Result<(), Error> {
    let disk = SmallDisk(Folder::new("disk"));
    let folder = &disk.0;
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&folder.0).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        println!("skipped: a small disk cannot be mounted here");
        return Ok(());
    }
    checkpoint(1).save(&folder.0)?;
    checkpoint(2).save(&folder.0)?;
    let output = save_in(&folder.0, "");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("make room on the disk"), "{text}");
    assert_eq!(folder.names(), [name(1), name(2)]);
    assert_eq!(Checkpoint::newest(&folder.0)?.checkpoint, checkpoint(2));
    // And then there is room again.
    checkpoint(3).save(&folder.0)?;
    assert_eq!(folder.names(), [name(2), name(3)]);
    Ok(())
}
