//! A run's kernel and launch as text.

use scenario::Run;
use std::fmt::Write;

/// The kernel's source: the body, or the entry function with the macros and
/// structs before it.
pub fn source_text(run: &Run) -> String {
    let kernel = &run.kernel;
    let mut text = String::new();
    if !kernel.structs.trim().is_empty() {
        text.push_str(kernel.structs.trim());
        text.push_str("\n\n");
    }
    let function = kernel.entry.as_deref().and_then(|entry| function(&kernel.code, entry));
    text.push_str(function.as_deref().unwrap_or(kernel.code.trim()));
    text
}

/// The function called `entry` with the macros of the file.
fn function(code: &str, entry: &str) -> Option<String> {
    let name = entry.split('<').next()?.trim();
    let at = code.match_indices(name).map(|(at, _)| at).find(|&at| {
        let after = code[at + name.len()..].trim_start();
        let start = code[..at].rfind(['}', ';']).map_or(0, |end| end + 1);
        after.starts_with('(') && code[start..at].contains("__global__")
    })?;
    // From the start of its line to the brace that closes it.
    let start = code[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let mut depth = 0_usize;
    let end = code[at..].char_indices().find_map(|(offset, character)| {
        match character {
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                return (depth == 0).then_some(at + offset + 1);
            }
            _ => {}
        }
        None
    })?;
    let macros: Vec<&str> =
        code.lines().filter(|line| line.trim_start().starts_with("#define")).collect();
    let mut text = macros.join("\n");
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(code[start..end].trim_start_matches("extern \"C\" "));
    Some(text)
}

/// The launch and the buffers: `128 blocks of 256 threads; float in[65536]`.
pub fn launch_text(run: &Run) -> String {
    let axes = |extent: &[u64]| {
        let used = extent.iter().rposition(|&n| n != 1).map_or(1, |last| last + 1);
        extent.iter().take(used).map(u64::to_string).collect::<Vec<_>>().join(" × ")
    };
    let mut text = format!(
        "{} blocks of {} threads",
        axes(&run.launch.grid),
        axes(&run.launch.block.map(u64::from))
    );
    for buffer in &run.buffers {
        let shape: String = buffer.shape.iter().map(|extent| format!("[{extent}]")).collect();
        // Writing to a string cannot fail.
        let _ = write!(text, "; {} {}{shape}", buffer.type_name, buffer.name);
        if let Some(pitch) = buffer.pitch {
            let _ = write!(text, " with a pitch of {pitch} B");
        }
        if buffer.offset_bytes > 0 {
            let _ = write!(text, " from byte {} of its allocation", buffer.offset_bytes);
        }
    }
    let scalars: Vec<String> =
        run.params.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    if !scalars.is_empty() {
        let _ = write!(text, "; {}", scalars.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::function;

    #[test]
    fn one_function_of_a_file_is_found_with_its_macros() {
        let file = "// copy(x) of copy.cu\n#define W 2\nextern \"C\" __global__ void copy2(int n)\n{ if (n) { n = W; } }\nextern \"C\" __global__ void copy(int n)\n{\n    n = 1;\n}\n";
        assert_eq!(
            function(file, "copy").as_deref(),
            Some("#define W 2\n\n__global__ void copy(int n)\n{\n    n = 1;\n}")
        );
        assert_eq!(function(file, "cop"), None);
    }
}
