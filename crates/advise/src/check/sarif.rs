//! Findings as SARIF 2.1.0, the format that code hosts and editors read.
//!
//! OASIS Standard, *Static Analysis Results Interchange Format (SARIF) Version
//! 2.1.0 Plus Errata 01*,
//! <https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/sarif-v2.1.0-errata01-os-complete.html>;
//! section numbers below are its own.

use super::{Finding, Report, Rule};
use scenario::diagnostic::Severity;
use scenario::{SourceId, Sources, Span};
use serde_json::{Value, json};
use std::path::{Component, Path};

/// The schema that the output validates against.
const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The base that paths are relative to, by the name that code hosts use for the
/// top of a repository.
const ROOT: &str = "%SRCROOT%";

/// What SARIF says of the program's own run (§3.20).
#[derive(Clone, Copy, Debug)]
pub struct Invocation<'a> {
    /// The program's version.
    pub version: &'a str,
    /// Where it is documented.
    pub information_uri: &'a str,
    /// The exit code that it is about to end with.
    pub exit_code: u8,
    /// Whether all input was good: findings do not matter.
    pub successful: bool,
    /// The folder that relative paths start from; absolute paths below it are
    /// made relative.
    pub folder: Option<&'a Path>,
}

/// The report as one SARIF log of one run.
pub fn sarif(report: &Report, invocation: &Invocation<'_>) -> Value {
    let rules: Vec<Value> = Rule::ALL.into_iter().map(rule).collect();
    let results: Vec<Value> =
        report.findings.iter().map(|finding| result(finding, invocation.folder)).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "coalescope",
                "version": invocation.version,
                "semanticVersion": invocation.version,
                "informationUri": invocation.information_uri,
                "rules": rules,
            }},
            "invocations": [{
                "executionSuccessful": invocation.successful,
                "exitCode": invocation.exit_code,
            }],
            "originalUriBaseIds": {
                ROOT: { "description": { "text": "The folder that coalescope was run in." } }
            },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn rule(rule: Rule) -> Value {
    json!({
        "id": rule.id(),
        "name": pascal_case(rule.id()),
        "shortDescription": { "text": rule.summary() },
        "fullDescription": { "text": rule.summary() },
        "help": { "text": rule.help(), "markdown": rule.help().replace("[[allow]]", "`[[allow]]`") },
        "defaultConfiguration": { "level": level(rule.severity()) },
        "properties": { "tags": ["performance", "gpu", "cuda"], "precision": "very-high" },
    })
}

/// `global-efficiency` as `GlobalEfficiency` (§3.49.7 suggests the form).
fn pascal_case(id: &str) -> String {
    id.split('-')
        .flat_map(|word| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters)
        })
        .collect()
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn result(finding: &Finding, folder: Option<&Path>) -> Value {
    let mut text = sentence(&finding.message);
    let more = (!finding.label.is_empty()).then_some(&finding.label);
    for part in more.into_iter().chain(finding.in_runs().iter()).chain(&finding.notes) {
        text.push('\n');
        text.push_str(&sentence(part));
    }
    text.push_str(&format!("\nHelp: {}", sentence(&finding.help)));

    // What concerns the scenario as a whole stands at its first line, so that
    // readers that want a line have one (§3.28.3 lets a region be absent).
    let place = finding.span.unwrap_or(Span::new(SourceId(0), 0, 0));
    let mut location = json!({
        "physicalLocation": physical(&finding.sources, place, finding.span.is_some(), folder),
    });
    if let (Some(access), Some(slot)) = (&finding.access, location.as_object_mut()) {
        slot.insert(
            "logicalLocations".to_owned(),
            json!([{ "name": access, "fullyQualifiedName": format!("{}/{access}", finding.scenario) }]),
        );
    }
    // Once one result has suppressions all must have them (§3.27.23): an empty
    // array says that it is not suppressed.
    let suppressions: Vec<Value> = finding
        .waiver
        .iter()
        .map(|waiver| {
            json!({
                "kind": "inSource",
                "status": "accepted",
                "justification": waiver.reason,
                "location": {
                    "physicalLocation": physical(&finding.sources, waiver.span, true, folder),
                },
            })
        })
        .collect();
    let index = Rule::ALL.into_iter().position(|rule| rule == finding.rule);
    let runs: Vec<&str> =
        finding.runs.iter().map(|(run, _)| run.as_str()).filter(|run| !run.is_empty()).collect();
    json!({
        "ruleId": finding.rule.id(),
        "ruleIndex": index,
        "kind": "fail",
        "level": level(finding.severity),
        "message": { "text": text },
        "locations": [location],
        "partialFingerprints": { "coalescopeAccess/v1": finding.fingerprint },
        "suppressions": suppressions,
        "properties": { "scenario": finding.scenario, "runs": runs },
    })
}

/// A message with a capital first letter and a full stop (§3.11.5 wants whole
/// sentences). Code at the start keeps its spelling: it stands in quotes.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let mut sentence: String =
        letters.next().map(|first| first.to_uppercase()).into_iter().flatten().collect();
    sentence.push_str(letters.as_str());
    if !sentence.ends_with(['.', '!', '?']) {
        sentence.push('.');
    }
    sentence
}

fn physical(sources: &Sources, span: Span, snippet: bool, folder: Option<&Path>) -> Value {
    let Some(source) = sources.find(span.source) else {
        return json!({ "artifactLocation": { "uri": "", "uriBaseId": ROOT } });
    };
    let (uri, relative) = uri(&source.path, folder);
    let mut artifact = json!({ "uri": uri });
    if let (true, Some(slot)) = (relative, artifact.as_object_mut()) {
        slot.insert("uriBaseId".to_owned(), ROOT.into());
    }
    let (start_line, start_column) = position(&source.text, span.start);
    let (end_line, end_column) = position(&source.text, span.end.max(span.start));
    let mut region = json!({
        "startLine": start_line,
        "startColumn": start_column,
        "endLine": end_line,
        "endColumn": end_column,
    });
    let text = sources.text(span);
    if let (true, false, Some(slot)) = (snippet, text.is_empty(), region.as_object_mut()) {
        slot.insert("snippet".to_owned(), json!({ "text": text }));
    }
    json!({ "artifactLocation": artifact, "region": region })
}

/// Line and column of a byte, both from 1; columns in code points.
fn position(text: &str, byte: u32) -> (usize, usize) {
    let before = text.get(..text.floor_char_boundary(byte as usize)).unwrap_or("");
    let line = before.bytes().filter(|&byte| byte == b'\n').count() + 1;
    let in_line = before.rsplit('\n').next().unwrap_or("");
    (line, in_line.trim_start_matches('\u{feff}').chars().count() + 1)
}

/// A path as a URI reference (RFC 3986), and whether it is relative to
/// [`ROOT`].
fn uri(path: &Path, folder: Option<&Path>) -> (String, bool) {
    let path = scenario::source::normalised(path);
    let below = folder.and_then(|folder| path.strip_prefix(folder).ok()).unwrap_or(&path);
    // A reference must not climb above its base (§3.4.4).
    let climbs = below.components().next() == Some(Component::ParentDir);
    let absolute = match folder {
        Some(folder) if climbs => scenario::source::normalised(&folder.join(below)),
        _ => below.to_owned(),
    };
    let mut text = String::new();
    for component in absolute.components() {
        match component {
            Component::RootDir => text.push('/'),
            Component::CurDir => {}
            other => {
                if !text.is_empty() && !text.ends_with('/') {
                    text.push('/');
                }
                percent_encode(&other.as_os_str().to_string_lossy(), &mut text);
            }
        }
    }
    if absolute.is_absolute() {
        let root = if text.starts_with('/') { "file://" } else { "file:///" };
        return (format!("{root}{text}"), false);
    }
    (text, true)
}

/// Everything but RFC 3986's unreserved characters as `%XX`.
fn percent_encode(segment: &str, out: &mut String) {
    for byte in segment.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_uri_references() {
        let home = Path::new("/home/ada");
        for (path, expected, relative) in [
            ("scenarios/a.toml", "scenarios/a.toml", true),
            ("./scenarios/../a b.toml", "a%20b.toml", true),
            ("/home/ada/kernels/größe.cu", "kernels/gr%C3%B6%C3%9Fe.cu", true),
            ("/other/a.toml", "file:///other/a.toml", false),
            ("../a.toml", "file:///home/a.toml", false),
        ] {
            assert_eq!(uri(Path::new(path), Some(home)), (expected.to_owned(), relative), "{path}");
        }
    }

    #[test]
    fn columns_are_code_points() {
        assert_eq!(position("a\nwö 宽x", 10), (2, 6));
        assert_eq!(position("\u{feff}ab", 4), (1, 2));
        assert_eq!(position("ab", 99), (1, 3));
    }

    #[test]
    fn names_are_in_pascal_case() {
        assert_eq!(pascal_case(Rule::GlobalEfficiency.id()), "GlobalEfficiency");
    }
}
