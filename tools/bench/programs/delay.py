# The lateness of sleeps in asyncio: `delay.py seconds count`. Prints the same as delay.lua.
import asyncio
import sys
import time

seconds, count = float(sys.argv[1]), int(sys.argv[2])


async def main():
    late = []
    now = time.perf_counter
    start = now()
    for _ in range(count):
        before = now()
        await asyncio.sleep(seconds)
        late.append((now() - before - seconds) * 1e6)
    print("took_s", now() - start)
    print("late_us", *("%.2f" % one for one in late))


asyncio.run(main())
