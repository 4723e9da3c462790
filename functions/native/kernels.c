/* The functions of kernels.h. */
#include <stddef.h>

#include "adam.h"
#include "games/battle.h"
#include "games/foraging.h"
#include "games/warehouse.h"
#include "games/kitchen.h"
#include "losses.h"
#include "network.h"
#include "physics.h"

typedef struct {
    float *begin;
    int64_t numbers;
} Memory;

ML_INLINE float *reserve(Memory *memory, int64_t numbers) {
    float *place = memory->begin ? memory->begin + memory->numbers : 0;
    memory->numbers += padded_width(numbers);
    return place;
}

ML_INLINE float *reserve_if(int64_t is_needed, Memory *memory, int64_t numbers) {
    return reserve(memory, is_needed ? numbers : 0);
}

static void lay_out_attention(Network *net, Memory *memory) {
    Attention *attention = &net->attention;
    const Entities *entities = &attention->entities;
    int64_t width = entities->width, count = entities->tokens, lanes = filled_width(count), trains = net->trains;
    int64_t few = rows_together(entities), rows = trains ? net->most_rows : lesser(net->most_rows, few);
    int64_t size = attention_parameters(entities, 0, 0);
    attention_parameters(entities, reserve(memory, size), &attention->parameters);
    attention_parameters(entities, reserve_if(trains, memory, size), &attention->gradients);
    attention->qkv_transposed = reserve_if(trains, memory, 3 * width * width);
    attention->out_transposed = reserve_if(trains, memory, width * width);
    Kept *kept = &attention->kept;
    kept->parts = reserve(memory, rows * lanes);
    kept->tokens = reserve(memory, rows * count * width);
    kept->centred = reserve(memory, rows * count * width);
    kept->inverse = reserve(memory, rows * count);
    kept->normed = reserve(memory, rows * count * width);
    kept->qkv = reserve(memory, rows * count * 3 * width);
    kept->shares = reserve(memory, rows * count * ML_HEADS * lanes);
    kept->pooled = reserve(memory, rows * pooled_rows(entities) * width);
    attention->turned = reserve(memory, width * lanes);
    attention->contexts = reserve(memory, count * width);
    attention->by_shares = reserve_if(trains, memory, count * ML_HEADS * lanes);
    attention->by_pooled = reserve_if(trains, memory, few * pooled_rows(entities) * width);
    attention->by_qkv = reserve_if(trains, memory, few * count * 3 * width);
    attention->by_tokens = reserve_if(trains, memory, few * count * width);
    net->units[1] = reserve(memory, net->most_rows * pooled_rows(entities) * width);
    net->slopes[1] = reserve_if(trains, memory, net->most_rows * pooled_rows(entities) * width);
}

/* Which numbers a network works in; returns how many. */
static int64_t lay_out(Network *net, float *begin) {
    Memory memory = {begin, 0};
    int64_t rows = net->most_rows, trains = net->trains;
    net->units[0] = reserve_if(trains || net->first, &memory, rows * net->widths[0]);
    if (net->first) lay_out_attention(net, &memory);
    for (int64_t layer = net->first; layer < net->layers; layer++) {
        int64_t in = net->widths[layer], out = padded_width(net->widths[layer + 1]);
        net->weights[layer] = reserve(&memory, (in + 1) * out);
        net->gradients[layer] = reserve_if(trains, &memory, (in + 1) * out);
        net->transposed[layer] = reserve_if(trains, &memory, net->widths[layer + 1] * padded_width(in));
        net->units[layer + 1] = reserve(&memory, rows * out);
        net->slopes[layer + 1] = reserve_if(trains, &memory, rows * out);
        if (!net->has_norms || !is_hidden(net, layer)) continue;
        Norm *norm = &net->norms[layer];
        norm->centred = reserve(&memory, rows * out);
        norm->inverse = reserve(&memory, rows);
        norm->gain = reserve(&memory, out);
        norm->shift = reserve(&memory, out);
        norm->gain_slope = reserve_if(trains, &memory, out);
        norm->shift_slope = reserve_if(trains, &memory, out);
    }
    int64_t in = padded_width(net->widths[net->layers - 1]), scored = net->attention.entities.named;
    net->outputs = scored ? reserve(&memory, rows * padded_width(net->actions)) : net->units[net->layers];
    net->output_slopes = net->slopes[net->layers];
    if (scored) net->output_slopes = reserve_if(trains, &memory, rows * padded_width(net->actions));
    net->planes = reserve_if(trains, &memory, net->actions * (in > 2 * ML_BLOCK ? in : 2 * ML_BLOCK));
    return memory.numbers;
}

#ifdef __AVX512F__
const int ml_level = 4;
#elif defined(__AVX2__)
const int ml_level = 3;
#else
const int ml_level = 0;
#endif

/* `infra.packaging.kernel_build` defines it. */
#ifndef ML_SOURCES
#define ML_SOURCES 0
#endif
uint64_t sources(void) { return ML_SOURCES; }

const char *compiler(void) { return __VERSION__; }

#define ML_SIZE(type) {#type, 0, sizeof(type)}
#define ML_FIELD(type, field) {#type "." #field, offsetof(type, field), sizeof(((type *)0)->field)}

const Layout *layouts(void) {
    static const Layout table[] = {
        {"BLOCK", 0, ML_BLOCK}, {"MOST_LAYERS", 0, ML_MOST_LAYERS},
        ML_SIZE(Adam), ML_FIELD(Adam, parameters), ML_FIELD(Adam, first), ML_FIELD(Adam, second),
        ML_FIELD(Adam, gradient), ML_FIELD(Adam, size), ML_FIELD(Adam, steps), ML_FIELD(Adam, lr),
        ML_FIELD(Adam, epsilon), ML_FIELD(Adam, max_grad_norm),
        ML_SIZE(PolicyRows), ML_FIELD(PolicyRows, actions), ML_FIELD(PolicyRows, log_probability),
        ML_FIELD(PolicyRows, advantage), ML_FIELD(PolicyRows, legal), ML_FIELD(PolicyRows, clip),
        ML_FIELD(PolicyRows, entropy_weight),
        ML_SIZE(ValueRows), ML_FIELD(ValueRows, old_values), ML_FIELD(ValueRows, targets), ML_FIELD(ValueRows, clip),
        ML_FIELD(ValueRows, delta),
        ML_SIZE(Token), ML_FIELD(Token, start), ML_FIELD(Token, features), ML_FIELD(Token, weights),
        ML_FIELD(Token, bias), ML_FIELD(Token, absent),
        ML_SIZE(Entities), ML_FIELD(Entities, inputs), ML_FIELD(Entities, tokens), ML_FIELD(Entities, width),
        ML_FIELD(Entities, heads), ML_FIELD(Entities, embedding), ML_FIELD(Entities, first_named),
        ML_FIELD(Entities, named), ML_FIELD(Entities, token),
        ML_FIELD(Entities, columns), ML_FIELD(Entities, absent),
        ML_SIZE(Passes), ML_FIELD(Passes, inputs), ML_FIELD(Passes, order), ML_FIELD(Passes, bounds),
        ML_FIELD(Passes, minibatches), ML_FIELD(Passes, metrics), ML_FIELD(Passes, losses), ML_FIELD(Passes, norms),
        ML_SIZE(World), ML_FIELD(World, agents), ML_FIELD(World, rows), ML_FIELD(World, envs),
        ML_FIELD(World, first_moving), ML_FIELD(World, moving), ML_FIELD(World, pairs), ML_FIELD(World, position),
        ML_FIELD(World, velocity), ML_FIELD(World, force), ML_FIELD(World, relative), ML_FIELD(World, squares),
        ML_FIELD(World, distance), ML_FIELD(World, most_speed), ML_FIELD(World, reach), ML_FIELD(World, first),
        ML_FIELD(World, second), ML_FIELD(World, strength),
        ML_SIZE(Battle), ML_BATTLE(ML_ROW, Battle)
        ML_SIZE(Foraging), ML_FORAGING(ML_ROW, Foraging)
        ML_SIZE(Warehouse), ML_WAREHOUSE(ML_ROW, Warehouse)
        ML_SIZE(Kitchen), ML_KITCHEN(ML_ROW, Kitchen)
        {0, 0, 0},
    };
    return table;
}

void elementwise(int64_t function, float *numbers, int64_t count) {
    if (function == HYPERBOLIC_TANGENT) {
        hyperbolic_tangents(numbers, count);
        return;
    }
    for (int64_t some; count > 0; count -= some, numbers += some) {
        some = lesser(count, ML_LANES);
        float few[ML_LANES] = {0};
        copy(few, numbers, some);
        store(few, function == EXPONENTIAL ? exponential(load(few)) : logarithm(load(few)));
        copy(numbers, few, some);
    }
}

void doubles_exp(double *numbers, int64_t count) {
    for (int64_t place = 0; place < count; place++) numbers[place] = exponential_double(numbers[place]);
}

int64_t network_bytes(void) { return sizeof(Network); }

static int is_computed(int64_t layers, const int64_t *widths, const Entities *entities) {
    if (layers < 1 || layers > ML_MOST_LAYERS) return 0;
    if (!entities) return 1;
    int fits = entities->width % ML_BLOCK == 0 && widths[1] == 2 * entities->width && widths[0] == entities->inputs;
    fits &= entities->named >= 0 && entities->first_named >= 0 && entities->first_named + entities->named <= entities->tokens;
    if (entities->named) fits &= entities->first_named > 0 && widths[layers] > entities->width;
    return layers > 1 && fits && entities->heads == ML_HEADS && entities->tokens > 0 && entities->tokens <= ML_SPAN;
}

int64_t network_numbers(Network *net, int64_t layers, const int64_t *widths, int64_t activation, int64_t has_norms,
                        const Entities *entities, int64_t most_rows, int64_t trains) {
    if (!is_computed(layers, widths, entities)) return -1;
    memset(net, 0, sizeof *net);
    net->layers = layers;
    memcpy(net->widths, widths, (size_t)(layers + 1) * sizeof *widths);
    net->activation = activation;
    net->has_norms = has_norms;
    net->first = entities != 0;
    if (entities) net->attention.entities = *entities;
    net->actions = widths[layers];
    if (entities && entities->named) net->actions += entities->named - entities->width - 1;
    net->most_rows = most_rows;
    net->trains = trains;
    return lay_out(net, 0);
}

void network_place(Network *net, float *memory) { lay_out(net, memory); }

void network_pack(Network *net, const float *parameters) { pack(net, parameters); }

void networks_forward(Network *nets, int64_t networks, const float *inputs, int64_t rows, float *outputs) {
    int64_t in = nets->widths[0], out = nets->actions, stride = padded_width(out);
    for (Network *net = nets; net < nets + networks; net++)
        for (int64_t from = 0, some; from < rows; from += some, inputs += some * in) {
            some = lesser(rows - from, nets->most_rows);
            forward(net, inputs, 0, some);
            for (int64_t row = 0; row < some; row++, outputs += out)
                copy(outputs, net->outputs + row * stride, out);
        }
}

void network_forward(Network *net, const float *parameters, const float *inputs, int64_t rows, float *outputs) {
    pack(net, parameters);
    networks_forward(net, 1, inputs, rows, outputs);
}

void network_backward(Network *net, const float *grad_output, int64_t rows, float *gradient) {
    int64_t out = net->actions, stride = padded_width(out);
    for (int64_t row = 0; row < rows; row++)
        copy(net->output_slopes + row * stride, grad_output + row * out, out);
    backward(net, rows);
    unpack(net, gradient);
}

double network_step(Adam *adam) { return adam_step(adam); }

/* Returns the sum of the rows' losses; `metrics` are `apart` numbers from one to the next. */
static double policy_loss(Network *net, const PolicyRows *policy, const int64_t *places, int64_t rows, float *metrics,
                          int64_t apart) {
    int64_t actions = net->actions, stride = padded_width(actions);
    double loss = 0;
    for (int64_t from = 0; from < rows; from += ML_LANES) {
        float *parts[3] = {metrics + from, metrics + apart + from, metrics + 2 * apart + from};
        policy_rows(policy, places + from, lesser(rows - from, ML_LANES), actions, (float)rows,
                    net->outputs + from * stride, net->output_slopes + from * stride, stride,
                    net->planes, parts, &loss);
    }
    return loss;
}

static double value_loss(Network *net, const ValueRows *critic, const int64_t *places, int64_t rows) {
    int64_t stride = padded_width(1);
    double loss = 0;
    for (int64_t row = 0; row < rows; row++)
        net->output_slopes[row * stride] =
            value_row(critic, places[row], net->outputs[row * stride], (float)rows, &loss);
    return loss;
}

void network_train(Network *net, Adam *adam, const Passes *passes, const PolicyRows *policy,
                   const ValueRows *critic) {
    int64_t all_rows = passes->bounds[passes->minibatches];
    for (int64_t index = 0; index < passes->minibatches; index++) {
        int64_t from = passes->bounds[index], rows = passes->bounds[index + 1] - from;
        const int64_t *places = passes->order + from;
        pack(net, adam->parameters);
        forward(net, passes->inputs, places, rows);
        double loss = policy ? policy_loss(net, policy, places, rows, passes->metrics + from, all_rows)
                             : value_loss(net, critic, places, rows);
        passes->losses[index] = loss / (double)rows;
        backward(net, rows);
        unpack(net, adam->gradient);
        passes->norms[index] = adam_step(adam);
    }
}

void choices_draw(const float *logits, const float *uniforms, int64_t rows, int64_t actions, float *planes,
                  int64_t *choices, float *log_p) {
    for (int64_t from = 0; from < rows; from += ML_LANES)
        draw_rows(logits + from * actions, uniforms + from, lesser(rows - from, ML_LANES), actions, planes, choices + from,
                  log_p + from);
}

void world_advance(const World *world) {
    for (int64_t pair = 0; pair < world->pairs; pair++) push_apart(world, pair);
    for (int64_t mover = 0; mover < world->moving; mover++) integrate(world, mover);
    update_distances(world);
}

void random_words(const uint64_t *key, const uint32_t *counter, uint32_t *words) { random_block(*key, counter, words); }
