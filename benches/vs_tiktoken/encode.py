"""tiktoken's side of vs_tiktoken: encodes a file when told to, and says how many seconds that took.

    encode.py RANKS FILE THREADS OUT

RANKS has a token of GPT-2 a line: its bytes in hex, in the order of their ids. The vocabulary that tiktoken would download
is the same; a last turn writes the tokens to OUT, so that they can be compared.
"""

import sys
import time

import tiktoken

ranks_path, file_path, threads, out_path = sys.argv[1:]
threads = int(threads)
with open(ranks_path) as ranks:
    ranks = {bytes.fromhex(line.strip()): rank for rank, line in enumerate(ranks)}
# The pattern that tiktoken 0.9 and later has for gpt2.
pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
encoding = tiktoken.Encoding(
    "gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256}
)
with open(file_path, encoding="utf-8", newline="") as file:
    text = file.read()


def parts(text, size=1 << 16):
    """The text in parts whose tokens are those of the whole: before a single space."""
    start = 0
    while start < len(text):
        end = start + size
        while end < len(text) and not (text[end] == " " and not text[end + 1 : end + 2].isspace()):
            end += 1
        yield text[start:end]
        start = end


def encode():
    if threads == 1:
        return [encoding.encode_ordinary(text)]
    return encoding.encode_ordinary_batch(texts, num_threads=threads)


texts = list(parts(text)) if threads > 1 else []
for line in sys.stdin:
    begun = time.perf_counter()
    tokens = encode()
    print(time.perf_counter() - begun, flush=True)
    if line.strip() == "write":
        import array

        with open(out_path, "wb") as out:
            for part in tokens:
                out.write(array.array("H", part).tobytes())
        print("written", flush=True)
    del tokens
