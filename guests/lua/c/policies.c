/*
** What the functions of C modules allow. A module that is neither built in here nor declared is exclusive: its calls keep the VM.
**
**   object       one call about an object (a userdata: the first argument, else an upvalue) at a time; calls about no object may overlap.
**                Closing is a call like others: it waits
**   concurrent   all calls may overlap
**   serial       one call into the module at a time
**   exclusive    the VM stays with the call
**
** Calls overlap only when one was retaken, or parks (parked.c). As long as such a call is about something that others might touch, or native threads are short,
** every call of a C function asks here first (`baton_calls_watched`): else nobody pays.
*/
#include "internals.h"
#include "guest.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum policy { EXCLUSIVE, OBJECT, SERIAL, CONCURRENT, UNKNOWN };

static const char *const policy_names[] = {"exclusive", "object", "serial", "concurrent", NULL};

#define LONGEST_NAME 63
#define MOST_NOTED_FUNCTIONS 32

/* What is known of a function. */
enum noted_as { NOT_NOTED, IS_SERIAL /* it is about no object and shares something all the same */, READS, WRITES };

/* The object file of loaded modules; or, as long as nothing was loaded, what was declared about a module of a name. */
struct baton_module {
  struct baton_module *next;
  const char *low, *high; /* its code; both NULL: a declaration for a module to come */
  enum policy policy;
  int parks; /* as declared */
  struct {
    lua_CFunction function;
    enum noted_as as;
  } noted[MOST_NOTED_FUNCTIONS];
  int noted_count;
  enum baton_lane others; /* how all others use an object while somebody's call about it is parked */
  char name[LONGEST_NAME + 1]; /* that it was required by first */
};

/* {======================================================
** Built in
** ======================================================= */

static const struct {
  const char *name; /* of the module, or with a dot at the end of all beneath */
  enum policy policy;
  /* Functions, by name: fields of the module, functions or tables of them; after a colon those of the metatable of that name. */
  const char *serial; /* what is serial all the same */
  const char *reads, *writes; /* what may go on beside each other on one object, as long as one of them is parked */
  enum baton_lane others; /* how all that are neither use it */
  int parks; /* its blocking system calls park (see parked.c) */
} built_in[] = {
  /* Each socket has its own buffers and timeouts. The resolver's answers lie in static memory of the C library. */
  {.name = "socket.core", .policy = OBJECT, .serial = "dns", .parks = 1, .others = BATON_BESIDE,
   .reads = "tcp{client}:receive,udp{connected}:receive,udp{connected}:receivefrom",
   .writes = "tcp{client}:send,udp{connected}:send,udp{connected}:sendto"},
  {.name = "socket.unix", .policy = OBJECT, .parks = 1, .others = BATON_BESIDE,
   .reads = "unixstream{client}:receive,unixdgram{connected}:receive,unixdgram{connected}:receivefrom",
   .writes = "unixstream{client}:send,unixdgram{connected}:send,unixdgram{connected}:sendto"},
  {.name = "socket.serial", .policy = OBJECT, .parks = 1, .others = BATON_BESIDE,
   .reads = "serial{client}:receive",
   .writes = "serial{client}:send"},
  /* OpenSSL locks what connections share, and leaves the connection itself to its user. A handshake notes its state in the context. */
  {.name = "ssl.core", .policy = OBJECT, .serial = "SSL:Connection:dohandshake", .parks = 1},
  {.name = "ssl.", .policy = OBJECT},
  /* All texts are written in one buffer of the module. */
  {.name = "_openssl", .policy = SERIAL},
  {.name = "_openssl.", .policy = SERIAL},
  /* A connection of libpq is for one thread at a time; results are copies. */
  {.name = "luasql.postgres", .policy = OBJECT},
  /* Closing an environment ends MySQL's client library for all. */
  {.name = "luasql.mysql", .policy = SERIAL},
  /* Statements and their connection free each other. */
  {.name = "luasql.sqlite3", .policy = SERIAL},
  {.name = "luasql.odbc", .policy = SERIAL},
  {.name = "lsqlite3", .policy = SERIAL},
  {.name = "lsqlite3complete", .policy = SERIAL},
  /* A stream is an upvalue of the function that feeds it. */
  {.name = "zlib", .policy = OBJECT},
  /* Directories have an object each, permissions as text one buffer for all; the rest are system calls. */
  {.name = "lfs", .policy = OBJECT, .serial = "attributes,symlinkattributes"},
};

static int find_built_in(const char *name) {
  size_t i;
  for (i = 0; i < sizeof built_in / sizeof *built_in; i++) {
    size_t length = strlen(built_in[i].name);
    if (built_in[i].name[length - 1] == '.' ? strncmp(name, built_in[i].name, length) == 0 : strcmp(name, built_in[i].name) == 0)
      return (int)i;
  }
  return -1;
}

/* }====================================================== */

/* {======================================================
** Finding
** ======================================================= */

static struct baton_module *find_by_address(struct baton_vm *vm, lua_CFunction function) {
  const char *address = (const char *)function;
  struct baton_module *module;
  for (module = vm->modules; module != NULL; module = module->next)
    if (address >= module->low && address < module->high) return module;
  return NULL;
}

static struct baton_module *find_declaration(struct baton_vm *vm, const char *name) {
  struct baton_module *module;
  for (module = vm->modules; module != NULL; module = module->next)
    if (module->low == NULL && strcmp(module->name, name) == 0) return module;
  return NULL;
}

/* Inside the VM, like every change of the list: the monitor reads it with the VM in its hands. NULL: out of memory. */
static struct baton_module *add_module(struct baton_vm *vm, const char *name) {
  struct baton_module *module = calloc(1, sizeof *module);
  if (module == NULL) return NULL;
  snprintf(module->name, sizeof module->name, "%s", name);
  module->next = vm->modules;
  vm->modules = module;
  return module;
}

struct range {
  const char *address, *low, *high;
};

/* Of libraries that modules bring, the calls of these park. */
static const char *const known_libraries[] = {"libpq.so."};

static int list_known_library(struct dl_phdr_info *info, size_t size, void *unused) {
  const char *name = strrchr(info->dlpi_name, '/');
  size_t i;
  (void)size;
  (void)unused;
  for (i = 0; name != NULL && i < sizeof known_libraries / sizeof *known_libraries; i++) {
    int header;
    if (strncmp(name + 1, known_libraries[i], strlen(known_libraries[i])) != 0) continue;
    for (header = 0; header < info->dlpi_phnum; header++) {
      const ElfW(Phdr) *segment = &info->dlpi_phdr[header];
      const char *low = (const char *)(info->dlpi_addr + segment->p_vaddr);
      if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X)) baton_lua_list_library(low, low + segment->p_memsz);
    }
  }
  return 0;
}

static int look_at_object_file(struct dl_phdr_info *info, size_t size, void *data) {
  struct range *range = data;
  int i;
  (void)size;
  for (i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    const char *low = (const char *)(info->dlpi_addr + header->p_vaddr), *high = low + header->p_memsz;
    if (header->p_type == PT_LOAD && (header->p_flags & PF_X) && range->address >= low && range->address < high) {
      range->low = low;
      range->high = high;
      return 1;
    }
  }
  return 0;
}

/* The module that the function is of; made known if it was not. NULL: the function is our own, or memory is short. Inside the VM. */
static struct baton_module *module_of(struct baton_vm *vm, lua_CFunction function, const char *name) {
  struct baton_module *module = find_by_address(vm, function);
  struct range range = {(const char *)function, NULL, NULL};
  if (module != NULL) return module;
  if (baton_lua_is_ours(function) || !dl_iterate_phdr(look_at_object_file, &range)) return NULL;
  module = add_module(vm, name);
  if (module == NULL) return NULL;
  module->low = range.low;
  module->high = range.high;
  return module;
}

/* }====================================================== */

/* {======================================================
** Calls
** ======================================================= */

int baton_calls_watched;

static enum noted_as noted_as(const struct baton_module *module, lua_CFunction function) {
  int i;
  for (i = 0; i < module->noted_count; i++)
    if (module->noted[i].function == function) return module->noted[i].as;
  return NOT_NOTED;
}

static int is_serial(const struct baton_module *module, lua_CFunction function) {
  return module->policy == SERIAL || noted_as(module, function) == IS_SERIAL;
}

static enum baton_lane lane_of_call(const struct baton_module *module, lua_CFunction function) {
  if (module->policy == SERIAL) return BATON_ALONE;
  switch (noted_as(module, function)) {
    case READS: return BATON_READS;
    case WRITES: return BATON_WRITES;
    case IS_SERIAL: return BATON_ALONE;
    default: return module->others;
  }
}

/* The userdata that a call is about: its first argument, else an upvalue of the function. */
static void *userdata_of_call(lua_State *L, CallInfo *ci) {
  const TValue *function = s2v(ci->func.p), *first = s2v(ci->func.p + 1);
  if (ci->func.p + 1 < L->top.p && ttisfulluserdata(first)) return getudatamem(uvalue(first));
  if (ttypetag(function) == LUA_VCCL) {
    const CClosure *closure = clCvalue(function);
    int i;
    for (i = 0; i < closure->nupvalues; i++)
      if (ttisfulluserdata(&closure->upvalue[i])) return getudatamem(uvalue(&closure->upvalue[i]));
  }
  return NULL;
}

/* What nobody else may touch during a call of `function`, the topmost of `L`; NULL: nothing. */
static void *object_of_call(struct baton_module *module, lua_State *L, lua_CFunction function) {
  if (is_serial(module, function)) return module;
  return module->policy == OBJECT ? userdata_of_call(L, L->ci) : NULL;
}

/* Whether a call of the function may be retaken. */
static int may_overlap(const struct baton_module *module, lua_CFunction function) {
  return module->policy != EXCLUSIVE || is_serial(module, function);
}

int baton_lua_policy_allows(struct baton_process *process, lua_State *L, lua_CFunction function, void **object) {
  struct baton_module *module = find_by_address(process->vm, function);
  if (module == NULL || !may_overlap(module, function)) return 0;
  *object = object_of_call(module, L, function);
  return 1;
}

int baton_lua_policy_lets_park(struct baton_process *process, lua_State *L, void **object, enum baton_lane *lane) {
  const CallInfo *ci = L->ci;
  const TValue *callee = s2v(ci->func.p);
  struct baton_module *module;
  lua_CFunction function;
  if (isLua(ci) || !(ttislcf(callee) || ttisCclosure(callee))) return 0;
  function = ttislcf(callee) ? fvalue(callee) : clCvalue(callee)->f;
  module = find_by_address(process->vm, function);
  if (module == NULL || !may_overlap(module, function)) return 0;
  *object = object_of_call(module, L, function);
  *lane = lane_of_call(module, function);
  return 1;
}

int baton_lua_wait_for_object(lua_State *L, struct baton_process *process, const void *object, enum baton_lane lane) {
  struct baton_wake wake;
  if (!baton_lua_is_busy(process, object, lane) || process->vm->closing) return 0;
  lua_unlock(L);
  baton_lua_check_may_wait(L, process);
  lua_lock(L);
  /* Asked again: outside, this very call may have been retaken, and the object let go meanwhile. */
  if (!baton_lua_is_busy(process, object, lane)) return 1;
  wake = baton_rs_queue_wait(process->vm->executor, process->vm->object_queue, BATON_FOREVER);
  lua_unlock(L);
  baton_lua_after_wait(L, process, wake);
  lua_lock(L);
  return 1;
}

/* A C function of `L` is about to be called, while calls are watched. Inside the VM. */
void baton_lua_before_call(lua_State *L, lua_CFunction function) {
  struct baton_process *process;
  struct baton_module *module;
  void *object;
  if (baton_lua_is_ours(function)) return; /* its files are waited for in io_objects.c */
  process = baton_lua_running(L);
  if (process == NULL || process->vm->closing || (module = find_by_address(process->vm, function)) == NULL) return;
  object = object_of_call(module, L, function);
  do {
    if (process->vm->threads_are_short && may_overlap(module, function)) {
      lua_unlock(L);
      baton_lua_before_blocking(L, process);
      lua_lock(L);
    }
  } while (object != NULL && baton_lua_wait_for_object(L, process, object, lane_of_call(module, function)));
}

/* }====================================================== */

/* {======================================================
** Loading and declaring
** ======================================================= */

/* Notes the C function on the top of the stack. */
static void note_function(lua_State *L, struct baton_module *module, enum noted_as as) {
  lua_CFunction function = lua_tocfunction(L, -1);
  if (function != NULL && module->noted_count < MOST_NOTED_FUNCTIONS) {
    baton_enter(L);
    module->noted[module->noted_count].function = function;
    module->noted[module->noted_count++].as = as;
    baton_leave(L);
  }
}

/* Notes a field of the table on the top of the stack: a function, or a table of them. */
static void note_field(lua_State *L, struct baton_module *module, const char *name, size_t length, enum noted_as as) {
  lua_pushlstring(L, name, length);
  lua_rawget(L, -2);
  if (lua_istable(L, -1)) {
    lua_pushnil(L);
    while (lua_next(L, -2)) {
      note_function(L, module, as);
      lua_pop(L, 1);
    }
  } else
    note_function(L, module, as);
  lua_pop(L, 1);
}

/* Pushes the methods of objects with the metatable of that name; the metatable itself if it has no table of methods. */
static void push_methods(lua_State *L, const char *name, size_t length) {
  lua_pushlstring(L, name, length);
  if (lua_rawget(L, LUA_REGISTRYINDEX) != LUA_TTABLE) return;
  lua_pushliteral(L, "__index");
  if (lua_rawget(L, -2) == LUA_TTABLE)
    lua_remove(L, -2);
  else
    lua_pop(L, 1);
}

/* Notes what the text of a built-in policy (NULL: nothing) names; the module's value is at `index`. */
static void note_named(lua_State *L, struct baton_module *module, int index, const char *text, enum noted_as as) {
  while (text != NULL && *text != '\0') {
    size_t length = strcspn(text, ","), at = length;
    while (at > 0 && text[at - 1] != ':') at--;
    if (at > 0)
      push_methods(L, text, at - 1);
    else
      lua_pushvalue(L, index);
    if (lua_istable(L, -1)) note_field(L, module, text + at, length - at, as);
    lua_pop(L, 1);
    text += length + (text[length] == ',');
  }
}

/* `loader` opened the compiled module `name`, whose value is at `index`. Outside the VM. */
void baton_lua_module_loaded(lua_State *L, const char *name, lua_CFunction loader, int index) {
  struct baton_process *process = baton_lua_running(L);
  struct baton_module *module, *declared;
  int known = find_built_in(name);
  if (process == NULL || loader == NULL) return;
  index = lua_absindex(L, index);
  baton_enter(L);
  module = module_of(process->vm, loader, name);
  declared = find_declaration(process->vm, name);
  if (module != NULL) {
    if (declared != NULL)
      module->policy = declared->policy;
    else if (known >= 0 && module->policy == EXCLUSIVE)
      module->policy = built_in[known].policy;
    if ((known >= 0 && built_in[known].parks) || (declared != NULL && declared->parks)) baton_lua_list_library(module->low, module->high);
    dl_iterate_phdr(list_known_library, NULL);
  }
  baton_leave(L);
  if (module != NULL && known >= 0 && declared == NULL) {
    module->others = built_in[known].others;
    note_named(L, module, index, built_in[known].serial, IS_SERIAL);
    note_named(L, module, index, built_in[known].reads, READS);
    note_named(L, module, index, built_in[known].writes, WRITES);
  }
}

static enum policy policy_named(const char *text, size_t length) {
  int i;
  for (i = 0; policy_names[i] != NULL; i++)
    if (strlen(policy_names[i]) == length && memcmp(policy_names[i], text, length) == 0) return (enum policy)i;
  return UNKNOWN;
}

/* Sets the policy for a module of this name, now or when it is loaded. Returns 0 without memory. Inside the VM. */
static int declare(struct baton_vm *vm, const char *name, enum policy policy, int parks) {
  struct baton_module *module = find_declaration(vm, name);
  if (module == NULL) module = add_module(vm, name);
  if (module == NULL) return 0;
  module->policy = policy;
  module->parks = parks;
  return 1;
}

/* The first C function in a loaded module's value at `index`: itself, or in its table. */
static lua_CFunction first_function(lua_State *L, int index) {
  lua_CFunction found = lua_tocfunction(L, index);
  if (found != NULL || !lua_istable(L, index)) return found;
  index = lua_absindex(L, index);
  lua_pushnil(L);
  while (found == NULL && lua_next(L, index)) {
    found = lua_tocfunction(L, -1);
    if (found != NULL && baton_lua_is_ours(found)) found = NULL;
    lua_pop(L, 1);
  }
  if (found != NULL) lua_pop(L, 1);
  return found;
}

/* The module's object file, if it is loaded: its value stands in package.loaded. */
static lua_CFunction loaded_function(lua_State *L, const char *name) {
  lua_CFunction function;
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushstring(L, name);
  lua_rawget(L, -2);
  function = first_function(L, -1);
  lua_pop(L, 2);
  return function;
}

/* The option `parks` of a table at `index`, or 0 without one. */
static int read_parks(lua_State *L, int index) {
  int parks;
  if (lua_isnoneornil(L, index)) return 0;
  luaL_checktype(L, index, LUA_TTABLE);
  lua_pushnil(L);
  while (lua_next(L, index)) {
    if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), "parks") != 0)
      luaL_error(L, "unknown option '%s'", luaL_tolstring(L, -2, NULL));
    lua_pop(L, 1);
  }
  lua_getfield(L, index, "parks");
  parks = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return parks;
}

/* process.concurrent(module, policy, options): for a module by its name, loaded or not yet. */
int baton_lua_concurrent(lua_State *L) {
  struct baton_process *caller = baton_lua_caller(L);
  const char *name = luaL_checkstring(L, 1);
  enum policy policy = (enum policy)luaL_checkoption(L, 2, NULL, policy_names);
  const int parks = read_parks(L, 3);
  lua_CFunction function = loaded_function(L, name);
  struct baton_module *module;
  int declared;
  luaL_argcheck(L, strlen(name) <= LONGEST_NAME, 1, "a module's name has at most 63 bytes");
  baton_enter(L);
  declared = declare(caller->vm, name, policy, parks);
  module = function != NULL ? module_of(caller->vm, function, name) : NULL;
  if (module != NULL) {
    module->policy = policy;
    module->noted_count = 0;
    module->others = BATON_ALONE;
    if (parks) baton_lua_list_library(module->low, module->high);
  }
  baton_leave(L);
  if (!declared) luaL_error(L, "not enough memory");
  return 0;
}

/* BATON_CONCURRENT: names of modules, with their policies or "concurrent", such as "lsqlite3=serial,mylib". */
void baton_lua_read_declarations(lua_State *L, const char *text) {
  struct baton_process *caller = baton_lua_caller(L);
  while (*text != '\0') {
    size_t length = strcspn(text, ",");
    const char *equals = memchr(text, '=', length);
    size_t name_length = equals != NULL ? (size_t)(equals - text) : length;
    enum policy policy = equals != NULL ? policy_named(equals + 1, length - name_length - 1) : CONCURRENT;
    if (length > 0) {
      char name[LONGEST_NAME + 1];
      if (policy == UNKNOWN || name_length == 0 || name_length > LONGEST_NAME)
        luaL_error(L, "BATON_CONCURRENT: modules expected, such as 'name=policy,name', with a policy of object, concurrent, serial or exclusive; got '%s'", text);
      memcpy(name, text, name_length);
      name[name_length] = '\0';
      baton_enter(L);
      declare(caller->vm, name, policy, 0);
      baton_leave(L);
    }
    text += length + (text[length] == ',');
  }
}

/* The name that the function's module was required by, for reports; NULL: not known. */
const char *baton_lua_module_name(struct baton_vm *vm, lua_CFunction function) {
  struct baton_module *module = find_by_address(vm, function);
  return module != NULL ? module->name : NULL;
}

/* }====================================================== */
