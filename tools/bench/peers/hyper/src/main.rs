//! The peer `hyper`. See ../../README.md.

#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::env;
use std::process::ExitCode;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

const TYPE: &str = "application/json";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["version"] => {
            println!("hyper {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        ["net", "json", address, port] => serve(address, port),
        _ => Err("usage: peer version | net json ADDRESS PORT".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The service with JSON, in one thread.
fn serve(address: &str, port: &str) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((address, port.parse()?)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(Duration::from_secs(10))
                .serve_connection(TokioIo::new(stream), service_fn(answer));
            tokio::spawn(connection);
        }
    })
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let id = request.uri().path().strip_prefix("/items/");
    let id = id.filter(|id| request.method() == Method::GET && !id.contains('/'));
    let mut response = Response::new(Full::default());
    match id {
        Some(id) => {
            let body = serde_json::json!({ "id": id, "name": "a thing" });
            let kind = TYPE.parse().expect("a value of a field");
            response.headers_mut().insert(CONTENT_TYPE, kind);
            *response.body_mut() = Full::from(body.to_string());
        }
        None => *response.status_mut() = StatusCode::NOT_FOUND,
    }
    Ok(response)
}
