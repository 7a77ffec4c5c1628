//! A program that trains when it is asked to: dahl itself or PyTorch, each in a process of its own.
//!
//! So memory is that of one training alone, and programs take turns in the same minute. All of them speak the
//! same protocol, a line of JSON per message: settings are answered by `{"ready": …}`, each `{"seconds": …}`
//! by `{"turn": …}`, whatever goes wrong by `{"error": …}`. A program whose input ends, ends. Nobody may keep
//! a core busy between turns.
//!
//! dahl itself is started as `dahl bench --serve` (hidden, `serve.rs`), so a crash of either side is a
//! sentence. PyTorch's side is `scripts/torch_bench.py`; it is compiled in and imported from standard input,
//! so an installed dahl needs no files beside it.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// What a program did in one turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turn {
    /// Seconds of the median step.
    pub step_seconds: f64,
    /// Seconds of all steps together, over their number.
    pub mean_seconds: f64,
}

/// Bytes that a process had, as far as the system tells.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Of the data set.
    pub data: u64,
    /// Before there was any data.
    pub start: Option<u64>,
    /// With the data, before anything was trained.
    pub ready: Option<u64>,
    /// At most.
    pub peak: Option<u64>,
    /// At most on a GPU.
    pub device_peak: Option<u64>,
}

impl Memory {
    /// The process at most, without its data set.
    pub fn whole(&self) -> Option<u64> {
        Some(self.peak?.saturating_sub(self.data))
    }

    /// What training added to a process that had its code and its data.
    pub fn training(&self) -> Option<u64> {
        Some(self.peak?.saturating_sub(self.ready?))
    }
}

/// A process that has been started, and may still be on its way.
pub struct Started {
    process: Process,
}

impl Started {
    /// Starts a program and gives it these lines, which it need not answer. Whatever it is asked, it may take
    /// so long.
    pub fn new(command: &mut Command, lines: &[Value], patience: Duration) -> Result<Started> {
        let mut process = Process::start(command, patience)?;
        for line in lines {
            process.tell(line);
        }
        Ok(Started { process })
    }

    /// Tells it what to train, and waits until it is ready.
    pub fn ready(mut self, settings: &Value) -> Result<Contestant> {
        self.process.tell(settings);
        let about = self.process.answer("ready")?;
        let bytes = |key: &str| about[key].as_u64();
        let (start, ready) = (bytes("start_bytes"), bytes("ready_bytes"));
        let memory = Memory { data: bytes("data_bytes").unwrap_or(0), start, ready, ..Memory::default() };
        Ok(Contestant { process: self.process, turns: Vec::new(), memory, about })
    }
}

/// A process that is ready for its turns.
pub struct Contestant {
    process: Process,
    pub turns: Vec<Turn>,
    pub memory: Memory,
    /// What it told about itself.
    pub about: Value,
}

impl Contestant {
    /// Lets it train for so long.
    pub fn turn(&mut self, time: Duration) -> Result<()> {
        self.process.tell(&json!({ "seconds": time.as_secs_f64() }));
        let turn = self.process.answer("turn")?;
        let number = |key: &str| turn[key].as_f64().filter(|number| number.is_finite() && *number > 0.0);
        let numbers = (number("step_seconds"), number("seconds"), number("steps"));
        let (Some(step_seconds), Some(seconds), Some(steps)) = numbers else {
            bail!("it should have said how long which steps took, but said {turn}");
        };
        self.turns.push(Turn { step_seconds, mean_seconds: seconds / steps });
        self.memory.peak = turn["peak_bytes"].as_u64().filter(|&bytes| bytes > 0);
        self.memory.device_peak = turn["device_peak_bytes"].as_u64();
        Ok(())
    }
}

struct Process {
    child: Child,
    input: Option<ChildStdin>,
    answers: Receiver<String>,
    /// The last that it said on standard error, if we listen.
    complaint: Arc<Mutex<String>>,
    /// Closed when it has said all.
    complaints: Receiver<()>,
    patience: Duration,
}

/// How long a program may take to end by itself.
const GRACE: Duration = Duration::from_secs(2);

impl Process {
    fn start(command: &mut Command, patience: Duration) -> Result<Process> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("{program} cannot be started"))?;
        let (sender, answers) = channel();
        if let Some(output) = child.stdout.take() {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            let listen = move || lines.into_iter().try_for_each(|line| sender.send(line));
            thread::Builder::new().spawn(listen).context("no thread to listen to it can be started")?;
        }
        let complaint = Arc::new(Mutex::new(String::new()));
        let (open, complaints) = channel();
        if let Some(errors) = child.stderr.take() {
            let complaint = Arc::clone(&complaint);
            let lines = BufReader::new(errors).lines().map_while(Result::ok);
            let listen = move || {
                let _open = open;
                for line in lines.filter(|line| !line.trim().is_empty()) {
                    if let Ok(mut last) = complaint.lock() {
                        *last = line;
                    }
                }
            };
            thread::Builder::new().spawn(listen).context("no thread to listen to it can be started")?;
        }
        Ok(Process { input: child.stdin.take(), child, answers, complaint, complaints, patience })
    }

    /// Writes a line. Somebody who does not listen any more does not answer either, which says more.
    fn tell(&mut self, line: &Value) {
        if let Some(input) = &mut self.input {
            let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        }
    }

    /// The answer of this kind.
    fn answer(&mut self, kind: &str) -> Result<Value> {
        let line = self.answers.recv_timeout(self.patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                anyhow!("it did not answer for {} seconds; see --patience", self.patience.as_secs_f64())
            }
            RecvTimeoutError::Disconnected => self.last_words(),
        })?;
        let mut answer: Value = serde_json::from_str(&line)
            .with_context(|| format!("expected a line of JSON, but it said '{}'", line.trim()))?;
        if let Some(error) = answer["error"].as_str() {
            bail!("{error}");
        }
        match answer.get_mut(kind) {
            Some(value) => Ok(value.take()),
            None => bail!("expected an answer '{kind}', but it said {answer}"),
        }
    }

    /// Why it ended, as far as it said so.
    fn last_words(&mut self) -> anyhow::Error {
        let status = self.end();
        // What it wrote last may still be on its way.
        let _ = self.complaints.recv_timeout(GRACE);
        let complaint = self.complaint.lock().map(|last| last.clone()).unwrap_or_default();
        match complaint.is_empty() {
            true => anyhow!("it ended ({status}) without a word"),
            false => anyhow!("it ended ({status}): {}", complaint.trim()),
        }
    }

    /// Waits for its end, for a moment, and then ends it.
    fn end(&mut self) -> String {
        drop(self.input.take());
        let start = Instant::now();
        while start.elapsed() < GRACE {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.to_string();
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that answers by these lines, whatever it is asked.
    fn scripted(script: &str) -> Result<Contestant> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stderr(Stdio::piped());
        Started::new(&mut command, &[], Duration::from_secs(20))?.ready(&json!({}))
    }

    fn complaint(result: Result<impl Sized>) -> String {
        result.err().map(|error| format!("{error:#}")).unwrap_or_default()
    }

    #[test]
    fn turns_and_memory_are_what_the_program_says() {
        let script = r#"
            read line; echo '{"ready": {"data_bytes": 100, "start_bytes": 1000, "ready_bytes": 1100}}'
            read line; echo '{"turn": {"steps": 4, "seconds": 2.0, "step_seconds": 0.4, "peak_bytes": 1500}}'"#;
        let mut contestant = scripted(script).unwrap();
        contestant.turn(Duration::from_millis(1)).unwrap();
        assert_eq!(contestant.turns, [Turn { step_seconds: 0.4, mean_seconds: 0.5 }]);
        assert_eq!((contestant.memory.whole(), contestant.memory.training()), (Some(1400), Some(400)));
        let untold = Memory { peak: None, ..contestant.memory };
        assert_eq!((untold.whole(), untold.training()), (None, None));
        // It has said all that it had to say.
        assert!(complaint(contestant.turn(Duration::ZERO)).contains("without a word"));
    }

    #[test]
    fn whatever_goes_wrong_is_a_sentence() {
        assert!(complaint(scripted("read line; echo '{\"error\": \"no torch\"}'")).contains("no torch"));
        let text = complaint(scripted("echo one >&2; echo two >&2; exit 3"));
        assert!(text.contains("two") && text.contains('3'), "{text}");
        assert!(complaint(scripted("echo hello")).contains("'hello'"));
        assert!(complaint(scripted("echo '{\"turn\": 1}'")).contains("'ready'"));
        let mut contestant = scripted("echo '{\"ready\": {}}'; echo '{\"turn\": {\"steps\": 0}}'").unwrap();
        assert!(complaint(contestant.turn(Duration::ZERO)).contains("how long"));
        let mut command = Command::new("sh");
        command.args(["-c", "read line; read line"]);
        let silent = Started::new(&mut command, &[], Duration::from_millis(10)).unwrap();
        assert!(complaint(silent.ready(&json!({}))).contains("--patience"));
        let missing = Started::new(&mut Command::new("no such program"), &[], Duration::ZERO);
        assert!(complaint(missing).contains("no such program"));
    }
}
