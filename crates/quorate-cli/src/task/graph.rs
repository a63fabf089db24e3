//! `quorate task graph`: renders task dependencies as a text tree.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::exit::{CommandError, NOT_FOUND};
use crate::hub::{Hub, Resource};
use crate::output::{ListResponse, OutputArgs, field};
use crate::terminal;

/// Maximum number of tasks.
const SHOWN_MAX: &str = "1000";

pub(super) async fn run(hub: &Hub, output: &OutputArgs, id: Option<String>) -> anyhow::Result<()> {
    let root = match id {
        Some(id) => Some(hub.resolve_id(Resource::Task, &id).await?),
        None => None,
    };
    let response = hub.get("/v1/tasks", &[("limit", Some(SHOWN_MAX.to_owned()))]).await?;
    if output.is_json() {
        return output.list(&response, "tasks", &[]);
    }
    let listed = ListResponse::parse(&response, "tasks")?;
    let tasks = listed.values();
    let graph = Graph::new(&tasks);
    let roots = match &root {
        Some(root) if !graph.tasks.contains_key(root) => {
            let message =
                format!("there is no task {} among the newest {SHOWN_MAX}", terminal::sanitize_line(root));
            return Err(CommandError::new(NOT_FOUND, message, format!("quorate task show {root}")).into());
        }
        Some(root) => vec![root.clone()],
        None => graph.roots(),
    };
    if roots.is_empty() {
        terminal::note("no tasks");
    }
    let mut drawn = BTreeSet::new();
    for root in roots {
        graph.draw(&root, "", "", &mut drawn).into_iter().for_each(terminal::print);
    }
    if listed.cursor.is_some() {
        terminal::note(format!("only the newest {SHOWN_MAX} tasks are included"));
    }
    Ok(())
}

struct Graph<'a> {
    tasks: BTreeMap<String, &'a Value>,
}

impl<'a> Graph<'a> {
    fn new(tasks: &'a [Value]) -> Self {
        Self { tasks: tasks.iter().map(|task| (field(task, "id"), task)).collect() }
    }

    fn dependencies(&self, id: &str) -> Vec<String> {
        let listed = self.tasks.get(id).and_then(|task| task["dependsOn"].as_array());
        listed.map_or_else(Vec::new, |ids| ids.iter().map(crate::output::to_text).collect())
    }

    /// Returns the tasks that no other task depends on, which are the roots of the trees.
    fn roots(&self) -> Vec<String> {
        let needed: BTreeSet<String> = self.tasks.keys().flat_map(|id| self.dependencies(id)).collect();
        self.tasks.keys().filter(|id| !needed.contains(*id)).cloned().collect()
    }

    /// Renders a task and its dependencies below it. Dependencies of a task that was rendered before are omitted. Uses a work
    /// list instead of recursion, so that a deep graph cannot overflow the stack.
    fn draw(&self, root: &str, prefix: &str, indent: &str, drawn: &mut BTreeSet<String>) -> Vec<String> {
        let mut lines = Vec::new();
        let mut work = vec![(root.to_owned(), prefix.to_owned(), indent.to_owned())];
        while let Some((id, prefix, indent)) = work.pop() {
            let Some(task) = self.tasks.get(&id) else {
                lines.push(terminal::sanitize_line(&format!("{prefix}? {id}  not listed")));
                continue;
            };
            let dependencies = self.dependencies(&id);
            let is_repeated = !drawn.insert(id.clone()) && !dependencies.is_empty();
            let status = field(task, "status");
            let suffix = if is_repeated { "  (see above)" } else { "" };
            lines.push(terminal::sanitize_line(&format!(
                "{prefix}{} {id}  {}  {status}{suffix}",
                glyph(&status),
                field(task, "type")
            )));
            if is_repeated {
                continue;
            }
            for (index, dependency) in dependencies.iter().enumerate().rev() {
                let is_last = index + 1 == dependencies.len();
                let (branch, continuation) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
                work.push((
                    dependency.clone(),
                    format!("{indent}{branch}"),
                    format!("{indent}{continuation}"),
                ));
            }
        }
        lines
    }
}

fn glyph(status: &str) -> char {
    match status {
        "done" => '✓',
        "partial" => '~',
        "failed" | "escalated" => '✗',
        "cancelled" => '-',
        "blocked" => '■',
        "leased" => '▶',
        _ => '·',
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::Graph;

    #[test]
    fn dependencies_are_rendered_below_their_task_once() {
        let tasks = [
            json!({"id": "deploy", "type": "run", "status": "blocked", "dependsOn": ["test", "build"]}),
            json!({"id": "test", "type": "run", "status": "leased", "dependsOn": ["build"]}),
            json!({"id": "build", "type": "run", "status": "done", "dependsOn": ["fetch"]}),
            json!({"id": "fetch", "type": "run", "status": "done", "dependsOn": ["gone"]}),
        ];
        let graph = Graph::new(&tasks);
        assert_eq!(graph.roots(), ["deploy"]);
        let lines = graph.draw("deploy", "", "", &mut BTreeSet::new());
        let expected = [
            "■ deploy  run  blocked",
            "├─ ▶ test  run  leased",
            "│  └─ ✓ build  run  done",
            "│     └─ ✓ fetch  run  done",
            "│        └─ ? gone  not listed",
            "└─ ✓ build  run  done  (see above)",
        ];
        assert_eq!(lines, expected);
    }
}
