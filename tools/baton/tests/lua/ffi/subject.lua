-- The tests' own C library (tests/modules/ffi_subject.c), declared.
local ffi = require "baton.ffi"

ffi.cdef [[
extern int subject_counter;
extern const char *const subject_name;
extern int subject_grid[2][3];

struct point { int x, y; };
struct mixed { double weight; char tag; struct point at; };
union word { uint32_t whole; uint8_t bytes[4]; };
struct flags { unsigned low : 3; int middle : 5; unsigned long high : 40; };
enum colour { RED, GREEN = 5, BLUE };

int subject_add(int a, int b);
int8_t subject_negate_8(int8_t a);
uint16_t subject_next_16(uint16_t a);
uint64_t subject_largest(void);
int64_t subject_smallest(void);
bool subject_not(bool a);
float subject_half(float a);
double subject_weigh(int a, double b, float c, int64_t d);
long double subject_longer(long double a);
enum colour subject_next_colour(enum colour colour);
int subject_is_null(const void *p);
struct point subject_mirror(struct point p);
struct mixed subject_scale(struct mixed m, double by);
uint32_t subject_whole(union word word);
long subject_flags(struct flags flags);
int subject_sum(int count, ...);
int subject_eight(int a, int b, int c, int d, int e, int f, int g, int h);
int subject_fail(int with);
int subject_sleep_ms(int ms);
int subject_await(const volatile char *flag);
int subject_awaiting(void);
void subject_fill_later(int ms, char *to, int byte, size_t size);
uintptr_t subject_thread(void);

typedef int (*unary)(int);
int subject_call(unary f, int a);
int subject_await_and_call(const volatile char *flag, unary f, int a);
int subject_call_and_compare(unary f, int a);
int subject_call_often(unary f, int count);
double subject_call_mixed(double (*f)(int, double, float, struct point, const char *), int a);
struct point subject_call_for_point(struct point (*f)(struct point), int x, int y);
int8_t subject_call_small(int8_t (*f)(uint8_t, int16_t));
void subject_keep(unary f);
int subject_call_kept(int a);
int subject_call_from_threads(int (*f)(int, int), int threads, int count);
int subject_haunt(void);
int subject_call_kept_later(int ms);
int subject_call_kept_at_exit(void);
]]

return ffi.load(assert(package.searchpath("ffi_subject", package.cpath)))
