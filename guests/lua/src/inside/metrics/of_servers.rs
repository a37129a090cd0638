//! Metrics of the servers of `baton.http`, of all VMs together.

use baton_formats::metrics::{Family, FamilyKind, MetricProblem, Number};

unsafe extern "C" {
    /// A figure of all servers, by its number in `guests/lua/c/http/inside.h`.
    safe fn baton_http_figure(figure: u32) -> u64;
}

const SERVERS: u32 = 0;
const CONNECTIONS: u32 = 1;
const HANDLERS: u32 = 2;
const REFUSED: u32 = 3;
const SENT: u32 = 4;
const REPLIES: u32 = 5;

/// The families, if the program has made a server. Otherwise they would only take room.
pub(super) fn families() -> Result<Vec<Family>, MetricProblem> {
    match baton_http_figure(SERVERS) {
        0 => Ok(Vec::new()),
        _ => all(),
    }
}

/// The families, with values or zeros.
pub(super) fn all() -> Result<Vec<Family>, MetricProblem> {
    let single = [
        (
            FamilyKind::Gauge,
            CONNECTIONS,
            "baton_http_connections",
            "connections that are open",
        ),
        (
            FamilyKind::Gauge,
            HANDLERS,
            "baton_http_handlers",
            "requests that are being handled",
        ),
        (
            FamilyKind::Counter,
            REFUSED,
            "baton_http_refused",
            "requests that no handler got",
        ),
        (
            FamilyKind::Counter,
            SENT,
            "baton_http_sent_bytes",
            "bytes of the bodies of replies",
        ),
    ];
    let mut families = vec![replies()?];
    for (kind, figure, name, help) in single {
        let mut family = Family::new(kind, name, help)?;
        family.add(&[], Number::Natural(baton_http_figure(figure)))?;
        families.push(family);
    }
    Ok(families)
}

fn replies() -> Result<Family, MetricProblem> {
    let help = "replies, by the first digit of their status";
    let mut family = Family::new(FamilyKind::Counter, "baton_http_replies", help)?;
    for (figure, status) in (REPLIES..).zip(["1xx", "2xx", "3xx", "4xx", "5xx"]) {
        let count = Number::Natural(baton_http_figure(figure));
        family.add(&[("status", status.as_bytes())], count)?;
    }
    Ok(family)
}
