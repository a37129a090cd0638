/*
** Frozen values in a VM: the userdata by which a program reads an image; the module's functions.
**
** Each table of an image that a program has got is a view. A view has one user value, the holder,
** which has the VM's reference to the image. A weak table finds views and holders by the addresses
** of what they stand for. So there is one view of a table at a time, and `==` compares.
**
** Where no object has to be made, Lua does not call the functions here (reading.c).
*/
#include "copying/frozen.h"
#include "state/checks.h"

#define NAME "baton.frozen*"

/* Keys of the private table. */
static const char heap_key, objects_key, holder_key, guard_key;

/* The VM's holders. Made before code of the program runs, so its finalizer is called last at the
   end of the VM. */
struct baton_guard {
  struct baton_holder *dead, *others;
};

/* {======================================================
** Making views. All outside the VM.
** ======================================================= */

static void unlink_holder(struct baton_holder *holder) {
  *holder->link = holder->next;
  if (holder->next != NULL) holder->next->link = holder->link;
}

static void link_holder(struct baton_holder **list, struct baton_holder *holder) {
  holder->next = *list;
  holder->link = list;
  if (holder->next != NULL) holder->next->link = &holder->next;
  *list = holder;
}

static void give_back(struct baton_holder *holder) {
  unlink_holder(holder);
  holder->state = BATON_HOLDS_NOTHING;
  baton_image_release(holder->image);
}

/* No finalizer is left to be called. */
static void give_back_dead(void *guard) {
  struct baton_holder **dead = &((struct baton_guard *)guard)->dead;
  while (*dead != NULL) give_back(*dead);
}

static struct baton_guard *guard_of(lua_State *L) {
  struct baton_guard *guard;
  baton_lua_push_private(L, &guard_key);
  guard = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return guard;
}

/* __gc of a holder */
static int collect_holder(lua_State *L) {
  struct baton_holder *holder = lua_touserdata(L, 1);
  if (G(L)->gcstp & GCSTPCLS) return 0; /* the guard's finalizer follows */
  if (holder->state == BATON_HOLDS_NOTHING) return 0;
  if (holder->state != BATON_HOLDS) {
    give_back(holder);
    return 0;
  }
  holder->state = BATON_HOLDS_DEAD;
  unlink_holder(holder);
  link_holder(&guard_of(L)->dead, holder);
  baton_lua_push_private(L, &holder_key);
  lua_setmetatable(L, 1); /* it is finalized again, and so not freed while it is in a list */
  return 0;
}

/* __gc of the guard, at the end of the VM */
static int collect_guard(lua_State *L) {
  struct baton_guard *guard = lua_touserdata(L, 1);
  const struct baton_process *process = baton_lua_here(L);
  if (process != NULL) process->vm->frozen_guard = NULL;
  give_back_dead(guard);
  while (guard->others != NULL) give_back(guard->others);
  return 0;
}

void baton_copying_open(lua_State *L) {
  struct baton_guard *guard;
  baton_copy_note_known(L);
  guard = lua_newuserdatauv(L, sizeof *guard, 0);
  guard->dead = guard->others = NULL;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, collect_guard);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  baton_lua_keep_private(L, &guard_key);
}

static int index_frozen(lua_State *L);
static int refuse_change(lua_State *L);
static int length_frozen(lua_State *L);
static int pairs_of_frozen(lua_State *L);

static struct baton_frozen_heap *open_heap(lua_State *L) {
  static const luaL_Reg methods[] = {{"__index", index_frozen}, {"__newindex", refuse_change},
      {"__len", length_frozen}, {"__pairs", pairs_of_frozen}, {NULL, NULL}};
  const struct baton_process *process = baton_lua_here(L);
  struct baton_frozen_heap *heap = lua_newuserdatauv(L, sizeof *heap, 0);
  memset(heap, 0, sizeof *heap);
  heap->collections = process != NULL ? &process->vm->collections : NULL;
  heap->guard = guard_of(L);
  if (process != NULL) process->vm->frozen_guard = heap->guard;
  baton_lua_new_sealed_metatable(L, BATON_SEALED_FROZEN, NAME);
  luaL_setfuncs(L, methods, 0);
  heap->metatable = hvalue(s2v(L->top.p - 1));
  lua_pop(L, 1);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, collect_holder);
  lua_setfield(L, -2, "__gc");
  baton_lua_keep_private(L, &holder_key);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  baton_lua_keep_private(L, &objects_key);
  lua_pushvalue(L, -1);
  baton_lua_keep_private(L, &heap_key);
  return heap;
}

static struct baton_frozen_heap *heap_of(lua_State *L) {
  struct baton_frozen_heap *heap;
  baton_lua_push_private(L, &heap_key);
  heap = lua_touserdata(L, -1);
  lua_pop(L, 1);
  if (heap != NULL) return heap;
  heap = open_heap(L);
  lua_pop(L, 1);
  return heap;
}

/*
** The collector does not see the memory of an image. Its size counts as if it was allocated here,
** so that the holders of images that are not used any more are found. Of a large image at most an
** eighth of the heap counts, as it may be shared with others.
*/
static void press_collector(lua_State *L, const struct baton_image *image) {
  global_State *g = G(L);
  l_mem size = (l_mem)image->size;
  baton_lua_enter(L);
  if (size > (l_mem)(gettotalbytes(g) / 8)) size = (l_mem)(gettotalbytes(g) / 8);
  luaE_setdebt(g, g->GCdebt + size);
  luaC_checkGC(L);
  baton_lua_leave(L);
}

/* A reference to an image, and the table in it that is to be pushed. */
struct owned {
  const struct baton_frozen_table *table;
  int is_taken; /* a holder has the reference */
};

/* Pushes the holder of the image. The table of objects is at index 2. */
static struct baton_holder *push_holder(
    lua_State *L, struct owned *owned, struct baton_guard *guard) {
  const struct baton_image *image = baton_image_of(owned->table);
  struct baton_holder *holder;
  if (lua_rawgetp(L, 2, image) != LUA_TNIL) return lua_touserdata(L, -1);
  lua_pop(L, 1);
  holder = lua_newuserdatauv(L, sizeof *holder, 0);
  holder->state = BATON_HOLDS_NOTHING; /* until it has the reference */
  baton_lua_push_private(L, &holder_key);
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, 2, image);
  holder->image = image;
  holder->state = BATON_HOLDS;
  link_holder(&guard->others, holder);
  owned->is_taken = 1;
  press_collector(L, image);
  return holder;
}

/* The argument is a `struct owned`. Returns the view. */
static int push_view(lua_State *L) {
  struct owned *owned = lua_touserdata(L, 1);
  struct baton_frozen_heap *heap = heap_of(L);
  struct baton_holder *holder;
  struct baton_view *view;
  lua_settop(L, 1);
  baton_lua_push_private(L, &objects_key);
  if (lua_rawgetp(L, 2, owned->table) != LUA_TNIL) {
    baton_frozen_note(L, heap, owned->table);
    return 1;
  }
  lua_pop(L, 1);
  holder = push_holder(L, owned, heap->guard);
  view = lua_newuserdatauv(L, sizeof *view, 1);
  memset(view, 0, sizeof *view);
  view->table = owned->table;
  view->image = baton_image_of(owned->table);
  view->holder = holder;
  view->heap = heap;
  view->seal = baton_lua_seal(BATON_SEALED_FROZEN);
  baton_lua_set_sealed_metatable(L, BATON_SEALED_FROZEN);
  lua_pushvalue(L, 3);
  lua_setiuservalue(L, -2, 1);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, 2, owned->table);
  baton_frozen_note(L, heap, owned->table);
  return 1;
}

/* Pushes the view of a table and takes over a reference to its image. */
static void push_owned(lua_State *L, const struct baton_frozen_table *table) {
  struct owned owned = {table, 0};
  int status;
  lua_pushcfunction(L, push_view);
  lua_pushlightuserdata(L, &owned);
  status = lua_pcall(L, 1, 1, 0);
  if (!owned.is_taken) baton_image_release(baton_image_of(table));
  if (status != LUA_OK) lua_error(L);
}

static void push_table(lua_State *L, const struct baton_frozen_table *table) {
  luaL_checkstack(L, 4, NULL);
  baton_image_hold(baton_image_of(table));
  push_owned(L, table);
}

/* Pushes the value of a cell. */
static void push_cell(lua_State *L, const struct baton_view *view, const struct baton_cell *cell) {
  const struct baton_frozen_string *string;
  int is_given;
  baton_lua_enter(L);
  is_given = baton_frozen_give(G(L), view, cell, s2v(L->top.p));
  if (is_given) L->top.p++;
  baton_lua_leave(L);
  if (is_given) return;
  switch (cell->tag) {
    case LUA_VTABLE: push_table(L, baton_table_at(view->image, cell->as.offset)); break;
    case LUA_VUSERDATA: push_table(L, cell->as.table); break;
    default:
      string = baton_string_at(view->image, cell->as.offset);
      lua_pushlstring(L, string->bytes, string->length);
      if (cell->tag == LUA_VLNGSTR) baton_frozen_note(L, view->heap, string);
      break;
  }
}

/* }====================================================== */

/* {======================================================
** Metamethods
** ======================================================= */

static const struct baton_view *check_view(lua_State *L) {
  const struct baton_view *view =
      baton_lua_check_sealed(L, 1, BATON_SEALED_FROZEN, "frozen value");
  if (view->holder->state == BATON_HOLDS_NOTHING)
    luaL_error(L, "the frozen value has been collected");
  return view;
}

/* Pushes what the class of the table has under the key at index 2. */
static int index_class(lua_State *L, const struct baton_view *view) {
  const struct baton_frozen_string *name =
      baton_string_at(view->image, view->table->class_name);
  baton_copy_push_class(L, name->bytes, name->length);
  if (lua_isnil(L, -1))
    return luaL_error(L, "no class '%s' is registered by vm.class here", name->bytes);
  lua_pushliteral(L, "__index");
  switch (lua_rawget(L, -2)) {
    case LUA_TNIL: break;
    case LUA_TFUNCTION:
      lua_pushvalue(L, 1);
      lua_pushvalue(L, 2);
      lua_call(L, 2, 1);
      break;
    default:
      lua_pushvalue(L, 2);
      lua_gettable(L, -2);
      break;
  }
  return 1;
}

/* __index(frozen, key) */
static int index_frozen(lua_State *L) {
  const struct baton_view *view = check_view(L);
  const struct baton_cell *cell;
  lua_settop(L, 2);
  baton_lua_enter(L);
  cell = baton_frozen_find(L, view, s2v(L->top.p - 1));
  baton_lua_leave(L);
  if (cell != NULL)
    push_cell(L, view, cell);
  else if (view->table->class_name != 0)
    return index_class(L, view);
  else
    lua_pushnil(L);
  return 1;
}

/* __newindex(frozen, key, value) */
static int refuse_change(lua_State *L) {
  check_view(L);
  if (lua_type(L, 2) == LUA_TSTRING)
    return luaL_error(L, "attempt to change a frozen value (field '%s')", lua_tostring(L, 2));
  return luaL_error(L, "attempt to change a frozen value (field [%s])",
      lua_type(L, 2) == LUA_TNUMBER ? lua_tostring(L, 2) : luaL_typename(L, 2));
}

static int length_frozen(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)check_view(L)->table->length);
  return 1;
}

/* The place behind that of a key: in the array part, then in the hash part. Inside the VM. */
static uint32_t place_behind(lua_State *L, const struct baton_view *view, const TValue *key) {
  const struct baton_frozen_table *table = view->table;
  const struct baton_cell *value;
  if (ttisnil(key)) return 0;
  value = baton_frozen_find(L, view, key);
  if (value == NULL) return UINT32_MAX;
  if (value < (const struct baton_cell *)baton_pairs_of(table))
    return (uint32_t)(value - table->array) + 1;
  return table->slots +
      (uint32_t)((value - (const struct baton_cell *)baton_pairs_of(table)) / 2) + 1;
}

/* Finds the next value from a place on. Returns NULL at the end. `key` becomes its key. */
static const struct baton_cell *value_from(
    const struct baton_frozen_table *table, uint32_t place, struct baton_cell *key) {
  const struct baton_frozen_pair *pairs = baton_pairs_of(table);
  for (; place < table->slots; place++) {
    if (table->array[place].tag == LUA_VNIL) continue;
    key->tag = LUA_VNUMINT;
    key->as.integer = (lua_Integer)place + 1;
    return &table->array[place];
  }
  for (place -= table->slots; place < table->pairs; place++) {
    if (pairs[place].key.tag == LUA_VNIL || pairs[place].value.tag == LUA_VNIL) continue;
    *key = pairs[place].key;
    return &pairs[place].value;
  }
  return NULL;
}

/* next(frozen, key) -> key, value */
static int next_of_frozen(lua_State *L) {
  const struct baton_view *view = check_view(L);
  const struct baton_cell *value = NULL;
  struct baton_cell key;
  uint32_t place;
  int is_given = 0;
  lua_settop(L, 2);
  baton_lua_enter(L);
  place = place_behind(L, view, s2v(L->top.p - 1));
  if (place != UINT32_MAX) value = value_from(view->table, place, &key);
  if (value != NULL) {
    is_given = baton_frozen_give(G(L), view, &key, s2v(L->top.p)) &&
        baton_frozen_give(G(L), view, value, s2v(L->top.p + 1));
    if (is_given) L->top.p += 2;
  }
  baton_lua_leave(L);
  if (is_given) return 2;
  if (place == UINT32_MAX) return luaL_error(L, "invalid key to 'next'");
  if (value == NULL) {
    lua_pushnil(L);
    return 1;
  }
  push_cell(L, view, &key);
  push_cell(L, view, value);
  return 2;
}

/* __pairs(frozen) -> next, frozen, nil */
static int pairs_of_frozen(lua_State *L) {
  check_view(L);
  lua_pushcfunction(L, next_of_frozen);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

/* }====================================================== */

/* {======================================================
** The kind, and the module
** ======================================================= */

static int is_frozen(lua_State *L, int index) {
  return baton_lua_test_sealed(L, index, BATON_SEALED_FROZEN) != NULL;
}

static void *hold_frozen(lua_State *L, int index, const char **why) {
  const struct baton_view *view = lua_touserdata(L, index);
  *why = "it has been collected";
  if (view->holder->state == BATON_HOLDS_NOTHING) return NULL;
  baton_image_hold(view->image);
  return (void *)(uintptr_t)view->table;
}

static void push_frozen(lua_State *L, void *object) { push_owned(L, object); }

static void release_frozen(void *object) {
  baton_image_release(baton_image_of((const struct baton_frozen_table *)object));
}

static void *hold_frozen_again(void *object) {
  baton_image_hold(baton_image_of((const struct baton_frozen_table *)object));
  return object;
}

const struct baton_sendable baton_frozen_kind = {
    is_frozen, hold_frozen, push_frozen, release_frozen, hold_frozen_again, NULL};

/* Whether the argument is returned as it is. */
static int is_plain(lua_State *L) {
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  switch (lua_type(L, 1)) {
    case LUA_TNIL: case LUA_TBOOLEAN: case LUA_TNUMBER: case LUA_TSTRING: return 1;
    default: return 0;
  }
}

/* A block of the value at index 1. Raises an error if it cannot be frozen. */
static struct baton_block *check_freezable(lua_State *L) {
  struct baton_block *block = baton_copy_to_freeze(L, 1);
  if (block == NULL) luaL_error(L, "%s", lua_tostring(L, -1));
  return block;
}

/* Makes an image of the table at index 1. NULL: no memory. */
static struct baton_image *make_image(lua_State *L) {
  struct baton_block *block = check_freezable(L);
  struct baton_image *image = baton_image_make(block, G(L)->seed);
  baton_block_free(block);
  return image;
}

/* vm.freeze(value) -> frozen value */
static int freeze(lua_State *L) {
  struct baton_image *image;
  if (is_plain(L) || is_frozen(L, 1)) return 1;
  if (!lua_istable(L, 1)) { /* only functions of Lua's libraries are not refused */
    baton_block_free(check_freezable(L));
    return 1;
  }
  image = make_image(L);
  if (image == NULL) {
    lua_gc(L, LUA_GCCOLLECT);
    image = make_image(L);
  }
  if (image == NULL) baton_copy_raise_memory_error(L);
  push_owned(L, baton_table_at(image, image->root));
  return 1;
}

/* vm.thaw(frozen) -> table */
static int thaw(lua_State *L) {
  if (is_plain(L)) return 1;
  baton_image_thaw(L, check_view(L)->table);
  return 1;
}

void baton_copying_functions(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"class", baton_copy_class}, {"freeze", freeze}, {"thaw", thaw}, {NULL, NULL}};
  if (baton_lua_index_sealed.seal == NULL) { /* there is only one VM yet */
    baton_lua_note_quick_finalizer(collect_holder);
    baton_lua_note_giving_finalizer(collect_holder);
    baton_lua_note_giving_finalizer(collect_guard);
    baton_lua_index_sealed.seal = baton_lua_seal(BATON_SEALED_FROZEN);
    baton_lua_index_sealed.get = baton_frozen_get;
    baton_lua_index_sealed.length = baton_frozen_length;
    baton_lua_finalizers_have_run = give_back_dead;
  }
  luaL_setfuncs(L, functions, 0);
}

/* }====================================================== */
