//! What processes wait for, by object.

use super::stacks;
use crate::wording::WORDING;
use baton_core::sched::{
    Blocker, CensusRow, Partner, Scheduler, ThreadNames, WaitClass, WaitObject, describe_object,
};
use baton_core::vm::{Context, View};
use baton_observe::report::{ObjectWaits, PartnerOfWait};
use baton_sys::clock::Instant;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

/// How many partners of one object are listed.
const MOST_PARTNERS: usize = 16;

/// Objects with those that wait for them.
#[derive(Default)]
pub(super) struct ObjectList {
    places: HashMap<String, usize>,
    objects: Vec<ObjectWaits>,
    /// The last partner of each, which the next waiter mostly has, too.
    partners: Vec<Option<Partner>>,
}

impl ObjectList {
    /// Adds a waiter for an object with this label. `idle` is for how many seconds it waits.
    pub(super) fn add(&mut self, view: &View<'_>, row: &CensusRow, label: &str, idle: Option<f64>) {
        if label.is_empty() {
            return;
        }
        let sched = view.sched();
        let place = match self.places.get(label) {
            Some(&place) => place,
            None => {
                self.places.insert(label.to_owned(), self.objects.len());
                self.objects.push(ObjectWaits {
                    object: label.to_owned(),
                    class: class_name(class_of(row.object, label)).to_owned(),
                    note: note(sched, row),
                    ..ObjectWaits::default()
                });
                self.partners.push(None);
                self.objects.len() - 1
            }
        };
        let object = &mut self.objects[place];
        object.waiting += 1;
        // A process that could run has waited for something else before.
        let idle = idle.filter(|_| row.object != WaitObject::Turn);
        if let Some(idle) = idle {
            object.longest = Some(object.longest.unwrap_or(0.0).max(idle));
        }
        if let Some(partner) = row.partner
            && self.partners[place].replace(partner) != Some(partner)
            && object.partners.len() < MOST_PARTNERS
        {
            let partner = named(sched, partner);
            if !object.partners.contains(&partner) {
                object.partners.push(partner);
            }
        }
    }

    /// The objects, and the VM that they are in.
    pub(super) fn into_objects(self, vm: &str) -> Vec<ObjectWaits> {
        let mut objects = self.objects;
        for object in &mut objects {
            vm.clone_into(&mut object.vm);
        }
        objects
    }
}

/// Whether waits for this are told apart by what the process does.
pub(super) fn is_told_by_the_process(object: WaitObject) -> bool {
    matches!(
        object,
        WaitObject::Call | WaitObject::Descriptor | WaitObject::Shared(_)
    )
}

/// What the process of a row waits for, without the holder; empty if it runs.
pub(super) fn label(view: &View<'_>, names: &ThreadNames, row: &CensusRow) -> String {
    if row.object == WaitObject::Nothing {
        return String::new();
    }
    let text = describe_object(view.sched(), &WORDING, names, row);
    if !matches!(row.object, WaitObject::Call | WaitObject::Descriptor) {
        return text;
    }
    let Some(record) = view.sched().user_data(row.process) else {
        return text;
    };
    let mut name = String::new();
    stacks::visit_frames(record, 1, &mut |frame| {
        if name.is_empty() {
            name.push_str(&frame.name);
        }
    });
    with_function(text, row.object, &name)
}

/// The label with the function that waits: "descriptor (in 'accept')".
pub(super) fn with_function(text: String, object: WaitObject, name: &str) -> String {
    match (name, object) {
        ("", _) => text,
        (name, WaitObject::Call) => format!("{text} of '{name}'"),
        (name, _) => format!("{text} (in '{name}')"),
    }
}

/// The class of a wait with this label. A process that cannot send waits for its peer; one that
/// reads from a descriptor, for work.
pub(super) fn class_of(object: WaitObject, label: &str) -> WaitClass {
    let sends = object == WaitObject::Descriptor && label.ends_with("(in 'send')");
    match sends {
        true => WaitClass::Object,
        false => object.class(),
    }
}

/// The class in answers.
pub(super) fn class_name(class: WaitClass) -> &'static str {
    match class {
        WaitClass::Object => "object",
        WaitClass::Idle => "idle",
        WaitClass::Turn => "turn",
    }
}

fn named(sched: &Scheduler<Context>, partner: Partner) -> PartnerOfWait {
    let record = sched.user_data(partner.process);
    PartnerOfWait {
        id: record.map_or(0, stacks::number),
        title: match record {
            Some(record) => stacks::title(record),
            None => "a process that has ended".to_owned(),
        },
        role: partner.role.before_name().to_owned(),
    }
}

/// "its last signal, 2.310 s ago at server.lua:12, woke nobody".
fn note(sched: &Scheduler<Context>, row: &CensusRow) -> String {
    let Some(Blocker::Condition(condition)) = row.waits_for else {
        return String::new();
    };
    let Some(signal) = sched.last_signal(condition) else {
        return "it was never signalled".to_owned();
    };
    let nanos = Instant::now().as_nanos();
    let ago = Duration::from_nanos(nanos.saturating_sub(signal.at.as_nanos()));
    let mut note = format!("its last signal, {:.3} s ago", ago.as_secs_f64());
    let place = sched.signal_place(condition);
    if signal.woke == 0 && !place.is_empty() {
        // A string takes all that is written to it.
        let _ = write!(note, " at {place}");
    }
    note += match signal.woke {
        0 => ", woke nobody",
        1 => ", woke one process",
        _ => ", woke several processes",
    };
    note
}
