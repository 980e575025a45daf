"""The stored form of contents, and the files with the keys: read back as written, or refused with a sentence."""

import hashlib
import hmac
import os
import re
from pathlib import Path

import pytest
import zstandard
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from goqueue.backup.content_codec import OBJECT_NAME, ContentCodec
from goqueue.backup.key_file import BackupKey, KeyFile, new_key_text
from goqueue.backup.pieces import piece_of
from goqueue.errors import BackupDamaged, BackupKeyInvalid, BackupKeyMismatch
from tests.backup.keys import key_file, keys_of, secrets_in, write_secret

PATH = "backups/20261120T031500Z-00000000"
contents = st.binary(max_size=300) | st.builds(
    lambda part, count: part * count, st.binary(max_size=9), st.integers(0, 5000)
)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFile:
    return keys_of(key_file(tmp_path_factory.mktemp("keys") / "key"))


@given(content=contents, compresses=st.booleans(), encrypts=st.booleans())
def test_content_is_read_as_it_was_stored_whatever_its_form(
    keys: KeyFile, content: bytes, compresses: bool, encrypts: bool
) -> None:
    codec = ContentCodec(keys if encrypts else None, compresses=compresses)
    sha256 = piece_of(content).sha256
    name, stored = codec.encode_object(sha256, content)
    assert name in codec.object_names(sha256)
    assert OBJECT_NAME.fullmatch(name)
    reader = ContentCodec(keys)
    assert reader.decode_object(name, stored, len(content)) == content
    assert len(stored) <= len(content) + 200
    note = codec.encode_note(PATH, b"{" + content)
    key_id = keys.first.id if encrypts else ""
    assert reader.decode_note("it", PATH, note) == (b"{" + content, key_id)


@given(content=contents, data=st.data())
def test_changed_content_and_changed_name_are_refused(keys: KeyFile, content: bytes, data: st.DataObject) -> None:
    codec = ContentCodec(keys)
    name, stored = codec.encode_object(piece_of(content).sha256, content)
    changed = bytearray(stored)
    changed[data.draw(st.integers(0, len(stored) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    cut = stored[: data.draw(st.integers(0, len(stored) - 1))]
    other = codec.object_names(piece_of(content + b"x").sha256)[0]
    for used, found in ((name, bytes(changed)), (name, cut), (name, stored + b"x"), (other, stored)):
        with pytest.raises(BackupDamaged):
            codec.decode_object(used, found, len(content))


@given(content=contents)
def test_same_content_has_the_same_name_and_never_the_same_bytes(keys: KeyFile, content: bytes) -> None:
    codec, sha256 = ContentCodec(keys), piece_of(content).sha256
    (name, stored), (again, other) = (codec.encode_object(sha256, content) for _ in range(2))
    assert name == again
    assert sha256 not in name
    assert stored[-16:] != other[-16:]


def test_compressed_object_is_refused_where_its_content_would_be_larger_than_its_piece() -> None:
    codec, content = ContentCodec(), bytes(10**6)
    name, stored = codec.encode_object(piece_of(content).sha256, content)
    assert len(stored) < 1000
    with pytest.raises(BackupDamaged, match="999999 is the most"):
        codec.decode_object(name, stored, 10**6 - 1)


def test_random_bytes_are_not_compressed() -> None:
    content = os.urandom(200_000)
    sha256 = piece_of(content).sha256
    assert ContentCodec().encode_object(sha256, content) == (sha256, content)


def test_content_and_name_are_as_they_are_described(tmp_path: Path) -> None:
    """With the key and its page, a backup can be read without this program."""
    path, content = key_file(tmp_path / "key"), b"a" * 1000
    (secret,) = secrets_in(path)

    def hkdf(key: bytes, info: str, size: int, salt: bytes = bytes(32)) -> bytes:
        made = hmac.digest(salt, key, "sha256")
        first = hmac.digest(made, info.encode() + b"\1", "sha256")
        return (first + hmac.digest(made, first + info.encode() + b"\2", "sha256"))[:size]

    key = bytes.fromhex(secret)
    sha256 = hashlib.sha256(content)
    name, stored = ContentCodec(keys_of(path)).encode_object(sha256.hexdigest(), content)
    names = hkdf(key, "goqueue backup object names", 32)
    assert name == hmac.digest(names, sha256.digest(), "sha256").hex() + ".sealed"
    line, _, body = bytes(stored).partition(b"\n")
    word, version, form, used, salted = line.decode().split(" ")
    assert (word, version, form) == ("goqueue-content", "1", "zstd")
    assert used == f"key={hkdf(key, 'goqueue backup key id', 8).hex()}"
    salt = bytes.fromhex(salted.removeprefix("salt="))
    both = hkdf(hkdf(key, "goqueue backup contents", 32), "goqueue backup content", 44, salt)
    plain = AESGCM(both[:32]).decrypt(both[32:], body, line + b"\n" + name.encode())
    assert zstandard.decompress(plain) == content


def test_derived_keys_differ_and_are_not_shown() -> None:
    key, other = BackupKey(bytes(32)), BackupKey(bytes(31) + b"\1")
    assert (key.id, other.id) == ("e02e2c8a60c103e8", "677fef1fef32e79c")
    assert repr(key) == f"<BackupKey {key.id}>"
    assert key.object_name("00" * 32) != other.object_name("00" * 32)


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (None, 0, "cannot be read: No such file"),
        ("", 0o600, "has no key"),
        ("# nothing\n\n", 0o600, "has no key"),
        ("secret\n", 0o600, "line 1 of the key file .* has no id and key"),
        ("{id} {secret}x\n", 0o600, "line 1 of the key file .* has no id and key"),
        ("{id} {other}\n", 0o600, "line 1 of the key file .* has a key whose id is not {id}"),
        ("é", 0o600, "is not one"),
        ("#" * 70_000, 0o600, "is not one"),
        ("{id} {secret}\n", 0o640, "mode 640: others may read"),
        ("{id} {secret}\n", 0o604, "mode 604: others may read"),
        ("{id} {secret}\n", 0o602, "mode 602: others may read or change"),
    ],
)
def test_key_file_that_cannot_be_used_is_refused_with_its_name_and_never_shown(
    tmp_path: Path, text: str | None, mode: int, said: str
) -> None:
    path, secret = tmp_path / "key", "ab" * 32
    words = {"id": BackupKey(bytes.fromhex(secret)).id, "secret": secret, "other": "cd" * 32}
    if text is not None:
        path.touch()
        path.write_bytes(text.format(**words).encode())
        path.chmod(mode)
    with pytest.raises(BackupKeyInvalid, match=said.format(**words)) as refused:
        keys_of(path)
    assert str(path) in refused.value.sentence
    assert refused.value.hint
    assert not re.search("(ab|cd){8}|secret", str(refused.value).replace(str(path), ""))


def test_directory_and_pipe_are_no_key_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(BackupKeyInvalid, match=r"is not a file|cannot be read: Is a directory"):
            keys_of(path)


def test_key_that_is_added_is_found_without_a_restart(tmp_path: Path) -> None:
    path = key_file(tmp_path / "key")
    codec = ContentCodec(keys_of(path))
    note = codec.encode_note(PATH, b"{}")
    (old,) = keys_of(path).ids
    write_secret(path, new_key_text(path.read_text())[0])
    rotated = ContentCodec(keys_of(path))
    (new, again), secrets = keys_of(path).ids, secrets_in(path)
    assert (again, len(set(secrets))) == (old, 2)
    assert codec.decode_note("it", PATH, rotated.encode_note(PATH, b"{}")) == (b"{}", new)
    assert rotated.decode_note("it", PATH, note) == (b"{}", old)
    still = codec.encode_note(PATH, b"{}")
    assert rotated.decode_note("it", PATH, still)[1] == old, "a backup goes on with the key that it began with"
    codec.use_first_key()
    assert rotated.decode_note("it", PATH, codec.encode_note(PATH, b"{}"))[1] == new


def test_content_of_another_key_is_refused_with_the_ids_of_both(tmp_path: Path) -> None:
    one, other = (keys_of(key_file(tmp_path / name)) for name in ("one", "other"))
    stored = ContentCodec(one).encode_note(PATH, b"{}")
    with pytest.raises(BackupKeyMismatch, match=f"key {one.first.id}, and {other.path} has {other.first.id}"):
        ContentCodec(other).decode_note("it", PATH, stored)
    with pytest.raises(BackupKeyMismatch, match=f"key {one.first.id}, and there is no key file"):
        ContentCodec().decode_note("it", PATH, stored)
