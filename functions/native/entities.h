/* Attention over entities, the layer of functions/nn/entities/attention.py.
 *
 * The agent's token, the mean of the present ones and the tokens that actions name leave the layer, see `pooled_rows`. So
 * what the heads return is pooled to these rows before `out` multiplies it: a product with a mean is the mean of products.
 * The next layer reads the first two. The others wait for its network's last one, see `score`. `rows_together` rows of a minibatch pass
 * together and stay in a cache. Widths of tokens are multiples of ML_BLOCK, so queries alone are padded.
 */
#ifndef ML_ENTITIES_H
#define ML_ENTITIES_H

#include "elementary.h"
#include "norms.h"
#include "products.h"

typedef struct {
    float *embedding, *gain, *shift, *qkv, *out, *out_bias;
} Parameters;

/* Of each row what a backward pass needs. */
typedef struct {
    float *parts;                     /* of every token in the mean [filled tokens]: 0 or 1 / present ones */
    float *tokens, *normed, *centred; /* [tokens, width] */
    float *inverse;                   /* [tokens] */
    float *qkv;                       /* [tokens, 3 width] */
    float *shares;                    /* of keys in what queries get [tokens, ML_HEADS, filled tokens] */
    float *pooled;                    /* contexts [pooled rows, width] */
} Kept;

typedef struct {
    Entities entities;
    Parameters parameters, gradients;
    float *qkv_transposed, *out_transposed;
    Kept kept;
    float *turned, *contexts, *by_shares; /* of one row [width, filled tokens], and as in `Kept` */
    float *by_pooled, *by_qkv, *by_tokens; /* of `rows_together` */
} Attention;

/* The agent's token, the mean, and the named tokens. */
ML_INLINE int64_t pooled_rows(const Entities *entities) { return 2 + entities->named; }

ML_INLINE int64_t rows_together(const Entities *entities) { return ML_SPAN / entities->tokens; }

/* Where parameters stand in a vector; returns how many there are. */
static int64_t attention_parameters(const Entities *entities, float *flat, Parameters *parameters) {
    int64_t width = entities->width, embedding = entities->embedding * width, square = width * width;
    if (flat)
        *parameters = (Parameters){flat,
                                   flat + embedding,
                                   flat + embedding + width,
                                   flat + embedding + 2 * width,
                                   flat + embedding + 2 * width + 3 * square,
                                   flat + embedding + 2 * width + 4 * square};
    return embedding + 3 * width + 4 * square;
}

/* Copies the parameters; returns how many there are. */
static int64_t attention_pack(Attention *attention, const float *flat, int64_t trains) {
    int64_t size = attention_parameters(&attention->entities, 0, 0), width = attention->entities.width;
    const Parameters *parameters = &attention->parameters;
    copy(parameters->embedding, flat, size);
    if (!trains) return size;
    transpose(parameters->qkv, 3 * width, width, 3 * width, attention->qkv_transposed, width);
    transpose(parameters->out, width, width, width, attention->out_transposed, width);
    return size;
}

static int64_t attention_unpack(const Attention *attention, float *flat) {
    int64_t size = attention_parameters(&attention->entities, 0, 0);
    copy(flat, attention->gradients.embedding, size);
    return size;
}

/* The inputs of a row, token after token. */
ML_INLINE void tokens_of(const Entities *entities, const float *numbers, float *row) {
    for (int64_t place = 0; place < entities->inputs; place++) row[place] = numbers[entities->columns[place]];
}

/* What is kept of the rows from the given one. */
static Kept kept_from(const Attention *attention, int64_t row) {
    Kept all = attention->kept;
    int64_t count = attention->entities.tokens, token = row * count, width = attention->entities.width;
    return (Kept){all.parts + row * filled_width(count),
                  all.tokens + token * width,
                  all.normed + token * width,
                  all.centred + token * width,
                  all.inverse + token,
                  all.qkv + token * 3 * width,
                  all.shares + token * ML_HEADS * filled_width(count),
                  all.pooled + row * pooled_rows(&attention->entities) * width};
}

static Norm norm_of_tokens(const Attention *attention, const Kept *kept) {
    return (Norm){attention->parameters.gain, attention->parameters.shift, attention->gradients.gain,
                  attention->gradients.shift, kept->centred, kept->inverse};
}

ML_INLINE float is_present(const float *numbers, const Token *token, const float *absent) {
    if (token->absent < 0) return 1;
    for (int64_t place = 0; place < token->features; place++)
        if (numbers[place] != absent[token->absent + place]) return 1;
    return 0;
}

/* Tokens of rows of inputs, and their parts in the mean. */
static void embed(const Attention *attention, const float *inputs, int64_t rows, const Kept *kept) {
    const Entities *entities = &attention->entities;
    int64_t width = entities->width, count = entities->tokens, lanes = filled_width(count);
    for (int64_t place = 0; place < count; place++) {
        const Token *token = entities->token + place;
        const float *weights = attention->parameters.embedding;
        Left left = {inputs + token->start, entities->inputs, 1};
        product(left, rows, weights + token->weights * width, width, token->features, width,
                weights + token->bias * width, 0, kept->tokens + place * width, count * width);
        for (int64_t row = 0; row < rows; row++)
            kept->parts[row * lanes + place] =
                is_present(inputs + row * entities->inputs + token->start, token, entities->absent);
    }
    for (int64_t place = 0; place < rows * count * width; place += ML_LANES) {
        vf unit = load(kept->tokens + place);
        store(kept->tokens + place, select_lanes(unit < 0.0f, broadcast(0), unit)); /* NaN stays */
    }
    for (int64_t row = 0; row < rows; row++) {
        float *parts = kept->parts + row * lanes, present = 0;
        for (int64_t place = 0; place < count; place++) present += parts[place];
        for (int64_t place = 0; place < count; place++) parts[place] /= present;
    }
}

/* Scores [keys, queries] become shares; absent keys have none. */
ML_INLINE void softmax(float *shares, const float *parts, int64_t count, int64_t stride, float scale) {
    for (int64_t from = 0; from < stride; from += ML_LANES) {
        float *plane = shares + from;
        vf highest = load(plane), sum = broadcast(0);
        for (int64_t key = 1; key < count; key++)
            if (parts[key] > 0) highest = lanes_max(load(plane + key * stride), highest);
        for (int64_t key = 0; key < count; key++) {
            vf share = parts[key] > 0 ? exponential((load(plane + key * stride) - highest) * scale) : broadcast(0);
            store(plane + key * stride, share);
            sum += share;
        }
        vf inverse = 1.0f / sum;
        for (int64_t key = 0; key < count; key++) store(plane + key * stride, load(plane + key * stride) * inverse);
    }
}

/* d loss / d shares becomes d loss / d scores before they are scaled. */
ML_INLINE void softmax_back(float *slopes, const float *shares, int64_t count, int64_t stride, float scale) {
    for (int64_t from = 0; from < stride; from += ML_LANES) {
        vf along = broadcast(0);
        for (int64_t place = from; place < count * stride; place += stride)
            along = fused(load(slopes + place), load(shares + place), along);
        for (int64_t place = from; place < count * stride; place += stride)
            store(slopes + place, (load(slopes + place) - along) * load(shares + place) * scale);
    }
}

ML_INLINE float scale_of(int64_t width) { return 1 / __builtin_sqrtf((float)(width / ML_HEADS)); }

/* The contexts of one row's tokens, from its queries, keys and values. */
static void attend(const Attention *attention, const Kept *kept) {
    int64_t width = attention->entities.width, count = attention->entities.tokens, head_width = width / ML_HEADS;
    int64_t lanes = filled_width(count), stride = ML_HEADS * lanes;
    const float *qkv = kept->qkv;
    transpose(qkv, 3 * width, count, width, attention->turned, lanes);
    for (int64_t head = 0; head < ML_HEADS; head++) {
        Left keys = {qkv + width + head * head_width, 3 * width, 1};
        product(keys, count, attention->turned + head * head_width * lanes, lanes, head_width, lanes, 0, 0,
                kept->shares + head * lanes, stride);
    }
    softmax(kept->shares, kept->parts, count, stride, scale_of(width));
    for (int64_t head = 0; head < ML_HEADS; head++) {
        Left shares = {kept->shares + head * lanes, 1, stride};
        product(shares, count, qkv + 2 * width + head * head_width, 3 * width, count, head_width, 0, 0,
                attention->contexts + head * head_width, width);
    }
}

/* The first of the tokens, their mean, and the named ones. */
ML_INLINE void pool(const Entities *entities, const float *tokens, const float *parts, float *pooled) {
    int64_t count = entities->tokens, width = entities->width;
    copy(pooled + 2 * width, tokens + entities->first_named * width, entities->named * width);
    for (int64_t place = 0; place < width; place += ML_LANES) {
        vf mean = broadcast(0);
        for (int64_t token = 0; token < count; token++)
            mean = fused(broadcast(parts[token]), load(tokens + token * width + place), mean);
        store(pooled + place, load(tokens + place));
        store(pooled + width + place, mean);
    }
}

/* What a token itself, and not by the mean, has in pooled rows; NULL for none. */
ML_INLINE const float *own_row(const Entities *entities, const float *pooled, int64_t token) {
    int64_t place = token - entities->first_named;
    if (!token) return pooled;
    return place >= 0 && place < entities->named ? pooled + (2 + place) * entities->width : 0;
}

/* Outputs [rows, pooled rows, width] of rows of inputs, each token after token. */
static void attention_forward(Attention *attention, const float *inputs, int64_t rows, int64_t trains, float *outputs) {
    const Entities *entities = &attention->entities;
    const Parameters *parameters = &attention->parameters;
    int64_t width = entities->width, count = entities->tokens, few = rows_together(entities), pooled = pooled_rows(entities);
    for (int64_t from = 0; from < rows; from += few, inputs += few * entities->inputs, outputs += few * pooled * width) {
        int64_t some = lesser(rows - from, few);
        Kept kept = kept_from(attention, trains ? from : 0);
        Norm norm = norm_of_tokens(attention, &kept);
        embed(attention, inputs, some, &kept);
        normalise(&norm, kept.tokens, kept.normed, width, some * count);
        product((Left){kept.normed, width, 1}, some * count, parameters->qkv, 3 * width, width, 3 * width, 0, 0, kept.qkv,
                3 * width);
        for (int64_t row = 0; row < some; row++) {
            Kept row_kept = kept_from(attention, (trains ? from : 0) + row);
            attend(attention, &row_kept);
            pool(entities, attention->contexts, row_kept.parts, row_kept.pooled);
            pool(entities, row_kept.tokens, row_kept.parts, outputs + row * pooled * width);
        }
        product((Left){kept.pooled, width, 1}, pooled * some, parameters->out, width, width, width, parameters->out_bias, 1, outputs,
                width);
    }
}

/* d loss / d contexts of one row becomes d loss / d its queries, keys and values. */
static void attend_back(const Attention *attention, const Kept *kept, const float *by_pooled, float *by_qkv) {
    int64_t width = attention->entities.width, count = attention->entities.tokens, head_width = width / ML_HEADS;
    int64_t lanes = filled_width(count), stride = ML_HEADS * lanes;
    float *by_contexts = attention->contexts, *by_shares = attention->by_shares;
    for (int64_t token = 0; token < count; token++) {
        const float *by_own = own_row(&attention->entities, by_pooled, token);
        for (int64_t place = 0; place < width; place += ML_LANES) {
            vf own = by_own ? load(by_own + place) : broadcast(0);
            vf slope = fused(broadcast(kept->parts[token]), load(by_pooled + width + place), own);
            store(by_contexts + token * width + place, slope);
        }
    }
    transpose(by_contexts, width, count, width, attention->turned, lanes);
    for (int64_t head = 0; head < ML_HEADS; head++) {
        Left values = {kept->qkv + 2 * width + head * head_width, 3 * width, 1};
        product(values, count, attention->turned + head * head_width * lanes, lanes, head_width, lanes, 0, 0,
                by_shares + head * lanes, stride);
    }
    softmax_back(by_shares, kept->shares, count, stride, scale_of(width));
    for (int64_t head = 0; head < ML_HEADS; head++) {
        const float *query = kept->qkv + head * head_width, *by_context = by_contexts + head * head_width;
        float *by_query = by_qkv + head * head_width;
        Left of_queries = {by_shares + head * lanes, 1, stride}, of_keys = {by_shares + head * lanes, stride, 1};
        Left shares = {kept->shares + head * lanes, stride, 1};
        product(of_queries, count, query + width, 3 * width, count, head_width, 0, 0, by_query, 3 * width);
        product(of_keys, count, query, 3 * width, count, head_width, 0, 0, by_query + width, 3 * width);
        product(shares, count, by_context, width, count, head_width, 0, 0, by_query + 2 * width, 3 * width);
    }
}

/* Adds what the outputs' slopes bring to tokens without attention, and passes by relu. */
ML_INLINE void pass_by(const Entities *entities, const Kept *kept, const float *slopes, float *by_tokens) {
    int64_t width = entities->width;
    for (int64_t token = 0; token < entities->tokens; token++) {
        const float *by_own = own_row(entities, slopes, token);
        for (int64_t place = 0; place < width; place += ML_LANES) {
            float *by_token = by_tokens + token * width + place;
            vf slope = fused(broadcast(kept->parts[token]), load(slopes + width + place), load(by_token));
            if (by_own) slope += load(by_own + place);
            vf unit = load(kept->tokens + token * width + place);
            store(by_token, slope * select_lanes(unit > 0.0f, broadcast(1.0f), broadcast(0)));
        }
    }
}

/* Gradients of weights [in, out], units transposed times slopes, and of a bias [out] unless it is NULL. */
ML_INLINE void sum_gradient(Left units, int64_t in, const float *slopes, int64_t apart, int64_t rows, int64_t out, int adds,
                         float *weights, float *bias) {
    float one = 1;
    product(units, in, slopes, apart, rows, out, 0, adds, weights, out);
    if (bias) product((Left){&one, 0, 0}, 1, slopes, apart, rows, out, 0, adds, bias, out);
}

static void embed_back(const Attention *attention, const float *inputs, int64_t rows, int adds) {
    const Entities *entities = &attention->entities;
    int64_t width = entities->width, count = entities->tokens;
    float *gradient = attention->gradients.embedding;
    for (int64_t place = 0; place < count; place++) {
        const Token *token = entities->token + place;
        int follows = place && token->bias == token[-1].bias;
        Left units = {inputs + token->start, 1, entities->inputs};
        sum_gradient(units, token->features, attention->by_tokens + place * width, count * width, rows, width,
                     adds || follows, gradient + token->weights * width, gradient + token->bias * width);
    }
}

/* Gradients of all parameters from d loss / d outputs [rows, pooled rows, width]. */
static void attention_backward(Attention *attention, const float *inputs, const float *slopes, int64_t rows) {
    const Entities *entities = &attention->entities;
    const Parameters *to = &attention->gradients;
    int64_t width = entities->width, count = entities->tokens, few = rows_together(entities), wide = pooled_rows(entities);
    float *by_qkv = attention->by_qkv, *by_tokens = attention->by_tokens;
    for (int64_t from = 0; from < rows; from += few, inputs += few * entities->inputs, slopes += few * wide * width) {
        int64_t some = lesser(rows - from, few);
        Kept kept = kept_from(attention, from);
        Norm norm = norm_of_tokens(attention, &kept);
        Left pooled = {kept.pooled, 1, width}, normed = {kept.normed, 1, width};
        sum_gradient(pooled, width, slopes, width, wide * some, width, from > 0, to->out, to->out_bias);
        product((Left){slopes, width, 1}, wide * some, attention->out_transposed, width, width, width, 0, 0,
                attention->by_pooled, width);
        for (int64_t row = 0; row < some; row++) {
            Kept row_kept = kept_from(attention, from + row);
            attend_back(attention, &row_kept, attention->by_pooled + row * wide * width, by_qkv + row * count * 3 * width);
        }
        sum_gradient(normed, width, by_qkv, 3 * width, some * count, 3 * width, from > 0, to->qkv, 0);
        product((Left){by_qkv, 3 * width, 1}, some * count, attention->qkv_transposed, width, 3 * width, width, 0, 0,
                by_tokens, width);
        normalise_back(&norm, by_tokens, width, some * count, from > 0);
        for (int64_t row = 0; row < some; row++) {
            Kept row_kept = kept_from(attention, from + row);
            pass_by(entities, &row_kept, slopes + row * wide * width, by_tokens + row * count * width);
        }
        embed_back(attention, inputs, some, from > 0);
    }
}

ML_INLINE float scale_of_scores(int64_t width) { return 1 / __builtin_sqrtf((float)width); }

/* A row of outputs of `moves`, then of each named token query . token / sqrt(width) + bias, from the last layer's numbers
 * of the moves, the bias and the query, and the row of the attention. */
static void score(const Attention *attention, const float *last, const float *attended, int64_t moves, float *outputs) {
    int64_t width = attention->entities.width, named = attention->entities.named;
    int64_t lanes = filled_width(attention->entities.tokens); /* so that zeros stay where rows of `turned` are padded */
    float scale = scale_of_scores(width), *sums = attention->contexts;
    copy(outputs, last, moves);
    transpose(attended + 2 * width, width, named, width, attention->turned, lanes);
    product((Left){last + moves + 1, 0, 1}, 1, attention->turned, lanes, width, filled_width(named), 0, 0, sums, lanes);
    for (int64_t place = 0; place < named; place++) outputs[moves + place] = sums[place] * scale + last[moves];
}

/* d loss / d outputs becomes d loss / d the last layer's numbers and the named tokens of the row. */
static void score_back(const Attention *attention, const float *slopes, const float *last, const float *attended,
                       int64_t moves, float *by_last, float *by_attended) {
    int64_t width = attention->entities.width, named = attention->entities.named;
    float scale = scale_of_scores(width), bias = 0, *scaled = attention->by_shares;
    const float *query = last + moves + 1;
    copy(by_last, slopes, moves);
    for (int64_t token = 0; token < named; token++) {
        bias += slopes[moves + token];
        scaled[token] = slopes[moves + token] * scale;
        for (int64_t place = 0; place < width; place += ML_LANES)
            store(by_attended + (2 + token) * width + place, load(query + place) * broadcast(scaled[token]));
    }
    by_last[moves] = bias;
    product((Left){scaled, 0, 1}, 1, attended + 2 * width, width, named, width, 0, 0, by_last + moves + 1, width);
}

#endif
