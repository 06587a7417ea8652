//! `coalescope lab`: the labs of the binary, a teacher's own, marks and codes.

use super::check::Folder;
use super::{coalescope, run, stderr, stdout};

#[test]
fn labs_are_listed_and_are_no_scenarios() {
    let output = coalescope(&["lab", "list"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let listed = stdout(&output);
    assert_eq!(listed.lines().count(), 12, "{listed}");
    assert!(listed.contains("  2  02-stride             20 min  Stride"), "{listed}");
    let scenarios = stdout(&coalescope(&["list"]));
    assert!(!scenarios.contains("lab") && !scenarios.contains("solution"), "{scenarios}");
    let by_folder = stdout(&coalescope(&["lab", "list", "--labs", "scenarios/labs"]));
    similar_asserts::assert_eq!(by_folder, listed);
}

#[test]
fn a_lab_is_run_through_a_pipe() {
    let output = run(&["lab", "run", "1"], "1\n32\n50\na\nsame\n");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "Lab 1: One transaction",
        "Not so: the answer is 4 sectors per request",
        "number of lines",
        "Right: 32",
        "4 of 5 points",
        "Exercise",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains('\u{1b}'), "a pipe has no colours");
    let unanswered = run(&["lab", "run", "01-one-transaction"], "");
    assert_eq!(unanswered.status.code(), Some(0));
    assert!(stdout(&unanswered).contains("the input ended here"));
}

#[test]
fn what_a_lab_predicts_is_what_sim_predicts() {
    // What is simulated of a run depends on how many runs the scenario has.
    let text = stdout(&run(&["lab", "run", "2"], &"\n".repeat(9)));
    for stride in ["1", "2"] {
        let output = coalescope(&[
            "sim",
            "strided",
            "--variant",
            "read",
            "--set",
            &format!("stride={stride}"),
            "--json",
        ]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let record: serde_json::Value = serde_json::from_str(stdout(&output).trim()).expect("JSON");
        let seconds = record["time"]["seconds"].as_f64().expect("a time");
        let error = record["time"]["known_error"].as_f64().expect("an error");
        let wanted = format!(
            "predicted {}, ±{} known error",
            record::units::seconds(seconds),
            record::units::percent(error)
        );
        let row = format!("  stride = {stride}: time");
        let line = text.lines().find(|line| line.contains(&row));
        let line = line.unwrap_or_else(|| panic!("{row} is missing in\n{text}"));
        assert!(line.ends_with(&wanted), "{wanted} is not in {line}");
    }
}

#[test]
fn an_exercise_is_marked_from_start_to_full_marks() {
    let folder = Folder::new();
    let start = stdout(&coalescope(&["lab", "show", "2", "--start"]));
    folder.write("mine.toml", &start);
    let untouched = folder.run(&["lab", "grade", "2", "mine.toml"]);
    assert_eq!(untouched.status.code(), Some(1), "{}", stderr(&untouched));
    assert!(stdout(&untouched).contains("mine.toml: 0 of 10 points"), "{}", stdout(&untouched));
    let better = start
        .replace(
            "int first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);",
            "int first = 4 * blockIdx.x * blockDim.x + threadIdx.x;",
        )
        .replace("first + k;", "first + k * blockDim.x;");
    folder.write("mine.toml", &better);
    let solved = folder.run(&["lab", "grade", "2", "mine.toml"]);
    assert_eq!(solved.status.code(), Some(0), "{}", stdout(&solved));
    assert!(stdout(&solved).contains("10 of 10 points"), "{}", stdout(&solved));
}

#[test]
fn answers_are_marked_with_the_students_own_numbers() {
    let folder = Folder::new();
    let template = stdout(&coalescope(&["lab", "show", "2", "--seed", "7", "--answers"]));
    assert!(template.contains("seed = 7") && template.contains("sectors = \"\""), "{template}");
    folder.write("class/ada.toml", &template.replace("wide = \"\"", "wide = 32"));
    folder.write("class/bob.toml", "not a submission");
    let output = folder.run(&["lab", "grade", "2", "class", "-o", "class.csv"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let csv = folder.read("class.csv");
    assert!(csv.starts_with("student,file,lab,seed,kind,mark,out_of,reasons\n"), "{csv}");
    assert!(csv.contains("ada,class/ada.toml,02-stride,7,answers,1.0,5.0,"), "{csv}");
    assert!(csv.contains("bob,class/bob.toml,02-stride,,unreadable,0.0,10.0,"), "{csv}");
}

#[test]
fn no_submission_gets_lost() {
    let folder = Folder::new();
    folder.write("class/=cmd.toml", "x");
    folder.write("class/kernel.cu", "__global__ void k() {}");
    let output = folder.run(&["lab", "grade", "2", "class"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let csv = stdout(&output);
    // No spreadsheet runs it.
    assert!(csv.contains("\n'=cmd,class/=cmd.toml,"), "{csv}");
    assert!(csv.contains("kernel,class/kernel.cu,") && csv.contains("only .toml files"), "{csv}");
    for (there, said) in [("nobody.toml", "there is no file"), ("empty", "no submissions")] {
        std::fs::create_dir_all(folder.path().join("empty")).expect("a folder");
        let output = folder.run(&["lab", "grade", "2", there, "-o", "class.csv"]);
        assert_eq!(output.status.code(), Some(2), "{there}");
        assert!(stderr(&output).contains(said), "{}", stderr(&output));
        assert!(!folder.path().join("class.csv").exists());
    }
    folder.write("bad.toml", "[answers]\nsectors = \"\"\n");
    let output = folder.run(&["lab", "grade", "2", "bad.toml", "-o", "class.csv"]);
    assert_eq!(output.status.code(), Some(1), "less than full marks, whatever is written");
    assert!(folder.read("class.csv").contains("sectors: no answer"));
}

#[test]
fn a_teacher_adds_a_lab_without_rust() {
    let folder = Folder::new();
    folder.write(
        "labs/20-mine/text.md",
        "Hello.\n\n## Count\n\nA read of {{p: warp.lanes}} lanes.\n",
    );
    folder.write(
        "labs/20-mine/lab.toml",
        "title = \"Mine\"\nminutes = 5\n[point.p]\nscenario = \"shipped:contiguous\"\naccess = \"in[i]\"\n\
         [[question]]\nid = \"q\"\nafter = \"Count\"\nkind = \"number\"\nshow = \"p\"\nask = \"How many?\"\n\
         expect = \"{p: sectors/request}\"\nexplain = \"{{p: sectors/request}}, on {{p: record.seconds}}.\"\n",
    );
    let output = folder.run(&["lab", "show", "20", "--labs", "labs"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("A read of 32 lanes."), "{}", stdout(&output));
    folder.write("labs/20-mine/lab.toml", "title = 1\n");
    let bad = folder.run(&["lab", "list", "--labs", "labs"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(
        stderr(&bad).contains("lab.toml") && stderr(&bad).contains("invalid type"),
        "{}",
        stderr(&bad)
    );
}

#[test]
fn an_unknown_lab_is_bad_input() {
    let output = coalescope(&["lab", "run", "99"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("there is no lab `99`") && stderr(&output).contains("12-history")
    );
}
