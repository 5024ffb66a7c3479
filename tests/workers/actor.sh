#!/bin/sh
# Plays a worker for the tests of src/exec/process.rs: `actor.sh worker --root R --run D --attempt K …`. The number of
# the attempt says which part.
attempt=$5/attempt-$7
case $7 in
1) echo '{"event":"warning","at":1,"message":"hello"}'; echo 'not an event'; exit 75 ;;
2) mkdir "$attempt"; echo 'panicked at engine.rs:7: no' > "$attempt/log.txt"; exit 101 ;;
3) kill -9 $$ ;;
4) read -r line; mkdir "$attempt"
   printf '{"event":"finished","at":1,"outcome":{"outcome":"interrupted","step":%d}}\n' ${#line} > "$attempt/events.jsonl"
   exit 130 ;;
5) cat > /dev/null; exit 1 ;;
6) sleep 600 & echo "{\"event\":\"warning\",\"at\":$$,\"message\":\"ready\"}"; wait ;;
7) echo '{"event":"finished","at":1,"outcome":{"outcome":"failed","why":"no space left","retry":false}}'; exit 5 ;;
8) echo "{\"event\":\"warning\",\"at\":$RAYON_NUM_THREADS,\"message\":\"$9, sees $CUDA_VISIBLE_DEVICES in $CUDA_DEVICE_ORDER\"}"
   exit 75 ;;
9) sleep 600 & echo "{\"event\":\"warning\",\"at\":$$,\"message\":\"ready\"}"; exit 1 ;;
10) setsid sh -c 'echo "{\"event\":\"warning\",\"at\":$$,\"message\":\"away\"}"; : > "$0"; exec sleep 600' "$5/away" &
    until [ -e "$5/away" ]; do sleep 0.01; done
    exit 1 ;;
11) mkdir "$attempt"; printf 'memory allocation of 4096 bytes failed\nstack backtrace:\n' > "$attempt/log.txt"; kill -ABRT $$ ;;
12) mkdir "$attempt"; echo 'free(): invalid pointer' > "$attempt/log.txt"; kill -ABRT $$ ;;
esac
