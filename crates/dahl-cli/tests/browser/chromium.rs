//! Chromium without a window, driven through its DevTools protocol: JSON messages that end with a zero byte,
//! over two pipes.
//!
//! Nothing here waits for ever: an answer that does not come is a failed test, and the browser goes with the
//! value that stands for it.

use crate::command::Folder;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long an answer may take; machines that run tests may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page in a browser.
pub struct Chromium {
    child: Child,
    input: Option<ChildStdin>,
    messages: Receiver<Value>,
    n_calls: u64,
    session: Option<String>,
    /// What the browser told without being asked.
    events: Vec<Value>,
    _profile: Folder,
}

/// The name of a Chromium on this machine.
pub fn find() -> Option<String> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = |name: &&str| {
        let look =
            Command::new("sh").args(["-c", &format!("command -v {name}")]).stdout(Stdio::null()).status();
        look.is_ok_and(|status| status.success())
    };
    names.into_iter().find(found).map(str::to_string)
}

impl Chromium {
    /// Opens an empty page of this size.
    pub fn start(program: &str, name: &str, width: u32, height: u32) -> Chromium {
        let profile = Folder::new(&format!("chromium-{name}"));
        // The browser reads from its file 3 and writes to its file 4.
        let line = format!(
            "exec {program} --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --no-first-run \
             --disable-background-networking --disable-component-update --disable-extensions --force-device-scale-factor=1 \
             --user-data-dir=\"$1\" --remote-debugging-pipe about:blank 3<&0 4>&1 </dev/null >/dev/null 2>&1"
        );
        let mut child = Command::new("sh")
            .args(["-c", &line, "sh"])
            .arg(&profile.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let (send, messages) = channel();
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while output.read_until(0, &mut bytes).is_ok_and(|n| n > 0) && bytes.pop() == Some(0) {
                let message = serde_json::from_slice(&bytes).expect("a message in JSON");
                if send.send(message).is_err() {
                    break;
                }
                bytes.clear();
            }
        });
        let input = child.stdin.take();
        let mut page = Chromium {
            child,
            input,
            messages,
            n_calls: 0,
            session: None,
            events: Vec::new(),
            _profile: profile,
        };
        let target = page.call("Target.createTarget", json!({ "url": "about:blank" }));
        let target = json!({ "targetId": target["targetId"], "flatten": true });
        let session = page.call("Target.attachToTarget", target);
        page.session = session["sessionId"].as_str().map(str::to_string);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.resize(width, height);
        page
    }

    /// Sends a command and waits for its answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.n_calls += 1;
        let mut message = json!({ "id": self.n_calls, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        let written = self.input.as_mut().expect("an open pipe").write_all(&bytes);
        written.unwrap_or_else(|error| panic!("{method}: the browser is gone: {error}"));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left);
            let message = message.unwrap_or_else(|error| panic!("{method} was not answered: {error}"));
            if message["id"] == json!(self.n_calls) {
                assert!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// The size of the page, in pixels.
    pub fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Whether the user prefers dark colours.
    pub fn prefer(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        self.call("Emulation.setEmulatedMedia", json!({ "features": [feature] }));
    }

    /// Opens a report and waits until it has drawn itself.
    pub fn open(&mut self, path: &Path) {
        let url = format!("file://{}", path.display());
        self.call("Page.navigate", json!({ "url": url }));
        let deadline = Instant::now() + PATIENCE;
        while self.get("document.readyState === 'complete' && !!window.dahlReport") != json!(true) {
            assert!(Instant::now() < deadline, "{url} does not load: {:?}", self.problems());
            std::thread::sleep(Duration::from_millis(20));
        }
        self.next_frame();
    }

    /// Waits until what was asked for has been drawn.
    pub fn next_frame(&mut self) {
        self.get("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
    }

    /// The value of an expression in the page.
    pub fn get(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// The same, where it is a text.
    pub fn text(&mut self, expression: &str) -> String {
        let value = self.get(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression} is no text but {value}")).to_string()
    }

    /// The same, where it is a number.
    pub fn number(&mut self, expression: &str) -> f64 {
        let value = self.get(expression);
        value.as_f64().unwrap_or_else(|| panic!("{expression} is no number but {value}"))
    }

    /// Moves the mouse, with or without its left button.
    pub fn mouse(&mut self, kind: &str, x: f64, y: f64, is_down: bool) {
        let (button, buttons) = if is_down { ("left", 1) } else { ("none", 0) };
        // What is released was down.
        let button = if kind == "mouseReleased" { "left" } else { button };
        let params =
            json!({ "type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1 });
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Turns the wheel.
    pub fn wheel(&mut self, x: f64, y: f64, delta: f64) {
        let params = json!({ "type": "mouseWheel", "x": x, "y": y, "deltaX": 0, "deltaY": delta });
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Clicks on what a selector finds.
    pub fn click(&mut self, selector: &str) {
        let found = format!("document.querySelector({})", json!(selector));
        self.get(&format!("{found}.scrollIntoView({{ block: 'center' }})"));
        self.next_frame();
        let at = self.get(&format!("(() => {{ const r = {found}.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; }})()"));
        let (x, y) = (at[0].as_f64().expect("x"), at[1].as_f64().expect("y"));
        self.mouse("mousePressed", x, y, true);
        self.mouse("mouseReleased", x, y, false);
    }

    /// Presses a key.
    pub fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key }));
        }
    }

    /// A picture of the page as it is seen.
    pub fn screenshot(&mut self) -> Vec<u8> {
        let answer = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        decode(answer["data"].as_str().expect("a picture"))
    }

    /// Everything that went wrong in the page: exceptions, messages, dialogs, and requests for anything but
    /// the file.
    pub fn problems(&self) -> Vec<String> {
        let is_problem = |event: &&Value| match event["method"].as_str().unwrap_or("") {
            "Runtime.exceptionThrown"
            | "Log.entryAdded"
            | "Runtime.consoleAPICalled"
            | "Page.javascriptDialogOpening" => true,
            "Network.requestWillBeSent" => {
                let url = event["params"]["request"]["url"].as_str().unwrap_or("");
                !url.starts_with("file://") || !url.ends_with(".html")
            }
            _ => false,
        };
        self.events.iter().filter(is_problem).map(Value::to_string).collect()
    }

    /// Requests that the page made, itself included.
    pub fn n_requests(&self) -> usize {
        self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent").count()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Without its pipe, the browser ends; if it does not do so soon, it is ended.
        drop(self.input.take());
        let deadline = Instant::now() + Duration::from_secs(5);
        while self.child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes from base64.
fn decode(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => u32::from(c - b'A'),
        b'a'..=b'z' => u32::from(c - b'a') + 26,
        b'0'..=b'9' => u32::from(c - b'0') + 52,
        b'+' => 62,
        b'/' => 63,
        _ => 0,
    };
    let n_padding = text.bytes().rev().take_while(|&c| c == b'=').count();
    let group = |group: &[u8]| {
        let bits = group.iter().fold(0, |bits, &c| bits << 6 | digit(c));
        [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8]
    };
    let mut bytes: Vec<u8> = text.as_bytes().chunks(4).flat_map(group).collect();
    bytes.truncate(bytes.len().saturating_sub(n_padding));
    bytes
}
