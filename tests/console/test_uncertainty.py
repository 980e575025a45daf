"""Which errors leave open whether a request was carried out."""

import pytest

from goqueue import errors
from goqueue.console.consumer_groups import may_be_done


@pytest.mark.parametrize(
    ("error", "is_open"),
    [
        (errors.RequestTimedOut("x"), True),
        (errors.BrokerUnreachable("x"), True),
        (errors.BrokerStopping("x", unsure=True), True),
        (errors.BrokerStopping("x"), False),
        (errors.GroupNotFound("x"), False),
    ],
)
def test_failed_request_may_be_done_unless_the_broker_refused_it(error: errors.GoQueueError, is_open: bool) -> None:
    assert may_be_done(error) is is_open
