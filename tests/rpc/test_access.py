"""Keys, roles, TLS and certificates of clients, as over HTTP."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc

from goqueue.commands.cert import make_dev_certificates
from goqueue.rpc.v1 import admin_pb2, consume_pb2, publish_pb2, topic_pb2
from goqueue.testing.broker import LocalBroker
from tests.api.keys import eventually, secured
from tests.brokers import ask, create
from tests.rpc.stubs import Metadata, Stubs, refusal, stubs_of


def with_key(key: str) -> Metadata:
    return (("authorization", f"Bearer {key}"),)


def test_keys_decide_what_a_call_may_do_and_end_streams(tmp_path: Path) -> None:
    with secured(tmp_path, grpc__port="0") as broker, stubs_of(broker.local) as stubs:
        topics: dict[str, Any] = {"topic": "orders"}
        request = topic_pb2.CreateTopicRequest(name="orders", num_partitions=1)
        assert refusal(stubs.topics.CreateTopic, request).code == grpc.StatusCode.UNAUTHENTICATED
        assert stubs.topics.CreateTopic(request, metadata=with_key(broker.admin)).created
        rule = {"kind": "topic", "actions": ["read", "write"], "pattern": "orders"}
        key = broker.new_key("till", rules=[rule])
        mine = with_key(key)
        assert stubs.publish.Publish(publish_pb2.PublishRequest(**topics, value=b"1"), metadata=mine).offset == 0
        forbidden = refusal(stubs.topics.DeleteTopic, topic_pb2.DeleteTopicRequest(**topics), metadata=mine)
        assert (forbidden.code, forbidden.reason) == (grpc.StatusCode.PERMISSION_DENIED, "permission_denied")
        hidden = refusal(stubs.topics.DescribeTopic, topic_pb2.DescribeTopicRequest(topic="other"), metadata=mine)
        assert hidden.reason == "topic_not_found"
        stream = stubs.consume.Consume(consume_pb2.ConsumeRequest(**topics), metadata=(("x-api-key", key),))
        assert next(stream).messages.messages[0].value == b"1"
        (record,) = [one for one in broker.do("GET", "/admin/keys")["keys"] if one["name"] == "till"]
        broker.do("DELETE", f"/admin/keys/{record['id']}")
        assert refusal(lambda: stream).code == grpc.StatusCode.UNAUTHENTICATED
        call = admin_pb2.CallRequest(method="GET", path="/admin/keys")
        assert refusal(stubs.admin.Call, call).code == grpc.StatusCode.UNAUTHENTICATED
        trail = broker.do("GET", "/topics/__audit/partitions/0/messages")["messages"]
        assert any("POST /topics" in one["value"] and "127.0.0.1" in one["value"] for one in trail)


def test_tenants_have_their_own_names_and_quotas(tmp_path: Path) -> None:
    with (
        LocalBroker(str(tmp_path / "data"), grpc__port="0", tenants__enabled="true") as broker,
        stubs_of(broker) as rpc,
    ):
        inside = (("x-tenant", "team"),)
        assert ask(broker.url, "POST", "/admin/tenants", {"name": "team"}).status == 201
        create(broker.url, "payments")
        own: dict[str, Any] = {"topic": "orders"}
        rpc.topics.CreateTopic(topic_pb2.CreateTopicRequest(name="orders", num_partitions=1), metadata=inside)
        assert rpc.topics.ListTopics(topic_pb2.ListTopicsRequest(), metadata=inside).topics == ["orders"]
        other = publish_pb2.PublishRequest(topic="payments", value=b"x")
        assert refusal(rpc.publish.Publish, other, metadata=inside).reason == "topic_not_found"
        assert ask(broker.url, "GET", "/topics").json == {"topics": ["payments", "team.orders"]}
        limits = {"max_message_size_bytes": 2000, "publish_bytes_rate_limit": 5000}
        assert ask(broker.url, "PUT", "/admin/tenants/team/quotas", limits).status == 200
        large = publish_pb2.PublishRequest(**own, value=b"\xff" * 3000)
        assert refusal(rpc.publish.Publish, large, metadata=inside).reason in {"quota_exceeded", "quota_reached"}
        batch = publish_pb2.PublishBatchRequest(**own, messages=[publish_pb2.OutgoingMessage(value=b"x" * 1900)] * 2)
        answers = list(rpc.publish.PublishBatches(iter([batch] * 9), metadata=inside))
        (reason,) = {answer.error.reason for answer in answers} - {""}
        assert reason == "quota_exceeded"
        assert answers[-1].error.retry_after.ToTimedelta().total_seconds() > 0
        _check_connections(broker, rpc, inside)


def _check_connections(broker: LocalBroker, rpc: Stubs, inside: Metadata) -> None:
    """A connection of gRPC counts for its tenant while it has a call."""

    def connections() -> int:
        return int(ask(broker.url, "GET", "/admin/tenants/team/usage").json["connections"])

    assert ask(broker.url, "PUT", "/admin/tenants/team/quotas", {"max_connections": 1}).status == 200
    eventually(lambda: connections() == 0)
    subscribed = consume_pb2.SubscribeRequest(topics=["orders"], group_id="g")
    stream = rpc.consume.Subscribe(subscribed, metadata=inside)
    eventually(lambda: connections() == 1)
    over = ask(broker.url, "GET", "/topics", None, dict(inside))
    assert (over.status, over.json["details"]["quota"]) == (429, "max_connections")
    stream.cancel()
    eventually(lambda: connections() == 0)
    assert ask(broker.url, "GET", "/topics", None, dict(inside)).status == 200


def test_certificates_of_broker_and_client_count_and_are_renewed(tmp_path: Path) -> None:
    files = tmp_path / "tls"
    make_dev_certificates(files, client="billing.example")
    settings = {
        "tls__cert": str(files / "server.pem"),
        "tls__key": str(files / "server.key"),
        "tls__client_ca": str(files / "ca.pem"),
    }
    authority, pem, key = ((files / name).read_bytes() for name in ("ca.pem", "client.pem", "client.key"))
    with secured(tmp_path, grpc__port="0", **settings) as broker:
        broker.local.daemon.certificates.stop_watching()  # type: ignore[union-attr]
        presenting = grpc.ssl_channel_credentials(authority, key, pem)
        with stubs_of(broker.local, presenting) as stubs:
            listed = topic_pb2.ListTopicsRequest()
            unknown = refusal(stubs.topics.ListTopics, listed)
            assert unknown.code == grpc.StatusCode.UNAUTHENTICATED
            named = {"name": "billing", "certificate": "DNS:billing.example", "roles": ["admin"]}
            made = admin_pb2.CallRequest(method="POST", path="/admin/keys", body=json.dumps(named))
            stubs.admin.Call(made, metadata=with_key(broker.admin))
            assert stubs.topics.ListTopics(listed).topics == []
        anonymous = grpc.ssl_channel_credentials(authority)
        with stubs_of(broker.local, anonymous) as stubs:
            assert refusal(stubs.topics.ListTopics, listed).code == grpc.StatusCode.UNAVAILABLE
        renewed = tmp_path / "renewed"
        make_dev_certificates(renewed, client="billing.example")
        for name in ("server.pem", "server.key", "ca.pem"):
            shutil.copy(renewed / name, files / name)
        broker.local.daemon.certificates.reload()  # type: ignore[union-attr]
        parts = [(renewed / name).read_bytes() for name in ("ca.pem", "client.key", "client.pem")]
        with stubs_of(broker.local, grpc.ssl_channel_credentials(*parts)) as stubs:
            assert stubs.topics.ListTopics(listed).topics == []


_WITHOUT_PACKAGES = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "grpc":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
from goqueue.commands.main import main
sys.argv = ["goqueue", "serve", "--grpc-port", "0", "--port", "0", "--data-dir", sys.argv[1]]
sys.exit(main())
"""


def test_missing_packages_are_named_with_what_installs_them(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _WITHOUT_PACKAGES, str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "grpc.port needs packages that are not installed: grpc" in done.stderr
    assert "pip install 'goqueue[grpc]'" in done.stderr
