//! What earlier attempts and dependencies left for the holder of a task. It is returned with the claim, up to a size.

use bytes::Bytes;
use quorate_api::payload::render_bytes;
use quorate_core::{Item, ItemKey, ItemKind, PartRef, Task, TaskState};
use quorate_store::{ReadQuery, ReadResult};

use crate::error::Error;
use crate::space::Space;
use crate::task::{DependencyResult, TaskContext};

impl Space {
    /// Reads the context of a leased task. `capacity` is the number of bytes that may still be read.
    pub(super) async fn task_context(&self, task: &Task, capacity: &mut u64) -> Result<TaskContext, Error> {
        let mut context = TaskContext::default();
        // What this attempt depends on comes first, then what is newest: that is what a limit keeps.
        if !task.spec.depends_on.is_empty() {
            let key = |id: &quorate_core::TaskId| ItemKey::new(ItemKind::Task, id.to_shared());
            let reads = task.spec.depends_on.iter().map(|id| ReadQuery::Item(key(id))).collect();
            for row in self.engine().store().read(self.number(), reads).await? {
                let ReadResult::Item(Some(Item::Task(dependency))) = row else { continue };
                let end = match &dependency.state {
                    TaskState::Done(end) | TaskState::Partial(end) => Some(&**end),
                    _ => None,
                };
                let content_type = end.and_then(|end| end.content_type.clone());
                let result =
                    self.bytes_within(end.and_then(|end| end.result), capacity, &mut context).await?;
                context.dependencies.push(DependencyResult {
                    task: dependency.spec.id.clone(),
                    status: dependency.status(),
                    result: result.map(|bytes| render_bytes(&bytes, content_type.as_deref())),
                    result_content_type: content_type,
                });
            }
        }
        let details = task.last_failure.as_ref().and_then(|failure| failure.details);
        let details = self.bytes_within(details, capacity, &mut context).await?;
        context.details = details.map(|bytes| render_bytes(&bytes, None));
        for partial in task.partials.iter().rev() {
            if let Some(bytes) = self.bytes_within(Some(partial.part), capacity, &mut context).await? {
                context.partials.insert(0, render_bytes(&bytes, None));
            }
        }
        Ok(context)
    }

    /// Reads a payload unless it exceeds the capacity.
    async fn bytes_within(
        &self,
        part: Option<PartRef>,
        capacity: &mut u64,
        context: &mut TaskContext,
    ) -> Result<Option<Bytes>, Error> {
        let Some(PartRef { seq, part }) = part else { return Ok(None) };
        // One byte more, to notice that it does not fit.
        let bytes = self.payload_range(seq, part, (0, *capacity + 1)).await?.bytes;
        let length = bytes.len() as u64;
        if length > *capacity {
            context.truncated = true;
            return Ok(None);
        }
        *capacity -= length;
        Ok(Some(bytes))
    }
}
