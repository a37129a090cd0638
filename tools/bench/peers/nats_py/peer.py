"""The peer nats-py: queues of JetStream, and requests. See ../README.md."""

import asyncio
import importlib.metadata
import json
import os
import sys
import time

import nats
from nats.js.api import ConsumerConfig, DiscardPolicy, RetentionPolicy, StorageType, StreamConfig

BATCH = 500  # jobs that are fetched at once
PATIENCE = 60  # seconds


class Run:
    """How many are in flight, how many jobs or calls there are, and the bytes of each."""

    def __init__(self, connection, in_flight, jobs, size):
        self.connection, self.js = connection, connection.jetstream()
        self.in_flight, self.jobs, self.payload = in_flight, jobs, b"x" * size

    async def open(self):
        """Makes the same stream and consumer as that of a queue of Baton."""
        await self.js.add_stream(
            StreamConfig(
                name="JOBS",
                subjects=["jobs"],
                retention=RetentionPolicy.WORK_QUEUE,
                storage=StorageType.FILE,
                discard=DiscardPolicy.NEW,
                duplicate_window=120,
            )
        )
        config = ConsumerConfig(ack_wait=30, max_ack_pending=-1)
        self.consumer = await self.js.pull_subscribe("jobs", "workers", "JOBS", config)

    async def together(self, count, work):
        await asyncio.gather(*(work(first) for first in range(count)))

    async def send_one(self, number):
        """Stores a job. It has an id, so that one that is sent again is stored once."""
        headers = {"Nats-Msg-Id": f"job {number}"}
        await self.js.publish("jobs", self.payload, timeout=PATIENCE, headers=headers)

    async def send(self, in_flight=None):
        in_flight = in_flight or self.in_flight

        async def work(first):
            for number in range(first, self.jobs, in_flight):
                await self.send_one(number)

        await self.together(in_flight, work)

    async def receive(self):
        """Receives all jobs, and acknowledges each. The server has all acknowledgements then."""
        received = 0
        while received < self.jobs:
            try:
                batch = await self.consumer.fetch(min(BATCH, self.jobs - received), timeout=1)
            except nats.errors.TimeoutError:
                continue
            for job in batch:
                await job.ack()
            received += len(batch)
        await self.connection.flush()

    async def both(self):
        await asyncio.gather(self.send(), self.receive())

    async def latency(self):
        """Returns the times from sending each job until it is received, one after the other."""
        times = []
        for number in range(self.jobs):
            fetching = asyncio.create_task(self.consumer.fetch(1, timeout=PATIENCE))
            await asyncio.sleep(0)  # it asks first
            sent = time.perf_counter()
            sending = asyncio.create_task(self.send_one(number))
            [job] = await fetching
            times.append((time.perf_counter() - sent) * 1e6)
            await job.ack()
            await sending
        return times

    async def call(self):
        """Calls a service of this program. Returns the times of the calls."""
        times = []

        async def answer(request):
            await request.respond(request.data)

        async def work(first):
            for _ in range(first, self.jobs, self.in_flight):
                sent = time.perf_counter()
                await self.connection.request("service", self.payload, timeout=PATIENCE)
                times.append((time.perf_counter() - sent) * 1e6)

        await self.connection.subscribe("service", queue="peer", cb=answer)
        await self.connection.flush()
        await self.together(self.in_flight, work)
        return times


async def main(part, in_flight, jobs, size):
    connection = await nats.connect(os.environ["NATS_URL"])
    run = Run(connection, in_flight, jobs, size)
    if part != "call":
        await run.open()
    if part == "receive":
        await run.send(min(256, jobs))
    work = {
        "send": run.send,
        "receive": run.receive,
        "both": run.both,
        "latency": run.latency,
        "call": run.call,
    }[part]
    begin, cpu = time.perf_counter(), time.process_time()
    times = await work()
    elapsed, used = time.perf_counter() - begin, time.process_time() - cpu
    figures = {"rate": jobs / elapsed, "cpu_us": used / jobs * 1e6}
    if times is not None:
        figures["us"] = times
    print(json.dumps(figures))
    await connection.close()


if sys.argv[1:] == ["version"]:
    print("nats-py", importlib.metadata.version("nats-py"))
else:
    part, in_flight, jobs, size = sys.argv[1:]
    asyncio.run(main(part, int(in_flight), int(jobs), int(size)))
