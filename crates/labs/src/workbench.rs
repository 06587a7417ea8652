//! Computes what the expressions of a lab name.

use crate::campaign::Campaign;
use crate::document::{Point, Setting};
use crate::error::LabError;
use crate::expression::Expression;
use crate::kernel::{launch_text, source_text};
use crate::lab::Lab;
use crate::metric::{self, Quantity, Unit};
use crate::numbers::Draw;
use model::predict::{Counted, KnownErrors, Prediction, predict};
use model::{Kind, Profile, traffic};
use record::{RunRecord, Source};
use scenario::count::{self, LaunchCounts};
use scenario::eval::{Evaluator, Limits};
use scenario::{Diagnostic, Diagnostics, Files, Options, Run, Scenario};
use simulator::{RuleSet, Space, WarpAccess};
use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;
use std::sync::Arc;

/// Runs of a scenario that has fewer are simulated as if there were so many: nobody
/// waits for a second after each answer.
const LEAST_TOGETHER: usize = 8;

/// Values that name values: more than this deep is a circle.
const DEEPEST: usize = 32;

/// A lab with its numbers settled, and what was computed for it so far.
pub struct Workbench<'a> {
    /// The lab.
    pub lab: &'a Lab,
    /// The seed of the numbers; without one they are those shown to all.
    pub seed: Option<u64>,
    pub(crate) files: &'a dyn Files,
    campaign: &'a Campaign,
    numbers: BTreeMap<&'a str, i64>,
    built: RefCell<HashMap<String, Rc<Built>>>,
}

/// A run of a point.
pub(crate) struct Built {
    pub(crate) run: Run,
    pub(crate) rules: RuleSet,
    /// Compute capability of the rules.
    arch: String,
    /// Runs of the scenario, which share the second or so in which what they move is
    /// simulated: as in `coalescope sim`, so that the figures are the same, or
    /// [`LEAST_TOGETHER`].
    together: usize,
    counts: OnceCell<LaunchCounts>,
    predicted: OnceCell<RunRecord>,
}

/// Where the quantities of records come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// A device counted and timed them.
    Recorded,
    /// The model predicts them.
    Predicted,
}

/// What there is to see of a point.
#[derive(Clone, Debug)]
pub struct Shown {
    /// The kernel's source.
    pub kernel: String,
    /// The launch and the buffers in words.
    pub launch: String,
    /// Compute capability of the rules.
    pub arch: String,
    /// The access that is looked at, by its label.
    pub label: String,
    /// One warp's execution of it, and the rules that count it.
    pub access: WarpAccess,
    /// The rules.
    pub rules: RuleSet,
    /// Quantities of the whole launch that a device counted and timed; none where
    /// the run is not recorded.
    pub figures: Vec<Figure>,
    /// The device that recorded them.
    pub device: Option<String>,
}

/// A quantity of a launch, predicted beside recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What it is, in words.
    pub name: &'static str,
    /// What the model says, where it says anything about it.
    pub predicted: Option<Quantity>,
    /// How far predictions of this kind lay from what was recorded, on average;
    /// 0.1 is 10 %. None of counts.
    pub known_error: Option<f64>,
    /// What a device counted or timed.
    pub recorded: Quantity,
}

impl<'a> Workbench<'a> {
    /// Settles the numbers of `lab` for `seed`. Scenarios are read from `files`.
    pub fn new(
        lab: &'a Lab,
        files: &'a dyn Files,
        campaign: &'a Campaign,
        seed: Option<u64>,
    ) -> Self {
        let draw = |name: &str, numbers| match seed {
            Some(seed) => Draw::new(seed, &format!("{}/{name}", lab.name)).one_of(numbers),
            None => numbers.shown,
        };
        let numbers = lab
            .document
            .numbers
            .iter()
            .map(|(name, numbers)| (name.as_str(), draw(name, numbers)))
            .collect();
        Self { lab, seed, files, campaign, numbers, built: RefCell::default() }
    }

    /// `text` with its computed figures in the place of `{{…}}`: a metric
    /// (`{{POINT: METRIC}}`), or a value or number (`{{NAME}}`, and
    /// `{{NAME|percent}}` in another unit).
    ///
    /// # Errors
    /// A figure that cannot be computed.
    pub fn render(&self, text: &str) -> Result<String, LabError> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let Some((inside, more)) = after.split_once("}}") else { break };
            out.push_str(before);
            out.push_str(&self.figure(inside)?.to_string());
            rest = more;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// The figure that `{{inside}}` stands for.
    fn figure(&self, inside: &str) -> Result<Quantity, LabError> {
        let (name, unit) = match inside.split_once('|') {
            Some((name, unit)) => (name.trim(), Some(unit.trim())),
            None => (inside.trim(), None),
        };
        let mut quantity = self.named(name, Side::Recorded, 0)?;
        if let Some(unit) = unit {
            quantity.unit = Unit::from_name(unit).ok_or_else(|| {
                self.wrong(format!(
                    "`{{{{{inside}}}}}`: the unit is one of count, bytes, percent, seconds, \
                     bytes/s, times"
                ))
            })?;
        }
        Ok(quantity)
    }

    /// The value of an expression of the lab, with its unit where it is a
    /// single metric.
    ///
    /// # Errors
    /// A name that is not known, or a metric that the run does not have.
    pub fn quantity(&self, expression: &str) -> Result<Quantity, LabError> {
        self.quantity_by(expression, Side::Recorded)
    }

    /// The same with the quantities of records from one side.
    pub(crate) fn quantity_by(&self, expression: &str, side: Side) -> Result<Quantity, LabError> {
        self.evaluate(expression, side, 0)
    }

    /// The value of an expression.
    pub(crate) fn value(&self, expression: &str) -> Result<f64, LabError> {
        self.quantity(expression).map(|quantity| quantity.value)
    }

    fn evaluate(&self, text: &str, side: Side, depth: usize) -> Result<Quantity, LabError> {
        let parsed = Expression::parse(text).map_err(|error| self.wrong(error))?;
        if let [name] = parsed.names() {
            let bare = text.trim().trim_start_matches('{').trim_end_matches('}');
            if bare.trim() == name.trim() {
                return self.named(name, side, depth);
            }
        }
        let mut failed = None;
        let value = parsed.eval(|name| match self.named(name, side, depth) {
            Ok(quantity) => Ok(quantity.value),
            Err(error) => {
                failed.get_or_insert(error);
                Err(String::new())
            }
        });
        match (value, failed) {
            (_, Some(error)) => Err(error),
            (Ok(value), None) if value.is_finite() => Ok(Quantity::new(value, Unit::Count)),
            (Ok(_), None) => Err(self.wrong(format!("`{text}` divides by zero"))),
            (Err(error), None) => Err(self.wrong(error)),
        }
    }

    fn named(&self, name: &str, side: Side, depth: usize) -> Result<Quantity, LabError> {
        if let Some((point, metric)) = name.split_once(':') {
            return self.metric(point.trim(), metric.trim(), side);
        }
        if let Some(&number) = self.numbers.get(name) {
            return Ok(Quantity::new(number as f64, Unit::Count));
        }
        let Some(text) = self.lab.document.value.get(name) else {
            return Err(self.wrong(format!("there is no value and no number `{name}`")));
        };
        if depth == DEEPEST {
            return Err(self.wrong(format!("the value `{name}` names itself")));
        }
        self.evaluate(text, side, depth + 1)
    }

    /// A metric of a point.
    fn metric(&self, name: &str, metric: &str, side: Side) -> Result<Quantity, LabError> {
        let point = self.point(name)?;
        let built = self.built(name, point)?;
        let found = if let Some(recorded) = metric.strip_prefix("record.") {
            let (time, counted) =
                (self.campaign.time(&built.run), self.campaign.counted(&built.run));
            match side {
                Side::Predicted if recorded != metric::YARDSTICK => {
                    self.predicted_quantity(&built, recorded)?
                }
                _ => metric::of_record(recorded, time, counted),
            }
        } else if let Some(of_warp) = metric.strip_prefix("warp.") {
            let access = self.warp(name, point, &built)?.1;
            metric::of_warp(of_warp, &access, &built.run, &built.rules)
        } else if let Some(found) = metric::of_run(metric, &built.run, &built.rules) {
            Some(found)
        } else {
            let counts = self.counts(&built)?;
            match &point.access {
                None => {
                    let totals = metric::kernel_totals(metric, &built.run, counts);
                    metric::of_totals(metric, &totals)
                }
                Some(label) => {
                    let site = self.site(name, label, &built.run)?;
                    counts.sites.get(site).and_then(|c| metric::of_totals(metric, &c.totals))
                }
            }
        };
        found.ok_or_else(|| {
            self.wrong(format!(
                "{{{name}: {metric}}}: {} has no such quantity; there are {}",
                built.run.scenario,
                metric::KNOWN
            ))
        })
    }

    pub(crate) fn point(&self, name: &str) -> Result<&'a Point, LabError> {
        let found = self.lab.document.point.get(name);
        found.ok_or_else(|| self.wrong(format!("there is no point `{name}`")))
    }

    /// The place in the program of the access with this label.
    fn site(&self, point: &str, label: &str, run: &Run) -> Result<usize, LabError> {
        run.program.sites.iter().position(|site| site.label == label).ok_or_else(|| {
            let known: Vec<&str> =
                run.program.sites.iter().map(|site| site.label.as_str()).collect();
            self.wrong(format!(
                "point.{point}: {} has no access `{label}`; it has {}",
                run.scenario,
                known.join(", ")
            ))
        })
    }

    /// The run of a point.
    pub(crate) fn built(&self, name: &str, point: &Point) -> Result<Rc<Built>, LabError> {
        let mut overrides = Vec::new();
        for (param, setting) in &point.params {
            let value = match setting {
                Setting::Number(number) => *number,
                Setting::Expression(text) => self.value(text)? as i64,
            };
            overrides.push((param.clone(), value.to_string()));
        }
        let key = format!("{} {:?} {overrides:?} {}", point.scenario, point.variant, point.arch);
        if let Some(built) = self.built.borrow().get(&key) {
            return Ok(Rc::clone(built));
        }
        let scenario = self.scenario(&point.scenario)?;
        let mut plans =
            scenario.runs(&overrides, Options::default()).map_err(LabError::Scenario)?;
        plans.retain(|plan| plan.variant() == point.variant.as_deref());
        let plan = match &plans[..] {
            [plan] => plan,
            [] => {
                return Err(self.wrong(format!(
                    "point.{name}: {} has no variant {:?}",
                    point.scenario, point.variant
                )));
            }
            several => {
                return Err(self.wrong(format!(
                    "point.{name}: {} has {} runs of this variant: give the swept parameters a value",
                    point.scenario,
                    several.len()
                )));
            }
        };
        let rules = RuleSet::for_arch(&point.arch).ok_or_else(|| {
            self.wrong(format!(
                "point.{name}: there is no rule set for compute capability {}",
                point.arch
            ))
        })?;
        let run = plan.build().map_err(LabError::Scenario)?;
        let together = scenario.runs(&[], Options::default()).map_or(1, |plans| plans.len());
        let together = together.max(LEAST_TOGETHER);
        let built = Rc::new(Built {
            run,
            rules,
            arch: point.arch.clone(),
            together,
            counts: OnceCell::new(),
            predicted: OnceCell::new(),
        });
        self.built.borrow_mut().insert(key, Rc::clone(&built));
        Ok(built)
    }

    /// A scenario by its name in the lab.
    pub(crate) fn scenario(&self, file: &str) -> Result<Scenario, LabError> {
        let path = self.lab.path(file);
        let text = match self.lab.scenarios.get(file) {
            Some(text) => text.clone(),
            None => {
                let reason = |reason: String| LabError::Read { path: path.clone(), reason };
                let bytes = self.files.read(&path).map_err(|error| reason(error.to_string()))?;
                String::from_utf8(bytes).map_err(|_| reason("it is not UTF-8".to_owned()))?
            }
        };
        Scenario::from_text(path, &text, self.files).map_err(LabError::Scenario)
    }

    fn counts<'b>(&self, built: &'b Built) -> Result<&'b LaunchCounts, LabError> {
        if let Some(counts) = built.counts.get() {
            return Ok(counts);
        }
        let run = &built.run;
        let counted =
            count::count(run, &built.rules, &run.assumed_bases(), &count::Options::default())
                .map_err(|error| of_run(run, error))?;
        Ok(built.counts.get_or_init(|| counted))
    }

    /// What the model says of traffic and time of a run, on the device that `recorded`
    /// it. Empty where that device was not calibrated.
    fn predicted<'b>(
        &self,
        built: &'b Built,
        recorded: Option<&RunRecord>,
    ) -> Result<&'b RunRecord, LabError> {
        if let Some(predicted) = built.predicted.get() {
            return Ok(predicted);
        }
        let run = &built.run;
        let launch = record::Launch {
            grid: run.launch.grid,
            block: run.launch.block,
            registers: None,
            shared_bytes: None,
        };
        let mut record = RunRecord::new(run.scenario.clone(), Source::Predicted, launch);
        let device = recorded.and_then(|record| record.device.as_deref());
        let profile = Profile::shipped_names().filter_map(Profile::shipped).find(|profile| {
            profile.kind == Kind::Measured && Some(profile.device.as_str()) == device
        });
        if let Some(profile) = profile {
            let counted = Counted {
                run,
                rules: &built.rules,
                bases: &run.assumed_bases(),
                sites: &self.counts(built)?.sites,
            };
            let options =
                traffic::Options { together: built.together, ..traffic::Options::default() };
            let prediction: Prediction =
                predict(&counted, &profile, &options, &KnownErrors::shipped());
            prediction.into_record(&mut record);
        }
        Ok(built.predicted.get_or_init(|| record))
    }

    /// The label and the first execution of the point's access by its warp.
    fn warp(
        &self,
        name: &str,
        point: &Point,
        built: &Built,
    ) -> Result<(String, WarpAccess), LabError> {
        let run = &built.run;
        let wanted = point.access.as_ref().map(|label| self.site(name, label, run)).transpose()?;
        let evaluator = Evaluator::new(run, &run.assumed_bases(), Limits::default())
            .map_err(|error| of_run(run, error))?;
        let occurrences =
            evaluator.accesses_of(point.block, point.warp).map_err(|error| of_run(run, error))?;
        let found = occurrences.iter().find(|occurrence| match wanted {
            Some(site) => occurrence.site.0 == site,
            None => occurrence.access.op.space == Space::Global,
        });
        match found {
            Some(found) => {
                let label = run.program.sites.get(found.site.0).map(|site| site.label.clone());
                Ok((label.unwrap_or_default(), found.access))
            }
            None => Err(self.wrong(format!(
                "point.{name}: warp {} of block {:?} does not execute the access",
                point.warp, point.block
            ))),
        }
    }

    /// What there is to see of a point.
    ///
    /// # Errors
    /// A point that is not there, or whose warp does not execute the access.
    pub fn show(&self, name: &str) -> Result<Shown, LabError> {
        let point = self.point(name)?;
        let built = self.built(name, point)?;
        let (label, access) = self.warp(name, point, &built)?;
        let (time, _) = self.records(&built);
        let mut figures = Vec::new();
        for metric in RECORDED {
            figures.extend(self.figure_of(&built, metric::in_words(metric), metric)?);
        }
        Ok(Shown {
            kernel: source_text(&built.run),
            launch: launch_text(&built.run),
            arch: point.arch.clone(),
            label,
            access,
            rules: built.rules.clone(),
            figures,
            device: time.and_then(|record| record.device.clone()),
        })
    }

    /// The records of a run: of its time, and of its counters. A record is of one
    /// device: none where the run is counted by the rules of another.
    pub(crate) fn records(&self, built: &Built) -> (Option<&RunRecord>, Option<&RunRecord>) {
        let time = self.campaign.time(&built.run);
        let counted = self.campaign.counted(&built.run);
        let same_arch = |record: &&RunRecord| record.arch.as_deref() == Some(built.arch.as_str());
        (time.filter(same_arch), counted.filter(same_arch))
    }

    /// A quantity of records as the model has it.
    fn predicted_quantity(
        &self,
        built: &Built,
        metric: &str,
    ) -> Result<Option<Quantity>, LabError> {
        let counted = metric::counted(metric, &built.run, self.counts(built)?);
        if counted.is_some() {
            return Ok(counted);
        }
        let model = self.predicted(built, self.records(built).0)?;
        Ok(metric::of_record(metric, Some(model), Some(model)))
    }

    /// A recorded quantity of a run beside what the model has; none where it is not
    /// recorded.
    pub(crate) fn figure_of(
        &self,
        built: &Built,
        name: &'static str,
        metric: &str,
    ) -> Result<Option<Figure>, LabError> {
        let (time, counted) = self.records(built);
        let Some(recorded) = metric::of_record(metric, time, counted) else { return Ok(None) };
        let predicted = self.predicted_quantity(built, metric)?;
        let mut known_error = None;
        if predicted.is_some() && metric::follows_from_time(metric) {
            let model = self.predicted(built, time)?;
            known_error = model.time.as_ref().and_then(|time| time.known_error);
        }
        Ok(Some(Figure { name, predicted, known_error, recorded }))
    }

    /// Something wrong in `lab.toml`.
    pub(crate) fn wrong(&self, message: impl Into<String>) -> LabError {
        LabError::content(self.lab.folder.join("lab.toml"), message)
    }
}

/// What is shown of the records of a point.
const RECORDED: [&str; 6] = [
    "seconds",
    "requested_bytes_per_s",
    "sectors",
    "global_ld.sectors/request",
    "dram_read_bytes",
    "dram_write_bytes",
];

/// An error of a run with the texts that it points into.
pub(crate) fn of_run(run: &Run, error: Diagnostic) -> LabError {
    LabError::Scenario(Diagnostics::new(Arc::clone(&run.sources), vec![error]))
}
