//! The explorer in a browser: its counts are those of `coalescope warp`, its scenario
//! files those of `coalescope sim`, its address keeps its state.

use super::devtools::{Browser, chromium};
use super::{exported, say};
use serde_json::{Value, json};
use simulator::RuleSet;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

/// Where the page's array starts.
const BASE: u64 = 0x7000_0000_0000;

/// What the controls hold.
#[derive(Clone, Debug)]
struct State {
    cc: &'static str,
    op: &'static str,
    size: u64,
    layout: &'static str,
    fields: u64,
    field: u64,
    group: u64,
    stride: u64,
    offset: u64,
    mask: u32,
}

/// xorshift64*, Vigna 2016: the same states in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n as u64
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len()) as usize]
    }
}

impl State {
    fn draw(draw: &mut Draw) -> Self {
        static ARCHS: LazyLock<Vec<String>> = LazyLock::new(RuleSet::known_archs);
        let archs: Vec<&str> = ARCHS.iter().map(String::as_str).collect();
        let op = draw.of(&["ld", "ld", "ld", "st", "st", "red", "atom", "lds", "sts"]);
        let sizes: &[u64] = if ["red", "atom"].contains(&op) { &[4, 8] } else { &[1, 2, 4, 8, 16] };
        let fields = 1 + draw.below(16);
        let masks = [u32::MAX, u32::MAX, 0xffff, 0x5555_5555, 0x0007_ffff, 1, 0x8000_0001, 0];
        let random = draw.below(1 << 16) as u32 ^ (draw.below(1 << 16) as u32) << 16;
        Self {
            // What is measured more often.
            cc: if draw.below(4) == 0 { "9.0" } else { draw.of(&archs) },
            op,
            size: draw.of(sizes),
            layout: draw.of(&["soa", "soa", "aos", "aosoa"]),
            fields,
            field: draw.below(fields as usize),
            group: draw.of(&[4, 8, 16, 32, 64, 128]),
            stride: if draw.below(8) == 0 { draw.below(1025) } else { draw.below(18) },
            offset: if draw.below(8) == 0 { draw.below(4097) } else { draw.below(40) },
            mask: if draw.below(2) == 0 { random } else { draw.of(&masks) },
        }
    }

    fn is_shared(&self) -> bool {
        self.op.ends_with('s')
    }

    /// Byte of a lane from the start of the array.
    fn byte(&self, lane: u64) -> u64 {
        let element = self.offset + self.stride * lane;
        let slot = match self.layout {
            "soa" => element,
            // Structs one after the other.
            "aos" => element * self.fields + self.field,
            // Whole blocks, the arrays before this one, the place in it.
            _ => {
                let (block, place) = (element / self.group, element % self.group);
                (block * self.fields + self.field) * self.group + place
            }
        };
        slot * self.size
    }

    /// Bytes of the array, which for shared memory must fit.
    fn bytes(&self) -> u64 {
        let all = self.offset + self.stride * 31 + 1;
        match self.layout {
            "soa" => all * self.size,
            "aos" => all * self.fields * self.size,
            _ => all.div_ceil(self.group) * self.group * self.fields * self.size,
        }
    }

    /// A line for `coalescope warp`.
    fn line(&self, id: usize) -> Value {
        let base = if self.is_shared() { 0 } else { BASE };
        let addresses: Vec<u64> = (0..32).map(|lane| base + self.byte(lane)).collect();
        let mut line = json!({
            "id": id, "op": self.op, "width": self.size, "mask": self.mask, "addresses": addresses,
        });
        if !["red", "atom"].contains(&self.op) {
            line["type"] = json!(format!("b{}", 8 * self.size));
        }
        line
    }

    fn json(&self) -> Value {
        json!({
            "cc": self.cc, "op": self.op, "size": self.size, "layout": self.layout,
            "fields": self.fields, "field": self.field, "group": self.group,
            "stride": self.stride, "offset": self.offset, "mask": self.mask,
        })
    }
}

/// States that the page counts: arrays of shared memory that fit a block.
fn states(n: usize) -> Vec<State> {
    let mut draw = Draw(0x5eed);
    let drawn = std::iter::repeat_with(move || State::draw(&mut draw));
    drawn.filter(|state| !state.is_shared() || state.bytes() <= 48 * 1024).take(n).collect()
}

/// Sets the controls to a state as a person would, and reads what the page shows.
const PAGE: &str = include_str!("explorer.js");

fn open(browser: &mut Browser, hash: &str) {
    let complaints = browser.open(&exported().join("explorer.html"), hash);
    assert!(complaints.is_empty(), "{complaints:#?}");
    browser.evaluate(PAGE);
}

fn command(args: &[&str], input: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_coalescope"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    let input = input.to_owned();
    let writer = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    let _ = writer.join();
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What `coalescope warp` answers to the states, in order.
fn counted(states: &[State]) -> Vec<Value> {
    let mut by_arch: BTreeMap<&str, String> = BTreeMap::new();
    for (id, state) in states.iter().enumerate() {
        by_arch.entry(state.cc).or_default().push_str(&format!("{}\n", state.line(id)));
    }
    let mut answers = vec![Value::Null; states.len()];
    for (arch, lines) in by_arch {
        for line in command(&["warp", "--arch", arch], &lines).lines() {
            let answer: Value = serde_json::from_str(line).expect("JSON");
            let id = answer["id"].as_u64().expect("an id") as usize;
            assert!(answer.get("error").is_none(), "{:?}: {answer}", states[id]);
            answers[id] = answer;
        }
    }
    answers
}

/// What differs between the page's counts and those of a line or record.
fn differences(page: &Value, other: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, shown) in page.as_object().expect("counts") {
        let shown = shown.as_str().expect("a text");
        let expected = match name.as_str() {
            "unique_efficiency" | "requested_efficiency" => {
                let bytes = other[name.replace("efficiency", "bytes")].as_f64();
                let share = bytes.zip(other["moved_bytes"].as_f64().filter(|&moved| moved > 0.0));
                // As the page rounds it.
                share.map(|(bytes, moved)| format!("{} %", (bytes / moved * 1000.0).round() / 10.0))
            }
            "transactions" => other[name].as_array().map(|list| list.len().to_string()),
            _ => other[name].as_u64().map(|count| count.to_string()),
        };
        if expected.as_deref().unwrap_or("not defined") != shown {
            wrong.push(format!("{name}: {shown} instead of {expected:?}"));
        }
    }
    wrong
}

#[test]
fn counts_are_those_of_the_command_and_follow_at_once() {
    let Some(program) = chromium("counts_are_those_of_the_command_and_follow_at_once") else {
        return;
    };
    let states = states(1000);
    let answers = counted(&states);
    let mut browser = Browser::start(&program);
    browser.appear(1440, false);
    open(&mut browser, "");
    let (mut wrong, mut times) = (Vec::new(), Vec::new());
    let mut shown = Vec::new();
    for chunk in states.chunks(50) {
        let list: Vec<Value> = chunk.iter().map(State::json).collect();
        let answer = browser.evaluate(&format!("{}.map(choose)", json!(list)));
        shown.extend(answer.as_array().expect("a list").iter().cloned());
    }
    for ((state, answer), page) in states.iter().zip(&answers).zip(&shown) {
        times.push(page["ms"].as_f64().expect("a time"));
        for difference in differences(&page["counts"], answer) {
            wrong.push(format!("{state:?}: {difference}"));
        }
        if page["pictured"] != 1 {
            wrong.push(format!("{state:?}: no picture"));
        }
    }
    let complaints = browser.complaints();
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert!(wrong.is_empty(), "{} differ: {:#?}", wrong.len(), &wrong[..wrong.len().min(10)]);
    times.sort_by(f64::total_cmp);
    let (least, median, most) = (times[0], times[times.len() / 2], times[times.len() - 1]);
    say(&format!(
        "explorer: {} states agree; picture and counts follow in {median:.1} ms (median; least \
         {least:.1} ms, most {most:.1} ms)",
        states.len()
    ));
    // The aim is 50 ms for each; a machine that does other things is late at times.
    assert!(times[times.len() / 4] < 50.0, "{times:?}");
}

#[test]
fn the_address_keeps_the_state() {
    let Some(program) = chromium("the_address_keeps_the_state") else { return };
    let mut browser = Browser::start(&program);
    let states = states(60);
    open(&mut browser, "");
    let mut kept = Vec::new();
    for state in &states {
        kept.push(browser.evaluate(&format!("choose({})", state.json())));
    }
    for (state, before) in states.iter().zip(&kept) {
        let hash = before["hash"].as_str().expect("an address");
        let same = |after: &Value| {
            for part in ["hash", "counts", "summary", "scenario"] {
                assert_eq!(after[part], before[part], "{state:?}");
            }
        };
        // In the page that is open, then in one that is opened with it.
        let follow = format!(
            "location.hash === {hash:?} ? read() : new Promise((done) => {{ \
             addEventListener('hashchange', () => done(read()), {{ once: true }}); \
             location.hash = {hash:?}; }})"
        );
        same(&browser.evaluate(&follow));
        if state.offset % 4 == 0 {
            open(&mut browser, hash);
            same(&browser.evaluate("read()"));
        }
    }
    // The address bar itself follows, a little later.
    browser.evaluate(&format!("choose({})", states[0].json()));
    browser.wait_for("location.hash === document.getElementById('link').hash");

    open(&mut browser, "#stride=3&size=5&colour=red&offset=-1&mask=xyz&field=9");
    let note = browser.evaluate("document.getElementById('note').textContent");
    for part in ["size=5", "colour=red", "offset=-1", "mask=xyz", "field=9"] {
        assert!(note.as_str().is_some_and(|note| note.contains(part)), "{note}");
    }
    assert_eq!(browser.evaluate("document.getElementById('stride').value"), "3");

    // What cannot be counted says why, and shows no numbers.
    open(&mut browser, "#op=red&size=2");
    assert_eq!(browser.evaluate("read().summary"), "Nothing is counted.");
    assert_eq!(browser.evaluate("read().pictured"), 0);
    assert_eq!(browser.evaluate("read().counts.sectors"), "–");
    let note = browser.evaluate("document.getElementById('note').textContent");
    assert!(note.as_str().is_some_and(|note| note.contains("4 or 8 bytes")), "{note}");
}

#[test]
fn the_scenario_file_counts_the_same() {
    let Some(program) = chromium("the_scenario_file_counts_the_same") else { return };
    let mut browser = Browser::start(&program);
    open(&mut browser, "");
    let states = states(150);
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let file = scratch.path().join("explorer.toml");
    let mut compared = 0;
    for state in &states {
        // A record has no counts of an access that no lane executes.
        if state.mask == 0 {
            continue;
        }
        let page = browser.evaluate(&format!("choose({})", state.json()));
        let text = page["scenario"].as_str().expect("a text");
        std::fs::write(&file, text).expect("it can be written");
        let words = page["command"].as_str().expect("a command").to_owned();
        let mut args: Vec<&str> = words.split_whitespace().skip(1).collect();
        let path = file.display().to_string();
        args[1] = &path;
        args.push("--json");
        let record: Value = serde_json::from_str(&command(&args, ""))
            .unwrap_or_else(|error| panic!("{error}: {words}\n{text}"));
        let accesses = record["accesses"].as_array().expect("accesses");
        let access = accesses.iter().find(|access| access["op"] == state.op);
        let access = access.unwrap_or_else(|| panic!("{record}\n{text}"));
        assert_eq!(access["width"].as_u64(), Some(state.size), "{text}");
        let mut access = access.clone();
        // A record sums them up; there is one warp.
        access["transactions"] = match access["transactions"].as_u64() {
            Some(count) => json!(vec![0; count as usize]),
            None => Value::Null,
        };
        let wrong = differences(&page["counts"], &access);
        assert!(wrong.is_empty(), "{state:?}: {wrong:?}\n{text}\n{access}");
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn a_keyboard_is_enough_and_changes_are_said() {
    let Some(program) = chromium("a_keyboard_is_enough_and_changes_are_said") else { return };
    let mut browser = Browser::start(&program);
    browser.appear(1440, false);
    open(&mut browser, "");
    let said = |browser: &mut Browser| {
        let live = "document.querySelector('[aria-live=polite]').textContent";
        browser.evaluate(live).as_str().expect("a text").to_owned()
    };
    assert!(said(&mut browser).contains("32 of 32 lanes load 4 bytes each: 1 request, 4 sectors"));
    browser.press("Tab");
    assert_eq!(browser.evaluate("document.activeElement.className"), "skip");
    let mut reached = Vec::new();
    for _ in 0..80 {
        browser.press("Tab");
        let id = browser.evaluate("document.activeElement.id || document.activeElement.name || ''");
        let id = id.as_str().expect("a text").to_owned();
        let outlined = browser.evaluate(
            "(() => { const at = document.activeElement; const on = at.name === 'lane' ? \
             at.nextElementSibling : at; return getComputedStyle(on).outlineStyle !== 'none'; })()",
        );
        assert_eq!(outlined, true, "{id}: the focus is not seen");
        match id.as_str() {
            "stride" => {
                browser.press("ArrowUp");
                let words = said(&mut browser);
                assert!(words.contains("8 sectors") && words.contains("50 %"), "{words}");
            }
            "lane" if !reached.contains(&id) => {
                browser.press(" ");
                assert!(said(&mut browser).starts_with("31 of 32 lanes"));
            }
            "show-scenario" => {
                browser.press("Enter");
                let seen = "document.getElementById('scenario').getClientRects().length > 0";
                assert_eq!(browser.evaluate(seen), true);
            }
            _ => {}
        }
        reached.push(id);
        if reached.last().is_some_and(|id| id == "copy") {
            break;
        }
    }
    for id in ["cc", "op", "size", "layout", "stride", "offset", "preset", "show-scenario", "copy"]
    {
        assert!(reached.iter().any(|reached| reached == id), "{id} is not reached: {reached:?}");
    }
    assert_eq!(reached.iter().filter(|id| *id == "lane").count(), 32);
}
