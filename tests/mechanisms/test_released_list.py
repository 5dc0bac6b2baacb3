import copy
import os
import pickle

import apache_beam as beam
import numpy as np
import pytest

from dp_transforms.mechanisms import (
    Eta,
    IntegerPartitionMechanism,
    PartitionBounds,
    RandomTape,
)
from dp_transforms.mechanisms.frequency_list import FrequencyList, ReleasedList
from dp_transforms.mechanisms.partition.table import PartitionTable
from dp_transforms.mechanisms.selection import OptimalSelection
from dp_transforms.postprocessing.estimates import GRID
from dp_transforms.postprocessing.walk_intervals import WalkIntervals
from dp_transforms.reports.lists import plot_list, to_arrow, to_pandas
from tests.beam_runs import run
from tests.tapes import InsecureSeededTape

PRIVATE = FrequencyList([90210, 31, 1], [1, 2, 777])
MECHANISM = IntegerPartitionMechanism(epsilon=0.5, sensitivity=2)
RELEASED = MECHANISM.release(PRIVATE, InsecureSeededTape(1))


@pytest.mark.parametrize("write", [str, "{}".format, lambda x: f"{x}", lambda x: "%s" % x])  # noqa: UP031
def test_a_private_list_has_no_text(write):
    with pytest.raises(TypeError, match="a private frequency list has no text") as error:
        write(PRIVATE)
    for text in (str(error.value), repr(PRIVATE), repr([PRIVATE])):
        assert not any(number in text for number in ("90210", "777", "31,"))


def test_a_release_is_its_csv_file_in_text(tmp_path):
    assert isinstance(RELEASED, ReleasedList)
    RELEASED.to_csv(tmp_path / "list.csv")
    assert FrequencyList.from_csv(tmp_path / "list.csv") == RELEASED
    assert (tmp_path / "list.csv").read_text() == f"{RELEASED}\n"


def test_it_serves_wherever_a_list_does():
    plain = FrequencyList(RELEASED.frequencies, RELEASED.multiplicities)
    assert plain == RELEASED and RELEASED == plain and hash(plain) == hash(RELEASED)
    assert PRIVATE.l1_distance(RELEASED) == RELEASED.l1_distance(PRIVATE) > 0
    assert MECHANISM.release(RELEASED).mechanism == MECHANISM
    travelled = pickle.loads(pickle.dumps(RELEASED))
    assert type(travelled) is ReleasedList
    assert (travelled, travelled.mechanism) == (RELEASED, MECHANISM)


def test_it_shows_itself():
    many = ReleasedList(range(100, 0, -1), [1] * 100, MECHANISM)
    assert repr(many).startswith("ReleasedList([100, 99, 98, 97, 96, 95, ...], [1, 1,")
    page = many._repr_html_()
    assert "<td>81</td>" in page and "<td>80</td>" not in page
    assert "100 partitions, total 5,050, epsilon 0.5" in page


def test_a_pipeline_writes_the_list_or_nothing(tmp_path):
    write = beam.io.WriteToText(f"{tmp_path}/list", shard_name_template="")
    with pytest.raises(TypeError, match="a private frequency list has no text"):
        run([PRIVATE], write)
    assert not (tmp_path / "list").exists()
    run([RELEASED], write)
    assert FrequencyList.from_csv(tmp_path / "list") == RELEASED


@pytest.mark.parametrize("wrong", [[3, 1, 1], (3, 1), {"jazz": 3}, 3, None])
def test_what_is_no_list_is_refused_with_what_to_do(wrong):
    with pytest.raises(TypeError, match=r"releases a FrequencyList.*from_counts") as error:
        MECHANISM.release(wrong)
    assert "3" not in str(error.value)


def test_a_tape_serves_one_release():
    tape = RandomTape.from_os()
    MECHANISM.release(PRIVATE, tape)
    for again in (PRIVATE, FrequencyList()):
        with pytest.raises(ValueError, match="has claimed this tape"):
            MECHANISM.release_many(again, 2, iter([RandomTape.from_os(), tape]))
    table = PartitionTable(FrequencyList([2], [1]), Eta(1, 1, 1), upper=[3])
    for draw in (table.sample, lambda tape: OptimalSelection(1, 0.1).select(np.array([3]), tape)):
        draw(tape)
        with pytest.raises(ValueError, match="has claimed this tape"):
            draw(tape)


def refuses_release(tape):
    try:
        MECHANISM.release(PRIVATE, tape)
    except ValueError as error:
        return "this tape is a copy, or from before a fork" in str(error)
    return False


def test_copies_of_a_tape_and_forks_serve_no_release():
    tape = RandomTape.from_os()
    travelled = pickle.loads(pickle.dumps(tape))
    for copied in (copy.copy(tape), copy.deepcopy(tape), travelled, travelled.branch("a part")):
        assert refuses_release(copied)
    child = os.fork()
    if not child:
        refused = refuses_release(tape) and refuses_release(tape.branch("a part"))
        os._exit(0 if refused and not refuses_release(RandomTape.from_os()) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # A worker reads the same numbers from a copy, for what is no release of its own.
    assert travelled.words("a", 3).tolist() == tape.words("a", 3).tolist()
    MECHANISM.release(PRIVATE, tape)


def test_the_picture_has_the_proven_error_bars():
    axes = plot_list(RELEASED).axes[0]
    bands = WalkIntervals(RELEASED, MECHANISM.distribution).bands(0.99)
    ranks = GRID[GRID <= bands[1].distinct]
    (band,), (line,) = axes.collections, axes.lines
    corners = set(map(tuple, band.get_paths()[0].vertices.tolist()))
    for bound in bands:
        assert {*zip(ranks, np.maximum(bound.at_ranks(ranks), 0.5), strict=True)} <= corners
    drawn = dict(line.get_xydata().tolist())
    ends = RELEASED.multiplicities.cumsum().tolist()
    assert [drawn[end] for end in ends] == RELEASED.frequencies.tolist()


def test_a_released_list_becomes_tables_and_pictures(tmp_path):
    assert plot_list(RELEASED, tmp_path / "list.png", confidence=0.9).axes[0].collections
    with pytest.raises(ValueError, match="between 0 and 1, got 95"):
        plot_list(RELEASED, confidence=95)
    table = to_arrow(RELEASED)
    assert table.to_pydict() == RELEASED.to_dict()
    assert list(zip(*RELEASED.to_dict().values(), strict=True)) == list(RELEASED)
    assert table.schema.metadata[b"epsilon"] == b"0.5"
    assert ReleasedList().cost is None
    assert to_arrow(ReleasedList()).schema.types == table.schema.types
    for private_has_none in ("plot", "to_arrow", "to_pandas", "to_dict", "cost"):
        assert not hasattr(PRIVATE, private_has_none)
    pytest.importorskip("pandas")
    frame = to_pandas(RELEASED)
    assert frame.to_dict("list") == RELEASED.to_dict()
    assert frame.attrs == RELEASED.cost
    assert to_pandas(ReleasedList()).dtypes.tolist() == frame.dtypes.tolist()


def test_methods_of_version_0_2_still_work(tmp_path):
    with pytest.warns(DeprecationWarning, match=r"call dp_transforms\.reports\.lists\.plot_list"):
        RELEASED.plot(tmp_path / "list.png", confidence=0.9)
    assert (tmp_path / "list.png").stat().st_size > 0
    with pytest.warns(DeprecationWarning, match=r"lists\.to_arrow with the list"):
        assert RELEASED.to_arrow() == to_arrow(RELEASED)
    pytest.importorskip("pandas")
    with pytest.warns(DeprecationWarning, match=r"lists\.to_pandas"):
        assert RELEASED.to_pandas().equals(to_pandas(RELEASED))


def test_what_is_known_of_one_mechanism_s_noise_is_not_drawn_around_another_s():
    bounds = PartitionBounds(upper=FrequencyList([100_000], [900]))
    other = IntegerPartitionMechanism(epsilon=1, bounds=bounds).release(PRIVATE)
    for released in (other, ReleasedList(), ReleasedList([3, 1], [1, 2])):
        assert not plot_list(released).axes[0].collections
