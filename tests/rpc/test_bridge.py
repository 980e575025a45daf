"""Jobs from one thread to the loop of another."""

import asyncio
import threading

from goqueue.limits import RPC_JOBS_PER_TURN
from goqueue.rpc.bridge import Mailbox


def test_jobs_of_threads_are_done_in_order_and_let_other_work_go_on() -> None:
    done: list[tuple[int, int]] = []
    turns = 0

    async def run() -> None:
        nonlocal turns
        mailbox, finished = Mailbox(asyncio.get_running_loop()), asyncio.Event()
        count = 20 * RPC_JOBS_PER_TURN

        def take(thread: int, number: int) -> None:
            done.append((thread, number))
            if len(done) == 4 * count:
                finished.set()

        def send(thread: int) -> None:
            for number in range(count):
                mailbox.add(take, thread, number)

        threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        while not finished.is_set():
            await asyncio.sleep(0)
            turns += 1
        for thread in threads:
            thread.join()
        for sender in range(4):
            assert [number for one, number in done if one == sender] == list(range(count))
        assert turns >= 4 * 20

    asyncio.run(asyncio.wait_for(run(), 60))
