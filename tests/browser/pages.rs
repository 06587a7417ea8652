//! Every page in a browser: opens, says nothing wrong, fits, can be read.

use super::devtools::{Browser, chromium};
use super::{exported, say};
use std::path::{Path, PathBuf};

/// All pages of the site, in order of name.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|ending| ending == "html") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Elements that stand out to the right, unless they are in something that scrolls by
/// itself.
const TOO_WIDE: &str = r#"
(() => {
  const width = document.documentElement.clientWidth;
  const scrolls = (node) => node && node !== document.body &&
    (["auto", "scroll"].includes(getComputedStyle(node).overflowX) || scrolls(node.parentElement));
  const wide = Array.from(document.body.querySelectorAll("*:not(svg *)"))
    .filter((node) => node.getBoundingClientRect().right > width + 1 && !scrolls(node))
    .map((node) => `${node.tagName} ${node.id} ${node.textContent.trim().slice(0, 40)}`);
  return document.documentElement.scrollWidth > width ? [`page ${document.documentElement.scrollWidth}`, ...wide] : wide;
})()
"#;

/// Texts whose contrast with what is behind them is below 4.5 (WCAG 2.2, 1.4.3), with
/// the contrast. Pictures apart: their ground is painted.
const TOO_FAINT: &str = r#"
(() => {
  const channels = (color) => color.match(/[\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = channels(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const faint = new Set();
  for (const node of document.body.querySelectorAll("*:not(svg *)")) {
    const own = Array.from(node.childNodes).some((child) => child.nodeType === 3 && child.data.trim() !== "");
    if (!own || node.closest("svg, script, noscript, option, .skip") || node.getClientRects().length === 0) continue;
    const [a, b] = [light(channels(getComputedStyle(node).color)), light(ground(node))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) faint.add(`${node.tagName}.${node.className} ${contrast.toFixed(2)}`);
  }
  return Array.from(faint);
})()
"#;

/// With `COALESCOPE_SCREENSHOTS=FOLDER` each kind of page is also left there as a
/// picture, to be looked at.
#[test]
fn every_page_opens_fits_and_can_be_read() {
    let Some(program) = chromium("every_page_opens_fits_and_can_be_read") else { return };
    let start = std::time::Instant::now();
    let site = exported();
    let mut browser = Browser::start(&program);
    let screenshots = std::env::var_os("COALESCOPE_SCREENSHOTS").map(PathBuf::from);
    let mut wrong = Vec::new();
    let all = pages(&site);
    for page in &all {
        let name = page.strip_prefix(&site).expect("in it").display().to_string();
        browser.appear(1440, false);
        for complaint in browser.open(page, "") {
            wrong.push(format!("{name}: {complaint}"));
        }
        for (width, dark) in [(1440, false), (360, false), (360, true), (1440, true)] {
            browser.appear(width, dark);
            browser.evaluate(
                "document.querySelectorAll('details').forEach((part) => { part.open = true; })",
            );
            for (check, what) in [(TOO_WIDE, "too wide"), (TOO_FAINT, "too faint")] {
                let found = browser.evaluate(check);
                for part in found.as_array().expect("a list") {
                    wrong.push(format!("{name} at {width}, dark {dark}: {what}: {part}"));
                }
            }
            let is_kind = !name.contains('/') || name.contains("07-");
            if let Some(folder) = screenshots.as_ref().filter(|_| is_kind) {
                picture(&mut browser, folder, &name, width, dark);
            }
        }
        for complaint in browser.complaints() {
            wrong.push(format!("{name}: {complaint}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(all.len() > 36, "{all:?}");
    let seconds = start.elapsed().as_secs_f64();
    say(&format!("site: {} pages in a browser in {seconds:.1} s", all.len()));
}

fn picture(browser: &mut Browser, folder: &Path, name: &str, width: u32, dark: bool) {
    use base64::Engine as _;
    std::fs::create_dir_all(folder).expect("a folder for pictures");
    let clip = browser.evaluate(
        "({ x: 0, y: 0, width: innerWidth, scale: 1, \
         height: Math.min(document.documentElement.scrollHeight, 6000) })",
    );
    let taken = browser.call(
        "Page.captureScreenshot",
        serde_json::json!({ "captureBeyondViewport": true, "clip": clip }),
    );
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(taken["data"].as_str().expect("a picture"))
        .expect("base64");
    let shade = if dark { "dark" } else { "light" };
    let file = format!("{}-{width}-{shade}.png", name.replace(['/', '.'], "-"));
    std::fs::write(folder.join(file), bytes).expect("it can be written");
}

/// On paper, a hand-out is black on white, without the site's menu.
#[test]
fn handouts_print_without_the_menu() {
    let Some(program) = chromium("handouts_print_without_the_menu") else { return };
    let mut browser = Browser::start(&program);
    browser.appear(800, true);
    browser.open(&exported().join("handouts/07-transpose.html"), "");
    browser.call(
        "Emulation.setEmulatedMedia",
        serde_json::json!({
            "media": "print",
            "features": [{ "name": "prefers-color-scheme", "value": "dark" }],
        }),
    );
    let seen = browser.evaluate(
        "['header', 'footer', '.screen', '.write', 'h1'].map((part) => \
         document.querySelector(part).getClientRects().length > 0)",
    );
    assert_eq!(seen, serde_json::json!([false, false, false, true, true]));
    let colors = browser.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]",
    );
    assert_eq!(colors, serde_json::json!(["rgb(0, 0, 0)", "rgb(255, 255, 255)"]));
}
