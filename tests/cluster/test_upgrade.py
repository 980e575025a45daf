"""An upgrade node by node: what the later version brings begins when the last node has it."""

import asyncio
from dataclasses import replace
from pathlib import Path

from goqueue.cluster.feature_levels import FEATURE_LEVEL
from tests.cluster.nodes import NAMES, RunningCluster, RunningNode


def _level(node: RunningNode) -> int:
    return node.member.log.state.feature_level


def test_level_rises_when_the_last_node_has_the_later_version(tmp_path: Path) -> None:
    async def upgrade() -> None:
        cluster = RunningCluster(tmp_path, *NAMES, feature_level=FEATURE_LEVEL - 1)
        await cluster.form()
        try:
            for name in NAMES:
                node = cluster[name]
                assert {_level(one) for one in cluster.nodes.values()} == {FEATURE_LEVEL - 1}
                await node.stop()
                node.settings = replace(node.settings, feature_level=FEATURE_LEVEL)
                await node.start()
                await cluster.agree(lambda node: node.member.is_registered, name)
                await node.create(f"after-{name}")
            await cluster.agree(lambda node: _level(node) == FEATURE_LEVEL)
        finally:
            await cluster.end()

    asyncio.run(upgrade())
