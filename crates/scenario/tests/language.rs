//! The language reference, docs/scenario-language.md: every example in it is a
//! scenario that works, and has as many runs as the text says.

use coalescope_scenario::count::{self, Method, count};
use coalescope_scenario::{Embedded, Options, Scenario};
use simulator::RuleSet;

const REFERENCE: &str = include_str!("../../../docs/scenario-language.md");

/// The files that the examples name.
const FILES: Embedded<'static> = Embedded(&[
    (
        "kernels/copy.cu",
        b"#include <cstdio>\n\
          __global__ void copy(float *out, const float *in) {\n\
              int i = blockIdx.x * blockDim.x + threadIdx.x;\n\
              out[i] = in[i];\n\
          }\n\
          int main() { printf(\"host code\\n\"); copy<<<16, 256>>>(nullptr, nullptr); }\n",
    ),
    (
        "scenarios/data/columns.csv",
        b"0, 31, 62, 93, 124, 155, 186, 217\n248 279 310 341 372 403 434 465\n\
          496 527 558 589 620 651 682 713\n744 775 806 837 868 899 930 961\n",
    ),
]);

/// An example and what is said about it.
struct Example {
    /// The heading that it stands under, and its line.
    place: String,
    runs: usize,
    toml: String,
}

fn examples() -> Vec<Example> {
    let mut examples = Vec::new();
    let mut heading = "";
    let mut runs = None;
    let mut lines = REFERENCE.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim();
        } else if let Some(said) = line.strip_prefix("<!-- runs: ") {
            runs = said.strip_suffix(" -->").and_then(|said| said.parse().ok());
        } else if line == "```toml" {
            let body: Vec<&str> =
                lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            let place = format!("{heading} (line {})", number + 2);
            let runs = runs.take().unwrap_or_else(|| panic!("{place}: how many runs?"));
            examples.push(Example { place, runs, toml: body.join("\n") + "\n" });
        }
    }
    examples
}

fn load(example: &Example) -> Scenario {
    Scenario::from_text("scenarios/example.toml", &example.toml, &FILES)
        .unwrap_or_else(|errors| panic!("{}\n{errors}", example.place))
}

#[test]
fn every_example_of_the_reference_works() {
    let examples = examples();
    assert!(examples.len() >= 20, "only {} examples found", examples.len());
    for example in &examples {
        let plans = load(example)
            .runs(&[], Options::default())
            .unwrap_or_else(|errors| panic!("{}\n{errors}", example.place));
        assert_eq!(plans.len(), example.runs, "{}", example.place);
        for plan in plans {
            let run = plan.build().unwrap_or_else(|errors| panic!("{}\n{errors}", example.place));
            let rules = RuleSet::for_arch("9.0").unwrap_or_else(|| panic!("no rules for 9.0"));
            let counts = count(&run, &rules, &run.assumed_bases(), &count::Options::default())
                .unwrap_or_else(|error| panic!("{}\n{}", example.place, run.fail(error)));
            assert!(!counts.sites.is_empty(), "{}: no access", example.place);
            for (site, counts) in run.program.sites.iter().zip(&counts.sites) {
                let place = &example.place;
                assert_ne!(counts.method, Method::NotExecuted, "{place}: {}", site.text);
            }
        }
    }
}

/// Files come from Windows too.
#[test]
fn line_ends_and_byte_order_marks_change_nothing() {
    for mut example in examples() {
        let expected: Vec<String> = summaries(&example);
        example.toml = format!("\u{feff}{}", example.toml.replace('\n', "\r\n"));
        assert_eq!(summaries(&example), expected, "{}", example.place);
    }
}

/// What the runs are, but for places in the text.
fn summaries(example: &Example) -> Vec<String> {
    let plans = load(example).runs(&[], Options::default()).unwrap_or_default();
    plans
        .iter()
        .map(|plan| {
            let run = plan.build().unwrap_or_else(|e| panic!("{}\n{e}", example.place));
            let sites: Vec<_> = run
                .program
                .sites
                .iter()
                .map(|site| (&site.label, run.sources.line(site.span)))
                .collect();
            let buffers: Vec<_> = run.buffers.iter().map(|b| (&b.name, b.bytes)).collect();
            format!("{} {:?} {:?} {buffers:?} {sites:?}", plan.label(), run.params, run.launch)
        })
        .collect()
}
