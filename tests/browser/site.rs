//! The files of the site, read as XML: links, anchors, names, what is loaded.

use super::{export, exported};
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The pages of a site by their paths, and all of its files.
fn read(folder: &Path) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let mut pages = BTreeMap::new();
    let mut files = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(folder).expect("in it").to_str().expect("UTF-8");
            files.insert(name.to_owned());
            if name.ends_with(".html") {
                pages.insert(name.to_owned(), std::fs::read_to_string(&path).expect("text"));
            }
        }
    }
    (pages, files)
}

fn parse<'a>(name: &str, text: &'a str) -> Document<'a> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn elements<'a, 'b>(document: &'b Document<'a>) -> impl Iterator<Item = Node<'b, 'a>> {
    document.descendants().filter(Node::is_element)
}

/// Text of an element and all in it.
fn text(node: &Node<'_, '_>) -> String {
    node.descendants().filter(Node::is_text).filter_map(|node| node.text()).collect()
}

#[test]
fn every_link_leads_somewhere_and_nothing_is_loaded_from_elsewhere() {
    let (pages, files) = read(&exported());
    assert!(pages.len() >= 1 + 1 + 1 + 3 * 12, "{:?}", pages.keys());
    let mut links = 0;
    for (name, text) in &pages {
        let document = parse(name, text);
        for node in elements(&document) {
            for attribute in ["href", "src"] {
                let Some(target) = node.attribute(attribute) else { continue };
                links += 1;
                assert!(
                    !target.contains("://") && !target.starts_with("//"),
                    "{name}: {target} is not in the site"
                );
                let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
                let file = match path {
                    "" => name.clone(),
                    path => resolved(name, path),
                };
                assert!(files.contains(&file), "{name}: {target}: there is no {file}");
                if !anchor.is_empty() {
                    let page = parse(&file, &pages[&file]);
                    let found = elements(&page).any(|node| node.attribute("id") == Some(anchor));
                    assert!(found, "{name}: {target}: {file} has no such anchor");
                }
            }
            for attribute in ["srcset", "action", "formaction", "poster", "data"] {
                assert!(node.attribute(attribute).is_none(), "{name}: {attribute}");
            }
        }
    }
    assert!(links > 300, "{links}");
    for file in ["style.css", "explorer.js"] {
        let text = std::fs::read_to_string(exported().join(file)).expect("text");
        let bare = text.replace("http://www.w3.org/2000/svg", "");
        for loads in ["http:", "https:", "url(", "@import", "fetch(", "XMLHttpRequest"] {
            assert!(!bare.contains(loads), "{file}: {loads}");
        }
    }
}

/// A relative path from the page at `from`.
fn resolved(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            ".." => assert!(parts.pop().is_some(), "{from}: {path} leaves the site"),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// What a screen reader and a keyboard need of every page.
#[test]
fn pages_have_landmarks_names_and_headings_in_order() {
    for (name, text_of) in &read(&exported()).0 {
        let document = parse(name, text_of);
        assert_eq!(document.root_element().attribute("lang"), Some("en"), "{name}");
        let count = |tag: &str| elements(&document).filter(|node| node.has_tag_name(tag)).count();
        assert_eq!((count("main"), count("h1")), (1, 1), "{name}");
        let mut ids = BTreeSet::new();
        let mut level = 0;
        for node in elements(&document) {
            let tag = node.tag_name().name();
            if let Some(id) = node.attribute("id") {
                assert!(ids.insert(id), "{name}: two elements are called {id}");
            }
            if let Some(next) = tag.strip_prefix('h').and_then(|digit| digit.parse::<u32>().ok()) {
                assert!(next <= level + 1, "{name}: {} after level {level}", text(&node));
                level = next;
            }
            let labelled = node.attribute("aria-label").is_some()
                || node.attribute("aria-labelledby").is_some();
            let is_named = match tag {
                "a" | "button" | "summary" | "th" => labelled || !text(&node).trim().is_empty(),
                "svg" => {
                    node.attribute("role") == Some("img")
                        && node.children().any(|child| child.tag_name().name() == "title")
                        && node.children().any(|child| child.tag_name().name() == "desc")
                }
                "nav" | "fieldset" | "table" | "form" => {
                    labelled
                        || elements_in(&node)
                            .any(|child| ["legend", "caption"].contains(&child.tag_name().name()))
                }
                "input" | "select" => {
                    let id = node.attribute("id").unwrap_or("none");
                    labelled
                        || node.ancestors().any(|above| above.has_tag_name("label"))
                        || elements(&document).any(|label| label.attribute("for") == Some(id))
                }
                "head" => elements_in(&node).any(|child| child.has_tag_name("title")),
                "img" => node.attribute("alt").is_some(),
                // What is focused without being a control says what it is.
                "pre" | "div" if node.attribute("tabindex").is_some() => labelled,
                _ => true,
            };
            assert!(is_named, "{name}: {tag} has no name: {}", text(&node));
            for reference in ["aria-labelledby", "aria-controls", "for"] {
                for id in node.attribute(reference).unwrap_or_default().split_whitespace() {
                    let found = elements(&document).any(|node| node.attribute("id") == Some(id));
                    assert!(found, "{name}: {reference}={id}");
                }
            }
        }
        let skip = elements(&document).find(|node| node.has_tag_name("a")).expect("a link");
        assert_eq!(skip.attribute("href"), Some("#content"), "{name}");
    }
}

fn elements_in<'a, 'b>(node: &Node<'b, 'a>) -> impl Iterator<Item = Node<'b, 'a>> {
    node.descendants().filter(Node::is_element)
}

/// A hand-out has no answer and no picture; nor has anything in a site for
/// students.
#[test]
fn answers_are_on_the_solutions_pages_alone() {
    let (pages, _) = read(&exported());
    let mut explained = 0;
    for (name, text_of) in pages.iter().filter(|(name, _)| name.starts_with("solutions/0")) {
        let document = parse(name, text_of);
        let lab = name.trim_start_matches("solutions/");
        for node in elements(&document).filter(|node| node.attribute("class") == Some("answer")) {
            let answer = text(&node).trim_start_matches("Answer:").trim().to_owned();
            let after = node.next_sibling_element().expect("an explanation");
            let explanation = text(&after);
            for other in ["labs", "handouts"] {
                let page = &pages[&format!("{other}/{lab}")];
                let page = text(&parse(other, page).root_element());
                assert!(!page.contains(&explanation), "{other}/{lab}: {answer}");
            }
            explained += 1;
        }
        assert!(!pages[&format!("handouts/{lab}")].contains("<svg"), "{lab}");
        assert!(pages[&format!("labs/{lab}")].contains("<svg"), "{lab}");
    }
    assert!(explained > 25, "{explained}");

    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("students");
    let output = export(&["--without-solutions", "--seed", "7", "-o", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (pages, files) = read(&folder);
    assert!(files.iter().all(|file| !file.contains("solution")), "{files:?}");
    for (name, text) in &pages {
        assert!(!text.contains("<svg") && !text.contains("solutions/"), "{name}");
        assert!(text.contains("Numbers of seed 7"), "{name}");
    }
}

#[test]
fn a_folder_of_somebody_elses_is_left_alone() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let folder = scratch.path().join("site");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("thesis.tex"), "mine").expect("a file");
    let output = export(&["-o", folder.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains("thesis.tex") && words.contains("name another folder"), "{words}");
    let left: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(left, [folder.join("thesis.tex")]);
}
