"""The cases that Schemathesis sends in the suite: one for each kind of data and field of an operation, and some more.

It loads this module itself. By default it sends five wrong types for each field, and all again for each media type.
"""

from itertools import count
from typing import Any

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import CoveragePhaseData, CoverageScenario

_seen = set[tuple[object, ...]]()
_repetitions = count(1)


@schemathesis.hook
def filter_case(_: schemathesis.HookContext, case: schemathesis.Case[Any]) -> bool:
    """Keep the first case of each kind and field, which the description names, and of each media type.

    Of the further ones it keeps each fifth wrong type: most pairs of an expected and a sent type then occur.
    """
    data = case.meta.phase.data if case.meta is not None else None
    if not isinstance(data, CoveragePhaseData):
        return True
    is_body = data.parameter_location is ParameterLocation.BODY
    field = (data.parameter_location, None if is_body else data.parameter)
    kinds = {(case.operation.label, data.parameter), (case.operation.label, *field, data.scenario, data.description)}
    is_new = not kinds <= _seen
    _seen.update(kinds)
    return is_new or (data.scenario is CoverageScenario.INCORRECT_TYPE and next(_repetitions) % 5 == 0)
