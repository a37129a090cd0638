# A program that waits, in asyncio: `idle.py case`. Prints the same as idle.lua.
import asyncio
import sys
import time


async def every(seconds):
    due = asyncio.get_running_loop().time()
    while True:
        due += seconds
        await asyncio.sleep(due - asyncio.get_running_loop().time())


async def main(case):
    never = asyncio.Event()
    kept = []
    if case == "second":
        kept.append(asyncio.create_task(every(1)))
    elif case == "kilohertz":
        kept.append(asyncio.create_task(every(0.001)))
    elif case == "listen":
        kept.append(await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0))
    elif case == "crowd":
        kept.extend(asyncio.create_task(never.wait()) for _ in range(10000))
        await asyncio.sleep(0)
    elif case == "hour":
        kept.append(asyncio.get_running_loop().call_later(3600, never.set))
    elif case == "busy":
        start = time.monotonic()
        while time.monotonic() - start < 1:
            pass
    print("ready", flush=True)
    await never.wait()


asyncio.run(main(sys.argv[1]))
