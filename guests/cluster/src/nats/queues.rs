//! Durable queues: each is a stream of JetStream, from which one consumer gives jobs to all
//! programs. Here they are opened.

use super::clients::Feed;
use super::failure::{Failure, NAME_IN_USE};
use super::state::Session;
use super::work::{CONSUMER, OpenQueue};
use crate::command::QueueOptions;
use crate::event::Answer;
use serde_json::json;
use std::rc::Rc;
use std::time::Duration;

/// The first and the longest delay before a full queue is tried again.
pub(super) const RETRIES: (Duration, Duration) =
    (Duration::from_millis(10), Duration::from_millis(250));

/// For how long a stream drops a second job with the same id.
const DUPLICATES: Duration = Duration::from_secs(120);

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Session {
    pub(super) async fn open_queue(
        self: Rc<Self>,
        name: String,
        options: QueueOptions,
    ) -> Result<Answer, String> {
        self.make_stream(&name, options.most, options.replicas)
            .await?;
        if let Some(dead) = &options.dead {
            self.make_stream(dead, None, options.replicas).await?;
        }
        let stream = OpenQueue::stream_of(&name);
        let consumer = json!({
            "stream_name": stream,
            "config": {
                "durable_name": CONSUMER, "ack_policy": "explicit", "deliver_policy": "all",
                "ack_wait": nanoseconds(options.ack), "max_deliver": -1, "max_ack_pending": -1,
                "max_waiting": 65_536, "num_replicas": 0,
            },
        });
        let what = format!("CONSUMER.DURABLE.CREATE.{stream}.{CONSUMER}");
        self.ask_jetstream(&what, &consumer)
            .await
            .map_err(Failure::text)?;
        let is_same = |queue: &Rc<OpenQueue>| queue.options == options;
        if self.queues.borrow().get(&name).is_some_and(is_same) {
            return Ok(Answer::default());
        }
        let ack = options.ack;
        let queue = Rc::new(OpenQueue::new(
            name.clone(),
            options,
            &self.clients.current(),
        ));
        let replies = Feed::new(&self.clients, queue.inbox.clone(), None).await;
        let replies = replies.map_err(|why| why.to_string())?;
        self.spawn_receiver(Rc::clone(&queue), replies);
        let session = Rc::clone(&self);
        let extended = Rc::clone(&queue);
        self.spawn_detached(async move {
            loop {
                tokio::time::sleep(ack / 3).await;
                session.extend(&extended);
            }
        });
        self.shared.put_ahead(&name, &queue.ahead);
        let before = self.queues.borrow_mut().insert(name, queue);
        if let Some(before) = before {
            // What it has fetched goes back. It still serves those that wait for it.
            self.give_back_ahead(&before);
            self.replaced.borrow_mut().push(before);
        }
        Ok(Answer::default())
    }

    async fn make_stream(
        &self,
        name: &str,
        most: Option<u64>,
        replicas: usize,
    ) -> Result<(), String> {
        let stream = OpenQueue::stream_of(name);
        let most = most.and_then(|most| i64::try_from(most).ok());
        let config = json!({
            "name": stream, "subjects": [OpenQueue::subject_of(name)], "retention": "workqueue",
            "storage": "file", "discard": "new", "max_msgs": most.unwrap_or(-1),
            "num_replicas": replicas, "duplicate_window": nanoseconds(DUPLICATES),
        });
        match self
            .ask_jetstream(&format!("STREAM.CREATE.{stream}"), &config)
            .await
        {
            Ok(_) => return Ok(()),
            Err(Failure::Refused(NAME_IN_USE, _)) => {}
            Err(why) => return Err(why.text()),
        }
        let info = self
            .ask_jetstream(&format!("STREAM.INFO.{stream}"), &json!({}))
            .await;
        let info = info.map_err(Failure::text)?;
        let there = info["config"]["max_msgs"].as_i64().unwrap_or(-1);
        match most {
            Some(most) if most != there => Err(format!(
                "the queue '{name}' is there with max = {}, not {most}; open it with that, or \
                 without max",
                if there < 0 {
                    "no limit".to_owned()
                } else {
                    there.to_string()
                }
            )),
            _ => Ok(()),
        }
    }
}
