/*
** Installs the functions that the seam calls in this folder.
*/
#include "seam/internals.h"
#include "calls/calls.h"
#include "calls/policies.h"
#include "state/state.h"

void baton_lua_install_calls(void) {
  baton_seam_hooks = (struct baton_seam_hooks){
      .may_give_way = baton_lua_may_give_way,
      .object_of_call = baton_lua_object_of_call,
      .keep_used_by = baton_lua_keep_used_by,
      .connection_of_new = baton_lua_connection_of_new,
      .before_foreign_call = baton_lua_before_foreign_call,
      .after_foreign_call = baton_lua_after_foreign_call,
      .unwinds_calls = baton_turns_unwind,
      .warn_of_foreign_state = baton_lua_warn_of_foreign_state,
      .defer_finalizer = baton_lua_defer_finalizer,
      .make_room_for_finalizer = baton_lua_make_room_for_finalizer,
      .leave_finalizers = baton_lua_leave_finalizers,
      .let_finalizers_run = baton_lua_let_finalizers_run,
      .await_finalizers = baton_lua_await_finalizers,
      .keeps_no_threads = baton_lua_keeps_no_threads,
  };
}
