//! The labs and the explorer as a static site: pages that need no server, no
//! network and, but for the explorer, no script.
//!
//! | path | is |
//! |---|---|
//! | `index.html` | the labs |
//! | `labs/NAME.html` | a lab with its questions and pictures, without answers |
//! | `handouts/NAME.html` | the same for paper, with space to write |
//! | `solutions/NAME.html` | answers, reasons, misconceptions, recorded figures |
//! | `solutions/NAME.toml`, `files/NAME/…` | a solution of the exercise, and its start |
//! | `explorer.html`, `explorer.js` | the explorer, with the simulator in the page |
//! | `style.css` | the style of all |
//!
//! Pages are well-formed XML besides being HTML, so that a test can read them.

mod content;
mod explorer;
mod markdown;

use crate::campaign::Campaign;
use crate::error::LabError;
use crate::lab::Lab;
use crate::workbench::Workbench;
use content::{Entry, LabContent};
use minijinja::value::{Serde, Value};
use minijinja::{Environment, UndefinedBehavior, context};
use scenario::Files;

/// What a site is made of.
pub struct Site<'a> {
    /// The labs, in order.
    pub labs: &'a [Lab],
    /// Where their scenarios are read from.
    pub files: &'a dyn Files,
    /// What devices recorded.
    pub campaign: &'a Campaign,
    /// The seed of the labs' numbers; without one those shown to all.
    pub seed: Option<u64>,
    /// Whether the solutions are in it, and the pictures that tell an answer.
    pub solutions: bool,
}

/// A file of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteFile {
    /// Its place, from the site's folder, with `/`.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl SiteFile {
    fn new(path: impl Into<String>, text: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), bytes: text.into() }
    }
}

/// The templates by name.
const TEMPLATES: [(&str, &str); 8] = [
    ("base.html", include_str!("../../site/base.html")),
    ("parts.html", include_str!("../../site/parts.html")),
    ("index.html", include_str!("../../site/index.html")),
    ("lab.html", include_str!("../../site/lab.html")),
    ("handout.html", include_str!("../../site/handout.html")),
    ("solution.html", include_str!("../../site/solution.html")),
    ("solutions.html", include_str!("../../site/solutions.html")),
    ("explorer.html", include_str!("../../site/explorer.html")),
];

impl Site<'_> {
    /// All files of the site.
    ///
    /// # Errors
    /// What cannot be computed of a lab.
    pub fn build(&self) -> Result<Vec<SiteFile>, LabError> {
        let pages = Pages::new(self)?;
        let entries: Vec<Entry> = self.labs.iter().map(Entry::of).collect();
        let mut files = vec![
            SiteFile::new("style.css", include_str!("../../site/style.css")),
            SiteFile::new("explorer.js", explorer::script()),
            pages.page(
                "index.html",
                "index.html",
                "index",
                context! { labs => Serde(&entries) },
            )?,
            pages.page("explorer.html", "explorer.html", "explorer", explorer::context())?,
        ];
        if self.solutions {
            let context = context! { labs => Serde(&entries) };
            files.push(pages.page(
                "solutions/index.html",
                "solutions.html",
                "solutions",
                context,
            )?);
        }
        for (index, lab) in self.labs.iter().enumerate() {
            let workbench = Workbench::new(lab, self.files, self.campaign, self.seed);
            let content = content::of_lab(&workbench)?;
            let previous = index.checked_sub(1).and_then(|before| entries.get(before));
            let neighbours = (previous, entries.get(index + 1));
            let name = content::file_name(&lab.name);
            if entries[..index].iter().any(|before| before.name == name) {
                let message = format!("the pages of two labs would be called {name}");
                return Err(LabError::content(&lab.folder, message));
            }
            self.add_lab(&pages, &name, content, neighbours, &mut files)?;
        }
        Ok(files)
    }

    /// The pages and files of one lab.
    fn add_lab(
        &self,
        pages: &Pages<'_>,
        name: &str,
        mut content: LabContent,
        (previous, next): (Option<&Entry>, Option<&Entry>),
        files: &mut Vec<SiteFile>,
    ) -> Result<(), LabError> {
        if let Some((start, text, solution)) = content.files() {
            files.push(SiteFile::new(format!("files/{name}/{start}"), text));
            if self.solutions {
                files.push(SiteFile::new(format!("solutions/{name}.toml"), solution));
            }
        }
        if self.solutions {
            let path = format!("solutions/{name}.html");
            files.push(pages.page(
                &path,
                "solution.html",
                "",
                context! { lab => Serde(&content) },
            )?);
        } else {
            content = content.without_pictures();
        }
        let path = format!("handouts/{name}.html");
        files.push(pages.page(&path, "handout.html", "", context! { lab => Serde(&content) })?);
        let seed_option = self.seed.map_or_else(String::new, |seed| format!(" --seed {seed}"));
        let context = context! {
            lab => Serde(&content),
            previous => Serde(previous),
            next => Serde(next),
            seed_option,
        };
        files.push(pages.page(&format!("labs/{name}.html"), "lab.html", "", context)?);
        Ok(())
    }
}

/// The templates, and what every page says.
struct Pages<'a> {
    templates: Environment<'a>,
    seed: Option<u64>,
    solutions: bool,
}

impl Pages<'_> {
    fn new(site: &Site<'_>) -> Result<Self, LabError> {
        let mut templates = Environment::new();
        // A name that is not there is an error, not an empty text.
        templates.set_undefined_behavior(UndefinedBehavior::Strict);
        for (name, text) in TEMPLATES {
            templates.add_template(name, text).map_err(|error| of_template(name, &error))?;
        }
        Ok(Self { templates, seed: site.seed, solutions: site.solutions })
    }

    /// A page at `path`, made of a template; `here` is its place in the menu.
    fn page(
        &self,
        path: &str,
        template: &str,
        here: &str,
        of_page: Value,
    ) -> Result<SiteFile, LabError> {
        let root = "../".repeat(path.matches('/').count());
        let of_all = context! {
            root,
            here,
            seed => self.seed,
            solutions => self.solutions,
            version => env!("CARGO_PKG_VERSION"),
            ..of_page
        };
        let made = self.templates.get_template(template).and_then(|found| found.render(of_all));
        let html = made.map_err(|error| of_template(template, &error))?;
        Ok(SiteFile::new(path, html))
    }
}

/// A template that cannot be filled in, with all that is known about it.
fn of_template(name: &str, error: &minijinja::Error) -> LabError {
    LabError::content(format!("crates/labs/site/{name}"), format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roxmltree::{Document, ParsingOptions};
    use scenario::Embedded;
    use std::path::Path;

    /// A lab with all that could break a page, and nothing that can be left out.
    #[test]
    fn a_teachers_text_is_text_on_every_page() {
        let lab = "title = \"<b> & \\\"c\\\"\"\nminutes = 15\n[point.p]\nscenario = \"s.toml\"\n\
                   [[question]]\nid = \"start\"\nafter = \"A < B\"\nkind = \"number\"\n\
                   show = \"p\"\nask = \"<i>?</i>\"\nexpect = \"{p: sectors}\"\nexplain = \"`a<b>`\"\n";
        let kernel = "title = \"t\"\n[launch]\ngrid = [1]\nblock = [32]\n[buffers]\n\
                      a = { type = \"float\", shape = [32] }\n[kernel]\n\
                      code = \"if (threadIdx.x < 9 && 1 > 0) load(a[threadIdx.x]);\"\n";
        let text = "Hello <script>alert(1)</script>\n\n## A < B\n\n<img src=x>\n";
        let folder = "l/3 a&b#c";
        let files = [
            (format!("{folder}/lab.toml"), lab),
            (format!("{folder}/text.md"), text),
            (format!("{folder}/s.toml"), kernel),
        ];
        let files: Vec<(&str, &[u8])> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_bytes())).collect();
        let files = Embedded(&files);
        let lab = Lab::load(Path::new(folder), &files).unwrap_or_else(|error| panic!("{error}"));
        let labs = [lab];
        let campaign = Campaign::default();
        let site = Site {
            labs: &labs,
            files: &files,
            campaign: &campaign,
            seed: Some(1),
            solutions: true,
        };
        let built = site.build().unwrap_or_else(|error| panic!("{error}"));
        let paths: Vec<&str> = built.iter().map(|file| file.path.as_str()).collect();
        assert!(paths.contains(&"labs/3-a-b-c.html"), "{paths:?}");
        for file in built.iter().filter(|file| file.path.ends_with(".html")) {
            let page = std::str::from_utf8(&file.bytes).expect("UTF-8");
            let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
            let document = Document::parse_with_options(page, options)
                .unwrap_or_else(|error| panic!("{}: {error}\n{page}", file.path));
            let has = |tag: &str| document.descendants().any(|node| node.has_tag_name(tag));
            assert!(!has("img") && !has("b") && !has("i"), "{page}");
            assert_eq!(has("script"), file.path == "explorer.html");
        }
        let twice = [labs[0].clone(), labs[0].clone()];
        let error = Site { labs: &twice, ..site }.build().expect_err("two of one name");
        assert!(error.to_string().contains("would be called 3-a-b-c"), "{error}");
    }
}
