//! Where the documents point to.

use std::path::{Path, PathBuf};

use crate::page::Page;
use crate::server::repository;

/// The links that lead nowhere, each with its page.
pub fn dead(pages: &[Page]) -> Vec<String> {
    let mut dead = Vec::new();
    for page in pages {
        for target in targets(page.text()) {
            if let Err(why) = find(page.name(), &target) {
                dead.push(format!("{}: {target}: {why}", page.name()));
            }
        }
    }
    dead
}

/// What is linked as `[words](target)`, and what is named as `docs/PAGE.md` between ticks.
fn targets(text: &str) -> Vec<String> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let links = links.map(|(target, _)| target.to_owned());
    let named = text.split('`').filter(|word| word.starts_with("docs/") && word.ends_with(".md"));
    let named = named.map(|name| format!("/{name}"));
    links.filter(|target| !target.contains("://")).chain(named).collect()
}

/// A path from the page's folder, or from the root if it begins with a slash; with `#`, a heading.
fn find(page: &str, target: &str) -> Result<(), String> {
    let (path, heading) = target.split_once('#').map_or((target, None), |(p, h)| (p, Some(h)));
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let path: PathBuf = match path.strip_prefix('/') {
        Some(from_root) => from_root.into(),
        None if path.is_empty() => page.into(),
        None => folder.join(path),
    };
    let path = repository().join(path);
    if !path.exists() {
        return Err("there is no such file".into());
    }
    let Some(heading) = heading else { return Ok(()) };
    let text = std::fs::read_to_string(&path).map_err(|e| e.to_string())?;
    let mut headings = text.lines().filter(|line| line.starts_with('#')).map(anchor);
    match headings.any(|anchor| anchor == heading) {
        true => Ok(()),
        false => Err("there is no such heading".into()),
    }
}

/// What a heading is linked by: its words in lower case, joined by hyphens, without other signs.
fn anchor(line: &str) -> String {
    let words = line.trim_start_matches('#').trim().to_lowercase();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
