/* The interface of the kernels. Python declares it again in functions/native/interface.py, and compares the layout.
 *
 * Contract of all functions:
 * - The caller's thread rounds to nearest, keeps subnormal numbers and traps nothing, see functions/isolation/arithmetic.py.
 * - Nothing is allocated, and nothing is kept between calls.
 * - Arrays are in one piece and have the stated shape. Arrays that are written do not overlap others.
 * - Indices are in range. Numbers may be infinite or NaN unless a comment says otherwise.
 * Callers check this, see `address` and `require_indices` of functions/native/kernels.py.
 */
#ifndef ML_KERNELS_H
#define ML_KERNELS_H

#include <stdint.h>

#define ML_EXPORT __attribute__((visibility("default")))

/* Rows of activations and packed weights are padded with zeros to multiples of ML_BLOCK numbers. */
#define ML_BLOCK 16
/* The largest number of layers: linear ones, and the attention. */
#define ML_MOST_LAYERS 16
/* Heads of an attention. */
#define ML_HEADS 2

enum Function { EXPONENTIAL, LOGARITHM, HYPERBOLIC_TANGENT };
enum Activation { TANH, RELU };

typedef struct Network Network;

/* The optimiser of `size` parameters, with its moments. It has taken so many `steps`. */
typedef struct {
    float *parameters, *first, *second, *gradient;
    int64_t size, steps;
    double lr, epsilon, max_grad_norm;
} Adam;

/* The policy's rows: `actions`, `log_probability` and `advantage` [all rows], `legal` [all rows, actions] or NULL. */
typedef struct {
    const int64_t *actions;
    const float *log_probability, *advantage;
    const uint8_t *legal;
    float clip, entropy_weight;
} PolicyRows;

/* The critic's rows: `old_values` and `targets` [all rows]. */
typedef struct {
    const float *old_values, *targets;
    float clip, delta;
} ValueRows;

/* Where the numbers of a token begin in a row, and how many there are; the rows of its weights and its bias among those of
 * the embedding; and where the numbers of an absent token begin, or -1. */
typedef struct {
    int64_t start, features, weights, bias, absent;
} Token;

/* The description of a row of inputs for attention over entities. Widths of tokens are multiples of ML_BLOCK. */
typedef struct {
    int64_t inputs, tokens, width, heads;
    int64_t embedding; /* rows [width]: weights and bias of the agent's token, weights of blocks, their biases */
    int64_t first_named, named; /* the first of the tokens that actions name, and how many of them there are */
    const Token *token;
    const int64_t *columns; /* of inputs, token after token [inputs] */
    const float *absent;
} Entities;

/* The rows of several minibatches: minibatch k has the rows of `inputs` [., in] with the indices order[bounds[k] ..
 * bounds[k + 1]]. Of minibatches the mean `losses` and the gradients' `norms` are written, and of a policy's rows the
 * `metrics` [each of three][rows of all minibatches]. */
typedef struct {
    const float *inputs;
    const int64_t *order, *bounds;
    int64_t minibatches;
    float *metrics;
    double *losses, *norms;
} Passes;

/* Positions [rows, 2, envs] begin with the agents' positions, `velocity` and `force` [agents, 2, envs]; `relative` and
 * `squares` [agents, rows, 2, envs], `distance` [agents, rows, envs]. Agents that move are neighbours, with the largest
 * speeds `most_speed` [moving]. Pairs of bodies in contact: the `first` is an agent, and so is the second if it is one of
 * `agents`. `strength` [envs] is room to work in. */
typedef struct {
    int64_t agents, rows, envs, first_moving, moving, pairs;
    double *position, *velocity, *force, *relative, *squares, *distance;
    const double *most_speed, *reach;
    const int64_t *first, *second;
    double *strength;
} World;

typedef struct {
    const char *name;
    int64_t offset, size;
} Layout;

/* The level of the x86-64 ABI that the kernels were compiled for: 3 with AVX2, 4 with AVX-512, else 0. Not exported. */
extern const int ml_level;
/* Whether this processor and its system have the instructions that the library was compiled for. Call it first. */
ML_EXPORT int64_t runs_here(void);
/* A hash of the sources. */
ML_EXPORT uint64_t sources(void);
/* The compiler's version. */
ML_EXPORT const char *compiler(void);
/* The first two constants above, each structure with its size, and each field with its offset and size. No name ends it. */
ML_EXPORT const Layout *layouts(void);

/* A function of every number, in place. */
ML_EXPORT void elementwise(int64_t function, float *numbers, int64_t count);
/* exp in place, of numbers from -700 to 700. */
ML_EXPORT void doubles_exp(double *numbers, int64_t count);

ML_EXPORT int64_t network_bytes(void);
/* Describes a network for passes over `most_rows` rows. Its first layer is the attention over `entities` unless they are
 * NULL. If actions name some, the last of the `widths` is that of the moves, a bias and a query, of which scores are made,
 * and outputs are those of the moves and the scores. Returns how many numbers it works in, or -1 for a shape that the kernels do not compute. */
ML_EXPORT int64_t network_numbers(Network *net, int64_t layers, const int64_t *widths, int64_t activation,
                                  int64_t has_norms, const Entities *entities, int64_t most_rows, int64_t trains);
/* `memory` holds so many zeros, which stay where rows are padded. */
ML_EXPORT void network_place(Network *net, float *memory);
ML_EXPORT void network_pack(Network *net, const float *parameters);
/* Outputs [networks, rows, out] of inputs [networks, rows, in], for networks of one shape whose parameters are packed. */
ML_EXPORT void networks_forward(Network *nets, int64_t networks, const float *inputs, int64_t rows, float *outputs);
/* Packs the parameters first. A network that trains has at least so many `most_rows`. */
ML_EXPORT void network_forward(Network *net, const float *parameters, const float *inputs, int64_t rows, float *outputs);
/* The gradient [parameters] from d loss / d outputs [rows, out] of the latest forward pass. */
ML_EXPORT void network_backward(Network *net, const float *grad_output, int64_t rows, float *gradient);
/* A step along the gradient; returns its norm before clipping. */
ML_EXPORT double network_step(Adam *adam);
/* One step of Adam for each minibatch, on the loss of `policy`, or of `critic` if `policy` is NULL. */
ML_EXPORT void network_train(Network *net, Adam *adam, const Passes *passes, const PolicyRows *policy,
                             const ValueRows *critic);

/* Choices and log-probabilities [rows] for logits [rows, actions]; `planes` holds 2 * ML_BLOCK numbers for each action. */
ML_EXPORT void choices_draw(const float *logits, const float *uniforms, int64_t rows, int64_t actions, float *planes,
                            int64_t *choices, float *log_p);

ML_EXPORT void world_advance(const World *world);

/* Four random words of a key and a counter [4], see games/game.h. */
ML_EXPORT void random_words(const uint64_t *key, const uint32_t *counter, uint32_t *words);

#endif
