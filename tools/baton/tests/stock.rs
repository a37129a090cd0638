//! Programs that do not use processes: output, errors and status must equal those of the system's
//! own `lua5.4`.

mod harness;

use harness::{Outcome, Run, baton, peer};

/// Runs each chunk under both, and compares output, messages and status.
fn same_as_lua(chunks: &[&str]) {
    same_runs(chunks, |run, chunk| run.code(chunk).run());
}

fn same_runs(inputs: &[&str], run: impl Fn(Run, &str) -> Outcome) {
    for input in inputs {
        let Some(lua) = peer::lua() else { return };
        let (wanted, got) = (run(lua, input), run(baton(), input));
        assert_eq!(
            wanted.stdout, got.stdout,
            "another stdout than lua's for {input}\n{got}"
        );
        assert_eq!(
            wanted.status, got.status,
            "another status than lua's for {input}\n{got}"
        );
        assert_eq!(
            nameless(&wanted.stderr),
            nameless(&got.stderr),
            "another stderr than lua's for {input}\n{got}"
        );
    }
}

/// Messages begin with the name that the program was started with.
fn nameless(stderr: &str) -> String {
    let own = harness::baton_path().display().to_string();
    let names = [
        "/usr/bin/lua5.4",
        "/usr/local/bin/lua5.4",
        "lua5.4",
        "lua",
        own.as_str(),
        "baton",
    ];
    let mut text = String::new();
    for line in stderr.lines() {
        let message = names
            .iter()
            .find_map(|name| line.strip_prefix(name)?.strip_prefix(": "));
        text.push_str(message.unwrap_or(line));
        text.push('\n');
    }
    text
}

#[test]
fn a_yield_outside_of_a_coroutine() {
    same_as_lua(&[
        "coroutine.yield()",
        "print(pcall(coroutine.yield, 1)) print(pcall(table.sort, { 1, 2, 3 }, coroutine.yield))",
        "print(coroutine.resume(coroutine.create(function() table.sort({ 1, 2, 3 }, \
         coroutine.yield) end)))",
        "print(pcall(string.gsub, 'x', 'x', function() coroutine.yield() end))",
    ]);
}

#[test]
fn values_and_arithmetic() {
    same_as_lua(&[
        "print(1, 1.0, -0.0, 1e100, 2^53, 10 // 3, -10 // 3, 10 % -3, 5.5 // 2, 7 / 2, 1 << 62, 1 \
         << 64, ~0)",
        "print(math.maxinteger + 1 == math.mininteger, math.maxinteger // -1, 3 | 4, 7 & 2, 5 ~ 1, \
         '10' + 5, '0x10' * 2)",
        "print(0/0 ~= 0/0, 1/0, -1/0, math.type(1), math.type(1.0), math.type('1'), 1 == 1.0, \
         math.ult(1, -1))",
        "print(tostring(nil), tostring(true), tonumber('  0x1p4  '), tonumber('z', 36), \
         tonumber('8', 8), tonumber '1e1')",
        "print(#'abc', 'a' .. 1 .. 2.0, 'a' < 'b', not nil, nil == false, 1 < 1.5, 'x' == 'x')",
        "print(string.format('%5d|%-5d|%05.1f|%x|%q|%s|%10.3s|%g|%i', 42, 42, 3.14159, 255, \
         'a\\nb', nil, 'abcdef', 1e20, 7))",
        "goto done do print 'never' end ::done:: print 'done'",
        "local a <const>, b <close> = 1, setmetatable({}, { __close = function() print 'closed' \
         end }) print(a)",
        "for i = 3, 1, -1 do io.write(i, ' ') end for i = 1.0, 2, 0.5 do io.write(i, ' ') end \
         print()",
        "local t = {} for i = 1, 3 do t[i] = function() return i end end print(t[1](), t[2](), \
         t[3]())",
    ]);
}

#[test]
fn strings_and_patterns() {
    same_as_lua(&[
        "print(('hello world'):find('o w'), ('hello'):match('(h)(.)'), ('abc'):gsub('%w', '%0%0'), \
         ('x'):rep(3, '-'))",
        "print(('a,b,,c'):gsub(',', { [','] = ';' }), ('abc'):byte(1, -1), string.char(72, 105), \
         ('abc'):reverse():upper())",
        "for k, v in ('a=1, b=2'):gmatch '(%w+)=(%w+)' do io.write(k, v, ';') end print()",
        "print(('THE (quick) fox'):find('%((%a+)%)'), ('f(a(b)c)d'):match('%b()'), \
         ('THE'):match('%f[%a]%a+'))",
        "print(string.pack('<i4', 100):byte(1, -1)) print(string.unpack('<i4', string.pack('<i4', \
         -2)))",
        "print(utf8.char(228, 8364, 0x10FFFF), utf8.len('äö'), #utf8.charpattern) for p, c in \
         utf8.codes('aé') do print(p, c) end",
        "print(pcall(string.rep, 'x', -1), pcall(string.rep, 'x', 1 << 40, 'y'))",
        "print(pcall(string.find, 'a', '[a'), pcall(string.gsub, 'a', '(', ''), \
         pcall(string.format, '%d', 1.5))",
        "print(string.dump(load 'return 1'):sub(2, 4), load(string.dump(function() return 'dumped' \
         end))())",
    ]);
}

#[test]
fn tables_and_metatables() {
    same_as_lua(&[
        "local t = { 5, 2, 8, 1 } table.sort(t) print(table.concat(t, ',')) table.sort(t, \
         function(a, b) return a > b end) print(table.unpack(t))",
        "local t = { 1, 2, 3 } table.insert(t, 4) table.insert(t, 1, 0) print(table.remove(t), \
         table.remove(t, 1), #t, select('#', table.unpack(t)))",
        "print(table.concat(table.move({ 1, 2, 3 }, 1, 3, 2), ',')) print(table.pack(nil, nil).n, \
         next({}), rawlen { 1, 2 }, rawequal('a', 'a'))",
        "local m = { __index = function(t, k) return k .. '!' end, __call = function(_, x) return \
         x * 2 end, __len = function() return 42 end } local t = setmetatable({}, m) print(t.foo, \
         t(21), #t, getmetatable(t) == m)",
        "local m = {} m.__eq = function() return true end m.__lt = function() return true end \
         m.__le = function() return false end local a, b = setmetatable({}, m), setmetatable({}, \
         m) print(a == b, a < b, a <= b, a ~= b)",
        "print(pcall(setmetatable, setmetatable({}, { __metatable = 'locked' }), {})) \
         print(getmetatable('').__index == string)",
        "local t = setmetatable({}, { __pairs = function() return function(_, k) if not k then \
         return 1, 'one' end end end }) for k, v in pairs(t) do print(k, v) end",
        "print(pcall(table.concat, { 1, {}, 3 }), pcall(table.insert, { 1 }, 5, 2), \
         pcall(table.sort, { 1, 'x' }))",
        "print(pcall(rawset, {}, nil, 1)) print(pcall(next, {}, 'nokey')) local t = {} \
         print(pcall(function() t[0/0] = 1 end))",
    ]);
}

#[test]
fn coroutines() {
    same_as_lua(&[
        "local co = coroutine.create(function(a, b) local c = coroutine.yield(a + b) local d, e = \
         coroutine.yield(c * 2) return d + e end) print(coroutine.resume(co, 1, 2)) \
         print(coroutine.resume(co, 10)) print(coroutine.resume(co, 3, 4)) \
         print(coroutine.resume(co)) print(coroutine.status(co))",
        "local f = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) \
         print(f(), f(), f(), f()) print(pcall(f))",
        "print(coroutine.isyieldable(), select(2, coroutine.running())) \
         print(pcall(coroutine.yield, 1))",
        "local co = coroutine.create(function() local x <close> = setmetatable({}, { __close = \
         function(_, e) print('closing', e) end }) coroutine.yield() end) coroutine.resume(co) \
         print(coroutine.close(co), coroutine.status(co))",
        "local co co = coroutine.create(function() print(coroutine.status(co)) \
         print(coroutine.resume(co)) end) print(coroutine.resume(co))",
        "print(coroutine.resume(coroutine.create(function() error { code = 7 } end)) == false, \
         select(2, coroutine.resume(coroutine.create(function() error('x', 0) end))))",
        "local co = coroutine.wrap(function() return pcall(function() coroutine.yield(1) error \
         'after' end) end) print(co()) print(co())",
        "print(pcall(coroutine.wrap(function() table.sort({ 1, 2, 3 }, coroutine.yield) end)))",
        "local n = 0 for i = 1, 10000 do coroutine.wrap(function() n = n + 1 coroutine.yield() \
         end)() end print(n)",
    ]);
}

#[test]
fn errors_and_their_messages() {
    same_as_lua(&[
        "error 'plain'",
        "error('no position', 0)",
        "error({ code = 2 })",
        "error(setmetatable({}, { __tostring = function() return 'an object' end }))",
        "error()",
        "local function f() local x = nil; return x.y end f()",
        "local t = {} t.a.b = 1",
        "print(#5)",
        "return 1 + {}",
        "return 'a' < 1",
        "undefined_function()",
        "local s = 'x' s:nomethod()",
        "assert(false)",
        "assert(nil, 'asserted')",
        "print(select(2, pcall(error, 'a', 2)), xpcall(error, function(m) return 'handled ' .. m \
         end, 'b'))",
        "print(xpcall(function() error 'x' end, debug.traceback))",
        "string.rep()",
        "('x'):rep(1, 2, 3):bad()",
        "local a <const> = 1; a = 2",
        "break",
        "goto nowhere",
        "x = = 1",
        "for i = 1, 10, 0 do end",
        "setmetatable({}, { __gc = function() error 'in a finalizer' end }) collectgarbage()",
        "warn('@on') warn('a ', 'warning') warn('@off') warn('unheard')",
        "local t <close> = 42",
        "return coroutine.wrap(function() error 'in a coroutine' end)()",
    ]);
}

#[test]
fn loading_and_environments() {
    same_as_lua(&[
        "print(load('return ...', 'name', 't', {})(5), load('x ='), type(load(function() return \
         nil end)))",
        "local env = {} load('x = 1 y = 2', 'c', 't', env)() print(env.x, env.y, x)",
        "print(pcall(load, 5), load('\\27Lua', 'b', 't'))",
        "print(require 'string' == string, package.loaded._G == _G, pcall(require, \
         'definitely.missing') == false)",
        "package.preload.m = function(...) print(...) return { 1 } end print(require('m')[1], \
         select(2, require 'm'))",
        "local parts = { 'return ', '1', ' + 2' } local i = 0 print(load(function() i = i + 1 \
         return parts[i] end)())",
        "local names = {} for name in pairs(_G) do names[#names + 1] = name end table.sort(names) \
         print(table.concat(names, ' '))",
        "for _, library in ipairs { 'string', 'table', 'math', 'io', 'os', 'coroutine', 'utf8', \
         'debug' } do local names = {} for name in pairs(_G[library]) do names[#names + 1] = name \
         end table.sort(names) print(library, table.concat(names, ' ')) end",
        "local names = {} for name in pairs(package.loaded) do names[#names + 1] = name end \
         table.sort(names) print(table.concat(names, ' '))",
    ]);
}

#[test]
fn debug_and_the_collector() {
    same_as_lua(&[
        "local function f(a, b) local c = 3 print(debug.getlocal(1, 1), debug.getlocal(1, 3)) end \
         f(1, 2)",
        "local i = debug.getinfo(print) print(i.what, i.short_src, i.currentline, i.nparams, \
         i.isvararg)",
        "local function f() return debug.getinfo(1, 'nSl') end local i = f() print(i.name, i.what, \
         i.linedefined, i.currentline)",
        "local n = 0 debug.sethook(function() n = n + 1 end, 'l') local x = 1\nx = \
         2\ndebug.sethook() print(n)",
        "debug.sethook(function(e, l) io.write(e, ':', tostring(l), ' ') end, 'crl')\nlocal x = \
         math.abs(-1)\ndebug.sethook() print()",
        "local n = 0 debug.sethook(function() n = n + 1 end, '', 10) for i = 1, 1000 do end \
         debug.sethook() print(n)",
        "print(debug.gethook()) local up = 1 local function f() return up end \
         print(debug.getupvalue(f, 1), debug.setupvalue(f, 1, 9), f())",
        "print(debug.traceback('message', 1))",
        "print(collectgarbage 'isrunning', collectgarbage 'incremental', collectgarbage \
         'generational', collectgarbage 'step')",
        "local t = setmetatable({}, { __mode = 'k' }) t[{}] = 1 collectgarbage() print(next(t))",
        "setmetatable({}, { __gc = function() print 'finalized' end }) collectgarbage() print \
         'after'",
        "keep = setmetatable({}, { __gc = function() print 'at the end' end }) print 'main'",
    ]);
}

#[test]
fn files_and_the_system() {
    same_as_lua(&[
        "local path = os.getenv 'SCRATCH' .. '/f' local f = assert(io.open(path, 'w')) \
         print(f:write('one\\ntwo\\n', 3, ' ', 4.5, '\\n')==f, f:seek('cur'), f:close()) for l in \
         io.lines(path, 'L') do io.write(l) end f = io.open(path) print(f:read('l', 'l', 'n', 'n', \
         'a')) print(f:seek('set', 1), f:read(2), f:close(), pcall(f.read, f)) print(io.type(f), \
         io.type(io.stdout), io.type(5))",
        "print(io.open '/nonexistent/x', pcall(io.lines, '/nonexistent/x'), pcall(io.open, 'x', \
         'bad mode'))",
        "io.stdout:setvbuf 'full' io.write 'buffered' io.stderr:write 'direct' io.write '\\n'",
        "print(os.execute 'exit 3') print(os.execute 'kill -15 $$') print(os.execute()) \
         print(os.execute 'true')",
        "local p = io.popen('echo hello; exit 2') print(p:read 'a', p:close())",
        "print(os.rename('/nonexistent/a', '/nonexistent/b')) print(os.remove '/nonexistent/a') \
         print(os.getenv 'NO_SUCH_VARIABLE')",
        "print(os.time { year = 2020, month = 1, day = 1, hour = 12 }, os.date('!%Y-%m-%d \
         %H:%M:%S', 0), pcall(os.date, '%Ez', 0), pcall(os.time, {}))",
        "print(os.setlocale 'C', os.setlocale(nil, 'all'), os.clock() >= 0, os.difftime(5, 3), \
         type(os.tmpname()))",
        "os.exit(3)",
        "os.exit(true, true)",
        "os.exit(false)",
        "local x <close> = setmetatable({}, { __close = function() print 'closed' end }) \
         os.exit(4, true)",
        "io.stdout:close() print 'lost'",
        "io.read('x')",
    ]);
}

#[test]
fn standard_input() {
    let chunks = [
        "for line in io.lines() do io.write('[', line, ']') end print()",
        "print(io.read('n', 'n', 'l', 'L', 2, 'a'))",
        "print(io.read(0), io.read 'a', io.read 'a', io.read 'l')",
    ];
    same_runs(&chunks, |run, chunk| {
        run.code(chunk)
            .stdin("1 2.5 rest\nline two\nmore text\nand more")
            .run()
    });
}

#[test]
fn programs_from_standard_input_and_their_arguments() {
    let programs = [
        "print(...)\nprint(arg[0], arg[1], arg[2], #arg)",
        "#!/usr/bin/env lua\nprint 'after a shebang'",
        "return 5",
        "x =",
    ];
    same_runs(&programs, |run, program| {
        run.arg("-").arg("a").arg("b").stdin(program).run()
    });
}

#[test]
fn long_computations() {
    same_as_lua(&[
        "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end \
         print(fib(24))",
        "local s = 0 for i = 1, 3000000 do s = (s * 31 + i) % 1000003 end print(s)",
        "local t = {} for i = 1, 100000 do t[i] = (i * 7919) % 100003 end table.sort(t) \
         print(t[1], t[50000], t[100000])",
        "local n = 0 local function q(i, c, d, e) if i > 7 then n = n + 1 return end for j = 1, 7 \
         do if not (c[j] or d[i + j] or e[i - j + 7]) then c[j], d[i + j], e[i - j + 7] = true, \
         true, true q(i + 1, c, d, e) c[j], d[i + j], e[i - j + 7] = nil end end end q(1, {}, {}, \
         {}) print(n)",
        "local parts = {} for i = 1, 20000 do parts[#parts + 1] = tostring(i) end local s = \
         table.concat(parts) print(#s, select(2, s:gsub('7', '')))",
        "local x = 0 for i = 1, 300000 do local ok = pcall(function() if i % 3 == 0 then error() \
         end x = x + 1 end) end print(x)",
    ]);
}
