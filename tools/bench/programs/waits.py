# A program that waits, in asyncio: `waits.py idle case` prints the same as idle.lua, and `waits.py
# delay seconds count` the same as delay.lua.
import asyncio
import sys
import time


async def every(seconds):
    due = asyncio.get_running_loop().time()
    while True:
        due += seconds
        await asyncio.sleep(due - asyncio.get_running_loop().time())


async def idle(case):
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


async def delay(seconds, count):
    late, seconds = [], float(seconds)
    now = time.perf_counter
    start = now()
    for _ in range(int(count)):
        before = now()
        await asyncio.sleep(seconds)
        late.append((now() - before - seconds) * 1e6)
    print("took_s", now() - start)
    print("late_us", *("%.2f" % one for one in late))


asyncio.run({"idle": idle, "delay": delay}[sys.argv[1]](*sys.argv[2:]))
