//! A web server for the tests, on a free port. Its pages have known behaviour.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Barrier};

/// A server that ends with the test program. Its pages:
///
/// | path | answer |
/// |---|---|
/// | `/` | the given page |
/// | `/good` | status 200 |
/// | `/moved...` | redirects to `/good` |
/// | `/loop` | redirects to itself |
/// | `/silent` | never sent |
/// | `/no-head` | status 200; of HEAD 405 |
/// | `/closes-on-head` | status 200; of HEAD none, the connection is closed |
/// | `/together/...` | 200, once `together` of these requests are open |
/// | all others | status 404 |
pub(crate) struct WebServer {
    address: SocketAddr,
}

impl WebServer {
    /// Starts to serve `page`. The number `together` says how many requests for `/together/...`
    /// must be open at once.
    pub(crate) fn start(together: usize, page: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let (page, all_there) = (Arc::new(page), Arc::new(Barrier::new(together)));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (page, all_there) = (Arc::clone(&page), Arc::clone(&all_there));
                std::thread::spawn(move || serve(stream, &page, &all_there));
            }
        });
        Self { address }
    }

    /// The URL of its first page.
    pub(crate) fn address(&self) -> String {
        format!("http://{}/", self.address)
    }
}

/// Answers one request. If the client is gone, that is no error here: the test sees what the client
/// did.
fn serve(mut stream: TcpStream, page: &str, all_there: &Barrier) {
    let Some((method, path)) = read_request(&stream) else {
        return;
    };
    let (status, headers, body) = match path.as_str() {
        "/" => ("200 OK", "", page),
        "/good" => ("200 OK", "", "good"),
        "/loop" => ("302 Found", "Location: /loop\r\n", ""),
        path if path.starts_with("/moved") => ("301 Moved Permanently", "Location: /good\r\n", ""),
        path if path.starts_with("/together/") => {
            all_there.wait();
            ("200 OK", "", "together")
        }
        "/no-head" if method == "HEAD" => ("405 Method Not Allowed", "", ""),
        "/closes-on-head" if method == "HEAD" => return,
        "/no-head" | "/closes-on-head" => ("200 OK", "", "a page"),
        "/silent" => {
            // Until the client closes the connection.
            let _ = stream.read(&mut [0]);
            return;
        }
        _ => ("404 Not Found", "", "missing"),
    };
    let length = body.len();
    let body = if method == "HEAD" { "" } else { body };
    let _ = write!(
        stream,
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
}

/// Returns the method and the path of a request. Reads and ignores its headers.
fn read_request(stream: &TcpStream) -> Option<(String, String)> {
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    for line in lines {
        if line.ok()?.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ').map(str::to_owned);
    Some((words.next()?, words.next()?))
}
