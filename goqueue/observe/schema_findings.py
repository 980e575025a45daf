"""Findings about topics whose messages are checked against schemas."""

from goqueue.observe.facts import BrokerFacts
from goqueue.observe.finding import Finding, FindingStream, finding_rule


@finding_rule("warning")
def subject_empty(facts: BrokerFacts) -> FindingStream:
    for one in facts.empty_subjects:
        yield Finding(
            one.topic,
            f"messages are refused because the subject {one.subject} has no schema",
            f"register one: `goqueue-cli schema register {one.subject} FILE`, or stop checking: "
            f"`goqueue-cli topic edit {one.topic} --set {one.setting}=none`",
            {"subject": one.subject, "setting": one.setting},
        )
