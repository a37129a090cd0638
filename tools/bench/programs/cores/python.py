# Work and messages on two cores: `python.py processes|interpreters map KIND SECONDS`, `message WAY
# KIND BYTES SECONDS`, `spawn COUNT` or `version`. Processes are those of multiprocessing, with
# pipes. Interpreters are those of `concurrent.interpreters`, with its queues, each in a thread.
import json
import multiprocessing
import os
import sys
import threading
import time

if sys.argv[1] == "interpreters":
    try:
        from concurrent.interpreters import create, create_queue

        QUEUES = "concurrent.interpreters"
    except ImportError:
        # Python 3.13 has the same module among its tests.
        from test.support.interpreters import create
        from test.support.interpreters.queues import create as create_queue

        QUEUES = "test.support.interpreters.queues"


def queens():
    size = 7
    columns, up, down = [False] * size, [False] * 2 * size, [False] * 2 * size

    def place(row):
        if row == size:
            return 1
        ways = 0
        for column in range(size):
            rising, falling = row + column, row - column + size
            if not (columns[column] or up[rising] or down[falling]):
                columns[column] = up[rising] = down[falling] = True
                ways += place(row + 1)
                columns[column] = up[rising] = down[falling] = False
        return ways

    return place(0)


def mandelbrot():
    size, limit = 40, 50
    steps = 0
    for row in range(size):
        for column in range(size):
            cx, cy = column * 3 / size - 2, row * 2 / size - 1
            x, y, step = 0.0, 0.0, 0
            while step < limit and x * x + y * y < 4:
                x, y = x * x - y * y + cx, 2 * x * y + cy
                step += 1
            steps += step
    return steps


def grow(depth):
    return (grow(depth - 1), grow(depth - 1)) if depth else ()


def nodes(tree):
    return 1 + nodes(tree[0]) + nodes(tree[1]) if tree else 1


CHUNKS = {"queens": queens, "mandelbrot": mandelbrot, "trees": lambda: nodes(grow(11))}


# The sides of a worker. Each has `send` and `receive`, and measures its own CPU time: a process
# that of the process, an interpreter that of its thread.
class Pipe:
    cpu = staticmethod(time.process_time)

    def __init__(self, connection):
        self.send, self.receive = connection.send, connection.recv


class Queues:
    cpu = staticmethod(time.thread_time)

    def __init__(self, outgoing, incoming):
        self.send, self.receive = outgoing.put, incoming.get


def serve(side, role, kind):
    if role == "begin":
        side.send(True)
    while True:
        value = side.receive()
        if value is None:
            return
        start = side.cpu()
        if role == "answer":
            side.send(value)
            continue
        if role == "work":
            for _ in range(value):
                CHUNKS[kind]()
        elif role == "receive":
            for _ in range(value):
                side.receive()
        side.send(side.cpu() - start)


def serve_process(mine, its, role, kind):
    mine.close()  # Otherwise the end of the program would not be the end of the pipe.
    try:
        serve(Pipe(its), role, kind)
    except EOFError:
        pass


def start_process(role, kind=None, room=None):
    mine, its = multiprocessing.Pipe()
    words = (mine, its, role, kind)
    worker = multiprocessing.Process(target=serve_process, args=words, daemon=True)
    worker.start()
    its.close()
    return Pipe(mine)


def start_interpreter(role, kind=None, room=0):
    there, back = create_queue(room), create_queue()
    interpreter = create()
    interpreter.exec(f"import {QUEUES}")  # It must know queues before it gets one.
    interpreter.prepare_main(there=there, back=back, role=role, kind=kind, path=__file__)
    code = """if True:
        import sys, runpy
        sys.argv = [path, "interpreters"]
        program = runpy.run_path(path)
        program["serve"](program["Queues"](back, there), role, kind)"""
    threading.Thread(target=interpreter.exec, args=(code,), daemon=True).start()
    return Queues(there, back)


STARTS = {"processes": start_process, "interpreters": start_interpreter}


def run_map(start, kind, seconds):
    seconds = float(seconds)
    workers = [start("work", kind), start("work", kind)]

    def together(some, count):
        begin = time.perf_counter()
        for worker in some:
            worker.send(count // len(some))
        cpu = sum(worker.receive() for worker in some)
        return time.perf_counter() - begin, cpu

    together(workers, 2)  # Both have started.
    count = 2
    while True:
        one, cpu_of_one = together(workers[:1], count)
        if one >= seconds:
            break
        count *= 2
    two, cpu_of_two = together(workers, count)
    return {
        "one_ms": one * 1e3,
        "two_ms": two * 1e3,
        "speedup": one / two,
        "cpu": cpu_of_two / cpu_of_one,
    }


# Repeats `run` with four times as many until it takes long enough. Returns the last one's figures
# for each of its messages.
def until_long(side, seconds, messages, run):
    run(1)  # The worker has begun.
    count = 1
    while True:
        begin, cpu = time.perf_counter(), side.cpu()
        other = run(count)
        cpu, took, each = side.cpu() - cpu, time.perf_counter() - begin, count * messages
        if took >= seconds:
            break
        count *= 4
    figures = {"us": took * 1e6 / each, "sender_us": cpu * 1e6 / each}
    if other is not None:
        figures["receiver_us"] = other * 1e6 / each
        figures["cpu_us"] = figures["sender_us"] + figures["receiver_us"]
    return figures


def run_message(start, way, kind, size, seconds):
    size, seconds = int(size), float(seconds)
    text = b"x" * size

    def create(number):
        if kind == "text":
            return text
        return {"id": number, "price": 12.5, "name": "a small order", "open": True}

    def pass_to_and_fro(count):
        for number in range(count):
            side.send(create(number))
            side.receive()

    def stream(count):
        side.send(count)
        for number in range(count):
            side.send(create(number))
        return side.receive()

    if way == "pingpong":
        side = start("answer")
        return until_long(side, seconds, 2, pass_to_and_fro)
    # A queue that is full or empty is looked at again after 10 ms, so it has much room.
    side = start("receive", room=max(2, min(10_000, (64 << 20) // size)))
    return until_long(side, seconds, 1, stream)


def run_spawn(start, count):
    count = int(count)
    print("base", flush=True)
    sys.stdin.readline()
    begin = time.perf_counter()
    workers = []
    for _ in range(count):
        workers.append(start("begin"))
        workers[-1].receive()
    print(json.dumps({"us": (time.perf_counter() - begin) * 1e6 / count}))
    print("all", flush=True)
    sys.stdin.readline()


def main(kind, part, *words):
    if part == "version":
        print(sys.version.split()[0])
        return
    parts = {"map": run_map, "message": run_message, "spawn": run_spawn}
    figures = parts[part](STARTS[kind], *words)
    if figures:
        print(json.dumps(figures), flush=True)
    if kind == "interpreters":
        os._exit(0)  # Threads that wait would keep the program.


if __name__ == "__main__":
    main(*sys.argv[1:])
