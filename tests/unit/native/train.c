/* Trains networks on made-up rows and lets some act in a made-up world, and prints hashes of what comes of it, to
 * compare compilers and processors. */
#include <stdio.h>
#include <stdlib.h>

#include "../../../functions/native/kernels.c"

enum { ROWS = 37, STEPS = 20, MOST_NUMBERS = 1 << 20 };
enum { AGENTS = 3, BODIES = 5, ENVS = 21, SEEN = 2 * BODIES, ACTIONS = 5 };

static uint64_t drawn = 1;

/* From -1 to 1, by a linear congruential generator (Knuth's MMIX). */
static float draw(void) {
    drawn = drawn * 6364136223846793005u + 1442695040888963407u;
    return (float)((int64_t)(drawn >> 40) - (1 << 23)) / (1 << 23);
}

static void fill(float *numbers, int64_t count) {
    while (count--) *numbers++ = draw();
}

static uint64_t hashed(uint64_t hash, const float *numbers, int64_t count) { /* FNV-1a */
    const unsigned char *bytes = (const unsigned char *)numbers;
    for (int64_t place = 0; place < count * 4; place++) hash = (hash ^ bytes[place]) * 1099511628211u;
    return hash;
}

static uint64_t trained(int64_t layers, const int64_t *widths, int64_t activation, int64_t has_norms,
                        const Entities *entities) {
    static float memory[MOST_NUMBERS], vectors[4][20000], inputs[ROWS * 60], rows[3][ROWS], metrics[3 * ROWS];
    int64_t size = 0, order[ROWS], actions[ROWS], bounds[3] = {0, 20, ROWS}, out = widths[layers];
    uint8_t legal[ROWS * 8];
    double losses[2], norms[2];
    Network net;
    for (int64_t layer = entities != 0; layer < layers; layer++)
        size += (widths[layer] + 1 + 2 * (has_norms && layer + 1 < layers)) * widths[layer + 1];
    if (entities) size += attention_parameters(entities, 0, 0);
    if (network_numbers(&net, layers, widths, activation, has_norms, entities, ROWS, 1) > MOST_NUMBERS) exit(2);
    memset(memory, 0, sizeof memory);
    memset(vectors, 0, sizeof vectors);
    network_place(&net, memory);
    fill(vectors[0], size);
    fill(inputs, ROWS * widths[0]);
    for (int64_t place = 0; entities && place < ROWS * widths[0]; place++)
        if (place / 4 % 3 == 0) inputs[place] = *entities->absent;
    for (int part = 0; part < 3; part++) fill(rows[part], ROWS);
    for (int64_t row = 0; row < ROWS; row++) {
        order[row] = (row * 11) % ROWS;
        actions[row] = row % out;
        for (int64_t action = 0; action < out; action++) legal[row * out + action] = action == actions[row] || draw() > -0.5f;
    }
    PolicyRows policy = {actions, rows[0], rows[1], legal, 0.2f, 0.01f};
    ValueRows critic = {rows[0], rows[1], 0.2f, 10.0f};
    Adam adam = {vectors[0], vectors[1], vectors[2], vectors[3], size, 0, 1e-2, 1e-5, 0.5};
    Passes passes = {inputs, order, bounds, 2, metrics, losses, norms};
    for (int step = 0; step < STEPS; step++) network_train(&net, &adam, &passes, out > 1 ? &policy : 0, &critic);
    uint64_t hash = 14695981039346656037u;
    for (int part = 0; part < 3; part++) hash = hashed(hash, vectors[part], size);
    if (out > 1) hash = hashed(hash, metrics, 3 * ROWS);
    hash = hashed(hash, (float *)losses, 4);
    return hash;
}

/* Of a network with attention over the agent and eleven entities, the last seven of which can be absent. */
static uint64_t attended(int64_t width, int64_t activation, int64_t has_norms) {
    const int64_t widths[] = {34, 2 * width, 20, activation ? 5 : 1};
    const float absent[] = {0.5f, 0.5f};
    int64_t columns[34];
    Token tokens[12] = {{0, 8, 0, 8, -1}};
    for (int64_t place = 0; place < 34; place++) columns[place] = place ^ 1;
    for (int64_t place = 1; place < 5; place++) tokens[place] = (Token){5 + 3 * place, 3, 9, 14, -1};
    for (int64_t place = 5; place < 12; place++) tokens[place] = (Token){10 + 2 * place, 2, 12, 15, 0};
    Entities entities = {34, 12, width, ML_HEADS, 16, 0, 0, tokens, columns, absent};
    return trained(3, widths, activation, has_norms, &entities);
}

/* Agents that collide see where bodies are, and push left, right, down, up or not at all; the last two are slow. */
static uint64_t acted(int64_t activation, int64_t has_norms) {
    static float memory[AGENTS][MOST_NUMBERS], flat[2000];
    static double position[BODIES][2][ENVS], velocity[AGENTS][2][ENVS], force[AGENTS][2][ENVS], strength[ENVS];
    static double relative[AGENTS][BODIES][2][ENVS], squares[AGENTS][BODIES][2][ENVS], distance[AGENTS][BODIES][ENVS];
    const int64_t widths[] = {SEEN, 20, 17, ACTIONS}, first[] = {0, 0, 1, 2}, second[] = {1, 2, 2, 4};
    const double most_speed[] = {__builtin_inf(), 1.0, 1.3}, reach[] = {0.3, 0.3, 0.15, 0.25};
    float inputs[AGENTS][ENVS][SEEN], outputs[AGENTS * ENVS * ACTIONS], uniforms[AGENTS * ENVS], log_p[AGENTS * ENVS];
    float planes[2 * ML_BLOCK * ACTIONS];
    int64_t choices[AGENTS * ENVS];
    Network nets[AGENTS];
    World world = {AGENTS, BODIES, ENVS, 0, AGENTS, 4, position[0][0], velocity[0][0], force[0][0], relative[0][0][0],
                   squares[0][0][0], distance[0][0], most_speed, reach, first, second, strength};
    memset(memory, 0, sizeof memory);
    memset(velocity, 0, sizeof velocity);
    for (int64_t agent = 0; agent < AGENTS; agent++) {
        if (network_numbers(nets + agent, 3, widths, activation, has_norms, 0, 8, 0) > MOST_NUMBERS) exit(2);
        network_place(nets + agent, memory[agent]);
        fill(flat, 2000);
        network_pack(nets + agent, flat);
    }
    for (double *place = (double *)position; place < (double *)(position + BODIES); place++) *place = 0.3 * draw();
    update_distances(&world);
    uint64_t hash = 14695981039346656037u;
    for (int step = 0; step < STEPS; step++) {
        for (int64_t row = 0; row < AGENTS * ENVS; row++)
            for (int64_t seen = 0; seen < SEEN; seen++)
                inputs[row / ENVS][row % ENVS][seen] = (float)relative[row / ENVS][seen / 2][seen % 2][row % ENVS];
        networks_forward(nets, AGENTS, inputs[0][0], ENVS, outputs);
        for (int64_t place = 0; place < AGENTS * ENVS; place++) uniforms[place] = 0.5f * (draw() + 1);
        choices_draw(outputs, uniforms, AGENTS * ENVS, ACTIONS, planes, choices, log_p);
        for (int64_t place = 0; place < AGENTS * ENVS; place++)
            for (int64_t axis = 0; axis < 2; axis++)
                force[place / ENVS][axis][place % ENVS] =
                    4.0 * ((choices[place] == 2 + 2 * axis) - (choices[place] == 1 + 2 * axis));
        world_advance(&world);
        hash = hashed(hash, log_p, AGENTS * ENVS);
        hash = hashed(hash, (float *)position, 2 * BODIES * 2 * ENVS);
    }
    return hash;
}

int main(void) {
    const int64_t shapes[][5] = {{18, 64, 64, 5}, {54, 64, 64, 1}, {7, 10, 5}, {3, 33, 20, 17, 1}, {5, 2}};
    const int64_t layers[] = {3, 3, 2, 4, 1};
    for (int shape = 0; shape < 5; shape++)
        for (int kind = 0; kind < 4; kind++)
            printf("%016llx\n", (unsigned long long)trained(layers[shape], shapes[shape], kind & 1, kind >> 1, 0));
    for (int kind = 0; kind < 4; kind++) printf("%016llx\n", (unsigned long long)acted(kind & 1, kind >> 1));
    for (int kind = 0; kind < 4; kind++)
        printf("%016llx\n", (unsigned long long)attended(kind < 2 ? 48 : 16, kind & 1, kind >> 1));
}
