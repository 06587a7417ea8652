//! From what was typed to scenarios and runs.

use crate::args::Selection;
use crate::shipped;
use model::Profile;
use scenario::diagnostic::Style;
use scenario::{Diagnostics, Options, RunPlan, Scenario};
use simulator::RuleSet;
use std::path::{Path, PathBuf};

/// Prints errors as they come and remembers that there were some: one bad
/// scenario does not keep the others from running.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    count: usize,
}

impl Complaints {
    /// Prints the errors of a scenario.
    pub(crate) fn diagnostics(&mut self, errors: &Diagnostics) {
        self.count += errors.errors.len();
        anstream::eprintln!("{}", errors.render(Style::Coloured));
    }

    /// Prints an error that has no place in a file.
    pub(crate) fn message(&mut self, message: &str, help: &str) {
        self.count += 1;
        let (red, cyan) = (
            anstyle::AnsiColor::Red.on_default().bold(),
            anstyle::AnsiColor::Cyan.on_default().bold(),
        );
        anstream::eprintln!("{red}error{red:#}: {message}\n  {cyan}= help{cyan:#}: {help}\n");
    }

    /// Whether there were any.
    pub(crate) fn any(&self) -> bool {
        self.count > 0
    }
}

/// The scenarios that `names` stand for: files, folders of files, or names of
/// shipped scenarios.
pub(crate) fn scenarios(names: &[String], complaints: &mut Complaints) -> Vec<Scenario> {
    let mut found = Vec::new();
    for name in names {
        let path = Path::new(name);
        if path.is_dir() {
            match files_of(path) {
                Ok(files) if files.is_empty() => complaints.message(
                    &format!("the folder {name} holds no scenario files"),
                    "scenario files end in .toml",
                ),
                Ok(files) => {
                    for file in files {
                        push(Scenario::load(&file), &mut found, complaints);
                    }
                }
                Err(error) => complaints.message(
                    &format!("cannot list the folder {name}: {error}"),
                    "check its permissions",
                ),
            }
        } else if let Some(text) = shipped::scenario(name).filter(|_| !path.exists()) {
            let path = format!("scenarios/{name}.toml");
            push(Scenario::from_text(path, text, &shipped::Shipped), &mut found, complaints);
        } else if !path.exists() && path.extension().is_none() {
            let known = shipped::names();
            let near = scenario::diagnostic::nearest(name, known.iter().copied());
            let variant = name.split_once(':').filter(|(name, _)| known.contains(name));
            let help = match (variant, near) {
                (Some((name, variant)), _) => {
                    format!("a variant is chosen so: `{name} --variant {variant}`")
                }
                (None, Some(near)) => {
                    format!("did you mean `{near}`? `coalescope list` shows them all")
                }
                (None, None) => {
                    "name a .toml file or one of those that `coalescope list` shows".to_owned()
                }
            };
            complaints
                .message(&format!("no file and no shipped scenario is called `{name}`"), &help);
        } else {
            push(Scenario::load(path), &mut found, complaints);
        }
    }
    found
}

fn push(
    read: Result<Scenario, Diagnostics>,
    found: &mut Vec<Scenario>,
    complaints: &mut Complaints,
) {
    match read {
        Ok(scenario) => found.push(scenario),
        Err(errors) => complaints.diagnostics(&errors),
    }
}

/// The scenario files directly in a folder, in alphabetical order.
fn files_of(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    Ok(files)
}

/// The runs of a scenario that the selection asks for.
pub(crate) fn runs(
    scenario: &Scenario,
    selection: &Selection,
    options: Options,
    complaints: &mut Complaints,
) -> Vec<RunPlan> {
    for (index, (key, value)) in selection.overrides.iter().enumerate() {
        if selection.overrides[..index]
            .iter()
            .any(|(earlier, other)| earlier == key && other != value)
        {
            complaints.message(
                &format!("`{key}` is set twice, the second time to {value}"),
                "give it once; several values make a [sweep] of the scenario",
            );
            return Vec::new();
        }
    }
    let mut plans = match scenario.runs(&selection.overrides, options) {
        Ok(plans) => plans,
        Err(errors) => {
            complaints.diagnostics(&errors);
            return Vec::new();
        }
    };
    for wanted in &selection.variants {
        let known: Vec<&str> = scenario.variants().flatten().collect();
        if !known.contains(&wanted.as_str()) {
            let help = if known.is_empty() {
                "this scenario has no variants; leave --variant out".to_owned()
            } else {
                format!("it has {}", known.join(", "))
            };
            complaints.message(&format!("{} has no variant `{wanted}`", scenario.name()), &help);
        }
    }
    if !selection.variants.is_empty() {
        plans.retain(|plan| {
            plan.variant().is_some_and(|variant| selection.variants.iter().any(|v| v == variant))
        });
    }
    plans
}

/// The rule sets of `--arch`, each with the compute capability it was asked
/// for by: those shipped by theirs, one in a file by the first that the file names.
pub(crate) fn rule_sets(archs: &[String], complaints: &mut Complaints) -> Vec<(String, RuleSet)> {
    let mut found = Vec::new();
    for arch in archs {
        let arch = arch.trim();
        if Path::new(arch).is_file() {
            let read = std::fs::read_to_string(arch).map_err(|error| error.to_string());
            let rules =
                read.and_then(|text| RuleSet::from_toml(&text).map_err(|error| error.to_string()));
            match rules {
                Ok(rules) => {
                    let name = rules.archs().first().cloned();
                    found.push((name.unwrap_or_else(|| arch.to_owned()), rules));
                }
                Err(reason) => complaints.message(
                    &format!("can't use the rule set {arch}: {reason}"),
                    "docs/rule-sets.md describes the file",
                ),
            }
            continue;
        }
        match RuleSet::for_arch(arch) {
            Some(rules) => found.push((arch.to_owned(), rules)),
            None => {
                complaints.message(
                    &format!("there is no rule set for compute capability `{arch}`"),
                    &format!(
                        "there are {}; or name a rule set's file",
                        RuleSet::known_archs().join(", ")
                    ),
                );
            }
        }
    }
    found
}

/// The device profile that `name` stands for: a file, or a shipped profile.
pub(crate) fn profile(name: &str, complaints: &mut Complaints) -> Option<Profile> {
    let path = Path::new(name);
    if !path.exists() {
        if let Some(profile) = Profile::shipped(name) {
            return Some(profile);
        }
        let known: Vec<&str> = Profile::shipped_names().collect();
        let help = match known.as_slice() {
            [] => "name a profile's file".to_owned(),
            known => format!("name a file, or one of {}", known.join(", ")),
        };
        complaints.message(&format!("no file and no device profile is called `{name}`"), &help);
        return None;
    }
    let read = std::fs::read_to_string(path).map_err(|error| error.to_string());
    match read.and_then(|text| Profile::from_toml(&text).map_err(|error| error.to_string())) {
        Ok(profile) => Some(profile),
        Err(error) => {
            let help = "a profile is what `coalescope calibrate` writes";
            complaints.message(&format!("can't use the profile {name}: {error}"), help);
            None
        }
    }
}
