import multiprocessing
import threading

import pytest

from dp_transforms import threads
from dp_transforms.threads import map_ahead


def test_only_a_few_items_are_taken_ahead(monkeypatch):
    monkeypatch.setattr(threads, "THREADS", 2)
    taken = []

    def items():
        for i in range(10):
            taken.append(i)
            yield i

    values = map_ahead(lambda i: i * i, items())
    assert next(values) == 0
    assert taken == [0, 1, 2]
    assert list(values) == [i * i for i in range(1, 10)]


def test_values_come_in_order_whatever_takes_longer():
    second = threading.Event()

    def slow_first(i):
        if i == 0:
            assert threads.THREADS < 2 or second.wait(10)
        else:
            second.set()
        return i

    assert list(map_ahead(slow_first, range(2))) == [0, 1]


def test_an_error_comes_where_its_value_would():
    values = map_ahead(lambda i: 1 // i, [1, 0, 1])
    assert next(values) == 1
    with pytest.raises(ZeroDivisionError):
        next(values)


def test_a_fork_has_threads_of_its_own():
    assert list(map_ahead(abs, [-1])) == [1]
    fork = multiprocessing.get_context("fork").Process(target=lambda: list(map_ahead(abs, [-1])))
    fork.start()
    fork.join(60)
    fork.kill()
    assert fork.exitcode == 0
