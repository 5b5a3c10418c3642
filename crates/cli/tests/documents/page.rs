//! A page of the documents, and its fenced blocks.

use std::path::PathBuf;

use crate::exceptions::REASONS;
use crate::server::repository;

/// A page.
pub struct Page {
    name: String,
    text: String,
    blocks: Vec<Block>,
}

/// A block of commands.
pub struct Block {
    /// The line of the page at which it begins, counted from 1.
    pub line: usize,
    /// The commands.
    pub commands: String,
    /// Whether it is started in another terminal.
    pub serves: bool,
    /// How many of those are stopped before.
    pub stops: usize,
    /// What its last command ends with.
    pub ends: u8,
    /// Whether it is run only where we may mount.
    pub needs_root: bool,
    /// Why it is not run.
    pub reason: Option<&'static str>,
}

/// What begins a line of commands, and no line of any other block.
const COMMANDS: [&str; 6] =
    ["fogbank ", "fogbank-cloud ", "redis-cli ", "make ", "cargo ", "sudo "];

impl Page {
    /// The page of this name, from the root of the repository.
    pub fn read(name: &str) -> Result<Self, String> {
        let path = repository().join(name);
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{name}: {e}"))?;
        Self::parse(name, &text)
    }

    /// The page that is written so.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut blocks = Vec::new();
        let mut lines = text.lines().enumerate();
        while let Some((at, line)) = lines.next() {
            let Some(info) = line.trim_start().strip_prefix("```") else { continue };
            let told = |why: String| format!("{name}:{}: {why}", at + 1);
            let inside = lines.by_ref().map(|(_, line)| line);
            let inside: Vec<&str> = inside.take_while(|line| line.trim() != "```").collect();
            if at + inside.len() + 2 > text.lines().count() {
                return Err(told("this block does not end".into()));
            }
            let mut words = info.split_whitespace();
            match words.next() {
                None => return Err(told("say what this block is: sh, text, ...".into())),
                Some("sh") => {
                    let mut block = Block::of(at + 1, inside.join("\n"));
                    words.try_for_each(|word| block.says(word)).map_err(told)?;
                    blocks.push(block);
                }
                Some(_) => {
                    let is_command = |line: &&&str| COMMANDS.iter().any(|c| line.starts_with(c));
                    if let Some(line) = inside.iter().find(is_command) {
                        return Err(told(format!("a command in a block that is not sh: {line}")));
                    }
                }
            }
        }
        Ok(Self { name: name.to_owned(), text: text.to_owned(), blocks })
    }

    /// Its path from the root of the repository.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All of it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its commands.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }
}

impl Block {
    fn of(line: usize, commands: String) -> Self {
        let (serves, stops, ends, needs_root) = (false, 0, 0, false);
        Self { line, commands, serves, stops, ends, needs_root, reason: None }
    }

    fn says(&mut self, word: &str) -> Result<(), String> {
        let ends = word.strip_prefix("ends-").and_then(|code| code.parse().ok());
        let reason = REASONS.iter().find(|(reason, _)| *reason == word);
        match (word, ends, reason) {
            ("serve", ..) => self.serves = true,
            ("stopped", ..) => self.stops += 1,
            ("needs-root", ..) => self.needs_root = true,
            (_, Some(code), _) => self.ends = code,
            (.., Some((reason, _))) => self.reason = Some(reason),
            _ => return Err(format!("what does {word} say of a block?")),
        }
        Ok(())
    }

    /// Whether it is run at all.
    pub fn is_run(&self) -> bool {
        self.reason.is_none()
    }
}

/// README.md and the pages in docs/.
pub fn all() -> Vec<Page> {
    let mut names = vec!["README.md".to_owned()];
    names.extend(names_in("docs"));
    names.iter().map(|name| Page::read(name).unwrap_or_else(|why| panic!("{why}"))).collect()
}

/// The same and all else that is written for people.
pub fn all_documents() -> Vec<Page> {
    let mut pages = all();
    let others = ["ARCHITECTURE.md", "CHANGELOG.md"].map(str::to_owned);
    for name in others.into_iter().chain(names_in("docs/decisions")) {
        let text = std::fs::read_to_string(repository().join(&name)).expect("a page");
        pages.push(Page { name, text, blocks: Vec::new() });
    }
    pages
}

fn names_in(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(repository().join(folder)).expect("a folder");
    let paths = entries.map(|entry| PathBuf::from(entry.expect("an entry").file_name()));
    let pages = paths.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut names: Vec<String> = pages.map(|path| format!("{folder}/{}", path.display())).collect();
    names.sort();
    names
}
