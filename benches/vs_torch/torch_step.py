"""The other side of the comparison: the same model as nanoGPT writes it, trained by PyTorch in eager mode.

Arguments: layers heads d_model context batch vocab dropout threads. Each line on standard input, a number of steps, is
answered by a line with the milliseconds of each; the last line of all is the peak resident memory in KiB.
"""

import math
import resource
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HEADS, D, T, B, V = map(int, sys.argv[1:7])
DROPOUT, THREADS = float(sys.argv[7]), int(sys.argv[8])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.c_attn, self.c_proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.c_fc, self.mlp_proj = nn.Linear(D, 4 * D), nn.Linear(4 * D, D)
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (p.view(b, t, HEADS, D // HEADS).transpose(1, 2) for p in self.c_attn(self.ln_1(x)).split(D, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=DROPOUT if self.training else 0.0, is_causal=True)
        x = x + self.drop(self.c_proj(y.transpose(1, 2).contiguous().view(b, t, D)))
        return x + self.drop(self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(V, D), nn.Embedding(T, D)
        self.drop = nn.Dropout(DROPOUT)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(D)
        self.head = nn.Linear(D, V, bias=False)
        self.head.weight = self.wte.weight
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02 / (math.sqrt(2 * LAYERS) if name.endswith("proj.weight") else 1))

    def forward(self, x, y):
        h = self.drop(self.wte(x) + self.wpe(torch.arange(x.shape[1])))
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(self.ln_f(h)).view(-1, V), y.view(-1))


def main():
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    model = GPT().train()
    decay = [p for p in model.parameters() if p.dim() >= 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))
    text = torch.randint(V, (100_000,))
    for line in sys.stdin:
        if not line.strip():
            break
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            ix = torch.randint(len(text) - T - 1, (B,))
            x = torch.stack([text[i : i + T] for i in ix])
            y = torch.stack([text[i + 1 : i + 1 + T] for i in ix])
            loss = model(x, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            loss.item()
            times.append(f"{(time.perf_counter() - start) * 1e3:.3f}")
        print(*times, flush=True)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)


main()
