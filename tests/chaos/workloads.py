"""All workloads, by name."""

from tests.chaos.delays_workload import DelaysWorkload
from tests.chaos.groups_workload import GroupsWorkload
from tests.chaos.log_workload import LogWorkload
from tests.chaos.register_workload import RegisterWorkload
from tests.chaos.schema_workload import SchemaWorkload
from tests.chaos.transactions_workload import TransactionsWorkload
from tests.chaos.workload import Workload

_ALL = (LogWorkload, GroupsWorkload, TransactionsWorkload, SchemaWorkload, DelaysWorkload, RegisterWorkload)
WORKLOADS: dict[str, type[Workload]] = {one.name: one for one in _ALL}
