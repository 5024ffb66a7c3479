"""The other side of the comparison of decoding: the same GPT-2 in Hugging Face's transformers, whose `generate` writes
with a cache of keys and values.

Arguments: layers heads d_model context vocab threads. Each line on standard input, a number of tokens, is answered by a
line with the milliseconds of each, which is that of all divided by their number; the last line of all is the peak resident
memory in KiB.
"""

import resource
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

LAYERS, HEADS, D, T, V, THREADS = map(int, sys.argv[1:7])
TEXT = 200  # tokens of one text, as on the other side


def main():
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    config = GPT2Config(n_layer=LAYERS, n_head=HEADS, n_embd=D, n_positions=T, vocab_size=V, bos_token_id=0, eos_token_id=None)
    model = GPT2LMHeadModel(config).eval()
    prompt = torch.arange(8)[None]
    mask = torch.ones_like(prompt)
    for line in sys.stdin:
        if not line.strip():
            break
        tokens = left = int(line)
        begin = time.perf_counter()
        while left > 0:
            now = min(left, TEXT)
            with torch.inference_mode():
                out = model.generate(
                    prompt, attention_mask=mask, min_new_tokens=now, max_new_tokens=now, do_sample=True, pad_token_id=0
                )
            assert out.shape == (1, 8 + now)
            left -= now
        each = (time.perf_counter() - begin) * 1e3 / tokens
        print(f"{each:.4f}", flush=True)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, flush=True)


main()
