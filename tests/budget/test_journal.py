"""The append-only file: what is damage, what is an unfinished line, what a failed write leaves."""

import errno
import fcntl
import os

import pytest

from dp_transforms.budget import CorruptedJournalError
from dp_transforms.budget.journal import Journal

ENTRIES = [{"first": 1}, {"purpose": "a list; naïve ✓"}, {"committed": 2}, {"n": "x" * 30}]


@pytest.fixture
def journal(tmp_path):
    made = Journal.create(tmp_path / "journal.jsonl", ENTRIES[0])
    for entry in ENTRIES[1:]:
        append(made, entry)
    return made


def append(journal, entry):
    with journal.appending() as appender:
        appender.append(entry)


def contents(journal):
    with open(journal.path, "rb") as file:
        return file.read()


def overwrite(journal, data):
    with open(journal.path, "wb") as file:
        file.write(data)


def test_what_is_appended_is_read(journal):
    assert journal.read() == ENTRIES
    assert contents(journal).count(b"\n") == len(ENTRIES)


def test_several_entries_under_one_lock(journal):
    with journal.appending() as appender:
        appender.append({"a": 1})
        appender.append({"b": 2})
        assert appender.entries == [*ENTRIES, {"a": 1}, {"b": 2}]
    assert journal.read() == [*ENTRIES, {"a": 1}, {"b": 2}]


def test_creating_never_replaces(journal, tmp_path):
    before = contents(journal)
    with pytest.raises(FileExistsError):
        Journal.create(journal.path, {"first": 2})
    assert contents(journal) == before
    assert os.listdir(tmp_path) == ["journal.jsonl"]  # and no temporary file stays


@pytest.mark.parametrize("bit", [0, 5, 7])
def test_every_flipped_bit_is_noticed_and_its_line_named(journal, bit):
    intact = contents(journal)
    line = 1
    for i, byte in enumerate(intact):
        damaged = bytearray(intact)
        damaged[i] ^= 1 << bit
        overwrite(journal, bytes(damaged))
        with pytest.raises(CorruptedJournalError, match=f"journal.jsonl, line {line}: damaged"):
            journal.read()
        line += byte == ord("\n")


def test_lines_that_are_missing_repeated_or_moved_are_noticed(journal):
    first, second, third, fourth = contents(journal).splitlines(keepends=True)
    for lines, named in [
        ([second, third, fourth], 1),
        ([first, third, fourth], 2),
        ([first, second, fourth], 3),
        ([first, second, second, third], 3),
        ([first, third, second, fourth], 2),
        ([first, b"\n", second], 2),
        ([first, second, b'{"entry":{"committed":2}}\n'], 3),
        ([], 1),
    ]:
        overwrite(journal, b"".join(lines))
        with pytest.raises(CorruptedJournalError, match=f"line {named}:"):
            journal.read()
        with pytest.raises(CorruptedJournalError), journal.appending():
            pass
        assert contents(journal) == b"".join(lines)  # nothing is repaired


def test_an_unfinished_last_line_counts_as_never_written(journal):
    intact = contents(journal)
    start = intact.rstrip(b"\n").rfind(b"\n") + 1
    for end in range(start, len(intact) - 1):
        overwrite(journal, intact[:end])
        assert journal.read() == ENTRIES[:-1]
        assert contents(journal) == intact[:end]  # reading changes nothing
        if end % 10 == 0:
            append(journal, {"next": 1})
            assert journal.read() == [*ENTRIES[:-1], {"next": 1}]


def test_a_last_line_that_lacks_its_newline_alone_counts(journal):
    overwrite(journal, contents(journal)[:-1])
    assert journal.read() == ENTRIES
    append(journal, {"next": 1})
    append(journal, {"next": 2})
    assert journal.read() == [*ENTRIES, {"next": 1}, {"next": 2}]


@pytest.mark.parametrize(
    "tail",
    [
        *[b"\0\0\0", b"x", b'{"entry":{"a":1\0', b'{"entry":{}}', b"[", b"\xff"],
        pytest.param(b'{"entry":{"a":' + b"[" * 5000, id="nested too deeply"),
    ],
)
def test_a_tail_that_cannot_begin_a_line_is_damage(journal, tail):
    overwrite(journal, contents(journal) + tail)
    with pytest.raises(CorruptedJournalError, match=f"line {len(ENTRIES) + 1}:"):
        journal.read()


def no_space(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def half_a_write(descriptor, data, write=os.write):
    return write(descriptor, data[: len(data) // 2]) if len(data) > 20 else no_space()


@pytest.mark.parametrize(
    ("call", "failure"), [("write", no_space), ("write", half_a_write), ("fsync", no_space)]
)
def test_a_failed_write_leaves_the_journal_as_it_was(journal, monkeypatch, call, failure):
    before = contents(journal)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failure)
        with pytest.raises(OSError, match="No space left"):
            append(journal, {"n": "x" * 100})
    assert contents(journal) == before
    append(journal, {"after": 1})
    assert journal.read() == [*ENTRIES, {"after": 1}]


def test_a_file_that_is_replaced_while_one_waits_for_its_lock_is_opened_again(journal, monkeypatch):
    other = Journal.create(journal.path + ".new", {"first": "other"})
    flock, calls = fcntl.flock, []

    def replace_then_lock(descriptor, kind):
        calls.append(kind)
        if len(calls) == 1:
            os.replace(other.path, journal.path)
        flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", replace_then_lock)
    append(journal, {"n": 1})
    assert journal.read() == [{"first": "other"}, {"n": 1}]


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    absent = Journal(tmp_path / "absent")
    with pytest.raises(FileNotFoundError):
        absent.read()
    with pytest.raises(FileNotFoundError), absent.appending():
        pass
    assert not os.listdir(tmp_path)
