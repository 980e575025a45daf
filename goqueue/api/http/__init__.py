"""The HTTP/1.1 server: bytes to `HttpRequest`, `HttpResponse` to bytes, and limits for everything a client may do.

    message         a request, a response, and its bytes
    error_responses statuses and bodies of errors
    origin_guard    refuses requests that a browser sends for a page of another site
    server_state    the limits, what all connections of a server share, and the sweep over them
    request_reader  bytes to requests, or to an error; knows no socket
    connection      one client: answers in order, closes in time; the protocol class of uvicorn
    bridge          applications behind the connections
    sockets         sockets to listen on
    certificates    the certificate of the broker, and its reload
    tls_listener    connections whose clients speak TLS
    server          listening, and the stop

It is not a framework and has no routes: connections call the one function of their `ServerState`.
"""
