"""The text of API keys."""

import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goqueue.security.api_key import KEY_CHARACTERS, is_secret, make_key, parse_key


def test_new_key_is_parsed_to_its_id_and_a_secret_that_fits_its_digest() -> None:
    key_id, text, stored = make_key(secrets.randbits)
    parts = parse_key(text)
    assert parts is not None
    assert text.startswith(f"gq_{key_id}_")
    assert parts.id == key_id
    assert is_secret(parts.secret, stored)
    assert len(text) == KEY_CHARACTERS


def test_new_keys_differ_in_id_and_secret() -> None:
    keys = [make_key(secrets.randbits) for _ in range(100)]
    assert len({key_id for key_id, _, _ in keys}) == 100
    assert len({stored for _, _, stored in keys}) == 100


def test_rotated_key_keeps_its_id() -> None:
    key_id, text, stored = make_key(secrets.randbits)
    same, other, new = make_key(secrets.randbits, key_id)
    assert same == key_id
    assert other != text
    assert new != stored


@given(st.integers(0, KEY_CHARACTERS - 1), st.characters(codec="utf-8"))
def test_key_with_another_character_is_refused_by_its_checksum(place: int, character: str) -> None:
    _, text, _ = make_key(secrets.randbits)
    changed = text[:place] + character + text[place + 1 :]
    assert (parse_key(changed) is not None) == (changed == text)


@pytest.mark.parametrize("text", ["", "gq_", "x" * KEY_CHARACTERS, "gq_abc_def", "Bearer x"])
def test_text_that_is_no_key_is_refused(text: str) -> None:
    assert parse_key(text) is None


def test_secret_of_another_key_does_not_fit() -> None:
    _, text, _ = make_key(secrets.randbits)
    _, _, other = make_key(secrets.randbits)
    parts = parse_key(text)
    assert parts is not None
    assert not is_secret(parts.secret, other)
