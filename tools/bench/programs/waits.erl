%% A program that waits, in Erlang, whose timers count whole milliseconds: `escript waits.erl idle
%% case` prints the same as idle.lua, and `escript waits.erl delay seconds count` the same as
%% delay.lua.
-module(waits).
-export([main/1]).
-mode(compile).

every(Milliseconds) ->
    {ok, _} = timer:send_interval(Milliseconds, tick),
    (fun Loop() -> receive tick -> Loop() end end)().

compute(End) ->
    case erlang:monotonic_time(millisecond) < End of
        true -> compute(End);
        false -> ok
    end.

wait() ->
    receive never -> ok end.

prepare("nothing") -> ok;
prepare("second") -> spawn(fun() -> every(1000) end);
prepare("kilohertz") -> spawn(fun() -> every(1) end);
prepare("listen") ->
    {ok, Listener} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    spawn(fun() -> gen_tcp:accept(Listener) end);
prepare("crowd") -> [spawn(fun wait/0) || _ <- lists:seq(1, 10000)];
prepare("hour") -> erlang:send_after(3600000, self(), never_so_soon);
prepare("busy") ->
    End = erlang:monotonic_time(millisecond) + 1000,
    spawn(fun() -> compute(End) end),
    compute(End).

number(Text) ->
    case string:to_float(Text) of
        {error, _} -> list_to_integer(Text) * 1.0;
        {Number, _} -> Number
    end.

now_us() -> erlang:monotonic_time(nanosecond) / 1000.

main(["delay", SecondsText, CountText]) ->
    Seconds = number(SecondsText),
    Count = list_to_integer(CountText),
    Milliseconds = ceil(Seconds * 1000),
    Start = now_us(),
    Late = [begin
                Before = now_us(),
                receive after Milliseconds -> ok end,
                now_us() - Before - Seconds * 1.0e6
            end || _ <- lists:seq(1, Count)],
    io:format("took_s ~.6f~n", [(now_us() - Start) / 1.0e6]),
    io:format("late_us ~s~n", [lists:join(" ", [io_lib:format("~.2f", [One]) || One <- Late])]);
main(["idle", Case]) ->
    prepare(Case),
    io:format("ready~n"),
    wait().
