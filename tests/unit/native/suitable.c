/* Says whether this processor has the instructions that a library was compiled to. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int main(int count, char **arguments) {
    void *library = count > 1 ? dlopen(arguments[1], RTLD_NOW) : 0;
    int64_t (*runs_here)(void) = library ? (int64_t (*)(void))dlsym(library, "runs_here") : 0;
    printf("%d\n", runs_here ? (int)runs_here() : -1);
    return !runs_here;
}
