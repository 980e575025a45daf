"""All commands of `goqueue-admin`, one line each."""

from goqueue.console.command_tree import COMPLETION, CONFIG, CONFIG_COMMANDS, Command, Program

_BROKER = """Show the version, health, contents, rates and log of a broker.

\b
  goqueue-admin broker describe
  goqueue-admin broker logs --level warning
  goqueue-admin broker watch
"""

_REBALANCE = """Show assignments of consumer groups and running rebalances.

\b
  goqueue-admin rebalance list
  goqueue-admin rebalance describe billing
  goqueue-admin rebalance watch
"""

_KEY = """Create, list, rotate and revoke API keys.

\b
  goqueue-admin key create billing --role consumer
  goqueue-admin key list
  goqueue-admin key rotate billing --grace 24h
  goqueue-admin key revoke billing
"""

_ACL = """Allow and deny keys and roles what they may do, and test it.

\b
  goqueue-admin acl create -p key:billing --allow read --topic orders
  goqueue-admin acl test -p key:billing read --topic orders
  goqueue-admin acl list
"""

_ROLE = """Show the roles of API keys, and make your own.

\b
  goqueue-admin role list
  goqueue-admin role create orders-team --rule 'read,write topic:orders.*'
"""

_ALERT = """List, test and silence the alerts that a broker sends itself.

\b
  goqueue-admin alert list
  goqueue-admin alert test
  goqueue-admin alert silence disk_filling --for 2h
"""

_AUDIT = """Show and verify who changed what, and who was refused.

\b
  goqueue-admin audit list
  goqueue-admin audit verify
  goqueue-admin audit export > audit.jsonl
"""

_QUOTA = """Limit what tenants use, and show how much of it they use.

\b
  goqueue-admin quota get team-a
  goqueue-admin quota set team-a publish_rate_limit=1000 max_topics=50
  goqueue-admin quota test publish_rate_limit=500
"""

_TENANT = """Create tenants: teams that share a broker, each with names of its own.

\b
  goqueue-admin tenant create "Team A"
  goqueue-admin key create till --role producer --tenant team-a
  goqueue-admin tenant list
  goqueue-admin tenant suspend team-a --reason unpaid
"""

_BACKUP = """Make, list, verify and delete backups of a running broker.

\b
  goqueue-admin backup create
  goqueue-admin backup list
  goqueue-admin backup verify
"""

_CLUSTER = """Change the nodes of a cluster: its controller, a lost voter, nodes that are gone or are to stop.

\b
  goqueue-admin cluster drain n2 --wait
  goqueue-admin cluster transfer --to n2
  goqueue-admin cluster replace-voter n3
"""

_PARTITION = """Recover a partition whose replicas are lost.

\b
  goqueue-admin partition recover orders/0 --dry-run
"""

_REASSIGN = """Move replicas of partitions to other nodes of the cluster.

\b
  goqueue-admin reassign plan --add n4 --file plan.yaml
  goqueue-admin reassign apply plan.yaml --throttle 50MiB
  goqueue-admin reassign list --watch
"""

_TLS = """Show the TLS certificate of a broker, and load it again.

\b
  goqueue-admin tls describe
  goqueue-admin tls reload
"""

_HELP = """Operate a GoQueue broker: check its state, and find what needs attention.

\b
  goqueue-admin doctor
  goqueue-admin broker describe
  goqueue-admin rebalance list

Data goes to stdout, everything else to stderr. `COMMAND --help` shows examples of each.
"""

PROGRAM = Program(
    name="goqueue-admin",
    package="goqueue_admin",
    help=_HELP,
    commands=(
        Command(
            "acl create", ".access_rules:create_rule", "Create access rules for a key, a role, or all keys.", "write"
        ),
        Command("acl delete", ".access_rules:delete_rules", "Delete access rules.", "danger"),
        Command("acl list", ".access_rules:list_rules", "List access rules."),
        Command(
            "acl test",
            ".access_rules:explain",
            "Test whether a key or role may do something, and show which rule decides.",
        ),
        Command("alert list", ".alerts:list_alerts", "List the alerts that the broker sends itself, the worst first."),
        Command("alert silence", ".alerts:silence", "Send nothing about some alerts for a time.", "write"),
        Command("alert test", ".alerts:test", "Send a test message to the webhook.", "write"),
        Command("alert unsilence", ".alerts:unsilence", "End silences before their time.", "write"),
        Command("audit export", ".audit:export", "Write the audit trail to stdout, one JSON object per line."),
        Command(
            "audit list",
            ".audit:list_records",
            "List administrative changes and refused requests, the newest last.",
        ),
        Command(
            "audit verify",
            ".audit:verify",
            "Verify that no record of the audit trail was changed, removed or inserted.",
        ),
        Command("backup create", ".backups:create", "Make a backup of all logs, of this moment.", "write"),
        Command("backup delete", ".backups:delete", "Delete backups, or cancel one that is running.", "danger"),
        Command("backup describe", ".backups:describe", "Show backups, and what their last verification found."),
        Command("backup list", ".backups:list_backups", "List backups, the newest first."),
        Command("backup prune", ".backups:prune", "Delete the backups that retention does not keep.", "danger"),
        Command("backup restore", ".backups:restore", "Restore one topic of a backup as a new topic.", "write"),
        Command("backup schedule", ".backups:schedule", "Show when the next backup begins, and which are kept."),
        Command("backup verify", ".backups:verify", "Read everything of a backup again: each hash and each frame."),
        Command("broker describe", ".broker:describe", "Show version, health and contents of a broker."),
        Command("broker logs", ".broker:logs", "Show the last lines of the broker's log."),
        Command("broker watch", ".broker:watch_broker", "Watch the rates of a broker."),
        Command(
            "cluster drain",
            ".cluster:drain",
            "Have others lead what a node leads, so that it can be stopped.",
            "danger",
        ),
        Command("cluster remove", ".cluster:remove", "Take a node that is gone for good out of the list.", "danger"),
        Command(
            "cluster replace-voter",
            ".cluster:replace_voter",
            "Give a node with a new data directory the vote of the one that is lost.",
            "danger",
        ),
        Command("cluster transfer", ".cluster:transfer", "Let another node become the controller.", "write"),
        Command("cluster undrain", ".cluster:undrain", "Let a drained node lead again.", "write"),
        COMPLETION,
        *CONFIG_COMMANDS,
        Command("dashboard", ".dashboard.command:dashboard", "Show the broker in a live terminal dashboard."),
        Command("doctor", ".doctor:doctor", "Find problems of a broker and how to solve them."),
        Command("key create", ".keys:create", "Create an API key, which is shown this once.", "write"),
        Command("key list", ".keys:list_keys", "List API keys, without their secrets."),
        Command("key revoke", ".keys:revoke", "Revoke API keys, at once and for ever.", "danger"),
        Command("key rotate", ".keys:rotate", "Give an API key another secret, which is shown this once.", "danger"),
        Command(
            "partition recover",
            ".partitions:recover",
            "Make a replica the leader that may lack committed messages, where no other is left.",
            "danger",
        ),
        Command("quota get", ".quotas:get", "Show the quotas of a tenant and what it uses of them."),
        Command(
            "quota reset", ".quotas:reset", "Reset all quotas of a tenant to the defaults of the broker.", "danger"
        ),
        Command("quota set", ".quotas:set_quotas", "Set quotas of a tenant; the others stay as they are.", "write"),
        Command(
            "quota test",
            ".quotas:compare",
            "Show which tenants would have been over a limit in the last days. Nothing changes.",
        ),
        Command(
            "rebalance describe", ".rebalances:describe", "Show the assignment of a group and pending revocations."
        ),
        Command("rebalance list", ".rebalances:list_groups", "List the rebalances of all groups."),
        Command("rebalance watch", ".rebalances:watch_groups", "Watch the rebalances of all groups."),
        Command(
            "reassign apply",
            ".reassignments:apply",
            "Move replicas as a plan says, while the partitions are used.",
            "danger",
        ),
        Command(
            "reassign cancel",
            ".reassignments:cancel",
            "Cancel a reassignment: what is on its way goes back, what has moved stays.",
            "danger",
        ),
        Command(
            "reassign describe",
            ".reassignments:describe",
            "Show the progress of each partition of a reassignment.",
        ),
        Command(
            "reassign list",
            ".reassignments:list_reassignments",
            "List the reassignments under way and the latest that have ended.",
        ),
        Command(
            "reassign pause",
            ".reassignments:pause",
            "Pause a reassignment: nothing is copied for it, and no further move begins.",
            "write",
        ),
        Command(
            "reassign plan", ".reassignments:plan", "Plan moves of replicas with the fewest copies. Nothing is moved."
        ),
        Command(
            "reassign resume",
            ".reassignments:resume",
            "Resume a paused reassignment, or change the throttle of one that runs.",
            "write",
        ),
        Command(
            "reassign verify",
            ".reassignments:verify",
            "Verify that all partitions have the replicas of a reassignment, and that these are in sync.",
        ),
        Command("role create", ".access_rules:create_role", "Create a role from rules.", "write"),
        Command("role delete", ".access_rules:delete_role", "Delete a role that no key and no rule has.", "danger"),
        Command("role list", ".access_rules:list_roles", "List the built-in and the custom roles."),
        Command("tenant activate", ".tenants:activate", "Activate suspended or disabled tenants.", "write"),
        Command("tenant create", ".tenants:create", "Create a tenant.", "write"),
        Command(
            "tenant delete",
            ".tenants:delete",
            "Delete tenants with all their topics, groups, keys and schemas.",
            "danger",
        ),
        Command("tenant describe", ".tenants:describe", "Describe tenants, and count what belongs to each."),
        Command("tenant disable", ".tenants:disable", "Disable tenants: all their requests are refused.", "danger"),
        Command("tenant list", ".tenants:list_tenants", "List tenants."),
        Command(
            "tenant suspend",
            ".tenants:suspend",
            "Suspend tenants: nothing is published, consumed or changed, lists are still answered.",
            "danger",
        ),
        Command("tenant update", ".tenants:update", "Change the name, description or metadata of a tenant.", "write"),
        Command("tls describe", ".tls:describe", "Show the TLS certificate that a broker uses, and when it expires."),
        Command("tls reload", ".tls:reload", "Let a broker load its TLS certificate again.", "write"),
        Command("usage", ".quotas:usage", "Report what tenants have published, consumed and stored."),
    ),
    groups={
        "acl": _ACL,
        "alert": _ALERT,
        "audit": _AUDIT,
        "backup": _BACKUP,
        "broker": _BROKER,
        "config": CONFIG,
        "key": _KEY,
        "quota": _QUOTA,
        "reassign": _REASSIGN,
        "rebalance": _REBALANCE,
        "role": _ROLE,
        "tenant": _TENANT,
        "cluster": _CLUSTER,
        "partition": _PARTITION,
        "tls": _TLS,
    },
    aliases={},
)
