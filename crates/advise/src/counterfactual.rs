//! What an access would cost if the data, or the way to it, were another: made
//! and counted, never quoted.
//!
//! Each counterfactual is judged twice: by the access it is for, and by all
//! accesses to the same buffer together, since they have to live with the
//! layout too. It is refused, with the reason, where it would tear an access
//! apart or change which elements are read or written, where there is nothing
//! to apply it to, and where it does not help.

use crate::banks;
use crate::layout::{Geometry, Layout, Part, scalars};
use crate::sample::{Extent, Sample};
use crate::why::Shape;
use record::units;
use scenario::program::{Root, SiteId};
use scenario::{CUDA_PITCH_BYTES, MAX_STATIC_SHARED_BYTES, Run};
use simulator::{
    Counts, Field, LaneMask, Op, OpKind, RuleSet, Space, Totals, WARP_LANES, WarpAccess,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is changed, the smaller changes first: whoever chooses among equals
/// takes the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The buffer starts elsewhere.
    Aligned,
    /// Rows get a pitch.
    Pitch,
    /// Accesses side by side become one vector access.
    Widened,
    /// Elements are padded to a power of two.
    Padded,
    /// Both of them.
    PaddedAndWidened,
    /// Each part in an array of its own: structure of arrays.
    Soa,
    /// Blocks of 32 of each part: array of structures of arrays.
    AoSoA32,
    /// The block reads its elements in order and hands them round in shared
    /// memory.
    ThroughShared,
    /// A matrix is stored the other way round. Others use it too, so this is a
    /// larger change than one of the kernel.
    Transposed,
    /// Rows of a shared array get a pad.
    PaddedRows,
    /// Columns of a shared array are XORed with the row.
    Swizzled,
}

impl Kind {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aligned => "aligned",
            Self::Pitch => "pitch",
            Self::Widened => "widened",
            Self::Padded => "padded",
            Self::PaddedAndWidened => "padded and widened",
            Self::Soa => "SoA",
            Self::AoSoA32 => "AoSoA of 32",
            Self::ThroughShared => "through shared memory",
            Self::Transposed => "transposed",
            Self::PaddedRows => "padded rows",
            Self::Swizzled => "XOR swizzle",
        }
    }
}

/// The counts with and without a change, over the sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// The access as it is (with those that it is merged with, where it is).
    pub before: Totals,
    /// And after the change.
    pub after: Totals,
    /// All accesses to the same buffer or shared array as they are.
    pub together_before: Totals,
    /// And after the change.
    pub together_after: Totals,
    /// Shared-memory accesses that the change adds.
    pub added_shared: Totals,
}

impl Counted {
    /// Bytes that the kernel asked for ÷ bytes moved, before and after: what a
    /// wider access takes besides is not asked for, and what several warps ask
    /// for counts once where it is fetched once.
    pub fn efficiency(&self) -> Option<(f64, f64)> {
        let share = |bytes: u128, moved: Option<u128>| {
            moved.filter(|&moved| moved > 0).map(|moved| bytes as f64 / moved as f64)
        };
        let (asked, after) = (self.before.unique_bytes?, self.after.unique_bytes?);
        Some((
            share(asked, self.before.moved_bytes)?,
            share(asked.min(after), self.after.moved_bytes)?,
        ))
    }

    /// Accesses that became one.
    pub fn merged(&self) -> f64 {
        match (self.before.requests, self.after.requests) {
            (Some(before), Some(after)) if after > 0 => before as f64 / after as f64,
            _ => 1.0,
        }
    }
}

/// What came of a counterfactual.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It helps.
    Helps(Box<Counted>),
    /// It does not, or cannot be, for this reason; with the counts where there
    /// are some.
    Refused {
        /// A clause: `its rows start on multiples of 128 B already`.
        reason: String,
        /// What it would have come to.
        counted: Option<Box<Counted>>,
    },
}

/// A change with what it would bring.
#[derive(Clone, Debug, PartialEq)]
pub struct Counterfactual {
    /// What sort of change.
    pub kind: Kind,
    /// What to do, as an imperative clause.
    pub what: String,
    /// What came of it.
    pub outcome: Outcome,
}

impl Counterfactual {
    /// The counts, where it helps.
    pub fn helps(&self) -> Option<&Counted> {
        match &self.outcome {
            Outcome::Helps(counted) => Some(counted),
            Outcome::Refused { .. } => None,
        }
    }

    fn refused(kind: Kind, reason: impl Into<String>) -> Self {
        let what = kind.name().to_owned();
        Self { kind, what, outcome: Outcome::Refused { reason: reason.into(), counted: None } }
    }
}

/// What an access costs, in one number: sectors where the rule set has them,
/// bytes moved else; in shared memory wavefronts.
pub fn cost(space: Space, totals: &Totals) -> Option<u128> {
    match space {
        Space::Shared => totals.data_wavefronts,
        _ => totals.sectors.or(totals.moved_bytes),
    }
}

/// A change must save one part in forty to be worth a word. That is less than any
/// start at a sector saves: the widest misaligned access touches 33 sectors, not 32.
pub fn is_less(after: u128, before: u128) -> bool {
    after.saturating_mul(40) < before.saturating_mul(39)
}

/// The same access with its distinct elements side by side, in the order of the
/// lanes: the least that this operation, width and these lanes can cost.
pub fn ideal(access: &WarpAccess) -> WarpAccess {
    let mut ideal = *access;
    let mut seen: [u64; WARP_LANES] = [0; WARP_LANES];
    let mut count = 0;
    for (lane, address) in access.active() {
        let rank = seen[..count].iter().position(|&known| known == address).unwrap_or_else(|| {
            seen[count] = address;
            count += 1;
            count - 1
        });
        ideal.addresses[lane] = rank as u64 * u64::from(access.width);
    }
    ideal
}

/// One site of a run, to be judged by a sample of its accesses.
pub(crate) struct Judge<'a> {
    pub(crate) run: &'a Run,
    pub(crate) rules: &'a RuleSet,
    pub(crate) bases: &'a [u64],
    pub(crate) sample: &'a Sample,
    pub(crate) site: SiteId,
}

/// Scalars that an element may have for its parts to be told apart.
const MOST_PARTS: usize = 64;

/// Longest record whose pieces are arrays of their own, rather than a matrix
/// that is stored transposed, bytes.
const LONGEST_RECORD: u64 = 512;

impl<'a> Judge<'a> {
    fn site_of(&self) -> Option<&'a scenario::program::Site> {
        self.run.program.sites.get(self.site.0)
    }

    /// The accesses of the site.
    pub(crate) fn own(&self) -> impl Iterator<Item = &'a WarpAccess> {
        let site = self.site;
        self.sample.issues.iter().filter(move |issue| issue.site == site).map(|i| &i.access)
    }

    pub(crate) fn present(&self) -> Totals {
        self.own().map(|access| one(&self.rules.count(access))).sum()
    }

    pub(crate) fn ideal(&self) -> Totals {
        self.own().map(|access| one(&self.rules.count(&ideal(access)))).sum()
    }

    /// The one buffer that the site goes to.
    pub(crate) fn buffer(&self) -> Option<usize> {
        let mut buffers = self
            .sample
            .issues
            .iter()
            .zip(&self.sample.buffers)
            .filter(|(issue, _)| issue.site == self.site)
            .map(|(_, buffer)| *buffer);
        let first = buffers.next()??;
        buffers.all(|buffer| buffer == Some(first)).then_some(first)
    }

    /// The accesses to a buffer, with their numbers in the sample.
    fn to_buffer(&self, buffer: usize) -> impl Iterator<Item = (usize, SiteId, &'a WarpAccess)> {
        self.sample
            .issues
            .iter()
            .zip(&self.sample.buffers)
            .enumerate()
            .filter(move |(_, (issue, to))| {
                **to == Some(buffer) && issue.access.op.space == Space::Global
            })
            .map(|(at, (issue, _))| (at, issue.site, &issue.access))
    }

    /// Every counterfactual of a site of global memory.
    pub(crate) fn global(&self) -> Vec<Counterfactual> {
        let Some(buffer) = self.buffer() else {
            return vec![Counterfactual::refused(
                Kind::Soa,
                "its pointer goes to several buffers, so no layout of one is its own",
            )];
        };
        let Some(found) = self.run.buffers.get(buffer) else { return Vec::new() };
        let base = self.bases.get(buffer).copied().unwrap_or(0);
        let from = Geometry::of(found, base);
        let records = self.records(buffer, &from);
        vec![
            self.aligned(buffer, &from),
            self.pitch(buffer, &from),
            self.widened(buffer, &from, None),
            self.padded(buffer, &from),
            self.padded_and_widened(buffer, &from),
            self.separate(buffer, &from, records.as_ref()),
            self.blocked(buffer, &from, records.as_ref()),
            self.through_shared(buffer),
        ]
    }

    fn name(&self, buffer: usize) -> &str {
        self.run.buffers.get(buffer).map_or("", |buffer| &buffer.name)
    }

    fn element(&self, buffer: usize) -> &str {
        self.run.buffers.get(buffer).map_or("", |buffer| buffer.type_name.trim())
    }

    /// Counts the site, and all accesses to the buffer, in another layout.
    fn count_layout(
        &self,
        buffer: usize,
        from: &Geometry,
        layout: &Layout,
    ) -> Result<Counted, String> {
        let mut counted = Counted {
            before: Totals::default(),
            after: Totals::default(),
            together_before: Totals::default(),
            together_after: Totals::default(),
            added_shared: Totals::default(),
        };
        for (_, site, access) in self.to_buffer(buffer) {
            let Some(moved) =
                banks::moved(access, |address| layout.map(from, address, u64::from(access.width)))
            else {
                let label = self.label(site);
                return Err(format!(
                    "`{label}` takes {} B at once that would no longer lie together",
                    access.width
                ));
            };
            let (now, then) = (self.rules.count(access), self.rules.count(&moved));
            counted.together_before.add(&now);
            counted.together_after.add(&then);
            if site == self.site {
                counted.before.add(&now);
                counted.after.add(&then);
            }
        }
        Ok(counted)
    }

    fn label(&self, site: SiteId) -> &str {
        self.run.program.sites.get(site.0).map_or("", |site| &site.label)
    }

    /// Accepts or refuses what was counted.
    fn judged(&self, kind: Kind, what: String, counted: Result<Counted, String>) -> Counterfactual {
        let refuse = |reason, counted| Outcome::Refused { reason, counted };
        let outcome = match counted {
            Err(reason) => refuse(reason, None),
            Ok(counted) => {
                let costs = |before, after| {
                    Some((cost(Space::Global, before)?, cost(Space::Global, after)?))
                };
                let own = costs(&counted.before, &counted.after);
                let together = costs(&counted.together_before, &counted.together_after);
                match (own, together) {
                    (Some((before, after)), Some((all_before, all_after)))
                        if is_less(after, before) =>
                    {
                        if is_less(all_after, all_before) {
                            Outcome::Helps(Box::new(counted))
                        } else {
                            let share = all_after as f64 / all_before.max(1) as f64;
                            let reason = format!(
                                "it helps this access at the cost of the others: all of them together would move {} of what they do now",
                                units::percent(share)
                            );
                            refuse(reason, Some(Box::new(counted)))
                        }
                    }
                    (Some((before, after)), _) => {
                        let reason = if after == before {
                            "it makes no difference".to_owned()
                        } else if after > before {
                            "it makes it worse".to_owned()
                        } else {
                            "it makes less than 1 % of difference".to_owned()
                        };
                        refuse(reason, Some(Box::new(counted)))
                    }
                    _ => refuse("the rule set does not count this access".to_owned(), None),
                }
            }
        };
        Counterfactual { kind, what, outcome }
    }

    /// The widest access to a buffer, bytes.
    fn widest(&self, buffer: usize) -> u64 {
        self.to_buffer(buffer).map(|(.., access)| u64::from(access.width)).max().unwrap_or(1)
    }

    fn sector_bytes(&self) -> u64 {
        u64::from(self.rules.sector_bytes().unwrap_or(32)).max(1)
    }

    fn line_bytes(&self) -> u64 {
        let line = self.rules.line_bytes().map_or(0, u64::from);
        line.max(self.sector_bytes())
    }

    fn aligned(&self, buffer: usize, from: &Geometry) -> Counterfactual {
        let name = self.name(buffer);
        let sector = self.sector_bytes();
        let step = self.widest(buffer).max(1);
        // A shift that puts the lowest lane of one of the accesses on a line:
        // as good as on a sector, and a tag lookup less where it matters.
        let unit = self.line_bytes();
        let mut starts: BTreeMap<u64, usize> = BTreeMap::new();
        for access in self.own() {
            let lowest = access.active().map(|(_, address)| address).min().unwrap_or(0);
            *starts.entry(lowest % unit).or_default() += 1;
        }
        if starts.keys().all(|start| start.is_multiple_of(sector)) {
            return Counterfactual::refused(
                Kind::Aligned,
                format!("its requests start on multiples of {sector} B already"),
            );
        }
        let mut starts: Vec<(u64, usize)> = starts.into_iter().collect();
        starts.sort_by_key(|&(start, times)| (std::cmp::Reverse(times), start));
        // The shift that undoes the buffer's own offset first: it is the
        // simplest to make.
        let undo = (unit - from.first % unit) % unit;
        let shifts = std::iter::once(undo)
            .chain(starts.iter().take(8).map(|(start, _)| (unit - start) % unit))
            .filter(|shift| *shift != 0 && shift.is_multiple_of(step));
        let mut best: Option<((u128, u128), u64, Counted)> = None;
        for shift in shifts {
            let Ok(counted) = self.count_layout(buffer, from, &Layout::Shifted(shift)) else {
                continue;
            };
            let Some(sectors) = cost(Space::Global, &counted.after) else { continue };
            let cost = (sectors, counted.after.tags.unwrap_or(0));
            if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                best = Some((cost, shift, counted));
            }
        }
        let Some((_, shift, counted)) = best else {
            return Counterfactual::refused(
                Kind::Aligned,
                format!("a shift would misalign the {step}-byte accesses to `{name}`"),
            );
        };
        let now = from.first % unit;
        let what = if (now + shift).is_multiple_of(unit) {
            format!("start `{name}` {now} B earlier, on a multiple of {unit} B")
        } else {
            let past = (now + shift) % unit;
            let front = if from.element_bytes > 0 && past.is_multiple_of(from.element_bytes) {
                format!(" ({} elements of padding in front)", past / from.element_bytes)
            } else {
                String::new()
            };
            format!("start `{name}` {past} B past a multiple of {unit} B{front}")
        };
        self.judged(Kind::Aligned, what, Ok(counted))
    }

    /// Rows whose length is known: of the buffer's own shape, or by a parameter
    /// that divides it. Name and elements.
    fn rows(&self, buffer: usize, from: &Geometry) -> Vec<(String, u64)> {
        let Some(found) = self.run.buffers.get(buffer) else { return Vec::new() };
        if found.shape.len() > 1 {
            return vec![(String::new(), from.columns)];
        }
        let elements = from.elements();
        let mut rows = Vec::new();
        for (name, value) in &self.run.params {
            let Some(columns) = value.integer().and_then(|n| u64::try_from(n).ok()) else {
                continue;
            };
            let fits = columns >= WARP_LANES as u64
                && columns < elements
                && elements.is_multiple_of(columns);
            if fits && !rows.iter().any(|(_, known)| *known == columns) {
                rows.push((format!("`{name}` = "), columns));
            }
        }
        rows
    }

    fn pitch(&self, buffer: usize, from: &Geometry) -> Counterfactual {
        let name = self.name(buffer);
        let sector = self.sector_bytes();
        let rows = self.rows(buffer, from);
        if rows.is_empty() {
            return Counterfactual::refused(
                Kind::Pitch,
                format!("`{name}` has one axis, and no parameter divides it into rows"),
            );
        }
        let mut best: Option<(u128, String, Result<Counted, String>)> = None;
        let mut torn = None;
        for (row_name, columns) in rows {
            let row = columns.saturating_mul(from.element_bytes);
            if from.row_bytes.is_multiple_of(sector) && row.is_multiple_of(sector) {
                continue;
            }
            for unit in [sector, self.line_bytes(), CUDA_PITCH_BYTES] {
                let Some(pitch) = row.checked_next_multiple_of(unit) else { continue };
                let layout = Layout::Pitched { row, pitch };
                let counted = match self.count_layout(buffer, from, &layout) {
                    Ok(counted) => counted,
                    Err(reason) => {
                        torn = Some(reason);
                        continue;
                    }
                };
                let Some(cost) = cost(Space::Global, &counted.together_after) else { continue };
                if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                    let what = format!(
                        "start each row of {row_name}{columns} elements of `{name}` on a multiple of {unit} B: a pitch of {pitch} B in place of {}",
                        if row_name.is_empty() { from.row_bytes } else { row }
                    );
                    best = Some((cost, what, Ok(counted)));
                }
            }
        }
        match (best, torn) {
            (Some((_, what, counted)), _) => self.judged(Kind::Pitch, what, counted),
            (None, Some(reason)) => Counterfactual::refused(Kind::Pitch, reason),
            (None, None) => Counterfactual::refused(
                Kind::Pitch,
                format!("rows of whatever length it may have are multiples of {sector} B already"),
            ),
        }
    }

    fn padded_stride(&self, from: &Geometry) -> Option<u64> {
        let record = from.element_bytes;
        let stride =
            if record < 16 { record.next_power_of_two() } else { record.next_multiple_of(16) };
        (stride != record).then_some(stride)
    }

    fn padding(&self, buffer: usize, from: &Geometry, stride: u64) -> String {
        format!(
            "pad `{}` from {} to {stride} B with __align__({})",
            self.element(buffer),
            from.element_bytes,
            stride.min(16)
        )
    }

    fn padded(&self, buffer: usize, from: &Geometry) -> Counterfactual {
        match self.padded_stride(from) {
            None => Counterfactual::refused(
                Kind::Padded,
                format!("elements of {} B need no padding", from.element_bytes),
            ),
            Some(stride) => {
                let layout = Layout::Padded { record: from.element_bytes, stride };
                let counted = self.count_layout(buffer, from, &layout);
                self.judged(Kind::Padded, self.padding(buffer, from, stride), counted)
            }
        }
    }

    fn padded_and_widened(&self, buffer: usize, from: &Geometry) -> Counterfactual {
        match self.padded_stride(from) {
            None => Counterfactual::refused(
                Kind::PaddedAndWidened,
                format!("elements of {} B need no padding", from.element_bytes),
            ),
            Some(stride) => self.widened(buffer, from, Some(stride)),
        }
    }

    /// Vector accesses in place of several narrow ones, the elements padded to
    /// `stride` bytes where there is one.
    fn widened(&self, buffer: usize, from: &Geometry, stride: Option<u64>) -> Counterfactual {
        let kind = if stride.is_some() { Kind::PaddedAndWidened } else { Kind::Widened };
        let layout = stride.map(|stride| Layout::Padded { record: from.element_bytes, stride });
        let found = match self.merge(buffer, from, layout.as_ref()) {
            Ok(found) => found,
            Err(reason) => return Counterfactual::refused(kind, reason),
        };
        let Merged { counted, members, width } = found;
        let verb = match self.site_of().map(|site| site.op.kind) {
            Some(OpKind::Store) => "write",
            _ => "read",
        };
        let merged = format!(
            "{verb} what lies side by side with one {width}-byte access in place of {members}"
        );
        let what = match stride {
            Some(stride) => format!("{}, and {merged}", self.padding(buffer, from, stride)),
            None => merged,
        };
        self.judged(kind, what, Ok(counted))
    }

    /// Merges accesses of one warp that lie side by side.
    fn merge(
        &self,
        buffer: usize,
        from: &Geometry,
        layout: Option<&Layout>,
    ) -> Result<Merged, String> {
        let Some(site) = self.site_of() else { return Err("it is not executed".to_owned()) };
        if !matches!(site.op.kind, OpKind::Load | OpKind::Store) {
            return Err("there is no vector form of this operation".to_owned());
        }
        if site.width >= 16 {
            return Err(format!("it takes {} B at once already", site.width));
        }
        // What each warp does to the buffer, in order.
        let mut warps: BTreeMap<(usize, u32), Vec<Event>> = BTreeMap::new();
        for (block, range) in self.sample.blocks.iter().enumerate() {
            for at in range.clone() {
                if self.sample.buffers.get(at) != Some(&Some(buffer)) {
                    continue;
                }
                let Some(issue) = self.sample.issues.get(at) else { continue };
                let access = match layout {
                    None => issue.access,
                    Some(layout) => {
                        let width = u64::from(issue.access.width);
                        banks::moved(&issue.access, |address| layout.map(from, address, width))
                            .ok_or("an access would be torn apart")?
                    }
                };
                let event = Event { site: issue.site, now: &issue.access, access };
                warps.entry((block, issue.warp)).or_default().push(event);
            }
        }
        let element = match layout {
            Some(Layout::Padded { stride, .. }) => *stride,
            _ => from.element_bytes,
        };
        let fields = self.run.buffers.get(buffer).and_then(|buffer| {
            scalars(&buffer.ty, &self.run.structs, MOST_PARTS)
                .map(|scalars| scalars.into_iter().map(|(_, part)| part).collect::<Vec<_>>())
        });
        let home = from.first / crate::layout::ALLOCATION_BYTES * crate::layout::ALLOCATION_BYTES;
        let origin = if layout.is_some() { home } else { from.first };
        let chunks = Chunks { origin, element, fields: fields.as_deref() };
        let mut merged = Merged {
            counted: Counted {
                before: Totals::default(),
                after: Totals::default(),
                together_before: Totals::default(),
                together_after: Totals::default(),
                added_shared: Totals::default(),
            },
            members: 0,
            width: 0,
        };
        let mut obstacle = None;
        for events in warps.values() {
            let pieces = pieces(events);
            let mut done = vec![false; events.len()];
            for first in 0..events.len() {
                if done[first] {
                    continue;
                }
                let event = &events[first];
                let group = WIDTHS
                    .into_iter()
                    .filter(|&width| width > event.access.width)
                    .find_map(|width| match chunks.group(events, &pieces, &done, first, width) {
                        Ok(members) => Some((width, members)),
                        Err(reason) => {
                            if event.site == self.site {
                                obstacle = reason.or(obstacle.take());
                            }
                            None
                        }
                    });
                let (access, members) = match group {
                    Some((width, members)) => (chunk(&event.access, width), members),
                    None => (event.access, vec![first]),
                };
                let after = self.rules.count(&access);
                merged.counted.together_after.add(&after);
                let own = members.iter().any(|&member| events[member].site == self.site);
                if own {
                    merged.counted.after.add(&after);
                    if members.len() > merged.members {
                        (merged.members, merged.width) = (members.len(), access.width);
                    }
                }
                for &member in &members {
                    done[member] = true;
                    let before = self.rules.count(events[member].now);
                    merged.counted.together_before.add(&before);
                    if own {
                        merged.counted.before.add(&before);
                    }
                }
            }
        }
        if merged.members < 2 {
            return Err(obstacle.unwrap_or_else(|| {
                "no other access of the same lanes lies side by side with it in an aligned vector"
                    .to_owned()
            }));
        }
        Ok(merged)
    }

    /// The records that the site strides over.
    fn records(&self, buffer: usize, from: &Geometry) -> Option<Records> {
        let found = self.run.buffers.get(buffer)?;
        let own = scalars(&found.ty, &self.run.structs, MOST_PARTS);
        if let Some(own) = own.filter(|own| own.len() > 1) {
            let parts = self.uncut(buffer, from, own)?;
            return Some(Records::Fields { record: from.element_bytes, parts });
        }
        // Scalars: the distance of the lanes.
        let mut strides: HashMap<u64, usize> = HashMap::new();
        for access in self.own() {
            if let Shape::Strided { stride } | Shape::Blocked { stride, .. } = Shape::of(access) {
                *strides.entry(stride.unsigned_abs()).or_default() += 1;
            }
        }
        let (&record, _) =
            strides.iter().max_by_key(|&(stride, times)| (*times, std::cmp::Reverse(*stride)))?;
        let unit = self.widest(buffer).max(from.element_bytes);
        (record > unit && record.is_multiple_of(unit) && record < from.bytes)
            .then_some(Records::Pieces { record, unit })
    }

    /// The parts of an element, those that one access takes at once as one.
    fn uncut(
        &self,
        buffer: usize,
        from: &Geometry,
        scalars: Vec<(String, Part)>,
    ) -> Option<Vec<(String, Part)>> {
        let mut parts = scalars;
        for (.., access) in self.to_buffer(buffer) {
            for (_, address) in access.active() {
                let start = from.flat(address)? % from.element_bytes;
                let end = start + u64::from(access.width);
                let last = parts.iter().rposition(|(_, part)| part.offset < end)?;
                let first = parts.iter().rposition(|(_, part)| part.offset <= start)?;
                if last > first {
                    let joined = Part {
                        offset: parts[first].1.offset,
                        bytes: parts[last].1.offset + parts[last].1.bytes - parts[first].1.offset,
                    };
                    let name = format!("{}…{}", parts[first].0, parts[last].0);
                    parts.splice(first..=last, [(name, joined)]);
                }
            }
        }
        (parts.len() > 1).then_some(parts)
    }

    fn separate(
        &self,
        buffer: usize,
        from: &Geometry,
        records: Option<&Records>,
    ) -> Counterfactual {
        let name = self.name(buffer);
        match records {
            None => Counterfactual::refused(Kind::Soa, self.no_records(buffer)),
            Some(Records::Fields { record, parts }) => {
                let layout = Layout::Separate {
                    record: *record,
                    parts: parts.iter().map(|(_, part)| *part).collect(),
                    records: from.elements(),
                };
                let what = format!(
                    "store each field of `{}` in an array of its own (SoA)",
                    self.element(buffer)
                );
                self.judged(Kind::Soa, what, self.count_layout(buffer, from, &layout))
            }
            Some(&Records::Pieces { record, unit }) => {
                let layout = Layout::Transposed {
                    record,
                    unit,
                    records: from.elements().saturating_mul(from.element_bytes).div_ceil(record),
                };
                let times = record / unit;
                let counted = self.count_layout(buffer, from, &layout);
                if record <= LONGEST_RECORD {
                    // What is moved about is what a lane takes: several
                    // elements, where it reads them through a wider type.
                    let piece = match unit {
                        unit if unit > from.element_bytes => format!("{unit}-byte piece"),
                        _ => "element".to_owned(),
                    };
                    let what = format!(
                        "store every {} {piece} of `{name}` side by side: {times} arrays in place of one (SoA)",
                        ordinal(times)
                    );
                    self.judged(Kind::Soa, what, counted)
                } else {
                    let what = format!(
                        "store `{name}` transposed, so that elements {record} B apart become neighbours"
                    );
                    self.judged(Kind::Transposed, what, counted)
                }
            }
        }
    }

    fn no_records(&self, buffer: usize) -> String {
        if self.run.buffers.get(buffer).is_some_and(|buffer| {
            scalars(&buffer.ty, &self.run.structs, MOST_PARTS).is_some_and(|parts| parts.len() > 1)
        }) {
            "it takes whole elements: there is nothing to separate".to_owned()
        } else {
            "its lanes are no records of one length apart: there is nothing to separate".to_owned()
        }
    }

    fn blocked(&self, buffer: usize, from: &Geometry, records: Option<&Records>) -> Counterfactual {
        let block = WARP_LANES as u64;
        match records {
            None => Counterfactual::refused(Kind::AoSoA32, self.no_records(buffer)),
            Some(Records::Fields { record, parts }) => {
                let layout = Layout::Blocked {
                    record: *record,
                    parts: parts.iter().map(|(_, part)| *part).collect(),
                    block,
                };
                let mut names = parts
                    .iter()
                    .take(3)
                    .map(|(name, _)| format!("32 {}", name.trim_start_matches('.')))
                    .collect::<Vec<_>>()
                    .join(", ");
                if parts.len() > 3 {
                    names.push_str(", …");
                }
                let what = format!("store `{}` in blocks of {names} (AoSoA)", self.name(buffer));
                self.judged(Kind::AoSoA32, what, self.count_layout(buffer, from, &layout))
            }
            Some(&Records::Pieces { record, unit }) if record <= LONGEST_RECORD => {
                let parts = (0..record / unit)
                    .map(|piece| Part { offset: piece * unit, bytes: unit })
                    .collect();
                let layout = Layout::Blocked { record, parts, block };
                let what = format!(
                    "store `{}` in blocks of 32 × {}, each turned about (AoSoA)",
                    self.name(buffer),
                    record / unit
                );
                self.judged(Kind::AoSoA32, what, self.count_layout(buffer, from, &layout))
            }
            Some(Records::Pieces { record, .. }) => Counterfactual::refused(
                Kind::AoSoA32,
                format!("its lanes lie {record} B apart: too long a record for blocks"),
            ),
        }
    }

    /// The block's elements in order of address, 32 a request, handed round in
    /// shared memory.
    fn through_shared(&self, buffer: usize) -> Counterfactual {
        let kind = Kind::ThroughShared;
        let Some(site) = self.site_of() else { return Counterfactual::refused(kind, "") };
        let (verb, into, out_of) = match site.op.kind {
            OpKind::Load => ("read", Op::SHARED_STORE, Op::SHARED_LOAD),
            OpKind::Store => ("write", Op::SHARED_STORE, Op::SHARED_LOAD),
            OpKind::AsyncCopy => {
                return Counterfactual::refused(kind, "it goes to shared memory already");
            }
            OpKind::Reduction(_) | OpKind::Atomic(_) => {
                return Counterfactual::refused(kind, "an atomic must reach memory itself");
            }
        };
        let room = MAX_STATIC_SHARED_BYTES.saturating_sub(self.run.program.shared_bytes);
        let mut counted = Counted {
            before: self.present(),
            after: Totals::default(),
            together_before: self.to_buffer(buffer).map(|(.., a)| one(&self.rules.count(a))).sum(),
            together_after: Totals::default(),
            added_shared: Totals::default(),
        };
        let mut tile_bytes = 0;
        let mut pad_bytes = None;
        for range in &self.sample.blocks {
            // One tile for each time that the warps of the block get there.
            let mut times: HashMap<u32, usize> = HashMap::new();
            let mut tiles: BTreeMap<usize, Vec<&WarpAccess>> = BTreeMap::new();
            for issue in self.sample.issues.get(range.clone()).unwrap_or_default() {
                if issue.site == self.site {
                    let time = times.entry(issue.warp).or_default();
                    tiles.entry(*time).or_default().push(&issue.access);
                    *time += 1;
                }
            }
            for accesses in tiles.values() {
                let tile = Tile::new(accesses, banks::cycle_bytes(self.rules));
                let shared = tile.shared((into, out_of), site.op.kind);
                // The pad of the first tile serves them all.
                let pad_bytes = *pad_bytes.get_or_insert_with(|| tile.pad(self.rules, &shared));
                tile_bytes = tile_bytes.max(tile.padded_bytes(pad_bytes));
                tile.count(self.rules, &mut counted.after);
                for (access, times) in &shared {
                    let padded = tile.padded(access, pad_bytes).unwrap_or(*access);
                    counted.added_shared.add_times(&self.rules.count(&padded), *times);
                }
            }
        }
        if tile_bytes > room {
            return Counterfactual::refused(
                kind,
                format!(
                    "the elements of a block are {tile_bytes} B, and {room} B of shared memory are left"
                ),
            );
        }
        for (_, other, access) in self.to_buffer(buffer) {
            if other != self.site {
                counted.together_after.add(&self.rules.count(access));
            }
        }
        counted.together_after.merge(&counted.after.clone());
        let what = format!(
            "{verb} the elements of a block in the order of address and hand them round in {tile_bytes} B of shared memory"
        );
        let judged = self.judged(kind, what, Ok(counted));
        match judged.outcome {
            Outcome::Refused { counted: Some(counted), .. } => {
                // Where most of what the tile moves is used, order was not the
                // trouble.
                let lie_together = counted.after.unique_efficiency() >= Some(0.75);
                let reason = if lie_together {
                    "what a warp takes lies together already"
                } else {
                    "what a block takes at a time does not lie together"
                };
                Counterfactual {
                    outcome: Outcome::Refused { reason: reason.to_owned(), counted: Some(counted) },
                    ..judged
                }
            }
            _ => judged,
        }
    }

    /// Every counterfactual of a site of shared memory, and the sentence that
    /// says what cannot be done.
    pub(crate) fn shared(&self) -> Vec<Counterfactual> {
        let Some(Root::Shared(id)) = self.site_of().map(|site| site.root) else {
            return Vec::new();
        };
        let Some(array) = self.run.program.shared.get(id.0) else { return Vec::new() };
        let accesses = self.to_array(id.0, None);
        let own = self.to_array(id.0, Some(self.site));
        let width = banks::widest(&accesses);
        let element_bytes = array.element_bytes.max(1);
        let mut pads: Option<(String, banks::Rows, banks::PadSearch)> = None;
        let mut swizzle: Option<(String, banks::Rows, banks::Swizzle, u128)> = None;
        for (rows_are, row_bytes) in self.shared_rows(array) {
            let rows = banks::Rows { start: array.offset, row_bytes, element_bytes };
            if let Some(search) = banks::pads(self.rules, &rows, width, &accesses) {
                let better = |new: &banks::PadSearch, old: &banks::PadSearch| match (
                    new.smallest_free(),
                    old.smallest_free(),
                ) {
                    (Some(new), Some(old)) => new < old,
                    (free, None) => {
                        free.is_some()
                            || new.least().map(|l| l.1).unwrap_or(u128::MAX)
                                < old.least().map(|l| l.1).unwrap_or(u128::MAX)
                    }
                    (None, Some(_)) => false,
                };
                if pads.as_ref().is_none_or(|(.., old)| better(&search, old)) {
                    pads = Some((rows_are.clone(), rows, search));
                }
            }
            if let Some((found, conflicts)) = banks::swizzle(self.rules, &rows, width, &accesses)
                && swizzle.as_ref().is_none_or(|(.., fewest)| conflicts < *fewest)
            {
                swizzle = Some((rows_are, rows, found, conflicts));
            }
        }
        let mut found = Vec::new();
        let name = &array.name;
        let plural = |n: u32| if n == 1 { "element" } else { "elements" };
        match &pads {
            None => found.push(Counterfactual::refused(
                Kind::PaddedRows,
                "the rule set does not count the conflicts of one of its accesses",
            )),
            Some((rows_are, rows, search)) => {
                let elements = search.smallest_free().or(search.least().map(|least| least.0));
                let proof = |fewest: Option<(u32, u128)>| match fewest {
                    Some((pad, conflicts)) => format!(
                        "no pad of 1 to {} elements is free of conflicts: the best, {pad}, leaves {conflicts} of {}",
                        banks::MOST_PAD,
                        search.before
                    ),
                    None if search.first_misaligned().is_some() => format!(
                        "no pad of 1 to {} elements keeps the {width}-byte accesses aligned",
                        banks::MOST_PAD
                    ),
                    None => "an access reaches over the end of a row".to_owned(),
                };
                match elements {
                    None => found.push(Counterfactual::refused(Kind::PaddedRows, proof(None))),
                    Some(elements) => {
                        let pad_bytes = u64::from(elements) * element_bytes;
                        let place = |offset, width| rows.padded(offset, width, pad_bytes);
                        let counted = self.count_shared(&own, &accesses, place);
                        let mut what = format!(
                            "pad {rows_are} of `{name}` by {elements} {}",
                            plural(elements)
                        );
                        if let Some(first) = search.first_misaligned()
                            && first < elements
                        {
                            what.push_str(&format!(
                                " ({first} would misalign its {width}-byte accesses)"
                            ));
                        }
                        let extra = array.bytes / rows.row_bytes * pad_bytes;
                        let outcome = match counted {
                            Some(counted) if search.smallest_free().is_none() => {
                                self.partial(counted, proof(search.least()))
                            }
                            Some(counted)
                                if self.run.program.shared_bytes.saturating_add(extra)
                                    > MAX_STATIC_SHARED_BYTES
                                    && self.run.launch.dynamic_shared_bytes == 0 =>
                            {
                                Outcome::Refused {
                                    reason: format!(
                                        "with {extra} B more the block would have over {MAX_STATIC_SHARED_BYTES} B of static shared memory"
                                    ),
                                    counted: Some(Box::new(counted)),
                                }
                            }
                            Some(counted) => Outcome::Helps(Box::new(counted)),
                            None => Outcome::Refused { reason: proof(None), counted: None },
                        };
                        found.push(Counterfactual { kind: Kind::PaddedRows, what, outcome });
                    }
                }
            }
        }
        match &swizzle {
            None => found.push(Counterfactual::refused(
                Kind::Swizzled,
                "no XOR of the column with bits of the row lowers the conflicts",
            )),
            Some((rows_are, rows, swizzle, conflicts)) => {
                let place = |offset, width| rows.swizzled(offset, width, swizzle);
                let mask = (1_u64 << swizzle.bits) - 1;
                let row = match swizzle.row_shift {
                    0 => "row".to_owned(),
                    shift => format!("(row >> {shift})"),
                };
                let chunk = if swizzle.chunk_bytes == element_bytes {
                    "column".to_owned()
                } else {
                    format!("number of the {}-byte chunk", swizzle.chunk_bytes)
                };
                let what = format!(
                    "in {rows_are} of `{name}`, XOR the {chunk} with {row} & {mask}, which takes no more memory"
                );
                let outcome = match self.count_shared(&own, &accesses, place) {
                    Some(counted) if *conflicts > 0 => self.partial(
                        counted,
                        format!("the best XOR swizzle leaves {conflicts} conflicts"),
                    ),
                    Some(counted) => Outcome::Helps(Box::new(counted)),
                    None => Outcome::Refused {
                        reason: "it tears an access apart".into(),
                        counted: None,
                    },
                };
                found.push(Counterfactual { kind: Kind::Swizzled, what, outcome });
            }
        }
        found
    }

    /// A change that leaves conflicts: it helps where it lowers them by a good
    /// part, here and together.
    fn partial(&self, counted: Counted, reason: String) -> Outcome {
        let less =
            |after: &Totals, before: &Totals| match (after.data_wavefronts, before.data_wavefronts)
            {
                (Some(after), Some(before)) => is_less(after, before),
                _ => false,
            };
        if less(&counted.after, &counted.before)
            && less(&counted.together_after, &counted.together_before)
        {
            Outcome::Helps(Box::new(counted))
        } else {
            Outcome::Refused { reason, counted: Some(Box::new(counted)) }
        }
    }

    fn count_shared(
        &self,
        own: &banks::Accesses,
        all: &banks::Accesses,
        place: impl Fn(u64, u64) -> Option<u64>,
    ) -> Option<Counted> {
        let sum = |accesses: &banks::Accesses, moved: bool| {
            let mut totals = Totals::default();
            for (access, times) in accesses {
                let access = if moved {
                    banks::moved(access, |offset| place(offset, u64::from(access.width)))?
                } else {
                    *access
                };
                totals.add_times(&self.rules.count(&access), *times);
            }
            Some(totals)
        };
        Some(Counted {
            before: sum(own, false)?,
            after: sum(own, true)?,
            together_before: sum(all, false)?,
            together_after: sum(all, true)?,
            added_shared: Totals::default(),
        })
    }

    /// The distinct accesses to a shared array, of all sites or of one.
    fn to_array(&self, array: usize, only: Option<SiteId>) -> Vec<(WarpAccess, u128)> {
        let mut found: Vec<(WarpAccess, u128)> = Vec::new();
        let mut known: HashMap<(usize, u32, [u64; WARP_LANES]), usize> = HashMap::new();
        for issue in &self.sample.issues {
            let Some(site) = self.run.program.sites.get(issue.site.0) else { continue };
            let here = matches!(site.root, Root::Shared(id) if id.0 == array);
            if !here || only.is_some_and(|only| only != issue.site) {
                continue;
            }
            if !banks::is_countable(&issue.access) {
                continue;
            }
            let mut access = issue.access;
            for lane in 0..WARP_LANES {
                if !access.mask.contains(lane) {
                    access.addresses[lane] = 0;
                }
            }
            let key = (issue.site.0, access.mask.0, access.addresses);
            let at = *known.entry(key).or_insert_with(|| {
                found.push((access, 0));
                found.len() - 1
            });
            found[at].1 += 1;
        }
        found
    }

    /// What the rows of a shared array may be: of its own axes; where it has
    /// but one, what its lanes stride over, and once round the banks.
    fn shared_rows(&self, array: &scenario::program::SharedArray) -> Vec<(String, u64)> {
        let element = array.element_bytes.max(1);
        let mut rows: Vec<(String, u64)> = Vec::new();
        let mut add = |rows_are: String, bytes: u64| {
            if bytes > element
                && bytes < array.bytes
                && bytes.is_multiple_of(element)
                && !rows.iter().any(|(_, known)| *known == bytes)
            {
                rows.push((rows_are, bytes));
            }
        };
        if array.shape.len() > 1 {
            let mut bytes = element;
            for (axis, len) in array.shape.iter().enumerate().skip(1).rev() {
                bytes = bytes.saturating_mul(*len);
                let rows_are =
                    if axis + 1 == array.shape.len() { "each row" } else { "each plane" };
                add(rows_are.to_owned(), bytes);
            }
            return rows;
        }
        let mut strides: BTreeMap<u64, usize> = BTreeMap::new();
        for access in self.own() {
            if let Shape::Strided { stride } = Shape::of(access) {
                *strides.entry(stride.unsigned_abs()).or_default() += 1;
            }
        }
        let cycle = banks::cycle_bytes(self.rules).next_multiple_of(element);
        add(format!("every {} elements", cycle / element), cycle);
        let mut strides: Vec<(u64, usize)> = strides.into_iter().collect();
        strides.sort_by_key(|&(stride, times)| (std::cmp::Reverse(times), stride));
        for (stride, _) in strides.into_iter().take(4) {
            add(format!("every {} elements", stride / element), stride);
        }
        rows
    }

    /// Share of the bytes of the site's sectors that its block uses, by
    /// whatever access: what L1 can hand to the others.
    pub(crate) fn used_by_block(&self) -> Option<f64> {
        let sector_bytes = self.sector_bytes();
        let (mut used, mut fetched) = (0_u64, 0_u64);
        for range in &self.sample.blocks {
            let issues = self.sample.issues.get(range.clone())?;
            // An access is aligned to its width, so it lies in one piece.
            let mut pieces: HashMap<u64, u16> = HashMap::new();
            for issue in issues {
                if issue.access.op.space != Space::Global {
                    continue;
                }
                let mask = (1_u32 << issue.access.width.min(16)) - 1;
                for (_, address) in issue.access.active() {
                    *pieces.entry(address / 16).or_default() |= (mask << (address % 16)) as u16;
                }
            }
            let own: BTreeSet<u64> = issues
                .iter()
                .filter(|issue| issue.site == self.site)
                .flat_map(|issue| issue.access.active())
                .map(|(_, address)| address / sector_bytes)
                .collect();
            // A sector is a power of two, and 16 B at least.
            let in_sector = sector_bytes.div_ceil(16);
            let used_of = |sector: &u64| -> u64 {
                (sector * in_sector..(sector + 1) * in_sector)
                    .filter_map(|piece| pieces.get(&piece))
                    .map(|mask| u64::from(mask.count_ones()))
                    .sum()
            };
            used += own.iter().map(used_of).sum::<u64>();
            fetched += sector_bytes * own.len() as u64;
        }
        (fetched > 0).then(|| used as f64 / fetched as f64)
    }

    pub(crate) fn extent(&self) -> Extent {
        self.sample.extent
    }
}

fn one(counts: &Counts) -> Totals {
    let mut totals = Totals::default();
    totals.add(counts);
    totals
}

/// `2nd`, `8th`.
fn ordinal(n: u64) -> String {
    let suffix = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}

/// What the lanes of an access stride over.
enum Records {
    /// Elements of several parts, with their names.
    Fields { record: u64, parts: Vec<(String, Part)> },
    /// As many bytes of an array of scalars, in pieces of one size.
    Pieces { record: u64, unit: u64 },
}

/// An access of one warp to the buffer.
struct Event<'a> {
    site: SiteId,
    now: &'a WarpAccess,
    access: WarpAccess,
}

struct Merged {
    counted: Counted,
    /// Most accesses that became one.
    members: usize,
    width: u8,
}

/// The access to the aligned pieces of `width` bytes that `access` lies in.
fn chunk(access: &WarpAccess, width: u8) -> WarpAccess {
    let mut whole = *access;
    whole.width = width;
    for lane in access.mask.lanes() {
        whole.addresses[lane] = access.addresses[lane] / u64::from(width) * u64::from(width);
    }
    whole
}

/// Widths that an access may be merged to.
const WIDTHS: [u8; 4] = [16, 8, 4, 2];

/// The aligned piece of `width` bytes that the first lane of an access is in.
fn first_piece(access: &WarpAccess, width: u8) -> Option<(u8, u64)> {
    let (_, address) = access.active().next()?;
    Some((width, address / u64::from(width)))
}

/// The accesses by these pieces, in order: a loop has thousands of accesses, of which
/// few lie near each other.
fn pieces(events: &[Event<'_>]) -> HashMap<(u8, u64), Vec<usize>> {
    let mut pieces: HashMap<_, Vec<usize>> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        for width in WIDTHS.into_iter().filter(|&width| width > event.access.width) {
            if let Some(piece) = first_piece(&event.access, width) {
                pieces.entry(piece).or_default().push(at);
            }
        }
    }
    pieces
}

/// Where aligned pieces may be taken whole.
struct Chunks<'a> {
    /// Address of the first element.
    origin: u64,
    element: u64,
    /// The parts of an element that hold data.
    fields: Option<&'a [Part]>,
}

impl Chunks<'_> {
    /// The accesses that one access of `width` bytes would do for, the first
    /// included. `Err`: there are none, with the reason where it is a
    /// remarkable one.
    fn group(
        &self,
        events: &[Event<'_>],
        pieces: &HashMap<(u8, u64), Vec<usize>>,
        done: &[bool],
        first: usize,
        width: u8,
    ) -> Result<Vec<usize>, Option<String>> {
        let event = &events[first];
        let whole = chunk(&event.access, width);
        let same_piece = |other: &Event<'_>| {
            other.access.mask == event.access.mask
                && other.access.op == event.access.op
                && other.access.width == event.access.width
                && other.now.width == event.now.width
                && chunk(&other.access, width).active().eq(whole.active())
        };
        let near = first_piece(&event.access, width).and_then(|piece| pieces.get(&piece));
        let members: Vec<usize> = near
            .into_iter()
            .flatten()
            .copied()
            .filter(|&at| at >= first && !done[at] && same_piece(&events[at]))
            .collect();
        let Some(&last) = members.last().filter(|_| members.len() > 1) else { return Err(None) };
        // Each lane must take the same part of its piece.
        let Some(lane) = event.access.mask.lanes().next() else { return Err(None) };
        let mut covered = 0_u32;
        for &member in &members {
            let access = &events[member].access;
            let inside = access.addresses[lane] - whole.addresses[lane];
            if !access.active().all(|(at, address)| address - whole.addresses[at] == inside) {
                return Err(None);
            }
            covered |= (((1_u64 << access.width) - 1) << inside) as u32;
        }
        let is_store = event.access.op.kind == OpKind::Store;
        let missing = !covered & (((1_u64 << width) - 1) as u32);
        if missing != 0 {
            // What is not asked for must be padding, or, of a read, another
            // field of the same element.
            let touches_data = whole.active().any(|(_, address)| {
                (0..u64::from(width))
                    .any(|byte| missing >> byte & 1 == 1 && self.is_data(address + byte))
            });
            if touches_data && is_store {
                return Err(Some(format!(
                    "a {width}-byte store would also write bytes that the kernel leaves alone"
                )));
            }
            let leaves = whole.active().any(|(_, address)| {
                // A piece that begins before the first element leaves it, too.
                address.checked_sub(self.origin).is_none_or(|from| {
                    from / self.element != (from + u64::from(width) - 1) / self.element
                })
            });
            if leaves {
                return Err(Some(format!(
                    "a {width}-byte access would also take elements that the lane does not ask for"
                )));
            }
        }
        // Loads move up to the first, stores down to the last: nothing in
        // between may get in their way.
        for &member in &members {
            let between = if is_store { member + 1..last } else { first + 1..member };
            for other in between.filter(|at| !members.contains(at)) {
                let access = &events[other].access;
                let writes = access.op.kind != OpKind::Load;
                if (is_store || writes) && overlap(access, &events[member].access) {
                    return Err(Some(
                        "the same bytes are read and written in between: merged, it might read other values"
                            .to_owned(),
                    ));
                }
            }
        }
        Ok(members)
    }

    /// Whether a byte belongs to a field.
    fn is_data(&self, address: u64) -> bool {
        let Some(from) = address.checked_sub(self.origin) else { return true };
        let byte = from % self.element;
        self.fields.is_none_or(|fields| {
            fields.iter().any(|part| (part.offset..part.offset + part.bytes).contains(&byte))
        })
    }
}

/// Whether two accesses have a byte in common.
fn overlap(a: &WarpAccess, b: &WarpAccess) -> bool {
    a.active().any(|(_, x)| {
        b.active().any(|(_, y)| x < y + u64::from(b.width) && y < x + u64::from(a.width))
    })
}

/// What the warps of a block take at a time.
struct Tile<'a> {
    accesses: &'a [&'a WarpAccess],
    /// The distinct addresses, ascending.
    elements: Vec<u64>,
    width: u64,
    /// Bytes of a row: once round the banks.
    row_bytes: u64,
}

impl<'a> Tile<'a> {
    fn new(accesses: &'a [&'a WarpAccess], row_bytes: u64) -> Self {
        let mut elements: Vec<u64> = accesses
            .iter()
            .flat_map(|access| access.active().map(|(_, address)| address))
            .collect();
        elements.sort_unstable();
        elements.dedup();
        let width = accesses.first().map_or(1, |access| u64::from(access.width));
        Self { accesses, elements, width, row_bytes }
    }

    /// The tile in rows of all banks.
    fn rows(&self) -> banks::Rows {
        banks::Rows { start: 0, row_bytes: self.row_bytes, element_bytes: self.width }
    }

    fn padded_bytes(&self, pad_bytes: u64) -> u64 {
        let bytes = self.elements.len() as u64 * self.width;
        bytes + bytes / self.row_bytes * pad_bytes
    }

    fn padded(&self, access: &WarpAccess, pad_bytes: u64) -> Option<WarpAccess> {
        banks::moved(access, |offset| self.rows().padded(offset, self.width, pad_bytes))
    }

    /// The pad of a row with the fewest conflicts, bytes; none where it is as
    /// good without.
    fn pad(&self, rules: &RuleSet, shared: &banks::Accesses) -> u64 {
        banks::pads(rules, &self.rows(), self.width, shared)
            .and_then(|search| {
                let (elements, conflicts) = search.least()?;
                (conflicts < search.before).then(|| u64::from(elements) * self.width)
            })
            .unwrap_or(0)
    }

    /// The global requests, in order of address.
    fn count(&self, rules: &RuleSet, after: &mut Totals) {
        let Some(first) = self.accesses.first() else { return };
        for elements in self.elements.chunks(WARP_LANES) {
            let mut access = WarpAccess::new(first.op, first.width, [0; WARP_LANES]);
            access.mask = LaneMask(u32::MAX >> (WARP_LANES - elements.len()));
            for (lane, &address) in elements.iter().enumerate() {
                access.addresses[lane] = address;
            }
            after.add(&rules.count(&access));
        }
    }

    /// The shared accesses that hand the elements round: one in order, one as
    /// the lanes have them. Stores go into the tile as the lanes have them and
    /// out in order, loads the other way.
    fn shared(&self, (into, out_of): (Op, Op), kind: OpKind) -> Vec<(WarpAccess, u128)> {
        let Some(first) = self.accesses.first() else { return Vec::new() };
        let (ordered, as_had) = if kind == OpKind::Store { (out_of, into) } else { (into, out_of) };
        let in_order = self.elements.chunks(WARP_LANES).enumerate().map(|(at, elements)| {
            let place = |lane: usize| (at * WARP_LANES + lane) as u64 * self.width;
            let mut access = WarpAccess::new(ordered, first.width, std::array::from_fn(place));
            access.mask = LaneMask(u32::MAX >> (WARP_LANES - elements.len()));
            (access, 1)
        });
        let rank = |address: u64| self.elements.partition_point(|&known| known < address) as u64;
        let had = self.accesses.iter().filter_map(|access| {
            let mut had = banks::moved(access, |address| Some(rank(address) * self.width))?;
            had.op = as_had;
            Some((had, 1))
        });
        in_order.chain(had).collect()
    }
}

/// Sectors, or what else a rule set counts, of a request.
pub fn per_request(totals: &Totals) -> Option<(f64, &'static str)> {
    totals
        .per_request(Field::Sectors)
        .map(|sectors| (sectors, "sectors"))
        .or_else(|| totals.per_request(Field::MovedBytes).map(|bytes| (bytes, "B")))
}
