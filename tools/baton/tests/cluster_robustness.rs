//! Tests that no job is lost while programs and servers are killed, and that everything goes on
//! after a time in which the server answers nothing.
//!
//! `cargo xtask soak cluster` runs it for longer: it sets the environment variables.

mod harness;

use harness::nats::Server;
use harness::{Started, baton, program};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

/// How many jobs there are.
const JOBS: &str = "BATON_SOAK_JOBS";

/// How many milliseconds pass before the next worker is killed.
const INTERVAL: &str = "BATON_SOAK_INTERVAL";

/// How often the server is killed.
const SERVER_KILLS: usize = 3;

/// How many times the limit of a test a hundred thousand jobs may take.
const PATIENCE: u32 = 10;

fn number(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given.map_or(otherwise, |given| given.parse().expect("a number"))
}

/// How often each job was done, from a file to which workers append lines.
struct Done {
    file: File,
    /// The beginning of a line that is not complete.
    rest: String,
    counts: Vec<usize>,
    different: usize,
}

impl Done {
    fn of(file: &Path, jobs: usize) -> Done {
        let file = File::create(file).and_then(|_| File::open(file));
        Done {
            file: file.expect("the file can be made"),
            rest: String::new(),
            counts: vec![0; jobs + 1],
            different: 0,
        }
    }

    /// Reads what is new. Returns how many different jobs are done.
    fn count(&mut self) -> usize {
        let read = self.file.read_to_string(&mut self.rest);
        read.expect("the file can be read");
        let complete = self.rest.rfind('\n').map_or(0, |end| end + 1);
        for line in self.rest[..complete].lines() {
            let job: usize = line.parse().expect("the number of a job");
            let count = self.counts.get_mut(job).expect("a job that was sent");
            *count += 1;
            self.different += usize::from(*count == 1);
        }
        self.rest.drain(..complete);
        self.different
    }
}

fn worker(file: &Path, url: &str) -> Started {
    let script = baton().script("cluster/robust_worker.lua");
    script.patiently(PATIENCE).arg(file).arg(url).start()
}

#[test]
fn no_job_is_lost_while_workers_and_the_server_are_killed() {
    let Some(mut server) = Server::start() else {
        return;
    };
    let jobs = usize::try_from(number(JOBS, 2000)).expect("a number of jobs");
    // A worker needs time for a job between its start and its end.
    let usual = if program::is_emulated() { 2000 } else { 50 };
    let interval = Duration::from_millis(number(INTERVAL, usual));
    let file = server.directory().join("done");
    let (url, mut done) = (server.url(), Done::of(&file, jobs));
    let began = Instant::now();
    let sender = baton().script("cluster/robust_sender.lua");
    let sender = sender.patiently(PATIENCE).arg(jobs.to_string());
    let sender = sender.arg(&url).start();
    let mut workers = [worker(&file, &url), worker(&file, &url)];
    let (mut worker_kills, mut server_kills) = (0, 0);
    let mut next = began + interval;
    while done.count() < jobs {
        let limit = harness::LIMIT * PATIENCE;
        assert!(began.elapsed() < limit, "only {} are done", done.different);
        if Instant::now() >= next {
            let place = &mut workers[worker_kills % 2];
            let killed = std::mem::replace(place, worker(&file, &url));
            killed.signal_until_it_ends("KILL");
            worker_kills += 1;
            next = Instant::now() + interval;
        }
        // At a quarter, at the half, and at three quarters.
        if done.different * (SERVER_KILLS + 1) >= jobs * (server_kills + 1) {
            server.kill_and_restart();
            server_kills += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = began.elapsed().as_secs_f64();
    sender.finish().succeeds().wrote("all are stored\n");
    for worker in workers {
        worker.signal_until_it_ends("KILL");
    }
    done.count();
    assert!(worker_kills > 0 && server_kills >= SERVER_KILLS);
    let all: usize = done.counts.iter().sum();
    println!(
        "{jobs} jobs in {took:.1} s, each done, {} done once more; the server was killed \
         {server_kills} times, workers {worker_kills} times",
        all - jobs
    );
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
        print(('everything has gone on within %.3f s'):format(took))
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
    let outcome = started.finish();
    outcome.succeeds().quietly();
    let said: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(
        (said[0], said[2..].join("")),
        ("ready", "online".into()),
        "{outcome}"
    );
    println!("after 10 s without an answer, {}", said[1]);
}
