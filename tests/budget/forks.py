"""Child processes of tests."""

import multiprocessing

FORK = multiprocessing.get_context("fork")


def run(target, *args, processes=1):
    """Runs target in child processes; returns their exit code (negative: killed by a signal)."""
    children = [FORK.Process(target=target, args=args) for _ in range(processes)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    (code,) = {child.exitcode for child in children}
    return code
