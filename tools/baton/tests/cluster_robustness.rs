//! Tests that no job is lost while programs and servers are killed, and that everything goes on
//! after a time in which the server answers nothing.
//!
//! `cargo xtask soak cluster` runs it for longer: it sets the two environment variables.

mod harness;

use harness::nats::Server;
use harness::{Started, baton};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// How many jobs a round has.
const JOBS: &str = "BATON_SOAK_JOBS";

/// For how many seconds rounds begin.
const SECONDS: &str = "BATON_SOAK_SECONDS";

/// How often the server is killed in a round, and a worker.
const SERVER_KILLS: usize = 3;
const WORKER_KILLS: usize = 10;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn done(file: &Path) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

/// Waits until so many jobs are done.
fn await_done(file: &Path, wanted: usize) {
    let began = Instant::now();
    while done(file).len() < wanted {
        assert!(
            began.elapsed() < harness::LIMIT,
            "only {} of {wanted} jobs are done",
            done(file).len()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn worker(file: &Path, url: &str) -> Started {
    let script = baton().script("cluster/robust_worker.lua");
    script.arg(file).arg(url).start()
}

/// Jobs that are sent and done while a worker is killed again and again, and the server three
/// times. Prints how many were done twice.
fn round(server: &mut Server, jobs: usize, number: usize) {
    let file = server.directory().join(format!("done-{number}"));
    let url = server.url();
    let sender = baton().script("cluster/robust_sender.lua");
    let sender = sender.arg(jobs.to_string()).arg(&url).start();
    let mut workers = [worker(&file, &url), worker(&file, &url)];
    for step in 1..=WORKER_KILLS {
        await_done(&file, jobs * step / (WORKER_KILLS + 1));
        let killed = std::mem::replace(&mut workers[step % 2], worker(&file, &url));
        killed.signal_until_it_ends("KILL");
        if step * SERVER_KILLS / WORKER_KILLS > (step - 1) * SERVER_KILLS / WORKER_KILLS {
            server.kill_and_restart();
        }
    }
    sender.finish().succeeds().wrote("all are stored\n");
    await_done(&file, jobs);
    for worker in workers {
        worker.signal_until_it_ends("KILL");
    }
    let counts = done(&file);
    for number in 1..=jobs {
        assert!(
            counts.contains_key(&number.to_string()),
            "job {number} was lost"
        );
    }
    assert_eq!(counts.len(), jobs, "jobs that nobody has sent");
    let all: usize = counts.values().sum();
    println!("{jobs} jobs, none lost, {} done more than once", all - jobs);
}

#[test]
fn no_job_is_lost_while_workers_and_the_server_are_killed() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let jobs = usize::try_from(number(JOBS).unwrap_or(2000)).expect("a number of jobs");
    let until = Instant::now() + Duration::from_secs(number(SECONDS).unwrap_or(0));
    let mut rounds = 0;
    loop {
        round(&mut server, jobs, rounds);
        rounds += 1;
        if Instant::now() >= until {
            break;
        }
        // The ids of the round before are remembered, so the next one needs another server.
        server = Server::start().expect("it was there before");
    }
}

#[test]
fn everything_goes_on_within_two_seconds_after_ten_without_an_answer() {
    let Some(server) = Server::start() else {
        return;
    };
    let code = "io.stdout:setvbuf 'no'
        local process, cluster = require 'baton.process', require 'baton.cluster'
        local c = assert(cluster.connect { url = os.getenv 'NATS_URL' })
        local q, sub = assert(c:queue 'jobs'), assert(c:subscribe 'news')
        print 'ready'
        io.read()
        local answers, frozen = {}, true
        local sender = process.spawn(function()
            while frozen do
                local done, why = q:send('early', { timeout = 0.5 })
                answers[tostring(why)] = true
            end
        end)
        local received = process.spawn(function() return q:receive() end)
        io.read()
        local began = process.now()
        frozen = false
        assert(q:send 'late')
        repeat until c:publish('news', 1) or process.sleep(0.01)
        assert(sub:receive(10))
        local took = process.now() - began
        sender:join()
        for why in pairs(answers) do
            assert(why == 'timeout' or why == 'offline' or why == 'nil', why)
        end
        assert(answers.timeout and answers.offline, 'both answers')
        assert(received:join(10) == true)
        assert(took < 2, took)
        print(c:status())";
    let mut started = baton()
        .env("NATS_URL", server.url())
        .code(code)
        .open_stdin()
        .start();
    started.await_stdout("ready\n");
    server.freeze();
    started.write_stdin("\n");
    std::thread::sleep(Duration::from_secs(10));
    server.thaw();
    started.write_stdin("\n");
    started
        .finish()
        .succeeds()
        .quietly()
        .wrote("ready\nonline\n");
}
