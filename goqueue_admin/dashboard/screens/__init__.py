"""The screens and dialogs; `routes` lists them."""
