/* The chain of next_rank through three libraries must come out in link order. */
#include <stdio.h>
int next_rank(void);
int main(void) {
  printf("%d\n", next_rank());
  return next_rank() == 321 ? 0 : 1;
}
