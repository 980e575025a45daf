"""The HTTP/1.1 server: bytes to `Request`, `Response` to bytes, and everything a client may do wrong in between.

    message     what a handler gets and gives
    limits      how much, and how long
    answer      a response as bytes
    origin      refuses what a foreign web page had a browser send
    desk        what all connections of a server share
    intake      bytes to requests, or to the reason why not; knows no socket
    connection  one client: answers in order, closes in time
    server      listening, the sweeper, the stop

It is no framework and has no routes: whoever starts a `Server` hands in one function.
"""
