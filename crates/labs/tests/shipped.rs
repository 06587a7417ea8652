//! Every shipped lab, gone through: right answers, each misconception, the
//! solution of the exercise and its untouched start.

use coalescope_labs::grade::{Grader, Submitted, write_csv};
use coalescope_labs::{Answer, Campaign, Kind, Lab, Unit, Workbench, folders, session, show};
use scenario::{Disk, Embedded, Scenario};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::LazyLock;

const LABS: &str = "../../scenarios/labs";
const RECORDS: &str = "../../tests/hardware/h200/2026-11-30";

static CAMPAIGN: LazyLock<Campaign> = LazyLock::new(|| {
    let file = |name: &str| File::open(Path::new(RECORDS).join(name)).expect("it is recorded");
    Campaign::read(file("time.jsonl.gz"), file("counters.jsonl.gz")).expect("records")
});

fn labs() -> Vec<Lab> {
    folders(Path::new(LABS))
        .expect("a folder of labs")
        .iter()
        .map(|folder| Lab::load(folder, &Disk).unwrap_or_else(|error| panic!("{error}")))
        .collect()
}

fn lab(number: u32) -> Lab {
    labs().into_iter().find(|lab| lab.number == number).expect("there is such a lab")
}

fn bench(lab: &Lab, seed: Option<u64>) -> Workbench<'_> {
    Workbench::new(lab, &Disk, &CAMPAIGN, seed)
}

#[test]
fn there_are_twelve_and_they_meet_every_claim() {
    let labs = labs();
    let numbers: Vec<u32> = labs.iter().map(|lab| lab.number).collect();
    assert_eq!(numbers, (1..=12).collect::<Vec<u32>>());
    let claims: BTreeSet<u32> =
        labs.iter().flat_map(|lab| lab.document.claims.iter().copied()).collect();
    assert_eq!(claims, (1..=17).collect());
    for lab in &labs {
        let document = &lab.document;
        assert!((15..=30).contains(&document.minutes), "{}", lab.name);
        assert!((3..=6).contains(&document.question.len()), "{}", lab.name);
        assert!(document.exercise.is_some(), "{}", lab.name);
    }
}

#[test]
fn right_answers_get_full_marks_with_any_seed() {
    for lab in labs() {
        for seed in [None, Some(1), Some(2), Some(77)] {
            let bench = bench(&lab, seed);
            for question in &lab.document.question {
                let posed = bench.pose(question).unwrap_or_else(|error| panic!("{error}"));
                let typed = posed.right_answer();
                let answer = posed.read(&typed).unwrap_or_else(|error| panic!("{error}"));
                let marked = posed.mark(&answer);
                assert_eq!(marked.points, 1.0, "{} {} {seed:?} {typed}", lab.name, question.id);
            }
        }
    }
}

#[test]
fn every_misconception_is_recognised() {
    let mut recognised = 0;
    let mut failures = Vec::new();
    for lab in labs() {
        let bench = bench(&lab, None);
        for question in &lab.document.question {
            let posed = bench.pose(question).unwrap_or_else(|error| panic!("{error}"));
            let mut of_it = 0;
            for (typed, says) in posed.wrong_answers() {
                let answer = posed.read(&typed).unwrap_or_else(|error| panic!("{error}"));
                let marked = posed.mark(&answer);
                let place = format!("{} {}: {typed}, {}", lab.name, question.id, posed.right_words);
                if marked.points != 0.0 || marked.misconception.as_deref() != Some(says) {
                    failures.push(format!("{place}: {marked:?} instead of {says}"));
                }
                of_it += 1;
            }
            let declared = match question.kind {
                Kind::Number => question.wrong.len(),
                // The right one has none.
                Kind::Choice => question.choice.iter().filter(|c| !c.says.is_empty()).count(),
                Kind::FasterWhich => {
                    let says = question.racer.iter().filter(|racer| !racer.says.is_empty());
                    says.count() + usize::from(question.same_says.is_some())
                }
            };
            assert_eq!(of_it, declared, "{} {}", lab.name, question.id);
            recognised += of_it;
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
    assert!(recognised > 100, "{recognised}");
}

#[test]
fn solutions_pass_and_untouched_starts_do_not() {
    for lab in labs() {
        let exercise = lab.document.exercise.as_ref().expect("an exercise");
        let read = |file: &str| {
            Scenario::from_text(lab.path(file), &lab.scenarios[file], &Disk)
                .unwrap_or_else(|errors| panic!("{errors}"))
        };
        for seed in [None, Some(1), Some(2)] {
            let bench = bench(&lab, seed);
            let solved = bench.judge(&read(&exercise.solution)).unwrap_or_else(|e| panic!("{e}"));
            assert!(solved.passed(), "{} {seed:?}: {:#?}", lab.name, solved.reasons);
            assert_eq!(solved.of, 6 * exercise.goal.len());
            let start = bench.judge(&read(&exercise.start)).unwrap_or_else(|e| panic!("{e}"));
            assert!(!start.passed(), "{} {seed:?}: {:#?}", lab.name, start.reasons);
        }
    }
}

#[test]
fn texts_have_figures_and_no_marks_left() {
    for lab in labs() {
        let bench = bench(&lab, Some(5));
        let text = show::markdown(&bench).unwrap_or_else(|error| panic!("{error}"));
        assert!(!text.contains("{{") && !text.contains("}}"), "{}", lab.name);
        for question in &lab.document.question {
            let posed = bench.pose(question).unwrap_or_else(|error| panic!("{error}"));
            assert!(!posed.explain.contains("{{"), "{} {}", lab.name, question.id);
        }
        let answers = show::answers(&bench).unwrap_or_else(|error| panic!("{error}"));
        let table: toml::Table = toml::from_str(&answers).expect("a template is TOML");
        let keys = table["answers"].as_table().expect("a table");
        assert_eq!(keys.len(), lab.document.question.len());
    }
}

#[test]
fn a_transpose_that_does_not_transpose_fails() {
    let lab = lab(7);
    let fake = lab.scenarios["start.toml"].replace("out[x * height + y] =", "out[y * width + x] =");
    let scenario = Scenario::from_text("fake.toml", &fake, &Embedded(&[])).expect("a scenario");
    let judged = bench(&lab, None).judge(&scenario).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(judged.met, 0);
    assert!(judged.reasons[0].contains("without having read"), "{:#?}", judged.reasons);
}

#[test]
fn an_array_that_must_stay_cannot_be_moved_to_where_it_is_cheap() {
    let lab = lab(3);
    for there in ["offset_bytes = 0", "offset_bytes = \"4 * shift + 28 * shift\""] {
        let moved = lab.scenarios["start.toml"].replace("offset_bytes = \"4 * shift\"", there);
        assert!(moved.contains(there));
        let scenario = Scenario::from_text("moved.toml", &moved, &Embedded(&[])).expect("one");
        let judged = bench(&lab, None).judge(&scenario).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(judged.met, 0, "{there}");
        assert!(judged.reasons[0].contains("must stay at 4 B"), "{:#?}", judged.reasons);
    }
}

#[test]
fn wrong_elements_at_some_size_are_worth_half_at_most() {
    let lab = lab(3);
    // Without the blocks for the shift the last element is lost at some sizes.
    let short = lab.scenarios["solution.toml"].replace("n + shift + 255", "n + 255");
    assert_ne!(short, lab.scenarios["solution.toml"]);
    let scenario = Scenario::from_text("short.toml", &short, &Embedded(&[])).expect("one");
    let judged = bench(&lab, None).judge(&scenario).unwrap_or_else(|error| panic!("{error}"));
    assert!(judged.met <= judged.of / 2, "{:#?}", judged.reasons);
    assert!(judged.reasons.iter().any(|reason| reason.contains("no longer reads")));
}

#[test]
fn numbers_are_read_as_people_write_them() {
    let lab = lab(3);
    let bench = bench(&lab, None);
    let copy = lab.document.question.iter().find(|q| q.id == "copy").expect("a question");
    let posed = bench.pose(copy).unwrap_or_else(|error| panic!("{error}"));
    let read = |text: &str| match posed.read(text) {
        Ok(Answer::Number(number)) => Some(number),
        Ok(Answer::Option(..)) | Err(_) => None,
    };
    for (text, number) in [
        ("2.8", 2.8),
        ("2,8 %", 2.8),
        ("1,024", 1024.0),
        ("1,024.5", 1024.5),
        ("1,234,567", 1234567.0),
    ] {
        assert_eq!(read(text), Some(number), "{text}");
    }
    for text in ["2,8,1", "1,02.5", "", "x"] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn what_is_recorded_is_predicted_beside_it() {
    let (mut times, mut bytes) = (0, 0);
    let (mut races, mut numbers, mut doubtful) = (0, 0, 0);
    for lab in labs() {
        let bench = bench(&lab, None);
        for question in &lab.document.question {
            // The figures of the picture.
            let shown = question.show.iter().map(|point| bench.show(point));
            for shown in shown {
                let shown = shown.unwrap_or_else(|error| panic!("{error}"));
                for figure in shown.figures {
                    let about = format!("{} {}: {figure:?}", lab.name, question.id);
                    let Some(predicted) = figure.predicted else {
                        // The model has no time of what lies in the host's memory.
                        assert!(shown.kernel.contains("pinned"), "{about}");
                        continue;
                    };
                    assert_eq!(predicted.unit, figure.recorded.unit, "{about}");
                    match predicted.unit {
                        Unit::Seconds => {
                            times += 1;
                            let off = (predicted.value / figure.recorded.value - 1.0).abs();
                            assert!(off < 0.5 && figure.known_error.is_some(), "{about}");
                        }
                        Unit::Bytes => bytes += 1,
                        _ => {}
                    }
                }
            }
            let about = format!("{} {}", lab.name, question.id);
            let compared = bench.compare(question).unwrap_or_else(|error| panic!("{error}"));
            if question.kind == Kind::FasterWhich {
                let compared = compared.as_ref().unwrap_or_else(|| panic!("{about}"));
                let runs: Vec<&str> = compared.rows.iter().map(|row| row.run.as_str()).collect();
                let racers: Vec<&str> = question.racer.iter().map(|r| r.name.as_str()).collect();
                assert_eq!(runs, racers, "{about}");
                races += 1;
            }
            // What the question's expressions say, with the values they name.
            let mut says: String = question.expect.iter().cloned().collect();
            says.extend(question.choice.iter().map(|choice| choice.holds.as_str()));
            for _ in 0..3 {
                let values = lab.document.value.iter().filter(|(name, _)| says.contains(*name));
                let more: String = values.map(|(_, text)| text.as_str()).collect();
                says.push_str(&more);
            }
            if says.contains("record.") {
                assert!(compared.is_some(), "{about}");
            }
            let Some(compared) = compared else { continue };
            numbers += usize::from(question.kind == Kind::Number);
            for row in &compared.rows {
                let about = format!("{about}: {row:?}");
                let Some(predicted) = row.figure.predicted else {
                    let nothing = row.metric == "copy_bytes_per_s" || row.run == "pinned";
                    assert!(nothing, "{about}");
                    continue;
                };
                assert_eq!(predicted.unit, row.figure.recorded.unit, "{about}");
                let is_time = matches!(predicted.unit, Unit::Seconds | Unit::BytesPerSecond);
                assert_eq!(row.figure.known_error.is_some(), is_time, "{about}");
            }
            let pinned = compared.rows.iter().any(|row| row.run == "pinned");
            assert_eq!(compared.by_model.is_none(), pinned || question.kind == Kind::Choice);
            doubtful += usize::from(!compared.caveats.is_empty());
        }
    }
    assert!(times > 20 && bytes > 40, "{times} {bytes}");
    assert!(races >= 15 && numbers >= 5 && doubtful >= 3, "{races} {numbers} {doubtful}");
}

#[test]
fn a_number_made_of_records_is_compared_whatever_values_lie_between() {
    let lab = lab(3);
    let bench = bench(&lab, None);
    let copy = lab.document.question.iter().find(|q| q.id == "copy").expect("a question");
    let compared = bench.compare(copy).unwrap_or_else(|error| panic!("{error}")).expect("times");
    let points: Vec<&str> = compared.rows.iter().map(|row| row.point.as_str()).collect();
    assert_eq!((points.len(), points.contains(&"a"), points.contains(&"m")), (2, true, true));
    let value = |point: &str| {
        let row = compared.rows.iter().find(|row| row.point == point).expect("a row");
        row.figure.predicted.expect("predicted").value
    };
    let growth = value("m") / value("a") - 1.0;
    let words = record::units::percent(growth);
    assert_eq!(compared.by_model.as_deref(), Some(words.as_str()));
}

#[test]
fn a_conversation_teaches() {
    let lab = lab(2);
    let bench = bench(&lab, None);
    let mut right = String::new();
    for question in &lab.document.question {
        let posed = bench.pose(question).unwrap_or_else(|error| panic!("{error}"));
        right.push_str(&format!("{}\n", posed.right_answer()));
    }
    let talk = |typed: &str| {
        let mut out = Vec::new();
        let summary = session::run(&bench, &mut typed.as_bytes(), &mut out)
            .unwrap_or_else(|error| panic!("{error}"));
        (summary, anstream::adapter::strip_bytes(&out).into_vec())
    };
    let (summary, out) = talk(&right);
    let text = String::from_utf8(out).expect("UTF-8");
    assert_eq!((summary.points, summary.answered), (summary.questions as f64, summary.questions));
    for part in [
        "lane ",
        "sector ",
        "Right: 8 sectors per request",
        "Recorded on an NVIDIA H200, and predicted:",
        "known error",
        "Exercise",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    // A wrong answer, one that is none, a passed question, and the end.
    let (summary, out) = talk("2\nmany\n\n");
    let text = String::from_utf8(out).expect("UTF-8");
    assert_eq!((summary.points, summary.answered), (0.0, 1));
    for part in [
        "Not so: the answer is 8",
        "128-byte lines",
        "`many` is no number",
        "Passed.",
        "the input ended here",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn bad_submissions_have_no_mark_and_leave_the_others_theirs() {
    let lab = lab(3);
    let class = tempfile::tempdir().expect("a scratch folder");
    let write = |name: &str, text: &[u8]| {
        let path = class.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        std::fs::write(path, text).expect("it can be written");
    };
    let solution = lab.scenarios["solution.toml"].clone();
    write("ada/exercise.toml", solution.as_bytes());
    write("ada/answers.toml", b"seed = 7\n[answers]\nsectors = 5\nstart = \"a\"\nnonsense = 1\n");
    write("bytes.toml", &[0xff, 0xfe, 0x00]);
    write("empty.toml", b"");
    write("endless.toml", solution.replace("if (i >= 0", "while (true) { } if (i >= 0").as_bytes());
    write("fewer.toml", solution.replace("i < n)", "i < n - 1)").as_bytes());
    write("other.toml", lab.scenarios["start.toml"].replace("in =", "other =").as_bytes());
    let outside = "[params]\nn = 1\nshift = 1\n[launch]\ngrid = [1]\nblock = [32]\n\
                   [kernel]\nfile = \"/etc/passwd\"\n";
    write("outside.toml", outside.as_bytes());
    write("renamed.toml", solution.replace("shift", "late").as_bytes());
    write("start.toml", lab.scenarios["start.toml"].as_bytes());
    write("syntax.toml", b"[kernel\n");
    write("wrong-lab.toml", b"lab = \"01-one-transaction\"\n[answers]\nsectors = 4\n");
    let grader = Grader { lab: &lab, files: &Disk, campaign: &CAMPAIGN, seed: None };
    let grades = grader.class(class.path()).unwrap_or_else(|error| panic!("{error}"));
    let mark = |student: &str, kind: Submitted| {
        let found = grades.iter().find(|grade| grade.student == student && grade.kind == kind);
        let grade = found.unwrap_or_else(|| panic!("{student}: {grades:#?}"));
        (grade.mark, grade.reasons.join("\n"))
    };
    assert_eq!(mark("ada", Submitted::Scenario).0, 10.0);
    let (points, reasons) = mark("ada", Submitted::Answers);
    assert_eq!(points, 2.0);
    assert!(reasons.contains("nonsense: the lab has no such question"), "{reasons}");
    assert!(grades.iter().filter(|g| g.student == "ada").all(|g| g.seed == Some(7)));
    for (student, kind, reason) in [
        ("bytes", Submitted::Unreadable, "UTF-8"),
        ("empty", Submitted::Scenario, "empty"),
        ("endless", Submitted::Scenario, "at the size in the file"),
        ("fewer", Submitted::Scenario, "no longer reads `in["),
        ("other", Submitted::Scenario, "`in`"),
        ("outside", Submitted::Scenario, "permission denied"),
        ("renamed", Submitted::Scenario, "no parameter `shift`"),
        ("syntax", Submitted::Unreadable, "no TOML"),
        ("wrong-lab", Submitted::Answers, "answers to `01-one-transaction`"),
    ] {
        let (points, reasons) = mark(student, kind);
        assert_eq!(points, 0.0, "{student}: {reasons}");
        assert!(reasons.contains(reason), "{student}: {reasons}");
    }
    assert!(mark("start", Submitted::Scenario).0 < 10.0);
    let mut csv = Vec::new();
    write_csv(&grades, &mut csv).expect("memory");
    let mut rows = csv::Reader::from_reader(&csv[..]);
    assert_eq!(
        rows.headers().expect("a header"),
        &csv::StringRecord::from(vec![
            "student", "file", "lab", "seed", "kind", "mark", "out_of", "reasons",
        ])
    );
    assert_eq!(rows.records().count(), grades.len());
}

#[test]
fn a_lab_that_types_its_answer_in_is_refused() {
    let text = "## S\n";
    let lab = |question: &str| {
        let toml = format!(
            "title = \"t\"\nminutes = 15\n[point.p]\nscenario = \"s.toml\"\n\
             [[question]]\nid = \"q\"\nafter = \"S\"\nask = \"?\"\nexplain = \"!\"\n{question}"
        );
        let scenario = "[launch]\ngrid = [1]\nblock = [32]\n[kernel]\ncode = \"\"\n";
        let files: [(&str, &[u8]); 3] = [
            ("l/lab.toml", toml.as_bytes()),
            ("l/text.md", text.as_bytes()),
            ("l/s.toml", scenario.as_bytes()),
        ];
        Lab::load(Path::new("l"), &Embedded(&files)).map_err(|error| error.to_string())
    };
    for (question, reason) in [
        ("kind = \"number\"\nexpect = \"8\"", "answers are not typed in"),
        ("kind = \"number\"", "needs `expect`"),
        ("kind = \"number\"\nexpect = \"{q: sectors}\"", "no point `q`"),
        ("kind = \"number\"\nexpect = \"{p: sectors} +\"", "no expression"),
        ("kind = \"number\"\nexpect = \"n\"", "no value and no number `n`"),
        ("kind = \"choice\"", "two `choice`"),
        ("kind = \"faster-which\"", "two `racer`"),
        ("kind = \"essay\"", "unknown variant"),
        ("kind = \"number\"\nexpect = \"{p: sectors}\"\nanswer = 8", "unknown field"),
    ] {
        let error = lab(question).map(|_| ()).expect_err(question);
        assert!(error.contains(reason), "{question}: {error}");
    }
    assert!(lab("kind = \"number\"\nexpect = \"{p: sectors}\"").is_ok());
}
