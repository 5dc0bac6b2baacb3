import pytest

from dp_transforms.__main__ import sort_settings

INTEL = "vendor_id\t: GenuineIntel\ncpu family\t: 6\nflags\t\t: sse avx512f\n"
ZEN_4 = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nflags\t\t: sse avx512f\n"


@pytest.mark.parametrize(
    ("cpuinfo", "found"),
    [
        (ZEN_4 + "\n" + INTEL, ["NPY_DISABLE_CPU_FEATURES"]),
        (INTEL + "\n" + ZEN_4, []),
        (ZEN_4.replace("25", "26"), []),
        (ZEN_4.replace("avx512f", "avx2"), []),
        ("", []),
    ],
)
def test_only_zen_4_sorts_in_another_way(tmp_path, cpuinfo, found):
    (tmp_path / "cpuinfo").write_text(cpuinfo)
    assert [*sort_settings(str(tmp_path / "cpuinfo"))] == found
    assert sort_settings(str(tmp_path / "none")) == {}
