"""Generated from the `.proto` files by `make fmt`: the messages of the package `goqueue.v1`."""
