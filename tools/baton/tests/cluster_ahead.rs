//! Tests what becomes of jobs that were fetched ahead when their program ends, and that a program
//! receives no more of them than the server can handle.

mod harness;

use harness::between::Between;
use harness::nats::Server;
use harness::{Outcome, Run, baton};
use std::time::{Duration, Instant};

/// How many jobs there are, and how many of them the first program does.
const JOBS: u64 = 1000;
const DONE: u64 = 300;

/// The time after which a lost program's jobs come again.
const ACK: Duration = Duration::from_secs(2);

/// Ends a program by a signal, when the server knows what it has done so far.
const KILL: &str = "c:subscribe 'flush'
    local ffi = require 'baton.ffi'
    ffi.cdef 'int kill(int, int); int getpid(void);'
    ffi.C.kill(ffi.C.getpid(), 9)";

/// A program with a queue `q`, which fetches ahead.
fn program(server: &Server, code: &str) -> Run {
    let head = format!(
        "local process, cluster = require 'baton.process', require 'baton.cluster'
        local c = assert(cluster.connect {{ url = os.getenv 'NATS_URL' }})
        local q = assert(c:queue('jobs', {{ ack = {} }})) ",
        ACK.as_secs()
    );
    baton()
        .env("NATS_URL", server.url())
        .code(&format!("{head}{code}"))
}

fn send_all(server: &Server) {
    let code = format!(
        "local senders = {{}}
        for first = 1, 16 do
            senders[first] = process.spawn(function()
                for number = first, {JOBS}, 16 do assert(q:send(number)) end
            end)
        end
        for _, sender in ipairs(senders) do assert(sender:join()) end"
    );
    program(server, &code).run().succeeds().quietly();
}

/// Does some jobs quickly, and then something else.
fn do_some(server: &Server, then: &str) -> Outcome {
    let code = format!(
        "for _ = 1, {DONE} do
            local job = assert(q:receive(10))
            assert(job.tries == 1)
            job:done()
        end {then}"
    );
    program(server, &code).run()
}

/// Does so many jobs, each of which comes once. Returns what it prints: the most tries of one.
fn do_rest(server: &Server, count: u64) -> Outcome {
    let code = format!(
        "local seen, most = {{}}, 0
        for _ = 1, {count} do
            local job = assert(q:receive(20))
            assert(not seen[job.value], 'it came twice')
            seen[job.value] = true
            most = math.max(most, job.tries)
            job:done()
        end
        print(most, q:receive(0))"
    );
    program(server, &code).run()
}

/// Waits until so many jobs are stored: the server has handled the ends of the others.
fn await_stored(server: &Server, count: u64) {
    let began = Instant::now();
    loop {
        let answer = server.ask("STREAM.INFO.BATON_QUEUE_jobs");
        let stored = answer["state"]["messages"].as_u64();
        if stored == Some(count) {
            return;
        }
        assert!(
            began.elapsed() < harness::LIMIT,
            "{count} expected: {answer}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until no program has a job: a job that was lost stays with its program until it is given
/// to another one.
fn await_none_given(server: &Server) {
    let began = Instant::now();
    while server.jobs_given("jobs") > 0 {
        assert!(began.elapsed() < harness::LIMIT, "jobs were not given back");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn jobs_that_a_killed_program_has_fetched_are_redone_when_their_time_is_over() {
    let Some(server) = Server::start() else {
        return;
    };
    send_all(&server);
    let kill = format!("q:receive(10) {KILL}");
    do_some(&server, &kill).ended_by_signal(9);
    let ended = Instant::now();
    // The one that it held, and those that it had fetched ahead.
    let given = server.jobs_given("jobs");
    assert!(given > 1, "nothing was fetched ahead");
    await_stored(&server, JOBS - DONE);
    let outcome = do_rest(&server, JOBS - DONE);
    outcome.succeeds().quietly().wrote("2\tnil\ttimeout\n");
    assert!(ended.elapsed() < ACK + Duration::from_secs(10));
}

#[test]
fn a_program_that_ends_gives_back_what_it_has_fetched() {
    for end in ["", "assert(c:close())"] {
        let Some(server) = Server::start() else {
            return;
        };
        send_all(&server);
        do_some(&server, end).succeeds().quietly();
        await_none_given(&server);
        let outcome = do_rest(&server, JOBS - DONE);
        outcome.succeeds().quietly().wrote("1\tnil\ttimeout\n");
    }
}

#[test]
fn a_job_that_kills_its_program_takes_no_other_one_to_the_dead() {
    let Some(server) = Server::start() else {
        return;
    };
    let send = "for number = 1, 200 do assert(q:send(number)) end";
    program(&server, send).run().succeeds().quietly();
    // Each program does jobs until it finds the one that kills it.
    let code = format!(
        "local dead = assert(c:queue('jobs-dead', {{ dead = false }}))
        for job in function() return q:receive(6) end do
            if job.value == 100 then {KILL} end
            job:done()
        end
        print(dead:receive(10).value, (dead:receive(0)))"
    );
    for _ in 0..5 {
        program(&server, &code).run().ended_by_signal(9);
    }
    let outcome = program(&server, &code).run();
    outcome.succeeds().quietly().wrote("100\tnil\n");
}

/// If it did, most of these jobs would be done before the server knows of one. If it was killed
/// then, or if their time to acknowledge was over, all of them would be done again.
#[test]
fn a_program_does_not_receive_on_while_the_server_is_late_with_the_ends_of_its_jobs() {
    let Some(server) = Server::start() else {
        return;
    };
    send_all(&server);
    let between = Between::start(server.port());
    let code = format!(
        "io.stdout:setvbuf 'no'
        local seen, count = {{}}, 0
        local function do_one(job)
            assert(not seen[job.value], 'it came twice')
            seen[job.value], count = true, count + 1
            job:done()
        end
        for job in function() return q:receive(1) end do do_one(job) end
        print(count)
        io.read()
        while count < {JOBS} do do_one(assert(q:receive(20))) end
        print(count)"
    );
    let program = program(&server, &code).env("NATS_URL", between.url());
    let mut program = program.open_stdin().start();
    program.await_stdout("\n");
    between.let_go();
    program.write_stdin("\n");
    let outcome = program.finish();
    outcome.succeeds().quietly();
    let counts: Vec<u64> = outcome
        .stdout
        .lines()
        .map(|line| line.parse().expect("a number of jobs"))
        .collect();
    assert!((1..JOBS / 2).contains(&counts[0]), "{counts:?}");
    assert_eq!(counts[1..], [JOBS]);
    await_stored(&server, 0);
}
