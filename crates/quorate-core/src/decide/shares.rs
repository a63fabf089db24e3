//! Shares: what one agent may use of a quota of its space or of another agent's inbox, so that it leaves room for others.
//! The hub and principals that are not agents are limited by the quotas only.

use crate::decide::Draft;
use crate::ids::{AgentId, AgentNo};
use crate::limits::{INBOX_MAX, INBOX_PER_SENDER_MAX, INBOX_SHARED_FROM, OPEN_TASKS_PER_AGENT_MAX};
use crate::recipient::{QueueId, Recipient};
use crate::refused::{Code, Refused};

impl Draft<'_> {
    /// Refuses an agent that has `count` of something, if that is all it may have.
    pub(super) fn check_share(
        &self,
        what: &str,
        count: usize,
        max: usize,
        hint: &'static str,
    ) -> Result<(), Refused> {
        if count < max {
            return Ok(());
        }
        let detail = format!("{} has reached its maximum number of {what}", self.commit.principal.to_text());
        Err(Refused::new(Code::LimitExceeded, detail).limit(max as u64).hint(hint))
    }

    /// Refuses tasks that exceed the share of the agent that creates them.
    pub(super) fn check_task_share(&self, creator: AgentNo, count: usize) -> Result<(), Refused> {
        let open = self.working.tasks().created_count(creator);
        if open + count <= OPEN_TASKS_PER_AGENT_MAX {
            return Ok(());
        }
        let principal = self.commit.principal.to_text();
        let detail =
            format!("{principal} has created {open} open tasks, and {count} more would exceed its share");
        Err(Refused::new(Code::QueueFull, detail)
            .limit(OPEN_TASKS_PER_AGENT_MAX as u64)
            .hint("wait until some of them have ended, or cancel tasks; no task was created"))
    }

    /// Refuses a message if the inbox or pool of any recipient is full, or if it is crowded and the sender has used its
    /// share of the rest.
    pub(super) fn check_inbox_capacity(
        &mut self,
        from: Option<&AgentId>,
        recipients: &[Recipient],
    ) -> Result<(), Refused> {
        for to in recipients {
            let queue = to.queue();
            let open = self.working.inbox_at(queue).open;
            if open < INBOX_SHARED_FROM {
                self.working.clear_crowded_sends(queue);
                continue;
            }
            if open >= INBOX_MAX {
                return Err(Refused::new(Code::QueueFull, format!("{} is full", self.inbox_name(queue)))
                    .limit(INBOX_MAX as u64)
                    .hint("retry after some deliveries have been processed; nothing was sent"));
            }
            if let Some(sender) = from.and_then(|from| self.working.agents().number(from)) {
                self.use_inbox_share(queue, sender, open)?;
            }
        }
        Ok(())
    }

    fn use_inbox_share(&mut self, queue: QueueId, sender: AgentNo, open: usize) -> Result<(), Refused> {
        let sent = self.working.crowded_sends(queue, sender);
        if sent >= INBOX_PER_SENDER_MAX {
            let detail = format!(
                "{} has {open} open deliveries, and agent {} has used its share of the rest",
                self.inbox_name(queue),
                self.agent_id(sender)
            );
            return Err(Refused::new(Code::QueueFull, detail)
                .limit(u64::from(INBOX_PER_SENDER_MAX))
                .hint("retry after some deliveries have been processed; nothing was sent"));
        }
        self.working.set_crowded_sends(queue, sender, sent + 1);
        Ok(())
    }

    fn inbox_name(&self, queue: QueueId) -> String {
        let agents = self.working.agents();
        match queue {
            QueueId::Agent(agent) => {
                let id = agents.get(agent).map_or("", |agent| agent.id.as_str());
                format!("the inbox of agent {id}")
            }
            QueueId::Pool(pool) => {
                let capability = self.working.pools().get(pool).map_or("", |pool| pool.capability.as_str());
                format!("the pool can:{capability}")
            }
        }
    }
}
