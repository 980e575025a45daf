/** The partition of a key: the same as every other client of the broker chooses. */
import { GoQueueError } from "./errors.js";

export type Hash = (key: Uint8Array) => number;

/** MurmurHash3, x86, 32 bits, seed 0: the default. */
export function murmur3(key: Uint8Array): number {
  let state = 0;
  const whole = key.length & ~3;
  for (let at = 0; at < whole; at += 4) {
    state ^= mixed(word(key, at));
    state = (Math.imul((state << 13) | (state >>> 19), 5) + 0xe6546b64) | 0;
  }
  let rest = 0;
  for (let at = key.length - 1; at >= whole; at--) rest = (rest << 8) | (key[at] as number);
  if (whole < key.length) state ^= mixed(rest);
  state ^= key.length;
  state = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
  state = Math.imul(state ^ (state >>> 13), 0xc2b2ae35);
  return (state ^ (state >>> 16)) >>> 0;
}

function mixed(given: number): number {
  const found = Math.imul(given, 0xcc9e2d51);
  return Math.imul((found << 15) | (found >>> 17), 0x1b873593);
}

/** MurmurHash2 as Kafka's clients compute it. */
export function murmur2(key: Uint8Array): number {
  const factor = 0x5bd1e995;
  let state = 0x9747b28c ^ key.length;
  const whole = key.length & ~3;
  for (let at = 0; at < whole; at += 4) {
    let found = Math.imul(word(key, at), factor);
    found = Math.imul(found ^ (found >>> 24), factor);
    state = Math.imul(state, factor) ^ found;
  }
  let rest = 0;
  for (let at = key.length - 1; at >= whole; at--) rest = (rest << 8) | (key[at] as number);
  if (whole < key.length) state = Math.imul(state ^ rest, factor);
  state = Math.imul(state ^ (state >>> 13), factor);
  return (state ^ (state >>> 15)) >>> 0;
}

function word(key: Uint8Array, at: number): number {
  return (
    (key[at] as number) | ((key[at + 1] as number) << 8) | ((key[at + 2] as number) << 16) | ((key[at + 3] as number) << 24)
  );
}

export function hashFunction(name: string): Hash {
  if (name === "murmur3") return murmur3;
  if (name === "murmur2") return murmur2;
  throw new GoQueueError("request_invalid", `the partitioner ${JSON.stringify(name)} of the topic is not known here`, {
    hint: "update this client",
  });
}

export function partitionOf(key: Uint8Array, partitions: number, hash: Hash): number {
  return (hash(key) & 0x7fffffff) % partitions;
}
