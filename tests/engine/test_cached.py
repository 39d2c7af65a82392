"""Properties that are computed once, also where threads and forks meet."""

import os
import threading

import pytest

from skcalib._engine.cached import cached_property

DEADLINE = 20  # seconds until a wait counts as endless


class Counted:
    """An instance whose property calls a function and counts the calls."""

    def __init__(self, f):
        self.f = f
        self.n_calls = 0

    @cached_property
    def value(self):
        """What the function returns."""
        self.n_calls += 1
        return self.f()


def test_computed_once_for_each_instance():
    one, other = Counted(lambda: 1), Counted(lambda: 2)
    assert [one.value, other.value, one.value, other.value] == [1, 2, 1, 2]
    assert one.n_calls == other.n_calls == 1


def test_not_kept_after_an_error():
    outcomes = iter([1 / 2, 0])
    counted = Counted(lambda: 1 / next(outcomes))
    assert counted.value == 2
    del counted.value
    with pytest.raises(ZeroDivisionError):
        counted.value  # noqa: B018
    assert "value" not in vars(counted)


def test_documented():
    assert isinstance(Counted.value, cached_property)
    assert Counted.value.__doc__ == "What the function returns."


def test_threads_do_not_wait_for_one_another():
    """Both are inside at once, which the lock of ``functools.cached_property`` prevents."""
    meeting = threading.Barrier(2)
    others = Counted(lambda: meeting.wait(DEADLINE))
    thread = threading.Thread(target=lambda: others.value)
    thread.start()
    own = Counted(lambda: meeting.wait(DEADLINE)).value
    thread.join()
    assert {own, others.value} == {0, 1}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_while_another_thread_computes():
    """The child computes the property of its own instance, and ends."""
    begun, stop = threading.Event(), threading.Event()

    def compute():
        begun.set()
        return stop.wait(DEADLINE)

    thread = threading.Thread(target=lambda: Counted(compute).value)
    thread.start()
    assert begun.wait(DEADLINE)
    child = os.fork()
    if not child:
        threading.Timer(DEADLINE / 2, lambda: os._exit(1)).start()
        os._exit(0 if Counted(lambda: 1).value == 1 else 2)
    stop.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
