//! Perfetto's own format: a stream of protobuf packets, encoded by hand because only a handful of fields is
//! needed.
//!
//! Each worker is a track below the process `dahl`; tasks and the gaps between them are slices with their
//! step, layer, tile, bytes and reason as arguments. Where a worker waited for a task of another, a flow
//! leads from that task to the one that waited. The program's own copies have a track of their own. Field
//! numbers are those of Perfetto's `trace_packet.proto`, `track_descriptor.proto`, `track_event.proto` and
//! `debug_annotation.proto`.

use super::export::{Slice, dropped_note, nanos, scopes, timeline};
use dahl_runtime::graph::TaskId;
use dahl_runtime::trace::{Idle, Reason, Trace, Transfer};
use std::collections::HashMap;
use std::io::{self, Write};

mod field {
    pub const TRACE_PACKET: u32 = 1;
    pub mod packet {
        pub const TIMESTAMP: u32 = 8;
        pub const SEQUENCE_ID: u32 = 10;
        pub const TRACK_EVENT: u32 = 11;
        pub const SEQUENCE_FLAGS: u32 = 13;
        pub const TRACK_DESCRIPTOR: u32 = 60;
    }
    pub mod descriptor {
        pub const UUID: u32 = 1;
        pub const NAME: u32 = 2;
        pub const PROCESS: u32 = 3;
        pub const PARENT_UUID: u32 = 5;
        pub const CHILD_ORDERING: u32 = 11;
        pub const RANK: u32 = 12;
    }
    pub mod process {
        pub const PID: u32 = 1;
        pub const NAME: u32 = 6;
    }
    pub mod event {
        pub const DEBUG_ANNOTATIONS: u32 = 4;
        pub const TYPE: u32 = 9;
        pub const TRACK_UUID: u32 = 11;
        pub const CATEGORIES: u32 = 22;
        pub const NAME: u32 = 23;
        pub const FLOW_IDS: u32 = 47;
        pub const TERMINATING_FLOW_IDS: u32 = 48;
    }
    pub mod annotation {
        pub const UINT: u32 = 3;
        pub const STRING: u32 = 6;
        pub const NAME: u32 = 10;
    }
}

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;
/// Tracks in the order of their ranks.
const EXPLICIT_ORDERING: u64 = 3;
const STATE_CLEARED: u64 = 1;
const SEQUENCE: u64 = 1;
const PROCESS_UUID: u64 = 1;
/// The track of worker 0; the others follow, then the program's.
const FIRST_TRACK: u64 = 2;

/// A protobuf message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn uint(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3);
        self.varint(value);
        self
    }

    fn fixed64(mut self, field: u32, value: u64) -> Self {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u32, message: &Message) -> Self {
        self.bytes(field, &message.0)
    }
}

/// Writes packets.
struct Packets<'a, W> {
    out: &'a mut W,
    trace: &'a Trace,
    origin: u64,
    /// Flows that begin with a task of a step, and those that end with it.
    leaving: HashMap<(TaskId, u32), Vec<u64>>,
    arriving: HashMap<(TaskId, u32), Vec<u64>>,
}

pub(super) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let idle = trace.idle();
    let (mut leaving, mut arriving): (HashMap<_, Vec<u64>>, HashMap<_, Vec<u64>>) = Default::default();
    let waits = idle.iter().flatten().filter_map(|gap| Some((gap.awaited?, gap.before)));
    for (flow, (from, to)) in (1..).zip(waits) {
        leaving.entry(from).or_default().push(flow);
        arriving.entry(to).or_default().push(flow);
    }
    let mut packets = Packets { out, trace, origin: trace.origin(), leaving, arriving };
    packets.describe()?;
    for (worker, (events, gaps)) in trace.workers.iter().zip(&idle).enumerate() {
        let track = FIRST_TRACK + worker as u64;
        packets.note_dropped(worker, track)?;
        for slice in timeline(events, gaps) {
            packets.slice(track, slice)?;
        }
    }
    let program = trace.workers.len();
    let track = FIRST_TRACK + program as u64;
    packets.note_dropped(program, track)?;
    for transfer in trace.transfers.get(program).into_iter().flatten() {
        let event = packets.transfer_event(transfer);
        packets.pair(track, transfer.start, transfer.end, event)?;
    }
    Ok(())
}

impl<W: Write> Packets<'_, W> {
    fn packet(&mut self, packet: Message) -> io::Result<()> {
        let packet = packet.uint(field::packet::SEQUENCE_ID, SEQUENCE);
        let framed = Message::default().message(field::TRACE_PACKET, &packet);
        self.out.write_all(&framed.0)
    }

    /// Names the tracks.
    fn describe(&mut self) -> io::Result<()> {
        use field::{descriptor, packet, process};
        let trace = self.trace;
        let dahl = Message::default().uint(process::PID, 1).text(process::NAME, "dahl");
        let root = Message::default()
            .uint(descriptor::UUID, PROCESS_UUID)
            .message(descriptor::PROCESS, &dahl)
            .uint(descriptor::CHILD_ORDERING, EXPLICIT_ORDERING);
        let flags = Message::default().uint(packet::SEQUENCE_FLAGS, STATE_CLEARED);
        self.packet(flags.message(packet::TRACK_DESCRIPTOR, &root))?;
        let mut names: Vec<String> = Vec::new();
        for worker in 0..trace.workers.len() {
            let unit = trace.scene.workers.get(worker).map_or(String::new(), |unit| format!(" ({unit})"));
            names.push(format!("worker {worker}{unit}"));
        }
        if trace.transfers.get(trace.workers.len()).is_some_and(|transfers| !transfers.is_empty()) {
            names.push("program".to_string());
        }
        for (track, name) in (FIRST_TRACK..).zip(names) {
            let track = Message::default()
                .uint(descriptor::UUID, track)
                .text(descriptor::NAME, &name)
                .uint(descriptor::PARENT_UUID, PROCESS_UUID)
                .uint(descriptor::RANK, track);
            self.packet(Message::default().message(packet::TRACK_DESCRIPTOR, &track))?;
        }
        Ok(())
    }

    fn event(&mut self, track: u64, ticks: u64, kind: u64, event: Message) -> io::Result<()> {
        let event = event.uint(field::event::TYPE, kind).uint(field::event::TRACK_UUID, track);
        let time = nanos(self.trace, self.origin, ticks);
        let packet = Message::default().uint(field::packet::TIMESTAMP, time);
        self.packet(packet.message(field::packet::TRACK_EVENT, &event))
    }

    /// A slice: `event` says what it is.
    fn pair(&mut self, track: u64, start: u64, end: u64, event: Message) -> io::Result<()> {
        self.event(track, start, SLICE_BEGIN, event)?;
        self.event(track, end, SLICE_END, Message::default())
    }

    /// Says at the beginning of a track what is missing there.
    fn note_dropped(&mut self, list: usize, track: u64) -> io::Result<()> {
        match dropped_note(self.trace, list) {
            Some(note) => {
                let first = self.trace.workers.get(list).and_then(|events| events.first());
                let at = first.map_or(self.origin, |event| event.start);
                self.event(track, at, INSTANT, Message::default().text(field::event::NAME, &note))
            }
            None => Ok(()),
        }
    }

    fn slice(&mut self, track: u64, slice: Slice<'_>) -> io::Result<()> {
        let (start, end) = (slice.start(), slice.end());
        let event = match slice {
            Slice::Task(event) => self.task_event(event.task, event.step),
            Slice::Idle(Idle { transfer: Some(transfer), .. }) => self.transfer_event(transfer),
            Slice::Idle(gap) => self.idle_event(gap),
        };
        self.pair(track, start, end, event)
    }

    fn task_event(&self, task: TaskId, step: u32) -> Message {
        let info = &self.trace.scene.tasks[task as usize];
        let mut event = named(&info.codelet, "task");
        event = number(event, "step", u64::from(step) + 1);
        let layer = scopes(&self.trace.scene, info);
        if !layer.is_empty() {
            event = text(event, "layer", &layer);
        }
        event = text(event, "tile", &format!("{} of {}", info.tile.0 + 1, info.tile.1));
        event = number(event, "bytes", info.bytes as u64);
        event = text(event, "implementation", &info.implementation);
        if !info.line.is_empty() {
            event = text(event, "line", &info.line);
        }
        let ids = |flows: &HashMap<_, Vec<u64>>| flows.get(&(task, step)).cloned().unwrap_or_default();
        for flow in ids(&self.leaving) {
            event = event.fixed64(field::event::FLOW_IDS, flow);
        }
        for flow in ids(&self.arriving) {
            event = event.fixed64(field::event::TERMINATING_FLOW_IDS, flow);
        }
        event
    }

    fn idle_event(&self, gap: &Idle) -> Message {
        let tasks = &self.trace.scene.tasks;
        let name =
            |(task, step): (TaskId, u32)| format!("{} of step {}", tasks[task as usize], u64::from(step) + 1);
        let event = named(&format!("idle: {}", gap.reason.name()), "idle");
        let event = text(event, "before", &name(gap.before));
        match gap.awaited {
            Some(awaited) => text(event, "waited for", &name(awaited)),
            None => event,
        }
    }

    fn transfer_event(&self, transfer: &Transfer) -> Message {
        let scene = &self.trace.scene;
        let block = &scene.blocks[transfer.block as usize];
        let mut event = named(Reason::Transfer.name(), "transfer");
        event = number(event, "step", u64::from(transfer.step) + 1);
        event = text(event, "block", &block.name);
        event = number(event, "bytes", block.bytes as u64);
        event = text(event, "from", &scene.memories[transfer.from]);
        text(event, "to", &scene.memories[transfer.to])
    }
}

fn named(name: &str, category: &str) -> Message {
    Message::default().text(field::event::CATEGORIES, category).text(field::event::NAME, name)
}

fn number(event: Message, name: &str, value: u64) -> Message {
    let annotation =
        Message::default().text(field::annotation::NAME, name).uint(field::annotation::UINT, value);
    event.message(field::event::DEBUG_ANNOTATIONS, &annotation)
}

fn text(event: Message, name: &str, value: &str) -> Message {
    let annotation =
        Message::default().text(field::annotation::NAME, name).text(field::annotation::STRING, value);
    event.message(field::event::DEBUG_ANNOTATIONS, &annotation)
}
