//! Pages as what can be done with them: files to write, commands to run, headings and links.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository")
}

/// A page in Markdown.
pub struct Page {
    /// Its path, relative to the repository.
    pub name: String,
    pub text: String,
}

/// A fenced block of a page.
#[derive(Debug)]
pub struct Block {
    /// The line of its first line in the page, from 1.
    pub line: usize,
    /// What follows the fence: `console`, `toml`.
    pub language: String,
    pub lines: Vec<String>,
    /// What the comment before it says that it needs: `<!-- needs: torch -->`.
    pub needs: Option<String>,
    /// Why it is not run: `<!-- not run: it takes minutes -->`.
    pub not_run: Option<String>,
}

/// A command of a `console` block.
#[derive(Debug)]
pub struct Command {
    /// Its line in the page, from 1.
    pub line: usize,
    pub text: String,
    /// What the page says that it prints.
    pub shown: Vec<String>,
}

impl Page {
    pub fn read(name: &str) -> Page {
        let text = fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        Page { name: name.to_string(), text }
    }

    /// The fenced blocks.
    pub fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let (mut needs, mut not_run) = (None, None);
        let mut lines = self.text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            if let Some(language) = line.strip_prefix("```") {
                let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| !line.starts_with("```"));
                let lines = inside.map(String::from).collect();
                let (needs, not_run) = (needs.take(), not_run.take());
                blocks.push(Block {
                    line: number + 2,
                    language: language.trim().into(),
                    lines,
                    needs,
                    not_run,
                });
            } else if let Some(comment) =
                line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->"))
            {
                needs = comment.strip_prefix("needs: ").map(String::from).or(needs);
                not_run = comment.strip_prefix("not run: ").map(String::from).or(not_run);
            } else if !line.trim().is_empty() {
                (needs, not_run) = (None, None);
            }
        }
        blocks
    }

    /// The page without its blocks.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut is_inside = false;
        self.text.lines().filter(move |line| {
            let is_fence = line.starts_with("```");
            is_inside ^= is_fence;
            !is_inside && !is_fence
        })
    }

    /// The headings, as links name them.
    pub fn anchors(&self) -> Vec<String> {
        let headings = self.prose().filter(|line| line.starts_with('#'));
        let slug = |heading: &str| {
            let kept = heading.trim_start_matches('#').trim().chars();
            let kept = kept.filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.collect::<String>().to_lowercase().replace(' ', "-")
        };
        headings.map(slug).collect()
    }

    /// Where its links and pictures point to.
    pub fn links(&self) -> Vec<String> {
        let mut links = Vec::new();
        for line in self.prose() {
            for rest in line.split("](").skip(1) {
                links.extend(rest.split_once(')').map(|(link, _)| link.to_string()));
            }
        }
        links
    }

    /// What stands below a heading, up to the next one.
    pub fn section(&self, heading: &str) -> Option<Vec<&str>> {
        let mut lines = self.prose().skip_while(|line| line.trim_end() != heading);
        lines.next()?;
        Some(lines.take_while(|line| !line.starts_with('#')).collect())
    }
}

impl Block {
    /// The name that a comment in its first line gives it, if it is a file: `# mine.toml`.
    pub fn file(&self) -> Option<&str> {
        let name = self.lines.first()?.strip_prefix("# ")?;
        let is_name = name.contains('.') && !name.contains(' ') && !name.ends_with('.');
        (is_name && self.language != "console").then_some(name)
    }

    /// The commands of a `console` block: `$ ` begins one, a backslash at the end of its line continues it.
    pub fn commands(&self) -> Vec<Command> {
        let mut commands: Vec<Command> = Vec::new();
        for (i, line) in self.lines.iter().enumerate() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(text), _) => {
                    commands.push(Command { line: self.line + i, text: text.into(), shown: Vec::new() });
                }
                (None, Some(last)) if last.shown.is_empty() && last.text.ends_with('\\') => {
                    last.text.pop();
                    last.text += line.trim_start();
                }
                (None, Some(last)) => last.shown.push(line.clone()),
                (None, None) => panic!("line {}: a console block begins with a command", self.line),
            }
        }
        commands
    }
}
