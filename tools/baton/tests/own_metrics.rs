//! The metrics that a program keeps itself: `inspect.counter`, `inspect.gauge`,
//! `inspect.histogram`.
#![cfg(target_os = "linux")]

mod harness;

use harness::{Outcome, baton};

/// Runs code with `process`, `inspect`, and a function that returns what the text has of a metric.
fn counting(code: &str) -> Outcome {
    let code = format!(
        "local inspect = require 'baton.inspect'
         local function lines(name)
           local all = {{}}
           for line in inspect.metrics 'text':gmatch '[^\\n]+' do
             if line:find('^' .. name) or line:find('^# %u+ ' .. name) then all[#all + 1] = line end
           end
           return table.concat(all, '; ')
         end
         {code}"
    );
    baton().process_code(&code).run()
}

#[test]
fn each_kind_is_among_the_metrics_of_the_program() {
    counting(
        "local orders = inspect.counter('shop_orders_total', 'orders that were \"placed\"')
         assert(lines 'shop' == '# HELP shop_orders_total orders that were \"placed\"; ' ..
           '# TYPE shop_orders_total counter; shop_orders_total 0')
         orders:add() orders:add(0.5)
         print((lines 'shop_o':gsub('^.*; ', '')))
         local stock = inspect.gauge('shop_stock', 'pieces', { labels = { 'article', 'sold' } })
         stock:set(7, 'a\"b\\n', true) stock:add(-2, 'a\"b\\n', true) stock:add(1, 3, false)
         print((lines 'shop_s':gsub('^.-;.-; ', '')))
         assert(stock:remove(3, false) and not stock:remove(3, false))
         print((lines 'shop_s':gsub('^.-;.-; ', '')))
         local times = inspect.histogram('shop_seconds', 'times',
           { labels = { 'route' }, bounds = { 0.1, 1 } })
         times:observe(0.05, '/') times:observe(0.1, '/') times:observe(3, '/')
         print((lines 'shop_seconds':gsub('^.-;.-; ', '')))
         stock:set(0/0, '', '')
         print((lines 'shop_s':gsub('^.-;.-; ', ''):gsub('; # HELP.*', '')))
         times = inspect.histogram('more_seconds', 'times')
         times:observe(math.huge)
         assert(lines 'more_seconds':find 'le=\"10.0\"} 0; .*le=\"%+Inf\"} 1; .*sum %+Inf')",
    )
    .succeeds()
    .wrote(
        "shop_orders_total 1.5\n\
         shop_stock{article=\"3\",sold=\"false\"} 1; \
         shop_stock{article=\"a\\\"b\\n\",sold=\"true\"} 5\n\
         shop_stock{article=\"a\\\"b\\n\",sold=\"true\"} 5\n\
         shop_seconds_bucket{route=\"/\",le=\"0.1\"} 2; \
         shop_seconds_bucket{route=\"/\",le=\"1.0\"} 2; \
         shop_seconds_bucket{route=\"/\",le=\"+Inf\"} 3; \
         shop_seconds_sum{route=\"/\"} 3.15; shop_seconds_count{route=\"/\"} 3\n\
         shop_stock{article=\"\",sold=\"\"} NaN; \
         shop_stock{article=\"a\\\"b\\n\",sold=\"true\"} 5\n",
    );
}

/// Calls, and what is said of each.
const WRONG: &[(&str, &str)] = &[
    (
        "inspect.counter()",
        "#1 to 'counter' (a name as a string expected, got nil)",
    ),
    (
        "inspect.gauge('a')",
        "#2 to 'gauge' (a help text: what the metric says expected, got nil)",
    ),
    (
        "inspect.gauge('a b', 'h')",
        "#1 to 'gauge' (expected a name of letters, digits and '_'",
    ),
    (
        "inspect.gauge('a_total', 'h')",
        "without an end such as '_total', got 'a_total')",
    ),
    (
        "inspect.gauge('a', 'h', { bounds = {} })",
        "#3 to 'gauge' (the options 'labels', 'context' and 'max_sets' expected, got 'bounds')",
    ),
    (
        "inspect.gauge('a', 'h', { labels = 'x' })",
        "(a list of names in 'labels' expected, got string)",
    ),
    (
        "inspect.gauge('a', 'h', { context = { x = 1 } })",
        "(a list of names of fields in 'context' expected, got table)",
    ),
    (
        "inspect.gauge('a', 'h', { max_sets = 1001 })",
        "(from 1 to 1000 sets of labels in 'max_sets' expected, got '1001')",
    ),
    (
        "inspect.gauge('a', 'h', { labels = { 'b' }, context = { 'b' } })",
        "the label 'b' is given twice",
    ),
    (
        "inspect.gauge('a', 'h', { labels = { '1' } })",
        "expected a label's name of letters, digits and '_'",
    ),
    (
        "inspect.gauge('a', 'h', { labels = { 'b', 'b' } })",
        "the label 'b' is given twice",
    ),
    (
        "inspect.histogram('a', 'h', { labels = { 'le' } })",
        "neither '__...' nor a histogram's 'le'",
    ),
    (
        "inspect.histogram('a', 'h', { bounds = { 2, 1 } })",
        "'bounds' must be ascending finite numbers",
    ),
    (
        "inspect.gauge('baton_live', 'h')",
        "'baton_live' is a metric of Baton; use another name",
    ),
    (
        "inspect.counter('process_cpu_seconds_total', 'h')",
        "is a metric of Baton",
    ),
    (
        "inspect.gauge('baton_lua_heap_bytes', 'h')",
        "is a metric of Baton",
    ),
    (
        "inspect.histogram('baton_lateness_seconds', 'h')",
        "is a metric of Baton",
    ),
    (
        "inspect.counter('a', 'h') inspect.gauge('a', 'h', { labels = { 'x' } })",
        "'a' is a counter without labels already, and cannot be a gauge with the labels x",
    ),
    (
        "inspect.histogram('a', 'h') inspect.histogram('a', 'h', { bounds = { 1 } })",
        "'a' is a histogram without labels and the bounds [0.005, ",
    ),
    (
        "inspect.counter('a', 'h'):add(-1)",
        "a counter only grows: a finite number from 0 expected, got -1",
    ),
    (
        "inspect.counter('a', 'h'):add(0/0)",
        "a finite number from 0 expected",
    ),
    (
        "inspect.histogram('a', 'h'):observe(0/0)",
        "a number expected, got NaN",
    ),
    (
        "inspect.histogram('a', 'h'):observe()",
        "number expected, got no value",
    ),
    (
        "inspect.gauge('a', 'h'):set(1, 'x')",
        "expected 0 label values for a, which is a gauge without labels, got 1",
    ),
    (
        "inspect.gauge('a', 'h', { labels = { 'x' } }):set(1)",
        "expected 1 label values for a, which is a gauge with the labels x, got 0",
    ),
    (
        "inspect.gauge('a', 'h', { labels = { 'x' } }):set(1, {})",
        "string, number or boolean as a label's value expected, got table",
    ),
    (
        "inspect.gauge('a', 'h').set({}, 1)",
        "metric expected, got table",
    ),
    (
        "for i = 1, 2000 do inspect.gauge('a' .. i, 'h') end",
        "there are 1000 metrics already, which is the most; use labels",
    ),
];

#[test]
fn wrong_names_and_values_are_refused() {
    for (call, expected) in WRONG {
        let outcome = counting(call);
        outcome.ends_with(1).complained(expected);
        // The error is the caller's.
        outcome.complained("(command line):");
    }
}

#[test]
fn all_vms_share_a_metric_by_its_name() {
    counting(
        "local vm = require 'baton.vm'
         local function count()
           local inspect = require 'baton.inspect'
           local calls = inspect.counter('calls', 'calls', { labels = { 'who' } })
           for i = 1, 10000 do calls:add(1, 'all') end
         end
         local vms = {}
         for i = 1, 3 do vms[i] = vm.spawn(count) end
         count()
         for i = 1, 3 do assert(vms[i]:join()) end
         print(lines 'calls')",
    )
    .succeeds()
    .wrote(
        "# HELP calls_total calls; # TYPE calls_total counter; calls_total{who=\"all\"} 40000\n",
    );
}

#[test]
fn fields_of_the_context_are_labels() {
    counting(
        "local calls = inspect.counter('calls', 'calls',
           { labels = { 'kind' }, context = { 'route', 'user' }, max_sets = 2 })
         calls:add(1, 'a')
         process.with_context({ route = '/x', user = 7 }, function() calls:add(2, 'a') end)
         process.with_context({ route = '/y' }, function() calls:add(3, 'a') calls:add(4, 'b') end)
         print((lines 'calls':gsub('^.-;.-; ', '')))
         assert(calls:remove('a', '/x', 7))
         local of_route = { context = { 'route' }, bounds = { 1 } }
         local times = inspect.histogram('t_seconds', 'times', of_route)
         process.with_context({ route = '/x' }, function() times:observe(0.5) end)
         print((lines 't_seconds_sum'))",
    )
    .succeeds()
    .wrote(
        "calls_total{kind=\"(others)\",route=\"(others)\",user=\"(others)\"} 7; \
         calls_total{kind=\"a\",route=\"\",user=\"\"} 1; \
         calls_total{kind=\"a\",route=\"/x\",user=\"7\"} 2\n\
         t_seconds_sum{route=\"/x\"} 0.5\n",
    );
}

#[test]
fn a_forks_child_goes_on_from_its_parents_values() {
    counting(
        "local forker = require 'forker'
         local jobs = inspect.counter('jobs', 'jobs')
         jobs:add(5)
         io.stdout:flush()
         local child = forker.fork()
         jobs:add(child == 0 and 10 or 1)
         inspect.gauge('later', 'made after the fork'):set(1)
         local seen = lines 'jobs' .. '; ' .. lines 'later'
         assert(seen:find(child == 0 and 'jobs_total 15; ' or 'jobs_total 6; '), seen)
         assert(seen:find 'later 1$', seen)
         if child == 0 then os.exit(7, false) end
         local status
         repeat process.sleep(0.001) status = forker.reap(child) until status
         assert(status == 7)",
    )
    .succeeds()
    .quietly();
}

/// Its figures are what they are, whatever the seed.
#[test]
fn a_simulated_run_may_count() {
    let run = baton().arg("--simulate").arg("1-3").arg("-e");
    run.arg("require 'baton.inspect'.counter('runs', 'runs'):add()")
        .run()
        .succeeds();
}

/// As the cluster's figures are registered.
#[test]
fn a_module_may_add_metrics_of_its_own_to_batons() {
    counting(
        "inspect.gauge('baton_cluster_connections', 'connections to servers'):set(2)
         assert(lines 'baton_cluster':find 'baton_cluster_connections 2$')",
    )
    .succeeds()
    .quietly();
}
