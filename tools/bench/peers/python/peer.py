#!/usr/bin/env python3
"""The peer CPython for foreign calls, with ctypes and threads. See ../README.md."""
import ctypes
import platform
import sys
import threading
import time

WARM_UP = 1000


def call(function, times, amount):
    for _ in range(times):
        function(amount)


def call_together(function, times, amount):
    threads = [threading.Thread(target=call, args=(function, times // 2, amount)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def prepared(library, name):
    function = getattr(library, name)
    function.argtypes, function.restype = [ctypes.c_int], ctypes.c_int
    return function


def run(path, case, count, length):
    library = ctypes.CDLL(path)
    spin, sleep = prepared(library, "calls_spin"), prepared(library, "calls_sleep")
    kind, way = case.split("_")
    function = spin if kind == "short" else sleep
    if kind == "short":
        call(spin, WARM_UP, length)
    elif way == "learned":
        call_together(sleep, 10, min(length, 20000))
    start = time.perf_counter()
    (call if way == "sequential" else call_together)(function, count, length)
    print(f'{{"ms": {(time.perf_counter() - start) * 1e3:.6f}}}')


if sys.argv[1:] == ["version"]:
    print(f"{platform.python_implementation()} {platform.python_version()}")
elif len(sys.argv) == 6 and sys.argv[1] == "calls":
    run(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
else:
    sys.exit("usage: peer version | calls LIBRARY CASE COUNT LENGTH")
