//! Failures of TLS in plain words: what was expected, what came, and what to do.

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

/// The longest text of a failure. A certificate can present any number of names.
const LONGEST: usize = 400;

/// A failure that rustls reports.
pub(crate) fn in_words(error: &Error) -> String {
    let words = match error {
        Error::InvalidCertificate(why) => certificate(why),
        Error::NoCertificatesPresented => "the peer sent no certificate".to_owned(),
        Error::AlertReceived(alert) => refusal(*alert),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "what came is not TLS; does the peer's port expect TLS?".to_owned()
        }
        Error::InvalidMessage(why) => format!("a malformed message came ({why:?})"),
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            format!("a message came out of its turn ({error})")
        }
        Error::PeerIncompatible(why) => incompatible(why),
        Error::PeerMisbehaved(why) => format!("the peer breaks the protocol ({why:?})"),
        Error::DecryptError => "what came cannot be decrypted: it was changed on its way, or the \
                                peer is broken"
            .to_owned(),
        Error::PeerSentOversizedRecord => "a record came that is larger than TLS allows".to_owned(),
        Error::NoApplicationProtocol => "the peer knows no protocol of 'alpn'".to_owned(),
        Error::General(why) if why == "no server certificate chain resolved" => {
            "there is no certificate whose signature the client can check".to_owned()
        }
        Error::FailedToGetCurrentTime => "the system's clock cannot be read".to_owned(),
        other => other.to_string(),
    };
    cut(words)
}

fn cut(mut words: String) -> String {
    if words.len() > LONGEST {
        let end = (0..=LONGEST).rev().find(|&end| words.is_char_boundary(end));
        words.truncate(end.unwrap_or(0));
        words.push_str(" ...");
    }
    words
}

fn certificate(why: &CertificateError) -> String {
    match why {
        CertificateError::Expired => "the certificate has expired".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("the certificate expired on {}", date(*not_after))
        }
        CertificateError::NotValidYet => "the certificate is not valid yet".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => format!(
            "the certificate is not valid before {}; is this system's clock right?",
            date(*not_before)
        ),
        CertificateError::NotValidForName => "the certificate is for another name".to_owned(),
        CertificateError::NotValidForNameContext {
            expected,
            presented,
        } => {
            let expected = expected.to_str();
            if presented.is_empty() {
                format!("the certificate is for no name, and not for '{expected}'")
            } else {
                let names = presented.join(", ");
                format!("the certificate is for {names}, and not for '{expected}'")
            }
        }
        CertificateError::UnknownIssuer => {
            "the certificate is of an unknown authority; name the authority's certificate in 'ca'"
                .to_owned()
        }
        CertificateError::BadSignature => "the certificate's signature is wrong".to_owned(),
        CertificateError::BadEncoding => "the certificate cannot be read".to_owned(),
        CertificateError::Revoked => "the certificate was revoked".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is for another purpose than this side of TLS".to_owned()
        }
        CertificateError::Other(other) => match other.0.to_string().as_str() {
            "CaUsedAsEndEntity" => "the certificate is that of an authority, which a server or \
                                    client must not use as its own; make one with \
                                    'basicConstraints=CA:FALSE'"
                .to_owned(),
            "UnsupportedCertVersion" => {
                "the certificate is of an old version; make one of version 3, with a \
                 subjectAltName"
                    .to_owned()
            }
            why => format!("the certificate cannot be used ({why})"),
        },
        other => format!("the certificate cannot be used ({other})"),
    }
}

/// What the peer says before it gives up.
fn refusal(alert: AlertDescription) -> String {
    let why = match alert {
        AlertDescription::UnknownCA => "it does not know the authority of our certificate",
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown => "it does not accept our certificate",
        AlertDescription::CertificateExpired => "our certificate has expired",
        AlertDescription::CertificateRevoked => "our certificate was revoked",
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
            "it asks for a certificate of ours; give 'cert' and 'key'"
        }
        AlertDescription::UnrecognisedName => "it has no certificate for this name",
        AlertDescription::NoApplicationProtocol => "it knows no protocol of 'alpn'",
        AlertDescription::ProtocolVersion => "it speaks no version of TLS that we do",
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => {
            "both sides have no cipher or signature in common"
        }
        AlertDescription::AccessDenied => "it denies access",
        AlertDescription::UserCanceled => "its user has cancelled",
        other => return format!("the peer ended TLS (alert {other:?})"),
    };
    format!("the peer refused: {why}")
}

fn incompatible(why: &PeerIncompatible) -> String {
    use PeerIncompatible as Why;
    match why {
        Why::ServerDoesNotSupportTls12Or13
        | Why::ServerTlsVersionIsDisabledByOurConfig
        | Why::SignatureAlgorithmsExtensionRequired
        | Why::SupportedVersionsExtensionRequired
        | Why::Tls12NotOffered
        | Why::Tls12NotOfferedOrEnabled => "the peer speaks neither TLS 1.3 nor TLS 1.2".to_owned(),
        Why::NoCipherSuitesInCommon
        | Why::NoKxGroupsInCommon
        | Why::NoSignatureSchemesInCommon
        | Why::NoCertificateRequestSignatureSchemesInCommon => {
            format!("both sides have no cipher or signature in common ({why:?})")
        }
        why => format!("the peer lacks something that TLS needs ({why:?})"),
    }
}

/// A day, in the calendar of UTC. Counted in eras of 400 years that begin on the first of March.
fn date(time: UnixTime) -> String {
    let days = time.as_secs() / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_time_is_a_day_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_767_225_599, "2025-12-31"),
            (1_767_225_600, "2026-01-01"),
            (4_107_542_400, "2100-03-01"),
        ] {
            let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            assert_eq!(date(time), expected);
        }
    }

    #[test]
    fn a_long_list_of_names_is_cut() {
        let names = "example.org, ä".repeat(1_000);
        let said = in_words(&Error::General(names));
        assert!(said.len() < 450 && said.ends_with(" ..."), "{said}");
    }
}
