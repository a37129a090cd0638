//! A browser uses `baton.http`: Chromium loads a page, speaks over WebSocket, and receives events.
#![cfg(target_os = "linux")]

mod harness;

use harness::{Run, baton, scraped::free_port, skip};
use std::path::Path;

const BROWSER: &str = "chromium";

/// What the page finds: `own_http/browser.lua` has it.
const FOUND: &str = "open soup
text Grüße, 世界 🎈
bytes 0 255 128
text 300000
close 4001 as you wish true
message \"one\\ntwo\" 6
news first 7
news again 7+
stream 12345
json 20
missing 404
";

#[test]
fn a_browser_loads_a_page_speaks_over_websocket_and_receives_events() {
    let probe = [BROWSER, "--version"];
    if skip::is_missing(&probe, BROWSER, "baton.http, by a browser") {
        return;
    }
    let port = free_port("127.0.0.1").to_string();
    let mut server = baton().script("own_http/browser.lua").arg(&port).start();
    server.await_stdout("ready\n");
    let browser = Run::of(Path::new(BROWSER));
    let profile = browser.scratch().join("profile");
    // Without its sandbox it runs as root, too. The page is ours.
    let browser = browser
        .arg("--headless")
        .arg("--no-sandbox")
        .arg("--disable-gpu")
        .arg("--disable-dev-shm-usage")
        .arg("--no-first-run")
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("http://127.0.0.1:{port}/"))
        .start();
    let outcome = server.finish();
    browser.signal("TERM");
    browser.finish();
    outcome
        .succeeds()
        .quietly()
        .wrote(&format!("ready\n{FOUND}"));
}
