"""The rows of quotas and usage."""

from goqueue import errors
from goqueue.api import quotas, usage
from goqueue.api.endpoint import Endpoint
from goqueue.api.http.error_responses import UNWRITABLE

_TENANT = (errors.TenantsOff, errors.TenantNotFound)

QUOTA_ENDPOINTS = (
    Endpoint(
        "GET", "/admin/tenants/{tenant}/quotas", quotas.describe, "Quotas of a tenant, and where they come from",
        answer=quotas.QuotasResponse, errors=_TENANT,
    ),
    Endpoint(
        "PUT", "/admin/tenants/{tenant}/quotas", quotas.change, "Change quotas of a tenant",
        body=quotas.ChangeQuotasRequest, answer=quotas.QuotasResponse,
        errors=(*_TENANT, errors.TenantBeingDeleted, *UNWRITABLE),
        example={"publish_rate_limit": 1000, "max_storage_bytes": 10737418240, "soft_limits": {"max_topics": 80}},
    ),
    Endpoint(
        "DELETE", "/admin/tenants/{tenant}/quotas", quotas.reset, "Reset the quotas of a tenant to the defaults",
        answer=quotas.QuotasResponse, errors=(*_TENANT, errors.TenantBeingDeleted, *UNWRITABLE),
    ),
    Endpoint(
        "GET", "/admin/tenants/{tenant}/usage", usage.of_tenant,
        "Usage of a tenant: totals, what is used of each quota, and periods; CSV with Accept text/csv",
        errors=_TENANT, may_be_large=True,
    ),
    Endpoint(
        "GET", "/admin/usage", usage.report, "Usage of all tenants by periods; CSV with Accept text/csv",
        errors=(errors.TenantsOff,), may_be_large=True,
    ),
    Endpoint(
        "POST", "/admin/quotas/test", quotas.test, "Find tenants that would have been over limits in the last days",
        errors=_TENANT, example={"limits": {"publish_rate_limit": 500}, "days": 7},
    ),
)  # fmt: skip
