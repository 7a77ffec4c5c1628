//! The memory of a step while buffers are given their places: which buffers lie where.
//!
//! Addresses are divided into segments at the borders of buffers. The buffers of a segment never meet, so they are a
//! list in the order of time, and whether another one fits there is a question about its two neighbours in that list,
//! whose place is found by the rank of its tasks. Where an order is fixed, buffers lie above each other and segments are
//! few. Where it is open, nearly every buffer is a segment of its own, and nearly none may share it with a given one;
//! so segments are put into blocks, and a block all of whose segments are certainly taken, because their tasks and the
//! buffer's stand in different orders in two sequences, is passed over in one step.

use super::before::Before;
use crate::graph::TaskId;
use std::ops::Range;

/// When a buffer is in use.
#[derive(Clone, Debug)]
pub(super) struct Life {
    /// Tasks that touch it, after none of the others that do.
    pub first: Vec<TaskId>,
    /// Tasks that touch it, before none of the others that do.
    pub last: Vec<TaskId>,
    /// The lowest rank of any of them in each of two sequences, and the highest.
    from: [u32; 2],
    to: [u32; 2],
}

impl Life {
    /// The life of a buffer that these tasks touch. Where many of them are first or last, because they do not wait for each
    /// other, each is compared with all of these.
    pub fn new(before: &Before, users: &[TaskId]) -> Self {
        let mut users = users.to_vec();
        users.sort_unstable_by_key(|&task| before.ranks(task)[0]);
        let (mut first, mut last): (Vec<TaskId>, Vec<TaskId>) = (Vec::new(), Vec::new());
        for &task in &users {
            if !first.iter().any(|&other| before.is(other, task)) {
                first.push(task);
            }
        }
        for &task in users.iter().rev() {
            if !last.iter().any(|&other| before.is(task, other)) {
                last.push(task);
            }
        }
        let (mut from, mut to) = ([u32::MAX; 2], [0; 2]);
        for ranks in users.iter().map(|&task| before.ranks(task)) {
            for i in 0..2 {
                (from[i], to[i]) = (from[i].min(ranks[i]), to[i].max(ranks[i]));
            }
        }
        Life { first, last, from, to }
    }

    /// The life of a buffer that is in use all the time.
    pub fn always() -> Self {
        Life { first: Vec::new(), last: Vec::new(), from: [0; 2], to: [u32::MAX; 2] }
    }

    /// Whether nobody ever touches the buffer, so that it is in nobody's way.
    pub fn is_empty(&self) -> bool {
        self.from[0] > self.to[0]
    }

    /// Whether this one is over before the other begins: everything that touches the one comes before everything that
    /// touches the other.
    pub fn precedes(&self, other: &Life, before: &Before) -> bool {
        (0..2).all(|i| self.to[i] < other.from[i])
            && self.last.iter().all(|&a| other.first.iter().all(|&b| before.is(a, b)))
    }

    /// Whether one of the two is over before the other begins.
    pub fn is_separated(&self, other: &Life, before: &Before) -> bool {
        let is_empty = self.is_empty() || other.is_empty();
        is_empty || self.precedes(other, before) || other.precedes(self, before)
    }
}

/// Which buffers lie where. Buffers are numbers of lives.
pub(super) struct Space<'a> {
    before: &'a Before,
    lives: &'a [Life],
    blocks: Vec<Block>,
}

/// Neighbouring segments.
struct Block {
    segments: Vec<Segment>,
    /// For each of two sequences, the latest rank at which some segment's first buffer begins, and the earliest at which
    /// one ends.
    latest_from: [u32; 2],
    earliest_to: [u32; 2],
}

/// Addresses that the same buffers take up.
#[derive(Clone)]
struct Segment {
    range: Range<usize>,
    /// The buffers, in the order of their lives.
    buffers: Vec<u32>,
}

/// Segments of a block before it is divided; few in tests, so that their small graphs have several blocks.
const BLOCK: usize = if cfg!(test) { 4 } else { 128 };

impl<'a> Space<'a> {
    /// The addresses from `start` on, without buffers.
    pub fn new(before: &'a Before, lives: &'a [Life], start: usize) -> Self {
        let segments = vec![Segment { range: start..usize::MAX, buffers: Vec::new() }];
        Space { before, lives, blocks: vec![Block::new(segments, lives)] }
    }

    /// The lowest offset at which a buffer with this life fits.
    pub fn first_fit(&self, bytes: usize, life: &Life) -> usize {
        let mut offset = self.blocks[0].range().start;
        for block in &self.blocks {
            if block.is_taken(life) && offset + bytes > block.range().start {
                offset = block.range().end;
                continue;
            }
            for segment in &block.segments {
                if offset + bytes <= segment.range.start {
                    return offset;
                }
                if !self.fits(segment, life) {
                    offset = segment.range.end;
                }
            }
        }
        offset
    }

    /// Whether a buffer with this life may lie in these addresses, as far as lives are concerned.
    pub fn is_free(&self, range: &Range<usize>, life: &Life) -> bool {
        self.overlapping(range).all(|segment| self.fits(segment, life))
    }

    /// The first and the last of the buffers of each segment that has several.
    pub fn turns(&self) -> impl Iterator<Item = (u32, u32)> {
        let segments = self.blocks.iter().flat_map(|block| &block.segments);
        let ends = |segment: &Segment| Some((*segment.buffers.first()?, *segment.buffers.last()?));
        segments.filter_map(ends).filter(|(first, last)| first != last)
    }

    fn overlapping(&self, range: &Range<usize>) -> impl Iterator<Item = &Segment> {
        let range = range.clone();
        let first = self.blocks.partition_point(|block| block.range().end <= range.start);
        let blocks = self.blocks[first..].iter().take_while(move |block| block.range().start < range.end);
        let overlaps =
            move |segment: &&Segment| segment.range.start < range.end && range.start < segment.range.end;
        blocks.flat_map(|block| &block.segments).filter(overlaps)
    }

    /// Whether a life lies between those of a segment.
    fn fits(&self, segment: &Segment, life: &Life) -> bool {
        let (earlier, later) = segment.buffers.split_at(self.position(segment, life));
        let life_of = |&buffer: &u32| &self.lives[buffer as usize];
        earlier.last().map(life_of).is_none_or(|earlier| earlier.precedes(life, self.before))
            && later.first().map(life_of).is_none_or(|later| life.precedes(later, self.before))
    }

    /// How many of the buffers of a segment come before a life, if it fits among them.
    fn position(&self, segment: &Segment, life: &Life) -> usize {
        segment.buffers.partition_point(|&buffer| self.lives[buffer as usize].to[0] < life.from[0])
    }

    /// Puts a buffer where it fits; the range must not be empty.
    pub fn insert(&mut self, buffer: u32, range: &Range<usize>) {
        let life = &self.lives[buffer as usize];
        self.split(range.start);
        self.split(range.end);
        let first = self.blocks.partition_point(|block| block.range().end <= range.start);
        let n = self.blocks[first..].partition_point(|block| block.range().start < range.end);
        for i in (first..first + n).rev() {
            for j in 0..self.blocks[i].segments.len() {
                let segment = &self.blocks[i].segments[j];
                if range.start <= segment.range.start && segment.range.end <= range.end {
                    let at = self.position(segment, life);
                    self.blocks[i].segments[j].buffers.insert(at, buffer);
                }
            }
            self.renew(i);
        }
    }

    /// Makes an address the border of a segment.
    fn split(&mut self, at: usize) {
        let i = self.blocks.partition_point(|block| block.range().end <= at);
        let Some(block) = self.blocks.get_mut(i) else { return };
        let j = block.segments.partition_point(|segment| segment.range.end <= at);
        let segment = &mut block.segments[j];
        if segment.range.start < at {
            let mut rest = segment.clone();
            (segment.range.end, rest.range.start) = (at, at);
            block.segments.insert(j + 1, rest);
        }
    }

    /// Brings a block up to date, and divides it if it has become long.
    fn renew(&mut self, i: usize) {
        let mut segments = std::mem::take(&mut self.blocks[i].segments);
        if segments.len() > BLOCK {
            let rest = segments.split_off(BLOCK / 2);
            self.blocks.insert(i + 1, Block::new(rest, self.lives));
        }
        self.blocks[i] = Block::new(segments, self.lives);
    }
}

impl Block {
    fn new(segments: Vec<Segment>, lives: &[Life]) -> Self {
        let (mut latest_from, mut earliest_to) = ([0; 2], [u32::MAX; 2]);
        for segment in &segments {
            let life = segment.buffers.first().map(|&buffer| &lives[buffer as usize]);
            for i in 0..2 {
                // Where nothing lies, anything may begin late.
                latest_from[i] = latest_from[i].max(life.map_or(u32::MAX, |life| life.from[i]));
                earliest_to[i] = earliest_to[i].min(life.map_or(u32::MAX, |life| life.to[i]));
            }
        }
        Block { segments, latest_from, earliest_to }
    }

    fn range(&self) -> Range<usize> {
        let ends = self.segments.first().zip(self.segments.last());
        ends.map_or(0..0, |(first, last)| first.range.start..last.range.end)
    }

    /// Whether a life is certainly in the way of some buffer of every segment.
    fn is_taken(&self, life: &Life) -> bool {
        let is_after = (0..2).all(|i| self.earliest_to[i] < life.from[i]);
        let is_before = (0..2).all(|i| life.to[i] < self.latest_from[i]);
        !is_after && !is_before
    }
}
