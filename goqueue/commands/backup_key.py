"""`goqueue backup key`: the keys that backups are encrypted with."""

import os
from typing import Annotated

import typer

from goqueue.console import terminal
from goqueue.console.key_file import new_key_file
from goqueue.console.rows import Column
from goqueue.console.session import Session, output_flags

_FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="The key file.")]
_COLUMNS = (Column("ID", "name"), Column("USE", "use"))


def new(file: _FileArgument) -> None:
    """Make a key file, for its owner alone.

    \b
      goqueue backup key new backup.key
      goqueue serve --backup-target /mnt/backups --backup-key-file backup.key

    Keep a copy of it elsewhere, and not beside the backups: without it no backup can be read, by anyone.
    """
    from goqueue.backup.key_file import new_key_text  # noqa: PLC0415 - not for --help and completion

    text, key_id = new_key_text()
    with new_key_file(file, "FILE") as opened:
        opened.write(text)
    terminal.say(
        f"{file} has the new key {key_id}",
        "keep a copy of it elsewhere, and not beside the backups: without it no backup can be read, by anyone",
    )


def rotate(file: _FileArgument) -> None:
    """Add a key to a key file, which encrypts from now on.

    \b
      goqueue backup key rotate backup.key

    The keys before still decrypt. The next backup copies everything once more, encrypted with the new key. Remove the
    line of an old key when `goqueue-admin backup list -o wide` shows no backup with it.
    """
    from goqueue.backup.key_file import KeyFile, new_key_text, read_key_text  # noqa: PLC0415 - as above
    from goqueue.storage.disk import SystemDisk, raise_translated, replace_file  # noqa: PLC0415 - as above

    path = os.path.realpath(file)
    KeyFile(path).read()  # which refuses what is not one
    text, key_id = new_key_text(read_key_text(path))
    before = os.stat(path)
    replace_file(SystemDisk(), path, text.encode())
    try:
        os.chown(path, before.st_uid, before.st_gid)
        os.chmod(path, before.st_mode)
    except OSError as error:
        raise_translated(error, path)
    terminal.say(f"{file} has the new key {key_id}, which encrypts from the next backup on", "keep a new copy of it")


@output_flags
def list_keys(file: _FileArgument, *, session: Session) -> None:
    """List the ids of the keys in a file, and never the keys.

    \b
      goqueue backup key list backup.key
    """
    from goqueue.backup.key_file import KeyFile  # noqa: PLC0415 - as above

    keys = KeyFile(file)
    keys.read()
    session.write(
        [{"name": one, "use": "decrypts" if number else "encrypts, decrypts"} for number, one in enumerate(keys.ids)],
        _COLUMNS,
    )
