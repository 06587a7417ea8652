//! A headless Chromium, driven by its DevTools protocol over a pipe: JSON messages,
//! each ended by a zero byte, on file descriptors 3 and 4.
//!
//! Written out because it is this small: libraries for it bring an asynchronous
//! runtime and code generated for the whole protocol.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long anything may take that a page does.
const PATIENCE: Duration = Duration::from_secs(60);

/// Programs that are a Chromium, by what they are called where.
const NAMES: [&str; 5] =
    ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

/// The browser that `COALESCOPE_CHROMIUM` names, or one on the path. Says that the
/// test is skipped where there is none: to the terminal itself, since a passing
/// test's output is swallowed.
pub(crate) fn chromium(test: &str) -> Option<PathBuf> {
    let named = std::env::var_os("COALESCOPE_CHROMIUM").map(PathBuf::from);
    let found = named.or_else(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let mut places =
            NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        places.find(|place| place.is_file())
    });
    if found.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {test}: no Chromium on PATH; name one with COALESCOPE_CHROMIUM=/path/to/it"
        );
    }
    found
}

/// One browser at a time: what is measured in one is not to wait for another.
static ALONE: Mutex<()> = Mutex::new(());

/// A browser with one page.
pub(crate) struct Browser {
    _alone: MutexGuard<'static, ()>,
    child: Child,
    input: ChildStdin,
    output: Receiver<Value>,
    session: String,
    next: u64,
    /// Events that nothing has asked for yet.
    events: VecDeque<Value>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts `program` with a profile of its own and an empty page.
    pub(crate) fn start(program: &Path) -> Self {
        // A test that failed leaves nothing behind that another could not use.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let profile = tempfile::tempdir().expect("a scratch folder");
        // The shell gives the pipes the numbers that the protocol wants.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-extensions"])
            .args(["--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell starts the browser");
        let input = child.stdin.take().expect("a pipe");
        let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while reader.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            _alone: alone,
            child,
            input,
            output,
            session: String::new(),
            next: 0,
            events: VecDeque::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({ "targetId": target["targetId"], "flatten": true }),
        );
        attached["sessionId"].as_str().expect("a session").clone_into(&mut browser.session);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the protocol and gives its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("the browser listens");
        self.input.flush().expect("the browser listens");
        let until = Instant::now() + PATIENCE;
        loop {
            let answer = self.receive(until).unwrap_or_else(|| panic!("no answer to {method}"));
            if answer["id"].as_u64() != Some(self.next) {
                self.events.push_back(answer);
                continue;
            }
            assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
            return answer["result"].clone();
        }
    }

    fn receive(&mut self, until: Instant) -> Option<Value> {
        match self.output.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!(
                "the browser ended; does `{} --headless --no-sandbox` start here?",
                NAMES.join("`, `")
            ),
        }
    }

    /// Opens a page of a file and waits until it is loaded. Returns what it
    /// complained of: errors and warnings of console, scripts and network.
    pub(crate) fn open(&mut self, file: &Path, hash: &str) -> Vec<String> {
        // Away from a page that differs in its hash alone, which would not load.
        self.call("Page.navigate", json!({ "url": "about:blank" }));
        self.events.clear();
        let url = format!("file://{}{hash}", file.display());
        let opened = self.call("Page.navigate", json!({ "url": url }));
        assert!(opened.get("errorText").is_none(), "{url}: {opened}");
        let ready = "document.readyState === 'complete' && location.protocol === 'file:' && \
                     (!document.getElementById('simulator') || document.body.dataset.ready === 'true')";
        self.wait_for(ready);
        self.complaints()
    }

    /// What the page has complained of since this was asked last.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        let mut complaints = Vec::new();
        for event in std::mem::take(&mut self.events) {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => {
                    complaints.push(params["exceptionDetails"].to_string());
                }
                "Runtime.consoleAPICalled"
                    if ["error", "warning", "assert"]
                        .contains(&params["type"].as_str().unwrap_or_default()) =>
                {
                    complaints.push(params["args"].to_string());
                }
                "Log.entryAdded" if params["entry"]["level"] != "verbose" => {
                    complaints.push(params["entry"].to_string());
                }
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str().unwrap_or_default();
                    if !["file:", "data:", "about:"].iter().any(|scheme| url.starts_with(scheme)) {
                        complaints.push(format!("loads {url}"));
                    }
                }
                "Network.loadingFailed" => complaints.push(params.to_string()),
                _ => {}
            }
        }
        complaints
    }

    /// The value of an expression, promises waited for.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true }),
        );
        let thrown = answer.get("exceptionDetails");
        assert!(thrown.is_none(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        while self.evaluate(expression) != Value::Bool(true) {
            assert!(Instant::now() < until, "it never comes: {expression}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Makes the page `width` pixels wide, dark or light.
    pub(crate) fn appear(&mut self, width: u32, dark: bool) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600 }),
        );
        let scheme = if dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
    }

    /// Presses a key that has no letter.
    pub(crate) fn press(&mut self, key: &str) {
        for kind in ["rawKeyDown", "keyUp"] {
            let code = match key {
                "Tab" => 9,
                "Enter" => 13,
                "ArrowUp" => 38,
                "ArrowDown" => 40,
                " " => 32,
                other => panic!("which code has {other}?"),
            };
            let mut params = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
            if kind == "rawKeyDown" && (key == " " || key == "Enter") {
                params["type"] = json!("keyDown");
                params["text"] = json!(if key == " " { " " } else { "\r" });
            }
            self.call("Input.dispatchKeyEvent", params);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends with its pipe; the wait keeps it from outliving its profile.
        self.session.clear();
        let close = b"{\"id\":0,\"method\":\"Browser.close\"}\0";
        let _ = self.input.write_all(close).and_then(|()| self.input.flush());
        let until = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
