%% The lateness of sleeps in Erlang, whose timers count whole milliseconds: `escript delay.erl
%% seconds count`. Prints the same as delay.lua.
-module(delay).
-export([main/1]).
-mode(compile).

number(Text) ->
    case string:to_float(Text) of
        {error, _} -> list_to_integer(Text) * 1.0;
        {Number, _} -> Number
    end.

now_us() -> erlang:monotonic_time(nanosecond) / 1000.

main([SecondsText, CountText]) ->
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
    io:format("late_us ~s~n", [lists:join(" ", [io_lib:format("~.2f", [One]) || One <- Late])]).
