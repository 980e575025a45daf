"""Backups in an object store: S3 and what is compatible, Google Cloud Storage, Azure Blob Storage.

Pieces and manifests are written only where their names are free, so nothing that a backup needs is ever replaced.
Large pieces are sent in several parts, which has no condition; that is as safe, because a name stands for one content.
Before a manifest is written and before anything is deleted, the lease is renewed.
"""

import configparser
import os.path
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import cache, cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

from goqueue.backup.lease import TargetLease
from goqueue.backup.store_failure import explain_failure
from goqueue.backup.target_storage import Pace
from goqueue.config import BackupConfig
from goqueue.config.store_address import StoreAddress
from goqueue.errors import BackupDamaged, BackupTargetInvalid
from goqueue.limits import (
    STORE_CONNECT_SECONDS,
    STORE_PART_BYTES,
    STORE_PARTS_AT_ONCE,
    STORE_REQUEST_SECONDS,
    STORE_RETRIES,
    STORE_RETRY_SECONDS,
)
from goqueue.storage.disk import Buffer, Lock

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")

_WRITTEN_ONCE = ("objects/", "backups/")
_OURS = {"FORMAT", "id", "lock", "objects", "backups", "verified"}
_MISSING_WAITS = (0.1, 0.4)
"""Seconds: some stores do not have at once what was written a moment ago."""
_GUARDED = ("FORMAT", "backups/", "verified/")
"""Contents that are written only after the lease was renewed."""


class ObjectStorage:
    """The storage of a target in an object store."""

    vanished_hint = "restore the bucket"

    def __init__(self, address: StoreAddress, settings: BackupConfig) -> None:
        self._address = address
        self._settings = settings
        self._lease: TargetLease | None = None

    def __str__(self) -> str:
        return str(self._address)

    def refuse_unusable(self) -> None:
        self._ask(lambda: self._store, "")

    def _require_library(self) -> None:
        if not _is_installed():
            raise BackupTargetInvalid(
                f"backups in {self} need obstore, which is not installed",
                hint="pip install 'goqueue[object-store]'",
            )

    @cached_property
    def _store(self) -> "ObjectStore":
        from obstore.store import from_url  # noqa: PLC0415 - an extra, and only for these targets

        seconds = timedelta(seconds=1)
        config: Any = _store_config(self._address, self._settings)
        return from_url(
            str(self._address),
            config=config,
            client_options={
                "allow_http": self._settings.allow_http,
                "connect_timeout": STORE_CONNECT_SECONDS * seconds,
                "timeout": STORE_REQUEST_SECONDS * seconds,
                "user_agent": "goqueue",
            },
            retry_config={
                "max_retries": STORE_RETRIES,
                "retry_timeout": STORE_RETRY_SECONDS * seconds,
                "backoff": {"init_backoff": 0.1 * seconds, "max_backoff": 2 * seconds, "base": 2},
            },
        )

    def _ask(self, request: Callable[[], T], name: str) -> T:
        """Make a request; foreign errors become ours, but for those about conditions and missing objects."""
        self._require_library()
        from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError  # noqa: PLC0415

        try:
            return request()
        except (AlreadyExistsError, PreconditionError):
            raise
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise explain_failure(self._address, name, error) from None
            raise
        except (BaseError, ValueError, OSError) as error:
            if "<Code>NoSuchKey</Code>" in str(error):  # of the rest of a content that was cut
                raise FileNotFoundError(name) from None
            raise explain_failure(self._address, name, error) from None

    def lock(self, owner: str) -> Lock:
        self.refuse_unusable()
        if self.get("FORMAT") is None:
            self._refuse_foreign()
        lease = TargetLease(_LockObject(self), str(self), owner)
        self._lease = lease
        return lease

    def _refuse_foreign(self) -> None:
        import obstore  # noqa: PLC0415

        found = self._ask(lambda: obstore.list_with_delimiter(self._store), "")
        names = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
        strangers = [name for name in names if name not in _OURS]
        if strangers:
            raise BackupTargetInvalid(
                f"{self} holds no backups but {', '.join(map(ascii, sorted(strangers)[:3]))}",
                hint="name an empty prefix, or one that has backups",
            )

    def sizes(self, folder: str) -> dict[str, int]:
        import obstore  # noqa: PLC0415

        def pages() -> dict[str, int]:
            found = obstore.list(self._store, f"{folder}/")
            return {one["path"].rpartition("/")[2]: one["size"] for page in found for one in page}

        return self._ask(pages, folder)

    def get(self, name: str) -> bytes | None:
        for wait in (*_MISSING_WAITS, None) if name.startswith(_WRITTEN_ONCE) else (None,):
            found = self._read(name)
            if found is not None:
                return found[0]
            if wait is not None:
                time.sleep(wait)
        return None

    def _read(self, name: str) -> tuple[bytes, str] | None:
        """Return a content and its version."""
        import obstore  # noqa: PLC0415

        def read() -> tuple[bytes, str]:
            result = obstore.get(self._store, name)
            return bytes(result.bytes()), str(result.meta["e_tag"])

        try:
            return self._ask(read, name)
        except FileNotFoundError:
            return None

    def put(self, name: str, content: Buffer, pace: Pace | None = None) -> None:
        import obstore  # noqa: PLC0415

        if name.startswith(_GUARDED):
            self._renew_lease()
        is_large = len(content) > STORE_PART_BYTES
        if is_large or not name.startswith(_WRITTEN_ONCE):
            self._ask(
                lambda: obstore.put(
                    self._store,
                    name,
                    content,
                    use_multipart=is_large,
                    chunk_size=STORE_PART_BYTES,
                    max_concurrency=STORE_PARTS_AT_ONCE,
                ),
                name,
            )
        elif self.write_if(name, content, None) is None and name.startswith("backups/") and self.get(name) != content:
            raise BackupDamaged(f"{self}/{name} was written by another process", hint="make another backup")
        if pace is not None:
            pace(len(content))

    def write_if(self, name: str, content: Buffer, version: str | None) -> str | None:
        """Write what still has this version, or is absent; return the new version, or None if it is otherwise."""
        import obstore  # noqa: PLC0415
        from obstore.exceptions import AlreadyExistsError, PreconditionError  # noqa: PLC0415

        try:
            mode: Any = "create" if version is None else {"e_tag": version}
            result = self._ask(lambda: obstore.put(self._store, name, content, mode=mode, use_multipart=False), name)
        except (AlreadyExistsError, PreconditionError, FileNotFoundError):
            return None
        return str(result["e_tag"])

    def delete(self, names: Sequence[str]) -> None:
        import obstore  # noqa: PLC0415

        if not names:
            return
        self._renew_lease()
        try:
            self._ask(lambda: obstore.delete(self._store, list(names)), names[0])
        except FileNotFoundError:
            for name in names:
                self._delete_one(name)

    def _delete_one(self, name: str) -> None:
        import obstore  # noqa: PLC0415

        try:
            self._ask(lambda: obstore.delete(self._store, name), name)
        except FileNotFoundError:
            return

    def _renew_lease(self) -> None:
        assert self._lease is not None, "a target is changed only while it is locked"
        self._lease.renew()


@cache
def _is_installed() -> bool:
    return find_spec("obstore") is not None


class _LockObject:
    """The object of the lease."""

    def __init__(self, storage: ObjectStorage) -> None:
        self._storage = storage

    def read(self) -> tuple[bytes, str] | None:
        return self._storage._read("lock")

    def write(self, content: bytes, version: str | None) -> str | None:
        return self._storage.write_if("lock", content, version)


def _store_config(address: StoreAddress, settings: BackupConfig) -> dict[str, str]:
    """Return what the settings say; the library takes the rest from the environment."""
    file = None if settings.credentials_file == "none" else os.path.abspath(settings.credentials_file)
    if address.scheme == "gs":
        return {} if file is None else {"service_account": file}
    if address.scheme == "az":
        if file is not None:
            raise BackupTargetInvalid(
                f"{address} takes no credentials from a file", hint="set AZURE_STORAGE_ACCOUNT_NAME and …_KEY"
            )
        return {}
    config = {} if file is None else _read_credentials(file)
    if settings.endpoint != "none":
        config["endpoint"] = settings.endpoint
    if settings.region != "none":
        config["region"] = settings.region
    return config


def _read_credentials(path: str) -> dict[str, str]:
    """Read the first profile of a file as the command line of AWS has it."""
    parser = configparser.ConfigParser(interpolation=None)
    hint = "write a line [default], and lines aws_access_key_id = … and aws_secret_access_key = …"
    try:
        with open(path, encoding="utf-8") as file:
            parser.read_file(file)
    except OSError as error:
        raise BackupTargetInvalid(
            f"{path} cannot be read: {error.strerror}", hint="correct its path and mode"
        ) from None
    except (configparser.Error, UnicodeDecodeError):  # their texts show lines of the file
        raise BackupTargetInvalid(f"{path} has no credentials in the form of AWS", hint=hint) from None
    for name in (*(one for one in ("default",) if one in parser), *parser.sections()):
        profile = parser[name]
        found = {
            key: profile[f"aws_{key}"]
            for key in ("access_key_id", "secret_access_key", "session_token")
            if f"aws_{key}" in profile
        }
        if {"access_key_id", "secret_access_key"} <= found.keys():
            return found
    raise BackupTargetInvalid(f"{path} has no credentials in the form of AWS", hint=hint)
