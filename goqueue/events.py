"""Events: any number of listeners, called in the order of their subscription."""

from collections.abc import Callable
from functools import partial
from typing import Generic, ParamSpec

P = ParamSpec("P")


class Signal(Generic[P]):
    """One kind of event. An error of a listener propagates to the caller of `emit`.

    Without listeners `emit` only finds an empty tuple. If its arguments are costly, ask `if signal:` first.
    """

    __slots__ = ("_listeners",)

    def __init__(self, *listeners: Callable[P, object]) -> None:
        self._listeners = listeners

    def subscribe(self, listener: Callable[P, object]) -> Callable[[], None]:
        """Call `listener` with each event from now on; return a function that ends this."""
        self._listeners = (*self._listeners, listener)
        return partial(self._unsubscribe, listener)

    def _unsubscribe(self, listener: Callable[P, object]) -> None:
        left = list(self._listeners)
        if listener in left:
            left.remove(listener)
        self._listeners = tuple(left)

    def emit(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for listener in self._listeners:
            listener(*args, **kwargs)

    def __bool__(self) -> bool:
        return bool(self._listeners)
