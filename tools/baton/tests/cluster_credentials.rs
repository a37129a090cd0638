//! Tests who may connect: tokens, users, keys and JWTs, right and wrong ones. A wrong one is one
//! clear error.

mod harness;

use data_encoding::BASE64URL_NOPAD;
use harness::baton;
use harness::nats::Server;
use nkeys::KeyPair;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a program prints that connects with these credentials.
fn connect(server: &Server, credentials: &str) -> String {
    let code = format!(
        "local c, why = require('baton.cluster').connect {{
            url = os.getenv 'NATS_URL', {credentials} }}
        if not c then return print(why) end
        local sub = c:subscribe 'news'
        c:publish('news', 'hello')
        print(sub:receive(30))"
    );
    let outcome = baton().env("NATS_URL", server.url()).code(&code).run();
    outcome.succeeds().quietly();
    outcome.stdout
}

fn works(server: &Server, credentials: &str) {
    assert_eq!(connect(server, credentials), "hello\n", "{credentials}");
}

/// The server refuses them. The error is one line that says so and what to do.
fn is_refused(server: &Server, credentials: &str) {
    let said = connect(server, credentials);
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in [
        &server.url(),
        "refuses these credentials",
        "check 'credentials'",
    ] {
        assert!(said.contains(part), "no '{part}' for {credentials}: {said}");
    }
    assert!(!said.contains("secret"), "{said}");
}

/// They cannot be used, and the server is not even asked.
fn is_unusable(server: &Server, file: &Path, parts: &[&str]) {
    let said = connect(server, &of_file(file));
    assert_eq!(said.lines().count(), 1, "{said}");
    let path = file.display().to_string();
    for part in [&[path.as_str(), "nsc generate creds"], parts].concat() {
        assert!(said.contains(part), "no '{part}': {said}");
    }
}

fn of_file(file: &Path) -> String {
    format!("credentials = '{}'", file.display())
}

#[test]
fn a_token_must_be_right() {
    let Some(server) = Server::start_with("authorization { token: secret }") else {
        return;
    };
    works(&server, "credentials = { token = 'secret' }");
    for wrong in [
        "",
        "credentials = { token = 'other secret' }",
        "credentials = { token = '' }",
        "credentials = { user = 'secret', password = 'secret' }",
    ] {
        is_refused(&server, wrong);
    }
}

#[test]
fn a_user_and_a_password_must_be_right() {
    let users = "authorization { users: [ { user: me, password: secret } ] }";
    let Some(server) = Server::start_with(users) else {
        return;
    };
    works(
        &server,
        "credentials = { user = 'me', password = 'secret' }",
    );
    for wrong in [
        "",
        "credentials = { user = 'me', password = 'other secret' }",
        "credentials = { user = 'you', password = 'secret' }",
        "credentials = { token = 'secret' }",
    ] {
        is_refused(&server, wrong);
    }
}

#[test]
fn a_user_in_the_url_must_be_right() {
    let users = "authorization { users: [ { user: me, password: secret } ] }";
    let Some(server) = Server::start_with(users) else {
        return;
    };
    let of = |user: &str| {
        let url = server.url().replace("nats://", &format!("nats://{user}@"));
        format!("url = '{url}'")
    };
    works(&server, &of("me:secret"));
    works(&server, &of("me:%73ecret"));
    is_refused(&server, &of("me:secrets"));
}

/// Keys of people and of what they belong to.
struct Keys {
    operator: KeyPair,
    account: KeyPair,
    user: KeyPair,
}

impl Keys {
    fn new() -> Keys {
        Keys {
            operator: KeyPair::new_operator(),
            account: KeyPair::new_account(),
            user: KeyPair::new_user(),
        }
    }

    /// A user's JWT, with more claims.
    fn of_user(&self, more: &Value) -> String {
        let nats = json!({ "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1,
                           "type": "user", "version": 2 });
        signed(&self.account, &self.user.public_key(), nats, more)
    }

    /// The lines of a server that knows the account.
    fn configuration(&self) -> String {
        let operator = json!({ "type": "operator", "version": 2 });
        let account = json!({
            "limits": { "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
                        "wildcards": true, "conn": -1, "leaf": -1 },
            "default_permissions": { "pub": {}, "sub": {} }, "type": "account", "version": 2,
        });
        let (ours, none) = (self.account.public_key(), json!({}));
        let operator = signed(&self.operator, &self.operator.public_key(), operator, &none);
        let account = signed(&self.operator, &ours, account, &none);
        format!("operator: {operator}\nresolver: MEMORY\nresolver_preload: {{ {ours}: {account} }}")
    }
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("the clock is right").as_secs()
}

/// A JWT about `subject`, as NATS has them: see its "JWT claims", version 2.
fn signed(issuer: &KeyPair, subject: &str, nats: Value, more: &Value) -> String {
    let mut claims = json!({
        "jti": "trial", "iat": now(), "iss": issuer.public_key(), "name": "trial",
        "sub": subject, "nats": nats,
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        claims[name] = value.clone();
    }
    let header = json!({ "typ": "JWT", "alg": "ed25519-nkey" });
    let encoded = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let text = format!("{}.{}", encoded(&header), encoded(&claims));
    let signature = issuer.sign(text.as_bytes()).expect("it has a seed");
    format!("{text}.{}", BASE64URL_NOPAD.encode(&signature))
}

/// A file as `nsc generate creds` writes it.
fn credentials(jwt: &str, key: &KeyPair) -> String {
    let seed = key.seed().expect("it has a seed");
    format!(
        "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
         ************************* IMPORTANT *************************\n\
         NKEY Seed printed below can be used to sign and prove identity.\n\n\
         -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )
}

#[test]
fn a_jwt_must_be_signed_by_the_account_and_used_with_its_key() {
    let (keys, strangers) = (Keys::new(), Keys::new());
    let Some(server) = Server::start_with(&keys.configuration()) else {
        return;
    };
    let file = server.directory().join("user.creds");
    let write = |text: &str| std::fs::write(&file, text).expect("it can be written");
    let jwt = keys.of_user(&json!({}));
    write(&credentials(&jwt, &keys.user));
    works(&server, &of_file(&file));
    works(&server, &of_file(&file));

    let expired = keys.of_user(&json!({ "exp": now() - 3600 }));
    let of_strangers = strangers.of_user(&json!({}));
    for (jwt, key) in [
        (&jwt, &strangers.user),
        (&of_strangers, &strangers.user),
        (&expired, &keys.user),
    ] {
        write(&credentials(jwt, key));
        is_refused(&server, &of_file(&file));
    }
    is_refused(&server, "");
    is_refused(
        &server,
        "credentials = { user = 'me', password = 'secret' }",
    );
}

#[test]
fn a_key_without_a_jwt_must_be_known() {
    let (known, unknown) = (KeyPair::new_user(), KeyPair::new_user());
    let users = format!(
        "authorization {{ users: [ {{ nkey: {} }} ] }}",
        known.public_key()
    );
    let Some(server) = Server::start_with(&users) else {
        return;
    };
    let file = server.directory().join("user.nk");
    let write = |key: &KeyPair| {
        let seed = key.seed().expect("it has a seed");
        std::fs::write(&file, format!("{seed}\n")).expect("it can be written");
    };
    write(&known);
    works(&server, &of_file(&file));
    write(&unknown);
    is_refused(&server, &of_file(&file));
    is_refused(&server, "");
}

#[test]
fn a_file_that_is_missing_or_has_no_credentials_is_explained() {
    let Some(server) = Server::start_with("") else {
        return;
    };
    let file = server.directory().join("user.creds");
    is_unusable(&server, &file, &["No such file"]);
    is_unusable(&server, server.directory(), &["directory"]);
    let keys = Keys::new();
    let whole = credentials(&keys.of_user(&json!({})), &keys.user);
    let seed = keys.user.seed().expect("it has a seed");
    let half = whole.replace(&seed, "");
    let wrong_seed = whole.replace(&seed, &seed[..20]);
    for text in ["", "hello\n", &half, &wrong_seed, &seed[..20], "SUwrong"] {
        std::fs::write(&file, text).expect("it can be written");
        is_unusable(&server, &file, &[]);
    }
    std::fs::write(&file, [0xff, 0xfe, 0]).expect("it can be written");
    is_unusable(&server, &file, &[]);
}
