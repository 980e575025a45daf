"""`goqueue-admin tenant` against a broker with keys: from nothing to two teams, and back."""

import json
from pathlib import Path
from typing import Any

from tests.admin.programs import admin
from tests.api.keys import eventually, secured


def test_tenant_is_created_suspended_disabled_and_deleted_with_its_data(tmp_path: Path) -> None:
    with secured(tmp_path, tenants__enabled="true") as broker:

        def run(*words: str, code: int = 0) -> Any:
            done = admin(broker.url, *words, "--api-key", broker.admin)
            assert done.code == code, done.err
            return done

        (made,) = json.loads(run("tenant", "create", "Team A", "--metadata", "x=y", "-o", "json").out)
        assert (made["id"], made["status"], made["metadata"]) == ("team-a", "active", {"x": "y"})
        assert "choose another id with `--id`" in run("tenant", "create", "Team A", code=5).err
        broker.do("POST", "/topics", {"name": "c.orders"})
        assert "with `--id`, or `--adopt` to" in run("tenant", "create", "c", code=5).err
        assert "`goqueue-admin tenant list` shows" in run("tenant", "delete", "wombats", "--yes", code=5).err
        run("tenant", "create", "Team B", "--id", "b")
        (key,) = json.loads(run("key", "create", "till", "--role", "admin", "--tenant", "team-a", "-o", "json").out)
        assert broker.ask("GET", "/topics", key=key["key"]).status == 200
        strange = admin(broker.url, "key", "list", "--tenant", "b", "--api-key", key["key"])
        assert "leave out `--tenant`: a key" in strange.err
        assert broker.ask("GET", "/admin/keys", key=key["key"]).status == 403, "an admin of a tenant is none of others"
        assert "there is no tenant 'c'" in run("key", "create", "x", "--tenant", "c", code=5).err
        run("tenant", "update", "team-a", "--description", "orders", "--metadata", "x=z")
        (row,) = json.loads(run("tenant", "describe", "team-a", "-o", "json").out)
        assert (row["description"], row["metadata"], row["keys"]) == ("orders", {"x": "z"}, 1)
        assert [line.split()[0] for line in run("tenant", "list").out.splitlines()] == ["ID", "b", "team-a"]

        run("tenant", "suspend", "team-a", code=2)
        run("tenant", "suspend", "team-a", "--yes", "--reason", "unpaid")
        assert broker.ask("GET", "/topics", key=key["key"]).status == 200
        refused = broker.ask("POST", "/topics/orders/messages", {"messages": [{"value": "x"}]}, key=key["key"])
        assert (refused.status, refused.code) == (403, "tenant_suspended")
        assert refused.json["error"] == "tenant 'team-a' is suspended: unpaid"
        found = [one for one in json.loads(run("doctor", "-o", "json", code=1).out) if one["code"] == "tenant_refused"]
        assert [(one["subject"], one["details"]["requests"]) for one in found] == [("team-a", 1)]
        run("tenant", "disable", "team-a", "--yes")
        assert broker.ask("GET", "/topics", key=key["key"]).code == "tenant_disabled"
        run("tenant", "activate", "team-a")
        assert broker.ask("GET", "/topics", key=key["key"]).status == 200

        broker.do("POST", "/topics", {"name": "team-a.orders", "num_partitions": 2})
        broker.do("POST", "/topics", {"name": "b.orders"})
        broker.do("POST", "/groups/team-a.billing/join", {"client_id": "c", "topics": ["team-a.orders"]})
        (plan,) = json.loads(run("tenant", "delete", "team-a", "--dry-run", "-o", "json").out)
        counts = plan["result"], plan["topics"], plan["partitions"], plan["groups"], plan["members"], plan["keys"]
        assert counts == ("would be deleted", ["orders"], 2, ["billing"], 1, ["till"])
        run("tenant", "delete", "team-a", code=2)
        assert "deleted" in run("tenant", "delete", "team-a", "--yes").out
        assert broker.ask("GET", "/topics", key=key["key"]).status == 401
        assert broker.do("GET", "/topics")["topics"] == ["b.orders", "c.orders"]
        assert broker.do("GET", "/groups")["groups"] == []
        actions = {one["action"] for one in broker.do("GET", "/admin/audit?limit=1000")["records"]}
        assert {
            "POST /admin/tenants",
            "POST /admin/tenants/{tenant}/suspend",
            "DELETE /admin/tenants/{tenant}",
        } <= actions
        eventually(lambda: broker.ask("GET", "/admin/tenants/team-a").status == 404)
