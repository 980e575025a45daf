"""The settings of a topic that decide how keys and values are checked when they are published."""

from typing import Literal, NamedTuple, Protocol

from goqueue.schemas.subject_names import SubjectNaming

Validation = Literal["none", "id", "payload"]


class ValidationSettings(Protocol):
    """The fields of a topic's settings."""

    @property
    def value_validation(self) -> Validation: ...
    @property
    def value_subject(self) -> SubjectNaming: ...
    @property
    def key_validation(self) -> Validation: ...
    @property
    def key_subject(self) -> SubjectNaming: ...


class ValidationRule(NamedTuple):
    """The check of the keys or the values of a topic."""

    is_key: bool
    checks_payload: bool
    """False: only that the schema id is one of the subject."""
    naming: SubjectNaming

    @property
    def setting(self) -> str:
        """The name of the setting that asks for the check."""
        return "key_validation" if self.is_key else "value_validation"

    @property
    def needs_schema(self) -> bool:
        """True if the schema itself must be read, and not only its id."""
        return self.checks_payload or self.naming != "topic"


def validation_rules(settings: ValidationSettings) -> tuple[ValidationRule, ...]:
    """Return the rules of a topic; none if nothing is checked."""
    given = (
        (False, settings.value_validation, settings.value_subject),
        (True, settings.key_validation, settings.key_subject),
    )
    return tuple(ValidationRule(is_key, how == "payload", naming) for is_key, how, naming in given if how != "none")
