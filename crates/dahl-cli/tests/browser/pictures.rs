//! The pictures in `docs/`.

use super::*;
use std::path::PathBuf;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn save(page: &mut Chromium, name: &str) {
    page.next_frame();
    std::fs::create_dir_all(docs()).expect("a folder");
    let picture = page.screenshot();
    println!("{name}: {} KB", picture.len() / 1000);
    std::fs::write(docs().join(name), picture).expect("written");
}

#[test]
#[ignore = "writes the pictures in docs/"]
fn pictures_of_reports() {
    let Some(mut page) = browser("pictures", 1280, 980) else { return };
    let folder = Folder::new("browser-pictures");
    let html = folder.file("run.html");
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/fashion-mnist");
    let data = if images.is_dir() { images.to_str().expect("a path in UTF-8") } else { "digits" };
    let model = ["--model", "lenet5", "--lr", "0.05", "--epochs", "6"];
    success(&[&["train", "--data", data, "--workers", "2", "--report", &html], &model[..]].concat());
    for scheme in ["light", "dark"] {
        page.prefer(scheme);
        page.open(Path::new(&html));
        // Something to read in the first row, right of the middle.
        let (_, y, _) = point(&mut page, 0, 0);
        let found = format!(
            "[...Array(400).keys()].map(i => i + 700).find(x => dahlReport.hitAt(x, {y})?.title === 'conv2d_dx') ?? 300"
        );
        let x = page.number(&found) + 2.0;
        page.mouse("mouseMoved", x, y, false);
        save(&mut page, &format!("report-{scheme}.png"));
    }
}

#[test]
#[ignore = "writes the picture of many units in docs/"]
fn picture_of_many_units() {
    let Some(mut page) = browser("picture", 1120, 810) else { return };
    let folder = Folder::new("browser-picture");
    let many = folder.file("many.html");
    dahl_trace::save(&scenes::many(200, 100_000), &many).expect("written");
    page.prefer("light");
    page.open(Path::new(&many));
    // A few steps, with something to read.
    scroll_to(&mut page, "#timeline .card");
    let (x, y, _) = point(&mut page, 70, 253);
    for _ in 0..4 {
        page.wheel(x, y, -330.0);
        page.next_frame();
    }
    page.mouse("mouseMoved", x, y, false);
    save(&mut page, "report-200-units.png");
}
