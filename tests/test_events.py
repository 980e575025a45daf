"""Signals: listeners, their order, and their errors."""

import pytest

from goqueue.events import Signal


def test_listeners_are_called_in_order_of_subscription() -> None:
    calls: list[tuple[str, int]] = []
    signal = Signal[[int]]()
    signal.subscribe(lambda number: calls.append(("first", number)))
    signal.subscribe(lambda number: calls.append(("second", number)))
    signal.emit(7)
    assert calls == [("first", 7), ("second", 7)]


def test_emit_without_listeners_does_nothing() -> None:
    signal = Signal[[int]]()
    signal.emit(7)
    assert not signal


def test_unsubscribed_listener_is_not_called_again() -> None:
    calls: list[int] = []
    signal = Signal[[int]]()
    unsubscribe = signal.subscribe(calls.append)
    signal.emit(1)
    unsubscribe()
    unsubscribe()
    signal.emit(2)
    assert calls == [1]


def test_unsubscribing_during_an_event_lets_the_other_listeners_have_it() -> None:
    calls: list[int] = []
    signal = Signal[[int]]()
    unsubscribe = signal.subscribe(lambda _: unsubscribe())
    signal.subscribe(calls.append)
    signal.emit(1)
    assert calls == [1]


def test_error_of_a_listener_propagates() -> None:
    calls: list[int] = []

    def fail(_: int) -> None:
        raise ValueError("listener failed")

    signal = Signal[[int]](fail, calls.append)
    with pytest.raises(ValueError, match="listener failed"):
        signal.emit(1)
    assert calls == []
