//! Minimal reader for Cargo.toml: the package name and the dependencies, with their line numbers.
//!
//! Not a TOML parser: it understands tables, keys, and values in brackets that span several lines.

/// Cargo.toml of a crate.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// Line number and value of the feature `default`.
    pub(crate) default_features: Option<(usize, String)>,
}

/// Dependency of a crate.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// Name of the package, even if the dependency is renamed.
    pub(crate) name: String,
    pub(crate) use_for: DependencyUse,
    /// Value of the dependency in the manifest, as text.
    pub(crate) text: String,
    pub(crate) line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DependencyUse {
    /// `[dependencies]` and `[build-dependencies]`.
    Product,
    /// `[dev-dependencies]`.
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
            if let Some((use_for, name)) = dependency_table(&table) {
                let (name, text) = (name.to_owned(), String::new());
                manifest.dependencies.push(Dependency { name, use_for, text, line: index + 1 });
            }
            continue;
        }
        while has_open_bracket(&entry) {
            let Some((_, next)) = lines.next() else { break };
            entry.push_str(without_comment(next).trim());
        }
        if let Some((key, value)) = entry.split_once('=') {
            manifest.add(&table, key.trim(), value.trim(), index + 1);
        }
    }
    manifest
}

impl Manifest {
    fn add(&mut self, table: &str, key: &str, value: &str, line: usize) {
        if dependency_table(table).is_some() {
            if let Some(last) = self.dependencies.last_mut() {
                last.text.push_str(&format!("{key} = {value}\n"));
                last.resolve_rename();
            }
        } else if let Some(use_for) = use_of(table) {
            let (name, rest_of_key) = key.split_once('.').unwrap_or((key, ""));
            let text =
                if rest_of_key.is_empty() { value.to_owned() } else { format!("{rest_of_key} = {value}") };
            let name = name.trim_matches('"').to_owned();
            let mut dependency = Dependency { name, use_for, text, line };
            dependency.resolve_rename();
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
    fn resolve_rename(&mut self) {
        let Some((_, rest)) = self.text.split_once("package = \"") else { return };
        if let Some((name, _)) = rest.split_once('"') {
            self.name = name.to_owned();
        }
    }
}

/// Returns the use of the dependencies in a table, which may be target-specific.
fn use_of(table: &str) -> Option<DependencyUse> {
    let last = if table.starts_with("target.") { table.rsplit('.').next()? } else { table };
    match last {
        "dependencies" | "build-dependencies" => Some(DependencyUse::Product),
        "dev-dependencies" => Some(DependencyUse::Tests),
        _ => None,
    }
}

/// Returns the use and the name for a table of a single dependency, such as `[dependencies.tokio]`.
fn dependency_table(table: &str) -> Option<(DependencyUse, &str)> {
    let (before, name) = table.rsplit_once('.')?;
    let use_for = use_of(before)?;
    Some((use_for, name.trim_matches('"')))
}

fn has_open_bracket(entry: &str) -> bool {
    let count = |brackets: [char; 2]| entry.matches(brackets).count();
    count(['[', '{']) > count([']', '}'])
}

fn without_comment(line: &str) -> &str {
    let mut in_string = false;
    for (offset, char) in line.char_indices() {
        match char {
            '"' => in_string = !in_string,
            '#' if !in_string => return &line[..offset],
            _ => {}
        }
    }
    line
}
