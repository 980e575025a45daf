package goqueue

import (
	"encoding/binary"
	"math/bits"
)

// hash chooses the partition of a key, as every other client of the broker does.
type hash func(key []byte) uint32

func hashNamed(name string) (hash, error) {
	switch name {
	case "murmur3":
		return murmur3, nil
	case "murmur2":
		return murmur2, nil
	default:
		failure := invalid("the partitioner %q of the topic is not known here", name)
		failure.Hint = "update this client"
		return nil, failure
	}
}

func partitionOf(key []byte, partitions int32, hash hash) int32 {
	return int32(hash(key)&0x7fffffff) % partitions
}

// murmur3 is MurmurHash3, x86, 32 bits, seed 0: the default.
func murmur3(key []byte) uint32 {
	var state uint32
	whole := len(key) &^ 3
	for at := 0; at < whole; at += 4 {
		state ^= mixed(binary.LittleEndian.Uint32(key[at:]))
		state = bits.RotateLeft32(state, 13)*5 + 0xe6546b64
	}
	if whole < len(key) {
		state ^= mixed(rest(key[whole:]))
	}
	state ^= uint32(len(key))
	state = (state ^ state>>16) * 0x85ebca6b
	state = (state ^ state>>13) * 0xc2b2ae35
	return state ^ state>>16
}

func mixed(given uint32) uint32 {
	return bits.RotateLeft32(given*0xcc9e2d51, 15) * 0x1b873593
}

// murmur2 is MurmurHash2 as Kafka's clients compute it.
func murmur2(key []byte) uint32 {
	const factor = 0x5bd1e995
	state := 0x9747b28c ^ uint32(len(key))
	whole := len(key) &^ 3
	for at := 0; at < whole; at += 4 {
		found := binary.LittleEndian.Uint32(key[at:]) * factor
		state = state*factor ^ (found^found>>24)*factor
	}
	if whole < len(key) {
		state = (state ^ rest(key[whole:])) * factor
	}
	state = (state ^ state>>13) * factor
	return state ^ state>>15
}

func rest(key []byte) uint32 {
	var found uint32
	for at := len(key) - 1; at >= 0; at-- {
		found = found<<8 | uint32(key[at])
	}
	return found
}
