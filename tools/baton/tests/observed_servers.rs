//! `baton top` has a line for each server of `baton.http`.
#![cfg(target_os = "linux")]

mod harness;

use harness::Started;
use harness::observed::{self, assert_has};
use serde_json::Value;

/// A server in the first VM that is asked again and again, one in another VM with an open
/// connection and a handler that does not end, and one that has stopped.
const PROGRAM: &str = "
    local vm, http, net = require 'baton.vm', require 'baton.http', require 'baton.net'
    local function reply(request)
      if request.path == '/fails' then error 'on purpose' end
      return 200, 'x'
    end
    local quiet = { on_error = function() end }
    local server = http.serve('127.0.0.1:0', reply, quiet)
    local address = vm.channel()
    vm.spawn({ name = 'worker' }, function(address)
      local http, process = require 'baton.http', require 'baton.process'
      local server = http.serve('127.0.0.1:0', function() process.sleep(3600) end)
      address:send(server:address())
      process.sleep(3600)
    end, address)
    local slow = net.connect(address:receive())
    slow:write 'GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'
    local stopped = http.serve('127.0.0.1:0', reply)
    stopped:stop(0)
    local url = 'http://' .. server:address()
    http.get(url .. '/fails'):body()
    process.spawn(function()
      while true do
        http.get(url):body()
        process.sleep(0.005)
      end
    end)
    process.sleep(0.1)
    print 'ready'
    io.stdout:flush()
    process.sleep(3600)";

fn ready() -> Started {
    observed::ready(observed::observed(PROGRAM))
}

#[test]
fn a_table_has_the_figures_of_each_server_that_has_not_stopped() {
    let program = ready();
    let outcome = observed::ask("top", &program, &["--json", "-d", "0.5"]);
    program.signal_until_it_ends("KILL");
    let table: Value = serde_json::from_str(&outcome.succeeds().stdout).expect("JSON");
    let servers = table["servers"].as_array().expect("a list");
    assert_eq!(servers.len(), 2, "{table:#}");
    let (first, second) = (&servers[0], &servers[1]);
    assert_eq!(first["vm"], "main");
    assert_eq!(first["name"], "http");
    assert_eq!(first["connections"], 1);
    assert_eq!(first["failures"], 1);
    let rate = first["rate"].as_f64().expect("a rate");
    assert!((1.0..250.0).contains(&rate), "{table:#}");
    assert_eq!(second["vm"], "worker");
    assert_eq!(second["connections"], 1);
    assert_eq!(second["handlers"], 1);
    assert_eq!(second["rate"], 0.0);
}

#[test]
fn the_plain_table_has_a_line_for_each_server() {
    let program = ready();
    let outcome = observed::ask("top", &program, &["-d", "0.2"]);
    program.signal_until_it_ends("KILL");
    let text = &outcome.succeeds().stdout;
    let lines: Vec<&str> = text.lines().skip(3).collect();
    assert!(lines[0].starts_with("SERVER "), "{text}");
    assert!(lines[1].starts_with("127.0.0.1:"), "{text}");
    assert!(lines[2].starts_with("worker: 127.0.0.1:"), "{text}");
    assert_has(lines[3], "NAME");
}
