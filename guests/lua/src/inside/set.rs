//! Parameters, read and set from outside.

use super::PATIENCE;
use baton_capi::parameters::{list_values, set_by_name};
use baton_core::vm::Vm;
use serde_json::{Map, Value, json};

/// All parameters and their values, as texts.
pub(super) fn list(vm: &Vm) -> Value {
    let values = list_values(&vm.parameters)
        .into_iter()
        .map(|(name, value)| (name, value.into()));
    Value::Object(values.collect::<Map<_, _>>())
}

/// Sets a parameter. Returns its new value.
pub(super) fn answer(vm: &Vm, with: &Value) -> Result<Value, String> {
    let text = |field: &str| {
        let text = with.get(field).and_then(Value::as_str);
        text.ok_or_else(|| format!("the text '{field}' expected in the details of 'set'"))
    };
    let (name, value) = (text("name")?, text("value")?);
    set_by_name(&vm.parameters, name, value)?;
    // A process that keeps the VM goes by the old value until it lets others run.
    let _ = vm.parameters_changed_outside(PATIENCE);
    let now = list_values(&vm.parameters);
    let new = now.into_iter().find(|(listed, _)| listed == name);
    Ok(json!({ "name": name, "value": new.map(|(_, value)| value) }))
}
