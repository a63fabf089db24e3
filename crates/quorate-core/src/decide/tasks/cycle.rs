//! Cycle detection among tasks that are created together. Existing tasks cannot be part of a cycle: they only depend on
//! older tasks.

/// Finds a cycle and returns its nodes; the first is not repeated. `needs` lists the dependencies of each node.
pub(super) fn find_cycle(needs: &[Vec<u32>]) -> Option<Vec<usize>> {
    /// State of a node in the depth-first search.
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        Unvisited,
        OnPath,
        Done,
    }
    let mut visits = vec![Visit::Unvisited; needs.len()];
    for start in 0..needs.len() {
        if visits[start] != Visit::Unvisited {
            continue;
        }
        // Each node of the path with the number of its visited dependencies. Iterative, since a chain may be long.
        let mut path = vec![(start, 0)];
        visits[start] = Visit::OnPath;
        while let Some((at, visited)) = path.last_mut() {
            let Some(next) = needs[*at].get(*visited).map(|next| *next as usize) else {
                visits[*at] = Visit::Done;
                path.pop();
                continue;
            };
            *visited += 1;
            match visits[next] {
                Visit::Done => {}
                Visit::Unvisited => {
                    visits[next] = Visit::OnPath;
                    path.push((next, 0));
                }
                Visit::OnPath => {
                    let first = path.iter().position(|(at, _)| *at == next).unwrap_or(0);
                    return Some(path[first..].iter().map(|(at, _)| *at).collect());
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::find_cycle;

    #[test]
    fn i10_a_cycle_is_found_at_any_position() {
        assert_eq!(find_cycle(&[vec![0]]), Some(vec![0]));
        assert_eq!(find_cycle(&[vec![1], vec![2], vec![1]]), Some(vec![1, 2]));
        assert_eq!(find_cycle(&[vec![], vec![0, 2], vec![0, 3], vec![1]]), Some(vec![1, 2, 3]));
    }

    #[test]
    fn i10_a_diamond_is_not_a_cycle() {
        assert_eq!(find_cycle(&[vec![1, 2], vec![3], vec![3], vec![]]), None);
        assert_eq!(find_cycle(&[]), None);
    }

    #[test]
    fn i10_a_long_chain_does_not_overflow_the_stack() {
        let chain: Vec<Vec<u32>> = (0..100_000).map(|n| vec![n + 1]).chain([vec![]]).collect();
        assert_eq!(find_cycle(&chain), None);
    }
}
