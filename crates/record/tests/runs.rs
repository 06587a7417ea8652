//! The run record in JSON Lines and CSV, from hand-made records.

use coalescope_record::*;
use simulator::{Counts, Op, Totals};

fn counts(sectors: u32, warps: u128) -> Totals {
    let mut totals = Totals::default();
    let counts = Counts {
        requests: 1,
        sectors: Some(sectors),
        tags: Some(2),
        tag_wavefronts: Some(1),
        l2_sectors: Some(sectors),
        unique_sectors: Some(sectors),
        requested_bytes: 128,
        unique_bytes: 128,
        moved_bytes: Some(32 * sectors),
        exact: true,
        ..Counts::default()
    };
    totals.add_times(&counts, warps);
    totals
}

fn shared(warps: u128) -> Totals {
    let mut totals = Totals::default();
    let counts = Counts {
        requests: 1,
        data_wavefronts: Some(32),
        bank_conflicts: Some(31),
        requested_bytes: 128,
        unique_bytes: 128,
        exact: true,
        ..Counts::default()
    };
    totals.add_times(&counts, warps);
    totals
}

fn predicted() -> RunRecord {
    let launch = Launch {
        grid: [4096, 1, 1],
        block: [256, 1, 1],
        registers: None,
        shared_bytes: Some(4096),
    };
    let mut run = RunRecord::new("transpose", Source::Predicted, launch);
    run.variant = Some("unpadded".into());
    run.params =
        [("width", Value::from(8192u64)), ("pad", Value::from(0u64))].into_iter().collect();
    run.device = Some("h200".into());
    run.arch = Some("9.0".into());
    run.cache = Some(CacheState::Cold);
    run.buffers =
        vec![Buffer { name: "in".into(), base: 0x7000_0000_0000, bytes: 1 << 28, pitch: None }];
    run.bases = Some(Bases::Assumed);
    let reduction = Op::parse("red", Some("add"), Some("u32"), 4).unwrap();
    let accesses = [
        ("in[y][x]", Op::LOAD, counts(4, 32768)),
        ("tile[x][y]", Op::SHARED_LOAD, shared(32768)),
        ("bins", reduction, counts(8, 32768)),
    ];
    run.totals = Some(KernelTotals::of(accesses.iter().map(|(_, op, totals)| (*op, totals))));
    run.accesses = accesses
        .into_iter()
        .zip(10..)
        .map(|((label, op, totals), line)| Access::new(label, Some(line), op, 4, totals))
        .collect();
    run.time = Some(Time {
        seconds: Some(1.5e-5),
        bound_by: Some("data stage".into()),
        components: [("data stage", 1.5e-5), ("dram", 1.0e-5)].into_iter().collect(),
        known_error: Some(f64::NAN),
        next: Some("dram".into()),
        next_share: Some(f64::NAN),
        ..Time::default()
    });
    run
}

fn measured() -> RunRecord {
    let launch =
        Launch { grid: [1, 1, 1], block: [32, 1, 1], registers: Some(16), shared_bytes: None };
    let mut run = RunRecord::new("strided", Source::Measured, launch);
    run.samples = vec![0.5, 0.25, f64::NAN, 1.0];
    run.spread = Spread::of(&[0.5, 0.25, 1.0]);
    run.time = Some(Time { seconds: median(&[0.5, 0.25, 1.0]), ..Time::default() });
    run.counters = [
        ("dram__sectors_read.sum".to_owned(), Value::from(12u64)),
        ("rate".to_owned(), Value::Real(f64::NAN)),
    ]
    .into();
    run.date = Some("2026-01-02T03:04:05Z".into());
    run.warnings = vec!["optimised_away: in[i]".into()];
    run
}

fn line(run: &RunRecord) -> String {
    let mut bytes = Vec::new();
    write_run(&mut bytes, run).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_predicted_run_as_json() {
    similar_asserts::assert_eq!(
        line(&predicted()),
        concat!(
            r#"{"format":"coalescope-run/1","scenario":"transpose","variant":"unpadded","#,
            r#""params":{"width":8192,"pad":0},"source":"predicted","device":"h200","arch":"9.0","#,
            r#""launch":{"grid":[4096,1,1],"block":[256,1,1],"shared_bytes":4096},"cache":"cold","#,
            r#""buffers":[{"name":"in","base":123145302310912,"bytes":268435456}],"bases":"assumed","#,
            r#""accesses":["#,
            r#"{"label":"in[y][x]","line":10,"op":"ld","space":"global","width":4,"instructions":32768,"#,
            r#""requests":32768,"sectors":131072,"tags":65536,"tag_wavefronts":32768,"l2_sectors":131072,"#,
            r#""unique_sectors":131072,"requested_bytes":4194304,"unique_bytes":4194304,"#,
            r#""moved_bytes":4194304,"exact":true,"efficiency":{"requested":1.0,"unique":1.0}},"#,
            r#"{"label":"tile[x][y]","line":11,"op":"lds","space":"shared","width":4,"instructions":32768,"#,
            r#""requests":32768,"data_wavefronts":1048576,"bank_conflicts":1015808,"exact":true},"#,
            r#"{"label":"bins","line":12,"op":"red","space":"global","width":4,"atomic":"add","type":"u32","#,
            r#""instructions":32768,"requests":32768,"sectors":262144,"tags":65536,"#,
            r#""tag_wavefronts":32768,"l2_sectors":262144,"unique_sectors":262144,"#,
            r#""requested_bytes":4194304,"unique_bytes":4194304,"moved_bytes":8388608,"exact":true,"#,
            r#""efficiency":{"requested":0.5,"unique":0.5}}],"#,
            r#""totals":{"instructions":98304,"requests":98304,"sectors":393216,"tags":131072,"#,
            r#""tag_wavefronts":65536,"l2_sectors":393216,"unique_sectors":393216,"#,
            r#""requested_bytes":8388608,"unique_bytes":8388608,"moved_bytes":12582912,"exact":true,"#,
            r#""efficiency":{"requested":0.6666666666666666,"unique":0.6666666666666666},"by_class":{"#,
            r#""global_ld":{"instructions":32768,"requests":32768,"sectors":131072,"tags":65536,"#,
            r#""tag_wavefronts":32768,"l2_sectors":131072,"unique_sectors":131072,"#,
            r#""requested_bytes":4194304,"unique_bytes":4194304,"moved_bytes":4194304,"exact":true},"#,
            r#""global_red":{"instructions":32768,"requests":32768,"sectors":262144,"tags":65536,"#,
            r#""tag_wavefronts":32768,"l2_sectors":262144,"unique_sectors":262144,"#,
            r#""requested_bytes":4194304,"unique_bytes":4194304,"moved_bytes":8388608,"exact":true},"#,
            r#""shared_ld":{"instructions":32768,"requests":32768,"data_wavefronts":1048576,"#,
            r#""bank_conflicts":1015808,"requested_bytes":4194304,"unique_bytes":4194304,"exact":true}}},"#,
            r#""time":{"seconds":0.000015,"bound_by":"data stage","next":"dram","#,
            r#""components":{"data stage":0.000015,"dram":0.00001}}}"#,
            "\n"
        )
    );
}

#[test]
fn a_measured_run_as_json_has_no_null_and_no_zero_for_the_unknown() {
    similar_asserts::assert_eq!(
        line(&measured()),
        concat!(
            r#"{"format":"coalescope-run/1","scenario":"strided","params":{},"source":"measured","#,
            r#""launch":{"grid":[1,1,1],"block":[32,1,1],"registers":16},"buffers":[],"accesses":[],"#,
            r#""time":{"seconds":0.5},"date":"2026-01-02T03:04:05Z","samples":[0.5,0.25,1.0],"#,
            r#""spread":{"min_seconds":0.25,"lower_quartile_seconds":0.375,"#,
            r#""upper_quartile_seconds":0.75,"max_seconds":1.0},"#,
            r#""counters":{"dram__sectors_read.sum":12,"rate":"NaN"},"warnings":["optimised_away: in[i]"]}"#,
            "\n"
        )
    );
}

#[test]
fn what_is_written_is_read() {
    let mut run = predicted();
    if let Some(time) = &mut run.time {
        time.known_error = Some(0.03);
        time.next_share = Some(0.7);
    }
    // Larger than 64 bits: 2^70 warps.
    run.accesses.push(Access::new("huge", None, Op::LOAD, 4, counts(5, 1 << 70)));
    run.traffic = Some(Traffic { dram_read_bytes: Some(u128::MAX), ..Traffic::default() });
    run.bandwidth = Some(Bandwidth { requested_bytes_per_s: Some(4.1e12), ..Bandwidth::default() });
    run.clocks = Some(Clocks { sm_hz: Some(1.98e9), ..Clocks::default() });
    run.tools = [("ncu".to_owned(), "2025.3".to_owned())].into();
    run.error = Some("the kernel did not end within 10 s".into());
    let text = line(&run);
    assert!(text.contains("\"sectors\":5902958103587056517120,"), "{text}");
    let read: Vec<RunRecord> = read_runs(text.as_bytes()).map(Result::unwrap).collect();
    assert_eq!(read, [run]);
}

#[test]
fn fields_from_the_future_are_kept_or_ignored() {
    let mut text = line(&predicted()).replace("\"launch\":{", "\"launch\":{\"cluster\":[2,1,1],");
    text = text.replacen("{\"label\":", "{\"colour\":{\"a\":[1]},\"label\":", 1);
    text = text.replacen("\"totals\":{", "\"totals\":{\"mood\":null,", 1);
    text = text.replacen("\"by_class\":{", "\"by_class\":{\"tensor_ld\":{\"instructions\":1},", 1);
    text = text.replacen("{\"format\"", "{\"weather\":{\"rain\":[1,2.5]},\"format\"", 1);
    let read = read_runs(text.as_bytes()).next().unwrap().unwrap();
    assert_eq!(read.accesses, predicted().accesses);
    assert_eq!(read.totals, predicted().totals);
    assert!(line(&read).contains("\"weather\":{\"rain\":[1,2.5]}"));
}

#[test]
fn bad_lines_are_reported_in_their_place() {
    let good = line(&measured());
    let text = format!(
        "{good}\n{{\"format\":\"coalescope-run/9\"}}\n{{\"format\":\"other/1\"}}\nnonsense\n{}\n{good}{}",
        "{\"format\":\"coalescope-run/1\",\"scenario\":3}",
        &good[..200]
    );
    let read: Vec<Result<String, String>> = read_runs(text.as_bytes())
        .map(|run| run.map(|run| run.scenario).map_err(|bad| bad.to_string()))
        .collect();
    let ok = Ok("strided".to_owned());
    let err = |text: &str| Err(text.to_owned());
    assert_eq!(
        read,
        [
            ok.clone(),
            err(
                "line 3: format version 9 is newer than 1, the newest that this coalescope reads; update it"
            ),
            err("line 4: format is \"other/1\", not \"coalescope-run/1\": no run record"),
            err("line 5: column 2: expected ident"),
            err("line 6: column 41: invalid type: integer `3`, expected a string"),
            ok,
            err(
                "line 8: cut short, as if its writer was stopped; delete the line, or resume the campaign to repeat it"
            ),
        ]
    );
}

#[test]
fn any_cut_leaves_whole_records_and_one_report() {
    let text = line(&measured()) + &line(&predicted());
    let first = line(&measured()).len();
    for end in 0..text.len() {
        let read: Vec<bool> = read_runs(&text.as_bytes()[..end]).map(|run| run.is_ok()).collect();
        // A record that lacks but its line's end is whole.
        let expected: &[bool] = match end {
            0 => &[],
            end if end < first - 1 => &[false],
            end if end <= first => &[true],
            end if end < text.len() - 1 => &[true, false],
            _ => &[true, true],
        };
        assert_eq!(read, expected, "{end}");
    }
}

#[test]
fn points_are_named_by_what_sets_them_apart() {
    assert_eq!(predicted().point(), "transpose:unpadded width=8192 pad=0 cold");
    assert_eq!(measured().point(), "strided");
}

#[test]
fn runs_as_csv() {
    let mut csv = CsvWriter::new(Vec::new()).unwrap();
    csv.write(&predicted()).unwrap();
    csv.write(&measured()).unwrap();
    similar_asserts::assert_eq!(
        String::from_utf8(csv.finish().unwrap()).unwrap(),
        "\
scenario,variant,params,source,device,arch,grid,block,cache,label,line,op,space,width,instructions,\
requests,sectors,tags,tag_wavefronts,data_wavefronts,bank_conflicts,l2_sectors,unique_sectors,\
requested_bytes,unique_bytes,moved_bytes,transactions,exact,requested_efficiency,unique_efficiency,seconds
transpose,unpadded,width=8192 pad=0,predicted,h200,9.0,4096x1x1,256x1x1,cold,in[y][x],10,ld,global,4,32768,\
32768,131072,65536,32768,,,131072,131072,4194304,4194304,4194304,,true,1,1,0.000015
transpose,unpadded,width=8192 pad=0,predicted,h200,9.0,4096x1x1,256x1x1,cold,tile[x][y],11,lds,shared,4,32768,\
32768,,,,1048576,1015808,,,,,,,true,,,0.000015
transpose,unpadded,width=8192 pad=0,predicted,h200,9.0,4096x1x1,256x1x1,cold,bins,12,red,global,4,32768,\
32768,262144,65536,32768,,,262144,262144,4194304,4194304,8388608,,true,0.5,0.5,0.000015
strided,,,measured,,,1x1x1,32x1x1,,,,,,,,,,,,,,,,,,,,,,,0.5
"
    );
}
