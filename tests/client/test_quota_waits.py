"""Waits for quotas, as a program is told about them."""

from goqueue.client.quota_waits import PAUSE_SECONDS, TOLD_SECONDS, QuotaWaits


def test_each_long_wait_and_the_first_of_short_ones_is_told() -> None:
    told, now = list[str](), [100.0]
    waits = QuotaWaits(told.append, lambda: now[0])

    def told_at(seconds: float, wait: float, quota: str = "rate") -> list[str]:
        now[0] += seconds
        waits.note(quota, "over", wait)
        lines, told[:] = told.copy(), []
        return lines

    assert told_at(0, 0.25) == ["waiting 0.2 s: over"]
    assert told_at(0.1, 0.1) == [], "another request waits for the same"
    assert told_at(0.5, 0.1) == [], "a short one follows"
    assert told_at(0, 0.1, "bytes") == ["waiting 0.1 s: over"], "another quota"
    assert told_at(0.5, 12) == ["waiting 12 seconds: over"]
    assert told_at(1, 11) == [], "one batch waits behind another"
    assert told_at(12, TOLD_SECONDS) == ["waiting 2 seconds: over"]
    assert told_at(PAUSE_SECONDS + 1, 0.1) == []
    assert told_at(PAUSE_SECONDS + 1, 0.1) == ["waiting 0.1 s: over"]
