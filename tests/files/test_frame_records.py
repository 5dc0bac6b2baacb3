"""Objects in memory as records."""

import sys
import types

import dp_transforms as dp


def test_values_are_read_while_another_thread_imports_pandas(monkeypatch):
    # Without its attributes yet: this was an error about the data, and cost a session its budget.
    monkeypatch.setitem(sys.modules, "pandas", types.ModuleType("pandas"))
    visits = {"who": [1, 2, 2], "page": ["a", None, "b"]}
    released = dp.release(
        visits, "who", "page", epsilon=400, max_partitions_per_user=4, drop_nulls=True
    )
    assert list(released.released) == [(1, 2)]
