"""The kernels in numpy: one IEEE 754 operation after another, in the order of functions/native/*.h."""

import itertools

import numpy as np

from marless.functions.environments.mpe import exact_world
from marless.functions.native import known_answers as known

F = np.float32
LN2_HIGH, LN2_LOW, SHIFT = F(0.693145751953125), F(1.42860677e-6), F(12582912)
EXPM1 = [1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 0.5]
LOG = [
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
    2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
]  # fmt: skip


def fused(a, b, c):
    """a b + c, rounded once: the product is exact in double precision, the sum is rounded to odd, then to single."""
    product, c = np.asarray(a, np.float64) * np.asarray(b, np.float64), np.asarray(c, np.float64)
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    bits = np.asarray(total).view(np.int64)
    is_even = (error != 0) & np.isfinite(total) & (bits % 2 == 0)
    odd = bits + np.where((error > 0) == (total > 0), 1, -1)
    return np.where(is_even, odd, bits).view(np.float64).astype(F)


def polynomial(coefficients, x):
    total = F(coefficients[0])
    for coefficient in coefficients[1:]:
        total = fused(total, x, F(coefficient))
    return total


def halvings(x):
    shifted = fused(x, F(1.44269504), SHIFT)
    return shifted - SHIFT, shifted.view(np.int32) - SHIFT.view(np.int32)


def power_of_two(exponent):
    return ((exponent + 127).astype(np.int32) << 23).view(F)


def reduced(x):
    """Return e^r - 1 for the rest r of x after whole multiples of ln 2, and their number."""
    times, exponent = halvings(x)
    r = fused(times, -LN2_LOW, fused(times, -LN2_HIGH, x))
    return fused(polynomial(EXPM1, r), r * r, r), exponent


def exp(x):
    x = np.where(x < F(-104), F(-104), np.where(x > F(89), F(89), x))
    short, exponent = reduced(x)
    scale = power_of_two(exponent >> 1)
    return fused(short, scale, scale) * power_of_two(exponent - (exponent >> 1))


def tanh(x):
    doubled = np.abs(x) + np.abs(x)
    short, exponent = reduced(np.where(doubled > F(20), F(20), doubled))
    scale = power_of_two(exponent)
    m = fused(short, scale, scale - F(1))
    quotient = m / (m + F(2))
    lost = np.where(quotient < F(0.5), m - ((m + F(2)) - F(2)), F(0))
    return np.copysign(fused(quotient * lost, fused(quotient, F(0.5), F(-0.5)), quotient), x)


def log(x):
    is_small = x < F(1.17549435e-38)
    scaled = np.where(is_small, x * F(8388608), x)
    exponent = (scaled.view(np.int32) - np.int32(0x3F3504F3)) >> 23
    f = (scaled.view(np.int32) - (exponent << 23)).view(F) - F(1)
    e, square = (exponent - np.where(is_small, 23, 0)).astype(F), f * f
    small = fused(square, F(-0.5), fused(e, F(-2.12194440e-4), polynomial(LOG, f) * f * square))
    result = fused(e, F(0.693359375), f + small)
    result = np.where(np.isinf(x), x, np.where(x == 0, F(-np.inf), result))
    return np.where((x < 0) | np.isnan(x), F(np.nan), result)


def product(left, right, first):
    """Each number is one sum in the order of the inner width."""
    total = np.broadcast_to(first, (len(left), right.shape[1]))
    for k in range(left.shape[1]):
        total = fused(left[:, k, None], right[None, k], total)
    return total


def sixteen_sums(first, second):
    """The sum over the last axis of products, in sixteen partial sums that are added in halves."""
    padded = -(-first.shape[-1] // 16) * 16
    wide = [np.zeros((*first.shape[:-1], padded), F) for _ in range(2)]
    wide[0][..., : first.shape[-1]], wide[1][..., : first.shape[-1]] = first, second
    total = np.zeros((*first.shape[:-1], 16), F)
    for place in range(0, padded, 16):
        total = fused(wide[0][..., place : place + 16], wide[1][..., place : place + 16], total)
    for half in (8, 4, 2, 1):
        total = total[..., :half] + total[..., half : 2 * half]
    return total[..., 0]


def row_mean(first, second):
    return (sixteen_sums(first, second) / F(first.shape[-1]))[:, None]


def normalise(x, gain, shift):
    centred = x - row_mean(x, np.ones_like(x))
    inverse = F(1) / np.sqrt(row_mean(centred, centred) + F(1e-5))
    return fused(centred * inverse, gain, shift), (gain, centred * inverse, inverse)


def normalise_back(slopes, cache):
    gains, centred, inverse = cache
    gain = shift = np.zeros(slopes.shape[1], F)
    for row, normed in zip(slopes, centred, strict=True):
        gain, shift = fused(row, normed, gain), row + shift
    slopes = slopes * gains
    along, mean = row_mean(slopes, centred), row_mean(slopes, np.ones_like(slopes))
    return fused(-centred, along, slopes - mean) * inverse, gain, shift


class Attention:
    """The first layer of a network with tokens, see functions/native/entities.h."""

    def __init__(self, shape, flat):
        self.tokens, self.width, self.count = shape.tokens, shape.width, len(shape.tokens)
        rows = itertools.accumulate((shape.embedding, 1, 1, 3 * self.width, self.width, 1), initial=0)
        parts = [flat[start * self.width : end * self.width] for start, end in itertools.pairwise(rows)]
        self.embedding = parts[0].reshape(-1, self.width)
        self.gain, self.shift, *matrices, self.out_bias = parts[1:]
        self.qkv, self.out = (matrix.reshape(self.width, -1) for matrix in matrices)
        self.aims = np.arange(shape.aims[1]) + shape.aims[0]
        self.pooled_rows = 2 + len(self.aims)
        self.size, self.each, self.few = sum(part.size for part in parts), self.width // 2, 256 // self.count
        self.scale = F(1) / np.sqrt(F(self.each))

    def forward(self, x):
        """Return outputs ``[rows, pooled rows x width]``. Lists hold one array for each token or row."""
        self.x = x[:, ::-1]
        of_tokens, present = [], []
        for start, features, weights, bias, absent in self.tokens:
            numbers = self.x[:, start : start + features]
            of_tokens.append(product(numbers, self.embedding[weights : weights + features], self.embedding[bias]))
            present.append((numbers != F(known.ABSENT)).any(axis=1) | (absent < 0))
        self.units = np.stack(of_tokens, axis=1)
        self.units = np.where(self.units < 0, F(0), self.units)
        self.present = np.stack(present, axis=1)
        self.parts = self.present.astype(F) / self.present.sum(axis=1, keepdims=True, dtype=F)
        normed, self.norm = normalise(self.units.reshape(-1, self.width), self.gain, self.shift)
        self.normed = normed.reshape(self.units.shape)
        self.products = product(normed, self.qkv, F(0)).reshape(*self.units.shape[:2], 3, 2, self.each)
        self.shares = [[self.softmax(row, head) for head in range(2)] for row in range(len(x))]
        contexts = [
            np.concatenate([product(shares.T, self.products[row, :, 2, head], F(0)) for head, shares in both], axis=1)
            for row, both in enumerate(map(list, map(enumerate, self.shares)))
        ]
        self.pooled = self.pool(np.stack(contexts))
        outputs = product(self.pooled, self.out, self.out_bias) + self.pool(self.units)
        return outputs.reshape(len(x), -1)

    def softmax(self, row, head):
        query, key, _ = self.products[row, :, :, head].swapaxes(0, 1)
        scores, total = product(key, query.T, F(0)), F(0)
        highest = scores[0]
        for score in scores[self.present[row]]:
            highest = np.where(score > highest, score, highest)
        shares = np.where(self.present[row][:, None], exp((scores - highest) * self.scale), F(0))
        for share in shares:
            total = total + share
        return shares * (F(1) / total)

    def pool(self, tokens):
        """The first of the tokens, their mean and the named tokens, in turn ``[rows x pooled rows, width]``."""
        mean = np.zeros((len(tokens), self.width), F)
        for place in range(self.count):
            mean = fused(self.parts[:, place, None], tokens[:, place], mean)
        return np.concatenate([tokens[:, :1], mean[:, None], tokens[:, self.aims]], axis=1).reshape(-1, self.width)

    def backward(self, slopes):
        pairs = slopes.reshape(-1, self.width)
        by_pooled = product(pairs, self.out.T, F(0)).reshape(-1, self.pooled_rows, self.width)
        by_products = np.stack([self.attend_back(row, *one) for row, one in enumerate(by_pooled)])
        flat_products = by_products.reshape(-1, 3 * self.width)
        through, gain, shift = normalise_back(product(flat_products, self.qkv.T, F(0)), self.norm)
        by_tokens = fused(
            self.parts[..., None], slopes[:, None, self.width : 2 * self.width], through.reshape(self.units.shape)
        )
        by_tokens[:, 0] = by_tokens[:, 0] + slopes[:, : self.width]
        by_tokens[:, self.aims] += slopes[:, 2 * self.width :].reshape(len(slopes), -1, self.width)
        by_tokens = by_tokens * np.where(self.units > 0, F(1), F(0))
        embedding = np.zeros_like(self.embedding)
        seen = set()
        for rows in self.spans(len(slopes), 1):
            for place, (start, features, weights, bias, _) in enumerate(self.tokens):
                one = product(self.x[rows, start : start + features].T, by_tokens[rows, place], F(0))
                of_bias = product(np.ones((1, len(by_tokens[rows])), F), by_tokens[rows, place], F(0))[0]
                at = np.s_[weights : weights + features]
                embedding[at], embedding[bias] = (
                    (one + embedding[at], of_bias + embedding[bias]) if bias in seen else (one, of_bias)
                )
                seen.add(bias)
        normed = self.normed.reshape(-1, self.width)
        qkv = self.summed(normed, flat_products, self.count)
        ones = np.ones((len(pairs), 1), F)
        out, out_bias = (self.summed(left, pairs, self.pooled_rows) for left in (self.pooled, ones))
        return np.concatenate([part.ravel() for part in (embedding, gain, shift, qkv, out, out_bias)])

    def spans(self, rows, times):
        return [slice(times * start, times * (start + self.few)) for start in range(0, rows, self.few)]

    def summed(self, left, right, times):
        first, *others = (product(left[rows].T, right[rows], F(0)) for rows in self.spans(len(left) // times, times))
        for other in others:
            first = other + first
        return first

    def attend_back(self, row, by_own, by_mean, *by_aims):
        """d loss / d queries, keys and values of a row ``[tokens, 3, heads, each]``."""
        own = np.zeros((self.count, self.width), F)
        own[[0, *self.aims]] = by_own, *by_aims
        by_contexts = fused(self.parts[row, :, None], by_mean, own).reshape(self.count, 2, self.each)
        result = np.empty_like(self.products[row])
        for head, shares in enumerate(self.shares[row]):
            query, key, value = self.products[row, :, :, head].swapaxes(0, 1)
            by_share, along = product(value, by_contexts[:, head].T, F(0)), F(0)
            for slope, share in zip(by_share, shares, strict=True):
                along = fused(slope, share, along)
            by_score = (by_share - along) * shares * self.scale
            result[:, 0, head] = product(by_score.T, key, F(0))
            result[:, 1, head] = product(by_score, query, F(0))
            result[:, 2, head] = product(shares, by_contexts[:, head], F(0))
        return result


class Network:
    """A perceptron with parameters in one vector, as functions/nn/shape.py has them."""

    def __init__(self, shape, flat):
        widths, activation, has_norms, tokens, aims = shape
        self.is_tanh, self.layers, self.norms = activation == known.TANH, [], []
        self.attention = Attention(shape, flat) if tokens else None
        self.aims, self.width = aims[1], shape.width
        if self.attention:
            widths, flat = widths[1:], flat[self.attention.size :]
        for width, out in itertools.pairwise(widths):
            weights, flat = flat[: width * out].reshape(width, out), flat[width * out :]
            self.layers.append((weights, flat[:out]))
            flat = flat[out:]
        for out in widths[1:-1] if has_norms else ():
            self.norms.append((flat[:out], flat[out : 2 * out]))
            flat = flat[2 * out :]

    def forward(self, x):
        if self.attention:
            x, named = np.split(self.attention.forward(x), [2 * self.width], axis=1)
            self.named = named.reshape(len(x), self.aims, self.width)
        self.units, self.normed = [x], []
        for place, (weights, bias) in enumerate(self.layers):
            x = product(x, weights, bias)
            if place + 1 < len(self.layers):
                if self.norms:
                    x, cache = normalise(x, *self.norms[place])
                    self.normed.append(cache)
                x = self.activate(x)
            self.units.append(x)
        return self.scores(x) if self.aims else x

    def scores(self, last):
        moves, bias, query = np.split(last, [-self.width - 1, -self.width], axis=1)
        total = np.zeros((len(last), self.aims), F)
        for place in range(self.width):
            total = fused(query[:, place, None], self.named[..., place], total)
        return np.concatenate([moves, total * (F(1) / np.sqrt(F(self.width))) + bias], axis=1)

    def scores_back(self, slopes):
        """Return the slopes of the last layer's results, and of named tokens ``[rows, aims, width]``."""
        moves, by_score = np.split(slopes, [-self.aims], axis=1)
        scaled, by_query, by_bias = by_score * (F(1) / np.sqrt(F(self.width))), F(0), F(0)
        for place in range(self.aims):
            by_bias = by_bias + by_score[:, place, None]
            by_query = fused(scaled[:, place, None], self.named[:, place], by_query)
        by_named = self.units[-1][:, None, -self.width :] * scaled[..., None]
        return np.concatenate([moves, by_bias, by_query], axis=1), by_named

    def activate(self, x):
        return tanh(x) if self.is_tanh else np.where(x < 0, F(0), x)

    def backward(self, slopes):
        parts, of_norms = [], []
        slopes, by_named = self.scores_back(slopes) if self.aims else (slopes, slopes[:, :0])
        for place in reversed(range(len(self.layers))):
            units = self.units[place]
            bias = product(np.ones((1, len(slopes)), F), slopes, F(0))
            parts[:0] = [product(units.T, slopes, F(0)).ravel(), bias.ravel()]
            if place == 0 and not self.attention:
                break
            slopes = product(slopes, self.layers[place][0].T, F(0))
            if place == 0:
                by_attended = np.concatenate([slopes, by_named.reshape(len(slopes), -1)], axis=1)
                parts[:0] = [self.attention.backward(by_attended)]
                break
            slopes = slopes * (fused(-units, units, F(1)) if self.is_tanh else np.where(units > 0, F(1), F(0)))
            if self.norms:
                slopes, gain, shift = normalise_back(slopes, self.normed[place - 1])
                of_norms[:0] = [gain, shift]
        return np.concatenate(parts + of_norms)


def power(base, exponent):
    result = 1.0
    while exponent:
        if exponent & 1:
            result *= base
        exponent, base = exponent >> 1, base * base
    return result


def step(vectors, steps, lr, epsilon, most):
    """A step of Adam in place. Returns the gradient's norm."""
    parameters, first, second, gradient = vectors
    norm = np.sqrt(sixteen_sums(gradient, gradient))
    slope = gradient * F(most / (float(norm) + 1e-6) if norm > most else 1)
    first[:] = fused(F(1 - 0.9), slope, first * F(0.9))
    second[:] = fused(slope * slope, F(1 - 0.999), second * F(0.999))
    spread, size = F(np.sqrt(1 - power(0.999, steps))), F(lr / (1 - power(0.9, steps)))
    parameters -= first / (np.sqrt(second) / spread + F(epsilon)) * size
    return float(norm)


def log_total(planes):
    """Logits [actions, rows] less the largest, the sums of their exponentials up to each, and the logarithm of all."""
    highest = planes[0]
    for plane in planes[1:]:
        highest = np.where(plane > highest, plane, highest)
    shifted, total, sums = planes - highest, np.zeros(planes.shape[1], F), []
    for plane in shifted:
        total = total + exp(plane)
        sums.append(total)
    return shifted, np.array(sums), log(total)


def policy_loss(logits, actions, old, advantage, legal, clip, entropy_weight):
    shifted, _, log_sum = log_total(np.where(legal, logits, F(-1e9)).T)
    log_p = shifted - log_sum
    p, negative_entropy = exp(log_p), np.zeros(len(logits), F)
    for probability, plane in zip(p, log_p, strict=True):
        negative_entropy = fused(probability, plane, negative_entropy)
    taken = np.arange(len(log_p))[:, None] == actions
    log_ratio = log_p[actions, np.arange(len(logits))] - old
    ratio = exp(log_ratio)
    overshoots = np.where(advantage >= 0, ratio > F(1) + clip, ratio < F(1) - clip)
    weight = np.where(overshoots, F(0), -(advantage * ratio))
    slopes = fused(log_p - negative_entropy, entropy_weight, -weight) * p
    slopes = np.where(taken, slopes + weight, slopes) / F(len(logits))
    clipped = np.where(ratio < F(1) - clip, F(1) - clip, np.where(ratio > F(1) + clip, F(1) + clip, ratio)) * advantage
    surrogate = np.where(ratio * advantage < clipped, ratio * advantage, clipped)
    metrics = [-negative_entropy, (np.abs(ratio - F(1)) > clip).astype(F), (ratio - F(1)) - log_ratio]
    return slopes.T, -sum(surrogate.tolist()), metrics


def huber(error, slope):
    return slope * (error - F(0.5) * slope)


def cut(number, most):
    return np.where(number > most, most, np.where(number < -most, -most, number))


def value_loss(values, old, targets, clip, delta):
    change, free = values - old, values - targets
    clipped = (old + cut(change, clip)) - targets
    slope = np.where((np.abs(free) < np.abs(clipped)) & (cut(change, clip) != change), F(0), cut(free, delta))
    losses = np.maximum(huber(free, cut(free, delta)), huber(clipped, cut(clipped, delta)))
    return (slope / F(len(values)))[:, None], sum(losses.tolist())


def trained(shape, samples, bounds):
    vectors = [known.first_parameters(shape), *np.zeros((3, known.parameters(shape)), F)]
    metrics, losses, norms = np.zeros((3, len(samples["inputs"])), F), [], []
    for index, (start, end) in enumerate(itertools.pairwise(bounds)):
        rows = samples["order"][start:end]
        network = Network(shape, vectors[0])
        outputs = network.forward(samples["inputs"][rows])
        others = [array[rows] for name, array in samples.items() if name not in ("inputs", "order")]
        if "actions" in samples:
            slopes, loss, metrics[:, start:end] = policy_loss(outputs, *others, F(0.2), F(0.01))
        else:
            slopes, loss = value_loss(outputs[:, 0], *others, F(0.2), F(1.5))
        vectors[3][:] = network.backward(slopes)
        losses.append(loss / len(rows))
        norms.append(step(vectors, index + 1, 1e-2, 1e-5, 0.5))
    return [*vectors, metrics, np.array(losses), np.array(norms)]


def acting():
    flat, observations, uniforms = known.acting_inputs()
    network = Network(known.ACTING, flat)
    outputs = network.forward(observations)
    shifted, sums, log_sum = log_total(outputs.T)
    choices = (sums[:-1] <= uniforms * sums[-1]).sum(axis=0)
    log_p = shifted[choices, np.arange(known.ROWS)] - log_sum
    network.forward(observations[:3])
    gradient = network.backward(known.drawn("slopes", known.ROWS, known.ACTING.widths[-1])[:3])
    return [outputs, choices, log_p, outputs, gradient]


def attention():
    answers = [array for shape, samples in known.attended() for array in trained(shape, samples, known.WIDE_BOUNDS)]
    (shape, samples), *_ = known.attended()
    return [*answers, Network(shape, known.first_parameters(shape)).forward(samples["inputs"])]


def none():
    return [array for shape, samples in known.spoilt() for array in trained(shape, samples, [0, 5])]


def steps():
    vectors, counts, settings = known.step_inputs()
    return [*vectors, np.array([step(vectors, count + 1, *settings) for count in counts])]


def physics():
    world = known.world_inputs()
    for _ in range(known.STEPS):
        advance(*world.values())
    return [exact_world.exp(known.exponents()), *world.values()]


def advance(position, velocity, force, relative, squares, distance):
    for first, second, reach in zip(known.FIRST, known.SECOND, known.REACH, strict=True):
        apart = distance[first, second]
        strength = (reach - apart) / 1e-3
        exact_world.softplus(strength)
        push = relative[first, second] * 1e2 / apart * (strength * 1e-3)
        force[first] -= push
        if second < known.AGENTS:
            force[second] += push
    position[: known.AGENTS] += velocity * 0.1
    velocity[:] = velocity * 0.75 + force * 0.1
    speed, most = np.sqrt(velocity[:, 0] * velocity[:, 0] + velocity[:, 1] * velocity[:, 1]), known.MOST_SPEED[:, None]
    slowed = velocity / speed[:, None] * most[:, None]
    velocity[:] = np.where((speed > most)[:, None], slowed, velocity)
    relative[:] = position - position[: known.AGENTS, None]
    squares[:] = relative * relative
    distance[:] = np.sqrt(squares[:, :, 0] + squares[:, :, 1])


ANSWERS = {
    "exp, log and tanh": lambda: [function(known.special()) for function in (exp, log, tanh)],
    "acting": acting,
    "Adam's steps": steps,
    "the training of policies": lambda: trained(known.POLICY, known.policy_samples(known.ROWS, 7, 17), known.BOUNDS),
    "the training of critics": lambda: trained(known.CRITIC, known.critic_samples(known.ROWS, 5), known.BOUNDS),
    "attention": attention,
    "numbers that are none": none,
    "physics": physics,
}
