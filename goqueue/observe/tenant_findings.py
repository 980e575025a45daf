"""Findings about tenants."""

from goqueue.observe.facts import BrokerFacts
from goqueue.observe.finding import Finding, FindingStream, finding_rule
from goqueue.quantities import format_count


@finding_rule("warning")
def tenant_refused(facts: BrokerFacts) -> FindingStream:
    for one in facts.refused_tenants:
        why = f" ({one.reason})" if one.reason else ""
        yield Finding(
            one.tenant,
            f"the tenant is {one.status}{why}, and {format_count(one.requests, 'request')} of it "
            f"{'was' if one.requests == 1 else 'were'} refused in the last two minutes",
            f"stop its programs, or `goqueue-admin tenant activate {one.tenant}`",
            {"status": one.status, "requests": one.requests},
        )
