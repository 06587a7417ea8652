//! Markdown as HTML that is well-formed XML, too.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// `text` as HTML. Code and tables, which may be wider than a page, scroll by
/// themselves and can be reached by keyboard. Markup in the text is shown, not
/// obeyed.
pub(crate) fn html_of(text: &str) -> String {
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).map(|event| match event {
        Event::Start(Tag::CodeBlock(_)) => {
            markup("<pre class=\"code\" tabindex=\"0\" role=\"group\" aria-label=\"Code\"><code>")
        }
        Event::End(TagEnd::CodeBlock) => markup("</code></pre>\n"),
        Event::Html(raw) | Event::InlineHtml(raw) => Event::Text(raw),
        other => other,
    });
    // A table's tag stays the library's; what scrolls is put around it.
    let events = events.flat_map(|event| match event {
        Event::Start(Tag::Table(_)) => vec![
            markup("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\">"),
            event,
        ],
        Event::End(TagEnd::Table) => vec![event, markup("</div>\n")],
        other => vec![other],
    });
    let mut out = String::new();
    html::push_html(&mut out, events);
    out
}

/// A short text as HTML without the paragraph around it.
pub(crate) fn inline_html_of(text: &str) -> String {
    let html = html_of(text);
    let bare = html.trim().strip_prefix("<p>").and_then(|rest| rest.strip_suffix("</p>"));
    match bare.filter(|bare| !bare.contains("<p>")) {
        Some(bare) => bare.to_owned(),
        None => html,
    }
}

/// A name for a heading's anchor: its letters and digits.
pub(crate) fn anchor(heading: &str) -> String {
    let mut out = String::from("section");
    for word in heading.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        out.push('-');
        out.push_str(&word.to_lowercase());
    }
    out
}

fn markup(text: &'static str) -> Event<'static> {
    Event::Html(CowStr::Borrowed(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_text_is_text() {
        assert_eq!(
            inline_html_of("a `x<T>` of <b>*bold*</b>"),
            "a <code>x&lt;T&gt;</code> of &lt;b&gt;<em>bold</em>&lt;/b&gt;"
        );
        assert!(html_of("<script>alert(1)</script>\n").contains("&lt;script&gt;"));
    }

    #[test]
    fn wide_things_scroll_by_themselves() {
        let html = html_of("| a | b |\n|---|---|\n| 1 | 2 |\n\n```c\nif (a < b) { }\n```\n");
        assert!(html.contains("<div class=\"scroll\" tabindex=\"0\""), "{html}");
        assert!(html.contains("<code>if (a &lt; b) { }\n</code></pre>"), "{html}");
        assert!(roxmltree::Document::parse(&format!("<main>{html}</main>")).is_ok(), "{html}");
    }

    #[test]
    fn anchors_have_no_blanks() {
        assert_eq!(anchor("2006: CC 1.0"), "section-2006-cc-1-0");
    }
}
