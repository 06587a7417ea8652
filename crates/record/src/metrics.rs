//! Our fields and the profiler's metrics that count the same, as data:
//! `metrics.toml`.
//!
//! Two kinds of counters answer the same question. *Hardware* counters are
//! those of the unit itself; in kernels of many warps some of them also count
//! arbitration between warps, which no address causes. *Instruction-level*
//! counters (`sm__sass_*`) are counted by patching the kernel's code, and are
//! exact. Compare whole kernels with the second, and explain what is left with
//! the first.
//!
//! The source-page metrics (`memory_l2_theoretical_sectors_global` and its
//! like) are not in the map: the profiler's metric list does not have them.
//!
//! ```
//! use coalescope_record::{Level, MetricMap, OpClass, Value};
//!
//! let map = MetricMap::shipped();
//! let metric = map.find("9.0", "sectors", Some(OpClass::GlobalLd), Level::Hardware).unwrap();
//! assert_eq!(metric.name, "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum");
//! // DRAM counts sectors, our field is in bytes.
//! let dram = map.find("9.0", "dram_read_bytes", None, Level::Hardware).unwrap();
//! assert_eq!(dram.field_value(&Value::Integer(100)), Some(Value::Integer(3200)));
//! ```

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use simulator::{Field, Space, Totals};

use crate::run::{Efficiency, KernelTotals, OpClass, Traffic, Value};

/// One metric of the profiler and the field that it counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Our field's name.
    pub field: String,
    /// The class of operations that it counts; `None`: the whole kernel.
    pub class: Option<OpClass>,
    /// The metric's name, as `ncu --metrics` takes it.
    pub name: String,
    /// Our field = metric × `scale` + `offset`.
    pub scale: f64,
    /// See `scale`.
    pub offset: i64,
    /// Unit of our field.
    pub unit: String,
    /// Whether it counts or averages.
    pub kind: Kind,
    /// Who counts.
    pub level: Level,
    /// Compute capabilities on whose metric list the name was looked up.
    pub chips: Vec<String>,
    /// What to know when comparing.
    pub text: String,
}

/// Whether a metric counts or averages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A whole number that sums over launches.
    Count,
    /// A ratio or a time.
    Rate,
}

/// Who counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The unit itself.
    Hardware,
    /// Patched code.
    Instruction,
}

impl Metric {
    /// The name without its roll-up (`.sum`, `.ratio`), as metric lists have
    /// it.
    pub fn base_name(&self) -> &str {
        self.name.split_once('.').map_or(&self.name, |(base, _)| base)
    }

    /// The value of our field where the profiler shows `metric`. `None` where
    /// that is no number, or a count that is not whole or comes out negative.
    pub fn field_value(&self, metric: &Value) -> Option<Value> {
        match self.kind {
            Kind::Count => {
                let counted = i128::try_from(metric.as_u128()?).ok()?;
                let value =
                    counted.checked_mul(self.scale as i128)?.checked_add(self.offset.into())?;
                (value >= 0).then_some(Value::Integer(value))
            }
            Kind::Rate => {
                let value = metric.as_f64()? * self.scale + self.offset as f64;
                value.is_finite().then_some(Value::Real(value))
            }
        }
    }
}

/// All metrics that have a field of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricMap {
    metrics: Vec<Metric>,
}

/// Why a metric map is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// Not TOML, or of another shape.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// The name has a place for the class, but no class is given, or the other
    /// way round.
    #[error("metric {name}: {{space}} and {{op}} in the name go with classes, one for each metric")]
    Classes {
        /// The name as written.
        name: String,
    },
    /// A count's scale must be whole, so that counts stay whole.
    #[error("metric {name}: scale {scale} of a count is no whole number")]
    Scale {
        /// The name as written.
        name: String,
        /// Its scale.
        scale: f64,
    },
}

impl MetricMap {
    /// The map that comes with the crate.
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<MetricMap> = LazyLock::new(|| {
            // An empty map is what is left if the file in this crate were
            // broken; a test reads it.
            MetricMap::parse(include_str!("../metrics.toml"))
                .unwrap_or(MetricMap { metrics: Vec::new() })
        });
        &SHIPPED
    }

    /// Reads a map of the form of `metrics.toml`.
    pub fn parse(text: &str) -> Result<Self, MetricError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            chips: Vec<String>,
            metric: Vec<Entry>,
        }
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Entry {
            field: String,
            #[serde(default)]
            classes: Vec<OpClass>,
            name: String,
            #[serde(default = "one")]
            scale: f64,
            #[serde(default)]
            offset: i64,
            unit: String,
            kind: Kind,
            level: Level,
            chips: Option<Vec<String>>,
            text: String,
        }
        fn one() -> f64 {
            1.0
        }

        let file: File = toml::from_str(text)?;
        let mut metrics = Vec::new();
        for entry in file.metric {
            if entry.kind == Kind::Count && entry.scale.fract() != 0.0 {
                return Err(MetricError::Scale { name: entry.name, scale: entry.scale });
            }
            let metric = |class: Option<OpClass>, name: String| Metric {
                field: entry.field.clone(),
                class,
                name,
                scale: entry.scale,
                offset: entry.offset,
                unit: entry.unit.clone(),
                kind: entry.kind,
                level: entry.level,
                chips: entry.chips.clone().unwrap_or_else(|| file.chips.clone()),
                text: entry.text.clone(),
            };
            let has_place = entry.name.contains(['{', '}']);
            if has_place == entry.classes.is_empty() && (has_place || entry.classes.len() > 1) {
                return Err(MetricError::Classes { name: entry.name });
            }
            if entry.classes.is_empty() {
                metrics.push(metric(None, entry.name.clone()));
            }
            for &class in &entry.classes {
                let Some((space, op)) = class.name().split_once('_') else { continue };
                let name = entry.name.replace("{space}", space).replace("{op}", op);
                metrics.push(metric(Some(class), name));
            }
        }
        Ok(Self { metrics })
    }

    /// All metrics, in the file's order.
    pub fn iter(&self) -> impl Iterator<Item = &Metric> {
        self.metrics.iter()
    }

    /// The metrics known on a compute capability.
    pub fn on<'a>(&'a self, chip: &'a str) -> impl Iterator<Item = &'a Metric> {
        self.iter().filter(move |metric| metric.chips.iter().any(|known| known == chip))
    }

    /// The metric of a field.
    pub fn find(
        &self,
        chip: &str,
        field: &str,
        class: Option<OpClass>,
        level: Level,
    ) -> Option<&Metric> {
        self.metrics.iter().find(|metric| {
            metric.field == field
                && metric.class == class
                && metric.level == level
                && metric.chips.iter().any(|known| known == chip)
        })
    }

    /// The entry of a metric by its name.
    pub fn by_name(&self, name: &str) -> Option<&Metric> {
        self.iter().find(|metric| metric.name == name)
    }
}

/// What a profiler's values say, in our fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counted {
    /// Counts of the kernel and of each class of operations.
    pub totals: KernelTotals,
    /// What moved between the levels of memory.
    pub traffic: Traffic,
    /// The profiler's own time of the kernel, in seconds.
    pub seconds: Option<f64>,
}

impl MetricMap {
    /// The fields that `counters` (by metric name) stand for, as `level` counts
    /// them, for a kernel that executes operations of `classes`.
    ///
    /// A field of the kernel is the value of the kernel's own metric, or the
    /// sum over those of `classes` that have the field; it is absent if one of
    /// these was not counted. What
    /// only one level has (time, traffic, instructions) is taken from there.
    pub fn read(
        &self,
        chip: &str,
        counters: &BTreeMap<String, Value>,
        level: Level,
        classes: &[OpClass],
    ) -> Counted {
        let value = |field: &str, class: Option<OpClass>, level: Level| {
            let metric = self.find(chip, field, class, level)?;
            metric.field_value(counters.get(&metric.name)?)
        };
        let count = |field: &str, class, level| value(field, class, level)?.as_u128();
        // Over the classes that have such a field, each of which must be counted.
        let sum = |field: &str, level: Level, having: &dyn Fn(OpClass) -> bool| -> Option<u128> {
            let mut having = classes.iter().filter(|&&class| having(class)).peekable();
            having.peek()?;
            having.try_fold(0u128, |sum, &class| sum.checked_add(count(field, Some(class), level)?))
        };
        let either = |field: &str, class| {
            count(field, class, Level::Hardware).or_else(|| count(field, class, Level::Instruction))
        };

        let mut totals = KernelTotals::default();
        for &class in classes {
            let mut of_class = Totals {
                instructions: either("instructions", Some(class)).unwrap_or_default(),
                ..Totals::default()
            };
            for field in Field::ALL {
                of_class.set(field, count(field.name(), Some(class), level));
            }
            totals.counts.instructions += of_class.instructions;
            if of_class != Totals::default() {
                totals.by_class.insert(class, of_class);
            }
        }
        for field in Field::ALL {
            let name = field.name();
            let sum = || sum(name, level, &|class| field.applies_to(class.space()));
            let kernel = count(name, None, level).or_else(sum);
            totals.counts.set(field, kernel);
        }
        totals.efficiency = Efficiency::of(&totals.counts);

        let cached = |class: OpClass| class.space() != Space::Shared;
        let atomic = |class| matches!(class, OpClass::GlobalRed | OpClass::GlobalAtom);
        let whole = |field| count(field, None, Level::Hardware);
        Counted {
            totals,
            traffic: Traffic {
                l1_hit_sectors: sum("l1_hit_sectors", Level::Hardware, &cached),
                l2_read_sectors: whole("l2_read_sectors"),
                l2_write_sectors: whole("l2_write_sectors"),
                l2_atomic_sectors: sum("l2_atomic_sectors", Level::Hardware, &atomic),
                dram_read_bytes: whole("dram_read_bytes"),
                dram_write_bytes: whole("dram_write_bytes"),
                sampled: None,
            },
            seconds: value("seconds", None, Level::Hardware).and_then(|value| value.as_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::io::Read;

    use simulator::Field;

    fn entry(name: &str, rest: &str) -> Result<MetricMap, MetricError> {
        MetricMap::parse(&format!(
            "chips = []\n[[metric]]\nfield = \"x\"\nname = \"{name}\"\nunit = \"\"\nkind = \"count\"\nlevel = \"hardware\"\ntext = \"\"\n{rest}"
        ))
    }

    #[test]
    fn the_shipped_map_reads() {
        MetricMap::parse(include_str!("../metrics.toml")).unwrap();
        assert!(MetricMap::shipped().iter().count() > 80);
    }

    /// Names as `ncu --query-metrics` listed them on a GH100 (an H200).
    #[test]
    fn every_name_is_on_the_chips_list() {
        let list = include_bytes!("../../../tests/hardware/h200/ncu-metrics-gh100.tsv.gz");
        let mut text = String::new();
        flate2::read::GzDecoder::new(&list[..]).read_to_string(&mut text).unwrap();
        let known: BTreeSet<&str> =
            text.lines().filter_map(|line| line.split('\t').next()).collect();
        assert!(known.len() > 3000);
        for metric in MetricMap::shipped().on("9.0") {
            assert!(known.contains(metric.base_name()), "{}", metric.name);
        }
    }

    #[test]
    fn no_name_is_twice_and_no_field_has_two_metrics() {
        let mut names = BTreeSet::new();
        let mut places = BTreeSet::new();
        for metric in MetricMap::shipped().iter() {
            assert!(names.insert(&metric.name), "{}", metric.name);
            let level = metric.level == Level::Hardware;
            assert!(places.insert((&metric.field, metric.class, level)), "{}", metric.name);
        }
    }

    #[test]
    fn fields_are_ours_or_the_profilers_own() {
        let others = [
            "instructions",
            "predicated_off_instructions",
            "tag_conflicts",
            "sectors_per_request",
            "bytes_per_sector",
            "l1_hit_sectors",
            "l2_read_sectors",
            "l2_write_sectors",
            "l2_atomic_sectors",
            "dram_read_bytes",
            "dram_write_bytes",
            "seconds",
        ];
        for metric in MetricMap::shipped().iter() {
            let known = Field::from_name(&metric.field).is_some();
            assert!(known || others.contains(&metric.field.as_str()), "{}", metric.field);
        }
    }

    #[test]
    fn values_are_scaled_and_counts_stay_whole() {
        let map = MetricMap::shipped();
        let wavefronts = map.by_name("l1tex__data_pipe_lsu_wavefronts.sum").unwrap();
        assert_eq!(wavefronts.field_value(&Value::Integer(9)), Some(Value::Integer(8)));
        assert_eq!(wavefronts.field_value(&Value::Integer(0)), None);
        assert_eq!(wavefronts.field_value(&Value::Text("n/a".into())), None);
        assert_eq!(wavefronts.field_value(&Value::Real(1.5)), None);
        let time = map.by_name("gpu__time_duration.sum").unwrap();
        assert_eq!(time.field_value(&Value::Integer(1500)), Some(Value::Real(1500.0 * 1e-9)));
        assert_eq!(time.field_value(&Value::Real(f64::NAN)), None);
        assert_eq!(time.base_name(), "gpu__time_duration");
    }

    #[test]
    fn a_profilers_values_become_fields() {
        use OpClass::{GlobalAtom, GlobalLd, SharedLd};

        let counters: BTreeMap<String, Value> = [
            ("smsp__inst_executed_op_global_ld.sum", 64u64),
            ("smsp__inst_executed_op_shared_ld.sum", 32),
            ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", 60),
            ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", 241),
            ("sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum", 240),
            ("l1tex__data_pipe_lsu_wavefronts.sum", 129),
            ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", 65),
            ("dram__sectors_read.sum", 10),
            ("gpu__time_duration.sum", 2048),
        ]
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .into();
        let map = MetricMap::shipped();
        let counted = map.read("9.0", &counters, Level::Hardware, &[GlobalLd, SharedLd]);
        let counts = &counted.totals.counts;
        assert_eq!(counts.instructions, 96);
        // Shared loads have no sectors, and requests that nobody counts.
        assert_eq!((counts.requests, counts.sectors), (None, Some(241)));
        assert_eq!(counted.totals.by_class[&GlobalLd].requests, Some(60));
        assert_eq!(counts.data_wavefronts, Some(128));
        assert_eq!(counts.tags, None);
        assert_eq!(counted.totals.by_class[&SharedLd].data_wavefronts, Some(65));
        assert_eq!(counted.traffic.dram_read_bytes, Some(320));
        assert_eq!(counted.traffic.l2_atomic_sectors, None);
        assert_eq!(counted.seconds, Some(2048.0 * 1e-9));

        let exact = map.read("9.0", &counters, Level::Instruction, &[GlobalLd, SharedLd]);
        assert_eq!(exact.totals.counts.sectors, Some(240));
        assert_eq!(exact.totals.counts.data_wavefronts, None);
        // With one class not counted, the kernel's sum is not known.
        let partly = map.read("9.0", &counters, Level::Hardware, &[GlobalLd, GlobalAtom]);
        assert_eq!(partly.totals.counts.sectors, None);
        assert_eq!(partly.totals.by_class[&GlobalLd].sectors, Some(241));
        assert!(!partly.totals.by_class.contains_key(&GlobalAtom));
        // Nobody has looked up the names on this chip.
        let unknown = map.read("7.5", &counters, Level::Hardware, &[GlobalLd]);
        assert_eq!(unknown, Counted::default());
    }

    #[test]
    fn broken_entries_are_refused() {
        assert!(matches!(entry("a.sum", "scale = 0.5"), Err(MetricError::Scale { .. })));
        assert!(matches!(entry("a_{op}.sum", ""), Err(MetricError::Classes { .. })));
        assert!(matches!(
            entry("a.sum", "classes = [\"global_ld\", \"global_st\"]"),
            Err(MetricError::Classes { .. })
        ));
        assert!(entry("a.sum", "classes = [\"global_ld\"]").is_ok());
        assert!(matches!(entry("a.sum", "colour = 1"), Err(MetricError::Toml(_))));
    }
}
