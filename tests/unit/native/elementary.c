/* The elementary functions of numbers that stand in a file, one after another as they are in memory. */
#include <stdio.h>

#include "../../../functions/nn/native/elementary.h"

int main(int count, char **arguments) {
    float numbers[LANES];
    while (count > 1 && fread(numbers, sizeof numbers, 1, stdin)) {
        vf x = load(numbers);
        switch (arguments[1][0]) {
        case 'e': store(numbers, exponential(x)); break;
        case 'l': store(numbers, logarithm(x)); break;
        case 't': store(numbers, hyperbolic_tangent(x)); break;
        }
        fwrite(numbers, sizeof numbers, 1, stdout);
    }
}
