%% Work and messages on two cores: map KIND SECONDS | message WAY KIND BYTES SECONDS |
%% reference WHAT SIZE SECONDS. The program needs two schedulers.
-module(baton_cores).
-export([run/1]).

run(["map", Kind, Seconds]) ->
    map(work(Kind), seconds(Seconds), 2);
run(["message", Way, Kind, Bytes, Seconds]) ->
    Create = create(Kind, list_to_integer(Bytes)),
    message(Way, Create, seconds(Seconds));
run(["reference", What, Size, Seconds]) ->
    Value = reference(What, list_to_integer(Size)),
    message("pingpong", fun(_) -> Value end, seconds(Seconds)).

seconds(Text) ->
    case string:to_float(Text) of
        {error, _} -> float(list_to_integer(Text));
        {Float, _} -> Float
    end.

%% The time in seconds, and the CPU time of all threads in seconds, that a function takes.
timed(Run) ->
    {Before, _} = erlang:statistics(runtime),
    Start = erlang:monotonic_time(),
    Run(),
    Took = erlang:convert_time_unit(erlang:monotonic_time() - Start, native, nanosecond) / 1.0e9,
    {After, _} = erlang:statistics(runtime),
    {Took, (After - Before) / 1.0e3}.

work("queens") -> fun() -> place(1, []) end;
work("mandelbrot") -> fun mandelbrot/0;
work("trees") -> fun() -> count_nodes(grow(11)) end.

%% Counts the ways to place seven queens from this row on, where Placed are the columns before.
place(8, _) ->
    1;
place(Row, Placed) ->
    lists:sum([place(Row + 1, [C | Placed]) || C <- lists:seq(1, 7), is_safe(C, Placed, 1)]).

is_safe(_, [], _) -> true;
is_safe(C, [Other | _], Distance) when C =:= Other; abs(C - Other) =:= Distance -> false;
is_safe(C, [_ | Placed], Distance) -> is_safe(C, Placed, Distance + 1).

mandelbrot() ->
    Size = 40,
    Points = [{C * 3 / Size - 2, R * 2 / Size - 1} || R <- lists:seq(0, 39), C <- lists:seq(0, 39)],
    lists:sum([steps(X, Y, 0.0, 0.0, 0) || {X, Y} <- Points]).

steps(Cx, Cy, X, Y, Step) when Step < 50, X * X + Y * Y < 4 ->
    steps(Cx, Cy, X * X - Y * Y + Cx, 2 * X * Y + Cy, Step + 1);
steps(_, _, _, _, Step) ->
    Step.

grow(0) -> {};
grow(Depth) -> {grow(Depth - 1), grow(Depth - 1)}.

count_nodes({}) -> 1;
count_nodes({Left, Right}) -> 1 + count_nodes(Left) + count_nodes(Right).

%% Doubles the number of chunks until one scheduler takes long enough for them.
map(Work, Least, All) ->
    erlang:system_flag(schedulers_online, 1),
    case timed(fun() -> together(Work, All, 1) end) of
        {One, CpuOfOne} when One >= Least ->
            erlang:system_flag(schedulers_online, 2),
            {Two, CpuOfTwo} = timed(fun() -> together(Work, All div 2, 2) end),
            io:format("{\"one_ms\": ~.3f, \"two_ms\": ~.3f, \"speedup\": ~.4f, \"cpu\": ~.4f}~n",
                [One * 1.0e3, Two * 1.0e3, One / Two, CpuOfTwo / max(CpuOfOne, 0.001)]);
        _ ->
            map(Work, Least, All * 2)
    end.

together(Work, Each, Workers) ->
    Begin = fun() -> exit({sum, lists:sum([Work() || _ <- lists:seq(1, Each)])}) end,
    Started = [spawn_monitor(Begin) || _ <- lists:seq(1, Workers)],
    [receive {'DOWN', Reference, process, _, {sum, _}} -> ok end || {_, Reference} <- Started].

create("text", Bytes) ->
    Text = binary:copy(<<"x">>, Bytes),
    fun(_) -> Text end;
create("table", _) ->
    fun(Id) -> #{id => Id, price => 12.5, name => <<"a small order">>, open => true} end.

%% A process's own list would be copied. A constant term and a large binary are shared.
reference("value", Size) ->
    persistent_term:put(value, lists:seq(1, Size)),
    persistent_term:get(value);
reference("buffer", Size) ->
    binary:copy(<<0>>, Size).

message("pingpong", Create, Least) ->
    Other = spawn_link(fun answer/0),
    until_long(Least, 2, fun(Count) -> pass(Other, Create, Count) end, 1);
message("stream", Create, Least) ->
    Other = spawn_link(fun() -> take(0) end),
    until_long(Least, 1, fun(Count) -> stream(Other, Create, Count) end, 1).

%% Repeats a function with four times as many until it takes long enough, and prints the last one's
%% figures for each of its messages.
until_long(Least, Messages, Run, Count) ->
    case timed(fun() -> Run(Count) end) of
        {Took, Cpu} when Took >= Least ->
            Each = Count * Messages / 1.0e6,
            io:format("{\"us\": ~.4f, \"cpu_us\": ~.4f}~n", [Took / Each, Cpu / Each]);
        _ ->
            until_long(Least, Messages, Run, Count * 4)
    end.

answer() ->
    receive {From, Value} -> From ! {self(), Value} end,
    answer().

pass(_, _, 0) ->
    ok;
pass(Other, Create, Count) ->
    Other ! {self(), Create(Count)},
    receive {Other, _} -> ok end,
    pass(Other, Create, Count - 1).

%% Nothing bounds a mailbox, so every thousandth message waits for a receipt.
stream(Other, _, 0) ->
    wait_for_receipt(Other);
stream(Other, Create, Count) ->
    Other ! Create(Count),
    Count rem 1000 =:= 0 andalso wait_for_receipt(Other),
    stream(Other, Create, Count - 1).

wait_for_receipt(Other) ->
    Other ! {self(), receipt},
    receive {Other, _} -> ok end.

take(Taken) ->
    receive
        {From, receipt} -> From ! {self(), Taken}, take(0);
        _ -> take(Taken + 1)
    end.
