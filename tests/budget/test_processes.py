import os

from dp_transforms.budget import processes
from tests.budget.forks import FORK


def test_a_process_is_known_to_have_ended_on_this_boot_of_this_machine_only():
    here = processes.this_process()
    boot, space, number, start = here.split(" ")
    child = FORK.Process(target=os._exit, args=(0,))
    child.start()
    free = child.pid
    child.join()
    # Its number is another's, or nobody's, by now.
    for ended in (f"{number} {int(start) - 1}", f"{free} {start}"):
        assert processes.has_ended(f"{boot} {space} {ended}")
    elsewhere = (f"another-{boot} {space} {free}", f"{boot} pid:[1] {free}", f"{boot} {space} much")
    for other in (here, *(f"{place} {start}" for place in elsewhere), "", "x"):
        assert not processes.has_ended(other)
