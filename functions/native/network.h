/* A perceptron: its passes over the rows of a minibatch.
 *
 * Parameters stand in one vector as in functions/nn/shape.py: those of the attention over entities, if that is the first
 * layer, of each linear layer the weights [in, out] and the bias [out], then of each hidden layer the gain and the shift
 * of its norm. Passes work on copies whose rows are padded.
 */
#ifndef NETWORK_H
#define NETWORK_H

#include "entities.h"

#define MOST_LAYERS 16

enum Activation { TANH, RELU };

typedef struct {
    int64_t layers;                 /* linear ones, and the attention */
    int64_t first;                  /* linear one: 1 behind the attention */
    int64_t widths[MOST_LAYERS + 1];
    int64_t activation, has_norms;
    int64_t most_rows;
    int64_t trains;                 /* else nothing of a backward pass has a place */
    float *weights[MOST_LAYERS];    /* [in + 1, padded out], the bias is the last row */
    float *transposed[MOST_LAYERS]; /* [out, padded in] */
    float *gradients[MOST_LAYERS];  /* [in + 1, padded out] */
    float *units[MOST_LAYERS + 1];  /* activations [rows, padded width]; those of the first are the inputs [rows, in] */
    float *slopes[MOST_LAYERS + 1]; /* d loss / d what a linear layer returns [rows, padded width] */
    Norm norms[MOST_LAYERS];
    Attention attention;
    float *planes;                  /* what a loss works in, then the gradient of few outputs */
} Network;

INLINE int64_t is_hidden(const Network *net, int64_t layer) { return layer + 1 < net->layers; }

/* Numbers between two layers of activations; inputs are not padded. */
INLINE int64_t stride_of(const Network *net, int64_t level) {
    return level ? padded(net->widths[level]) : net->widths[0];
}

/* Copies the parameters to padded rows. */
static void pack(Network *net, const float *flat) {
    if (net->first) flat += attention_pack(&net->attention, flat, net->trains);
    for (int64_t layer = net->first; layer < net->layers; layer++) {
        int64_t in = net->widths[layer], out = net->widths[layer + 1], stride = padded(out);
        for (int64_t row = 0; row <= in; row++)
            memcpy(net->weights[layer] + row * stride, flat + row * out, out * sizeof(float));
        if (layer && net->trains) transpose(flat, out, in, out, net->transposed[layer], padded(in));
        flat += (in + 1) * out;
    }
    for (int64_t layer = net->first; net->has_norms && is_hidden(net, layer); layer++) {
        int64_t width = net->widths[layer + 1];
        memcpy(net->norms[layer].gain, flat, width * sizeof(float));
        memcpy(net->norms[layer].shift, flat + width, width * sizeof(float));
        flat += 2 * width;
    }
}

/* The gradient in the order of the parameters. */
static void unpack(const Network *net, float *flat) {
    if (net->first) flat += attention_unpack(&net->attention, flat);
    for (int64_t layer = net->first; layer < net->layers; layer++) {
        int64_t in = net->widths[layer], out = net->widths[layer + 1], stride = padded(out);
        for (int64_t row = 0; row <= in; row++)
            memcpy(flat + row * out, net->gradients[layer] + row * stride, out * sizeof(float));
        flat += (in + 1) * out;
    }
    for (int64_t layer = net->first; net->has_norms && is_hidden(net, layer); layer++) {
        int64_t width = net->widths[layer + 1];
        memcpy(flat, net->norms[layer].gain_slope, width * sizeof(float));
        memcpy(flat + width, net->norms[layer].shift_slope, width * sizeof(float));
        flat += 2 * width;
    }
}

static void activate(const Network *net, int64_t layer, int64_t rows) {
    float *units = net->units[layer + 1];
    int64_t count = rows * padded(net->widths[layer + 1]);
    if (net->activation == TANH)
        hyperbolic_tangents(units, count);
    else
        for (int64_t place = 0; place < count; place += LANES) {
            vf unit = load(units + place);
            store(units + place, where(unit < 0.0f, all(0), unit)); /* NaN stays */
        }
}

static void activate_back(const Network *net, int64_t layer, int64_t rows) {
    const float *units = net->units[layer + 1];
    float *slopes = net->slopes[layer + 1];
    int64_t count = rows * padded(net->widths[layer + 1]);
    for (int64_t place = 0; place < count; place += LANES) {
        vf unit = load(units + place), slope = load(slopes + place);
        vf by = net->activation == TANH ? fused(-unit, unit, all(1.0f)) : where(unit > 0.0f, all(1.0f), all(0));
        store(slopes + place, slope * by);
    }
}

/* Outputs of the rows of `inputs` [., in] with the indices `places` (NULL: the first rows), in the last `units`. A backward
 * pass finds the rows in the first. */
static void forward(Network *net, const float *inputs, const int64_t *places, int64_t rows) {
    int64_t width = net->widths[0];
    for (int64_t row = 0; (net->trains || net->first) && row < rows; row++) {
        const float *numbers = inputs + (places ? places[row] : row) * width;
        if (net->first)
            tokens_of(&net->attention.entities, numbers, net->units[0] + row * width);
        else
            memcpy(net->units[0] + row * width, numbers, width * sizeof(float));
    }
    if (net->first) attention_forward(&net->attention, net->units[0], rows, net->trains, net->units[1]);
    for (int64_t layer = net->first; layer < net->layers; layer++) {
        int64_t in = net->widths[layer], below = stride_of(net, layer), stride = padded(net->widths[layer + 1]);
        Left left = {layer || net->trains ? net->units[layer] : inputs, below, 1};
        const float *weights = net->weights[layer];
        product(left, rows, weights, stride, in, filled(net->widths[layer + 1]), weights + in * stride, 0,
                net->units[layer + 1], stride);
        if (is_hidden(net, layer) && net->has_norms)
            normalise(&net->norms[layer], net->units[layer + 1], net->units[layer + 1], net->widths[layer + 1], rows);
        if (is_hidden(net, layer)) activate(net, layer, rows);
    }
}

/* The gradient of a layer's weights: units, transposed, times slopes. That of few outputs is computed transposed, as most
 * of its columns would be padding. */
static void weight_gradient(Network *net, int64_t layer, int64_t rows) {
    int64_t in = net->widths[layer], out = net->widths[layer + 1], below = stride_of(net, layer), stride = padded(out);
    int is_narrow = !is_hidden(net, layer) && layer && out <= BLOCK / 2;
    float *gradient = net->gradients[layer], *transposed = net->planes, one = 1;
    for (int64_t from = 0; from < rows; from += SPAN) {
        int64_t span = rows - from < SPAN ? rows - from : SPAN;
        const float *units = net->units[layer] + from * below, *slopes = net->slopes[layer + 1] + from * stride;
        Left by_unit = {units, 1, below}, by_slope = {slopes, 1, stride}, ones = {&one, 0, 0};
        if (is_narrow)
            product(by_slope, out, units, below, span, filled(in), 0, from > 0, transposed, below);
        else
            product(by_unit, in, slopes, stride, span, filled(out), 0, from > 0, gradient, stride);
        product(ones, 1, slopes, stride, span, filled(out), 0, from > 0, gradient + in * stride, stride);
    }
    for (int64_t from = 0; is_narrow && from < in; from++)
        for (int64_t to = 0; to < out; to++) gradient[from * stride + to] = transposed[to * below + from];
}

/* Gradients of all parameters from d loss / d outputs in the last `slopes`. */
static void backward(Network *net, int64_t rows) {
    for (int64_t layer = net->layers - 1; layer >= net->first; layer--) {
        int64_t in = net->widths[layer], out = net->widths[layer + 1], below = stride_of(net, layer);
        weight_gradient(net, layer, rows);
        if (!layer) break;
        Left left = {net->slopes[layer + 1], padded(out), 1};
        product(left, rows, net->transposed[layer], below, out, filled(in), 0, 0, net->slopes[layer], below);
        if (layer == net->first) break;
        activate_back(net, layer - 1, rows);
        if (net->has_norms) normalise_back(&net->norms[layer - 1], net->slopes[layer], in, rows, 0);
    }
    if (net->first) attention_backward(&net->attention, net->units[0], net->slopes[1], rows);
}

#endif
