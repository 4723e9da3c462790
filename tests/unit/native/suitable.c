/* Says whether this processor has the instructions that the program was compiled to. */
#include <stdio.h>

#include "../../../functions/native/processor.h"

int main(void) { return printf("%d\n", (int)is_suitable()) < 0; }
