"""One module for each screen; `pages` has a row for each."""
