//! The accesses of an emitted kernel's threads against those of the model's
//! lanes.

use crate::interpreter::{Kernel, Thread, Touch};
use coalescope_ptx as ptx;
use ptx::verify::{Sums, result_words};
use ptx::{Parameter, Purpose};
use scenario::Run;
use scenario::eval::{Evaluator, Limits};
use scenario::program::{BinaryOp, BufferId, Expr, ExprKind, Intrinsic, Scalar, ValueType};
use scenario::run::Contents;
use std::collections::HashMap;

/// Where the results of a verifying kernel stand.
const RESULTS: u64 = 0x10_0000;

/// Why a comparison did not find equality.
#[derive(Debug)]
pub(crate) enum Difference {
    /// The evaluator refuses the kernel: there is nothing to compare with.
    Refused(String),
    /// They differ, or the kernel can't be emitted.
    Found(String),
}

/// Blocks of a run that are tried: corners, where masks are partial, and one in
/// the middle.
fn blocks(grid: [u64; 3]) -> Vec<[u64; 3]> {
    let mut blocks = vec![[0; 3], grid.map(|n| n - 1), grid.map(|n| n / 2)];
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

/// Compares both kinds of kernel, and the sums of the verifying one.
pub(crate) fn compare(run: &Run) -> Result<(), Difference> {
    let refused = |error: scenario::Diagnostic| Difference::Refused(error.message);
    let failed = |error: Box<scenario::Diagnostic>| Difference::Found(error.message);
    let bases = run.assumed_bases();
    let evaluator = Evaluator::new(run, &bases, Limits::default()).map_err(refused)?;
    let measured = ptx::module(run, Purpose::Measure).map_err(failed)?;
    let verified = ptx::module(run, Purpose::Verify).map_err(failed)?;
    let emitted = ptx::emit(run, Purpose::Verify).map_err(failed)?;

    let (measuring, verifying) =
        (Kernel::new(&measured.entries[0]), Kernel::new(&verified.entries[0]));

    // The names of parameters carry their meaning by position.
    let mut params = HashMap::new();
    for (parameter, name) in emitted.parameters.iter().zip(&verified.entries[0].params) {
        let value = match parameter {
            Parameter::Buffer(BufferId(i)) => bases[*i] + run.buffers[*i].offset_bytes,
            Parameter::Results => RESULTS,
            Parameter::Sink => 0,
        };
        params.insert(name.clone(), value);
    }
    params.insert("sink".to_owned(), 0);

    let read = |address: u64, bytes: u64| contents(run, &bases, address, bytes);
    let known = ptx::verify::data_is_known(&run.program);
    for block in blocks(run.launch.grid) {
        let [bx, by, bz] = run.launch.block;
        let threads = (bx * by * bz) as usize;
        let mut expected: Vec<Vec<Touch>> = vec![Vec::new(); threads];
        let mut host = Sums::new(run.program.sites.len());
        evaluator
            .visit_block(block, |issue| {
                host.record(issue.site, &issue.access);
                let site = &run.program.sites[issue.site.0];
                let is_load = site.op.kind == simulator::OpKind::Load;
                if known[issue.site.0] && is_load {
                    host.record_loads(issue.site, site, &issue.access, read);
                }
                for (lane, address) in issue.access.active() {
                    let shared = issue.access.shared_addresses.map(|shared| shared[lane]);
                    expected[32 * issue.warp as usize + lane].push(Touch {
                        site: issue.site.0,
                        address,
                        shared,
                    });
                }
            })
            .map_err(refused)?;

        let mut words = vec![0_u64; result_words(run.program.sites.len())];
        for (i, expected) in expected.iter().enumerate() {
            let i = i as u32;
            let tid = [i % bx, i / bx % by, i / bx / by];
            let mut thread = Thread {
                tid,
                ctaid: block.map(|index| index as u32),
                params: &params,
                read: &read,
                results: HashMap::new(),
            };
            let touched = thread.run(&measuring);
            let place = || format!("block {block:?}, thread {tid:?}");
            let found = |words| Difference::Found(format!("{}: {words}", place()));
            same(&touched, expected, run).map_err(found)?;

            thread.results.clear();
            let touched = thread.run(&verifying);
            same(&touched, expected, run).map_err(found)?;
            for (address, sum) in thread.results {
                if let Some(word) = address.checked_sub(RESULTS)
                    && let Some(word) = words.get_mut((word / 8) as usize)
                {
                    *word = word.wrapping_add(sum);
                }
            }
        }
        let mut device = Sums::from_device(run.program.sites.len(), &words);
        for (sum, known) in device.sites.iter_mut().zip(&known) {
            if !known {
                sum.data = 0;
            }
        }
        if device != host {
            let words = format!("block {block:?}: sums {device:?}, on the host {host:?}");
            return Err(Difference::Found(words));
        }
    }
    Ok(())
}

fn same(touched: &[Touch], expected: &[Touch], run: &Run) -> Result<(), String> {
    for i in 0..touched.len().max(expected.len()) {
        let (now, model) = (touched.get(i), expected.get(i));
        if now != model {
            let label = |touch: Option<&Touch>| {
                touch.map(|touch| {
                    let label = &run.program.sites[touch.site].label;
                    format!("{label} at {:#x} {:?}", touch.address, touch.shared)
                })
            };
            return Err(format!("access {i}: {:?}, in the model {:?}", label(now), label(model)));
        }
    }
    Ok(())
}

/// What global memory holds: the contents that buffers have, else the address.
fn contents(run: &Run, bases: &[u64], address: u64, bytes: u64) -> u64 {
    let mask = if bytes == 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 };
    for (buffer, base) in run.buffers.iter().zip(bases) {
        let first = base + buffer.offset_bytes;
        let Some(offset) = address.checked_sub(first).filter(|&offset| offset < buffer.bytes)
        else {
            continue;
        };
        let columns = buffer.shape.last().copied().unwrap_or(1);
        let pitch = buffer.pitch.unwrap_or(columns * buffer.element_bytes);
        let index = (offset / pitch * columns + offset % pitch / buffer.element_bytes) as i64;
        return match &buffer.contents {
            Contents::Unknown => address & mask,
            Contents::Listed(values) => values[index as usize] as u64 & mask,
            Contents::Computed(init) => value(init, index) as u64 & mask,
        };
    }
    panic!("a read outside of all buffers: {address:#x}")
}

/// An `init` expression at `i`, each value in its type.
fn value(expr: &Expr, i: i64) -> i64 {
    let of = |expr: &Expr| value(expr, i);
    let signed = matches!(expr.ty, ValueType::Int(scalar) if scalar.is_signed());
    let result = match &expr.kind {
        ExprKind::Const(value) => *value,
        ExprKind::Local(_) => i,
        ExprKind::Convert(a) => of(a),
        ExprKind::Neg(a) => of(a).wrapping_neg(),
        ExprKind::Binary(op, a, b) => {
            let (a, b) = (of(a), of(b));
            match op {
                BinaryOp::Add => a.wrapping_add(b),
                BinaryOp::Sub => a.wrapping_sub(b),
                BinaryOp::Mul => a.wrapping_mul(b),
                BinaryOp::Div if signed => a / b,
                BinaryOp::Div => (a as u64 / b as u64) as i64,
                BinaryOp::Rem if signed => a % b,
                BinaryOp::Rem => (a as u64 % b as u64) as i64,
                BinaryOp::And => a & b,
                BinaryOp::Or => a | b,
                BinaryOp::Xor => a ^ b,
                BinaryOp::Shl => a << b,
                BinaryOp::Shr if signed => a >> b,
                BinaryOp::Shr => (a as u64 >> b) as i64,
            }
        }
        ExprKind::Call(Intrinsic::Hash, args) => i64::from(hash(of(&args[0]) as u32)),
        ExprKind::Call(Intrinsic::Hash64, args) => ptx::verify::hash64(of(&args[0]) as u64) as i64,
        other => panic!("no shipped init has {other:?}"),
    };
    match expr.ty {
        ValueType::Int(Scalar::I8) => i64::from(result as i8),
        ValueType::Int(Scalar::U8) => i64::from(result as u8),
        ValueType::Int(Scalar::I16) => i64::from(result as i16),
        ValueType::Int(Scalar::U16) => i64::from(result as u16),
        ValueType::Int(Scalar::I32) => i64::from(result as i32),
        ValueType::Int(Scalar::U32) => i64::from(result as u32),
        _ => result,
    }
}

fn hash(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}
