"""Frequency lists for property-based tests."""

from hypothesis import strategies as st

from dp_transforms.mechanisms import FrequencyList


@st.composite
def frequency_lists(draw: st.DrawFn, largest: int = 10**9) -> FrequencyList:
    """One run, stairs of single ranks, huge gaps, square corners, and mixtures of all."""
    far = [size for size in (64, 1000, 10**6, 10**9) if size <= largest]
    steps = st.one_of(st.just(1), st.integers(1, 5), st.sampled_from(far))
    repeats = st.one_of(st.just(1), st.integers(1, 5), st.sampled_from(far[:3]))
    runs = draw(st.lists(st.tuples(steps, repeats), max_size=8))
    values, value = [], 0
    for step, _ in runs:
        value += step
        values.append(value)
    return FrequencyList(values[::-1], [repeat for _, repeat in runs][::-1])
