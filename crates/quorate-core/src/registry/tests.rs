//! Compares the registry with a plain list, and checks that a change copies little.

use proptest::prelude::*;

use super::*;

fn agent(name: usize) -> Agent {
    let id = AgentId::new(format!("agent-{name}")).expect("a valid id");
    let name = id.to_string();
    let presence = Presence::default();
    Agent {
        id,
        name,
        role: AgentRole::Worker,
        capabilities: vec!["review".into()],
        supported_actions: Vec::new(),
        epoch: Epoch(1),
        removed: false,
        heartbeat_ms: 0,
        declaration: None,
        presence,
    }
}

// Fails under: a change that copies all chunks or all shards of the index.
#[test]
fn d1_a_registration_copies_one_chunk_and_one_shard_of_the_index() {
    let mut agents: AgentRegistry = (0..5_000).map(agent).collect();
    let before = agents.clone();
    agents.set(agents.next_number(), Some(agent(5_000)));
    let copied =
        agents.by_number.iter().zip(&before.by_number).filter(|(new, old)| !Arc::ptr_eq(new, old)).count();
    let shards = agents.by_id.iter().zip(&before.by_id).filter(|(new, old)| !Arc::ptr_eq(new, old)).count();
    assert_eq!((copied, shards), (1, 1), "of {} chunks and {SHARDS} shards", agents.by_number.len());
    assert_eq!((before.len(), agents.len()), (5_000, 5_001), "a reader keeps its version");
}

proptest! {
    // Fails under: `truncate` leaving an empty chunk behind, `set` leaving the old id in the index, a wrong chunk.
    #[test]
    fn d1_the_registry_behaves_like_a_list(
        start in 0usize..300,
        changes in prop::collection::vec((0usize..310, 0usize..40, 0u8..4), 0..40),
    ) {
        let mut list: Vec<Agent> = (0..start).map(|name| agent(name + 1_000)).collect();
        let mut agents: AgentRegistry = list.iter().cloned().collect();
        for (at, name, kind) in changes {
            match kind {
                // The newest is removed, as by a reverted commit.
                0 if !list.is_empty() => {
                    list.pop();
                    agents.set(AgentNo(list.len() as u64 + 1), None);
                }
                1 if at < list.len() => {
                    list[at].removed = true;
                    agents.set(AgentNo(at as u64 + 1), Some(list[at].clone()));
                }
                _ => {
                    let new = agent(name);
                    let existing = list.iter().position(|agent| agent.id == new.id && !agent.removed);
                    let index = existing.unwrap_or(list.len());
                    if index == list.len() {
                        list.push(new.clone());
                    } else {
                        list[index] = new.clone();
                    }
                    agents.set(AgentNo(index as u64 + 1), Some(new));
                }
            }
            let all: Vec<_> = agents.iter().map(|(_, agent)| agent.clone()).collect();
            prop_assert_eq!(&all, &list);
            prop_assert_eq!(agents.len(), list.len());
            for name in 0..40 {
                let id = agent(name).id;
                let existing = list.iter().position(|agent| agent.id == id && !agent.removed);
                prop_assert_eq!(agents.number(&id), existing.map(|index| AgentNo(index as u64 + 1)));
            }
        }
    }
}
