%% A program that waits, in Erlang: `escript idle.erl case`. Prints the same as idle.lua.
-module(idle).
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

main([Case]) ->
    prepare(Case),
    io:format("ready~n"),
    wait().
