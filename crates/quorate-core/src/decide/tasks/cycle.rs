//! Finding a circle among tasks that are made together. Tasks that exist already cannot be part of one: they need
//! nothing that is newer than themselves.

/// A circle in a graph, as the numbers along it; the first is not repeated. `needs` lists for each what it needs.
pub(super) fn find(needs: &[Vec<u32>]) -> Option<Vec<usize>> {
    /// What is known of a task.
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Never,
        OnThisPath,
        Harmless,
    }
    let mut seen = vec![Seen::Never; needs.len()];
    for start in 0..needs.len() {
        if seen[start] != Seen::Never {
            continue;
        }
        // Each step of the path with how many of its needs were looked at. A list, since a chain may be long.
        let mut path = vec![(start, 0)];
        seen[start] = Seen::OnThisPath;
        while let Some((at, looked)) = path.last_mut() {
            let Some(next) = needs[*at].get(*looked).map(|next| *next as usize) else {
                seen[*at] = Seen::Harmless;
                path.pop();
                continue;
            };
            *looked += 1;
            match seen[next] {
                Seen::Harmless => {}
                Seen::Never => {
                    seen[next] = Seen::OnThisPath;
                    path.push((next, 0));
                }
                Seen::OnThisPath => {
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
    use super::find;

    #[test]
    fn i10_a_circle_is_found_wherever_it_is() {
        assert_eq!(find(&[vec![0]]), Some(vec![0]));
        assert_eq!(find(&[vec![1], vec![2], vec![1]]), Some(vec![1, 2]));
        assert_eq!(find(&[vec![], vec![0, 2], vec![0, 3], vec![1]]), Some(vec![1, 2, 3]));
    }

    #[test]
    fn i10_what_meets_again_is_no_circle() {
        assert_eq!(find(&[vec![1, 2], vec![3], vec![3], vec![]]), None);
        assert_eq!(find(&[]), None);
    }

    #[test]
    fn i10_a_long_chain_needs_no_deep_stack() {
        let chain: Vec<Vec<u32>> = (0..100_000).map(|n| vec![n + 1]).chain([vec![]]).collect();
        assert_eq!(find(&chain), None);
    }
}
