/* A perceptron: its passes over the rows of a minibatch.
 *
 * Parameters stand in one vector as in functions/nn/shape.py: those of the attention over entities, if that is the first
 * layer, of each linear layer the weights [in, out] and the bias [out], then of each hidden layer the gain and the shift
 * of its norm. Passes work on copies whose rows are padded.
 */
#ifndef ML_NETWORK_H
#define ML_NETWORK_H

#include "entities.h"

struct Network {
    int64_t layers;                 /* linear ones, and the attention */
    int64_t first;                  /* linear one: 1 behind the attention */
    int64_t widths[ML_MOST_LAYERS + 1];
    int64_t activation, has_norms;
    int64_t most_rows;
    int64_t trains;                 /* else nothing of a backward pass has a place */
    float *weights[ML_MOST_LAYERS];    /* [in + 1, padded out], the bias is the last row */
    float *transposed[ML_MOST_LAYERS]; /* [out, padded in] */
    float *gradients[ML_MOST_LAYERS];  /* [in + 1, padded out] */
    float *units[ML_MOST_LAYERS + 1];  /* activations [rows, padded width]; those of the first are the inputs [rows, in] */
    float *slopes[ML_MOST_LAYERS + 1]; /* d loss / d what a linear layer returns [rows, padded width] */
    Norm norms[ML_MOST_LAYERS];
    Attention attention;
    int64_t actions;                /* numbers of a row of outputs */
    float *outputs, *output_slopes; /* [rows, padded actions]: the last of the above, or scores of entities */
    float *planes;                  /* what a loss works in, then the gradient of few outputs */
};

ML_INLINE int64_t is_hidden(const Network *net, int64_t layer) { return layer + 1 < net->layers; }

/* Numbers between two layers of activations; inputs are not padded, and named tokens stand behind those of the attention. */
ML_INLINE int64_t stride_of(const Network *net, int64_t level) {
    const Entities *entities = &net->attention.entities;
    if (level && level == net->first) return pooled_rows(entities) * entities->width;
    return level ? padded_width(net->widths[level]) : net->widths[0];
}

/* Copies the parameters to padded rows. */
static void pack(Network *net, const float *flat) {
    if (net->first) flat += attention_pack(&net->attention, flat, net->trains);
    for (int64_t layer = net->first; layer < net->layers; layer++) {
        int64_t in = net->widths[layer], out = net->widths[layer + 1], stride = padded_width(out);
        for (int64_t row = 0; row <= in; row++)
            copy(net->weights[layer] + row * stride, flat + row * out, out);
        if (layer && net->trains) transpose(flat, out, in, out, net->transposed[layer], padded_width(in));
        flat += (in + 1) * out;
    }
    if (!net->has_norms) return;
    for (int64_t layer = net->first; is_hidden(net, layer); layer++) {
        int64_t width = net->widths[layer + 1];
        copy(net->norms[layer].gain, flat, width);
        copy(net->norms[layer].shift, flat + width, width);
        flat += 2 * width;
    }
}

/* The gradient in the order of the parameters. */
static void unpack(const Network *net, float *flat) {
    if (net->first) flat += attention_unpack(&net->attention, flat);
    for (int64_t layer = net->first; layer < net->layers; layer++) {
        int64_t in = net->widths[layer], out = net->widths[layer + 1], stride = padded_width(out);
        for (int64_t row = 0; row <= in; row++)
            copy(flat + row * out, net->gradients[layer] + row * stride, out);
        flat += (in + 1) * out;
    }
    if (!net->has_norms) return;
    for (int64_t layer = net->first; is_hidden(net, layer); layer++) {
        int64_t width = net->widths[layer + 1];
        copy(flat, net->norms[layer].gain_slope, width);
        copy(flat + width, net->norms[layer].shift_slope, width);
        flat += 2 * width;
    }
}

static void activate(const Network *net, int64_t layer, int64_t rows) {
    float *units = net->units[layer + 1];
    int64_t count = rows * padded_width(net->widths[layer + 1]);
    if (net->activation == TANH)
        hyperbolic_tangents(units, count);
    else
        for (int64_t place = 0; place < count; place += ML_LANES) {
            vf unit = load(units + place);
            store(units + place, select_lanes(unit < 0.0f, broadcast(0), unit)); /* NaN stays */
        }
}

static void activate_back(const Network *net, int64_t layer, int64_t rows) {
    const float *units = net->units[layer + 1];
    float *slopes = net->slopes[layer + 1];
    int64_t count = rows * padded_width(net->widths[layer + 1]);
    for (int64_t place = 0; place < count; place += ML_LANES) {
        vf unit = load(units + place), slope = load(slopes + place);
        vf by = net->activation == TANH ? fused(-unit, unit, broadcast(1.0f)) : select_lanes(unit > 0.0f, broadcast(1.0f), broadcast(0));
        store(slopes + place, slope * by);
    }
}

/* Rows of inputs for the attention, or for a backward pass. */
static void gather_inputs(Network *net, const float *inputs, const int64_t *places, int64_t rows) {
    int64_t width = net->widths[0];
    for (int64_t row = 0; row < rows; row++) {
        const float *numbers = inputs + (places ? places[row] : row) * width;
        if (net->first)
            tokens_of(&net->attention.entities, numbers, net->units[0] + row * width);
        else
            copy(net->units[0] + row * width, numbers, width);
    }
}

ML_INLINE int64_t moves_of(const Network *net) { return net->actions - net->attention.entities.named; }

static void score_rows(Network *net, int64_t rows) {
    int64_t last = stride_of(net, net->layers), attended = stride_of(net, 1), stride = padded_width(net->actions);
    for (int64_t row = 0; row < rows; row++)
        score(&net->attention, net->units[net->layers] + row * last, net->units[1] + row * attended, moves_of(net),
              net->outputs + row * stride);
}

static void score_rows_back(Network *net, int64_t rows) {
    int64_t last = stride_of(net, net->layers), attended = stride_of(net, 1), stride = padded_width(net->actions);
    for (int64_t row = 0; row < rows; row++)
        score_back(&net->attention, net->output_slopes + row * stride, net->units[net->layers] + row * last,
                   net->units[1] + row * attended, moves_of(net), net->slopes[net->layers] + row * last,
                   net->slopes[1] + row * attended);
}

/* Outputs of the rows of `inputs` [., in] with the indices `places` (NULL: the first rows), in `outputs`. A backward
 * pass finds the rows in the first. */
static void forward(Network *net, const float *inputs, const int64_t *places, int64_t rows) {
    if (net->trains || net->first) gather_inputs(net, inputs, places, rows);
    if (net->first) attention_forward(&net->attention, net->units[0], rows, net->trains, net->units[1]);
    for (int64_t layer = net->first; layer < net->layers; layer++) {
        int64_t in = net->widths[layer], below = stride_of(net, layer), stride = padded_width(net->widths[layer + 1]);
        Left left = {layer || net->trains ? net->units[layer] : inputs, below, 1};
        const float *weights = net->weights[layer];
        product(left, rows, weights, stride, in, filled_width(net->widths[layer + 1]), weights + in * stride, 0,
                net->units[layer + 1], stride);
        if (is_hidden(net, layer) && net->has_norms)
            normalise(&net->norms[layer], net->units[layer + 1], net->units[layer + 1], net->widths[layer + 1], rows);
        if (is_hidden(net, layer)) activate(net, layer, rows);
    }
    if (net->attention.entities.named) score_rows(net, rows);
}

/* The gradient of a layer's weights: units, transposed, times slopes. With few outputs it is computed transposed, as most
 * of its columns would be padding. */
static void weight_gradient(Network *net, int64_t layer, int64_t rows) {
    int64_t in = net->widths[layer], out = net->widths[layer + 1], below = stride_of(net, layer), stride = padded_width(out);
    int64_t wide = padded_width(in);
    int is_narrow = !is_hidden(net, layer) && layer && out <= ML_BLOCK / 2;
    float *gradient = net->gradients[layer], *transposed = net->planes, one = 1;
    for (int64_t from = 0; from < rows; from += ML_SPAN) {
        int64_t span = lesser(rows - from, ML_SPAN);
        const float *units = net->units[layer] + from * below, *slopes = net->slopes[layer + 1] + from * stride;
        Left by_unit = {units, 1, below}, by_slope = {slopes, 1, stride}, ones = {&one, 0, 0};
        if (is_narrow)
            product(by_slope, out, units, below, span, filled_width(in), 0, from > 0, transposed, wide);
        else
            product(by_unit, in, slopes, stride, span, filled_width(out), 0, from > 0, gradient, stride);
        product(ones, 1, slopes, stride, span, filled_width(out), 0, from > 0, gradient + in * stride, stride);
    }
    if (!is_narrow) return;
    for (int64_t from = 0; from < in; from++)
        for (int64_t to = 0; to < out; to++) gradient[from * stride + to] = transposed[to * wide + from];
}

/* Gradients of all parameters from d loss / d outputs in `output_slopes`. */
static void backward(Network *net, int64_t rows) {
    if (net->attention.entities.named) score_rows_back(net, rows);
    for (int64_t layer = net->layers - 1; layer >= net->first; layer--) {
        int64_t in = net->widths[layer], out = net->widths[layer + 1], below = stride_of(net, layer);
        weight_gradient(net, layer, rows);
        if (!layer) break;
        Left left = {net->slopes[layer + 1], padded_width(out), 1};
        product(left, rows, net->transposed[layer], padded_width(in), out, filled_width(in), 0, 0, net->slopes[layer], below);
        if (layer == net->first) break;
        activate_back(net, layer - 1, rows);
        if (net->has_norms) normalise_back(&net->norms[layer - 1], net->slopes[layer], in, rows, 0);
    }
    if (net->first) attention_backward(&net->attention, net->units[0], net->slopes[1], rows);
}

#endif
