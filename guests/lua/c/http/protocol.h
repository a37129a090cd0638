/*
** The functions of the crate baton-http, which has the protocol. They neither wait, call Lua, nor
** raise errors. guests/http/src says what they do, in c.rs, and in the files that c.rs names.
*/
#ifndef BATON_HTTP_PROTOCOL_H
#define BATON_HTTP_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* head.rs */
#define BATON_HTTP_MOST_FIELDS 100
struct baton_http_span {
  uint32_t start, size;
};
struct baton_http_field {
  struct baton_http_span name, value;
};
/* framing.rs */
struct baton_http_framing {
  uint64_t length;
  bool is_chunked, expects, keeps_alive, is_1_1;
};
struct baton_http_head {
  uint32_t size, count;
  struct baton_http_span method, target, path, query, host;
  struct baton_http_framing framing;
  struct baton_http_field fields[BATON_HTTP_MOST_FIELDS];
};
enum { BATON_HTTP_PARSED, BATON_HTTP_PARTIAL }; /* or a status */
uint32_t baton_http_parse(const char *data, size_t size, size_t *seen, size_t limit,
    struct baton_http_head *head);

/* answer.rs */
struct baton_http_answer {
  uint32_t size, count, status;
  uint64_t length;
  bool is_chunked, is_until_end, keeps_alive, is_1_1;
  struct baton_http_field fields[BATON_HTTP_MOST_FIELDS];
};
/* The caller sets it to zeros first. */
uint32_t baton_http_parse_answer(const char *data, size_t size, size_t *seen, size_t limit,
    bool is_to_head, struct baton_http_answer *answer);

/* chunked.rs: all zero at first */
struct baton_http_decoder {
  uint64_t left;
  uint32_t extra, phase;
};
enum { BATON_HTTP_MORE, BATON_HTTP_END, BATON_HTTP_BAD };
struct baton_http_piece {
  size_t skip, size;
  uint32_t what;
};
struct baton_http_piece baton_http_next_piece(
    struct baton_http_decoder *decoder, const char *data, size_t size);

/* encoding.rs */
struct baton_http_packer;
bool baton_http_takes_gzip(const char *accepted, size_t size);
bool baton_http_is_text(const char *kind, size_t size);
struct baton_http_packer *baton_http_new_packer(void);
void baton_http_free_packer(struct baton_http_packer *packer);
const char *baton_http_pack(struct baton_http_packer *packer, const char *data, size_t size,
    uint32_t step, size_t *packed_size);

/* files: paths.rs, kinds.rs, conditions.rs */
#define BATON_HTTP_MOST_PATH 4096
struct baton_http_named {
  size_t size;
  bool is_directory;
};
bool baton_http_path_below(const char *path, size_t size, bool is_encoded, bool has_hidden,
    char *out, struct baton_http_named *named);
const char *baton_http_kind_of(const char *path, size_t size, size_t *length);
struct baton_http_bytes {
  const char *data;
  size_t size;
};
struct baton_http_chosen {
  uint32_t status;
  uint64_t start, size;
};
struct baton_http_chosen baton_http_choose(const struct baton_http_bytes asked[4],
    const struct baton_http_bytes *etag, uint64_t modified, uint64_t size);

/* reply.rs */
#define BATON_HTTP_DATE 29
void baton_http_write_date(uint64_t seconds, char out[BATON_HTTP_DATE]);
#define BATON_HTTP_MOST_BEGIN 128
size_t baton_http_begin_reply(char *out, uint32_t status, uint64_t seconds);
const char *baton_http_reason(uint32_t status, size_t *size);

/* routes.rs */
#define BATON_HTTP_MOST_PARAMETERS 16
struct baton_http_routes;
struct baton_http_found {
  uint32_t number, count;
  struct baton_http_span parameters[BATON_HTTP_MOST_PARAMETERS];
};
struct baton_http_routes *baton_http_new_routes(void);
void baton_http_free_routes(struct baton_http_routes *routes);
size_t baton_http_add_route(struct baton_http_routes *routes, const char *pattern, size_t size,
    uint32_t number, char *fault, size_t room);
bool baton_http_find_route(const struct baton_http_routes *routes, const char *path, size_t size,
    struct baton_http_found *found);

/* text.rs */
bool baton_http_is_token(const char *name, size_t size);
bool baton_http_is_value(const char *value, size_t size);
size_t baton_http_decode(const char *data, size_t size, bool is_form, char *out);

#endif
