use super::*;
use std::cell::RefCell;
use std::io::{BufReader, Read};
use std::rc::Rc;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

fn hopper() -> RuleSet {
    RuleSet::for_arch("9.0").unwrap()
}

fn answers(input: &[u8], capacity: usize) -> (String, Summary) {
    let mut output = Vec::new();
    let input = BufReader::with_capacity(capacity, input);
    let summary = stream(&hopper(), input, &mut output).unwrap();
    (String::from_utf8(output).unwrap(), summary)
}

fn line(id: &str, stride: u64) -> String {
    let addresses: Vec<u64> = (0..32).map(|lane| 139_637_976_727_552 + stride * lane).collect();
    format!(
        r#"{{"id": {id}, "op": "ld", "width": 4, "mask": 4294967295, "addresses": {addresses:?}}}"#
    )
}

fn error_of(line: &str) -> String {
    let (output, summary) = answers(line.as_bytes(), 4096);
    assert_eq!(summary, Summary { lines: 1, bad_lines: 1 }, "{output}");
    let answer: Value = serde_json::from_str(&output).unwrap();
    answer["error"].as_str().unwrap().to_owned()
}

/// A usual line with one field's text replaced.
fn with(field: &str, value: &str) -> String {
    let addresses = format!("{:?}", [0u64; 32]);
    let fields =
        [("id", "7"), ("op", "\"ld\""), ("width", "4"), ("mask", "1"), ("addresses", &addresses)];
    let text: Vec<String> = fields
        .into_iter()
        .filter(|&(name, _)| !(name == field && value.is_empty()))
        .map(|(name, text)| format!("\"{name}\":{}", if name == field { value } else { text }))
        .collect();
    let more = if fields.iter().any(|&(name, _)| name == field) || value.is_empty() {
        String::new()
    } else {
        format!(",\"{field}\":{value}")
    };
    format!("{{{}{more}}}", text.join(","))
}

#[test]
fn order_holds_whatever_the_buffer() {
    let mut input = String::new();
    for id in 0..1000 {
        let text = match id % 7 {
            3 => format!("{{\"id\":{id},\"op\":\"nope\",\"width\":4,\"addresses\":[]}}"),
            5 => format!("\n  \t\r\n{}\r", line(&id.to_string(), 8)),
            _ => line(&id.to_string(), 4 * (id % 40)),
        };
        input.push_str(&text);
        input.push('\n');
    }
    let (expected, summary) = answers(input.as_bytes(), 1 << 20);
    assert_eq!(summary, Summary { lines: 1000, bad_lines: 143 });
    for (id, answer) in expected.lines().enumerate() {
        assert_eq!(serde_json::from_str::<Value>(answer).unwrap()["id"], id);
    }
    for capacity in [1, 7, 450, 4096, 1 << 16] {
        assert_eq!(answers(input.as_bytes(), capacity), (expected.clone(), summary));
    }
}

#[test]
fn pieces_do_not_show() {
    let count = 3 * LINES_A_PIECE + 5;
    let input: String = (0..count).map(|id| format!("{{\"id\":{id}}}\n\n")).collect();
    let (output, summary) = answers(input.as_bytes(), input.len());
    assert_eq!(summary, Summary { lines: count as u64, bad_lines: count as u64 });
    for (id, answer) in output.lines().enumerate() {
        assert_eq!(
            answer,
            format!(
                "{{\"id\":{id},\"error\":\"line {}: op is missing; add \\\"op\\\":\\\"ld\\\"\"}}",
                2 * id + 1
            )
        );
    }
}

#[test]
fn line_numbers_count_blank_lines() {
    let (output, _) = answers(b"\n\n{}\n\n[]\n", 4);
    let numbers: Vec<String> = output
        .lines()
        .map(|answer| serde_json::from_str::<Value>(answer).unwrap()["error"].to_string())
        .map(|error| error.split(':').next().unwrap().to_owned())
        .collect();
    assert_eq!(numbers, ["\"line 3", "\"line 5"]);
}

#[test]
fn the_last_line_needs_no_end_and_the_first_may_have_a_mark() {
    let input = format!("\u{feff}{}\n{}", line("1", 4), line("2", 4));
    let (output, summary) = answers(input.as_bytes(), 100);
    assert_eq!(summary, Summary { lines: 2, bad_lines: 0 }, "{output}");
    assert_eq!(answers(b"", 10), (String::new(), Summary::default()));
    assert_eq!(answers(b"\n \n", 10), (String::new(), Summary::default()));
}

#[test]
fn a_long_line_is_a_bad_line_and_the_next_is_counted() {
    let mut long = line("\"long\"", 4);
    long.pop();
    long.push_str(",\"note\":\"");
    long.push_str(&"x".repeat(MAX_LINE_BYTES));
    long.push_str("\"}");
    let input = format!("{long}\n{}\n", line("2", 4));
    for capacity in [100, 1 << 22] {
        let (output, summary) = answers(input.as_bytes(), capacity);
        assert_eq!(summary, Summary { lines: 2, bad_lines: 1 });
        let mut lines = output.lines();
        assert_eq!(
            lines.next().unwrap(),
            r#"{"id":"long","error":"line 1: the line is longer than 1 MiB; write one access on a line"}"#
        );
        assert!(lines.next().unwrap().starts_with(r#"{"id":2,"requests":1,"#));
    }
    let mut longest = line("3", 4);
    longest.push_str(&" ".repeat(MAX_LINE_BYTES - longest.len()));
    assert_eq!(answers(longest.as_bytes(), 999).1, Summary { lines: 1, bad_lines: 0 });
}

#[test]
fn bytes_that_are_not_utf8_are_named_and_keep_the_id() {
    let mut input = with("op", "\"l?\"").into_bytes();
    let place = input.iter().position(|&byte| byte == b'?').unwrap();
    input[place] = 0xff;
    let (output, _) = answers(&input, 64);
    assert_eq!(
        output,
        format!(
            "{{\"id\":7,\"error\":\"line 1: byte {} is not UTF-8; save the file as UTF-8\"}}\n",
            place + 1
        )
    );
}

#[test]
fn ids_come_back_as_they_are_written() {
    for id in [
        "null",
        "0",
        "-12",
        "1.50",
        "1e400",
        "123456789012345678901234567890",
        "\"a\"",
        r#""caf\u00e9 \"x\"""#,
        "\"日本\"",
        "{\"b\": [1, {}], \"a\" : 2}",
        "[ ]",
        "true",
        r#""\ud800""#,
    ] {
        let (output, summary) = answers(line(id, 4).as_bytes(), 64);
        assert_eq!(summary.bad_lines, 0, "{id}: {output}");
        assert!(output.starts_with(&format!("{{\"id\":{id},\"requests\":1,")), "{output}");
    }
    assert!(answers(with("id", "").as_bytes(), 64).0.starts_with("{\"id\":null,\"requests\""));
}

#[test]
fn a_broken_line_keeps_the_id_that_was_read() {
    let whole = line("\"x\"", 4);
    let first = "{\"id\": \"x\"".len();
    for end in first..whole.len() {
        let (output, summary) = answers(&whole.as_bytes()[..end], 64);
        assert_eq!(summary.bad_lines, 1);
        assert!(output.starts_with("{\"id\":\"x\",\"error\":\"line 1: column "), "{output}");
    }
    for end in 1..first {
        let (output, _) = answers(&whole.as_bytes()[..end], 64);
        assert!(output.starts_with("{\"id\":null,\"error\":\"line 1: column "), "{output}");
    }
}

/// A program that sends a line and waits gets its answer before it sends more.
#[test]
fn answers_do_not_wait_for_more_input() {
    struct Peer {
        output: Rc<RefCell<Vec<u8>>>,
        sent: usize,
    }
    impl Read for Peer {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let answered = self.output.borrow().iter().filter(|&&byte| byte == b'\n').count();
            assert_eq!(answered, self.sent);
            if self.sent == 3 {
                return Ok(0);
            }
            self.sent += 1;
            let text = line("1", 4) + "\n";
            buffer[..text.len()].copy_from_slice(text.as_bytes());
            Ok(text.len())
        }
    }
    struct Flushed {
        pending: Vec<u8>,
        output: Rc<RefCell<Vec<u8>>>,
    }
    impl Write for Flushed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.pending.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            self.output.borrow_mut().append(&mut self.pending);
            Ok(())
        }
    }
    let output = Rc::new(RefCell::new(Vec::new()));
    let peer = BufReader::new(Peer { output: output.clone(), sent: 0 });
    let summary =
        stream(&hopper(), peer, Flushed { pending: Vec::new(), output: output.clone() }).unwrap();
    assert_eq!(summary.lines, 3);
}

#[test]
fn errors_of_the_streams_are_errors() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let input = line("1", 4);
    let error = stream(&hopper(), input.as_bytes(), Broken).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn every_error_says_what_and_what_to_do() {
    let cases = [
        (with("op", ""), "op is missing; add \"op\":\"ld\""),
        (with("width", ""), "width is missing; add \"width\":4"),
        (with("addresses", ""), "addresses is missing; add \"addresses\":[32 numbers]"),
        (with("op", "3"), "op is 3; it must be text"),
        (with("op", "\"ldx\""), "unknown op \"ldx\"; known: ld, ld.ca, "),
        (with("width", "3"), "width 3 of ld is none of 1, 2, 4, 8, 16"),
        (
            with("width", "4.0"),
            "width is 4.0; it must be a whole number: the bytes that a lane accesses",
        ),
        (
            with("width", "300"),
            "width 300 is too large; give the bytes a lane accesses: 1, 2, 4, 8, 16 or 32",
        ),
        (
            with("mask", "-1"),
            "mask is -1; it must be a whole number from 0 to 4294967295, one bit for each lane",
        ),
        (with("mask", "4294967296"), "mask is 4294967296; it must be"),
        (
            with("addresses", "[1,2]"),
            "addresses has 2 entries; it needs 32, one for each lane, those that are off included",
        ),
        (with("addresses", "\"0\""), "addresses is \"0\"; it must be an array of 32 addresses"),
        (with("atomic", "\"add\""), "op \"ld\" takes no atomic"),
        (with("type", "7"), "type is 7; it must be text"),
        (
            with("shared_addresses", &format!("{:?}", [0; 32])),
            "op ld takes no shared_addresses; cp.async does",
        ),
        (
            with("op", "\"cp.async\""),
            "cp.async needs shared_addresses: 32 offsets in shared memory, one for each lane",
        ),
        (with("op", "\"ld\",\"op\":\"st\""), "column 22: op is given twice; keep one of them"),
        (
            "[]".to_owned(),
            "column 0: invalid type: sequence, expected an object such as {\"id\":1,",
        ),
        ("hello".to_owned(), "column 1: expected value; a line must be one JSON object"),
        (with("arch", "\"9\""), "unknown arch \"9\"; known: 1.0, 1.1, 1.2, 1.3, 2.0, "),
        (with("arch", "\"\""), "; rules of your own come with --arch FILE"),
        (with("arch", "9.0"), "arch is 9.0; it must be text"),
        (with("archs", "\"9.0\""), "unknown key archs; did you mean arch?"),
        (
            with("arch", "\"7.0\"").replace("\"ld\"", "\"cp.async\""),
            "compute capability 7.0 has no cp.async; choose another arch",
        ),
        (with("id", "1") + " x", "trailing characters; a line must be one JSON object"),
    ];
    for (line, expected) in cases {
        let error = error_of(&line);
        assert!(error.contains(expected), "{line}\n{error}\n{expected}");
    }
    let mut addresses = vec!["0"; 32];
    addresses[0] = "6";
    assert_eq!(
        error_of(&with("addresses", &format!("[{}]", addresses.join(",")))),
        "line 1: lane 0: address 6 (0x6) is no multiple of the width 4; align it, or clear the lane's bit in mask"
    );
    addresses[0] = "1e3";
    assert_eq!(
        error_of(&with("addresses", &format!("[{}]", addresses.join(",")))),
        "line 1: addresses[0] is 1e3; an active lane's address must be a whole number from 0 to 18446744073709551615; clear bit 0 of mask if the lane is off"
    );
}

#[test]
fn inactive_lanes_and_unknown_fields_do_not_matter() {
    let plain = answers(with("family", "{\"a\":[1]}").as_bytes(), 64);
    let mut addresses = vec!["0"];
    addresses.extend(["null", "-1", "3", "1e99", "\"off\"", "[[]]", "18446744073709551616", "{}"]);
    addresses.resize(32, "null");
    let odd = answers(with("addresses", &format!("[{}]", addresses.join(", "))).as_bytes(), 64);
    assert_eq!(plain, odd);
    assert_eq!(plain.1.bad_lines, 0);
    // Fields that may be left out may also be null.
    let null = answers(with("type", "null").as_bytes(), 64);
    assert_eq!(plain, null);
}

/// A line's architecture decides what it is answered by, and what accesses
/// there are; without one the stream's does.
#[test]
fn a_line_is_counted_by_its_own_architecture() {
    let mut own = hopper().data().clone();
    own.archs = vec!["wide".to_owned(), "8.0".to_owned()];
    own.cache.as_mut().unwrap().sector_bytes = 64;
    let own = RuleSet::new(own).unwrap();
    let sectors_on = |rules: &RuleSet, arch: &str| {
        let text = with("arch", arch).replace("\"mask\":1", "\"mask\":4294967295");
        let addresses: Vec<u64> = (0..32).map(|lane| 8 * lane).collect();
        let text = text.replace(&format!("{:?}", [0u64; 32]), &format!("{addresses:?}"));
        let mut output = Vec::new();
        stream(rules, text.as_bytes(), &mut output).unwrap();
        let answer: Value = serde_json::from_slice(&output).unwrap();
        let transactions = answer["transactions"].as_array().map_or(0, Vec::len);
        (answer["requests"].as_u64().unwrap(), answer["sectors"].as_u64(), transactions)
    };
    for (arch, expected) in [
        ("", (1, Some(8), 0)),
        ("null", (1, Some(8), 0)),
        ("\"9.0\"", (1, Some(8), 0)),
        ("\"8.0\"", (1, Some(8), 0)),
        // Eight lanes a request.
        ("\"5.2\"", (4, Some(8), 0)),
        // Stride 2 does not coalesce.
        ("\"1.0\"", (2, None, 32)),
    ] {
        assert_eq!(sectors_on(&hopper(), arch), expected, "{arch}");
    }
    // Rules of one's own go before the shipped ones of the same name.
    for (arch, sectors) in [("", 4), ("\"wide\"", 4), ("\"8.0\"", 4), ("\"9.0\"", 8)] {
        assert_eq!(sectors_on(&own, arch).1, Some(sectors), "{arch}");
    }
    let mut output = Vec::new();
    stream(&own, with("arch", "\"narrow\"").as_bytes(), &mut output).unwrap();
    assert!(String::from_utf8(output).unwrap().contains(", wide; rules of your own"));
}

#[test]
fn usual_lines_are_read_quickly() {
    for usual in [
        line("1", 4),
        line("\"warp-a-17\"", 12),
        with("atomic", "\"add\"").replace("\"ld\"", "\"red\""),
        with("id", "-5"),
        with("id", "null"),
        with("mask", ""),
        with("arch", "\"7.0\""),
    ] {
        assert!(quick::fields(usual.as_bytes()).is_some(), "{usual}");
    }
}

/// Where the quick reader answers, it answers as the complete one does.
fn assert_same(line: &[u8]) {
    if let Some(quick) = quick::fields(line) {
        assert_eq!(parse::fields(line).as_ref(), Ok(&quick), "{}", String::from_utf8_lossy(line));
    }
}

/// JSON text that may stand for a field's value, right or wrong.
fn values() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<u64>().prop_map(|n| n.to_string()),
        (0u64..1000).prop_map(|n| n.to_string()),
        select(vec![
            "18446744073709551615",
            "18446744073709551616",
            "00",
            "01",
            "-0",
            "-1",
            "1.0",
            "1e2",
            "12345678",
            "123456789",
            "1234567.5",
            "12345678e1",
            "",
            "null",
            "+1",
        ])
        .prop_map(str::to_owned),
    ];
    let text = select(vec![
        "\"ld\"",
        "\"st\"",
        "\"add\"",
        "\"\"",
        "\"a b\"",
        "\"\\u006cd\"",
        "\"é\"",
        "\"l\\\"d\"",
        "\"ld",
        "true",
        "{}",
        "\"\u{7f}\"",
        "\"\t\"",
    ])
    .prop_map(str::to_owned);
    let array = (0usize..34, number.clone(), select(vec![",", ", ", " ,", ",,"])).prop_map(
        |(entries, odd, comma)| {
            let mut numbers = vec!["64".to_owned(); entries];
            if let Some(last) = numbers.last_mut() {
                *last = odd;
            }
            format!("[{}]", numbers.join(comma))
        },
    );
    let full = number.clone().prop_map(|odd| {
        let mut numbers = vec!["4096".to_owned(); 32];
        numbers[17] = odd;
        format!("[{}]", numbers.join(", "))
    });
    prop_oneof![number, text, array, full]
}

fn lines() -> impl Strategy<Value = String> {
    let names = select(vec![
        "id",
        "op",
        "width",
        "mask",
        "addresses",
        "atomic",
        "type",
        "shared_addresses",
        "arch",
        "other",
    ]);
    let fields =
        proptest::collection::vec((names, values(), select(vec!["", " ", "\t", "\u{a0}"])), 0..4);
    (fields, select(vec!["", " ", "\r", "x", "}"]), any::<bool>()).prop_map(
        |(fields, tail, complete)| {
            let mut text = Vec::new();
            if complete {
                // The replaced ones may make it a duplicate; most are not.
                for (name, value) in [
                    ("op", "\"st\"".to_owned()),
                    ("width", "8".to_owned()),
                    ("addresses", format!("{:?}", [8u64; 32])),
                ] {
                    if !fields.iter().any(|field| field.0 == name) {
                        text.push(format!("\"{name}\":{value}"));
                    }
                }
            }
            for (name, value, space) in fields {
                text.push(format!("{space}\"{name}\"{space}:{space}{value}{space}"));
            }
            format!("{{{}}}{tail}", text.join(","))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn both_readers_agree_on_lines(line in lines()) {
        assert_same(line.as_bytes());
    }

    #[test]
    fn both_readers_agree_on_damaged_lines(
        stride in 0u64..40,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3), 1..4),
    ) {
        let mut text = line("\"a-1\"", stride).into_bytes();
        for (place, byte, how) in damage {
            let place = place.index(text.len());
            match how {
                0 => text[place] = byte,
                1 => text.insert(place, byte),
                _ => { text.remove(place); }
            }
        }
        assert_same(&text);
    }

    #[test]
    fn any_bytes_get_an_answer_of_one_json_object(
        text in proptest::collection::vec(
            prop_oneof![any::<u8>(), select(b"{}[]\",:0123456789 idopwh\\".to_vec())],
            0..80,
        ),
    ) {
        let text: Vec<u8> = text.into_iter().filter(|&byte| byte != b'\n').collect();
        let (output, summary) = answers(&text, 16);
        prop_assert_eq!(summary.lines, output.lines().count() as u64);
        for answer in output.lines() {
            prop_assert!(serde_json::from_str::<Value>(answer).unwrap().is_object());
        }
    }
}
