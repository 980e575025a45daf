"""The HTTP/1.1 server: bytes to `HttpRequest`, `HttpResponse` to bytes, and limits for everything a client may do.

    message         a request, a response, and its bytes
    error_responses statuses and bodies of errors
    origin_guard    refuses requests that a browser sends for a page of another site
    server_state    the limits, and what all connections of a server share
    request_reader  bytes to requests, or to an error; knows no socket
    connection      one client: answers in order, closes in time
    server          listening, the sweep over connections, the stop

It is not a framework and has no routes: the caller of `Server` passes one function.
"""
