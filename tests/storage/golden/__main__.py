"""`python -m tests.storage.golden` writes the golden files anew."""

from tests.storage.golden.files import write_files

write_files()
