"""Generated from the `.proto` files by `make fmt`: messages and stubs of the package `goqueue.v1`."""
