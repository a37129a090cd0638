//! Tests that transactions of several processes, with a connection each, do not lock each other
//! out: a call that waits in C for a lock must not keep out the call that frees it.

use crate::harness::{Run, baton};
use crate::is_file;
use crate::is_installed;
use crate::server::Server;

/// Runs ten processes with five transactions each.
fn succeed(driver: &str, prepare: impl Fn(Run) -> Run) {
    let run = baton().script("packages/transactions.lua").arg(driver);
    let outcome = prepare(run).run();
    outcome.succeeds().wrote("passed\n");
    outcome.quietly();
}

#[test]
fn transactions_of_sqlite_wait_for_each_other_and_all_succeed() {
    for (driver, package) in [
        ("luasql.sqlite3", "lua-sql-sqlite3"),
        ("dbd.sqlite3", "lua-dbi-sqlite3"),
    ] {
        if is_installed(driver, package) {
            succeed(driver, |run| {
                let database = run.scratch().join("database");
                run.env("DATABASE", database)
            });
        }
    }
}

#[test]
fn transactions_of_postgresql_wait_for_each_other_and_all_succeed() {
    let Some(server) = Server::postgres() else {
        return;
    };
    for (driver, package) in [
        ("luasql.postgres", "lua-sql-postgres"),
        ("dbd.postgresql", "lua-dbi-postgresql"),
    ] {
        if is_installed(driver, package) {
            succeed(driver, |run| run.env("SERVER", server.dir()));
        }
    }
    let library = format!(
        "/usr/lib/{}-linux-gnu/odbc/psqlodbca.so",
        std::env::consts::ARCH
    );
    if is_installed("luasql.odbc", "lua-sql-odbc") && is_file(&library, "odbc-postgresql") {
        succeed("luasql.odbc", |run| {
            let dir = run.scratch().to_path_buf();
            let source = format!(
                "[transactions]\nDriver={library}\nServername={}\nDatabase=postgres\n\
                 Username=baton\n",
                server.dir().display()
            );
            std::fs::write(dir.join("odbc.ini"), source)
                .expect("the run's directory can be written to");
            run.env("SERVER", server.dir())
                .env("ODBCINI", dir.join("odbc.ini"))
                .env("ODBCSYSINI", dir)
        });
    }
}

#[test]
fn transactions_of_mariadb_wait_for_each_other_and_all_succeed() {
    let Some(server) = Server::mariadb() else {
        return;
    };
    for (driver, package) in [
        ("luasql.mysql", "lua-sql-mysql"),
        ("dbd.mysql", "lua-dbi-mysql"),
    ] {
        if is_installed(driver, package) {
            succeed(driver, |run| {
                run.env("SERVER", server.dir())
                    .env("PORT", server.port().to_string())
            });
        }
    }
}
