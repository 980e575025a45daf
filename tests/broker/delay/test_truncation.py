"""A delayed log that was cut back gives the schedule of one that never had the messages behind."""

from functools import partial
from typing import Literal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from goqueue.broker.core.truncation import truncate_partition
from goqueue.broker.core.work import run_work
from tests.broker.brokers import Running
from tests.broker.cuts import segments_below, with_segments
from tests.broker.delay.delaywork import SECOND, Scene

Kind = Literal["schedule", "cancel", "reschedule", "deliver", "roll", "save"]
KINDS: tuple[Kind, ...] = ("schedule", "cancel", "reschedule", "deliver", "roll", "save")
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 40)), min_size=1, max_size=25)


def lived(steps: list[tuple[Kind, int]]) -> Scene:
    scene = Scene()
    scene.schedule((b"first", 30))
    for kind, number in steps:
        delays = scene.delays
        pending = delays.schedule.unsettled_offsets(0, delays.delayed_log.log_end)
        match kind:
            case "schedule":
                scene.schedule(*((b"x", number + more) for more in range(number % 3 + 1)))
            case "cancel" if len(pending):
                scene.do(delays.cancel_many(np.sort(pending[number % len(pending) :][:2])))
            case "reschedule" if len(pending):
                scene.do(delays.reschedule_many(pending[:2], partial(np.add, number * SECOND)))
            case "deliver":
                scene.deliver(number / 4)
            case "roll":
                delays.delayed_log.log.roll()
                scene.running.flush()
            case "save":
                scene.do(delays.save(scene.running.disk))
            case _:
                pass
    return scene


def schedule_of(scene: Scene) -> dict[int, object]:
    scene.do(scene.delays.catch_up_fully())
    return {offset: scene.delays.schedule.find(offset) for offset in range(scene.delays.delayed_log.log_end)}


@given(STEPS, st.data())
def test_schedule_of_a_truncated_delayed_log_is_that_of_a_shorter_one(
    steps: list[tuple[Kind, int]], data: st.DataObject
) -> None:
    scene = lived(steps)
    log = scene.delays.delayed_log
    offset = data.draw(st.integers(0, log.log_end), "cut")
    running = scene.running
    running.flush()
    disk = with_segments(running.disk.after_crash("everything"), log.log.directory, segments_below(log, offset))
    twin = Scene(Running(disk, running.clock))
    run_work(truncate_partition(log, running.disk, offset))
    assert schedule_of(scene) == schedule_of(twin)
    assert scene.delays.next_ns == twin.delays.next_ns
    for one in (scene, twin):  # life goes on from there, and the next start takes no cache of what is gone
        for number in range(5):
            one.schedule((b"later", 100 + number))
    expected = schedule_of(scene)
    assert schedule_of(twin) == expected
    assert schedule_of(scene.crash()) == expected
