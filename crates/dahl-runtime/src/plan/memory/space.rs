//! The memory of a step while buffers are given their places: which buffers lie where.
//!
//! Addresses are divided into segments at the borders of buffers. The buffers of a segment never meet, so
//! they are a list in the order of time, and whether another one fits there is a question about its two
//! neighbours in that list, whose place is found by the rank of its tasks.
//!
//! There may be many segments: where the order is open, nearly every buffer has one of its own, and a network
//! of thousands of layers keeps thousands of activations at once. A given buffer fits into nearly none of
//! them. So segments are the leaves of a B-tree, and each of its nodes has an [`Outline`] of the times at
//! which some of its segments are free. A node whose outline has no room for a buffer is passed over in one
//! step.

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
    /// The life of a buffer that these tasks touch. Where many of them are first or last, because they do not
    /// wait for each other, each is compared with all of these.
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

    /// Whether this one is over before the other begins: everything that touches the one comes before
    /// everything that touches the other.
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
    lives: Lives<'a>,
    root: Node,
}

/// When buffers are in use, and what that means.
#[derive(Clone, Copy)]
struct Lives<'a> {
    before: &'a Before,
    lives: &'a [Life],
}

/// A node of the tree.
struct Node {
    range: Range<usize>,
    parts: Parts,
    outline: Outline,
    /// How many parts were looked at, since the outline was drawn, because it has room where none of them
    /// has.
    misled: usize,
}

enum Parts {
    Segments(Vec<Segment>),
    Nodes(Vec<Node>),
}

/// Addresses that the same buffers take up.
#[derive(Clone)]
struct Segment {
    range: Range<usize>,
    /// The buffers, in the order of their lives.
    buffers: Vec<u32>,
}

/// Parts of a node before it is divided; few in tests, so that their small graphs have trees of several
/// levels.
const PARTS: usize = if cfg!(test) { 4 } else { 64 };

impl<'a> Space<'a> {
    /// The addresses from `start` on, without buffers.
    pub fn new(before: &'a Before, lives: &'a [Life], start: usize) -> Self {
        let range = start..usize::MAX;
        let parts = Parts::Segments(vec![Segment { range: range.clone(), buffers: Vec::new() }]);
        Space {
            lives: Lives { before, lives },
            root: Node { range, parts, outline: Outline::default(), misled: 0 },
        }
    }

    /// The lowest offset at which a buffer with this life fits. Outlines that mislead on the way are drawn
    /// anew.
    pub fn first_fit(&mut self, bytes: usize, life: &Life) -> usize {
        let mut search =
            Search { lives: self.lives, life, bytes, offset: self.root.range.start, n_with_room: 0 };
        search.visit(&mut self.root);
        search.offset
    }

    /// Whether a buffer with this life may lie in these addresses, as far as lives are concerned.
    pub fn is_free(&self, range: &Range<usize>, life: &Life) -> bool {
        let mut is_free = true;
        self.root.for_each_in(range, &mut |segment| is_free &= self.lives.fits(segment, life));
        is_free
    }

    /// The first and the last of the buffers of each segment that has several.
    pub fn turns(&self) -> Vec<(u32, u32)> {
        let mut turns = Vec::new();
        self.root.for_each_in(&self.root.range, &mut |segment| {
            if let [first, .., last] = segment.buffers[..] {
                turns.push((first, last));
            }
        });
        turns
    }

    /// Puts a buffer where it fits; the range must not be empty.
    pub fn insert(&mut self, buffer: u32, range: &Range<usize>) {
        if let Some(rest) = self.root.insert(self.lives, buffer, range) {
            let whole = self.root.range.start..rest.range.end;
            let outline = self.root.outline.clone();
            let empty = Node { range: whole, parts: Parts::Nodes(Vec::new()), outline, misled: 0 };
            let first = std::mem::replace(&mut self.root, empty);
            self.root.parts = Parts::Nodes(vec![first, rest]);
        }
    }
}

impl Lives<'_> {
    fn of(&self, buffer: u32) -> &Life {
        &self.lives[buffer as usize]
    }

    /// Whether a life lies between those of a segment.
    fn fits(&self, segment: &Segment, life: &Life) -> bool {
        let (earlier, later) = segment.buffers.split_at(self.position(segment, life));
        earlier.last().is_none_or(|&earlier| self.of(earlier).precedes(life, self.before))
            && later.first().is_none_or(|&later| life.precedes(self.of(later), self.before))
    }

    /// How many of the buffers of a segment come before a life, if it fits among them.
    fn position(&self, segment: &Segment, life: &Life) -> usize {
        segment.buffers.partition_point(|&buffer| self.of(buffer).to[0] < life.from[0])
    }
}

/// A search for the lowest offset at which a buffer fits.
struct Search<'a> {
    lives: Lives<'a>,
    life: &'a Life,
    bytes: usize,
    /// The lowest offset that may still be the one.
    offset: usize,
    /// Segments that have room for the life, whether or not they are long enough.
    n_with_room: usize,
}

impl Search<'_> {
    /// Goes on through the addresses of a node; whether the offset is found.
    fn visit(&mut self, node: &mut Node) -> bool {
        if self.offset + self.bytes <= node.range.start {
            return true;
        }
        if !node.outline.has_room(self.life) {
            self.offset = node.range.end;
            return false;
        }
        let n_before = self.n_with_room;
        let is_found = match &mut node.parts {
            Parts::Segments(segments) => segments.iter().any(|segment| self.look_at(segment)),
            Parts::Nodes(nodes) => nodes.iter_mut().any(|node| self.visit(node)),
        };
        if !is_found && self.n_with_room == n_before {
            node.was_misled(self.lives);
        }
        is_found
    }

    fn look_at(&mut self, segment: &Segment) -> bool {
        if self.offset + self.bytes <= segment.range.start {
            return true;
        }
        if self.lives.fits(segment, self.life) {
            self.n_with_room += 1;
        } else {
            self.offset = segment.range.end;
        }
        false
    }
}

impl Node {
    /// Calls `look_at` with the segments that overlap a range.
    fn for_each_in(&self, range: &Range<usize>, look_at: &mut impl FnMut(&Segment)) {
        match &self.parts {
            Parts::Segments(segments) => segments[overlapping(segments, range)].iter().for_each(look_at),
            Parts::Nodes(nodes) => {
                nodes[overlapping(nodes, range)].iter().for_each(|node| node.for_each_in(range, look_at));
            }
        }
    }

    /// Puts a buffer into the segments of a range, as far as they are here. A node that becomes too long
    /// keeps its first half; the other one is returned. Outlines stay as they are: they have more room than
    /// is left now, never less.
    fn insert(&mut self, lives: Lives<'_>, buffer: u32, range: &Range<usize>) -> Option<Node> {
        let rest = match &mut self.parts {
            Parts::Segments(segments) => {
                split(segments, range.start);
                split(segments, range.end);
                for i in overlapping(segments, range) {
                    let at = lives.position(&segments[i], lives.of(buffer));
                    segments[i].buffers.insert(at, buffer);
                }
                second_half(segments).map(Parts::Segments)
            }
            Parts::Nodes(nodes) => {
                for i in overlapping(nodes, range).rev() {
                    if let Some(rest) = nodes[i].insert(lives, buffer, range) {
                        nodes.insert(i + 1, rest);
                    }
                }
                second_half(nodes).map(Parts::Nodes)
            }
        }?;
        let border = match &rest {
            Parts::Segments(segments) => segments[0].range.start,
            Parts::Nodes(nodes) => nodes[0].range.start,
        };
        let end = std::mem::replace(&mut self.range.end, border);
        Some(Node { range: border..end, parts: rest, outline: self.outline.clone(), misled: self.misled })
    }

    /// Notes that the outline had room for a life, and none of the parts had. Once that has cost as much as
    /// drawing the outline anew, it is.
    fn was_misled(&mut self, lives: Lives<'_>) {
        let (n_parts, n_gaps): (usize, usize) = match &self.parts {
            Parts::Segments(segments) => {
                (segments.len(), segments.iter().map(|segment| segment.buffers.len() + 1).sum())
            }
            Parts::Nodes(nodes) => (nodes.len(), nodes.iter().map(|node| node.outline.gaps.len()).sum()),
        };
        self.misled += n_parts;
        if self.misled >= n_gaps {
            self.misled = 0;
            self.outline = Outline { gaps: Vec::new() };
            match &self.parts {
                Parts::Segments(segments) => {
                    segments.iter().for_each(|segment| self.outline.add_segment(lives, segment));
                }
                Parts::Nodes(nodes) => {
                    let gaps = nodes.iter().flat_map(|node| &node.outline.gaps);
                    gaps.for_each(|&gap| self.outline.add(gap));
                }
            }
        }
    }
}

/// What has a range of addresses.
trait Ranged {
    fn range(&self) -> &Range<usize>;
}

impl Ranged for Segment {
    fn range(&self) -> &Range<usize> {
        &self.range
    }
}

impl Ranged for Node {
    fn range(&self) -> &Range<usize> {
        &self.range
    }
}

/// Which of these neighbours overlap a range.
fn overlapping<T: Ranged>(parts: &[T], range: &Range<usize>) -> Range<usize> {
    let first = parts.partition_point(|part| part.range().end <= range.start);
    first..first + parts[first..].partition_point(|part| part.range().start < range.end)
}

/// Makes an address the border of a segment, if it lies in one.
fn split(segments: &mut Vec<Segment>, at: usize) {
    let i = segments.partition_point(|segment| segment.range.end <= at);
    let Some(segment) = segments.get_mut(i) else { return };
    if segment.range.start < at {
        let mut rest = segment.clone();
        (segment.range.end, rest.range.start) = (at, at);
        segments.insert(i + 1, rest);
    }
}

/// The second half of what has become too long.
fn second_half<T>(parts: &mut Vec<T>) -> Option<Vec<T>> {
    (parts.len() > PARTS).then(|| parts.split_off(PARTS / 2))
}

/// At least all times at which some segment is free.
#[derive(Clone)]
struct Outline {
    /// None of them lies within another.
    gaps: Vec<Gap>,
}

/// A time during which a segment is free: ranks in each of two sequences. A life that fits lies within it in
/// both; so where tasks stand in different orders in the two, because they do not wait for each other, there
/// is none.
#[derive(Clone, Copy)]
struct Gap {
    from: [u32; 2],
    /// The first rank that is no longer free.
    to: [u32; 2],
}

/// Gaps of an outline before the most similar ones are joined.
const GAPS: usize = if cfg!(test) { 3 } else { 32 };

impl Outline {
    fn has_room(&self, life: &Life) -> bool {
        let holds = |gap: &Gap| (0..2).all(|i| gap.from[i] <= life.from[i] && life.to[i] < gap.to[i]);
        self.gaps.iter().any(holds)
    }

    fn add_segment(&mut self, lives: Lives<'_>, segment: &Segment) {
        let mut from = [0; 2];
        for &buffer in &segment.buffers {
            let life = lives.of(buffer);
            self.add(Gap { from, to: life.from });
            from = life.to.map(|rank| rank.saturating_add(1));
        }
        self.add(Gap { from, to: Gap::ALWAYS.to });
    }

    fn add(&mut self, mut gap: Gap) {
        if !gap.is_empty() && !self.gaps.iter().any(|other| other.contains(&gap)) {
            if self.gaps.len() == GAPS {
                let growth = |other: &Gap| other.joined(&gap).length() - other.length();
                if let Some(i) = (0..GAPS).min_by_key(|&i| growth(&self.gaps[i])) {
                    gap = self.gaps.swap_remove(i).joined(&gap);
                }
            }
            self.gaps.retain(|other| !gap.contains(other));
            self.gaps.push(gap);
        }
    }
}

impl Default for Outline {
    /// That of addresses without buffers.
    fn default() -> Self {
        Outline { gaps: vec![Gap::ALWAYS] }
    }
}

impl Gap {
    const ALWAYS: Gap = Gap { from: [0; 2], to: [u32::MAX; 2] };

    fn is_empty(&self) -> bool {
        (0..2).any(|i| self.from[i] >= self.to[i])
    }

    fn contains(&self, other: &Gap) -> bool {
        (0..2).all(|i| self.from[i] <= other.from[i] && other.to[i] <= self.to[i])
    }

    /// The smallest gap that contains both.
    fn joined(&self, other: &Gap) -> Gap {
        Gap {
            from: std::array::from_fn(|i| self.from[i].min(other.from[i])),
            to: std::array::from_fn(|i| self.to[i].max(other.to[i])),
        }
    }

    fn length(&self) -> u64 {
        (0..2).map(|i| u64::from(self.to[i] - self.from[i])).sum()
    }
}
