"""Alerts about the quotas of tenants."""

from docs.monitoring.alert import Alert

_REFUSED = 'goqueue_tenant_quota_violations_total{@, quota="publish_rate_limit", tenant="team-a"}'
_STORAGE = 'goqueue_tenant_quota_percent{@, quota="max_storage_bytes", tenant="team-a"}'

TENANTS = (
    Alert(
        name="TenantOverQuota",
        when="requests of a tenant are refused because of the same quota again and again",
        expr="increase(goqueue_tenant_quota_violations_total[5m]) > 0",
        hold="15m",
        severity="warning",
        summary="tenant {{ $labels.tenant }} is over its quota {{ $labels.quota }}: "
        "{{ $value | humanize }} refusals within 5m",
        finding="quota_throttled",
        fires={_REFUSED: "0+60x60"},
        quiet={_REFUSED: "60x60"},
        says="tenant team-a is over its quota publish_rate_limit: 300 refusals within 5m",
        labels={"quota": "publish_rate_limit", "tenant": "team-a"},
    ),
    Alert(
        name="TenantStorageNearQuota",
        when="a tenant uses more than 90 % of its storage quota: at 100 % its publishes are refused",
        expr='goqueue_tenant_quota_percent{quota="max_storage_bytes"} > 90',
        hold="10m",
        severity="warning",
        summary="tenant {{ $labels.tenant }} uses {{ $value | humanize }}% of its quota {{ $labels.quota }}",
        finding="quota_near",
        fires={_STORAGE: "95x60"},
        quiet={_STORAGE: "85x60"},
        says="tenant team-a uses 95% of its quota max_storage_bytes",
        labels={"quota": "max_storage_bytes", "tenant": "team-a"},
    ),
)
