%% The peer Erlang. See ../README.md. (OTP has a module named peer.)
-module(baton_peer).
-export([main/0]).

main() ->
    try
        run(init:get_plain_arguments()),
        halt(0)
    catch
        _:Reason ->
            io:format(standard_error, "~p~n", [Reason]),
            halt(1)
    end.

run(["version"]) ->
    io:format("Erlang/OTP ~s, erts ~s~n", [erlang:system_info(otp_release), erlang:system_info(version)]);
run(["switch", Case, Count]) ->
    N = list_to_integer(Count),
    Start = cpu_time(),
    Operations = switch(Case, N),
    io:format("{\"ns\": ~.3f}~n", [(cpu_time() - Start) / Operations]);
run(["thread-metric", Test, Seconds]) ->
    Interval = case string:to_float(Seconds) of
        {error, _} -> list_to_integer(Seconds) * 1000;
        {Float, _} -> round(Float * 1000)
    end,
    Start = erlang:monotonic_time(),
    Cpu = cpu_time(),
    erlang:send_after(Interval, self(), over),
    Counters = metric(Test),
    receive over -> ok end,
    Read = [counters:get(C, 1) || C <- Counters],
    check(Test, Read),
    Counts = lists:sum(Read),
    Took = erlang:convert_time_unit(erlang:monotonic_time() - Start, native, microsecond) / 1.0e6,
    io:format("{\"counts\": ~b, \"seconds\": ~.6f, \"cpu\": ~.6f}~n", [Counts, Took, (cpu_time() - Cpu) / 1.0e9]);
run(["scale", Count]) ->
    scale(list_to_integer(Count));
run(["cores" | Words]) ->
    baton_cores:run(Words);
run(_) ->
    error("usage: peer version | switch CASE COUNT | scale COUNT | thread-metric TEST SECONDS | cores ...").

%% The CPU time of all threads of this program, in nanoseconds; the system counts it in milliseconds.
cpu_time() ->
    {Milliseconds, _} = erlang:statistics(runtime),
    Milliseconds * 1.0e6.

%% Each case returns the number of its operations.
switch("yield", N) ->
    Turns = N div 2,
    together([fun() -> yield(Turns) end, fun() -> yield(Turns) end]),
    Turns * 2;
switch("channel", N) ->
    Sum = N * (N + 1) div 2,
    Receiver = start(fun() -> Sum = receive_all(N, 0) end),
    Sender = start(fun() -> {Pid, _} = Receiver, send_all(Pid, 1, N) end),
    await([Receiver, Sender]),
    N;
switch("semaphore", N) ->
    Turns = N div 2,
    First = start(fun() -> receive {begin_with, Other} -> turns(Other, Turns) end end),
    {FirstPid, _} = First,
    Second = {SecondPid, _} = start(fun() -> turns(FirstPid, Turns) end),
    FirstPid ! {begin_with, SecondPid},
    FirstPid ! turn,
    await([First, Second]),
    Turns * 2;
switch("spawn_join", N) ->
    N = spawn_and_join(N, 0),
    N;
%% A process that grants the lock takes the place of a mutex.
switch("mutex", N) ->
    Turns = N div 2,
    Lock = spawn(fun() -> lock() end),
    together([fun() -> lock_in_turns(Lock, Turns) end || _ <- [1, 2]]),
    Turns * 2;
%% Messages take the place of events, and of suspending and resuming.
switch("event", N) -> switch("semaphore", N);
switch("suspend", N) -> switch("semaphore", N);
switch("select", N) ->
    Sum = N * (N + 1) div 2,
    Receiver = start(fun() -> Sum = receive_tagged(N, 0) end),
    Sender = start(fun() -> {Pid, _} = Receiver, send_tagged(Pid, 1, N) end),
    await([Receiver, Sender]),
    N.

lock() ->
    receive {lock, Pid} -> Pid ! granted end,
    receive unlock -> lock() end.

lock_in_turns(_, 0) -> ok;
lock_in_turns(Lock, N) ->
    Lock ! {lock, self()},
    receive granted -> ok end,
    erlang:yield(),
    Lock ! unlock,
    lock_in_turns(Lock, N - 1).

send_tagged(_, I, N) when I > N -> ok;
send_tagged(Pid, I, N) ->
    Pid ! {element(I rem 4 + 1, {a, b, c, d}), self(), I},
    receive received -> send_tagged(Pid, I + 1, N) end.

receive_tagged(0, Sum) -> Sum;
receive_tagged(N, Sum) ->
    {Sender, Value} = receive
        {a, From, I} -> {From, I};
        {b, From, I} -> {From, I};
        {c, From, I} -> {From, I};
        {d, From, I} -> {From, I}
    end,
    Sender ! received,
    receive_tagged(N - 1, Sum + Value).

%% Each test starts its processes and returns their counters. The processes run until the program
%% ends. The process that reads the counters has a higher priority.
metric(Test) ->
    process_flag(priority, high),
    metric_of(Test).

metric_of("basic") ->
    [counting(fun() ->
        Words = atomics:new(1024, []),
        fun(N) -> basic(Words, 1024, N) end
    end)];
metric_of("cooperative") ->
    [counting(fun() -> fun(_) -> erlang:yield() end end) || _ <- lists:seq(1, 5)];
metric_of("message") ->
    [counting(fun() ->
        fun(N) ->
            Message = <<N:64, (-N):64>>,
            self() ! Message,
            receive Message -> ok end
        end
    end)];
metric_of("synchronization") ->
    [counting(fun() ->
        self() ! unit,
        fun(_) ->
            receive unit -> ok end,
            self() ! unit
        end
    end)];
metric_of("memory") ->
    [counting(fun() -> fun(N) -> put(kept, erlang:make_tuple(15, N)) end end)].

%% Counters of processes that take turns must be within one of their mean.
check("cooperative", Counts) ->
    case {lists:min(Counts), lists:max(Counts)} of
        {Least, Most} when Least > 0, Most - Least =< 1 -> ok;
        _ -> error({"the counters are more than one from each other", Counts})
    end;
check(_, _) -> ok.

counting(Prepare) ->
    Counter = counters:new(1, [write_concurrency]),
    spawn(fun() -> count_on(Prepare(), Counter, 0) end),
    Counter.

count_on(Body, Counter, N) ->
    Body(N),
    counters:add(Counter, 1, 1),
    count_on(Body, Counter, N + 1).

basic(_, 0, _) -> ok;
basic(Words, I, N) ->
    Old = atomics:get(Words, I),
    atomics:put(Words, I, ((Old + N) bxor Old) band 16#7fffffffffffffff),
    basic(Words, I - 1, N).

start(Body) ->
    spawn_monitor(Body).

await(Started) ->
    lists:foreach(fun({Pid, Monitor}) -> receive {'DOWN', Monitor, process, Pid, normal} -> ok end end, Started).

together(Bodies) ->
    await([start(Body) || Body <- Bodies]).

yield(0) -> ok;
yield(N) ->
    erlang:yield(),
    yield(N - 1).

%% Senders do not wait for the receiver, so the receiver returns a receipt.
send_all(_, I, N) when I > N -> ok;
send_all(Pid, I, N) ->
    Pid ! {self(), I},
    receive taken -> send_all(Pid, I + 1, N) end.

receive_all(0, Sum) -> Sum;
receive_all(N, Sum) ->
    receive
        {From, Value} ->
            From ! taken,
            receive_all(N - 1, Sum + Value)
    end.

%% In Erlang, a message without contents takes the place of a semaphore's signal.
turns(_, 0) -> ok;
turns(Other, N) ->
    receive
        turn ->
            Other ! turn,
            turns(Other, N - 1)
    end.

spawn_and_join(0, Done) -> Done;
spawn_and_join(N, Done) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit(Done + 1) end),
    receive {'DOWN', Monitor, process, Pid, Sum} -> spawn_and_join(N - 1, Sum) end.

scale(N) ->
    erlang:garbage_collect(),
    Base = status("VmRSS") + status("VmPTE"),
    Before = erlang:system_info(process_count),
    Start = erlang:monotonic_time(),
    Waiting = [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, N)],
    last_in_line(),
    Spawned = erlang:monotonic_time(),
    {Rss, Pte} = {status("VmRSS"), status("VmPTE")},
    Release = erlang:monotonic_time(),
    lists:foreach(fun(Pid) -> Pid ! stop end, Waiting),
    until_there_are(Before),
    Ended = erlang:monotonic_time(),
    io:format("{\"spawn_us\": ~.3f, \"end_us\": ~.3f, \"base_kib\": ~b, \"rss_kib\": ~b, \"pte_kib\": ~b}~n",
              [each(Spawned - Start, N), each(Ended - Release, N), Base, Rss, Pte]).

%% A process that is spawned last runs after all others of its priority.
last_in_line() ->
    together([fun() -> ok end]).

until_there_are(Count) ->
    case erlang:system_info(process_count) > Count of
        true ->
            erlang:yield(),
            until_there_are(Count);
        false ->
            ok
    end.

each(Time, N) ->
    erlang:convert_time_unit(Time, native, nanosecond) / 1.0e3 / N.

%% A line of /proc/self/status, in KiB.
status(Name) ->
    {ok, Text} = file:read_file("/proc/self/status"),
    {match, [Kib]} = re:run(Text, Name ++ ":\\s+(\\d+) kB", [{capture, all_but_first, list}]),
    list_to_integer(Kib).
