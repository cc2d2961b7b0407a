"""Networks in plain torch that bench/export_models.py exports and bench/gpu_worker_torch.py compiles: the families whose
speed on a GPU bench/gpu.py measures, of the sizes that are usual, with random weights. Nothing but torch is needed.

NETWORKS has a function (batch) -> (model, inputs, input names) for each name.
"""

import torch
import torch.nn.functional as F
from torch import nn


def attend(q, k, v, heads, mask=None):
    """Rows [batch, positions, heads * depth]."""
    apart = lambda x: x.unflatten(-1, (heads, -1)).transpose(1, 2)
    return F.scaled_dot_product_attention(apart(q), apart(k), apart(v), attn_mask=mask).transpose(1, 2).flatten(2)


class Attention(nn.Module):
    def __init__(self, size, heads, context=None, bias=True):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(size, size, bias=bias)
        self.k = nn.Linear(context or size, size, bias=bias)
        self.v = nn.Linear(context or size, size, bias=bias)
        self.out = nn.Linear(size, size)

    def forward(self, x, keys=None, values=None):
        keys = x if keys is None else keys
        return self.out(attend(self.q(x), self.k(keys), self.v(keys if values is None else values), self.heads))


class Mlp(nn.Sequential):
    def __init__(self, size, inner):
        super().__init__(nn.Linear(size, inner), nn.GELU(), nn.Linear(inner, size))


class Block(nn.Module):
    """A transformer's layer that normalises first."""

    def __init__(self, size, heads, inner):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.attention, self.mlp = Attention(size, heads), Mlp(size, inner)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, size=768, heads=12, layers=12):
        super().__init__()
        self.patches = nn.Conv2d(3, size, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, size) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, 197, size) * 0.02)
        self.blocks = nn.Sequential(*(Block(size, heads, 4 * size) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, 1000)

    def forward(self, image):
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class WindowBlock(nn.Module):
    """Attention in windows of 7x7 pixels, with a bias for each offset; every second block's windows are shifted."""

    def __init__(self, size, heads, side, shift):
        super().__init__()
        window = self.window = 7
        self.heads, self.shift = heads, shift if side > window else 0
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = Mlp(size, 4 * size)
        self.bias = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.02)
        at = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = at[:, :, None] - at[:, None, :] + window - 1
        self.register_buffer("offsets", (apart[0] * (2 * window - 1) + apart[1]).flatten())
        mask = torch.zeros(side, side)
        if self.shift:
            ends = (slice(0, -window), slice(-window, -shift), slice(-shift, None))
            for i, rows in enumerate(ends):
                for j, columns in enumerate(ends):
                    mask[rows, columns] = 3 * i + j
            mask = self.windows(mask[None, :, :, None])[:, :, 0]
            mask = (mask[:, None, :] != mask[:, :, None]).float() * -100.0
            self.register_buffer("mask", mask[:, None])

    def windows(self, x):
        w = self.window
        b, h, v, c = x.shape
        return x.view(b, h // w, w, v // w, w, c).transpose(2, 3).reshape(-1, w * w, c)

    def forward(self, x):
        b, h, v, c = x.shape
        w, heads = self.window, self.heads
        y = self.norm1(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        qkv = self.qkv(self.windows(y)).unflatten(-1, (3, heads, c // heads)).permute(2, 0, 3, 1, 4)
        bias = self.bias[self.offsets].view(w * w, w * w, heads).permute(2, 0, 1)[None]
        if self.shift:
            bias = (bias + self.mask).repeat(b, 1, 1, 1)
        y = F.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], attn_mask=bias)
        y = self.out(y.transpose(1, 2).flatten(2))
        y = y.view(b, h // w, v // w, w, w, c).transpose(2, 3).reshape(b, h, v, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.mlp(self.norm2(x))


class WindowedTransformer(nn.Module):
    def __init__(self, size=96, depths=(2, 2, 6, 2), heads=(3, 6, 12, 24)):
        super().__init__()
        self.patches, self.first = nn.Conv2d(3, size, 4, 4), nn.LayerNorm(size)
        self.stages, self.merges = nn.ModuleList(), nn.ModuleList()
        side = 56
        for depth, count in zip(depths, heads):
            if self.stages:
                self.merges.append(nn.Sequential(nn.LayerNorm(4 * size), nn.Linear(4 * size, 2 * size, bias=False)))
                size, side = 2 * size, side // 2
            self.stages.append(nn.Sequential(*(WindowBlock(size, count, side, 3 * (i % 2)) for i in range(depth))))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, 1000)

    def forward(self, image):
        x = self.first(self.patches(image).permute(0, 2, 3, 1))
        for i, stage in enumerate(self.stages):
            if i:
                x = torch.cat((x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]), -1)
                x = self.merges[i - 1](x)
            x = stage(x)
        return self.head(self.norm(x).mean((1, 2)))


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.conv = nn.Conv2d(size, size, 7, padding=3, groups=size)
        self.norm, self.mlp = nn.LayerNorm(size), Mlp(size, 4 * size)
        self.scale = nn.Parameter(torch.full((size,), 0.5))

    def forward(self, x):
        y = self.mlp(self.norm(self.conv(x).permute(0, 2, 3, 1))) * self.scale
        return x + y.permute(0, 3, 1, 2)


def conv_next(depths=(3, 3, 9, 3), sizes=(96, 192, 384, 768)):
    layers = [nn.Conv2d(3, sizes[0], 4, 4), ChannelNorm(sizes[0])]
    for i, (depth, size) in enumerate(zip(depths, sizes)):
        if i:
            layers += [ChannelNorm(sizes[i - 1]), nn.Conv2d(sizes[i - 1], size, 2, 2)]
        layers += [ConvNextBlock(size) for _ in range(depth)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(sizes[-1]),
                         nn.Linear(sizes[-1], 1000))


def conv(inputs, outputs, size, stride=1, groups=1, act=nn.ReLU, dilation=1):
    layers = [nn.Conv2d(inputs, outputs, size, stride, dilation * (size - 1) // 2, dilation, groups, bias=False),
              nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Excite(nn.Module):
    def __init__(self, size, inner):
        super().__init__()
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(size, inner, 1), nn.SiLU(),
                                  nn.Conv2d(inner, size, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.gate(x)


class Inverted(nn.Module):
    def __init__(self, inputs, outputs, size, stride, grow):
        super().__init__()
        inner = inputs * grow
        self.adds = stride == 1 and inputs == outputs
        self.body = nn.Sequential(*([conv(inputs, inner, 1, act=nn.SiLU)] if grow > 1 else []),
                                  conv(inner, inner, size, stride, inner, nn.SiLU), Excite(inner, max(1, inputs // 4)),
                                  conv(inner, outputs, 1, act=None))

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def efficient_net():
    layers, inputs = [conv(3, 32, 3, 2, act=nn.SiLU)], 32
    for grow, size, stride, outputs, count in ((1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3),
                                               (6, 5, 1, 112, 3), (6, 5, 2, 192, 4), (6, 3, 1, 320, 1)):
        for i in range(count):
            layers.append(Inverted(inputs, outputs, size, stride if i == 0 else 1, grow))
            inputs = outputs
    return nn.Sequential(*layers, conv(320, 1280, 1, act=nn.SiLU), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(1280, 1000))


class Bottleneck(nn.Module):
    def __init__(self, inputs, inner, stride=1, dilation=1):
        super().__init__()
        self.body = nn.Sequential(conv(inputs, inner, 1), conv(inner, inner, 3, stride, dilation=dilation),
                                  conv(inner, 4 * inner, 1, act=None))
        self.skip = conv(inputs, 4 * inner, 1, stride, act=None) if stride > 1 or inputs != 4 * inner else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


def residual_layers(inputs, inner, count, stride, dilation=1):
    return [Bottleneck(inputs if i == 0 else 4 * inner, inner, stride if i == 0 else 1, dilation)
            for i in range(count)]


class Segmentation(nn.Module):
    """DeepLabV3 over a ResNet-50 whose last two stages are dilated."""

    def __init__(self, classes=21):
        super().__init__()
        self.body = nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *residual_layers(64, 64, 3, 1),
                                  *residual_layers(256, 128, 4, 2), *residual_layers(512, 256, 6, 1, 2),
                                  *residual_layers(1024, 512, 3, 1, 4))
        self.branches = nn.ModuleList([conv(2048, 256, 1), *(conv(2048, 256, 3, dilation=d) for d in (12, 24, 36))])
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(2048, 256, 1))
        self.join = nn.Sequential(conv(1280, 256, 1), conv(256, 256, 3), nn.Conv2d(256, classes, 1))

    def forward(self, image):
        x = self.body(image)
        pooled = self.pool(x).expand(-1, -1, x.shape[2], x.shape[3])
        x = self.join(torch.cat([branch(x) for branch in self.branches] + [pooled], 1))
        return F.interpolate(x, size=image.shape[2:], mode="bilinear", align_corners=False)


class DenseLayer(nn.Module):
    def __init__(self, inputs, grow=32):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * grow, 1, bias=False),
                                  nn.BatchNorm2d(4 * grow), nn.ReLU(), nn.Conv2d(4 * grow, grow, 3, 1, 1, bias=False))

    def forward(self, x):
        return torch.cat((x, self.body(x)), 1)


def dense_net(depths=(6, 12, 24, 16)):
    layers, size = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
    for i, depth in enumerate(depths):
        for _ in range(depth):
            layers.append(DenseLayer(size))
            size += 32
        if i + 1 < len(depths):
            layers += [nn.BatchNorm2d(size), nn.ReLU(), nn.Conv2d(size, size // 2, 1, bias=False), nn.AvgPool2d(2)]
            size //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(size), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(size, 1000))


class TimedBlock(nn.Module):
    def __init__(self, inputs, outputs, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.time = nn.Linear(time, outputs)
        self.norm2, self.conv2 = nn.GroupNorm(32, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(y)))


class SpatialTransformer(nn.Module):
    def __init__(self, size, heads, context):
        super().__init__()
        self.norm, self.into, self.out = nn.GroupNorm(32, size), nn.Conv2d(size, size, 1), nn.Conv2d(size, size, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(3))
        self.own, self.cross = Attention(size, heads, bias=False), Attention(size, heads, context, bias=False)
        self.gate, self.down = nn.Linear(size, 8 * size), nn.Linear(4 * size, size)

    def forward(self, x, context):
        rows = self.into(self.norm(x)).flatten(2).transpose(1, 2)
        rows = rows + self.own(self.norms[0](rows))
        rows = rows + self.cross(self.norms[1](rows), context)
        value, gate = self.gate(self.norms[2](rows)).chunk(2, -1)
        rows = rows + self.down(value * F.gelu(gate))
        return x + self.out(rows.transpose(1, 2).reshape(x.shape))


class DiffusionStep(nn.Module):
    """The U-Net of a latent diffusion model, with half of the usual channels: 64x64x4, cross-attention to 77x768."""

    def __init__(self, size=160, grow=(1, 2, 4, 4), heads=8, context=768):
        super().__init__()
        self.size, time = size, 4 * size
        self.time = nn.Sequential(nn.Linear(size, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, size, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        attention = lambda channels, level: SpatialTransformer(channels, heads, context) if level < 3 else None
        kept, now = [size], size
        for level, factor in enumerate(grow):
            for _ in range(2):
                self.down.append(self.stage(TimedBlock(now, factor * size, time), attention(factor * size, level)))
                now = factor * size
                kept.append(now)
            if level < 3:
                self.down.append(self.stage(nn.Conv2d(now, now, 3, 2, 1), None))
                kept.append(now)
        self.middle = nn.ModuleList([TimedBlock(now, now, time), SpatialTransformer(now, heads, context),
                                     TimedBlock(now, now, time)])
        for level in reversed(range(4)):
            for i in range(3):
                block = TimedBlock(now + kept.pop(), grow[level] * size, time)
                now = grow[level] * size
                self.up.append(self.stage(block, attention(now, level)))
            if level:
                self.up.append(self.stage(nn.Conv2d(now, now, 3, padding=1), None))
        self.last = nn.Sequential(nn.GroupNorm(32, now), nn.SiLU(), nn.Conv2d(now, 4, 3, padding=1))

    @staticmethod
    def stage(block, attention):
        return nn.ModuleList([block] if attention is None else [block, attention])

    def forward(self, latent, time, context):
        angles = time[:, None] * torch.exp(torch.arange(self.size // 2, device=time.device, dtype=time.dtype) *
                                           (-9.2103 / (self.size // 2)))
        time = self.time(torch.cat((angles.cos(), angles.sin()), -1))
        x = self.first(latent)
        kept = [x]
        for stage in self.down:
            x = stage[0](x, time) if isinstance(stage[0], TimedBlock) else stage[0](x)
            if len(stage) > 1:
                x = stage[1](x, context)
            kept.append(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, time), context), time)
        for stage in self.up:
            if isinstance(stage[0], TimedBlock):
                x = stage[0](torch.cat((x, kept.pop()), 1), time)
                if len(stage) > 1:
                    x = stage[1](x, context)
            else:
                x = stage[0](F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.last(x)


class SpeechEncoder(nn.Module):
    """The encoder of Whisper-base: 30 s of 80 bands."""

    def __init__(self, size=512, heads=8, layers=6):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(80, size, 3, padding=1), nn.Conv1d(size, size, 3, 2, 1)
        self.positions = nn.Parameter(torch.randn(1500, size) * 0.02)
        self.blocks = nn.Sequential(*(Block(size, heads, 4 * size) for _ in range(layers)))
        self.norm = nn.LayerNorm(size)

    def forward(self, bands):
        x = F.gelu(self.conv2(F.gelu(self.conv1(bands)))).transpose(1, 2)
        return self.norm(self.blocks(x + self.positions))


class DetectionLayer(nn.Module):
    def __init__(self, size, decodes):
        super().__init__()
        self.own, self.cross = Attention(size, 8), Attention(size, 8) if decodes else None
        self.mlp = nn.Sequential(nn.Linear(size, 2048), nn.ReLU(), nn.Linear(2048, size))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(3))

    def forward(self, x, at, memory=None, memory_at=None):
        x = self.norms[0](x + self.own(x + at, x + at, x))
        if self.cross is not None:
            x = self.norms[1](x + self.cross(x + at, memory + memory_at, memory))
        return self.norms[2](x + self.mlp(x))


class DetectionHead(nn.Module):
    """DETR without its backbone: features of 2048 channels, 6 layers of an encoder and of a decoder, 100 queries."""

    def __init__(self, size=256, queries=100, pixels=25 * 34):
        super().__init__()
        self.into = nn.Conv2d(2048, size, 1)
        self.positions = nn.Parameter(torch.randn(1, pixels, size))
        self.queries = nn.Parameter(torch.randn(1, queries, size))
        self.encoder = nn.ModuleList(DetectionLayer(size, False) for _ in range(6))
        self.decoder = nn.ModuleList(DetectionLayer(size, True) for _ in range(6))
        self.norm, self.classes = nn.LayerNorm(size), nn.Linear(size, 92)
        self.boxes = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size), nn.ReLU(),
                                   nn.Linear(size, 4), nn.Sigmoid())

    def forward(self, features):
        memory = self.into(features).flatten(2).transpose(1, 2)
        for layer in self.encoder:
            memory = layer(memory, self.positions)
        x = torch.zeros_like(self.queries).expand(memory.shape[0], -1, -1)
        for layer in self.decoder:
            x = layer(x, self.queries, memory, self.positions)
        x = self.norm(x)
        return self.classes(x), self.boxes(x)


class SpeechLstm(nn.Module):
    def __init__(self, size=640, layers=5):
        super().__init__()
        self.lstm = nn.LSTM(80, size, layers, batch_first=True)
        self.out = nn.Linear(size, 1024)

    def forward(self, bands):
        return self.out(self.lstm(bands)[0])


class RootNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


# The decoder that bench/decoder_model.py writes in the operators of ONNX Runtime's own too.
LAYERS, SIZE, HEADS, KV_HEADS, DEPTH, INNER, VOCABULARY = 12, 768, 12, 4, 64, 2048, 32000


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda inputs, outputs: nn.Linear(inputs, outputs, bias=False)
        self.norm1, self.norm2 = RootNorm(SIZE), RootNorm(SIZE)
        self.q, self.k, self.v = linear(SIZE, HEADS * DEPTH), linear(SIZE, KV_HEADS * DEPTH), linear(SIZE, KV_HEADS * DEPTH)
        self.out = linear(HEADS * DEPTH, SIZE)
        self.gate, self.up, self.down = linear(SIZE, INNER), linear(SIZE, INNER), linear(INNER, SIZE)

    @staticmethod
    def turn(x, cos, sin):
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    def forward(self, x, cos, sin, past_k, past_v, place):
        y = self.norm1(x)
        apart = lambda rows, heads: rows.unflatten(-1, (heads, DEPTH)).transpose(1, 2)
        q = self.turn(apart(self.q(y), HEADS), cos, sin)
        k, v = self.turn(apart(self.k(y), KV_HEADS), cos, sin), apart(self.v(y), KV_HEADS)
        if place is None:
            k, v = torch.cat((past_k, k), 2), torch.cat((past_v, v), 2)
        else:  # a cache with room for more, which is changed in place
            past_k.index_copy_(2, place, k)
            past_v.index_copy_(2, place, v)
            k, v = past_k, past_v
        wide = lambda heads: heads.repeat_interleave(HEADS // KV_HEADS, 1)
        causal = x.shape[1] > 1
        y = F.scaled_dot_product_attention(q, wide(k), wide(v), is_causal=causal).transpose(1, 2).flatten(2)
        x = x + self.out(y)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v


class Decoder(nn.Module):
    """One step, or a prompt. in_place: the past has room for the new tokens, behind `past` positions."""

    def __init__(self, past, in_place=False):
        super().__init__()
        self.past, self.in_place = past, in_place
        self.embeddings = nn.Embedding(VOCABULARY, SIZE)
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(LAYERS))
        self.norm, self.head = RootNorm(SIZE), nn.Linear(SIZE, VOCABULARY, bias=False)
        angles = torch.arange(8192)[:, None] / 10000.0 ** (torch.arange(0, DEPTH, 2) / DEPTH)
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, input_ids, *past):
        x = self.embeddings(input_ids)
        end = self.past + input_ids.shape[1]
        place = torch.arange(self.past, end, device=x.device) if self.in_place else None
        cos, sin = self.cos[self.past:end], self.sin[self.past:end]
        present = []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, cos, sin, past[2 * i], past[2 * i + 1], place)
            present += [k, v]
        logits = self.head(self.norm(x[:, -1:]))
        return logits if self.in_place else (logits, *present)


def decoder(past, tokens=1, in_place=False):
    def make(batch):
        room = past + tokens if in_place else past
        ids = torch.randint(0, VOCABULARY, (batch, tokens))
        caches = [torch.randn(batch, KV_HEADS, room, DEPTH) for _ in range(2 * LAYERS)]
        names = [f"past_key_values.{i // 2}.{'key' if i % 2 == 0 else 'value'}" for i in range(2 * LAYERS)]
        return Decoder(past, in_place), (ids, *caches), ["input_ids", *names]
    return make


def of_images(make, side=224, channels=3, name="image"):
    def whole(batch):
        return make(), (torch.randn(batch, channels, *((side, side) if isinstance(side, int) else side)),), [name]
    return whole


NETWORKS = {
    "vit_b16": of_images(VisionTransformer),
    "swin_t": of_images(WindowedTransformer),
    "convnext_t": of_images(conv_next),
    "efficientnet_b0": of_images(efficient_net),
    "deeplab_v3": of_images(Segmentation, 512),
    "densenet121": of_images(dense_net),
    "diffusion_unet": lambda batch: (DiffusionStep(), (torch.randn(batch, 4, 64, 64), torch.rand(batch) * 900,
                                                       torch.randn(batch, 77, 768)), ["latent", "time", "context"]),
    "whisper_encoder": lambda batch: (SpeechEncoder(), (torch.randn(batch, 80, 3000),), ["bands"]),
    "detection_head": of_images(DetectionHead, (25, 34), 2048, "features"),
    "speech_lstm": lambda batch: (SpeechLstm(), (torch.randn(batch, 400, 80),), ["bands"]),
    "decoder_cat511": decoder(511),
    # What stands beside bench/decoder_model.py's models of the same name.
    "decoder_step511": decoder(511, in_place=True),
    "decoder_step4095": decoder(4095, in_place=True),
    "decoder_prompt512": decoder(0, 512, in_place=True),
}
