"""The rows of keys, roles, access rules and the audit trail."""

from goqueue import errors
from goqueue.api import access_rules, audit, keys, tls
from goqueue.api.endpoint import Endpoint
from goqueue.api.http.error_responses import UNWRITABLE

_RULE = {"kind": "topic", "pattern": "orders.", "match": "prefix", "actions": ["read", "write"]}

_TLS = {
    "enabled": True,
    "certificate": {
        "path": "/etc/goqueue/tls/server.pem", "names": ["queue.example"], "issuer": "CN=Example authority",
        "expires_at": "2027-01-01T00:00:00Z", "seconds_left": 2592000.0, "fingerprint": "5f" * 32,
        "client_auth": "none", "error": None,
    },
}  # fmt: skip

SECURITY_ENDPOINTS = (
    Endpoint("GET", "/admin/keys", keys.list_keys, "List API keys, without their secrets"),
    Endpoint(
        "POST", "/admin/keys", keys.create, "Create an API key; the answer shows it this once", status=201,
        errors=(errors.KeyExists, errors.RoleNotFound, *UNWRITABLE),
        example={"name": "billing", "roles": ["consumer"], "expires_in": "90d"},
    ),
    Endpoint("GET", "/admin/keys/{key}", keys.describe, "Describe an API key", errors=(errors.KeyNotFound,)),
    Endpoint(
        "DELETE", "/admin/keys/{key}", keys.revoke, "Revoke an API key, with its rules; requests that wait end",
        errors=(errors.KeyNotFound, errors.LastAdministrator, *UNWRITABLE),
        answer_example={"revoked": True, "id": "1hX3sWb0Yq2T", "name": "billing"},
    ),
    Endpoint(
        "POST", "/admin/keys/{key}/rotate", keys.rotate, "Give an API key another secret, which is shown this once",
        errors=(errors.KeyNotFound, *UNWRITABLE), example={"grace": "24h"},
    ),
    Endpoint("GET", "/admin/roles", access_rules.list_roles, "List roles with their rules"),
    Endpoint(
        "POST", "/admin/roles", access_rules.create_role, "Create a role", status=201,
        errors=(errors.RoleExists, *UNWRITABLE), example={"name": "orders-team", "rules": [_RULE]},
    ),
    Endpoint(
        "DELETE", "/admin/roles/{role}", access_rules.delete_role, "Delete a role that is not in use",
        errors=(errors.RoleNotFound, errors.RoleInUse, *UNWRITABLE),
        answer_example={"deleted": True, "name": "orders-team"},
    ),
    Endpoint("GET", "/admin/acls", access_rules.list_rules, "List access rules"),
    Endpoint(
        "POST", "/admin/acls", access_rules.create_rule, "Create an access rule for a key, a role, or all keys",
        status=201, errors=(errors.KeyNotFound, errors.RoleNotFound, *UNWRITABLE),
        example={"principal": "key:billing", **_RULE},
    ),
    Endpoint(
        "GET", "/admin/acls/test", access_rules.explain, "Test what a principal may do, and because of which rule",
        errors=(errors.KeyNotFound, errors.RoleNotFound),
        answer_example={
            "allowed": True, "reason": "role producer: allow write on topic glob *", "source": "role producer",
        },
    ),
    Endpoint(
        "DELETE", "/admin/acls/{rule}", access_rules.delete_rule, "Delete an access rule",
        errors=(errors.RuleNotFound, *UNWRITABLE), answer_example={"deleted": True, "id": 17},
    ),
    Endpoint("GET", "/admin/tls", tls.describe, "Describe the TLS certificate in use", answer_example=_TLS),
    Endpoint(
        "POST", "/admin/tls/reload", tls.reload, "Load the TLS certificate again; a broken one is not used",
        errors=(errors.CertificateInvalid,), answer_example=_TLS,
    ),
    Endpoint(
        "GET", "/admin/audit", audit.read, "Read the audit trail: administrative changes and refused requests",
        answer_example={
            "records": [{
                "number": 1, "time": "2026-03-01T12:00:00Z", "principal": "key:bootstrap",
                "action": "POST /admin/keys", "subject": "billing", "outcome": "done", "address": "127.0.0.1",
                "previous": "0" * 64,
            }],
            "next_offset": 1, "earliest": 0, "latest": 1,
        },
    ),
)  # fmt: skip
