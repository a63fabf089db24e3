//! As much of a Cargo.toml as the rules need: its name and its dependencies, with their lines.
//!
//! Not a TOML parser: it knows tables, keys, and values that go on over several lines until their brackets are closed.

/// One crate's Cargo.toml.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// The line and the value of the feature `default`.
    pub(crate) default_features: Option<(usize, String)>,
}

/// A crate that this one names.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// The package's own name, also when it is renamed here.
    pub(crate) name: String,
    pub(crate) use_for: Use,
    /// Everything that the manifest says about it.
    pub(crate) text: String,
    pub(crate) line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// `[dependencies]` and `[build-dependencies]`: part of what is shipped or of how it is built.
    Product,
    Tests,
}

/// Reads a manifest.
pub(crate) fn read(text: &str) -> Manifest {
    let mut manifest = Manifest::default();
    let mut table = String::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, first)) = lines.next() {
        let mut entry = without_comment(first).trim().to_owned();
        if entry.starts_with('[') {
            table = entry.trim_matches(['[', ']']).trim().to_owned();
            if let Some((use_for, name)) = own_table(&table) {
                let (name, text) = (name.to_owned(), String::new());
                manifest.dependencies.push(Dependency { name, use_for, text, line: index + 1 });
            }
            continue;
        }
        while is_open(&entry) {
            let Some((_, next)) = lines.next() else { break };
            entry.push_str(without_comment(next).trim());
        }
        if let Some((key, value)) = entry.split_once('=') {
            manifest.enter(&table, key.trim(), value.trim(), index + 1);
        }
    }
    manifest
}

impl Manifest {
    fn enter(&mut self, table: &str, key: &str, value: &str, line: usize) {
        if own_table(table).is_some() {
            if let Some(last) = self.dependencies.last_mut() {
                last.text.push_str(&format!("{key} = {value}\n"));
                last.rename();
            }
        } else if let Some(use_for) = use_of(table) {
            let (name, tail) = key.split_once('.').unwrap_or((key, ""));
            let text = if tail.is_empty() { value.to_owned() } else { format!("{tail} = {value}") };
            let name = name.trim_matches('"').to_owned();
            let mut dependency = Dependency { name, use_for, text, line };
            dependency.rename();
            self.dependencies.push(dependency);
        } else if table == "package" && key == "name" {
            self.name = value.trim_matches('"').to_owned();
        } else if table == "features" && key == "default" {
            self.default_features = Some((line, value.to_owned()));
        }
    }
}

impl Dependency {
    /// `hub = { package = "quorate" }` is a dependency on quorate.
    fn rename(&mut self) {
        let Some((_, rest)) = self.text.split_once("package = \"") else { return };
        if let Some((name, _)) = rest.split_once('"') {
            self.name = name.to_owned();
        }
    }
}

/// What the dependencies of this table are for; the table may be one for a target.
fn use_of(table: &str) -> Option<Use> {
    let last = if table.starts_with("target.") { table.rsplit('.').next()? } else { table };
    match last {
        "dependencies" | "build-dependencies" => Some(Use::Product),
        "dev-dependencies" => Some(Use::Tests),
        _ => None,
    }
}

/// `[dependencies.tokio]`: a table for one dependency.
fn own_table(table: &str) -> Option<(Use, &str)> {
    let (before, name) = table.rsplit_once('.')?;
    let use_for = use_of(before)?;
    Some((use_for, name.trim_matches('"')))
}

fn is_open(entry: &str) -> bool {
    let count = |marks: [char; 2]| entry.matches(marks).count();
    count(['[', '{']) > count([']', '}'])
}

fn without_comment(line: &str) -> &str {
    let mut in_string = false;
    for (at, char) in line.char_indices() {
        match char {
            '"' => in_string = !in_string,
            '#' if !in_string => return &line[..at],
            _ => {}
        }
    }
    line
}
