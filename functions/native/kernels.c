/* What the engine `native` calls, see functions/native/kernels.py. Nothing is allocated or kept here. */
#include "adam.h"
#include "losses.h"
#include "network.h"
#include "physics.h"
#include "processor.h"

typedef struct {
    float *begin;
    int64_t numbers;
} Memory;

INLINE float *take(Memory *memory, int64_t numbers) {
    float *place = memory->begin ? memory->begin + memory->numbers : 0;
    memory->numbers += padded(numbers);
    return place;
}

static void lay_out_attention(Network *net, Memory *memory) {
    Attention *attention = &net->attention;
    const Entities *entities = &attention->entities;
    int64_t width = entities->width, count = entities->tokens, lanes = filled(count), trained = net->trains;
    int64_t few = rows_together(entities), rows = trained || net->most_rows < few ? net->most_rows : few;
    int64_t size = attention_parameters(entities, 0, 0);
    attention_parameters(entities, take(memory, size), &attention->parameters);
    attention_parameters(entities, take(memory, trained * size), &attention->gradients);
    attention->qkv_transposed = take(memory, trained * 3 * width * width);
    attention->out_transposed = take(memory, trained * width * width);
    Kept *kept = &attention->kept;
    kept->parts = take(memory, rows * lanes);
    kept->tokens = take(memory, rows * count * width);
    kept->centred = take(memory, rows * count * width);
    kept->inverse = take(memory, rows * count);
    kept->normed = take(memory, rows * count * width);
    kept->qkv = take(memory, rows * count * 3 * width);
    kept->shares = take(memory, rows * count * HEADS * lanes);
    kept->pooled = take(memory, rows * 2 * width);
    attention->turned = take(memory, width * lanes);
    attention->contexts = take(memory, count * width);
    attention->by_shares = take(memory, trained * count * HEADS * lanes);
    attention->by_pooled = take(memory, trained * few * 2 * width);
    attention->by_qkv = take(memory, trained * few * count * 3 * width);
    attention->by_tokens = take(memory, trained * few * count * width);
    net->units[1] = take(memory, net->most_rows * 2 * width);
    net->slopes[1] = take(memory, trained * net->most_rows * 2 * width);
}

/* Which numbers a network works in; returns how many. */
static int64_t lay_out(Network *net, float *begin) {
    Memory memory = {begin, 0};
    int64_t rows = net->most_rows, trained = net->trains;
    net->units[0] = take(&memory, (trained || net->first) * rows * net->widths[0]);
    if (net->first) lay_out_attention(net, &memory);
    for (int64_t layer = net->first; layer < net->layers; layer++) {
        int64_t in = net->widths[layer], out = padded(net->widths[layer + 1]);
        net->weights[layer] = take(&memory, (in + 1) * out);
        net->gradients[layer] = take(&memory, trained * (in + 1) * out);
        net->transposed[layer] = take(&memory, trained * net->widths[layer + 1] * padded(in));
        net->units[layer + 1] = take(&memory, rows * out);
        net->slopes[layer + 1] = take(&memory, trained * rows * out);
        if (!net->has_norms || !is_hidden(net, layer)) continue;
        Norm *norm = &net->norms[layer];
        norm->centred = take(&memory, rows * out);
        norm->inverse = take(&memory, rows);
        norm->gain = take(&memory, out);
        norm->shift = take(&memory, out);
        norm->gain_slope = take(&memory, trained * out);
        norm->shift_slope = take(&memory, trained * out);
    }
    int64_t in = padded(net->widths[net->layers - 1]);
    net->planes = take(&memory, trained * net->widths[net->layers] * (in > 2 * BLOCK ? in : 2 * BLOCK));
    return memory.numbers;
}

/* A hash of the sources, which `infra.packaging.kernel_build` defines. */
#ifndef SOURCES
#define SOURCES 0
#endif
EXPORT uint64_t sources(void) { return SOURCES; }

/* What the compiler calls its version. */
EXPORT const char *compiler(void) { return __VERSION__; }

EXPORT int64_t runs_here(void) { return is_suitable(); }

EXPORT int64_t network_bytes(void) { return sizeof(Network); }

/* The numbers that passes of a network over `most_rows` rows work in. Its first layer is the attention over `entities`
 * unless they are NULL. */
EXPORT int64_t network_numbers(Network *net, int64_t layers, const int64_t *widths, int64_t activation, int64_t has_norms,
                               const Entities *entities, int64_t most_rows, int64_t trains) {
    memset(net, 0, sizeof *net);
    net->layers = layers;
    memcpy(net->widths, widths, (layers + 1) * sizeof *widths);
    net->activation = activation;
    net->has_norms = has_norms;
    net->first = entities != 0;
    if (entities) net->attention.entities = *entities;
    net->most_rows = most_rows;
    net->trains = trains;
    return lay_out(net, 0);
}

/* `memory` holds so many zeros, which stay where rows are padded. */
EXPORT void network_place(Network *net, float *memory) { lay_out(net, memory); }

EXPORT void network_pack(Network *net, const float *parameters) { pack(net, parameters); }

/* Outputs [networks, rows, out] of inputs [networks, rows, in], for networks of one shape whose parameters are packed. */
EXPORT void networks_forward(Network *nets, int64_t networks, const float *inputs, int64_t rows, float *outputs) {
    int64_t in = nets->widths[0], out = nets->widths[nets->layers], stride = padded(out), most = nets->most_rows;
    for (Network *net = nets; net < nets + networks; net++)
        for (int64_t from = 0, some; from < rows; from += some, inputs += some * in) {
            some = rows - from < most ? rows - from : most;
            forward(net, inputs, 0, some);
            for (int64_t row = 0; row < some; row++, outputs += out)
                memcpy(outputs, net->units[net->layers] + row * stride, out * sizeof(float));
        }
}

EXPORT void network_forward(Network *net, const float *parameters, const float *inputs, int64_t rows, float *outputs) {
    pack(net, parameters);
    networks_forward(net, 1, inputs, rows, outputs);
}

/* The gradient [parameters] from d loss / d outputs [rows, out] of the latest forward pass. */
EXPORT void network_backward(Network *net, const float *grad_output, int64_t rows, float *gradient) {
    int64_t out = net->widths[net->layers], stride = padded(out);
    for (int64_t row = 0; row < rows; row++)
        memcpy(net->slopes[net->layers] + row * stride, grad_output + row * out, out * sizeof(float));
    backward(net, rows);
    unpack(net, gradient);
}

EXPORT double network_step(Adam *adam) { return adam_step(adam); }

/* The rows of several minibatches: minibatch k has those of `inputs` [., in] with the indices order[bounds[k] ..
 * bounds[k + 1]]. Of minibatches the mean `losses` and the gradients' `norms` are written, and of a policy's rows the
 * `metrics` [each of three][rows of all minibatches]. */
typedef struct {
    const float *inputs;
    const int64_t *order, *bounds;
    int64_t minibatches;
    float *metrics;
    double *losses, *norms;
} Passes;

/* Returns the sum of the rows' losses; `metrics` are `apart` numbers from one to the next. */
static double policy_loss(Network *net, const PolicyRows *policy, const int64_t *places, int64_t rows, float *metrics,
                          int64_t apart) {
    int64_t actions = net->widths[net->layers], stride = padded(actions);
    double loss = 0;
    for (int64_t from = 0; from < rows; from += LANES) {
        float *parts[3] = {metrics + from, metrics + apart + from, metrics + 2 * apart + from};
        policy_rows(policy, places + from, rows - from < LANES ? rows - from : LANES, actions, (float)rows,
                    net->units[net->layers] + from * stride, net->slopes[net->layers] + from * stride, stride,
                    net->planes, parts, &loss);
    }
    return loss;
}

static double value_loss(Network *net, const ValueRows *critic, const int64_t *places, int64_t rows) {
    int64_t stride = padded(1);
    double loss = 0;
    for (int64_t row = 0; row < rows; row++)
        net->slopes[net->layers][row * stride] =
            value_row(critic, places[row], net->units[net->layers][row * stride], (float)rows, &loss);
    return loss;
}

/* One step of Adam for each minibatch, on the loss of `policy` or of `critic`. */
EXPORT void network_train(Network *net, Adam *adam, const Passes *passes, const PolicyRows *policy,
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
