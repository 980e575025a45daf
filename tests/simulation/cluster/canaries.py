"""Planted defects that the simulation must find: each is a mistake that another implementation has made."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from goqueue.cluster.messages import Append, Diverged, NodeIdentity, VoteAnswer, VoteRequest
from goqueue.cluster.raft import Raft
from goqueue.cluster.voters import VoterHistory
from tests.simulation.cluster.universe import Universe

Plant = Callable[[Any, Universe], None]
"""Plants the defect, with a monkeypatch that takes it out again."""


def vote_not_saved(_: Any, universe: Universe) -> None:
    universe.forgets_votes = True


def vote_answered_before_it_is_saved(patch: Any, _: Universe) -> None:
    def on_vote_request(self: Raft, source: NodeIdentity, asked: VoteRequest, now_ns: int) -> None:
        original(self, source, asked, now_ns)
        self.effects += self._held
        self._held.clear()

    original = Raft._on_vote_request
    patch.setattr(Raft, "_on_vote_request", on_vote_request)


def no_log_comparison_in_votes(patch: Any, _: Universe) -> None:
    patch.setattr(Raft, "_is_up_to_date", lambda *_: True)


def entries_of_old_terms_committed(patch: Any, universe: Universe) -> None:
    universe.settings = replace(universe.settings, batch_records=1)
    universe.has_brief_leaders, universe.replaces_voters = True, False
    patch.setattr(Raft, "_is_of_own_term", lambda *_: True)


def majority_of_nodes_that_are_alive(patch: Any, _: Universe) -> None:
    def has_majority(self: Raft, nodes: set[NodeIdentity]) -> bool:
        return self.leader is None and len(nodes & self.voters) > max(1, len(nodes | {self.me})) // 2

    patch.setattr(Raft, "_has_majority", has_majority)


def half_is_a_majority(patch: Any, _: Universe) -> None:
    patch.setattr(Raft, "_has_majority", lambda self, nodes: len(nodes & self.voters) >= len(self.voters) // 2)


def no_pre_vote(patch: Any, _: Universe) -> None:
    def campaign(self: Raft, now_ns: int) -> None:
        if self._saved == self.vote:
            self._elect_with_majority(now_ns, transfer=True)

    patch.setattr(Raft, "_campaign", campaign)


def no_check_quorum(patch: Any, _: Universe) -> None:
    patch.setattr(Raft, "_quorum_heard_ns", lambda _, now_ns: now_ns)


def no_stickiness(patch: Any, _: Universe) -> None:
    patch.setattr(Raft, "_defends_leader", lambda *_: False)


def confirmed_before_it_is_durable(patch: Any, _: Universe) -> None:
    patch.setattr(Raft, "_confirmed", property(lambda self: self.verified_end))


def confirmed_what_the_leader_may_not_have(patch: Any, _: Universe) -> None:
    patch.setattr(Raft, "_confirmed", property(lambda self: self.log.durable_end))


def leader_counts_what_it_has_not_synced(patch: Any, _: Universe) -> None:
    def commit_majority(self: Raft, now_ns: int) -> None:
        durable_end, self.log.durable_end = self.log.durable_end, self.log.end
        original(self, now_ns)
        self.log.durable_end = durable_end

    original = Raft._commit_majority
    patch.setattr(Raft, "_commit_majority", commit_majority)


def epoch_before_an_append_not_compared(patch: Any, _: Universe) -> None:
    def take(self: Raft, append: Append, now_ns: int) -> int | None:
        same = Append(
            append.term, self.log.epoch_before(append.base), append.base, append.end, append.epochs, append.commit,
            append.sent_ns, append.content,
        )  # fmt: skip
        return original(self, same, now_ns)

    original = Raft._take
    patch.setattr(Raft, "_take", take)


def cut_to_the_commit_instead_of_the_epoch(patch: Any, _: Universe) -> None:
    def on_diverged(self: Raft, source: NodeIdentity, answer: Diverged, now_ns: int) -> None:
        original(self, source, Diverged(answer.term, answer.asked_epoch, answer.asked_end, 0, 0), now_ns)

    original = Raft._on_diverged
    patch.setattr(Raft, "_on_diverged", on_diverged)


def late_answer_cuts_what_was_confirmed(patch: Any, universe: Universe) -> None:
    universe.has_late_copies = universe.has_brief_leaders = True

    def on_diverged(self: Raft, source: NodeIdentity, answer: Diverged, now_ns: int) -> None:
        log = self.log
        same = Diverged(answer.term, log.last_epoch, log.end, answer.epoch, answer.end)
        original(self, source, same, now_ns)

    original = Raft._on_diverged
    patch.setattr(Raft, "_on_diverged", on_diverged)


def wiped_disk_keeps_its_vote(_: Any, universe: Universe) -> None:
    universe.keeps_identity_of_wiped = True


def answers_of_earlier_terms_counted(patch: Any, _: Universe) -> None:
    def on_vote_answer(self: Raft, source: NodeIdentity, answer: VoteAnswer, now_ns: int) -> None:
        if answer.granted:
            answer = VoteAnswer(self.term + (self.role == "pre_candidate"), True, self.role == "pre_candidate")
        original(self, source, answer, now_ns)

    original = Raft._on_vote_answer
    patch.setattr(Raft, "_on_vote_answer", on_vote_answer)


def restarted_leader_goes_on_in_its_term(patch: Any, _: Universe) -> None:
    def init(self: Raft, *arguments: Any) -> None:
        original(self, *arguments)
        if self.vote.candidate == self.me and self.me in self.voters and self.log.last_epoch == self.term:
            self._grants = set(self.voters)
            now_ns = arguments[-1]
            self._lead_with_majority(now_ns)

    original = Raft.__init__
    patch.setattr(Raft, "__init__", init)


def change_of_voters_not_reverted(patch: Any, universe: Universe) -> None:
    universe.replaces_voters = True
    patch.setattr(VoterHistory, "cut", lambda *_: None)


def voters_changed_before_the_last_change_is_committed(patch: Any, universe: Universe) -> None:
    universe.replaces_voters = universe.has_brief_leaders = True
    patch.setattr(VoterHistory, "changed_at", property(lambda _: -1))


CANARIES: tuple[Plant, ...] = (
    vote_not_saved,
    vote_answered_before_it_is_saved,
    no_log_comparison_in_votes,
    entries_of_old_terms_committed,
    majority_of_nodes_that_are_alive,
    half_is_a_majority,
    no_pre_vote,
    no_check_quorum,
    no_stickiness,
    confirmed_before_it_is_durable,
    confirmed_what_the_leader_may_not_have,
    leader_counts_what_it_has_not_synced,
    epoch_before_an_append_not_compared,
    cut_to_the_commit_instead_of_the_epoch,
    late_answer_cuts_what_was_confirmed,
    wiped_disk_keeps_its_vote,
    answers_of_earlier_terms_counted,
    restarted_leader_goes_on_in_its_term,
    change_of_voters_not_reverted,
    voters_changed_before_the_last_change_is_committed,
)
