/* Losses and choices write each number of their rows, and no other: neither padding nor what follows. Prints how many
 * shapes were tried, or ends with the first that wrote elsewhere. */
#include <stdio.h>
#include <stdlib.h>

#include "../../../functions/native/kernels.c"

#define UNTOUCHED 12345.0f

static float *guarded(int64_t count) {
    float *numbers = malloc((count + 64) * sizeof(float));
    for (int64_t place = 0; place < count + 64; place++) numbers[place] = UNTOUCHED;
    return numbers;
}

static void require(int holds, const char *what, int64_t rows, int64_t actions) {
    if (holds) return;
    printf("%s of %d rows and %d actions\n", what, (int)rows, (int)actions);
    exit(1);
}

static int is_untouched(const float *numbers, int64_t from, int64_t count) {
    for (int64_t place = from; place < from + count; place++)
        if (numbers[place] != UNTOUCHED) return 0;
    return 1;
}

/* A pass over `all` rows of a loss, and a draw of their actions. */
static void try_shape(int64_t all, int64_t actions) {
    int64_t stride = padded_width(actions), planes_size = 2 * actions * ML_LANES;
    float *logits = guarded(all * stride), *slopes = guarded(all * stride), *planes = guarded(planes_size);
    float *metrics = guarded(3 * all), *given = guarded(2 * all), *log_p = guarded(all);
    int64_t *places = malloc((all + 1) * 8), *taken = malloc(all * 8), *choices = malloc((all + 1) * 8);
    uint8_t *legal = malloc(all * actions);
    double loss = 0;
    for (int64_t row = 0; row < all; row++) {
        places[row] = row;
        taken[row] = row % actions;
        given[row] = -2, given[all + row] = 1.0f / (row + 1);
        for (int64_t action = 0; action < actions; action++) {
            logits[row * stride + action] = (float)((row * 7 + action * 5) % 11) / 11;
            legal[row * actions + action] = action == taken[row] || (row + action) % 3;
        }
    }
    choices[all] = -5;
    PolicyRows policy = {taken, given, given + all, legal, 0.2f, 0.01f};
    for (int64_t from = 0; from < all; from += ML_LANES) {
        float *parts[3] = {metrics + from, metrics + all + from, metrics + 2 * all + from};
        policy_rows(&policy, places + from, all - from < ML_LANES ? all - from : ML_LANES, actions, (float)all,
                    logits + from * stride, slopes + from * stride, stride, planes, parts, &loss);
    }
    for (int64_t row = 0; row < all; row++) {
        require(is_untouched(slopes, row * stride + actions, stride - actions), "padding of slopes", all, actions);
        for (int64_t action = 0; action < actions; action++)
            require(slopes[row * stride + action] != UNTOUCHED, "a slope", all, actions);
    }
    require(is_untouched(slopes, all * stride, 64), "what follows slopes", all, actions);
    require(is_untouched(metrics, 3 * all, 64), "what follows metrics", all, actions);
    require(is_untouched(planes, planes_size, 64), "what follows planes", all, actions);
    for (int64_t row = 0; row < all; row++) memmove(logits + row * actions, logits + row * stride, actions * 4);
    for (int64_t row = 0; row < all; row++) given[row] = 0.999f / (row + 1);
    float *wide = guarded(2 * ML_BLOCK * actions);
    choices_draw(logits, given, all, actions, wide, choices, log_p);
    for (int64_t row = 0; row < all; row++)
        require(choices[row] >= 0 && choices[row] < actions && log_p[row] <= 0, "a choice", all, actions);
    require(choices[all] == -5 && is_untouched(log_p, all, 64), "what follows choices", all, actions);
    require(is_untouched(wide, 2 * ML_BLOCK * actions, 64), "what follows the planes of choices", all, actions);
    void *memory[] = {logits, slopes, planes, metrics, given, log_p, places, taken, choices, legal, wide};
    for (int place = 0; place < 11; place++) free(memory[place]);
}

int main(void) {
    const int64_t actions[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 64, 100}, rows[] = {1, 7, 8, 9, 15, 16, 17, 33, 48};
    int shapes = 0;
    for (int width = 0; width < 14; width++)
        for (int count = 0; count < 9; count++, shapes++) try_shape(rows[count], actions[width]);
    printf("%d\n", shapes);
}
