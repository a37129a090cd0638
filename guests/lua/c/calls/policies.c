/*
** The policies of C modules: which calls may overlap. A module that is neither built in here nor
** declared is exclusive.
**
**   object       One call at a time for each object. The object is the first argument, or else an
**                upvalue, if that is a userdata. Calls without an object may overlap. Closing an
**                object is such a call: it waits.
**   concurrent   All calls may overlap.
**   serial       One call into the module at a time.
**   exclusive    The VM stays with the call.
**   loop         The same. It is an event loop: beside a callback that waits, others may call.
**
** Modules for databases have policies of their own. One call at a time may be about a connection,
** its statements and their results (`connection`). Such calls wait for locks that other connections
** have. So a call about one connection must not keep out those about others. What opens or frees
** may be `serial`, or keep out what is `serial` besides those about its connection (`closes`).
**
** overlap.c carries the policies out.
*/
#include "seam/internals.h"
#include "calls/calls.h"
#include "calls/policies.h"
#include "state/state.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__APPLE__)
#include <mach-o/loader.h>
#else
#include <link.h>
#endif

static const char *const policy_names[] = {
    "exclusive", "object", "serial", "concurrent", "loop", NULL};

static struct baton_module *modules; /* atomic; the last one that was added */
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

/* {======================================================
** Finding
** ======================================================= */

static struct baton_module *first_module(void) {
  /* Acquire: pairs with the release in `add_module`. */
  return __atomic_load_n(&modules, __ATOMIC_ACQUIRE);
}

static struct baton_module *find_linked(lua_CFunction function) {
  struct baton_module *module;
  for (; function != NULL; function = baton_lua_pusher_of(function))
    for (module = first_module(); module != NULL; module = module->next)
      if (module->opener == function) return module;
  return NULL;
}

struct baton_module *baton_policies_find(lua_CFunction function) {
  const char *address = (const char *)function;
  struct baton_module *module;
  for (module = first_module(); module != NULL; module = module->next)
    if (address >= module->low && address < module->high) return module;
  return baton_lua_is_linked(function) ? find_linked(function) : NULL;
}

static struct baton_module *find_declaration(const char *name) {
  struct baton_module *module;
  for (module = first_module(); module != NULL; module = module->next)
    if (module->low == NULL && module->opener == NULL && strcmp(module->name, name) == 0)
      return module;
  return NULL;
}

/* Adds a module with this name, and the rest of `like`. Returns NULL without memory. The mutex is
   held. */
static struct baton_module *add_module(const char *name, const struct baton_module *like) {
  struct baton_module *module = malloc(sizeof *module);
  if (module == NULL) return NULL;
  *module = *like;
  snprintf(module->name, sizeof module->name, "%s", name);
  module->next = first_module();
  /* Release: pairs with the acquire in `first_module`. */
  __atomic_store_n(&modules, module, __ATOMIC_RELEASE);
  return module;
}

struct range {
  const char *address, *low, *high;
};

#if defined(__APPLE__)

/* The code of an object file is in its first segment, which begins with its header. */
static int find_object_file(struct range *range) {
  const struct mach_header_64 *header;
  const struct load_command *command;
  Dl_info info;
  uint32_t i;
  if (!dladdr(range->address, &info) || info.dli_fbase == NULL) return 0;
  header = info.dli_fbase;
  command = (const struct load_command *)(header + 1);
  for (i = 0; i < header->ncmds; i++) {
    const struct segment_command_64 *segment = (const void *)command;
    if (command->cmd == LC_SEGMENT_64 && strcmp(segment->segname, SEG_TEXT) == 0) {
      range->low = (const char *)header;
      range->high = range->low + segment->vmsize;
      return 1;
    }
    command = (const void *)((const char *)command + command->cmdsize);
  }
  return 0;
}

#else

static int examine_object_file(struct dl_phdr_info *info, size_t size, void *data) {
  struct range *range = data;
  int i;
  (void)size;
  for (i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    const char *low = (const char *)(info->dlpi_addr + header->p_vaddr),
               *high = low + header->p_memsz;
    if (header->p_type == PT_LOAD && (header->p_flags & PF_X) && range->address >= low &&
        range->address < high) {
      range->low = low;
      range->high = high;
      return 1;
    }
  }
  return 0;
}

/* Finds the executable part of the object file that the address is in. */
static int find_object_file(struct range *range) {
  return dl_iterate_phdr(examine_object_file, range);
}

#endif

void baton_lua_note_own_code(lua_State *L, const void *address) {
  struct range range = {address, NULL, NULL};
  if (baton_lua_is_in_own_code(address)) return;
  if (!find_object_file(&range) || !baton_lua_add_own_code(range.low, range.high))
    luaL_error(L, "not enough memory");
}

/* The opener of a linked module, found from one of its functions. */
static lua_CFunction opener_of(lua_CFunction function) {
  lua_CFunction pusher;
  while ((pusher = baton_lua_pusher_of(function)) != NULL) function = pusher;
  return function;
}

/* The module that the function belongs to. Adds it if it is new. Returns NULL if the function is
   the guest's own, or memory is short. The mutex is held. */
static struct baton_module *module_of(lua_CFunction function, const char *name) {
  struct baton_module *module = baton_policies_find(function);
  struct baton_module new = {.policy = EXCLUSIVE};
  struct range range = {(const char *)function, NULL, NULL};
  const int is_linked = baton_lua_is_linked(function);
  if (module != NULL || baton_lua_is_ours(function)) return module;
  if (!is_linked && !find_object_file(&range)) return NULL;
  if (is_linked) new.opener = opener_of(function);
  new.low = range.low;
  new.high = range.high;
  return add_module(name, &new);
}

/* The name of the object file that a function is in, without its directory. */
static const char *name_of_file(lua_CFunction function) {
  Dl_info info;
  const char *slash;
  if (!dladdr((void *)(size_t)function, &info) || info.dli_fname == NULL) return "";
  slash = strrchr(info.dli_fname, '/');
  return slash != NULL ? slash + 1 : info.dli_fname;
}

struct baton_module *baton_policies_add_opened(lua_CFunction function) {
  const char *name = name_of_file(function);
  struct baton_module *module;
  pthread_mutex_lock(&changing);
  module = module_of(function, name);
  if (module != NULL) module->is_being_loaded = 1;
  pthread_mutex_unlock(&changing);
  return module;
}

/* }====================================================== */

/* {======================================================
** The policy of a function
** ======================================================= */

static const struct baton_noted_functions *noted_of(const struct baton_module *module) {
  /* Acquire: pairs with the release in `add_noted` and `change_policy`. */
  return __atomic_load_n(&module->noted, __ATOMIC_ACQUIRE);
}

/* UNKNOWN: the function is not noted. */
static enum policy noted_policy(const struct baton_module *module, lua_CFunction function) {
  const struct baton_noted_functions *noted = noted_of(module);
  /* Acquire: pairs with the release in `add_noted`. */
  const int count = noted != NULL ? __atomic_load_n(&noted->count, __ATOMIC_ACQUIRE) : 0;
  int i;
  for (i = 0; i < count; i++)
    if (noted->functions[i].function == function) return noted->functions[i].policy;
  return UNKNOWN;
}

enum policy baton_policies_of(const struct baton_module *module, lua_CFunction function) {
  const enum policy noted = noted_policy(module, function);
  /* Relaxed: a call sees the policy before or after a change. */
  return noted != UNKNOWN ? noted : __atomic_load_n(&module->policy, __ATOMIC_RELAXED);
}

const struct baton_built_in_policy *baton_policies_known(const struct baton_module *module) {
  /* Relaxed: as above. */
  return __atomic_load_n(&module->known, __ATOMIC_RELAXED);
}

/* }====================================================== */

/* {======================================================
** Loading and declaring
** ======================================================= */

/* Makes room for one more noted function. Returns NULL without memory. The mutex is held. */
static struct baton_noted_functions *make_room(struct baton_module *module) {
  struct baton_noted_functions *noted = module->noted, *larger;
  const int count = noted != NULL ? noted->count : 0, room = count > 0 ? 2 * count : 8;
  if (noted != NULL && count < noted->room) return noted;
  larger = malloc(sizeof *larger + (size_t)room * sizeof larger->functions[0]);
  if (larger == NULL) return NULL;
  larger->room = room;
  larger->count = count;
  if (count > 0)
    memcpy(larger->functions, noted->functions, (size_t)count * sizeof noted->functions[0]);
  /* Release: pairs with the acquire in `noted_of`. */
  __atomic_store_n(&module->noted, larger, __ATOMIC_RELEASE);
  return larger;
}

/* Returns 0 without memory. The mutex is held. */
static int add_noted(
    struct baton_module *module, lua_CFunction function, enum policy policy) {
  struct baton_noted_functions *noted;
  if (noted_policy(module, function) != UNKNOWN) return 1; /* by an earlier load */
  noted = make_room(module);
  if (noted == NULL) return 0;
  noted->functions[noted->count] = (struct baton_noted_function){function, policy};
  /* Release: pairs with the acquire in `noted_policy`. */
  __atomic_store_n(&noted->count, noted->count + 1, __ATOMIC_RELEASE);
  return 1;
}

/* Notes the C function on the top of the stack. */
static void note_function(lua_State *L, struct baton_module *module, enum policy policy) {
  const lua_CFunction function = lua_tocfunction(L, -1);
  int is_noted;
  if (function == NULL) return;
  pthread_mutex_lock(&changing);
  is_noted = add_noted(module, function, policy);
  pthread_mutex_unlock(&changing);
  if (!is_noted) luaL_error(L, "not enough memory");
}

/* Sets the policy of a module, by its origin (NULL: it is declared). The mutex is held. */
static void change_policy(struct baton_module *module, enum policy policy,
    const struct baton_built_in_policy *known) {
  /* Relaxed (all): as in `baton_policies_of`. */
  __atomic_store_n(&module->known, known, __ATOMIC_RELAXED);
  __atomic_store_n(&module->is_declared, known == NULL, __ATOMIC_RELAXED);
  __atomic_store_n(&module->policy, policy, __ATOMIC_RELAXED);
}

/* Replaces the function on the top of the stack by its result. */
static void call_for_result(lua_State *L) {
  if (!lua_isfunction(L, -1)) return;
  if (lua_pcall(L, 0, 1, 0) != LUA_OK) { /* nothing to note */
    lua_pop(L, 1);
    lua_pushnil(L);
  }
}

/* Notes a field of the table on the top of the stack: a function, or a table of them. */
static void note_field(
    lua_State *L, struct baton_module *module, const char *name, size_t length,
    enum policy policy) {
  const int is_call = length > 2 && memcmp(name + length - 2, "()", 2) == 0,
            is_upvalue = length > 1 && name[length - 1] == '^';
  lua_pushlstring(L, name, length - (is_call ? 2 : is_upvalue ? 1 : 0));
  lua_rawget(L, -2);
  if (is_call) call_for_result(L);
  if (is_upvalue && lua_isfunction(L, -1) && lua_getupvalue(L, -1, 1) != NULL) lua_remove(L, -2);
  if (lua_istable(L, -1)) {
    lua_pushnil(L);
    while (lua_next(L, -2)) {
      note_function(L, module, policy);
      lua_pop(L, 1);
    }
  } else
    note_function(L, module, policy);
  lua_pop(L, 1);
}

/* Pushes the table of methods of the metatable with this name, or the metatable itself if it has
   none. */
static void push_methods(lua_State *L, const char *name, size_t length) {
  lua_pushlstring(L, name, length);
  if (lua_rawget(L, LUA_REGISTRYINDEX) != LUA_TTABLE) return;
  lua_pushliteral(L, "__index");
  if (lua_rawget(L, -2) == LUA_TTABLE)
    lua_remove(L, -2);
  else
    lua_pop(L, 1);
}

/* Notes the functions listed in the text of a built-in policy (NULL: none). The module's value is
   at `index`. */
static void note_named(
    lua_State *L, struct baton_module *module, int index, const char *text, enum policy policy) {
  while (text != NULL && *text != '\0') {
    size_t length = strcspn(text, ","), at = length;
    while (at > 0 && text[at - 1] != ':') at--;
    if (at > 0)
      push_methods(L, text, at - 1);
    else
      lua_pushvalue(L, index);
    if (lua_istable(L, -1)) note_field(L, module, text + at, length - at, policy);
    lua_pop(L, 1);
    text += length + (text[length] == ',');
  }
}

/* Called when `loader` has opened the module `name`, whose value is at `index`. Outside the VM. */
void baton_lua_module_loaded(lua_State *L, const char *name, lua_CFunction loader, int index) {
  struct baton_process *process = baton_lua_running(L);
  struct baton_module *module, *declared;
  const struct baton_built_in_policy *known = baton_lua_built_in_policy(name);
  if (process == NULL || loader == NULL) return;
  index = lua_absindex(L, index);
  baton_lua_note_opener(loader);
  pthread_mutex_lock(&changing);
  module = module_of(loader, name);
  declared = find_declaration(name);
  if (module != NULL) {
    if (module->is_being_loaded) snprintf(module->name, sizeof module->name, "%s", name);
    module->is_being_loaded = 0;
    if (declared != NULL)
      change_policy(module, declared->policy, NULL);
    else if (known != NULL && module->policy == EXCLUSIVE && !module->is_declared)
      change_policy(module, known->policy, known);
  }
  pthread_mutex_unlock(&changing);
  if (module != NULL && known != NULL && declared == NULL) {
    note_named(L, module, index, known->serial, SERIAL);
    note_named(L, module, index, known->object, OBJECT);
    note_named(L, module, index, known->concurrent, CONCURRENT);
    note_named(L, module, index, known->closes, CLOSES);
    /* Relaxed: see baton_connections_are_known. */
    if (known->policy == CONNECTION)
      __atomic_store_n(&baton_connections_are_known, 1, __ATOMIC_RELAXED);
  }
}

static enum policy policy_named(const char *text, size_t length) {
  int i;
  for (i = 0; policy_names[i] != NULL; i++)
    if (strlen(policy_names[i]) == length && memcmp(policy_names[i], text, length) == 0)
      return (enum policy)i;
  return UNKNOWN;
}

/* Sets the policy for a module of this name. Returns 0 without memory. The mutex is held. */
static int declare(const char *name, enum policy policy) {
  const struct baton_module new = {.policy = policy, .is_declared = 1};
  struct baton_module *module = find_declaration(name);
  if (module == NULL) return add_module(name, &new) != NULL;
  change_policy(module, policy, NULL);
  return 1;
}

/* The first C function in a loaded module's value at `index`: the value itself, or in its table. */
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

/* A C function of the module if package.loaded has it, or NULL. */
static lua_CFunction loaded_function(lua_State *L, const char *name) {
  lua_CFunction function;
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushstring(L, name);
  lua_rawget(L, -2);
  function = first_function(L, -1);
  lua_pop(L, 2);
  return function;
}

/* process.concurrent(module, policy). The module may be loaded or not. */
int baton_lua_concurrent(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  enum policy policy = (enum policy)luaL_checkoption(L, 2, NULL, policy_names);
  lua_CFunction function = loaded_function(L, name);
  struct baton_module *module;
  int declared;
  luaL_argcheck(
      L, strlen(name) <= BATON_LONGEST_MODULE_NAME, 1, "a module's name has at most 63 bytes");
  pthread_mutex_lock(&changing);
  declared = declare(name, policy);
  module = function != NULL ? module_of(function, name) : NULL;
  if (module != NULL) {
    change_policy(module, policy, NULL);
    /* Release: pairs with the acquire in `noted_of`. */
    __atomic_store_n(&module->noted, NULL, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&changing);
  if (!declared) luaL_error(L, "not enough memory");
  return 0;
}

/* Reads BATON_CONCURRENT: names of modules, each with an optional policy ("concurrent" without),
   such as "lsqlite3=serial,mylib". */
void baton_lua_read_declarations(lua_State *L, const char *text) {
  while (*text != '\0') {
    size_t length = strcspn(text, ",");
    const char *equals = memchr(text, '=', length);
    size_t name_length = equals != NULL ? (size_t)(equals - text) : length;
    enum policy policy =
        equals != NULL ? policy_named(equals + 1, length - name_length - 1) : CONCURRENT;
    if (length > 0) {
      char name[BATON_LONGEST_MODULE_NAME + 1];
      if (policy == UNKNOWN || name_length == 0 || name_length > BATON_LONGEST_MODULE_NAME)
        luaL_error(L,
            "BATON_CONCURRENT: modules expected, such as 'name=policy,name', with a policy of "
            "object, concurrent, serial, exclusive or loop; got '%s'",
            text);
      memcpy(name, text, name_length);
      name[name_length] = '\0';
      pthread_mutex_lock(&changing);
      declare(name, policy);
      pthread_mutex_unlock(&changing);
    }
    text += length + (text[length] == ',');
  }
}

/* Another thread may have held the mutex when the program forked. */
void baton_lua_policies_in_child(struct baton_process *survivor) {
  struct baton_module *module;
  pthread_mutex_init(&changing, NULL);
  /* Other VMs, which may have had turns, are gone. */
  for (module = first_module(); module != NULL; module = module->next)
    memset(&module->turns, 0, sizeof module->turns);
  survivor->turns_taken = NULL;
}

int baton_lua_policy_of_call(lua_CFunction function, struct baton_policy_of_call *policy) {
  const struct baton_module *module = baton_policies_find(function);
  const struct baton_built_in_policy *known;
  if (module == NULL) return 0;
  policy->module = module->name;
  known = baton_policies_known(module);
  policy->why = known != NULL ? known->why : NULL;
  policy->lets_others_run = baton_policy_lets_others_run(baton_policies_of(module, function));
  policy->is_declared = module->is_declared;
  return 1;
}

/* }====================================================== */
