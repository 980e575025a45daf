"""gRPC: the package `goqueue.v1` on a listener of its own. Every method is answered by endpoints of the HTTP table.

listener     the thread, the port, TLS, limits, start and stop
bridge       requests from that thread to the pipeline on the broker's loop, and their answers back
session      one call: its metadata, requests for it, and errors as a status
disconnection  the end of a connection whose client takes nothing
transcoding  messages as parameters, queries and JSON bodies, and answers as messages
endpoints    methods that are one endpoint each, found by the option `endpoint` in the `.proto` files
publishing, consuming, subscribing, settling, positions, transactions, administration
             methods that stream, or that differ from the endpoint that answers them
stubs        the services, for programs in Python
proto, v1    the `.proto` files, and the messages that are generated from them (`make fmt`)
"""
