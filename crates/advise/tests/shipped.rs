//! Advice on the shipped scenarios: what is promised holds when it is made.

use coalescope_advise::{Kind, Options, Outcome, SiteAdvice, Verdict, advise};
use scenario::{Run, Scenario};
use simulator::{Field, RuleSet};
use std::path::Path;

fn run(name: &str, variant: Option<&str>, set: &[(&str, &str)]) -> Run {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../scenarios/{name}.toml"));
    let scenario = Scenario::load(path).expect("it is shipped");
    let set: Vec<_> = set.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let plans = scenario.runs(&set, scenario::Options::default()).expect("it has runs");
    let plan = plans
        .iter()
        .find(|plan| variant.is_none() || plan.variant() == variant)
        .expect("the variant exists");
    plan.build().expect("it builds")
}

fn advice_on(run: &Run) -> Vec<SiteAdvice> {
    let rules = RuleSet::for_arch("9.0").expect("9.0 is shipped");
    // Tests are not optimised: a smaller sample says the same.
    let options = Options { accesses: 1 << 12, ..Options::default() };
    advise(run, &rules, &run.assumed_bases(), None, &options).expect("it evaluates")
}

/// The sentences on the poor accesses of a run.
fn sentences(name: &str, variant: Option<&str>, set: &[(&str, &str)]) -> Vec<String> {
    let run = run(name, variant, set);
    advice_on(&run)
        .iter()
        .filter(|advice| advice.verdict == Verdict::Poor)
        .map(|advice| {
            let label = &run.program.sites[advice.site.0].label;
            format!("{label}: {}", advice.sentence())
        })
        .collect()
}

#[test]
fn sentences_of_advice() {
    // Scenario, variant, parameters set.
    type Case<'a> = (&'a str, Option<&'a str>, &'a [(&'a str, &'a str)]);
    let cases: &[Case<'_>] = &[
        ("strided", Some("read"), &[("stride", "2")]),
        ("strided", Some("write"), &[("stride", "32")]),
        ("vector-add", None, &[("offset", "1")]),
        ("struct-layout", Some("aos"), &[]),
        ("padded-struct", Some("packed"), &[]),
        ("padded-struct", Some("padded"), &[]),
        ("particle-update", Some("aos"), &[]),
        ("mixed-types", Some("struct"), &[]),
        ("rgb-channel", Some("bytes"), &[]),
        ("transpose", Some("naive"), &[]),
        ("transpose", Some("tiled"), &[]),
        ("shared-stride", None, &[("stride", "32")]),
        ("shared-stride", None, &[("stride", "2")]),
        ("pitched-image", Some("linear"), &[("width", "1001")]),
        ("stencil-5", None, &[("block_x", "32")]),
        ("random-gather", None, &[]),
    ];
    let mut text = String::new();
    for (name, variant, set) in cases {
        text.push_str(&format!("{name} {} {set:?}\n", variant.unwrap_or("")));
        for sentence in sentences(name, *variant, set) {
            text.push_str(&format!("  {sentence}\n"));
        }
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sentences.txt");
    if std::env::var_os("COALESCOPE_BLESS").is_some() {
        std::fs::write(&golden, &text).expect("the golden can be written");
    }
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    similar_asserts::assert_eq!(
        text,
        expected,
        "COALESCOPE_BLESS=1 writes what there is now; read the difference"
    );
}

/// The layouts that ship as variants cost what the counterfactual says.
#[test]
fn a_promised_layout_keeps_its_promise() {
    let aos = run("struct-layout", Some("aos"), &[]);
    let advice = advice_on(&aos);
    for (kind, variant) in [(Kind::Soa, "soa"), (Kind::AoSoA32, "aosoa")] {
        let promised = advice[0]
            .counterfactuals
            .iter()
            .find(|counterfactual| counterfactual.kind == kind)
            .and_then(|counterfactual| counterfactual.helps())
            .expect("it helps");
        let made = &advice_on(&run("struct-layout", Some(variant), &[]))[0];
        assert_eq!(made.extent, advice[0].extent);
        assert_eq!(promised.after.sectors, made.present.sectors, "{variant}");
        assert_eq!(promised.after.tags, made.present.tags, "{variant}");
        assert_eq!(promised.after.unique_bytes, made.present.unique_bytes, "{variant}");
    }
}

#[test]
fn padding_and_a_vector_load_cost_what_the_shipped_variant_does() {
    let packed = run("padded-struct", Some("packed"), &[]);
    let vector = run("padded-struct", Some("vector"), &[]);
    let advice = advice_on(&packed);
    let widened = advice[0]
        .counterfactuals
        .iter()
        .find(|counterfactual| counterfactual.kind == Kind::PaddedAndWidened)
        .expect("it is tried");
    let counted = match &widened.outcome {
        Outcome::Helps(counted) => counted,
        Outcome::Refused { reason, .. } => panic!("refused: {reason}"),
    };
    let made = &advice_on(&vector)[0];
    // Three accesses a block make a smaller sample than one: compare requests.
    let per_request = |totals: &simulator::Totals| totals.per_request(Field::Sectors);
    assert_eq!(per_request(&counted.after), per_request(&made.present));
    assert_eq!(counted.merged(), 3.0);
}

#[test]
fn a_padded_tile_costs_what_the_padded_variant_does() {
    let tiled = run("transpose", Some("tiled"), &[]);
    let padded = run("transpose", Some("padded"), &[]);
    let poor = |advice: Vec<SiteAdvice>| {
        advice.into_iter().find(|advice| {
            advice.space == simulator::Space::Shared && advice.verdict == Verdict::Poor
        })
    };
    let advice = poor(advice_on(&tiled)).expect("the column read conflicts");
    let (change, counted) = advice.change().expect("a pad helps");
    assert_eq!(change.kind, Kind::PaddedRows);
    assert_eq!(counted.after.bank_conflicts, Some(0));
    assert!(poor(advice_on(&padded)).is_none(), "the padded tile has no conflicts");
}

/// Whatever a launch does, advice comes in bounded time and is finite.
#[test]
fn every_shipped_run_gets_advice() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let rules = RuleSet::for_arch("9.0").expect("9.0 is shipped");
    let options = Options { accesses: 1 << 10, ..Options::default() };
    for file in std::fs::read_dir(folder).expect("scenarios ship").flatten() {
        let path = file.path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let scenario = Scenario::load(&path).expect("it loads");
        for plan in scenario.runs(&[], scenario::Options::default()).expect("it has runs") {
            let run = plan.build().expect("it builds");
            let found = advise(&run, &rules, &run.assumed_bases(), None, &options).unwrap_or_else(
                |error| panic!("{} {}: {}", run.scenario, plan.label(), error.message),
            );
            for advice in found {
                let sentence = advice.sentence();
                assert!(sentence.ends_with('.'), "{sentence}");
                // What helps never costs more.
                for counterfactual in &advice.counterfactuals {
                    let Some(counted) = counterfactual.helps() else { continue };
                    let cost =
                        |totals| coalescope_advise::counterfactual::cost(advice.space, totals);
                    assert!(cost(&counted.after) < cost(&counted.before), "{sentence}");
                    assert!(
                        cost(&counted.together_after) < cost(&counted.together_before),
                        "{sentence}"
                    );
                }
            }
        }
    }
}
