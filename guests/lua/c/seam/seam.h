/*
** The seam: force-included before every file of Lua, which stays unmodified.
**
** What it changes, file by file (build.rs defines BATON_IN_* for the files named):
**   all files    lua_lock/lua_unlock are enter/leave; luai_threadyield does nothing; modules are
**                searched where Debian's Lua does; functions are pushed as our own
**   ldebug.c     luaG_traceexec becomes stock; ours asks for a safepoint first; lua_sethook leaves
**                a simulated run its own trap
**   ldo.c        LUAI_THROW finds the handler on the current C stack; luaD_shrinkstack is wrapped;
**                lua_resume notes its coroutine; a yield at a process's base says what it says in
**                stock Lua's main chunk
**   lapi.c       lua_callk/lua_pcallk are wrapped; three functions that do not lock get locked;
**                lua_setwarnf nests; lua_gc gives memory back after a large full collection
**   lstate.c     lua_close, which never unlocks, leaves the gate as it found it; a coroutine that
**                is being closed is noted; the seed of hashes is that of a simulated run
**   lfunc.c      calls of __close methods are marked
**   lgc.c        calls of finalizers are marked; they wait where Lua's stack is all but full; the
**                collector gives up what it was about if somebody else has collected while a
**                finalizer waited; beside others, a major collection is made in steps
**   liolib.c     which file a function is about is noted; a file in use is waited for; reading
**                waits in the poller if others could run; writing passes by the host's console
**   lauxlib.c    messages to stderr pass by the host's console; luaL_traceback stops the collector
**                while it looks at another state
** print, require, os.exit and some functions of debug are replaced in their tables (program.c).
*/
#ifndef BATON_SEAM_H
#define BATON_SEAM_H

#include "record.h"

struct lua_State;
struct lua_longjmp;

void baton_lua_enter_cold(struct lua_State *L, uint32_t slow);

#define lua_lock(L)                                                            \
  do {                                                                         \
    uint32_t baton_slow_ = baton_gate_enter();                                \
    if (__builtin_expect(baton_slow_ != 0, 0)) baton_lua_enter_cold(L, baton_slow_); \
  } while (0)

#if !defined(BATON_IN_LDO)
#define lua_unlock(L) ((void)(L), baton_gate_leave())
#else
/*
** lua_resume notes which coroutine runs. A function around it would cost a mispredicted return
** after each yield (a longjmp leaves the processor's return predictor with frames that are gone),
** so the two ends are put inside: `luai_userstateresume` stands at its beginning and declares, in
** its scope only, what the `lua_unlock` at its end looks for.
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
** precallC is the function of ldo.c whose parameter `f` is the C function that it calls between
** lua_unlock and lua_lock: there a call may have to wait for a retaken one about the same thing
** (policies.c). In the others `f` is this constant, as the compiler can tell.
*/
enum { f = 0 };
extern __attribute__((visibility("hidden"))) int baton_calls_watched;
void baton_lua_before_call(struct lua_State *L, int (*function)(struct lua_State *L));

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

/* A bit of `hookmask` that no hook of Lua's uses: a safepoint is wanted. */
#define BATON_HOOK_BIT (1 << 7)

/* It stands after `updatetrap`: giving way here would leave `base` stale. */
#define luai_threadyield(L) ((void)0)

/* The handler that an error goes to: `c`, or the current process's base if `c` is on another C
   stack. */
struct lua_longjmp *baton_lua_throw_target(struct lua_State *L, struct lua_longjmp *c);

#define LUAI_THROW(L, c)                                                       \
  do {                                                                         \
    struct lua_longjmp *baton_target_ = baton_lua_throw_target(L, c);          \
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
#endif

#if defined(BATON_IN_LDO)
#define luaD_shrinkstack baton_stock_shrinkstack
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

#if defined(BATON_IN_LOADLIB)
#define dlopen baton_lua_dlopen
#endif

#if defined(BATON_IN_LOSLIB)
int baton_run_command(const char *command);
#define l_system baton_run_command
#endif

#if defined(BATON_IN_LIOLIB)
#define l_popen(L, c, m) baton_io_popen((L), (c), (m))
#define l_pclose(L, file) baton_io_pclose((L), (file))
struct _IO_FILE;
int baton_io_refill(struct _IO_FILE *file);
struct _IO_FILE *baton_io_popen(struct lua_State *L, const char *command, const char *mode);
int baton_io_pclose(struct lua_State *L, struct _IO_FILE *file);
#define luaL_checkudata baton_io_checkudata
#define lua_touserdata baton_io_touserdata
#define lua_newuserdatauv baton_io_newuserdata
#define fclose baton_io_fclose
#define fread baton_io_fread
/* As Lua's own for POSIX, but for a file without characters in its buffer. */
#define getc baton_io_getc
#define l_getc(f)                                                                \
  (__builtin_expect((f)->_IO_read_ptr < (f)->_IO_read_end, 1) ? getc_unlocked(f) \
                                                              : baton_io_refill(f))
#define l_lockfile(f) flockfile(f)
#define l_unlockfile(f) funlockfile(f)
#define fwrite baton_io_fwrite
#define fprintf baton_io_fprintf
#endif

void baton_io_print_error(const char *format, const char *argument);
#define lua_writestringerror(format, argument) baton_io_print_error((format), (argument))

/*
** Where modules are searched when nothing is said: where Debian's lua5.4 looks, which is Lua's own
** defaults and Debian's directories. Compiled into Lua, so that it also holds for states that a
** module makes for itself.
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
