"""What all tests share: how hard Hypothesis tries, how often the crash suite kills, how many lives are simulated."""

import os

import pytest
from hypothesis import HealthCheck, settings

# Examples stay random from run to run; a failure prints the blob that repeats it. A slow machine is not a failure.
settings.register_profile(
    "default",
    max_examples=100,
    deadline=None,
    derandomize=False,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=1000)
settings.load_profile("default")


def pytest_xdist_auto_num_workers() -> int:
    """Twice as many as there are cores: many tests wait for programs that they have started."""
    return (os.cpu_count() or 1) * 2


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kills",
        type=int,
        default=200,
        metavar="COUNT",
        help="how many times the crash suite kills the broker with SIGKILL (default: 200)",
    )
    parser.addoption(
        "--seeds",
        type=int,
        default=150,
        metavar="COUNT",
        help="how many random lives of each kind are simulated (default: 150)",
    )
    parser.addoption("--seed", type=int, metavar="NUMBER", help="simulate the life of this seed alone")
