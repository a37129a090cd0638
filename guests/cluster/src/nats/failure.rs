//! Why a request has no reply, and what the guest is told.

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection was lost, or is.
    Offline,
    /// Nobody listens on the subject.
    NoResponders,
    TimedOut,
    /// The request cannot be sent.
    Wrong(String),
    /// JetStream refuses it, with a code and a text.
    Refused(u64, String),
}

impl Failure {
    /// What the guest is told.
    pub(super) fn text(self) -> String {
        match self {
            Failure::Offline => "offline".to_owned(),
            Failure::NoResponders => NO_JETSTREAM.to_owned(),
            Failure::TimedOut => "timeout".to_owned(),
            Failure::Wrong(why) => why,
            Failure::Refused(NOT_ENABLED | NOT_ENABLED_FOR_ACCOUNT, _) => NO_JETSTREAM.to_owned(),
            Failure::Refused(_, why) => format!("the server refuses it: {why}"),
        }
    }
}

const NO_JETSTREAM: &str = "the server has no JetStream, which queues and tables need; start \
                            nats-server with -js, and allow it for this account";

/// JetStream's codes for errors.
pub(super) const NAME_IN_USE: u64 = 10058;
pub(super) const STORE_FAILED: u64 = 10077;
const NOT_ENABLED: u64 = 10076;
const NOT_ENABLED_FOR_ACCOUNT: u64 = 10039;
