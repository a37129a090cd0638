/*
** The seam: included before every file of Lua. The files themselves stay unmodified.
**
** What it changes, file by file (build.rs defines BATON_IN_* for the files named):
**
**   all files    lua_lock and lua_unlock enter and leave the VM. luai_threadyield does nothing.
**                Modules are searched for where Debian's Lua searches. C functions that these files
**                push count as our own.
**   ldebug.c     luaG_traceexec is wrapped: ours checks for a safepoint first. lua_sethook keeps
**                the trap of a simulated run, and a debugger's. luaG_errormsg tells a debugger.
**                lua_getstack and lua_getinfo leave out functions that stand in place of a
**                module's own (frames.c).
**   ldo.c        LUAI_THROW finds the handler on the current C stack. luaD_shrinkstack is wrapped.
**                A frame that returns passes on whether a debugger traces its caller.
**                lua_resume notes its coroutine. A yield at a process's base has the same message
**                as in stock Lua's main chunk.
**   lapi.c       lua_callk and lua_pcallk are wrapped. A chunk that is loaded is shown to a
**                debugger. lua_pushthread notes that the program may
**                know a process's thread. Three functions that do not lock now lock. lua_setwarnf
**                may be called inside. lua_gc gives memory back to the system after a large full
**                collection. luaV_finishget is called as in lvm.c. A userdata that a call about a
**                database connection makes notes the connection.
**   lstate.c     lua_close, which never unlocks, leaves the gate as it found it. A coroutine that
**                is being closed is noted. In a simulated run, the hash seed is the run's.
**   lfunc.c      Calls of __close methods are marked.
**   lgc.c        Calls of finalizers are marked. They wait while Lua's stack is nearly full. The
**                collector abandons its step if another collection ran while a finalizer waited.
**                While there are other processes, a major collection is made in steps.
**   liolib.c     A function notes its file, and waits if the file is in use. A read waits in the
**                poller if others could run. Output goes through the host's console.
**   lvm.c        The loop's calls of luaV_finishget first look for a method of a userdata, or a
**                field of a frozen value; those of luaV_objlen, for a frozen value. The loop saves
**                where it is before it makes a table.
**   lauxlib.c    Messages to stderr go through the host's console. luaL_traceback stops the
**                collector while it reads another state. luaL_newstate is wrapped: in a program
**                that embeds Lua, the state can have processes. luaL_ref and luaL_unref are one
**                step each.
**
** print, require, os.exit and some functions of debug are replaced in their tables (program.c).
*/
#ifndef BATON_SEAM_H
#define BATON_SEAM_H

#include "record.h"

struct lua_State;
struct lua_longjmp;

void baton_lua_enter_cold(struct lua_State *L, uint32_t slow);

#define baton_seam_enter(L)                                                    \
  do {                                                                         \
    uint32_t baton_slow_ = baton_gate_enter();                                \
    if (__builtin_expect(baton_slow_ != 0, 0)) baton_lua_enter_cold(L, baton_slow_); \
  } while (0)

#if !defined(BATON_IN_LDO)
#define lua_lock(L) baton_seam_enter(L)
#define lua_unlock(L) ((void)(L), baton_gate_leave())
#else
/*
** lua_resume notes which coroutine runs. A wrapper function would cost a mispredicted return after
** each yield: a longjmp leaves the processor's return predictor with frames that are gone. So both
** ends are inside the function. `luai_userstateresume` stands at its beginning. It declares, in
** that scope only, the names that the `lua_unlock` at its end uses.
*/
enum { baton_in_resume = 0 };
static struct baton_resumed *const baton_resumed_note = 0;
void baton_lua_resume_ends(struct lua_State *L, struct baton_process *process);

#define luai_userstateresume(L, n)                                             \
  enum { baton_in_resume = 1 };                                                \
  struct baton_resumed baton_resumed_record;                                   \
  struct baton_resumed *const baton_resumed_note = &baton_resumed_record;      \
  struct baton_process *baton_resumer = baton_gate_process();                  \
  if (baton_resumer != NULL && baton_resumer->global != G(L)) baton_resumer = NULL; \
  baton_resumed_record.process = baton_resumer;                                \
  baton_resumed_record.L = (L);                                                \
  if (__builtin_expect(baton_resumer != NULL, 1)) {                            \
    baton_resumed_record.previous = baton_resumer->resumed;                    \
    baton_signal_fence();                                                      \
    baton_resumer->resumed = &baton_resumed_record;                            \
  }                                                                            \
  ((void)0)

/*
** precallC of ldo.c has a parameter `f`: the C function that it calls between lua_unlock and
** lua_lock. Before that call, it may have to wait for a retaken call with the same object
** (policies.c), or for its VM's turn in the module (turns.c), which ends after the call. In all
** other functions `f` is this constant, and the compiler removes the checks.
*/
enum { f = 0 };
extern __attribute__((visibility("hidden"))) int baton_calls_watched;
void baton_lua_before_call(struct lua_State *L, int (*function)(struct lua_State *L));
void baton_lua_after_call(struct lua_State *L);

#define lua_lock(L)                                                                     \
  do {                                                                                  \
    baton_seam_enter(L);                                                                \
    if (!__builtin_constant_p(f) && __builtin_expect(baton_calls_watched, 0))           \
      baton_lua_after_call(L);                                                          \
  } while (0)

#define lua_unlock(L)                                                                   \
  do {                                                                                  \
    if (!__builtin_constant_p(f) && __builtin_expect(baton_calls_watched, 0))           \
      baton_lua_before_call((L), (int (*)(struct lua_State *))(size_t)(f));             \
    if (baton_in_resume && __builtin_expect(baton_resumed_note->process != NULL, 1)) {  \
      struct baton_process *baton_process_ = baton_resumed_note->process;               \
      baton_process_->resumed = baton_resumed_note->previous;                           \
      baton_signal_fence();                                                             \
      if (__builtin_expect((L->hookmask & BATON_HOOK_BIT) | baton_process_->killed, 0)) \
        baton_lua_resume_ends(L, baton_process_);                                       \
    }                                                                                   \
    (void)(L);                                                                          \
    baton_gate_leave();                                                                 \
  } while (0)
#endif

/* A bit of `hookmask` that Lua's own hooks do not use. It requests a safepoint. */
#define BATON_HOOK_BIT (1 << 7)

/* Another one: a debugger is attached that has breakpoints, or steps. It leads each call of a Lua
   function to luaG_traceexec. */
#define BATON_DEBUG_BIT (1 << 6)

/* Nothing: it stands after `updatetrap`, and a switch here would leave `base` stale. */
#define luai_threadyield(L) ((void)0)

/* The handler for an error: `c`, or the current process's base if `c` is on another C stack. */
struct lua_longjmp *baton_lua_throw_target(
    struct lua_State *L, struct lua_longjmp *c, int yields);

#define LUAI_THROW(L, c)                                                       \
  do {                                                                         \
    struct lua_longjmp *baton_target_ =                                       \
        baton_lua_throw_target(L, c, (c)->status == LUA_YIELD);                \
    if (baton_target_ != (c)) {                                                \
      baton_target_->status = (c)->status;                                     \
      (c)->status = LUA_OK;                                                    \
    }                                                                          \
    _longjmp(baton_target_->b, 1);                                             \
  } while (0)
#define LUAI_TRY(L, c, a) if (_setjmp((c)->b) == 0) { a }
#define luai_jmpbuf jmp_buf

/* Our own files push our own functions. Modules get these names from frames.c. */
#define lua_pushcclosure baton_stock_pushcclosure
#define lua_tocfunction baton_stock_tocfunction
#define luaL_setfuncs baton_stock_setfuncs
#define luaL_requiref baton_stock_requiref

#if defined(BATON_IN_LAUXLIB)
#define luaL_traceback baton_stock_traceback
#endif

#if defined(BATON_IN_LDEBUG)
#define luaG_traceexec baton_stock_traceexec
#define lua_sethook baton_stock_sethook
#define lua_getstack baton_stock_getstack
#define lua_getinfo baton_stock_getinfo
/* The call gives `L`, and is the wrapper's. The declaration and the definition give `lua_State *L`,
   and are renamed. */
__attribute__((noreturn, visibility("internal"))) void luaG_errormsg(struct lua_State *L);
#define luaG_errormsg(first) BATON_ERRORMSG_##first)
#define BATON_ERRORMSG_L luaG_errormsg(L
#define BATON_ERRORMSG_lua_State baton_stock_errormsg(lua_State
#endif

#if defined(BATON_IN_LDO)
#define luaD_shrinkstack baton_stock_shrinkstack
/* The call gives `L`, the definition `lua_State *L`. `rethook` is called when a function returns
   while there are hooks. After a return, the machine's loop takes the trap of the frame that has
   returned for its caller's. */
void baton_lua_pass_trap(struct lua_State *L);
#define rethook(first, frame, results) BATON_RETHOOK_##first, frame, results)
#define BATON_RETHOOK_L baton_lua_pass_trap(L), rethook(L
#define BATON_RETHOOK_lua_State rethook(lua_State
#define luaG_runerror baton_do_runerror
#endif

#if defined(BATON_IN_LAPI)
#define lua_callk baton_stock_callk
#define lua_pcallk baton_stock_pcallk
#define lua_rawlen baton_stock_rawlen
#define lua_stringtonumber baton_stock_stringtonumber
#define lua_upvaluejoin baton_stock_upvaluejoin
#define lua_setwarnf baton_stock_setwarnf
#define lua_gc baton_stock_gc
#define lua_pushthread baton_stock_pushthread
#define luaD_protectedparser baton_load_chunk
/* The call gives `L`; the declaration gives `lua_State *L`, and stays. */
#define luaS_newudata(first, size, values) BATON_NEWUDATA_##first, size, values)
#define BATON_NEWUDATA_L baton_lua_new_udata(L
#define BATON_NEWUDATA_lua_State luaS_newudata(lua_State
struct Udata *baton_lua_new_udata(struct lua_State *L, size_t size, int values);
#endif

#if defined(BATON_IN_LFUNC)
#define luaD_call baton_close_call
#define luaD_callnoyield baton_close_callnoyield
#endif

#if defined(BATON_IN_LGC)
#define luaD_pcall baton_finalizer_pcall
#define luaD_checkminstack baton_room_for_finalizers
#define luaC_step baton_stock_gc_step
#define luaC_fullgc baton_stock_fullgc
#define luaC_changemode baton_stock_changemode
#endif

#if defined(BATON_IN_LSTATE)
unsigned baton_lua_hash_seed(const void *heap);
#define luai_makeseed(L) baton_lua_hash_seed(L)
#define lua_close baton_stock_close
#define luaD_closeprotected baton_close_protected
#define lua_closethread baton_stock_closethread
#define lua_resetthread baton_stock_resetthread
#endif

#if defined(BATON_IN_LVM) || defined(BATON_IN_LAPI)
/* The calls give `L`; the declaration and the definition give `lua_State *L`, and stay. */
#define luaV_finishget(first, object, key, value, slot) \
  BATON_FINISHGET_##first, object, key, value, slot)
#define BATON_FINISHGET_L baton_lua_finishget(L
#define BATON_FINISHGET_lua_State luaV_finishget(lua_State
struct TValue;
union StackValue;
__attribute__((visibility("hidden"))) void baton_lua_finishget(
    struct lua_State *L, const struct TValue *object, struct TValue *key, union StackValue *value,
    const struct TValue *slot);
#endif

#if defined(BATON_IN_LVM)
#define luaV_objlen(first, value, object) BATON_OBJLEN_##first, value, object)
#define BATON_OBJLEN_L baton_lua_objlen(L
#define BATON_OBJLEN_lua_State luaV_objlen(lua_State
__attribute__((visibility("hidden"))) void baton_lua_objlen(
    struct lua_State *L, union StackValue *value, const struct TValue *object);

/*
** Lua's loop makes a table without saving where it is. Ours save that, for the line of the
** allocation in a profile. Both calls stand where `pc` is the loop's.
*/
struct Table;
struct Table *baton_lua_new_table(struct lua_State *L, const unsigned int *pc);
void baton_lua_resize_array(
    struct lua_State *L, const unsigned int *pc, struct Table *table, unsigned int size);
#define luaH_new(first) BATON_NEW_TABLE_##first)
#define BATON_NEW_TABLE_L baton_lua_new_table(L, pc
#define BATON_NEW_TABLE_lua_State luaH_new(lua_State
#define luaH_resizearray(first, table, size) BATON_RESIZE_##first, table, size)
#define BATON_RESIZE_L baton_lua_resize_array(L, pc
#define BATON_RESIZE_lua_State luaH_resizearray(lua_State
#endif

#if defined(BATON_IN_LOADLIB)
#define dlopen baton_lua_dlopen
#endif

#if defined(BATON_IN_LOSLIB)
int baton_run_command(const char *command);
#define l_system baton_run_command
/* The declarations of time.h are these functions', too. They show a simulated run its own time. */
#define time baton_lua_time
#define clock baton_lua_clock
#endif

#if defined(BATON_IN_LIOLIB)
#define l_popen(L, c, m) baton_io_popen((L), (c), (m))
#define l_pclose(L, file) baton_io_pclose((L), (file))
#if defined(__linux__)
#define BATON_FILE struct _IO_FILE
#define BATON_IS_BUFFERED(f) ((f)->_IO_read_ptr < (f)->_IO_read_end)
#else
#define BATON_FILE struct __sFILE
#define BATON_IS_BUFFERED(f) ((f)->_r > 0)
#endif
BATON_FILE;
int baton_io_refill(BATON_FILE *file);
BATON_FILE *baton_io_popen(struct lua_State *L, const char *command, const char *mode);
int baton_io_pclose(struct lua_State *L, BATON_FILE *file);
#define luaL_checkudata baton_io_checkudata
#define luaL_testudata baton_io_testudata
#define lua_touserdata baton_io_touserdata
#define lua_newuserdatauv baton_io_newuserdata
#define fclose baton_io_fclose
#define fread baton_io_fread
/* As Lua's own for POSIX, except for a file whose buffer is empty. */
#define getc baton_io_getc
#define l_getc(f) \
  (__builtin_expect(BATON_IS_BUFFERED(f), 1) ? getc_unlocked(f) : baton_io_refill(f))
#define l_lockfile(f) flockfile(f)
#define l_unlockfile(f) funlockfile(f)
#define fwrite baton_io_fwrite
#define fprintf baton_io_fprintf
#endif

#if defined(BATON_IN_LAUXLIB)
#define luaL_newstate baton_stock_newstate
#define luaL_ref baton_stock_ref
#define luaL_unref baton_stock_unref
#endif

void baton_io_print_error(const char *format, const char *argument);
#define lua_writestringerror(format, argument) baton_io_print_error((format), (argument))

/*
** The default search paths for modules: Lua's own and those of Debian's lua5.4. They are compiled
** into Lua, so they also hold for states that a module creates.
*/
#if defined(__x86_64__) && defined(__linux__)
#define BATON_TRIPLET_CPATH "/usr/lib/x86_64-linux-gnu/lua/5.4/?.so;"
#elif defined(__aarch64__) && defined(__linux__)
#define BATON_TRIPLET_CPATH "/usr/lib/aarch64-linux-gnu/lua/5.4/?.so;"
#else
#define BATON_TRIPLET_CPATH ""
#endif

#define LUA_PATH_DEFAULT                                                       \
  "/usr/local/share/lua/5.4/?.lua;/usr/local/share/lua/5.4/?/init.lua;"        \
  "/usr/local/lib/lua/5.4/?.lua;/usr/local/lib/lua/5.4/?/init.lua;"            \
  "/usr/share/lua/5.4/?.lua;/usr/share/lua/5.4/?/init.lua;./?.lua;./?/init.lua"
#define LUA_CPATH_DEFAULT                                                      \
  "/usr/local/lib/lua/5.4/?.so;" BATON_TRIPLET_CPATH "/usr/lib/lua/5.4/?.so;"  \
  "/usr/local/lib/lua/5.4/loadall.so;./?.so"

#endif
