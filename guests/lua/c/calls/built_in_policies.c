/*
** The policies of well-known modules. Each allows as much as the module's source code and its
** library's own rules allow.
*/
#include "calls/calls.h"
#include "calls/policies.h"

#include <string.h>

static const struct baton_built_in_policy built_in[] = {
    /* Each socket has its own buffers and timeouts. The resolver returns static memory of the C
     library. */
    {.name = "socket.core", .keeps_no_threads = 1, .policy = OBJECT, .serial = "dns"},
    {.name = "socket.unix", .keeps_no_threads = 1, .policy = OBJECT},
    {.name = "socket.serial", .keeps_no_threads = 1, .policy = OBJECT},
    /* OpenSSL locks what connections share, but not the connection itself. A handshake changes the
       context. */
    {.name = "ssl.core", .policy = OBJECT, .serial = "SSL:Connection:dohandshake"},
    {.name = "ssl.", .policy = OBJECT},
    /* All texts are built in one buffer of the module. */
    {.name = "_openssl", .policy = SERIAL},
    {.name = "_openssl.", .policy = SERIAL},
    /* libpq, libmariadb and SQLite serve several connections at the same time, but one thread at a
     time each. A cursor uses its connection. The functions that are serial initialize or shut down
     a library for all, or count an environment's connections. */
    {.name = "luasql.postgres",
        .policy = CONNECTION,
        .object = "PostgreSQL environment:connect"},
    {.name = "luasql.mysql",
        .policy = CONNECTION,
        .serial = "MySQL environment:connect",
        .closes = "MySQL environment:close,MySQL environment:__gc,MySQL environment:__close"},
    {.name = "luasql.sqlite3", .policy = CONNECTION, .object = "SQLite3 environment:connect"},
    {.name = "luasql.odbc",
        .policy = CONNECTION,
        .serial = "ODBC environment:connect",
        .closes = "ODBC environment:close,ODBC environment:__gc,ODBC environment:__close,"
                  "ODBC connection:close,ODBC connection:__gc,ODBC connection:__close"},
    {.name = "lsqlite3", .policy = CONNECTION},
    {.name = "lsqlite3complete", .policy = CONNECTION},
    {.name = "dbd.mysql", .policy = CONNECTION},
    {.name = "dbd.postgresql", .policy = CONNECTION},
    {.name = "dbd.sqlite3", .policy = CONNECTION},
    /* Drivers of other databases. Statements use their connection, which is another object. */
    {.name = "dbd.", .policy = SERIAL},
    /* A stream is an upvalue of the function that feeds it. So is a checksum, as a number. */
    {.name = "zlib", .policy = OBJECT, .serial = "adler32(),crc32()"},
    /* Each directory has an object of its own. Permissions as text share one buffer. The rest are
     system calls. */
    {.name = "lfs",
        .keeps_no_threads = 1,
        .policy = OBJECT,
        .serial = "attributes,symlinkattributes"},
    /* Encoders of strings, with tables that are made at load time. */
    {.name = "mime.core", .keeps_no_threads = 1, .policy = CONCURRENT},
    /* Decoding reads a string, and has a buffer of its own. */
    {.name = "cjson", .keeps_no_threads = 1,
        .policy = EXCLUSIVE,
        .concurrent = "decode",
        .why = "it reads tables that others may change, by way of one buffer"},
    {.name = "cjson.safe",
        .policy = EXCLUSIVE,
        .concurrent = "decode^",
        .why = "it reads tables that others may change, by way of one buffer"},
    /* The first match compiles the pattern. It does not change afterwards, so others may use it
     during a callback. */
    {.name = "lpeg", .keeps_no_threads = 1,
        .policy = EXCLUSIVE,
        .in_callbacks = OTHERS_ENTER,
        .object = "match",
        .why = "patterns are made from others"},
    /* A regular expression has room for one result. Functions that take one as their second
       argument may call back or change it. */
    {.name = "rex_gnu",
        .policy = EXCLUSIVE,
        .in_callbacks = OTHERS_WAIT_FOR_ARGUMENTS,
        .object = "rex_gnu_regex:exec,rex_gnu_regex:find,rex_gnu_regex:match,rex_gnu_regex:tfind",
        .why = "it may call back, and share an expression's results; the methods of one that was "
               "made by 'new' let others run"},
    {.name = "rex_onig",
        .policy = EXCLUSIVE,
        .in_callbacks = OTHERS_WAIT_FOR_ARGUMENTS,
        .object =
            "rex_onig_regex:exec,rex_onig_regex:find,rex_onig_regex:match,rex_onig_regex:tfind",
        .why = "it may call back, and share an expression's results; the methods of one that was "
               "made by 'new' let others run"},
    {.name = "rex_pcre2",
        .policy = EXCLUSIVE,
        .in_callbacks = OTHERS_WAIT_FOR_ARGUMENTS,
        .object = "rex_pcre2_regex:exec,rex_pcre2_regex:find,rex_pcre2_regex:match,rex_pcre2_regex:"
                  "tfind,rex_pcre2_regex:dfa_exec",
        .why = "it may call back, and share an expression's results; the methods of one that was "
               "made by 'new' let others run"},
    {.name = "rex_posix",
        .policy = EXCLUSIVE,
        .in_callbacks = OTHERS_WAIT_FOR_ARGUMENTS,
        .object =
            "rex_posix_regex:exec,rex_posix_regex:find,rex_posix_regex:match,rex_posix_regex:tfind",
        .why = "it may call back, and share an expression's results; the methods of one that was "
               "made by 'new' let others run"},
    {.name = "rex_tre",
        .policy = EXCLUSIVE,
        .in_callbacks = OTHERS_WAIT_FOR_ARGUMENTS,
        .object = "rex_tre_regex:exec,rex_tre_regex:find,rex_tre_regex:match,rex_tre_regex:tfind",
        .why = "it may call back, and share an expression's results; the methods of one that was "
               "made by 'new' let others run"},
    /* During a call, a parser keeps the Lua state of the call. */
    {.name = "lxp", .policy = EXCLUSIVE, .object = "Expat:parse", .why = "it changes a parser"},
    /* Searches use their connection, which is another object. */
    {.name = "lualdap", .policy = SERIAL},
    /* The query and the answer belong to the call, the rest to the context. */
    {.name = "lunbound",
        .policy = EXCLUSIVE,
        .object = "ub_ctx:resolve",
        .why = "it calls back; 'resolve' lets others run"},
    {.name = "system.core",
        .policy = EXCLUSIVE,
        .concurrent = "sleep",
        .why = "its calls are short"},
    /* Events point into the text of their parser or scanner. */
    {.name = "yaml", .policy = EXCLUSIVE, .why = "each call is one event of a document"},
    {.name = "bit", .policy = EXCLUSIVE, .why = "its calls are short"},
    {.name = "term.core", .policy = EXCLUSIVE, .why = "its calls are short"},
    {.name = "geoip",
        .is_one_vms = 1,
        .policy = EXCLUSIVE,
        .why = "its databases share buffers"},
    {.name = "geoip.",
        .is_one_vms = 1,
        .policy = EXCLUSIVE,
        .why = "its databases share buffers"},
    {.name = "guestfs",
        .policy = EXCLUSIVE,
        .why = "it calls back on the state that set a callback"},
    {.name = "cyrussasl",
        .is_one_vms = 1,
        .policy = EXCLUSIVE,
        .why = "it calls back on the state that set a callback"},
    {.name = "C-readline",
        .is_one_vms = 1,
        .policy = EXCLUSIVE,
        .why = "it has one state, and calls back"},
    {.name = "luaevent.core",
        .is_one_vms = 1,
        .policy = LOOP,
        .why = "it runs a loop that calls back"},
    {.name = "luv", .policy = LOOP, .why = "it runs a loop that calls back"},
    {.name = "_cqueues", .policy = LOOP, .why = "it runs a loop that resumes coroutines"},
    {.name = "_cqueues.", .policy = LOOP, .why = "it runs a loop that resumes coroutines"},
};

const struct baton_built_in_policy *baton_lua_built_in_policy(const char *name) {
  size_t i;
  for (i = 0; i < sizeof built_in / sizeof *built_in; i++) {
    size_t length = strlen(built_in[i].name);
    if (built_in[i].name[length - 1] == '.' ? strncmp(name, built_in[i].name, length) == 0
                                            : strcmp(name, built_in[i].name) == 0)
      return &built_in[i];
  }
  return NULL;
}

/* Whether the path ends with the file of a module of this name. */
static int is_file_of(const char *name, const char *path) {
  const size_t length = strlen(name), size = strlen(path);
  const char *file;
  size_t i;
  if (size < length + 3 || strcmp(path + size - 3, ".so") != 0) return 0;
  file = path + size - 3 - length;
  if (file > path && file[-1] != '/') return 0;
  for (i = 0; i < length; i++)
    if (file[i] != (name[i] == '.' ? '/' : name[i])) return 0;
  return 1;
}

int baton_lua_keeps_no_threads(const char *path) {
  size_t i;
  for (i = 0; i < sizeof built_in / sizeof *built_in; i++)
    if (built_in[i].keeps_no_threads && is_file_of(built_in[i].name, path)) return 1;
  return 0;
}
