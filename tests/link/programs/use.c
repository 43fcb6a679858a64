#include <stdio.h>

double user(void);

int main(void) {
  puts(user() == 64 ? "right" : "wrong");
  return 0;
}
