/*
** Functions and their frames: which are ours, which run, which foreign ones stand on a process's
** stack, and how frames are asked for a safepoint.
*/
#include "seam/internals.h"

#include <stdio.h>
#include <string.h>

/* What the folders above have installed. */
struct baton_seam_hooks baton_seam_hooks;

/* {======================================================
** Functions
** ======================================================= */

/* The text of the executable: our own C, Lua's and the runtime's. */
extern char __executable_start[];
extern char etext[];

int baton_lua_is_ours(lua_CFunction function) {
  const char *address = (const char *)function;
  return address >= __executable_start && address < etext;
}

/* Finalizers of our own that neither wait nor call back. Written when modules are opened, inside
   the VM or before there are others. */
static lua_CFunction quick[8];

void baton_lua_note_quick_finalizer(lua_CFunction function) {
  size_t i;
  for (i = 0; i < sizeof quick / sizeof quick[0] && quick[i] != NULL && quick[i] != function; i++) {
  }
  if (i < sizeof quick / sizeof quick[0]) quick[i] = function;
}

int baton_lua_never_waits(lua_CFunction function) {
  size_t i;
  for (i = 0; i < sizeof quick / sizeof quick[0] && quick[i] != NULL; i++)
    if (quick[i] == function) return 1;
  return 0;
}

/* }====================================================== */

/* {======================================================
** Frames
** ======================================================= */

/*
** What a walk found at a frame and beneath it, kept in two bits of its `callstatus` that Lua leaves
** free. Lua writes that anew for each call, and nothing beneath changes while a frame stands: so
** each frame is looked at once, however deep the stack is at each switch.
*/
#define FRAMES_ALL_OURS (1 << 14)
#define FRAMES_SOME_FOREIGN (1 << 15)
#define FRAMES_WALKED (FRAMES_ALL_OURS | FRAMES_SOME_FOREIGN)
_Static_assert(CIST_LEQ < FRAMES_ALL_OURS && sizeof(((CallInfo *)0)->callstatus) == 2,
    "the two bits are free");

static int has_foreign_frames(lua_State *L) {
  CallInfo *ci, *walked;
  int found = FRAMES_ALL_OURS;
  for (ci = L->ci; ci != NULL && ci != &L->base_ci; ci = ci->previous) {
    lua_CFunction function;
    if (!(ci->callstatus & FRAMES_WALKED) && !isLua(ci) &&
        (function = baton_lua_function_of(ci)) != NULL && !baton_lua_is_ours(function))
      ci->callstatus |= FRAMES_SOME_FOREIGN;
    if (ci->callstatus & FRAMES_WALKED) {
      found = ci->callstatus & FRAMES_WALKED;
      break;
    }
  }
  for (walked = L->ci; walked != ci; walked = walked->previous)
    walked->callstatus |= (unsigned short)found;
  return found == FRAMES_SOME_FOREIGN;
}

/* Inside the VM, since the monitor writes to it, too, when it judges. */
void baton_lua_mark_frame(lua_State *L, int is_foreign) {
  unsigned status = L->ci->callstatus & ~(unsigned)FRAMES_WALKED;
  L->ci->callstatus = (unsigned short)(is_foreign ? status | FRAMES_SOME_FOREIGN : status);
}

int baton_lua_has_foreign_frames(struct baton_process *process) {
  struct baton_resumed *resumed;
  if (process->keeps_thread || has_foreign_frames(process->L)) return 1;
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
    if (has_foreign_frames(resumed->L)) return 1;
  return 0;
}

/* }====================================================== */

/* {======================================================
** Asking frames for a safepoint
** ======================================================= */

/* Every frame of a killed process is to look: it may be caught anywhere, and goes on from there. */
static void arm_all_frames(lua_State *L) {
  CallInfo *ci;
  L->hookmask |= BATON_HOOK_BIT;
  for (ci = L->ci; ci != NULL; ci = ci->previous)
    if (isLua(ci)) ci->u.l.trap = 1;
}

void baton_lua_request_safepoint(struct baton_process *process) {
  struct baton_resumed *resumed;
  arm_all_frames(process->L);
  for (resumed = process->resumed; resumed != NULL; resumed = resumed->previous)
    arm_all_frames(resumed->L);
}

/* A simulated run looks at every instruction. */
void baton_lua_begin_steps(lua_State *L) {
  if (baton_simulated) baton_lua_arm(L);
}

/* }====================================================== */

/* {======================================================
** The call that runs
** ======================================================= */

lua_CFunction baton_lua_running_function(lua_State *L) {
  return isLua(L->ci) ? NULL : baton_lua_function_of(L->ci);
}

void *baton_lua_object_of_running_call(struct baton_process *process, lua_State *L) {
  const lua_CFunction function = baton_lua_running_function(L);
  return function != NULL ? baton_seam_hooks.object_of_call(process, L, function) : NULL;
}

/* The name under which a loaded module holds the function, as Lua's own messages have it. Writes at
   most `size` bytes. */
void baton_lua_name_function(lua_State *L, char *text, size_t size) {
  lua_Debug ar;
  memset(&ar, 0, sizeof ar);
  ar.i_ci = L->ci;
  ar.name = NULL;
  if (lua_getinfo(L, "n", &ar) && ar.name != NULL)
    snprintf(text, size, "'%s'", ar.name);
  else
    snprintf(text, size, "a C function at %p", (void *)(size_t)baton_lua_function_of(L->ci));
}

/* A C function of `L` is about to be called, while calls are watched. Inside the VM. */
void baton_lua_before_call(lua_State *L, lua_CFunction function) {
  struct baton_process *process;
  if (baton_lua_is_ours(function)) return; /* its files are waited for in io/files.c */
  process = baton_lua_running(L);
  if (process != NULL) baton_seam_hooks.before_foreign_call(L, process, function);
}

/* }====================================================== */
