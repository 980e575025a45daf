"""Plain sentences for the failures of object stores: what failed, and what an operator can do."""

import re

from goqueue.config.store_address import StoreAddress
from goqueue.errors import BackupTargetInvalid

_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_STATUS = re.compile(r"status code: ([0-9]{3})")
_REFUSED = {"401", "403"}
_NETWORK = ("error sending request", "Connect", "error decoding response body", "timed out", "operation timed out")

_CREDENTIALS = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a file in `backup.credentials_file`",
    "gs": "set GOOGLE_SERVICE_ACCOUNT, or name a file in `backup.credentials_file`",
    "az": "set AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


def explain_failure(address: StoreAddress, name: str, error: Exception) -> BackupTargetInvalid:
    """Return an error for an operator. The text of the library is not shown: it has addresses, names and much else."""
    text = str(error)
    code, status = _first(_CODE, text), _first(_STATUS, text)
    place = f"{address}/{name}" if name else str(address)
    if code == "NoSuchBucket":
        return BackupTargetInvalid(
            f"{address} cannot be used: its bucket does not exist", hint="create the bucket, or correct `backup.target`"
        )
    if "Missing" in text or "169.254.169.254" in text or "metadata.google" in text:
        return BackupTargetInvalid(
            f"{address} cannot be used: there are no credentials for it", hint=_CREDENTIALS[address.scheme]
        )
    if status in _REFUSED:
        return BackupTargetInvalid(
            f"{place} cannot be used: the store refuses the credentials ({code or status})",
            hint=f"{_CREDENTIALS[address.scheme]}; they must permit to list, read, write and delete",
        )
    if "builder error" in text or "BadScheme" in text:
        return BackupTargetInvalid(
            f"{address} cannot be used: its endpoint has no TLS",
            hint="write https://, or accept it with `backup.allow_http: true`",
        )
    if status:
        return BackupTargetInvalid(
            f"{place} failed: the store answers {status}{f' ({code})' if code else ''}",
            hint="see the state of the store, and try again; where its region is wrong, set `backup.region`",
        )
    if any(one in text for one in _NETWORK):
        return BackupTargetInvalid(
            f"{place} cannot be reached", hint="see the network, and `backup.endpoint`; then try again"
        )
    said = text.partition("\n")[0][:200]
    return BackupTargetInvalid(f"{place} failed: {said}", hint="see the state of the store, and try again")


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""
