//! The registry against a plain list, and what a change costs.

use proptest::prelude::*;

use super::*;

fn agent(name: usize) -> Agent {
    let id = AgentId::new(format!("agent-{name}")).expect("a good id");
    let name = id.to_string();
    let presence = Presence::default();
    Agent {
        id,
        name,
        role: Role::Worker,
        capabilities: vec!["review".into()],
        supported_actions: Vec::new(),
        epoch: Epoch(1),
        removed: false,
        heartbeat_ms: 0,
        presence,
    }
}

// Fails under: a change that copies all groups or all parts of the index.
#[test]
fn d1_a_registration_copies_one_group_and_one_part_of_the_index() {
    let mut agents: Agents = (0..5_000).map(agent).collect();
    let before = agents.clone();
    agents.set(agents.next_number(), Some(agent(5_000)));
    let copied =
        agents.by_number.iter().zip(&before.by_number).filter(|(new, old)| !Arc::ptr_eq(new, old)).count();
    let parts = agents.by_id.iter().zip(&before.by_id).filter(|(new, old)| !Arc::ptr_eq(new, old)).count();
    assert_eq!((copied, parts), (1, 1), "of {} groups and {PARTS} parts", agents.by_number.len());
    assert_eq!((before.len(), agents.len()), (5_000, 5_001), "a reader keeps what it has");
}

proptest! {
    // Fails under: `cut` leaving an empty group behind, `set` leaving the old id in the index, a wrong group.
    #[test]
    fn d1_the_registry_does_what_a_list_does(
        start in 0usize..300,
        changes in prop::collection::vec((0usize..310, 0usize..40, 0u8..4), 0..40),
    ) {
        let mut list: Vec<Agent> = (0..start).map(|name| agent(name + 1_000)).collect();
        let mut agents: Agents = list.iter().cloned().collect();
        for (at, name, what) in changes {
            match what {
                // The newest is taken back, as by a refused commit.
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
                    let bearer = list.iter().position(|one| one.id == new.id && !one.removed);
                    let index = bearer.unwrap_or(list.len());
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
                let bearer = list.iter().position(|one| one.id == id && !one.removed);
                prop_assert_eq!(agents.number(&id), bearer.map(|index| AgentNo(index as u64 + 1)));
            }
        }
    }
}
