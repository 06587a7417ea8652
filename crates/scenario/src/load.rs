//! From a scenario file, and the files it names, to its runs.

use crate::diagnostic::{Diagnostic, Diagnostics, Kind, known_names};
use crate::document::{self, Document, Literal, Located, Quantity};
use crate::layer::Layer;
use crate::lower::{Code, Origin, Parsed};
use crate::plan::{Override, RunPlan};
use crate::program::Scalar;
use crate::run::Allow;
use crate::source::{self, Disk, Files, SourceId, Sources, Span};
use crate::{buffers, plan};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The scenario file is the first of the texts.
pub(crate) const TOML: SourceId = SourceId(0);

/// Most variants × sweep points that a scenario may have.
pub const MAX_RUNS: u128 = 10_000;

/// Most variants a scenario may have.
const MAX_VARIANTS: usize = 1000;

/// A scenario file that was read and checked as far as it can be without
/// values for its parameters.
#[derive(Clone, Debug)]
pub struct Scenario {
    inner: Arc<Inner>,
    sources: Arc<Sources>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) document: Document,
    /// The file with each variant merged in; `None` is the file itself.
    layers: Vec<NamedLayer>,
    /// `.cu` files by the name that the scenario gives them.
    pub(crate) kernels: BTreeMap<String, Result<SourceId, FileError>>,
    /// The kernels parsed so far: runs share them.
    parsed: Mutex<HashMap<(SourceId, u32), Arc<Parsed>>>,
    pub(crate) data: Data,
    pub(crate) allows: Vec<Allow>,
}

/// The file with the variant of this name merged in.
type NamedLayer = (Option<String>, Arc<Layer>);

/// Why a file that the scenario names cannot be used.
#[derive(Clone, Debug)]
pub(crate) enum FileError {
    /// It cannot be read.
    Unreadable(String),
    /// It was read, and is no text.
    NotText(Box<Diagnostic>),
}

/// How runs are to be listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Take the parameters of `[counting]`: the runs are to be counted under a
    /// profiler.
    pub counting: bool,
}

impl Options {
    /// The options for counting under a profiler.
    pub const fn for_counting() -> Self {
        Self { counting: true }
    }
}

impl Scenario {
    /// Reads a scenario from the file system.
    ///
    /// # Errors
    /// A file that cannot be read or is no scenario. Whatever depends on the
    /// values of parameters, and kernels, is checked by [`RunPlan::build`].
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Diagnostics> {
        let path = path.as_ref();
        match Disk.read(path) {
            Ok(bytes) => Self::read(path, bytes, &Disk),
            Err(error) => {
                let mut sources = Sources::default();
                sources.add(path, "");
                let error = Diagnostic::whole_file(
                    Kind::Input,
                    format!("cannot read the scenario: {}", reason(&error)),
                    "name a scenario file, such as scenarios/strided.toml",
                );
                Err(Diagnostics::new(Arc::new(sources), vec![error]))
            }
        }
    }

    /// A scenario from its text; `path` names it in messages, and is where the
    /// names of other files start from. Those come from `files`:
    /// [`Disk`], or [`Embedded`](crate::source::Embedded).
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn from_text(
        path: impl AsRef<Path>,
        text: &str,
        files: &dyn Files,
    ) -> Result<Self, Diagnostics> {
        Self::read(path.as_ref(), text.as_bytes().to_vec(), files)
    }

    fn read(path: &Path, bytes: Vec<u8>, files: &dyn Files) -> Result<Self, Diagnostics> {
        let mut sources = Sources::default();
        let inner = Inner::read(path, bytes, files, &mut sources);
        let sources = Arc::new(sources);
        match inner {
            Ok(inner) => Ok(Self { inner: Arc::new(inner), sources }),
            Err(errors) => Err(Diagnostics::new(sources, errors)),
        }
    }

    /// The file's name without its extension.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The title in the file; the name where it has none.
    pub fn title(&self) -> &str {
        self.inner.title()
    }

    /// The paragraph on what the scenario shows; empty where it has none.
    pub fn summary(&self) -> &str {
        self.inner.document.summary.as_ref().map_or("", |summary| &summary.value)
    }

    /// Numbers of the tutorial claims that this scenario judges.
    pub fn claims(&self) -> impl Iterator<Item = u32> {
        self.inner.document.claims.iter().map(|claim| claim.value)
    }

    /// The variants that runs are made of, in order; `None` is the file
    /// without any.
    ///
    /// The file without any is among them unless a variant is equal to it
    /// (then that variant is its name), or it is no complete scenario without.
    pub fn variants(&self) -> impl Iterator<Item = Option<&str>> {
        self.inner.layers.iter().map(|(name, _)| name.as_deref())
    }

    /// What a variant's own `summary` says; empty where it says nothing.
    pub fn variant_summary(&self, variant: &str) -> &str {
        let found = self.inner.document.variant.get(variant);
        found.and_then(|v| v.summary.as_ref()).map_or("", |summary| &summary.value)
    }

    /// Names of the parameters, those of variants last.
    pub fn params(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (_, layer) in &self.inner.layers {
            for (name, _) in &layer.params {
                if !names.contains(&name.value.as_str()) {
                    names.push(&name.value);
                }
            }
        }
        names
    }

    /// Whether the file has `[counting]`, smaller parameters for counting
    /// under a profiler.
    pub fn has_counting(&self) -> bool {
        self.inner.document.counting.is_some()
    }

    /// The texts that the scenario was read from, the TOML file first.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The runs: variants × sweep points, in the file's order, the last swept
    /// key changing fastest.
    ///
    /// `overrides` are parameters with other values (`--set name=value`), as
    /// numbers or expressions. They win over variants, sweeps and `[counting]`;
    /// a sweep over an overridden parameter has that one value only.
    ///
    /// # Errors
    /// An override of an unknown parameter, or more than [`MAX_RUNS`] runs.
    /// Whether a run can be made is up to [`RunPlan::build`].
    pub fn runs(
        &self,
        overrides: &[(String, String)],
        options: Options,
    ) -> Result<Vec<RunPlan>, Diagnostics> {
        let mut sources = self.sources.clone();
        let overrides = self.overrides(overrides, &mut sources)?;
        let overrides: Arc<[Override]> = overrides.into();

        let swept = |layer: &Layer| -> Vec<plan::Sweep> {
            layer
                .sweep
                .iter()
                .filter(|(name, _)| !overrides.iter().any(|o| o.name == name.value))
                .map(|(name, values)| (name.clone(), values.value.clone()))
                .collect()
        };
        let count: u128 = self
            .inner
            .layers
            .iter()
            .map(|(_, layer)| {
                swept(layer)
                    .iter()
                    .map(|(_, values)| values.len() as u128)
                    .fold(1_u128, u128::saturating_mul)
            })
            .fold(0, u128::saturating_add);
        if count > MAX_RUNS {
            let sweep = self.inner.layers.iter().find_map(|(_, layer)| layer.sweep.first());
            let message = match count {
                u128::MAX => format!("the sweep has far more points than the {MAX_RUNS}"),
                count => format!("the sweep has {count} points, more than the {MAX_RUNS}"),
            };
            let help = "sweep over fewer values, or fix a parameter with `--set name=value`";
            let error = match sweep {
                Some((name, _)) => Diagnostic::new(Kind::Limit, name.span(TOML), message, help),
                None => Diagnostic::whole_file(Kind::Limit, message, help),
            };
            return Err(Diagnostics::new(sources, vec![error]));
        }

        let mut runs = Vec::new();
        for (variant, layer) in &self.inner.layers {
            for point in plan::points(&swept(layer)) {
                runs.push(RunPlan {
                    inner: Arc::clone(&self.inner),
                    sources: Arc::clone(&sources),
                    layer: Arc::clone(layer),
                    variant: variant.clone(),
                    point,
                    overrides: Arc::clone(&overrides),
                    options,
                });
            }
        }
        Ok(runs)
    }

    /// The overrides as code in a text of their own, so that errors show them.
    fn overrides(
        &self,
        overrides: &[(String, String)],
        sources: &mut Arc<Sources>,
    ) -> Result<Vec<Override>, Diagnostics> {
        if overrides.is_empty() {
            return Ok(Vec::new());
        }
        let lines: Vec<String> =
            overrides.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let mut all = Sources::clone(sources);
        let id = all.add("--set", lines.join("\n"));
        *sources = Arc::new(all);

        let known = self.params();
        let mut start = 0;
        let mut errors = Vec::new();
        let mut found = Vec::new();
        for ((name, value), line) in overrides.iter().zip(&lines) {
            let name_end = start + byte(name.len());
            if known.contains(&name.as_str()) {
                let origin = Origin::Offset(name_end + 1);
                let code = Code { text: value.as_str().into(), source: id, origin };
                found.push(Override { name: name.clone(), code });
            } else {
                errors.push(Diagnostic::new(
                    Kind::UnknownName,
                    Span::new(id, start, name_end),
                    format!("the scenario has no parameter `{}`", name.escape_debug()),
                    known_names(name, "parameters", known.iter().copied()),
                ));
            }
            start += byte(line.len() + 1);
        }
        if errors.is_empty() {
            Ok(found)
        } else {
            Err(Diagnostics::new(Arc::clone(sources), errors))
        }
    }
}

impl Inner {
    fn read(
        path: &Path,
        bytes: Vec<u8>,
        files: &dyn Files,
        sources: &mut Sources,
    ) -> Result<Self, Vec<Diagnostic>> {
        let id = source::add_text(sources, path, bytes).map_err(|error| vec![error])?;
        let text = Arc::clone(&sources.get(id).text);
        if text.trim_start_matches('\u{feff}').trim().is_empty() {
            return Err(vec![Diagnostic::new(
                Kind::Input,
                Span::new(id, 0, 0),
                "the file is empty",
                "a scenario has [params], [launch], [buffers] and [kernel]; those in scenarios/ \
                 are examples",
            )]);
        }
        let document = document::parse(&text, id).map_err(|error| vec![*error])?;
        let layers = layers(&document)?;
        let allows = allows(&document)?;
        check_counting(&document, &layers)?;

        let folder = path.parent().unwrap_or(Path::new(""));
        let kernels = read_kernels(&layers, folder, files, sources);
        let data = Data::read(&layers, folder, files);
        let name = path.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        Ok(Self { name, document, layers, kernels, parsed: Mutex::default(), data, allows })
    }

    pub(crate) fn title(&self) -> &str {
        self.document.title.as_ref().map_or(&self.name, |title| &title.value)
    }

    /// The kernel code that `code` makes, parsed once for all runs. `start` is
    /// where it stands.
    pub(crate) fn parsed(
        &self,
        source: SourceId,
        start: u32,
        code: impl FnOnce() -> Code,
    ) -> Arc<Parsed> {
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(parsed.entry((source, start)).or_insert_with(|| Arc::new(Parsed::new(code()))))
    }
}

/// Why a file cannot be read, in the same words on every system.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::IsADirectory => "it is a folder".into(),
        _ => error.to_string(),
    }
}

fn byte(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The file with each variant merged in.
fn layers(document: &Document) -> Result<Vec<NamedLayer>, Vec<Diagnostic>> {
    let variants = &document.variant.0;
    if variants.len() > MAX_VARIANTS {
        return Err(vec![Diagnostic::new(
            Kind::Limit,
            variants[MAX_VARIANTS].0.span(TOML),
            format!("{} variants, more than the {MAX_VARIANTS}", variants.len()),
            "put what varies into a sweep",
        )]);
    }
    let base = Layer::base(document);
    let mut errors = Vec::new();
    let mut layers = Vec::new();
    for (name, variant) in variants {
        match Layer::with_variant(document, variant, TOML) {
            Ok(layer) => layers.push((Some(name.value.clone()), Arc::new(layer))),
            Err(error) => errors.push(error),
        }
    }
    let named = layers.iter().any(|(_, layer)| **layer == base);
    // Several variants that each name a function of the file: the file itself
    // names none, and would not know which.
    let entry = |layer: &Layer| layer.kernel.as_ref().is_some_and(|k| k.value.entry.is_some());
    let leaves_entry_open =
        layers.len() > 1 && !entry(&base) && layers.iter().all(|(_, layer)| entry(layer));
    if variants.is_empty() || base.is_complete() && !named && !leaves_entry_open {
        layers.insert(0, (None, Arc::new(base)));
    }
    for (_, layer) in &layers {
        layer.check(TOML, &mut errors);
    }
    if errors.is_empty() { Ok(layers) } else { Err(errors) }
}

/// Parameters for counting replace ones that are there, and that no sweep
/// varies: a sweep over one value many times would be the same run.
fn check_counting(document: &Document, layers: &[NamedLayer]) -> Result<(), Vec<Diagnostic>> {
    let Some(counting) = &document.counting else { return Ok(()) };
    let mut errors = Vec::new();
    for (name, _) in &counting.params.0 {
        let known = layers.iter().any(|(_, l)| l.params.iter().any(|(n, _)| n == name));
        if !known {
            let params = layers.iter().flat_map(|(_, l)| &l.params).map(|(n, _)| n.value.as_str());
            let mut params: Vec<&str> = params.collect();
            params.sort_unstable();
            params.dedup();
            errors.push(Diagnostic::new(
                Kind::UnknownName,
                name.span(TOML),
                format!("`[counting]` sets `{}`, which is no parameter", name.value),
                known_names(&name.value, "parameters", params),
            ));
        }
        let swept = layers.iter().find_map(|(_, l)| l.sweep.iter().find(|(n, _)| n == name));
        if let Some((sweep, _)) = swept {
            errors.push(
                Diagnostic::new(
                    Kind::Document,
                    name.span(TOML),
                    format!("`[counting]` sets `{}`, which the sweep varies", name.value),
                    "make another parameter smaller, one that no sweep varies",
                )
                .also(sweep.span(TOML), "varied here"),
            );
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Checks the waivers.
fn allows(document: &Document) -> Result<Vec<Allow>, Vec<Diagnostic>> {
    let mut errors = Vec::new();
    let mut allows = Vec::new();
    for allow in &document.allow {
        match waiver(allow) {
            Ok(allow) => allows.push(allow),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(allows) } else { Err(errors) }
}

fn waiver(allow: &Located<document::Allow>) -> Result<Allow, Diagnostic> {
    let value = &allow.value;
    if value.reason.value.trim().is_empty() {
        return Err(Diagnostic::new(
            Kind::Document,
            value.reason.span(TOML),
            "the reason is empty",
            "say why the access may fall short: the next reader will ask",
        ));
    }
    let min_efficiency = match &value.min_efficiency {
        None => None,
        Some(text) => Some(percent(&text.value).ok_or_else(|| {
            Diagnostic::new(
                Kind::Document,
                text.span(TOML),
                format!("`{}` is no percentage", text.value.escape_debug()),
                "write a number from 0 to 100 with its sign, such as \"12.5%\"",
            )
        })?),
    };
    let max_conflicts = match &value.max_conflicts {
        Some(n) if !n.value.is_finite() || n.value < 0.0 => {
            return Err(Diagnostic::new(
                Kind::Document,
                n.span(TOML),
                format!("{} bank conflicts a request", n.value),
                "write a number, 0 or more",
            ));
        }
        other => other.as_ref().map(|n| n.value),
    };
    if min_efficiency.is_none() && max_conflicts.is_none() {
        return Err(Diagnostic::new(
            Kind::Document,
            allow.span(TOML),
            format!("the waiver for `{}` waives nothing", value.label.value.escape_debug()),
            "add `min_efficiency = \"10%\"` or `max_conflicts = 1`",
        ));
    }
    Ok(Allow {
        label: value.label.value.clone(),
        min_efficiency,
        max_conflicts,
        reason: value.reason.value.clone(),
        span: allow.span(TOML),
    })
}

/// `"12.5%"` as 0.125.
fn percent(text: &str) -> Option<f64> {
    let number: f64 = text.trim().strip_suffix('%')?.trim_end().parse().ok()?;
    (0.0..=100.0).contains(&number).then_some(number / 100.0)
}

/// Reads every `.cu` file that a variant names.
fn read_kernels(
    layers: &[NamedLayer],
    folder: &Path,
    files: &dyn Files,
    sources: &mut Sources,
) -> BTreeMap<String, Result<SourceId, FileError>> {
    let names: BTreeSet<&str> = layers
        .iter()
        .filter_map(|(_, layer)| layer.kernel.as_ref()?.value.file.as_ref())
        .map(|file| file.value.as_str())
        .collect();
    names
        .into_iter()
        .map(|name| {
            let path = folder.join(name);
            let read = match files.read(&path) {
                Ok(bytes) => source::add_text(sources, &source::normalised(&path), bytes)
                    .map_err(|error| FileError::NotText(Box::new(error))),
                Err(error) => Err(FileError::Unreadable(reason(&error))),
            };
            (name.to_owned(), read)
        })
        .collect()
}

/// The error for a file that the scenario names at `span`.
pub(crate) fn unreadable(span: Span, name: &str, reason: &str) -> Diagnostic {
    Diagnostic::new(
        Kind::Input,
        span,
        format!("cannot read `{}`: {reason}", name.escape_debug()),
        "the name is relative to the scenario file's folder",
    )
}

/// The data files of a scenario: what is in its buffers.
#[derive(Debug)]
pub(crate) struct Data {
    files: BTreeMap<String, Result<Arc<[u8]>, String>>,
    /// What was made of them, for runs to share.
    values: Mutex<Decoded>,
}

/// Values by file and element type.
type Decoded = HashMap<(String, Scalar), Arc<[i64]>>;

impl Data {
    fn read(layers: &[NamedLayer], folder: &Path, files: &dyn Files) -> Self {
        let names: BTreeSet<&str> = layers
            .iter()
            .flat_map(|(_, layer)| &layer.buffers)
            .filter_map(|(_, buffer)| buffer.value.file.as_ref())
            .map(|file| file.value.as_str())
            .collect();
        let files = names
            .into_iter()
            .map(|name| {
                let read = files.read(&folder.join(name));
                (name.to_owned(), read.map(Arc::from).map_err(|error| reason(&error)))
            })
            .collect();
        Self { files, values: Mutex::default() }
    }

    /// The values in the file that the scenario names at `place`.
    pub(crate) fn values(
        &self,
        name: &str,
        scalar: Scalar,
        place: Span,
    ) -> Result<Arc<[i64]>, Diagnostic> {
        let key = (name.to_owned(), scalar);
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = values.get(&key) {
            return Ok(Arc::clone(known));
        }
        let bytes = match self.files.get(name) {
            Some(Ok(bytes)) => bytes,
            Some(Err(reason)) => return Err(unreadable(place, name, reason)),
            None => return Err(unreadable(place, name, "it was not read")),
        };
        let read = buffers::read_values(&PathBuf::from(name), bytes, scalar, place)?;
        values.insert(key, Arc::clone(&read));
        Ok(read)
    }
}

/// How a literal is written.
pub(crate) fn literal_text(literal: &Literal) -> String {
    match literal {
        Literal::Quantity(Quantity::Int(int)) => int.to_string(),
        Literal::Quantity(Quantity::Expr(text)) => text.clone(),
        Literal::Bool(truth) => truth.to_string(),
        Literal::Float(float) => format!("{float:?}"),
    }
}
