import pytest

from dp_transforms.engines.memory import group_limits, memory_limit

GIB = 1 << 30
SERVICE = "system.slice/jobs.service"
GROUPS = {
    "of the root": ("0::/\n", {"memory.max": 3}, [3]),
    "of a service": (f"0::/{SERVICE}\n", {f"{SERVICE}/memory.max": 2}, [2]),
    "around it": (
        f"0::/{SERVICE}/x\n", {f"{SERVICE}/x/memory.max": 5, "system.slice/memory.max": 4}, [4, 5]
    ),
    "without one": (f"0::/{SERVICE}\n", {f"{SERVICE}/memory.max": "max"}, []),
    "of version 1": (
        "9:cpu:/a\n4:memory:/a/b\n", {"memory/a/memory.limit_in_bytes": 7, "a/memory.max": 1}, [7]
    ),
    "of version 1, mounted": ("4:cpu,memory:/gone\n", {"memory/memory.limit_in_bytes": 6}, [6]),
    "of others": (f"0::/{SERVICE}\n", {"user.slice/memory.max": 1}, []),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS)
def test_limits_of_control_groups_around_the_process_are_found(tmp_path, name):
    membership, files, expected = GROUPS[name]
    (tmp_path / "cgroup").write_text(membership)
    for path, limit in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{limit}\n")
    assert sorted(group_limits(tmp_path, tmp_path / "cgroup")) == expected


def test_the_limit_is_that_of_the_tightest_group(monkeypatch):
    monkeypatch.setattr("dp_transforms.engines.memory.group_limits", lambda: iter([GIB, 5]))
    assert memory_limit() == 5


def test_a_system_without_control_groups_has_no_such_limits(tmp_path):
    assert list(group_limits(tmp_path / "none", tmp_path / "neither")) == []
