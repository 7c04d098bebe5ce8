//! What a rule remembers of flows, hosts and ports: a list by their numbers, which are dense.

/// The state of one of them in a rule's own list, made when it is first needed.
#[inline]
pub(super) fn state_of<T: Default>(states: &mut Vec<T>, number: usize) -> &mut T {
    if states.len() <= number {
        grow(states, number);
    }
    &mut states[number]
}

#[cold]
fn grow<T: Default>(states: &mut Vec<T>, number: usize) {
    states.resize_with(number + 1, T::default);
}
