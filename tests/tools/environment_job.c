/* Prints LD_PRELOAD as it was started with. Built as what looks like other kinds of programs. */
#include <stdio.h>
#include <stdlib.h>

#ifdef LIKE_THREAD_SANITIZER
/* What clang links into the program itself. */
void __tsan_init(void);
void __tsan_init(void) {}
#endif

int main(void) {
  const char* value = getenv("LD_PRELOAD");
  puts(value != NULL ? value : "nothing");
  return 6;
}
