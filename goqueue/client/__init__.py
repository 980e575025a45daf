"""The SDK: `Client` for threads, `AsyncClient` for event loops. `docs/sdk.md` shows them at work."""

from typing import TYPE_CHECKING, Any

from goqueue.client._sync.client import Client
from goqueue.client.admin_requests import GroupDetails, Offsets, TopicDetails, TopicInfo
from goqueue.client.answers import (
    BrokerStats,
    DeadLetter,
    DeadLetterErrors,
    DeadLetters,
    DelayedChanges,
    DelayedMessage,
    DelayedMessages,
    Diagnosis,
    Finding,
    GroupDelivery,
    GroupInfo,
    MemberInfo,
    OffsetsReset,
    PartitionInfo,
    PartitionLag,
    Redrive,
    ScaledTopic,
    ScalingStatus,
    TransactionInfo,
)
from goqueue.client.times import Nanoseconds

if TYPE_CHECKING:
    from goqueue.client._async.client import AsyncClient
    from goqueue.client._async.consumer import AsyncConsumer
    from goqueue.client._async.deliveries import AsyncDeliveries, AsyncDelivery
    from goqueue.client._async.producer import AsyncProducer
    from goqueue.client._async.reader import AsyncReader
    from goqueue.client._async.transaction import AsyncTransaction
    from goqueue.client._sync.consumer import Consumer
    from goqueue.client._sync.deliveries import Deliveries, Delivery
    from goqueue.client._sync.producer import Producer
    from goqueue.client._sync.reader import Reader
    from goqueue.client._sync.transaction import Transaction
    from goqueue.client.alert_requests import AlertDelivery, AlertInfo, AlertOverview, AlertTest, SilenceInfo
    from goqueue.client.arguments import ConsumerArguments, HandlerArguments, ProducerArguments, WorkerArguments
    from goqueue.client.backup_requests import (
        BackupDamage,
        BackupInfo,
        BackupLog,
        BackupLogs,
        BackupOverview,
        BackupProgressInfo,
        BackupScheduleInfo,
        BackupsPruned,
        BackupVerificationInfo,
        TopicRestoreInfo,
        TopicRestoreResult,
    )
    from goqueue.client.cluster_requests import (
        ClusterHealthInfo,
        ClusterNodeInfo,
        ClusterPartitionInfo,
        ClusterStateInfo,
        ControllerTransferred,
        MoveInfo,
        NodeDrained,
        PlannedMove,
        ReassignmentInfo,
        RecoveryCandidate,
        RecoveryPlan,
        ReplicaInfo,
        VoterReplaced,
    )
    from goqueue.client.consumer_core import ConsumerOptions
    from goqueue.client.delivery import Receipt, Stored
    from goqueue.client.lease_tracker import Refused, Stats
    from goqueue.client.leased_message import Batch, Delivered
    from goqueue.client.member_requests import TopicPartition
    from goqueue.client.message import Message
    from goqueue.client.operation_requests import OperationInfo, UndoResult
    from goqueue.client.producer_core import Options
    from goqueue.client.quota_requests import QuotaTestResult, QuotaUse, TenantQuotas, TenantUsage, UsagePeriod
    from goqueue.client.schema_requests import (
        RegisteredSchema,
        RegistryStats,
        SchemaCompatibility,
        SchemaConfig,
        SchemaInfo,
        SchemaReferenceInfo,
        SchemaSubjectDetails,
        SchemaSubjectInfo,
        SchemaUse,
    )
    from goqueue.client.security_requests import AccessDecision, AccessRuleInfo, ApiKeyInfo, AuditPage, RoleInfo
    from goqueue.client.segment_requests import PartitionSegments, SegmentInfo
    from goqueue.client.serializers.deserializer import (
        AvroDeserializer,
        JsonDeserializer,
        ProtobufDeserializer,
        SchemaDeserializer,
    )
    from goqueue.client.serializers.serializer import (
        AvroSerializer,
        JsonSerializer,
        ProtobufSerializer,
        SchemaSerializer,
    )
    from goqueue.client.settings import GroupSettings, TopicSettings
    from goqueue.client.tenant_requests import TenantContents, TenantInfo, TenantStats
    from goqueue.client.worker import Worker

__all__ = [
    "AccessDecision",
    "AccessRuleInfo",
    "AlertDelivery",
    "AlertInfo",
    "AlertOverview",
    "AlertTest",
    "ApiKeyInfo",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncDeliveries",
    "AsyncDelivery",
    "AsyncProducer",
    "AsyncReader",
    "AsyncTransaction",
    "AuditPage",
    "AvroDeserializer",
    "AvroSerializer",
    "BackupDamage",
    "BackupInfo",
    "BackupLog",
    "BackupLogs",
    "BackupOverview",
    "BackupProgressInfo",
    "BackupScheduleInfo",
    "BackupVerificationInfo",
    "BackupsPruned",
    "Batch",
    "BrokerStats",
    "Client",
    "ClusterHealthInfo",
    "ClusterNodeInfo",
    "ClusterPartitionInfo",
    "ClusterStateInfo",
    "Consumer",
    "ConsumerArguments",
    "ConsumerOptions",
    "ControllerTransferred",
    "DeadLetter",
    "DeadLetterErrors",
    "DeadLetters",
    "DelayedChanges",
    "DelayedMessage",
    "DelayedMessages",
    "Delivered",
    "Deliveries",
    "Delivery",
    "Diagnosis",
    "Finding",
    "GroupDelivery",
    "GroupDetails",
    "GroupInfo",
    "GroupSettings",
    "HandlerArguments",
    "JsonDeserializer",
    "JsonSerializer",
    "MemberInfo",
    "Message",
    "MoveInfo",
    "Nanoseconds",
    "NodeDrained",
    "Offsets",
    "OffsetsReset",
    "OperationInfo",
    "Options",
    "PartitionInfo",
    "PartitionLag",
    "PartitionSegments",
    "PlannedMove",
    "Producer",
    "ProducerArguments",
    "ProtobufDeserializer",
    "ProtobufSerializer",
    "QuotaTestResult",
    "QuotaUse",
    "Reader",
    "ReassignmentInfo",
    "Receipt",
    "RecoveryCandidate",
    "RecoveryPlan",
    "Redrive",
    "Refused",
    "RegisteredSchema",
    "RegistryStats",
    "ReplicaInfo",
    "RoleInfo",
    "ScaledTopic",
    "ScalingStatus",
    "SchemaCompatibility",
    "SchemaConfig",
    "SchemaDeserializer",
    "SchemaInfo",
    "SchemaReferenceInfo",
    "SchemaSerializer",
    "SchemaSubjectDetails",
    "SchemaSubjectInfo",
    "SchemaUse",
    "SegmentInfo",
    "SilenceInfo",
    "Stats",
    "Stored",
    "TenantContents",
    "TenantInfo",
    "TenantQuotas",
    "TenantStats",
    "TenantUsage",
    "TopicDetails",
    "TopicInfo",
    "TopicPartition",
    "TopicRestoreInfo",
    "TopicRestoreResult",
    "TopicSettings",
    "Transaction",
    "TransactionInfo",
    "UndoResult",
    "UsagePeriod",
    "VoterReplaced",
    "Worker",
    "WorkerArguments",
]  # fmt: skip

_LATER = {
    name: module
    for module, names in {
        "_async.client": "AsyncClient",
        "_async.consumer": "AsyncConsumer",
        "_async.producer": "AsyncDeliveries AsyncDelivery AsyncProducer",
        "_async.reader": "AsyncReader",
        "_async.transaction": "AsyncTransaction",
        "_sync.consumer": "Consumer",
        "_sync.producer": "Deliveries Delivery Producer",
        "_sync.reader": "Reader",
        "_sync.transaction": "Transaction",
        "alert_requests": "AlertDelivery AlertInfo AlertOverview AlertTest SilenceInfo",
        "arguments": "ConsumerArguments HandlerArguments ProducerArguments WorkerArguments",
        "backup_requests": (
            "BackupDamage BackupInfo BackupLog BackupLogs BackupOverview BackupProgressInfo BackupScheduleInfo "
            "BackupVerificationInfo BackupsPruned"
            " TopicRestoreInfo TopicRestoreResult"
        ),
        "cluster_requests": (
            "ClusterHealthInfo ClusterNodeInfo ClusterPartitionInfo ClusterStateInfo ControllerTransferred MoveInfo"
            " NodeDrained PlannedMove ReassignmentInfo RecoveryCandidate RecoveryPlan ReplicaInfo VoterReplaced"
        ),
        "consumer_core": "ConsumerOptions",
        "delivery": "Receipt Stored",
        "lease_tracker": "Refused Stats",
        "leased_message": "Batch Delivered",
        "member_requests": "TopicPartition",
        "message": "Message",
        "operation_requests": "OperationInfo UndoResult",
        "producer_core": "Options",
        "quota_requests": "QuotaTestResult QuotaUse TenantQuotas TenantUsage UsagePeriod",
        "schema_requests": (
            "RegisteredSchema RegistryStats SchemaCompatibility SchemaConfig SchemaInfo SchemaReferenceInfo "
            "SchemaSubjectDetails SchemaSubjectInfo SchemaUse"
        ),
        "security_requests": "AccessDecision AccessRuleInfo ApiKeyInfo AuditPage RoleInfo",
        "segment_requests": "PartitionSegments SegmentInfo",
        "serializers.deserializer": "AvroDeserializer JsonDeserializer ProtobufDeserializer SchemaDeserializer",
        "serializers.serializer": "AvroSerializer JsonSerializer ProtobufSerializer SchemaSerializer",
        "settings": "GroupSettings TopicSettings",
        "tenant_requests": "TenantContents TenantInfo TenantStats",
        "worker": "Worker",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    """Load modules that carry messages or need asyncio on first use: other scripts start faster without them."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - not needed otherwise

    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
