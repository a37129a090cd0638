//! A conversation with one client: its questions, and the answers of the program.

use super::{Counted, QUIET};
use crate::inherited::Noted;
use crate::protocol::{
    Access, Ask, Hello, LONGEST_ASK, LONGEST_REPLY, Reply, VERSION, Welcome, read_line, write_line,
};
use baton_sys::peer::user_of_peer;
use baton_sys::thread;
use rustix::process::geteuid;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::io::{self, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long a client may leave an answer unread.
const UNREAD: Duration = Duration::from_secs(10);

/// Takes a part of an answer to the client, as text of JSON: a tree of values would cost the
/// program several times as much. An error says that the client is gone. See [`send_part`].
pub type Part<'a> = &'a mut dyn FnMut(&RawValue) -> io::Result<()>;

/// Sends a part of an answer.
///
/// # Errors
/// The part has no text in JSON, or the client is gone.
pub fn send_part(part: Part<'_>, what: &impl Serialize) -> io::Result<()> {
    part(&to_raw_value(what)?)
}

/// An answer as text of JSON, or as much of it as is sent after its parts.
///
/// # Errors
/// It has no text in JSON.
pub fn answer_text(answer: &impl Serialize) -> Result<Box<RawValue>, String> {
    to_raw_value(answer).map_err(|error| error.to_string())
}

/// [`Reply::Part`], as it is sent.
#[derive(Serialize)]
struct SentPart<'a> {
    part: &'a RawValue,
}

/// [`Reply::Done`], as it is sent.
#[derive(Serialize)]
struct SentDone<'a> {
    done: &'a RawValue,
}

/// What answers: the program.
pub trait Target: Send + Sync {
    /// Its name and version, such as `Baton 0.1.0`.
    fn program(&self) -> String;

    /// Begins to serve a client. The session ends with its connection, for whatever reason.
    fn begin(&self, access: Access) -> Box<dyn Session>;
}

/// One client's questions, on its own thread.
pub trait Session {
    /// Answers a question, with its details in `with`.
    ///
    /// # Errors
    /// A sentence for the client: what is not known or not allowed, and what to do.
    fn answer(&mut self, ask: &str, with: &Value, part: Part<'_>) -> Result<Box<RawValue>, String>;

    /// Takes the connection over, if this question opens a conversation: from then on both sides
    /// send lines when they like. It returns at the end of the connection. `None` for all other
    /// questions, which [`Session::answer`] answers.
    fn converse(
        &mut self,
        _ask: &str,
        _with: &Value,
        _conversation: &mut Conversation<'_, '_>,
    ) -> Option<io::Result<()>> {
        None
    }
}

/// A connection on which both sides send lines when they like.
#[derive(Debug)]
pub struct Conversation<'a, 'stream> {
    reader: &'a mut BufReader<&'stream UnixStream>,
    stream: &'stream UnixStream,
}

impl Conversation<'_, '_> {
    /// The client's next line; `None` at the end. Waits for it without a limit.
    ///
    /// # Errors
    /// As [`read_line`].
    pub fn next_line(&mut self) -> io::Result<Option<Ask>> {
        self.stream.set_read_timeout(None)?; // a client of this kind may be silent for long
        read_line(self.reader, LONGEST_REPLY)
    }

    /// Another handle of the connection, for [`write_line`] and to close it.
    ///
    /// # Errors
    /// The system's.
    pub fn handle(&self) -> io::Result<Handle> {
        let stream = self.stream.try_clone()?;
        let noted = Noted::new(&stream);
        Ok(Handle {
            _noted: noted,
            stream,
        })
    }

    /// Starts a thread that serves this conversation, too. It counts among
    /// [`threads`](super::threads).
    ///
    /// # Errors
    /// The system's.
    pub fn start_thread(&self, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        thread::start_helper("baton-observer", move || {
            let _counted = Counted::new();
            body();
        })
    }
}

/// Another handle of a connection.
#[derive(Debug)]
pub struct Handle {
    /// Dropped before the stream is closed.
    _noted: Noted,
    stream: UnixStream,
}

impl Handle {
    /// Ends one direction of the connection, or both.
    ///
    /// # Errors
    /// The system's.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.stream.shutdown(how)
    }
}

impl Write for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

pub(super) fn refuse(mut client: &UnixStream, why: String) {
    // A client that does not read is not told.
    let _ = client.set_write_timeout(Some(UNREAD));
    let _ = write_line(&mut client, &Welcome::Refused(why));
}

/// Answers one client until it goes.
pub(super) fn converse(
    client: &UnixStream,
    allowed: Access,
    target: &dyn Target,
) -> io::Result<()> {
    let _noted = Noted::new(client);
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(QUIET))?;
    client.set_write_timeout(Some(UNREAD))?;
    let (user, peer) = (geteuid().as_raw(), user_of_peer(client)?);
    if peer != user && peer != 0 {
        refuse(
            client,
            format!("the user {peer} may not attach: only {user}, whose program this is, and root"),
        );
        return Ok(());
    }
    let (mut reader, mut writer) = (BufReader::new(client), client);
    let Some(hello) = read_line::<Hello>(&mut reader, LONGEST_ASK)? else {
        return Ok(());
    };
    if hello.version != VERSION {
        refuse(
            client,
            format!(
                "version {VERSION} of the protocol expected, got {}: use the client of {}",
                hello.version,
                target.program()
            ),
        );
        return Ok(());
    }
    let access = if hello.write { Access::All } else { allowed };
    write_line(
        &mut writer,
        &Welcome::Hello {
            version: VERSION,
            program: target.program(),
            access,
        },
    )?;
    let mut session = target.begin(access);
    while let Some(Ask { ask, with }) = read_line(&mut reader, LONGEST_ASK)? {
        let mut conversation = Conversation {
            reader: &mut reader,
            stream: client,
        };
        if let Some(result) = session.converse(&ask, &with, &mut conversation) {
            return result;
        }
        let mut part = |part: &RawValue| write_line(&mut &*client, &SentPart { part });
        match session.answer(&ask, &with, &mut part) {
            Ok(answer) => write_line(&mut writer, &SentDone { done: &answer })?,
            Err(why) => write_line(&mut writer, &Reply::Error(why))?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Read;

    /// Counts: `count` answers with so many parts.
    struct Counter;

    impl Target for Counter {
        fn program(&self) -> String {
            "Counter 1".to_owned()
        }

        fn begin(&self, access: Access) -> Box<dyn Session> {
            Box::new(Counting { access })
        }
    }

    struct Counting {
        access: Access,
    }

    impl Session for Counting {
        fn answer(
            &mut self,
            ask: &str,
            with: &Value,
            part: Part<'_>,
        ) -> Result<Box<RawValue>, String> {
            match (ask, with.as_u64()) {
                ("count", Some(to)) => {
                    for number in 0..to {
                        send_part(part, &number).map_err(|error| error.to_string())?;
                    }
                    answer_text(&to)
                }
                ("access", _) => answer_text(&(self.access == Access::All)),
                _ => Err("'count' expected".to_owned()),
            }
        }

        /// `echo` opens a conversation, in which each question comes back.
        fn converse(
            &mut self,
            ask: &str,
            _with: &Value,
            conversation: &mut Conversation<'_, '_>,
        ) -> Option<io::Result<()>> {
            (ask == "echo").then(|| {
                let mut handle = conversation.handle()?;
                while let Some(Ask { ask, .. }) = conversation.next_line()? {
                    write_line(&mut handle, &Reply::Part(ask.into()))?;
                }
                write_line(&mut handle, &Reply::Done("end".into()))
            })
        }
    }

    /// What is answered to these bytes.
    fn answer_to(bytes: Vec<u8>) -> Vec<u8> {
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        let server = std::thread::spawn(move || {
            let _ = converse(&theirs, Access::Observe, &Counter);
        });
        let mut writer = ours.try_clone().expect("a second handle");
        let writes = std::thread::spawn(move || {
            let _ = writer.write_all(&bytes);
            let _ = writer.shutdown(std::net::Shutdown::Write);
        });
        let mut answer = Vec::new();
        // The other side may close with bytes unread.
        let _ = ours.read_to_end(&mut answer);
        writes.join().expect("it writes, and ends");
        server.join().expect("it answers, and ends");
        answer
    }

    fn replies(bytes: &[u8]) -> Vec<Reply> {
        let mut answer = &answer_to(bytes.to_vec())[..];
        let welcome: Option<Welcome> = read_line(&mut answer, LONGEST_REPLY).expect("a line");
        assert!(
            matches!(welcome, Some(Welcome::Hello { .. })),
            "{welcome:?}"
        );
        let next = || read_line(&mut answer, LONGEST_REPLY).expect("a line");
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_conversation_has_the_rest_of_the_connection() {
        let all =
            replies(b"{\"version\":1}\n{\"ask\":\"echo\"}\n{\"ask\":\"a\"}\n{\"ask\":\"count\"}\n");
        let expected = [
            Reply::Part("a".into()),
            Reply::Part("count".into()),
            Reply::Done("end".into()),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn questions_are_answered_in_turn() {
        let all = replies(b"{\"version\":1}\n{\"ask\":\"count\",\"with\":2}\n{\"ask\":\"no\"}\n");
        let expected = [
            Reply::Part(0.into()),
            Reply::Part(1.into()),
            Reply::Done(2.into()),
            Reply::Error("'count' expected".to_owned()),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_client_gets_more_access_only_if_it_asks() {
        let reads = replies(b"{\"version\":1}\n{\"ask\":\"access\"}\n");
        assert_eq!(reads, [Reply::Done(false.into())]);
        let writes = replies(b"{\"version\":1,\"write\":true}\n{\"ask\":\"access\"}\n");
        assert_eq!(writes, [Reply::Done(true.into())]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_bytes_harm_the_conversation(
            hello in prop::bool::ANY,
            bytes in prop::collection::vec(any::<u8>(), 0..3000),
        ) {
            let mut all = if hello { b"{\"version\":1}\n".to_vec() } else { Vec::new() };
            all.extend(bytes);
            answer_to(all); // neither panics nor hangs
        }

        #[test]
        fn a_question_with_any_details_gets_one_answer(text in ".*") {
            let ask = Ask { ask: text.clone(), with: Value::String(text) };
            let mut all = b"{\"version\":1}\n".to_vec();
            write_line(&mut all, &ask).expect("a vector takes all");
            prop_assert_eq!(replies(&all).len(), 1);
        }
    }
}
