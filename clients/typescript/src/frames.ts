/** Messages in their stored form (docs/format.md), which is how producers send them: the broker copies these bytes. */
import { GoQueueError } from "./errors.js";

const HAS_HEADERS = 0x02;
const TOMBSTONE = 0x04;
const TRANSACTIONAL = 0x20;
const HEADER_BYTES = 34;
const DELAYED = 0x8000_0000;
const PRODUCER = Buffer.concat([Buffer.of(0, 10), Buffer.from("__producer"), Buffer.of(0, 18)]);
const KEY_BYTES_MAX = 65_535;
const HEADERS_BYTES_MAX = 65_535 - PRODUCER.length - 18;

const PRIORITIES = ["critical", "high", "normal", "low", "background"] as const;
export type Priority = (typeof PRIORITIES)[number];

export type Bytes = Uint8Array | string;

/** A message to be published. */
export interface OutgoingMessage {
  /** `null` deletes the key when the topic is compacted. */
  value: Bytes | null;
  /** Messages with the same key go to the same partition, in their order. */
  key?: Bytes;
  headers?: Record<string, Bytes>;
  partition?: number;
  priority?: Priority;
  /** Deliver it so much later, or at this time. */
  delayMs?: number;
  deliverAt?: Date;
}

/** The parts of a frame, before its offset and its producer are known. */
export interface Parts {
  key: Uint8Array;
  value: Uint8Array;
  /** Encoded, without their number. */
  headers: Buffer;
  headerCount: number;
  priority: number;
  flags: number;
}

const NOTHING = Buffer.alloc(0);

const TABLES = crcTables();

function crcTables(): Uint32Array[] {
  const tables = Array.from({ length: 8 }, () => new Uint32Array(256));
  const first = tables[0] as Uint32Array;
  for (let byte = 0; byte < 256; byte++) {
    let register = byte;
    for (let bit = 0; bit < 8; bit++) register = register & 1 ? (register >>> 1) ^ 0x82f63b78 : register >>> 1;
    first[byte] = register >>> 0;
  }
  for (let level = 1; level < 8; level++) {
    const [table, before] = [tables[level] as Uint32Array, tables[level - 1] as Uint32Array];
    for (let byte = 0; byte < 256; byte++) {
      const register = before[byte] as number;
      table[byte] = ((register >>> 8) ^ (first[register & 255] as number)) >>> 0;
    }
  }
  return tables;
}

/** CRC-32C of a range of bytes, eight at a time. */
export function crc32c(content: Uint8Array, start = 0, end = content.length): number {
  const [a, b, c, d, e, f, g, h] = TABLES as [Uint32Array, ...Uint32Array[]] as Uint32Array[];
  let register = 0xffffffff;
  let at = start;
  for (; at + 8 <= end; at += 8) {
    register =
      h![((content[at] as number) ^ register) & 255]! ^
      g![((content[at + 1] as number) ^ (register >>> 8)) & 255]! ^
      f![((content[at + 2] as number) ^ (register >>> 16)) & 255]! ^
      e![((content[at + 3] as number) ^ (register >>> 24)) & 255]! ^
      d![content[at + 4] as number]! ^
      c![content[at + 5] as number]! ^
      b![content[at + 6] as number]! ^
      a![content[at + 7] as number]!;
  }
  for (; at < end; at++) register = a![((content[at] as number) ^ register) & 255]! ^ (register >>> 8);
  return (register ^ 0xffffffff) >>> 0;
}

function bytes(given: Bytes): Uint8Array {
  return typeof given === "string" ? Buffer.from(given) : given;
}

function invalid(sentence: string, hint?: string): GoQueueError {
  return new GoQueueError("request_invalid", sentence, hint === undefined ? {} : { hint });
}

/** Check a message, and take it apart. */
export function partsOf(message: OutgoingMessage, sizeMax: number, transactional: boolean): Parts {
  const key = message.key === undefined ? NOTHING : bytes(message.key);
  if (message.value === null && key.length === 0) throw invalid("a tombstone needs a key");
  if (message.value === undefined) throw invalid("the message has no value", "null deletes a key; an empty value is \"\"");
  if (key.length > KEY_BYTES_MAX) throw invalid(`the key has ${key.length} bytes, ${KEY_BYTES_MAX} is the most`);
  const value = message.value === null ? NOTHING : bytes(message.value);
  const own = ownHeaders(message);
  const size = value.length + key.length + own.bytes.length;
  if (size > sizeMax) {
    throw new GoQueueError("message_too_large", `the message has ${size} bytes, the topic takes ${sizeMax}`, {
      hint: "send less, or raise max_message_bytes of the topic",
    });
  }
  const priority = PRIORITIES.indexOf(message.priority ?? "normal");
  if (priority < 0) throw invalid(`${String(message.priority)} is not a priority`, PRIORITIES.join(", "));
  const due = dueHeader(message);
  const flags = (message.value === null ? TOMBSTONE : 0) | (transactional ? TRANSACTIONAL : 0);
  const headers = due ? Buffer.concat([due, own.bytes]) : own.bytes;
  return { key, value, headers, headerCount: own.count + (due ? 1 : 0), priority, flags };
}

function ownHeaders(message: OutgoingMessage): { bytes: Buffer; count: number } {
  if (message.headers === undefined) return { bytes: NOTHING, count: 0 };
  const encoded: Buffer[] = [];
  for (const [name, value] of Object.entries(message.headers)) {
    if (name.startsWith("__")) throw invalid(`${JSON.stringify(name)} is not a header name: __ is reserved`);
    encoded.push(header(Buffer.from(name), bytes(value)));
  }
  const together = Buffer.concat(encoded);
  if (together.length > HEADERS_BYTES_MAX) {
    throw invalid(`the headers have ${together.length} bytes, ${HEADERS_BYTES_MAX} is the most`);
  }
  return { bytes: together, count: encoded.length };
}

function header(name: Uint8Array, value: Uint8Array): Buffer {
  if (name.length > 65_535 || value.length > 65_535) throw invalid("a header has more than 65,535 bytes");
  const [first, second] = [Buffer.alloc(2), Buffer.alloc(2)];
  first.writeUInt16BE(name.length);
  second.writeUInt16BE(value.length);
  return Buffer.concat([first, name, second, value]);
}

function dueHeader(message: OutgoingMessage): Buffer | undefined {
  if (message.delayMs === undefined && message.deliverAt === undefined) return undefined;
  if (message.delayMs !== undefined && message.deliverAt !== undefined) throw invalid("give delayMs or deliverAt");
  const ms = message.deliverAt === undefined ? (message.delayMs as number) : message.deliverAt.getTime();
  if (!Number.isFinite(ms) || ms < 0) throw invalid("the delivery time is not a time from now on");
  const value = Buffer.alloc(8);
  value.writeBigUInt64BE(BigInt(Math.round(ms)) * 1_000_000n);
  return header(Buffer.from(message.deliverAt === undefined ? "__deliver_in" : "__deliver_at"), value);
}

export function frameBytes(parts: Parts): number {
  return HEADER_BYTES + parts.key.length + parts.value.length + 2 + parts.headers.length;
}

/** The mark of a batch: its retries are known again by it. */
export interface Mark {
  producerId: number;
  epoch: number;
  sequence: number;
}

/** Return the frames of one partition as a section of a request, the first one with the mark. */
export function encodeSection(partition: number, delayed: boolean, messages: readonly Parts[], mark: Mark): Buffer {
  const mine = PRODUCER.length + 18;
  const size = messages.reduce((sum, one) => sum + frameBytes(one), mine);
  const section = Buffer.allocUnsafe(8 + size);
  section.writeUInt32BE((partition | (delayed ? DELAYED : 0)) >>> 0, 0);
  section.writeUInt32BE(size, 4);
  let at = 8;
  messages.forEach((one, index) => {
    at = writeFrame(section, at, one, index === 0 ? producerHeader(mark, messages.length) : NOTHING);
  });
  return section;
}

function producerHeader(mark: Mark, count: number): Buffer {
  const value = Buffer.alloc(18);
  value.writeBigInt64BE(BigInt(mark.producerId), 0);
  value.writeInt16BE(mark.epoch, 8);
  value.writeUInt32BE(mark.sequence, 10);
  value.writeUInt32BE(count, 14);
  return Buffer.concat([PRODUCER, value]);
}

function writeFrame(target: Buffer, start: number, parts: Parts, first: Buffer): number {
  const count = parts.headerCount + (first.length ? 1 : 0);
  const headers = 2 + first.length + parts.headers.length;
  target.fill(0, start, start + HEADER_BYTES);
  target[start] = 0x47;
  target[start + 1] = 0x51;
  target[start + 2] = 1;
  target[start + 3] = parts.flags | (count ? HAS_HEADERS : 0);
  target[start + 24] = parts.priority;
  target.writeUInt16BE(parts.key.length, start + 26);
  target.writeUInt32BE(parts.value.length, start + 28);
  target.writeUInt16BE(headers, start + 32);
  let at = start + HEADER_BYTES;
  target.set(parts.key, at);
  at += parts.key.length;
  target.set(parts.value, at);
  at += parts.value.length;
  target.writeUInt16BE(count, at);
  target.set(first, at + 2);
  target.set(parts.headers, at + 2 + first.length);
  at += headers;
  target.writeUInt32BE(crc32c(target, start, at), start + 4);
  return at;
}
